"""A writer of a certificate that is killed leaves what it has written; the next one goes on to the same bytes."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import BASES
from commands import environment, finished
from shared import ROOT
from strategies import best_loss, random_lists

import lpmert
from lpmert import Region
from lpmert.certificates.write.certify import write_certificate
from lpmert.certificates.write.journal import Journal

EXAMPLE = ROOT / "examples" / "asr" / "nbest.tsv.gz"
COLUMNS = ("--segment", "utterance", "--features", "am,lm,words", "--loss", "errors")

KILLED = """
import itertools, os, signal, sys
from lpmert.certificates.write.journal import Journal
from lpmert.cli.main import main
added, calls = Journal.add, itertools.count(1)
def add(*given):
    if next(calls) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return added(*given)
Journal.add = add
main(sys.argv[2:])
"""


class Stopped(BaseException):
    pass


class Writer:
    """Writes a certificate of a kind until it has kept so many records; `count` tells how many it did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, name: str) -> None:
        make, self.kind = BASES[name]
        self.nbest = make()
        self.result = lpmert.minimize(self.nbest)
        self.region: Region | None = None
        self.path, self.kept = folder / "c.json.gz", folder / "kept"
        self.most, self.count = 0, 0
        own = Journal.add

        def add(journal: Journal, text: str) -> None:
            if self.count == self.most:
                raise Stopped
            self.count += 1
            own(journal, text)

        monkeypatch.setattr(Journal, "add", add)

    def write(self, most: int, *, resume: bool) -> bool:
        self.most, self.count = most, 0
        try:
            self._write(checkpoint=self.kept, resume=resume)
        except Stopped:
            return False
        return True

    def _write(self, **again: Any) -> None:
        write_certificate(self.path, self.nbest, self.result, region=self.region, kind=self.kind, **again)

    def undisturbed(self) -> bytes:
        self._write()
        found = self.path.read_bytes()
        self.path.unlink()
        return found


@pytest.mark.parametrize("name", sorted(BASES))
def test_whatever_was_kept_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    writer = Writer(monkeypatch, tmp_path, name)
    whole = writer.undisturbed()
    assert writer.write(10**6, resume=False)
    total = writer.count
    rng = np.random.default_rng(len(name))
    for most in sorted({1, 2, total - 1, *rng.integers(1, total, 5).tolist()}):
        writer.path.unlink()
        assert not writer.write(most, resume=False)
        assert writer.kept.exists()
        assert not writer.path.exists()
        assert writer.write(10**6, resume=True)
        assert writer.count == total - most
        assert writer.path.read_bytes() == whole
        assert not writer.kept.exists()


@pytest.mark.parametrize("name", ["boxes", "bleu cones", "pairs"])
def test_a_writer_stopped_after_every_few_records_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    writer = Writer(monkeypatch, tmp_path, name)
    whole = writer.undisturbed()
    runs = 1
    while not writer.write(2, resume=runs > 1):
        runs += 1
    assert runs > 4
    assert writer.path.read_bytes() == whole


@pytest.mark.parametrize("name", ["boxes", "selections", "bleu cones"])
def test_what_is_damaged_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    writer = Writer(monkeypatch, tmp_path, name)
    whole = writer.undisturbed()
    assert not writer.write(6, resume=False)
    kept = writer.kept.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(12):
        data = bytearray(kept[: int(rng.integers(9, len(kept) + 1))])
        if len(data) > 9 and rng.random() < 0.5:
            data[int(rng.integers(9, len(data)))] ^= 1 << int(rng.integers(8))
        writer.kept.write_bytes(data)
        assert writer.write(10**6, resume=True)
        assert writer.path.read_bytes() == whole


def stopped_again_and_again(writer: Writer, most: int) -> None:
    whole = writer.undisturbed()
    assert writer.write(10**6, resume=False)
    assert writer.path.read_bytes() == whole
    writer.path.unlink()
    runs = 1
    while not writer.write(most + runs % 3, resume=runs > 1):  # a stop while it begins anew costs what was kept
        runs += 1
        assert runs < 100
    assert runs > 1
    assert writer.path.read_bytes() == whole


