"""A check keeps to its limits, and one that they end says nothing of the claim."""

from __future__ import annotations

import json
import tracemalloc
from math import inf
from pathlib import Path

import numpy as np
import pytest
from certificates import BASES, base, document, layout
from commands import run

import lpmert
from lpmert import CertificateError, LimitError, MethodError, NBest, verify
from lpmert.certificates.write.certify import compact, write_certificate
from lpmert.system.deadline import Deadline

MIB = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "certificate.json"


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("limits", [{"time_limit": 0}, {"memory_limit": 1}], ids=["time", "memory"])
def test_a_limit_is_no_refusal_and_names_itself(path: Path, limits: dict[str, int], jobs: int) -> None:
    nbest, text = base("boxes")
    path.write_text(text)
    with pytest.raises(LimitError) as told:
        verify(path, nbest, jobs=jobs, **limits)  # type: ignore[arg-type]
    message = str(told.value)
    assert message.startswith(f"{path}: not checked further: the ")
    assert [name in message for name in ("(time_limit)", "(memory_limit)")] == [
        name in limits for name in ("time_limit", "memory_limit")
    ]
    assert not any(word in message for word in ("verified", "holds", "proved", "refused"))
    assert verify(path, nbest, jobs=jobs).proved


@pytest.mark.parametrize("name", BASES)
def test_wherever_a_limit_comes_the_check_is_as_without_or_says_that_it_did_not_end(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbest, text = base(name)
    path.write_text(text)
    left = [inf]

    def expired(_: Deadline) -> bool:
        left[0] -= 1
        return left[0] < 0

    monkeypatch.setattr(Deadline, "expired", property(expired))
    left[0] = 1_000_000
    whole = verify(path, nbest)
    total = 1_000_000 - int(left[0])
    assert total >= whole.records  # every line looks at the limits
    for last in {*range(0, total, 1 + total // 40), total - 1}:
        left[0] = last
        with pytest.raises(LimitError, match="not checked further"):
            verify(path, nbest)
    left[0] = total
    assert verify(path, nbest) == whole


@pytest.mark.parametrize("name", BASES)
def test_a_certificate_that_does_not_hold_is_not_accepted_within_limits_either(path: Path, name: str) -> None:
    changed = document(name)
    changed["tree"] = changed["tree"][:-1]
    path.write_text(layout(changed))
    with pytest.raises(CertificateError):
        verify(path, base(name)[0], time_limit=1e6, memory_limit=1 << 50)


@pytest.mark.parametrize(
    "limits", [{"time_limit": -1}, {"time_limit": "5"}, {"memory_limit": 0}, {"memory_limit": 1.5}]
)
def test_limits_that_are_none_are_refused(path: Path, limits: dict[str, object]) -> None:
    nbest, text = base("boxes")
    path.write_text(text)
    with pytest.raises(MethodError, match="must be a"):
        verify(path, nbest, **limits)  # type: ignore[arg-type]


def written(path: Path, nbest: NBest, records: list[dict[str, object]]) -> Path:
    """A certificate whose header is right and whose tree is another one."""
    write_certificate(path, nbest, lpmert.minimize(nbest, method="cells"))
    header = path.read_text().split("\n")[0]
    path.write_text("\n".join([header, ",\n".join(map(compact, records)), "]}", ""]))
    return path


def test_a_deep_tree_of_choices_holds_what_is_chosen_once_a_level(path: Path) -> None:
    n_lists, size = 200, 20
    # each list's first hypothesis is as good as free: the tree can choose it in one list after the other
    features = np.random.default_rng(0).normal(size=(n_lists * size, 2))
    losses = np.tile(np.arange(size) % 2, n_lists).astype(float)
    nbest = NBest(features, np.arange(0, n_lists * size + 1, size), losses)
    chain: list[dict[str, object]] = [{"branch": 0}]
    chain += [{"take": [k - 1, 0], "branch": k} for k in range(1, n_lists)]
    written(path, nbest, chain)
    verify_refused = pytest.raises(CertificateError, match="the tree ends while parts of it are open")
    tracemalloc.start()
    try:
        with verify_refused:
            verify(path, nbest)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # ten choices a level that undercut, each with what is chosen above it: 200 * 10 dictionaries of 100 entries on
    # average, 10 MB and more; one a level takes a tenth of that, and what is left of the rows 200 * 4000 * 8 / 2 bytes
    assert peak < 8 * MIB


def test_a_deep_tree_of_boxes_is_refused_where_its_rays_are_too_long(path: Path) -> None:
    nbest = base("boxes")[0]
    d = nbest.n_features
    written(path, nbest, [{"split": "boxes"}, *({"split": [1 + k % (d - 1)]} for k in range(2000 * d))])
    with pytest.raises(CertificateError, match="a ray is beyond the range of double precision") as told:
        verify(path, nbest)
    assert int(str(told.value).removeprefix(f"{path}:").split(":")[0]) < 1000 * d


def test_the_orthants_of_many_features_are_not_all_made_first(path: Path) -> None:
    width = 48
    rng = np.random.default_rng(0)
    nbest = NBest(rng.normal(size=(120, width)), np.arange(0, 121, 2), rng.integers(0, 2, 120).astype(float))
    written(path, nbest, [{"split": "cones"}])
    with pytest.raises(CertificateError, match="the tree ends while parts of it are open"):
        verify(path, nbest)


def test_a_line_that_would_not_fit_when_it_is_read_ends_the_check(path: Path, fresh_memory: int) -> None:
    nbest = base("boxes")[0]
    written(path, nbest, [{"cores": [[]] * (4 * MIB)}])
    with pytest.raises(LimitError, match=r"certificate\.json:2: .*memory limit"):
        verify(path, nbest, memory_limit=fresh_memory + 200 * MIB)


@pytest.mark.parametrize("option", ["--time-limit", "--memory-limit"])
def test_the_command_has_an_exit_code_for_limits(path: Path, tmp_path: Path, option: str) -> None:
    table = tmp_path / "lists.tsv"
    table.write_text("list\tam\tlm\terrors\na\t1\t0\t0\na\t0\t1\t2\nb\t0\t1\t0\nb\t1\t0\t3\n")
    columns = (table, "--segment", "list", "--features", "am,lm", "--loss", "errors")
    solved = run("solve", *columns, "--certificate", path, "--quiet")
    assert solved.exit_code == 0, solved.output
    roomy = run("verify", path, *columns, option, "1000000000000", "--json")
    assert roomy.exit_code == 0, roomy.output
    assert json.loads(roomy.stdout)["proved"]
    if option == "--time-limit":
        outcome = run("verify", path, *columns, option, "0")
        assert (outcome.exit_code, outcome.stdout) == (3, "")
        assert outcome.stderr.startswith(f"lpmert: stopped by a limit: {path}: not checked further: the time")
