"""Heuristics from the literature and today's optimisers, to be judged by their distance to the proved optimum."""

from __future__ import annotations

from collections.abc import Mapping

COMPARATORS: Mapping[str, str] = {
    "och": "lpmert.comparators.och:Och",
    "grid": "lpmert.comparators.grid:Grid",
    "random": "lpmert.comparators.random_search:RandomSearch",
    "nelder-mead": "lpmert.comparators.simplex:NelderMead",
    "tpe": "lpmert.comparators.tpe:Tpe",
    "annealing": "lpmert.comparators.annealing:Annealing",
    "likelihood": "lpmert.comparators.likelihood:Likelihood",
    "msr": "lpmert.comparators.msr:MinimumSampleRisk",
    "perceptron": "lpmert.comparators.perceptron:Perceptron",
    "boosting": "lpmert.comparators.boosting:Boosting",
    "pro": "lpmert.comparators.pairwise:Pro",
    "mira": "lpmert.comparators.mira:Mira",
}
"""Names of the comparators, and where their classes are."""