@pytest.mark.parametrize("kind", ["selections", "cones", "boxes"])
def test_a_claim_that_is_stated_anew_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The weights claimed are not the best: the writer meets what undercuts them, and states a lower bound."""
    writer = Writer(monkeypatch, tmp_path, "selections")
    lists = random_lists("generic", 5)
    losing = lpmert.minimize(lpmert.NBest(lists.features, lists.offsets, -lists.losses)).weights
    writer.nbest, writer.kind = lists.nbest, kind
    writer.result = replace(lpmert.minimize(lists.nbest), weights=losing)
    stopped_again_and_again(writer, 1)
    checked = lpmert.verify(writer.path, lists.nbest)
    assert checked.loss > checked.bound == best_loss(lists)


def test_facets_that_are_added_to_a_claim_begin_a_tree_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(monkeypatch, tmp_path, "selections")
    for seed in range(20):
        rng = np.random.default_rng(seed)
        writer.nbest = lpmert.NBest(rng.normal(size=(48, 3)), np.arange(0, 49, 4), rng.integers(0, 9, 48))
        writer.region = Region(cosine=0.6, around=rng.normal(size=3).tolist())
        writer.result, writer.kind = lpmert.minimize(writer.nbest, region=writer.region), "cones"
        if len(json.loads(gzip.decompress(writer.undisturbed()))["facets"]) > 1:
            break
    stopped_again_and_again(writer, 5)
    assert len(json.loads(gzip.decompress(writer.path.read_bytes()))["facets"]) > 1


def test_a_writer_that_is_aborted_leaves_its_records_and_no_lock(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from lpmert.certificates.write.journal import journal\n"
        "from lpmert.system.interrupts import abort\n"
        "with journal(sys.argv[1], resume=False):\n"
        "    abort(15, None)\n"
    )
    call = [sys.executable, "-c", program, str(tmp_path / "kept")]
    done = subprocess.run(call, env=environment(), capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (143, "lpmert: interrupted\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


def test_the_records_of_other_lists_are_not_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Writer(monkeypatch, tmp_path, "selections")
    assert not first.write(5, resume=False)
    monkeypatch.undo()
    second = Writer(monkeypatch, tmp_path, "pairs")
    assert second.write(10**6, resume=True)
    assert lpmert.verify(second.path, second.nbest).proved


def test_a_file_that_is_there_is_not_overwritten_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(monkeypatch, tmp_path, "f1")
    writer.kept.write_text("mine")
    with pytest.raises(lpmert.DataError, match="holds a proof already"):
        writer.write(10**6, resume=False)
    with pytest.raises(lpmert.DataError, match="holds no proof"):
        writer.write(10**6, resume=True)
    assert writer.kept.read_text() == "mine"


@pytest.mark.slow
def test_a_run_killed_again_and_again_while_it_writes_ends_with_the_same_bytes(tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "c.json.gz", tmp_path / "search.npz"
    proof = tmp_path / "search.npz.proof"
    code, _, err = finished("solve", EXAMPLE, *COLUMNS, "--certificate", str(path), "--quiet")
    assert code == 0, err
    whole = path.read_bytes()
    path.unlink()
    kept = ("--certificate", str(path), "--checkpoint", str(checkpoint), "--resume", "--quiet")
    sizes = []
    for at in (1, 2, 30, 60, 1, 7, 40):
        command = [sys.executable, "-c", KILLED, str(at), "solve", str(EXAMPLE), *COLUMNS, *kept]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert checkpoint.exists()
        assert not path.exists()
        sizes.append(proof.stat().st_size)
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[2] > 0
    code, _, err = finished("solve", EXAMPLE, *COLUMNS, *kept)
    assert code == 0, err
    assert sorted(tmp_path.iterdir()) == [path, checkpoint]
    assert path.read_bytes() == whole
    nbest = lpmert.read(EXAMPLE, segment="utterance", features=["am", "lm", "words"], loss="errors")
    found = lpmert.verify(path, nbest)
    assert (found.loss, found.proved) == (912, True)
