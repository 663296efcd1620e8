"""Random problems within a cosine of given weights, and their least losses by enumeration and library routines."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from scipy.optimize import linprog, nnls
from strategies import Lists, remembered

from lpmert.errors import FloatArray

COSINES = (0.2, 0.6, 0.84, 0.95, 0.99, 0.9999)


def random_case(seed: int) -> tuple[Lists, FloatArray, float]:
    rng = np.random.default_rng(seed)
    width, n_lists, size = int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    features = rng.normal(size=(n_lists * size, width))
    if seed % 3 == 0:
        features = rng.integers(-3, 4, features.shape) + 0.25 * (np.arange(len(features)) % size == 0)[:, None]
    offsets = np.arange(0, n_lists * size + 1, size)
    lists = Lists(features, offsets, rng.integers(0, 7, len(features)).astype(float))
    return lists, rng.normal(size=width), COSINES[seed % len(COSINES)]


def reaches(rows: FloatArray, centre: FloatArray, cosine: float) -> bool:
    """Whether an open cone {rows w > 0} has weights within the cosine, by library routines only."""
    width = rows.shape[1]
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if not norms.all():
        return False
    rows = rows / norms
    program = linprog(
        np.append(np.zeros(width), -1.0),
        A_ub=np.column_stack([-rows, np.ones(len(rows))]),
        b_ub=np.zeros(len(rows)),
        bounds=[(-1, 1)] * width + [(None, 1)],
    )
    if -program.fun < 1e-9:
        return False
    multipliers, _ = nnls(rows.T, -centre)
    return float(np.linalg.norm(centre + multipliers @ rows)) >= cosine


def best_within(lists: Lists, centre: FloatArray, cosine: float, loss: Callable[[FloatArray], float] = float) -> float:
    """The least loss of a selection attainable within the cosine, by enumeration; loss: of summed statistics.

    Of hypotheses with identical features the first stands for all.
    """
    found: float = remembered(_best_within, lists, centre, cosine, loss)
    return found


def _best_within(lists: Lists, centre: FloatArray, cosine: float, loss: Callable[[FloatArray], float]) -> float:
    unit = centre / np.linalg.norm(centre)
    choices = list(product(*(range(a, b) for a, b in lists.ranges())))
    for choice in sorted(choices, key=lambda c: loss(lists.losses[list(c)].sum(axis=0))):
        rows = [
            lists.features[i] - lists.features[j]
            for i, (a, b) in zip(choice, lists.ranges(), strict=True)
            for j in range(a, b)
            if j < i or (lists.features[j] != lists.features[i]).any()
        ]
        if not rows or reaches(np.array(rows), unit, cosine):
            return loss(lists.losses[list(choice)].sum(axis=0))
    raise AssertionError("no selection reaches the cap")


def around(lists: Lists, centre: FloatArray) -> dict[str, float]:
    return dict(zip(lists.nbest.names, centre.tolist(), strict=True))
