"""The fewest wrong 0-1 predictions of a linear model, beside the methods of two other fields.

Sources: K. Florios and S. Skouras, Exact Computation of Max Weighted Score Estimators, Journal of Econometrics 146,
2008, equations 5 to 8; X. He and M. A. Little, An efficient, provably exact, practical algorithm for the 0-1 loss
linear classification problem, 2023 (incremental cell enumeration).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np
import pulp

from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Dataset, Objective, Solver, Task
from benchmarks.lists import by_method, loss
from benchmarks.rows import Row, find
from benchmarks.sources import source_of
from benchmarks.tables import Table, number, seconds
from lpmert.errors import FloatArray
from lpmert.methods.auto import Auto
from lpmert.methods.direct_search import Och
from lpmert.model.nbest import NBest

TIME_LIMIT = 20.0
SIZES = (25, 50, 100, 200)  # numbers of cases of the train trips, the first ones; all of them are measured, too
LARGEST_COEFFICIENT = 10.0  # limit of all coefficients but the first, which is 1 or -1, as Florios and Skouras have it

_BLOCK = 1 << 12
_VANISHED = 1e-9


def differences(lists: NBest) -> tuple[FloatArray, FloatArray]:
    """Return features of the right hypothesis minus those of the wrong one, for lists of two, and their factors.

    The differences [S, D] are scaled to unit deviation by the factors [D].
    """
    features, wrong = lists.dense_features(), lists.statistics[:, 0] > 0
    rows = features[np.flatnonzero(~wrong)] - features[np.flatnonzero(wrong)]
    scales = 1.0 / np.maximum(rows.std(axis=0), 1e-300)
    return np.asarray(rows * scales), np.asarray(scales)


def maximum_score(data: NBest, _objective: Objective, _seed: int, time_limit: float) -> Answer:
    """Solve the program of Florios and Skouras by HiGHS: z of a case is 1 only if its right alternative is no worse.

    There is one program for the first coefficient 1 and one for -1, with features of unit deviation; the better answer
    counts. Ties count as right, and weights are within a box: its claim is no bound for all weights.
    """
    end = time.monotonic() + time_limit
    rows, scales = differences(data)
    best: FloatArray | None = None
    claim, ended = len(rows), True
    for sign in (1.0, -1.0):
        program = pulp.LpProblem("score", pulp.LpMaximize)
        others = [pulp.LpVariable(f"b{d}", -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT) for d in range(1, rows.shape[1])]
        right = [pulp.LpVariable(f"z{s}", cat="Binary") for s in range(len(rows))]
        program += pulp.lpSum(right)
        reach = np.abs(rows[:, 0]) + LARGEST_COEFFICIENT * np.abs(rows[:, 1:]).sum(axis=1)
        for row, most, z in zip(rows.tolist(), reach.tolist(), right, strict=True):
            utility = pulp.lpSum([sign * row[0], *(x * w for x, w in zip(row[1:], others, strict=True))])
            program += utility >= most * (z - 1)
        program.solve(pulp.HiGHS(msg=False, timeLimit=max(0.1, end - time.monotonic()), threads=1))
        ended = ended and program.sol_status == pulp.LpSolutionOptimal
        if right[0].value() is None:
            continue
        errors = len(rows) - round(sum(z.value() or 0.0 for z in right))
        if best is None or errors < claim:
            claim, best = errors, np.array([sign, *(w.value() or 0.0 for w in others)]) * scales
    return Answer(best, "optimal to tolerance" if ended else "time limit", details={"claim": claim})


def enumerate_cells(data: NBest, _objective: Objective, _seed: int, time_limit: float) -> Answer:
    """Enumerate as He and Little do, without pruning: every D - 1 cases span a plane, and may go either way.

    The normal of each plane is scored on all cases, with both signs; the cases that span it count as right.
    """
    end = time.monotonic() + time_limit
    rows, scales = differences(data)
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    axes = axes[sizes > _VANISHED * sizes[0]]  # linearly dependent features span no plane
    rows = rows @ axes.T
    n, d = rows.shape
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-300)[:, None]
    best, weights, scored, ended = n, np.ones(d), 0, False
    planes = combinations(range(n), d - 1)
    while time.monotonic() < end:
        block = np.array(list(islice(planes, _BLOCK)))
        if not len(block):
            ended = True
            break
        spans = rows[block]
        normals = np.linalg.svd(spans)[2][:, -1]
        scores = normals @ rows.T
        scores[np.abs(scores) < _VANISHED] = 0.0
        np.put_along_axis(scores, block, np.inf, axis=1)
        for sign in (1.0, -1.0):
            errors = (np.where(np.isinf(scores), 1.0, sign * scores) <= 0.0).sum(axis=1)
            found = int(errors.argmin())
            if errors[found] < best:
                best = int(errors[found])
                weights = _inside(sign * normals[found], spans[found])
        scored += len(block)
    status = "optimal" if ended else "time limit"
    return Answer(weights @ axes * scales, status, None, {"planes": scored}, {"claim": best})


def _inside(normal: FloatArray, span: FloatArray) -> FloatArray:
    """Return weights next to the normal [D] of a plane, at which the cases [D - 1, D] that span it are right."""
    step = np.linalg.lstsq(span, np.ones(len(span)), rcond=None)[0]
    return np.asarray(normal + 1e-7 * step)


def _not_pairs(data: NBest, _: Objective) -> str | None:
    return None if (np.diff(data.offsets) == 2).all() else "more than two alternatives a case"


SOLVERS = (
    by_method(Auto(), "auto"),
    by_method(Och(directions="powell", restarts=20), "Powell, 20 restarts"),
    Solver("maximum score program (Florios and Skouras), HiGHS", maximum_score, skip=_not_pairs),
    Solver("enumeration of cells (He and Little)", enumerate_cells, skip=_not_pairs),
)


def _generated(size: int) -> Dataset:
    """Return cases of two with four features; hidden weights and noise decide which one is right."""

    def right(pairs: NBest) -> NBest:
        errors = pairs.statistics.reshape(-1, 2)
        first = errors[:, 0] <= errors[:, 1]
        return pairs.changed(statistics=np.column_stack([~first, first]).reshape(-1, 1).astype(float))

    pairs = datasets.generated(size, 2, 4)
    return pairs.then(f"{pairs.name}, 0-1", right)


TRIPS = source_of("train trips")
DATASETS = (
    *(datasets.part(TRIPS, slice(0, size), f"train trips, first {size}") for size in SIZES),
    TRIPS,
    *(_generated(size) for size in (50, 200, 1000)),
    *(source_of(name) for name in ("heating", "heating and cooling", "travel modes")),
)


def tasks() -> Iterator[Task]:
    """Yield every set with every solver that takes it."""
    for dataset in DATASETS:
        for solver in SOLVERS:
            yield Task(dataset, loss(), solver, 0, TIME_LIMIT)


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield a line for each set and solver."""
    body = []
    for dataset in DATASETS:
        for row in find(rows, dataset=dataset.name):
            if row.loss is None:
                continue
            claim = row.details.get("claim")
            body.append(
                [
                    dataset.name,
                    row.solver,
                    row.status,
                    number(row.loss, 7),
                    number(row.lower_bound, 7),
                    "" if claim is None else number(claim, 7),
                    seconds(row.seconds),
                ]
            )
    note = (
        "Wrong cases, counted by decoding the weights that each solver returns, ties as the first alternative has it; "
        "`claimed` is what it says itself: the program counts ties as right, and keeps all but the first coefficient "
        f"within {LARGEST_COEFFICIENT:g}, features of unit deviation. The enumeration takes for granted that no more "
        f"cases lie on a plane than span it. At most {TIME_LIMIT:g} s each."
    )
    headings = ("cases", "solver", "status", "wrong", "bound", "claimed", "seconds")
    yield Table("The fewest wrong predictions", headings, body, note, left=3)


BENCHMARK = Benchmark("classification", "0-1 classification and discrete choice", tasks, render)
