"""What lattices take of memory is known before it is taken, and a limit that is too low is said to be."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from searches import peak_of

import lpmert
from lpmert import DataError, Lattices, Region
from lpmert.formats import lattices as lattice_graphs
from lpmert.model import lattice_problem
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.system.memory import Allowance, resident

NODES, PARALLEL = 200, 100


def ladder(width: int) -> Lattices:
    nodes = np.repeat(np.arange(NODES), PARALLEL)
    features = np.random.default_rng(1).integers(-9, 10, (len(nodes), width)).astype(float)
    return Lattices(features, [0, len(nodes)], nodes, nodes + 1, ["a"] * len(nodes), ["a b"])


def test_putting_lattices_together_takes_no_more_than_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = [(k, k // PARALLEL, k // PARALLEL + 1) for k in range(NODES * PARALLEL)]
    lines = [f"J={k} S={u} E={v} W=w{k % 7} a=-{k % 11}.5 l=-{k % 5}" for k, u, v in links]
    nodes = [f"I={v}" for v in range(NODES + 1)]
    path = tmp_path / "one.slf"
    path.write_text("\n".join(["VERSION=1.0", f"N={len(nodes)} L={len(lines)}", *nodes, *lines]) + "\n")
    lpmert.load_lattices(path, {"one": "w1 w2"})  # what is loaded once is
    asked: list[int] = []

    def begin(size: int, _: str) -> None:
        asked.append(size)
        tracemalloc.reset_peak()
        taken.append(tracemalloc.get_traced_memory()[0])

    taken: list[int] = []
    monkeypatch.setattr(lattice_graphs, "room_for", begin)
    tracemalloc.start()
    try:
        lpmert.load_lattices(path, {"one": "w1 w2"})
        most = tracemalloc.get_traced_memory()[1] - taken[0]
    finally:
        tracemalloc.stop()
    assert 0.5 * asked[0] < most < asked[0]


@pytest.mark.parametrize("region", [None, Region(fixed={"feature1": 1.0}, bounds={"feature2": (0, 3)})])
def test_the_problem_takes_no_more_than_was_asked_for(region: Region | None, monkeypatch: pytest.MonkeyPatch) -> None:
    lattices, asked = ladder(8), list[int]()
    LatticeProblem(lattices, "wer", region)
    monkeypatch.setattr(lattice_problem, "room_for", lambda size, _: asked.append(size))
    assert peak_of(lambda: LatticeProblem(lattices, "wer", region)) < asked[0]


def test_a_fingerprint_copies_no_features() -> None:
    lattices = ladder(8)
    assert peak_of(lambda: lattices.fingerprint) < lattices.features.nbytes // 2


def test_lattices_that_find_no_room_are_refused_before_the_search() -> None:
    now = resident()
    if now is None:
        pytest.skip("nobody knows what the process holds")
    lattices = ladder(40)
    with (
        Allowance(now + lattices.features.nbytes).enforced(),
        pytest.raises(DataError, match=r"memory limit of .* is too low: .* allow more"),
    ):
        LatticeProblem(lattices, "wer")
