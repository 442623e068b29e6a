"""The official array API test suite on tangents: ``python -m tests.conformance --suite PATH``."""
