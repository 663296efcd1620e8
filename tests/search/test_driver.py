"""What the driver makes of a search, of a cut-off, open nodes and checkpoints: never more than was proved."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, pairwise
from math import inf, nextafter
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from commands import environment
from fuzz import ROUNDING
from hypothesis import given, strategies as st
from long_searches import after, counted, kept_search, lattices_of, long_searches, noise_of, problem_of, same
from mutations import damaged, examples
from problems import Case, problem, random_nbest
from searches import many_more, short_descent

import lpmert
from lpmert import DataError, Lattices, Limits, NBest, Region, Status
from lpmert.cli.reports import result_report
from lpmert.limits import Allowance
from lpmert.lines import Clock
from lpmert.methods import Comparator, Found, Incumbent, LpMert, cells, choices
from lpmert.methods.auto import Auto
from lpmert.methods.cells import Cells, CellsSearch, NodeSearch
from lpmert.methods.groups import Groups
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.registry import METHODS
from lpmert.result import relative_gap
from lpmert.search import driver
from lpmert.search.combined import Answer, OpenNode
from lpmert.search.driver import Below, _bound_of, search_below


def test_a_loss_of_zero_above_its_bound_has_no_small_gap() -> None:
    assert [relative_gap(*ends) for ends in ((0.0, -1.0), (0.0, 0.0), (-2.0, -3.0))] == [inf, 0.0, 0.5]


def test_a_loss_of_which_more_than_its_last_digits_is_rounded_away_is_no_proof() -> None:
    features, offsets = [[1.0], [-1.0], [1.0], [-1.0]], [0, 2, 4]
    unit = Problem(NBest(features, offsets, [0.0, 2.0**62, 1.0, 0.0])).canonical.unit
    assert lpmert.minimize(NBest(features, offsets, [0.0, 2.0**62, unit, 0.0])).status is Status.OPTIMAL
    found = lpmert.minimize(NBest(features, offsets, [0.0, 2.0**62, 1.4 * unit, 0.0]))
    assert found.status is Status.OPTIMAL_TO_TOLERANCE
    assert found.lower_bound <= found.loss == 1.4 * unit


def test_weights_on_lattices_hold_only_where_no_tie_decides() -> None:
    # Two links side by side, one with the right word.
    lattices = Lattices([[1, 0], [0, 1]], [0, 2], [0, 0], [1, 1], [0, 1], ["x"], vocabulary=["x", "y"])
    problem = LatticeProblem(lattices, "wer")
    tied, clear = CallerWeights(np.array([0.5, 0.5])), CallerWeights(np.array([1.0, 0.5]))
    losses = [problem.decode(weights).loss for weights in (tied, clear)]
    said = (clear, losses[1]), (clear, losses[1] + 1), (tied, losses[0])
    assert [problem.attains(*one) for one in said] == [True, False, False]


def test_a_search_that_stops_before_its_first_unit_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "SLICE", 500)
    nbest, path = noise_of(1, 9), tmp_path / "kept"
    with short_descent(one=True):
        whole = lpmert.minimize(nbest, method="choices")
        stopped = lpmert.minimize(nbest, method="choices", checkpoint=path, callback=after(2))
        assert stopped.status is Status.CALLBACK
        assert stopped.loss > whole.loss
        again = lpmert.minimize(nbest, method="choices", checkpoint=path, resume=True)
    assert whole.status is again.status is Status.OPTIMAL
    assert again.loss == again.lower_bound == whole.loss


def test_ctrl_c_in_a_function_leaves_the_best_weights_that_it_has_shown() -> None:
    shown, nbest = np.array([0.3, -1.0, 0.2]), random_nbest()

    @dataclass(frozen=True)
    class Pressed(Comparator):
        name = "pressed"

        def run(self, _problem: object, _start: object, _seed: int, clock: Clock) -> Found:
            clock.keep(shown)
            raise KeyboardInterrupt

    result, problem = lpmert.minimize(nbest, method=Pressed()), Problem(nbest)
    expected = problem.evaluate(problem.coordinates.to_caller(shown))
    found = result.status, result.loss, [point[1:] for point in result.trace]
    assert found == (Status.INTERRUPTED, expected.loss, [(None, expected.loss)])


def test_a_fraction_is_not_proved_by_additive_searches_that_prove_nothing() -> None:
    region = Region(cosine=0.9, around={"feature1": 1.0, "feature2": 0.0, "feature3": 0.0})
    solve = partial(lpmert.minimize, random_nbest(lists=10, size=6, kind="f1"), metric="f1", region=region)
    exact, published = (solve(method=LpMert(cosine_test=test)) for test in ("exact", "published"))
    assert (exact.status, published.status, published.lower_bound) == (Status.OPTIMAL, Status.HEURISTIC, None)
    assert published.loss >= exact.loss


KINDS = ("integers", "ternary", "decimals", "dyadic", "duplicates")


def _below(case: Case, cutoff: float, method: str) -> Below:
    return search_below(Problem(case.nbest, case.metric, region=case.region), cutoff, METHODS.build(method))


@pytest.mark.parametrize("seeds", [range(5), many_more(range(5, 10))])
@pytest.mark.parametrize("worth", ["small", "negative", "huge", "powers of two", "floats", "decimals", "wer", "bleu"])
@pytest.mark.parametrize("method", ["choices", "cells"])
def test_weights_come_back_exactly_where_some_cost_less(method: str, worth: str, seeds: range) -> None:
    for seed in seeds:
        case = problem(KINDS[seed % len(KINDS)], worth, seed, in_region=seed % 3 == 0)
        if case.least is None:
            continue
        least = float(case.least)
        off = 0.0 if case.exact else ROUNDING * abs(least)
        for cutoff in (inf, least + 1.5, least + 1.0, nextafter(least + off, inf)):
            found = _below(case, cutoff, method)
            assert found.status.finished
            assert found.result is not None, f"{case.name}: none below {cutoff!r} of {least!r}"
            assert found.result.loss < cutoff
            assert abs(found.result.loss - least) <= off
            assert (found.bound, found.least_met) == (found.result.lower_bound, found.result.loss)
        for cutoff in (least, nextafter(least, -inf), least - 0.5, least - 1.0):
            found = _below(case, cutoff, method)
            assert found.result is None or found.result.loss < cutoff <= least + off
            if found.result is None:
                assert found.status.finished
                assert cutoff <= found.bound <= least + off, (
                    f"{case.name}: {found.bound!r} below {cutoff!r} of {least!r}"
                )
                assert least - off <= found.least_met < inf


def test_a_search_that_is_stopped_bounds_all_weights_and_says_so_and_a_cutoff_prunes_from_the_start() -> None:
    nbest = random_nbest(8, lists=40, size=6, dimension=4)
    # losses are even: so are costs, in their unit
    lists, few = Problem(replace(nbest, statistics=2.0 * nbest.statistics)), Limits(node_limit=1)
    below = partial(search_below, lists, method=METHODS.build("choices"))
    least = below(inf).bound
    begun, none = below(inf, limits=few), below(least, limits=few)
    assert (begun.status.finished, none.status.finished, none.result) == (False, False, None)
    assert begun.bound < least <= begun.result.loss
    assert none.bound < least <= none.least_met
    oracle = 2.0 * float(np.minimum.reduceat(nbest.statistics[:, 0], nbest.offsets[:-1]).sum())
    for cutoff in (oracle, oracle - 1.0, oracle - 7.0):
        found = below(cutoff, limits=few)
        assert (found.status.finished, found.result) == (True, None)
        assert cutoff <= found.bound <= oracle


@pytest.mark.parametrize(
    ("status", "inexact", "unseen", "lower_bound", "expected"),
    [
        (Status.OPTIMAL, False, 0.0, 4, 4.5),
        (Status.OPTIMAL, False, 1e-13, 4, 4.5),
        (Status.OPTIMAL, False, 0.25, 4, 3.75),
        (Status.OPTIMAL, True, 0.0, 4, 4.0),
        (Status.OPTIMAL_TO_TOLERANCE, False, 0.0, 4, 4.0),
        (Status.NODE_LIMIT, False, 0.25, 3, 2.75),
        (Status.HEURISTIC, False, 0.0, None, -inf),
    ],
)
def test_the_cutoff_is_the_bound_only_where_the_search_is_exact(
    status: Status, inexact: bool, unseen: float, lower_bound: int | None, expected: float
) -> None:
    """No weights are below 4.5; costs are whole numbers, which losses may undercut by what is unseen."""
    canonical = SimpleNamespace(constant=0, unit=1.0)
    lists: Any = SimpleNamespace(canonical=canonical, inexact=inexact, unseen=lambda _: unseen)
    outcome: Any = SimpleNamespace(status=status, lower_bound=lower_bound)
    assert _bound_of(lists, 4.5, outcome) == expected


def test_cones_that_wait_for_exact_arithmetic_count_in_the_bound() -> None:
    form = Problem(problem_of(1, 8, 3)).canonical
    search = CellsSearch(Cells(), form, Incumbent(form.dearest, CanonicalWeights(np.ones(3)), ""), roots=[])
    assert search.finished
    search._awaiting_exact.append(OpenNode(0, np.zeros(1)))
    assert (search.lower_bound, search.finished) == (0, False)


@long_searches()
@pytest.mark.parametrize("shape", ["simplices", "boxes"])
def test_no_search_takes_more_room_once_the_memory_is_spent(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = problem_of(7, 400)
    solve = partial(lpmert.minimize, nbest, method=Cells(shape=shape))
    whole = solve()
    monkeypatch.setattr(cells, "_ROOM", 1)
    assert same(whole, solve())  # what there is room for in the beginning makes no difference
    asked = count()
    monkeypatch.setattr(Allowance, "spent", property(lambda _: next(asked) >= 20))
    cut = solve()
    assert cut.status is Status.MEMORY_LIMIT
    assert cut.lower_bound < whole.loss <= cut.loss
    assert lpmert.evaluate(nbest, cut.weights).loss == cut.loss


@long_searches()
def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeSearch, "explore", MagicMock(side_effect=RuntimeError("broken unit")))
    with pytest.raises(RuntimeError, match="broken unit"):
        lpmert.minimize(problem_of(2), method="cells", jobs=2)


def test_nodes_that_an_improvement_fits_into_stay_open_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    form, weights = replace(Problem(problem_of(1, 8, 3)).canonical, step=2), CanonicalWeights(np.ones(3))
    assert form.granularity == 2

    def open_at(bounds: range) -> Answer:
        return Answer([OpenNode(bound, np.zeros(1)) for bound in bounds], 10, weights, "", None, {})

    monkeypatch.setattr(choices, "explore_batch", lambda _, nodes, *__: open_at(range(0 if nodes[0].bound else 11)))
    search = choices.ChoicesSearch(form, Incumbent(10, weights, ""), units=1)
    search.resume_from(open_at(range(1)))
    search.advance()
    assert sorted(node.bound for node in search._queue.nodes()) == list(range(9))  # 8 is the next cost below 10


def test_a_unit_searches_a_node_whose_bound_is_the_next_lower_cost() -> None:
    lists = problem_of(1, 8, 3)
    form, whole = Problem(lists).canonical, lpmert.minimize(lists)
    least = int(whole.loss / form.unit) - form.constant
    begin = partial(choices.ChoicesSearch, form)
    (node, *_) = begin(Incumbent(form.dearest, CanonicalWeights(np.zeros(3)), "")).export_nodes()
    found = choices.explore_batch(begin, [node._replace(bound=least)], least + form.granularity, np.zeros(3), 10**8)
    assert (whole.status, found.cost) == (Status.OPTIMAL, least)


def test_two_at_once_cannot_have_one_file(tmp_path: Path) -> None:
    path, nbest, refused = tmp_path / "kept.npz", noise_of(2, 8), []
    said = rf"^{path}: is in use by another run .process {os.getpid()}."

    def meanwhile(_: object) -> bool:
        for resume in (False, True):
            with pytest.raises(DataError, match=said) as caught:
                lpmert.minimize(noise_of(3, 8), method="cells", checkpoint=path, resume=resume)
            refused.append(caught.value)
        return False

    found = lpmert.minimize(nbest, method="cells", checkpoint=path, callback=meanwhile)
    assert refused
    assert [file.name for file in tmp_path.iterdir()] == ["kept.npz"]  # and no lock
    again = lpmert.minimize(nbest, method="cells", checkpoint=path, resume=True)
    assert (found.status, again.loss, again.resumed) == (Status.OPTIMAL, found.loss, True)


@pytest.mark.parametrize("of", [lattices_of, lambda seed: noise_of(seed, 8)], ids=["lattices", "lists"])
def test_other_data_and_settings_are_refused_by_name(of: Callable[[int], Any], tmp_path: Path) -> None:
    path, data = tmp_path / "kept.npz", of(1)
    first = lpmert.minimize(data, checkpoint=path)
    changes: list[tuple[Any, dict[str, Any], str]] = [
        (of(2), {}, "data"),
        (data, {"region": lpmert.Region(nonnegative=True)}, "metric or region"),
        (data, {"method": "cells"}, "method"),
        (data, {"seed": 1}, "seed"),
        (data, {"initial_weights": np.arange(1, len(data.names) + 1)}, "initial weights"),
        *([(data, {"metric": "cer"}, "metric or region")] if isinstance(data, lpmert.Lattices) else []),
        *([(data, {"method": Auto(improving=0.0)}, "method")] if isinstance(data, lpmert.NBest) else []),
    ]
    for other, settings, name in changes:
        with pytest.raises(DataError, match=rf"{path}: is of another search \({name}: .* there, .* here\)"):
            lpmert.minimize(other, checkpoint=path, resume=True, **settings)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"checkpoint": path}, "holds a search already"),
        ({"resume": True}, "resume needs"),
        ({"checkpoint": 3}, "checkpoint must be a path, or None; got 3"),
        ({"method": "och", "checkpoint": tmp_path / "other.npz"}, r"'och' keeps no checkpoints.* use auto"),
    ]
    for settings, said in wrong:
        with pytest.raises(lpmert.LpmertError, match=said):
            lpmert.minimize(data, **settings)
    assert lpmert.minimize(data, checkpoint=path, resume=True, time_limit=0).loss == first.loss


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a search that was cut off."""
    path = tmp_path_factory.mktemp("kept") / "kept"
    with long_searches():
        assert cut_off("cells", path).status is Status.NODE_LIMIT
    return path


