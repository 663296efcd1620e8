"""The benchmarks by name; each module of this package defines one, BENCHMARK."""

from __future__ import annotations

from importlib import import_module

from benchmarks.harness import Benchmark

NAMES = (
    "quick",
    "targets",
    "rivals",
    "best",
    "classification",
    "growth",
    "lines",
    "ablation",
    "published",
    "switches",
    "four",
    "hull",
    "subsets",
    "sizes",
    "cosine",
    "beam",
    "whole",
    "stability",
    "risk",
    "annealing",
    "msr",
    "adaptation",
    "unseen",
    "features",
    "lattices",
    "scale",
)
"""In the order of the report."""


def benchmark(name: str) -> Benchmark:
    """Return the benchmark of this name."""
    found: Benchmark = import_module(f"benchmarks.suites.{name}").BENCHMARK
    return found
