"""Faults planted in the library one at a time, each of which the suite must catch: ``make mutants``."""
