"""Every way to stop early leaves weights, their loss and a valid bound; and nothing depends on when one looks.

Limits of time are held to processor time: other processes leave that alone, and the threads of linear algebra are not
in it. `test_methods.py` stops searches on every kind of problem.
"""

import json
import os
import resource
import signal
import sys
import time
from dataclasses import replace
from fractions import Fraction
from itertools import chain, count, pairwise, repeat
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from commands import python
from oracle import Lists
from problems import gaussian_lists, random_nbest
from searches import RATIOS, SUMS, many_more, peak_of

import lpmert
from lpmert import NBest, Result, Status, limits
from lpmert.formats.format import read_npz
from lpmert.formats.tables import write_table
from lpmert.limits import Deadline, Interrupts, OutOfTime, heeding
from lpmert.lines import Descents
from lpmert.methods.cells import Cells
from lpmert.methods.mip import Mip
from lpmert.model.problem import Problem
from lpmert.search.incumbent import first_incumbent
from lpmert.search.report import bound_on_loss

HARD = gaussian_lists(0, lists=60, hypotheses=30, features=8)
MEDIUM = gaussian_lists(0, lists=14, hypotheses=8, features=4)


def assert_sound(result: Result, lists: Lists) -> None:
    """The loss is that of the weights, the bound is below it, and the trace only ever closes."""
    assert result.loss == Problem(lists.nbest).evaluate(result.weights).loss
    cheapest = sum(lists.losses[begin:end].min() for begin, end in lists.ranges())
    assert cheapest <= result.lower_bound <= result.loss
    assert result.trace
    for (t0, bound0, loss0), (t1, bound1, loss1) in pairwise(result.trace):
        assert t0 <= t1
        assert bound0 <= bound1 <= loss1 <= loss0
    if result.tied_lists:  # searches count ties within rounding at their worst
        assert result.trace[-1][2] >= result.loss * (1 - 1e-12)
    else:
        assert result.trace[-1][2] == pytest.approx(result.loss, rel=1e-12)
    assert all((str(result), result.to_json()))


def watcher_with(answer: Any) -> MagicMock:
    """A callback that keeps what it is shown, and answers or raises from the third call on."""
    return MagicMock(side_effect=chain([False, False], repeat(answer)))


WAYS: dict[str, tuple[dict[str, Any], Status, bool]] = {
    "no time": ({"time_limit": 0.0}, Status.TIME_LIMIT, False),
    "some time": ({"time_limit": 0.3}, Status.TIME_LIMIT, False),
    "little memory": ({"memory_limit": 1000}, Status.MEMORY_LIMIT, False),
    "a target": ({"target": float(HARD.losses.sum())}, Status.TARGET, True),
    "a true answer of the callback": ({"callback": True}, Status.CALLBACK, False),
    "Ctrl-C": ({"callback": KeyboardInterrupt()}, Status.INTERRUPTED, False),
}
"""Settings, how the search ends, and whether that is success."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", RATIOS)
def test_every_way_to_stop_says_so_and_leaves_what_holds(method: str, way: str) -> None:
    settings, status, success = WAYS[way]
    watcher = watcher_with(settings.get("callback"))
    result = lpmert.minimize(HARD.nbest, method=method, **{**settings, "callback": watcher})
    assert (result.status, result.status.finished) == (status, success)
    assert_sound(result, HARD)
    problem, seen = Problem(HARD.nbest), [call.args[0] for call in watcher.call_args_list]
    for before, after in pairwise(seen):
        earlier, later = ((one.seconds, one.nodes, one.lower_bound, -one.loss) for one in (before, after))
        assert all(a <= b for a, b in zip(earlier, later, strict=True))
    assert all(problem.evaluate(progress.weights).loss == progress.loss for progress in seen)
    assert len(seen) == 3 or "callback" not in settings


def test_what_equals_a_target_or_a_gap_reaches_it() -> None:
    first = lpmert.minimize(MEDIUM.nbest, node_limit=0)
    for limit, status in (({"target": first.loss}, Status.TARGET), ({"gap": first.gap_rel}, Status.GAP)):
        found = lpmert.minimize(MEDIUM.nbest, **limit)
        assert (found.status, found.loss, found.counters["nodes"]) == (status, first.loss, 0)


def test_a_bound_on_real_losses_is_rounded_down() -> None:
    nbest = lpmert.NBest([[1.0], [0.0], [0.0], [1.0]], [0, 2, 4], [-1234567.1, 0.3, 7.7, 1e-3])
    problem = Problem(nbest)
    form = problem.canonical
    off = set()
    for cost in range(0, form.dearest, form.dearest // 100):
        exact = (form.constant + cost) * Fraction(form.unit)
        bound = Fraction(bound_on_loss(problem.canonical, cost))
        off.add(bound == exact)
        assert 0 <= exact - bound <= Fraction(np.spacing(2e6))
    assert off == {True, False}


@pytest.mark.parametrize("method", RATIOS)
def test_watching_changes_no_answer_and_swallows_no_error(method: str) -> None:
    alone, watched = (
        lpmert.minimize(MEDIUM.nbest, method=method, callback=callback)
        for callback in (None, lambda _: time.sleep(0.003))
    )
    assert (watched.weights.tolist(), watched.counters) == (alone.weights.tolist(), alone.counters)
    with pytest.raises(RuntimeError, match="of the caller"):
        lpmert.minimize(HARD.nbest, method=method, callback=watcher_with(RuntimeError("of the caller")))


@pytest.mark.parametrize("method", RATIOS)
def test_no_start_is_worse_than_the_one_given(method: str) -> None:
    best = lpmert.minimize(HARD.nbest, method=method, time_limit=0.3)
    again = lpmert.minimize(HARD.nbest, method=method, initial_weights=best.weights, time_limit=0.0)
    assert again.loss <= best.loss


_INTERRUPTED = """
import random, signal, sys
import lpmert
from lpmert.methods.cells import Cells
from problems import random_lists

