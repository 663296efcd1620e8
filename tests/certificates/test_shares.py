"""Several processes accept and refuse what one does: the same claims, with the same messages."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from certificates import base, document, layout, random_nbest
from test_certificate_fuzz import change_text, change_values

import lpmert
from lpmert import CertificateError, MethodError, Region, verify
from lpmert.certificates.check import verify as shares
from lpmert.workers import Workers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "certificate.json"


@pytest.fixture
def at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares of a few records, checked one after another in this process, each by lists that know of no other."""

    monkeypatch.setattr("lpmert.workers.Processes", lambda _: Workers())
    monkeypatch.setattr(shares, "_SHARE", 3)


def outcome(path: Path, nbest: lpmert.NBest, jobs: int) -> tuple[object, ...]:
    try:
        found = verify(path, nbest, jobs=jobs)
    except CertificateError:
        return ("refused",)
    return found.loss, found.bound, found.records


@pytest.mark.parametrize("name", ["cones", "bleu cones", "f1", "selections"])
def test_processes_find_what_one_finds(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "_SHARE", 5)
    nbest, text = base(name)
    path.write_text(text)
    one, two = verify(path, nbest), verify(path, nbest, jobs=2)
    assert one == two
    assert two.proved


@pytest.mark.parametrize(
    "region",
    [Region(cosine=0.9, around=[3.0, 2.0, 1.0]), Region(cosine=0.9, around=[3.0, 2.0, 1.0], fixed={"feature3": 0.0})],
)
def test_processes_find_what_one_finds_within_a_cosine(path: Path, region: Region) -> None:
    nbest = random_nbest(0, n_lists=8, n_features=3, longest=6)
    lpmert.certify(nbest, lpmert.minimize(nbest, region=region), path, region=region)
    assert verify(path, nbest, jobs=2) == verify(path, nbest)


def test_the_message_is_that_of_one_process(path: Path) -> None:
    nbest, _ = base("cones")
    found = document("cones")
    record = next(record for record in reversed(found["tree"]) if "split" in record)
    record["split"] = [0, 0]
    path.write_text(layout(found))
    messages = []
    for jobs in (1, 2):
        with pytest.raises(CertificateError) as caught:
            verify(path, nbest, jobs=jobs)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "no edge of this cone" in messages[0]


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("name", ["cones", "bleu cones", "f1"])
def test_what_one_process_refuses_several_refuse(path: Path, name: str) -> None:
    nbest, text = base(name)
    refused = 0
    for seed in range(90):
        rng = random.Random(f"{name} {seed}")
        path.write_bytes(rng.choice((change_values, change_text))(rng, json.loads(text)))
        one = outcome(path, nbest, 1)
        assert outcome(path, nbest, 2) == one
        refused += one == ("refused",)
    assert refused > 60


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("name", ["cones", "bleu cones", "f1"])
def test_a_record_that_is_dropped_doubled_or_moved_is_refused(path: Path, name: str) -> None:
    nbest, _ = base(name)
    tree = document(name)["tree"]
    for at in range(0, len(tree), 1 + len(tree) // 16):
        for changed in (
            [*tree[:at], *tree[at + 1 :]],
            [*tree[: at + 1], *tree[at:]],
            [*tree[:at], tree[-1], *tree[at:-1]],
        ):
            if changed != tree:
                path.write_text(layout({**document(name), "tree": changed}))
                assert outcome(path, nbest, 2) == outcome(path, nbest, 1)


@pytest.mark.parametrize("jobs", [0, -1, True, 1.5, "2", None])
def test_a_number_of_jobs_that_is_none_is_refused(path: Path, jobs: object) -> None:
    nbest, text = base("cones")
    path.write_text(text)
    with pytest.raises(MethodError, match="jobs must be"):
        verify(path, nbest, jobs=jobs)  # type: ignore[arg-type]


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("jobs", [3, 500])
@pytest.mark.parametrize("name", ["cones", "bleu cones"])
def test_every_leaf_is_checked_by_one_process(
    path: Path, name: str, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lpmert.certificates.check import tree

    closed: list[object] = []
    whole = tree.closed
    monkeypatch.setattr(tree, "closed", lambda *own: (closed.append(own[2]), whole(*own))[1])
    nbest, text = base(name)
    path.write_text(text)
    verify(path, nbest)
    alone = len(closed)
    closed.clear()
    verify(path, nbest, jobs=jobs)
    assert len(closed) == alone
    leaves = [record for record in document(name)["tree"] if "split" not in record]
    assert alone == sum(record.get("leaf") != "selections" for record in leaves)


_whole = shares._checked


def killed(context: tuple[str | Path, bytes], *which: int) -> shares.Share:
    """Check a share, but only after a process has died of it."""
    died = Path(f"{context[0]}.died")
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _whole(context, *which)


def test_what_a_killed_process_was_to_check_another_one_checks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest, text = base("cones")
    path.write_text(text)
    monkeypatch.setattr(shares, "_SHARE", 5)
    monkeypatch.setattr(shares, "_checked", killed)
    assert verify(path, nbest, jobs=2) == verify(path, nbest)
    assert Path(f"{path}.died").exists()


class Dead(Workers):
    """Others that never answer."""

    def submit(self, *_: object) -> Any:
        return SimpleNamespace(wait=lambda: pytest.fail("waits for a process that has nothing to close"))


def test_short_trees_wait_for_no_other_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest, text = base("cones")
    path.write_text(text)
    monkeypatch.setattr("lpmert.workers.Processes", lambda _: Dead())
    monkeypatch.setattr(shares, "_SHARE", len(text.splitlines()) + 1)
    assert verify(path, nbest, jobs=3) == verify(path, nbest)


@pytest.mark.usefixtures("at_hand")
def test_shares_agree_on_which_records_belong_to_a_leaf(path: Path) -> None:
    """Else a leaf that each takes for another one's is closed by none."""
    nbest, text = base("cones")
    assert "\n{},\n" in text
    path.write_text(text.replace("\n{},\n", '\n{"take":null},\n'))
    for jobs in (1, 2):
        with pytest.raises(CertificateError, match="a node that decides None"):
            verify(path, nbest, jobs=jobs)
    nbest, text = base("selections")
    records = [json.loads(line.removesuffix(",")) for line in text.splitlines()[1:-1]]
    late = [{key: record[key] for key in sorted(record, key="take".__eq__)} for record in records]
    assert any([*record].index("take") for record in late if "take" in record)
    path.write_text(layout(document("selections") | {"tree": late}))
    for jobs in (1, 2):
        assert verify(path, nbest, jobs=jobs).proved


@pytest.mark.usefixtures("at_hand")
def test_shares_of_two_files_are_no_proof(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest, text = base("cones")
    path.write_text(text)

    def late(context: tuple[str | Path, bytes], *which: int) -> shares.Share:
        other = path.with_suffix(".new")
        other.write_text(text.replace("\n{},\n", "\n{ },\n"))
        other.replace(path)
        return _whole(context, *which)

    monkeypatch.setattr(shares, "_checked", late)
    with pytest.raises(CertificateError, match="changed while it was read"):
        verify(path, nbest, jobs=2)
    assert verify(path, nbest).proved


@pytest.mark.parametrize("jobs", [1, 2])
def test_how_far_the_check_is_is_told_by_lines(path: Path, jobs: int) -> None:
    nbest, text = base("cones")
    path.write_text(text)
    told: list[int] = []
    verify(path, nbest, jobs=jobs, on_line=told.append)
    assert told == list(range(1, len(text.splitlines()) + 1))
