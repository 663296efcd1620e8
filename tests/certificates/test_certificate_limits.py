"""Certificates are written and checked within limits; work that they end says how far it was, and claims nothing."""

import re
from collections.abc import Callable
from functools import partial
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import BASES, assert_refused, base, rewrite
from commands import COLUMNS, ended, json_of, succeeded
from graph_problems import Drawn
from searches import peak_of

import lpmert
from lpmert import LimitError, MethodError, NBest, verify
from lpmert.certificates.write.certify import write_certificate
from lpmert.cli import running
from lpmert.limits import Deadline

MIB = 1 << 20


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How many looks at the limits are left."""
    looks = [inf]

    def expired(_: Deadline) -> bool:
        looks[0] -= 1
        return looks[0] < 0

    monkeypatch.setattr(Deadline, "expired", property(expired))
    return looks


def cut(looks: int, left: list[float], path: Path, call: Callable[[], object], what: str) -> None:
    """Assert that a call that has so many looks at its limits is ended by them, and leaves nothing new."""
    left[0], before = looks, list(path.parent.iterdir())
    with pytest.raises(LimitError, match=what):
        call()
    assert list(path.parent.iterdir()) == before


def looks_of(call: Callable[[], Any], left: list[float]) -> tuple[int, Any]:
    """Return how often a call looks at its limits, and what it returns."""
    left[0] = 1_000_000
    found = call()
    return 1_000_000 - int(left[0]), found


@pytest.mark.parametrize("name", ["few boxes", "boxes", "selections", "bleu boxes", "f1"])
def test_a_limit_at_any_moment_leaves_no_certificate(path: Path, name: str, left: list[float]) -> None:
    nbest = base(name)[0]
    certify = partial(lpmert.certify, nbest, lpmert.minimize(nbest), path)
    total, _ = looks_of(certify, left)
    assert total >= 10
    path.unlink()
    for looks in (*range(0, total, 1 + total // 6), total - 1):
        cut(looks, left, path, certify, "no certificate written: ")


@pytest.mark.parametrize("name", BASES)
def test_a_check_that_a_limit_cuts_anywhere_says_that_it_did_not_end(path: Path, name: str, left: list[float]) -> None:
    nbest, text = base(name)
    path.write_text(text)
    check = partial(verify, path, nbest)
    total, whole = looks_of(check, left)
    assert total >= whole.records  # every line looks at the limits
    told: list[int] = []
    verify(path, nbest, on_line=told.append)
    assert told == [*range(1, len(text.splitlines()) + 1)]
    for looks in {*range(0, total, 1 + total // 30), total - 1}:
        cut(looks, left, path, check, "not checked further")
    left[0] = total
    assert check() == whole


@pytest.mark.parametrize("data", [base("boxes")[0], Drawn(3, "integers", 2, 2).lattices()], ids=["lists", "lattices"])
def test_a_limit_is_no_refusal_and_names_itself(path: Path, data: Any) -> None:
    result = lpmert.minimize(data)
    late, full = r"the time limit of 0 s is over; .*\(time_limit\)$", r"the memory limit .*\(memory_limit\)$"
    place = rf"^{re.escape(str(path))}: not checked further: "
    with pytest.raises(LimitError, match=f"^no certificate written: {late}"):
        lpmert.certify(data, result, path, time_limit=0)
    assert not path.exists()
    lpmert.certify(data, result, path)
    for limits, said in (({"time_limit": 0, "memory_limit": 1 << 40}, late), ({"memory_limit": 1}, full)):
        with pytest.raises(LimitError, match=place + said):
            verify(path, data, **limits)
    assert verify(path, data).proved


def test_stages_are_told_lattices_first_then_records(path: Path) -> None:
    lattices = Drawn(3, "integers", 2, 3).lattices()
    told: list[tuple[str, int, int | None]] = []
    lpmert.certify(lattices, lpmert.minimize(lattices), path, on_stage=lambda *stage: told.append(stage))
    sizes = [len(lattices.graph(k).targets) for k in range(lattices.n_lists)]
    links = [(done, parts) for stage, done, parts in told if stage.startswith("links of lattices")]
    assert list(dict.fromkeys(links)) == [(sum(sizes[:k]), sum(sizes)) for k in range(len(sizes))]
    records = [(done, parts) for stage, done, parts in told if stage == "records of the certificate"]
    n_lines = len(path.read_text(encoding="utf-8").splitlines())
    assert records == [(k, None) for k in range(1, n_lines - 1)]  # without the first line and the last


@pytest.mark.parametrize("given", [None, 1000])
def test_proofs_get_the_time_left(given: int | None, table: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    def certify(*_: object, time_limit: float | None, **__: object) -> None:
        limits.append(time_limit)
        raise LimitError("no certificate written: the time limit is over")

    monkeypatch.setattr(lpmert, "certify", certify)
    time_limit = () if given is None else ("--time-limit", given)
    outcome = ended(3, "solve", table, *COLUMNS, "--certificate", path, *time_limit)
    assert "lpmert: stopped by a limit: no certificate written" in outcome.stderr
    assert "loss" in outcome.stdout  # the result is there
    (left,) = limits
    assert left is None if given is None else left is not None and 0 < left < given


def test_progress_is_told_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("lpmert.cli.running.say", said.append)
    monkeypatch.setattr(running.time, "perf_counter", lambda: 0.0)
    told = running.Stages(running.Quiet())
    for seconds, done, parts in ((0.5, 1, 100), (2.0, 10, 100), (2.5, 20, 100), (4.0, 7, None)):
        monkeypatch.setattr(running.time, "perf_counter", lambda now=seconds: now)
        told("links", done, parts)
    assert said == ["links: 10 of 100", "links: 7"]


@pytest.mark.parametrize(("name", "value"), [*product(["time_limit"], [-1, "5"]), *product(["memory_limit"], [0, 1.5])])
def test_limits_that_are_none_are_refused(path: Path, name: str, value: Any) -> None:
    nbest, text = base("boxes")
    result = lpmert.minimize(nbest)
    path.write_text(text)
    for call in (partial(lpmert.certify, nbest, result, path), partial(verify, path, nbest)):
        with pytest.raises(MethodError, match="must be a"):
            call(**{name: value})


def write(path: Path, nbest: NBest, records: list[dict[str, object]]) -> None:
    """Write a certificate whose header is right and whose tree is another one."""
    write_certificate(path, nbest, lpmert.minimize(nbest, method="cells"))
    rewrite(path, tree=records)


def test_a_deep_tree_of_choices_holds_what_is_chosen_once_a_level(path: Path) -> None:
    n_lists, size = 200, 20
    # each list's first hypothesis is as good as free: the tree can choose it in one list after the other
    features = np.random.default_rng(0).normal(size=(n_lists * size, 2))
    losses = np.tile(np.arange(size) % 2, n_lists).astype(float)
    nbest = NBest(features, np.arange(0, n_lists * size + 1, size), losses)
    chain: list[dict[str, object]] = [{"branch": 0}]
    chain += [{"take": [k - 1, 0], "branch": k} for k in range(1, n_lists)]
    write(path, nbest, chain)
    # ten choices a level that undercut, each with what is chosen above it: 200 * 10 dictionaries of 100 entries on
    # average, 10 MB and more; one a level takes a tenth of that, and what is left of the rows 200 * 4000 * 8 / 2 bytes
    peak = peak_of(lambda: assert_refused(path, nbest, "the tree ends while parts of it are open"))
    assert peak < 8 * MIB


def test_a_deep_tree_of_boxes_is_refused_where_its_rays_are_too_long(path: Path) -> None:
    nbest = base("boxes")[0]  # with four features
    write(path, nbest, [{"split": "boxes"}, *({"split": [1 + k % 3]} for k in range(8000))])
    said = assert_refused(path, nbest, "a ray is beyond the range of double precision")
    assert int(said.removeprefix(f"{path}:").split(":")[0]) < 4000


def test_a_line_that_would_not_fit_when_it_is_read_ends_the_check(path: Path, fresh_memory: int) -> None:
    nbest = base("boxes")[0]
    write(path, nbest, [{"cores": [[]] * (4 * MIB)}])
    with pytest.raises(LimitError, match=r"certificate\.json:2: .*memory limit"):
        verify(path, nbest, memory_limit=fresh_memory + 200 * MIB)


def test_the_command_has_an_exit_code_for_limits(path: Path, table: Path) -> None:
    columns = (table, *COLUMNS)
    succeeded("solve", *columns, "--certificate", path, "--quiet")
    for option in ("--time-limit", "--memory-limit"):
        assert json_of("verify", path, *columns, option, "1000000000000")["proved"]
    outcome = ended(3, "verify", path, *columns, "--time-limit", "0")
    said = f"lpmert: stopped by a limit: {path}: not checked further: the time"
    assert (outcome.stdout, outcome.stderr[: len(said)]) == ("", said)