lists = random_lists("opposite", 1006, most_lists=6, most_hypotheses=6, most_features=4, most_selections=200)
method = Cells(leaf_lists=0)
lpmert.minimize(lists.nbest, method=method, time_limit=0.5)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
random.seed(1)
for _ in range(60):
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.05, 0.3))
    try:
        lpmert.minimize(lists.nbest, method=method, time_limit=1.0)
    except KeyboardInterrupt:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.mark.slow
def test_an_interrupt_at_any_moment_does_not_crash() -> None:
    """A signal that arrives while compiled code makes Python objects must not leave them half made."""
    assert python("-c", _INTERRUPTED).returncode == 0


SCRIPT = """
import signal, sys
from lpmert.limits import Interrupts, abort
number = int(sys.argv[1])
signal.signal(number, abort)
with Interrupts() as interrupts:
    for _ in range(2):
        signal.raise_signal(number)
        print("pressed", interrupts.pressed, interrupts.number, flush=True)
print("goes on", flush=True)
"""


def test_ctrl_c_before_first_weights_ends_with_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.search.driver.first_incumbent", MagicMock(side_effect=KeyboardInterrupt))
    result = lpmert.minimize(MEDIUM.nbest)
    assert result.status is Status.INTERRUPTED
    assert_sound(result, MEDIUM)


