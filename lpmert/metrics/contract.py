"""Which metric a name or columns of statistics stand for, the units of its losses, and checks of its contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np

from lpmert.errors import FloatArray, IntArray, MetricError
from lpmert.metrics.base import AdditiveMetric, Cer, Metric, RatioMetric, SumOfLosses, Wer, ZeroOne
from lpmert.metrics.ratio import Bleu, Chrf, LinearFraction, error_rate, f_beta
from lpmert.quoting import Unit, listed, quoted, shortened, visible
from lpmert.registry import (
    BLEU_COLUMNS,
    ERROR_COLUMNS,
    F_COLUMNS,
    METRICS,
    TER_COLUMNS,
    TEXT_METRICS,
    chrf_orders,
)

ACCURACY, ERROR_RATE = "accuracy", "error_rate"


def rates_of(metric: Metric, statistics: FloatArray, offsets: IntArray, loss: float) -> Mapping[str, float]:
    """Return a loss as rates by name: accuracy if hypotheses are right or wrong, or an error rate.

    statistics [M, K]: of all hypotheses; offsets [S + 1]: of the lists. Empty if the divisor is unknown.
    """
    if isinstance(metric, Wer):
        length = float(statistics[offsets[:-1], 1].sum())  # the same for all hypotheses of a list
        return {ERROR_RATE: loss / length} if length else {}
    if isinstance(metric, LinearFraction) and not metric.higher_is_better:
        return {ERROR_RATE: loss}
    if isinstance(metric, SumOfLosses) and ((statistics == 0) | (statistics == 1)).all():
        return {ACCURACY: 1.0 - loss / (len(offsets) - 1)}
    return {}


_LONGEST_NAME = 40
_NAMES = {"loss": "loss", "error-rate": "error rate", "ter": "TER", "wer": "WER", "cer": "CER", "chrf": "chrF"}


def unit_of(metric: Metric, names: Sequence[str], rates: Mapping[str, float], n_lists: int) -> Unit:
    """Return the unit of a metric's losses; names: of the statistics; rates: `rates_of` the loss 1."""
    known = _NAMES.get(metric.name, metric.name.upper())
    if isinstance(metric, Bleu | Chrf):
        return Unit(known, -100.0, 100.0)
    if isinstance(metric, Wer) and ERROR_RATE in rates:
        return Unit(known, rates[ERROR_RATE], percent=True, counts="errors")
    if ERROR_RATE in rates:
        return Unit(known, percent=True)
    if isinstance(metric, LinearFraction):
        return Unit(known, -1.0, 1.0)
    if ACCURACY in rates:
        return Unit("accuracy", -1.0 / n_lists, 1.0, percent=True, counts="wrong")
    if not isinstance(metric, SumOfLosses):
        return Unit(_NAMES["loss"])
    name = shortened(visible(names[0]), _LONGEST_NAME)
    if name.startswith("-"):
        return Unit(name[1:], -1.0)
    share = name.removeprefix("1 - ")
    return Unit(name) if share == name else Unit(f"mean {share}", -1.0 / n_lists, 1.0)


def metric_by_name(metric: str | Metric) -> Metric:
    """Return the metric of this name or at this `module:Class`; a metric is returned as it is."""
    found = metric
    if isinstance(metric, str):
        if metric in TEXT_METRICS and metric not in METRICS.own:
            remedy = f"give references (--references), or for lists with counts one of {listed(METRICS.names())}"
            raise MetricError(f"metric {quoted(metric)} is counted from texts; {remedy}")
        found = METRICS.build(metric)
    if isinstance(found, type):
        raise MetricError(f"metric is the class {found.__name__}; pass an object of it, such as {found.__name__}()")
    if not isinstance(found, Metric):
        raise MetricError(f"metric must be a name or have name, signature, check, loss and score; got {quoted(metric)}")
    return found


def metric_of(metric: str | Metric | None, names: Sequence[str]) -> Metric:
    """Return `metric_by_name`, or for `None` the metric that the names of the statistics imply.

    F of match, predicted and gold is F1. Errors and lengths of references are an error rate, even if lengths are equal
    within lists: the unit of a loss must not depend on the numbers in a file, and the optimum, and the nodes it takes,
    are those of the sum of errors. For that sum itself, give one column, or name "wer".
    """
    columns = tuple(names)
    if metric is not None:
        return metric_by_name(metric)
    if len(columns) == 1:
        return SumOfLosses()
    known: dict[tuple[str, ...], Callable[[], Metric]] = {
        BLEU_COLUMNS: Bleu,
        F_COLUMNS: f_beta,
        ERROR_COLUMNS: error_rate,
        TER_COLUMNS: lambda: LinearFraction("ter", columns, (1, 0, 0), (0, 1, 0), higher_is_better=False),
    }
    if columns in known:
        return known[columns]()
    if (orders := chrf_orders(columns)) is None:
        remedy = "name their --metric, such as wer, or choose one with --loss (in Python metric= or loss=)"
        raise MetricError(f"the lists have the statistics {listed(names)}: {remedy}")
    return Chrf(*orders)


def check_statistics(metric: Metric, statistics: FloatArray, offsets: IntArray) -> None:
    metric.check(statistics)
    if isinstance(metric, Wer):
        metric.check_lengths(statistics, offsets)


_SELECTIONS = 100
_OWN_SUMS = (SumOfLosses, ZeroOne, Wer, Cer)

_ADDING_UP = 1e-9
"""Relative error allowed between a sum of losses and the loss of the sums: far above rounding, far below a mistake."""


def check_metric(metric: Metric, statistics: FloatArray, offsets: IntArray) -> None:
    """Raise `MetricError` if a metric breaks its contract on a selection: statistics [M, K], offsets [S + 1].

    An additive loss must add up, because proofs rely on it, and every loss must be finite. The metrics of this package
    need no test.
    """
    if isinstance(metric, RatioMetric) or type(metric) in _OWN_SUMS:
        return
    name, each = f"metric {quoted(metric.name)}", None
    if isinstance(metric, AdditiveMetric):
        each = np.asarray(metric.losses(statistics), dtype=np.float64)
        if each.shape != (len(statistics),) or not np.isfinite(each).all():
            raise MetricError(f"{name}: losses must return a finite number for each of {len(statistics)} hypotheses")
    rng, sizes = np.random.default_rng(0), np.diff(offsets)
    drawn = (offsets[:-1] + rng.integers(sizes) for _ in range(_SELECTIONS))
    for rows in chain([offsets[:-1], offsets[1:] - 1], drawn):
        total = statistics[rows].sum(axis=0)
        loss = float(metric.loss(total))
        if each is None:
            if not np.isfinite(loss):
                raise MetricError(f"{name}, summed statistics {total.tolist()}: its loss must be a finite number")
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            summed, size = each[rows].sum(), np.abs(each[rows]).sum() + abs(loss)
        if np.isfinite(summed) and not abs(summed - loss) <= _ADDING_UP * size:
            sums = f"losses of hypotheses add up to {summed:g}, and the loss of their summed statistics is {loss:g}"
            raise MetricError(f"{name} is not additive: {sums}; omit `losses`, or make them add up")
