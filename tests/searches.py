"""Helpers that start searches and watch them."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from lpmert.methods import Search
from lpmert.model.canonical import Canonical
from lpmert.registry import METHODS

FRACTIONS = tuple(n for n in METHODS.own if n != "sweep" and getattr(METHODS.find(n), "takes_fractions", False))
"""Methods that prove the least fraction of sums, and the least sum, over any number of features."""
RATIOS = tuple(name for name in FRACTIONS if METHODS.find(name).takes_ratios)  # the same for any metric
SUMS = (*FRACTIONS, "mip")  # all methods that find the least sum and a bound


def many_more(*values: object) -> Any:
    """Parameters of a test that only the slow tier runs."""
    return pytest.param(*values, marks=pytest.mark.slow)


@contextmanager
def short_descent(*, one: bool = False) -> Iterator[None]:
    """Cut short the descents that find first weights, so that exact methods have to search.

    one: a single descent, also for metrics that are not additive.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lpmert.search.incumbent.DEFAULT_BUDGET", 200)
        if one:
            patch.setattr("lpmert.search.incumbent._RATIO_BUDGET", (0, 1, 1))
        yield


def peak_of(work: Callable[[], object]) -> int:
    """Return the peak memory of some work beyond what was held before, in bytes of Python and numpy."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def two_processes() -> Any:
    """Start a Dask cluster of two processes."""
    distributed = pytest.importorskip("distributed", reason="needs lpmert[dask]")
    return distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    )


def timeless(found: Any) -> Any:
    """Return results without times and trace, which differ from run to run."""
    if isinstance(found, dict):
        return {key: timeless(own) for key, own in found.items() if not key.startswith("seconds") and key != "trace"}
    return [timeless(own) for own in found] if isinstance(found, list) else found


def assert_closes_on(optimum: float, search: Search, form: Canonical) -> None:
    """Run a search to its end; assert that bounds never fall, losses never rise, and both end at the optimum."""
    bounds, losses = [], []
    while not search.finished:
        search.advance()
        bounds.append(form.loss_of(search.lower_bound))
        losses.append(form.loss_of(search.incumbent.cost))
    assert all(a <= b for a, b in pairwise(bounds))
    assert all(a >= b for a, b in pairwise(losses))
    assert max(bounds) <= optimum <= min(losses)
    assert bounds[-1] == losses[-1] == optimum
