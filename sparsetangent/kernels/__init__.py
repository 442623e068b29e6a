"""The ground floor: kernels on plain arrays, one file a backend. `base` is their contract."""