def cut_off(method: str, path: Path, **more: Any) -> lpmert.Result:
    return lpmert.minimize(noise_of(1), method=method, node_limit=50, checkpoint=path, **more)


@examples(300)
@given(data=st.data())
def test_damaged_files_are_refused(data: st.DataObject, kept: Path, tmp_path: Path) -> None:
    content, path = kept.read_bytes(), tmp_path / "damaged"
    found = bytearray(damaged(data, content, [b"", b"\0", b"}", b"\n", b"9"], cut=True))
    if found and data.draw(st.booleans()):
        place = data.draw(st.integers(0, 8 * len(found) - 1))
        found[place // 8] ^= 1 << place % 8
    path.write_bytes(found)
    refused = pytest.raises(DataError, match=rf"^{path}: is (no|a damaged) checkpoint")
    with nullcontext() if found == content else refused:
        driver.state_in(path, {}, resume=True)


def test_files_of_another_kind_are_refused(kept: Path, tmp_path: Path) -> None:
    path = tmp_path / "other"
    for content in (b"", b"{}", b"PK" + bytes(100), kept.read_bytes().replace(b"checkpoint 3", b"checkpoint 2", 1)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"^{path}: is no checkpoint of this version; remove it, or name another$"):
            cut_off("cells", path, resume=True)


def edited(kept: Path, path: Path, edit: Callable[[Any], object]) -> None:
    """Write another state, with the right checksum."""
    header, state = driver._read_checkpoint(kept)
    edit(state)
    driver._write_checkpoint(path, {name: value for name, value in header.items() if name != "state"}, state)


@pytest.mark.parametrize("method", ["cells", "auto", *map(many_more, ("choices", "groups"))])
def test_a_state_that_no_search_writes_is_refused_whatever_its_checksum(method: str, tmp_path: Path) -> None:
    kept, path = tmp_path / "kept", tmp_path / "edited"
    with long_searches():
        cut_off(method, kept)
        names = driver._read_checkpoint(kept)[1]["search"]
        assert names
        edits: list[Callable[[dict[str, Any]], object]] = [
            lambda state: state.update(weights=state["weights"][:-1]),
            lambda state: state.update(weights=np.full_like(state["weights"], np.nan)),
            lambda state: state.update(weights=1e300 * state["weights"]),
            lambda state: state.update(cost=None),
            lambda state: state.update(cost=state["cost"] - 1),
            lambda state: state.update(search=3),
            *(lambda state, name=name: state["search"].pop(name) for name in names if names[name] is not None),
        ]
        for edit in edits:
            edited(kept, path, edit)
            with pytest.raises(DataError, match=rf"^{path}: holds no state of such a search"):
                cut_off(method, path, resume=True)


def test_what_a_forged_state_leads_to_is_refused_too_but_no_error_of_the_callback(kept: Path, tmp_path: Path) -> None:
    # The numbers of open nodes are looked at when their turn comes.
    path = tmp_path / "edited"
    edited(kept, path, lambda state: [node.update(data=node["data"][:-1]) for node in state["search"]["nodes"]])
    with pytest.raises(DataError, match=rf"^{path}: holds no state of such a search, .*an open node has too few bytes"):
        lpmert.minimize(noise_of(1), method="cells", checkpoint=path, resume=True)
    fail = MagicMock(side_effect=IndexError("of the caller"))
    with pytest.raises(IndexError, match="of the caller"):
        lpmert.minimize(noise_of(1), method="cells", checkpoint=kept, resume=True, callback=fail)


def test_a_result_says_that_it_rests_on_a_checkpoint(tmp_path: Path) -> None:
    path, saved = tmp_path / "kept", tmp_path / "result.json"
    with long_searches():
        first = cut_off("cells", path)
        result = lpmert.minimize(noise_of(1), method="cells", checkpoint=path, resume=True)
    assert (first.resumed, "checkpoint" in first.message, result.status) == (False, False, Status.OPTIMAL)
    said = "proved optimal: no weights give a lower loss; resumed from a checkpoint, on which the bound also rests"
    result.save(saved)
    again = lpmert.Result.load(saved)
    assert (again.resumed, again.message) == (True, said)
    assert all(said in text for text in (str(result), result_report(result)))
    lpmert.report(result, tmp_path / "page.html")
    assert "This also rests on a checkpoint, from which it was resumed." in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("returns", [True, False])
def test_a_search_survives_that_its_checkpoint_cannot_be_written(
    returns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(driver, "_EVERY", 0.0)
    monkeypatch.setattr(driver, "_SHARE", 1e9)
    path, calls, solve = tmp_path / "gone" / "kept", count(), partial(lpmert.minimize, noise_of(2, 8))

    def vanish(_: object) -> None:
        call = next(calls)
        if call == 3:
            rmtree(path.parent)
        if call == 6 and returns:
            path.parent.mkdir()

    path.parent.mkdir()
    with long_searches():
        result = solve(method="cells", checkpoint=path, callback=vanish)
    assert next(calls) > 7
    assert (result.status, result.loss, path.exists()) == (Status.OPTIMAL, solve(method="choices").loss, returns)
    trouble = f"{path}: cannot be written: No such file or directory; "
    said = [one.message.removeprefix(trouble) for one in caplog.records if str(path) in one.message]
    assert said[:3] == ["the search continues, and tries again later"] * 3
    assert (said[-1] == "no checkpoint was written at the end") != returns
    if returns:
        assert solve(method="cells", checkpoint=path, resume=True, time_limit=0).loss == result.loss


def test_checkpoints_take_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, written = [0.0], []
    monkeypatch.setattr(driver.time, "monotonic", lambda: now[0])

    def write(*_: object) -> None:
        written.append(now[0])
        now[0] += 5.0

    monkeypatch.setattr(driver, "_write_checkpoint", write)
    kept = driver.Checkpoint(tmp_path / "kept.npz")
    while now[0] < 3600.0:
        kept.keep(dict)
        now[0] += 1.0
    assert written[0] == 60.0
    assert 50.0 < 5.0 * len(written) <= 0.02 * 3600.0 + 5.0


@pytest.mark.parametrize(
    ("kind", "kills"),
    [("cells", 2), ("wer", 2), *(many_more(kind, 50) for kind in ("cells", "choices", "groups", "wer", "bleu"))],
)
def test_a_search_that_is_killed_goes_on(kind: str, kills: int, tmp_path: Path) -> None:
    """At random moments; it ends like one that nobody cut off."""
    rng = np.random.default_rng(kills)
    call = [sys.executable, "-c", CHILD, str(tmp_path / "kept.npz"), kind]
    for _ in range(kills):
        with subprocess.Popen(call, stdout=subprocess.PIPE, text=True, env=environment()) as process:
            assert process.stdout.readline() == "begins\n"
            time.sleep(float(rng.exponential(0.2)))
            process.kill()
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True, env=environment())
    loss, status = done.stdout.splitlines()[-1].split()
    assert (float(loss), status) == (kept_search(kind).loss, "OPTIMAL")


CHILD = """
import sys
from pathlib import Path
from long_searches import kept_search, long_searches
from lpmert.search import driver
driver._EVERY, driver._SHARE = 0.0, 1.0
with long_searches():
    print("begins", flush=True)
    result = kept_search(sys.argv[2], Path(sys.argv[1]))
print(result.loss, result.status.name)
"""


@pytest.mark.parametrize(("method", "metric"), [
    ("cells", "loss"), ("choices", "loss"), ("cells", "f1"), ("auto", "f1"), (Groups(size=2), "loss"),
    (Groups(size=5), "loss"),
])  # fmt: skip
def test_a_search_goes_on_with_its_bound_and_counters(method: Any, metric: str, tmp_path: Path) -> None:
    """None of what was open is searched again from the beginning."""
    nbest = counted(3, "f1", 4) if metric == "f1" else noise_of(1, 9)
    search = partial(lpmert.minimize, nbest, metric=metric, method=method)
    with long_searches():
        whole = search()
        share = max(1, whole.counters["nodes"] // 4)
        limits = [{"node_limit": share}, {"node_limit": share + 1}, {"node_limit": 2 * share}, {}, {"time_limit": 0}]
        results = [search(checkpoint=tmp_path / "kept", resume=k > 0, **limit) for k, limit in enumerate(limits)]
    assert results[0].counters["nodes"] > 0
    assert [result.resumed for result in results] == [False, True, True, True, True]
    statuses = [result.status for result in (results[0], *results[-2:], whole)]
    assert statuses == [Status.NODE_LIMIT, *[Status.OPTIMAL] * 3]
    for before, later in pairwise(results):
        assert before.lower_bound <= later.lower_bound <= whole.loss <= later.loss <= before.loss
        assert all(count <= later.counters[name] for name, count in before.counters.items())
    assert results[-1].counters["nodes"] == results[-2].counters["nodes"] < 2.5 * whole.counters["nodes"]
    assert results[-1].counters.get("additive_searches", 2) > 1
    assert results[-1].counters.get("groups") == whole.counters.get("groups")


@pytest.mark.parametrize("method", ["sweep", "auto", "lp-mert", "exhaustive", "mip", "lattices"])
def test_a_search_that_begins_anew_says_so(method: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, lattices = tmp_path / "kept.npz", method == "lattices"
    search = partial(lpmert.minimize, noise_of(1, 4, 2), method=method)
    search = partial(lpmert.minimize, lattices_of(2), metric="wer") if lattices else search
    caplog.set_level(logging.WARNING, logger="lpmert")
    stopped = search(checkpoint=path, time_limit=0)
    assert (stopped.status, "begins anew" in caplog.text) == (Status.TIME_LIMIT, False)
    whole = search(checkpoint=path, resume=True)
    assert "the checkpoint holds only the best weights of this search: the proof begins anew" in caplog.text
    assert whole.loss == search().loss <= stopped.loss