@pytest.mark.usefixtures("interruptible")
def test_the_first_ctrl_c_is_noted_and_the_second_raises() -> None:
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.pressed
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("entering", [True, False])
def test_ctrl_c_while_handlers_change_is_raised_as_usual(entering: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    change = signal.signal

    def pressed(number: int, handler: Any) -> None:
        if entering:
            change(number, handler)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        if entering:
            patched.setattr(signal, "signal", pressed)
        with pytest.raises(KeyboardInterrupt), Interrupts():
            patched.setattr(signal, "signal", pressed)
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
    assert interrupts.pressed
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_aborts_a_command(number: signal.Signals) -> None:
    done = python("-c", SCRIPT, int(number), code=128 + number)
    assert (done.stdout, done.stderr) == (f"pressed True {int(number)}\n", "lpmert: interrupted\n")


SLACK = 1.5  # seconds: a second beyond the limit, and something for threads that wait
HEURISTIC = ("beam", "och", "annealing", "likelihood", "msr", "pro", "mira", "nelder-mead", "random")


def timed(nbest: NBest, limit: float, **settings: Any) -> Result:
    """Return the result of a run within the limit, and fail if it took longer; modules are loaded before."""
    few = nbest.restrict(slice(0, 2))
    lpmert.minimize(few, **{**settings, "time_limit": 0.1})
    began = time.thread_time()
    result = lpmert.minimize(nbest, **settings, time_limit=limit)
    assert time.thread_time() - began < limit + SLACK
    if result.lower_bound is not None:
        assert result.lower_bound <= result.loss
    return result


@pytest.mark.parametrize("method", [*SUMS, *map(many_more, HEURISTIC[2:]), *HEURISTIC[:2]])
@pytest.mark.parametrize(
    "size",
    [(200, 100, 14), (10_000, 2, 8), many_more((4, 3000, 10)), many_more((500, 100, 5)), many_more((40, 200, 20))],
    ids=str,
)
def test_every_method_ends_at_its_limit(method: str, size: tuple[int, int, int]) -> None:
    lists = gaussian_lists(size[0], **dict(zip(("lists", "hypotheses", "features"), size, strict=True)))
    lists = replace(lists, losses=(lists.losses + 1.0) / 7.0)
    nbest = lists.nbest
    result = timed(nbest, 0.3, method=method)
    assert result.loss == Problem(nbest).evaluate(result.weights).loss
    if method in SUMS:
        least = lists.losses.reshape(size[:2]).min(axis=1).sum()
        assert result.lower_bound >= least * (1 - 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", RATIOS)
def test_the_limit_is_kept_where_nothing_is_clear_of_rounding(method: str) -> None:
    lists = gaussian_lists(60, lists=60, hypotheses=20, features=5)
    features = np.rint(9 * lists.features) + 2.0**49 * np.repeat(np.arange(1.0, 301).reshape(60, 5) % 8, 20, axis=0)
    timed(NBest(features, lists.offsets, lists.losses), 5.0, method=method)


def test_a_bound_of_bleu_is_known_before_the_first_slice() -> None:
    rng = np.random.default_rng(4)
    lists, size = 400, 50
    lengths = np.repeat(rng.integers(8, 25, lists), size)
    totals = np.maximum(5, lengths + rng.integers(-3, 4, len(lengths)))
    counts = np.zeros((len(lengths), 9))
    for n in range(4):
        counts[:, 2 * n + 1] = totals - n
        counts[:, 2 * n] = rng.binomial(totals - n, 0.6 * 0.7**n)
    counts[:, 8] = lengths
    offsets = np.arange(0, len(lengths) + 1, size)
    nbest = NBest(rng.normal(size=(len(lengths), 14)), offsets, counts)
    # No selection has more matches, fewer words or a lower penalty than the best of every list on its own.
    best = np.maximum.reduceat(counts, offsets[:-1]).sum(axis=0)
    fewest = np.minimum.reduceat(counts, offsets[:-1]).sum(axis=0)
    at_least = 1.0 - min(1.0, float(np.exp(np.mean([np.log(best[2 * n] / fewest[2 * n + 1]) for n in range(4)]))))
    for method in ("auto", "cells", "choices"):
        result = timed(nbest, 0.5, method=method, metric="bleu")
        assert result.status is Status.TIME_LIMIT
        assert at_least - 1e-9 <= result.lower_bound <= result.loss
        assert result.lower_bound > 0.1


def test_no_limit_cuts_short_what_a_callback_calls() -> None:
    inner: list[Result] = []
    outer = lpmert.minimize(HARD.nbest, time_limit=0.0, callback=lambda _: inner.append(lpmert.minimize(MEDIUM.nbest)))
    assert (outer.status, {one.status for one in inner}) == (Status.TIME_LIMIT, {Status.OPTIMAL})


rng = np.random.default_rng(3)
SMALL = Lists(
    np.vstack([rng.integers(-3, 4, (18, 3)), 1e-9 * rng.integers(-3, 4, (6, 3)) + 1.0]).astype(float),
    np.arange(0, 25, 4),
    rng.integers(0, 9, 24).astype(float),
)


def questions(method: object, monkeypatch: pytest.MonkeyPatch, most: int | None) -> tuple[Result, int]:
    """Return the result of a run whose clock answers that the time is up after so many questions, and how many came."""
    asked = 0

    def expired(self: Deadline) -> bool:
        nonlocal asked
        if self.limit is None:
            return False
        asked += 1
        return most is not None and asked > most

    with monkeypatch.context() as patch:
        patch.setattr(Deadline, "expired", property(expired))
        return lpmert.minimize(SMALL.nbest, method=method, time_limit=1e6), asked


@pytest.mark.parametrize("stops", [8, many_more(40)])
@pytest.mark.parametrize("method", [*SUMS, "beam", "och"])
def test_work_given_up_leaves_valid_weights_and_bound(method: str, stops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    optimum = lpmert.minimize(SMALL.nbest, method="exhaustive")
    assert optimum.status.proved
    whole, asked = questions(method, monkeypatch, None)
    assert asked > 2
    problem = Problem(SMALL.nbest)
    stopped = 0
    for most in sorted({*range(stops), *np.linspace(stops, asked, stops).astype(int).tolist()}):
        result, _ = questions(method, monkeypatch, most)
        assert result.loss == problem.evaluate(result.weights).loss >= optimum.loss
        stopped += result.status is Status.TIME_LIMIT
        if method in SUMS:
            assert result.lower_bound <= optimum.loss
            assert result.status is Status.TIME_LIMIT or result.loss == optimum.loss
        for (_, bound0, loss0), (_, bound1, loss1) in pairwise(result.trace):
            assert (bound0 or 0) <= (bound1 or 0) <= loss1 <= loss0
    assert stopped > 2
    again, _ = questions(method, monkeypatch, 10**9)
    assert (again.weights.tolist(), again.counters) == (whole.weights.tolist(), whole.counters)


def test_a_solver_of_others_gets_the_time_that_is_left() -> None:
    nbest = random_nbest(lists=30, size=20, dimension=6)
    lpmert.minimize(nbest.restrict(slice(0, 2)), method=Mip())  # loads the solver
    began = time.process_time()
    result = lpmert.minimize(nbest, method=Mip(), time_limit=1.0)
    assert result.status is Status.TIME_LIMIT
    assert time.process_time() - began < 5.0


MIB = 1 << 20

CHILD = """
import os, sys
from lpmert.cli.main import main
try:
    main(sys.argv[1:])
finally:
    # not ru_maxrss, which counts the process that this one was forked from
    peak = int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10
    os.write(2, f"\\npeak {peak}\\n".encode())
"""


def commanded(*words: str) -> tuple[int, str, str, int]:
    """Run a command in a process of its own; return exit code, output, log, and the most memory that it had."""
    done = python("-c", CHILD, *words, code=None)
    log, _, peak = done.stderr.rpartition("\npeak ")
    return done.returncode, done.stdout, log, int(peak)


def solved(path: Path, *more: str, code: int = 0) -> tuple[dict[str, Any], int]:
    """Solve lists in a process of its own, which must end with this code; return result and peak."""
    found, text, _, peak = commanded("solve", str(path), "--json", "-q", *more)
    assert found == code
    return json.loads(text), peak


def written(path: Path, n_lists: int, size: int) -> Path:
    """Write lists like those of a speech recogniser, three features and word errors, as plain arrays."""
    rng = np.random.default_rng(1)
    errors = rng.poisson(3, (n_lists, size)).astype(float)
    noise = rng.normal(size=(n_lists, size, 3))
    features = np.stack([2 * noise[..., 0] - errors, 2 * noise[..., 1] - errors / 2, noise[..., 2]], axis=-1)
    features = np.round(features, 4).reshape(-1, 3)
    np.savez(path, features=features, offsets=np.arange(n_lists + 1) * size, statistics=errors.reshape(-1, 1))
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is told otherwise")
@pytest.mark.parametrize("share", [0.95, many_more(0.875)])  # with less than 0.8, the canonical form is refused
def test_a_search_ends_before_the_limit_with_a_bound_or_has_enough(share: float, tmp_path: Path) -> None:
    """Also before its first node, which takes a tenth of it. Just above what a small search takes is enough for it."""
    path, tiny = written(tmp_path / "lists.npz", 5000, 100), written(tmp_path / "tiny.npz", 100, 100)
    optimum, free_peak = solved(path)
    _, least = solved(tiny)
    limit = least + int((free_peak - least) * share)
    found, peak = solved(path, "--memory-limit", str(limit), code=3)
    assert (optimum["status"], found["status"]) == ("optimal", "memory_limit")
    assert peak <= limit < free_peak
    assert found["lower_bound"] <= optimum["loss"] <= found["loss"]
    limit = least * 27 // 25
    found, peak = solved(tiny, "--memory-limit", str(limit))
    assert found["status"] == "optimal"
    assert peak <= limit


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is told otherwise")
@pytest.mark.parametrize("form", ["npz", "tsv"])
def test_a_limit_below_what_reading_needs_ends_with_one_line(form: str, tmp_path: Path) -> None:
    path = written(tmp_path / "lists.npz", 10_000, 100)
    if form == "tsv":
        write_table(read_npz(path), tmp_path / "lists.tsv")
        path = tmp_path / "lists.tsv"
    code, text, log, peak = commanded("solve", str(path), "--memory-limit", "60MiB")
    assert (code, text) == (1, "")
    (line,) = log.strip().splitlines()
    assert all(words in line for words in ("lists.", "the memory limit of 60.0 MiB is too low", "--memory-limit"))
    assert peak < 64 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere limits of the process are not looked at")
@pytest.mark.parametrize("which", ["RLIMIT_DATA", "RLIMIT_AS"])
def test_limits_of_the_process_count_as_what_is_free(which: str) -> None:
    before = limits.free()
    pages = [int(number) for number in Path("/proc/self/statm").read_text().split()]
    limit, used = getattr(resource, which), pages[0 if which == "RLIMIT_AS" else 5] * os.sysconf("SC_PAGE_SIZE")
    old = resource.getrlimit(limit)
    resource.setrlimit(limit, (used + 256 * MIB, old[1]))
    try:
        left = limits.free()
    finally:
        resource.setrlimit(limit, old)
    assert 200 * MIB < left <= min(before, 256 * MIB)


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.parametrize("form", ["npz", "parquet"])
@pytest.mark.parametrize(("lists", "longest", "few", "size", "most"), [
    (30_000, 100, 300, 96_000_000, 4.0),  # the arrays themselves are one of these
    (6_000, 1000, 30, 192_000_000, 2.0),  # of which few hypotheses may win
])  # fmt: skip
def test_the_peak_above_that_of_a_tiny_search_is_a_few_times_the_arrays_at_most(
    lists: int, longest: int, few: int, size: int, most: float, form: str, tmp_path: Path
) -> None:
    peaks = []
    for n_lists in (few, lists):
        path = written(tmp_path / f"{n_lists}.npz", n_lists, longest)
        result, peak = solved(as_parquet(path) if form == "parquet" else path)
        peaks.append(peak)
    assert (result["status"], 8 * 4 * result["counters"]["hypotheses"]) == ("optimal", size)
    assert peaks[1] - peaks[0] < most * size


def as_parquet(path: Path) -> Path:
    """Write the lists of plain arrays as Parquet, in groups of a hundred thousand rows."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    arrays = np.load(path)
    owner = np.repeat(np.arange(len(arrays["offsets"]) - 1), np.diff(arrays["offsets"]))
    columns = {f"f{d}": column for d, column in enumerate(arrays["features"].T)}
    table = pa.table({"list": owner, **columns, "errors": arrays["statistics"][:, 0]})
    parquet.write_table(table, path.with_suffix(".parquet"), row_group_size=100_000)
    return path.with_suffix(".parquet")


def test_preparing_lists_copies_their_features_once() -> None:
    lists = random_nbest(lists=400, size=50, dimension=200)
    Problem(lists.restrict(slice(0, 2)))  # loads what it needs
    assert peak_of(lambda: Problem(lists)) < 1.5 * lists.dense_features().nbytes


def test_cones_that_cover_many_features_are_made_one_by_one() -> None:
    """There are D + 1 of them, with D * D numbers each: 216 MB for 300 features, 1.7 GB for 600."""
    lists = random_nbest(lists=20, size=50, dimension=300)
    Problem(lists)
    assert peak_of(lambda: lpmert.minimize(lists, method=Cells(shape="simplices"), node_limit=0)) < 60e6


def test_the_limit_is_near_when_memory_grows_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [100]
    monkeypatch.setattr(limits, "resident", lambda: held[0] << 20)
    monkeypatch.setattr(limits, "_PAUSE", 0.0)
    allowance = limits.Allowance(1000 << 20)
    for now, spent in ((300, False), (601, True), (100, True)):  # 301 more in one step: two of these would be too many
        held[0] = now
        assert allowance.spent == spent


def test_room_is_asked_for_where_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "resident", lambda: 100 << 20)
    limits.room_for(1 << 50, "anything")
    with limits.Allowance(200 << 20).enforced():
        limits.room_for(100 << 20, "this")
        with pytest.raises(lpmert.DataError, match=r"200.0 MiB is too low: 100.0 MiB are in .* takes 101.0 MiB more"):
            limits.room_for(101 << 20, "that")


def test_line_searches_of_many_features_are_given_up_while_they_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is prepared grows with the square of the number of features: 5 s for 300 of them and 100,000 hypotheses."""
    problem, asked = Problem(gaussian_lists(20, lists=20, hypotheses=10, features=30).nbest), count(1)
    monkeypatch.setattr(Deadline, "expired", property(lambda _: next(asked) > 12))
    with Deadline(None).running():
        with heeding(), pytest.raises(OutOfTime):
            Descents(*problem.canonical.lists)
        assert next(asked) == 14  # of 30 columns
        monkeypatch.undo()
        found = first_incumbent(problem, 0, None)
    assert problem.canonical.clear_cost(found.weights)[0] == found.cost
