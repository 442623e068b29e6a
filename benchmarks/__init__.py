"""Measurements: ratios against named peers and against what the memory can do. Nothing here is part of the package."""
