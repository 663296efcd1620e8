"""A search that goes on from a checkpoint ends with the optimum, whenever it was cut off; nothing else is taken on."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from shutil import rmtree
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from commands import environment
from hypothesis import given, strategies as st
from long_searches import counted, kept_search, lattices_of, long_searches, noise_of
from mutations import damaged, examples
from searches import many_more

import lpmert
from lpmert import DataError, Status
from lpmert.cli.reports import result_report
from lpmert.methods.auto import Auto
from lpmert.methods.groups import Groups
from lpmert.search import driver


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
    for before, after in pairwise(results):
        assert before.lower_bound <= after.lower_bound <= whole.loss <= after.loss <= before.loss
        assert all(count <= after.counters[name] for name, count in before.counters.items())
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
