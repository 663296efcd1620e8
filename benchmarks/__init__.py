"""Measurements of lpmert against other programs; `python -m benchmarks.floor --help`."""
