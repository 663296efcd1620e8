"""What a search over lattices keeps in a checkpoint: cones that wait, and their lattices, each once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lpmert.errors import FloatArray
from lpmert.methods.lattice.nodes import Cone, OpenLattice, all_mixes
from lpmert.model.catalogue import Catalogue, checked_array
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.quoting import quoted
from lpmert.search.checkpoint import State, plain


def state_of_cones(cones: Sequence[Cone]) -> State:
    """Return cones by what they consist of; what several of them share is there once."""
    lists = {id(cone.lists): cone.lists for cone in cones}
    lattices = {id(lattice): lattice for cone in cones for lattice in cone.open.values()}
    place = {key: number for own in (lists, lattices) for number, key in enumerate(own)}
    return {
        "lists": [plain(one) for one in lists.values()],
        "lattices": {
            "marks": [one.marks for one in lattices.values()],
            "count": np.array([one.count for one in lattices.values()], dtype=np.int64),
            "least": np.array([one.least for one in lattices.values()], dtype=np.int64),
            "needed": np.array([one.needed for one in lattices.values()], dtype=np.float64),
            "rows": [one.rows for one in lattices.values()],
        },
        "cones": [
            {
                **{name: value for name, value in cone._asdict().items() if name not in ("lists", "open")},
                "lists": place[id(cone.lists)],
                "numbers": np.array(list(cone.open), dtype=np.int64),
                "open": np.array([place[id(lattice)] for lattice in cone.open.values()], dtype=np.int64),
            }
            for cone in cones
        ],
    }


def cones_of(state: State, catalogue: Catalogue, problem: LatticeProblem) -> list[Cone]:
    """Return the cones of a state; they share what they shared; raises `ValueError` for what is none."""
    lists = [catalogue.lists_of(one) for one in state["lists"]]
    columns = (state["lattices"][name] for name in ("marks", "count", "least", "needed", "rows"))
    lattices = [
        OpenLattice(marks, int(count), int(least), float(needed), rows)
        for marks, count, least, needed, rows in zip(*columns, strict=True)
    ]
    width = problem.canonical.n_features
    most = len(all_mixes(width))
    checked: set[tuple[int, int]] = set()
    cones = []
    for one in state["cones"]:
        size = len(one["numbers"])
        numbers = checked_array(one["numbers"], np.int64, (size,), len(problem.graphs)).tolist()
        parts = checked_array(one["open"], np.int64, (size,), len(lattices)).tolist()
        for number, part in {*zip(numbers, parts, strict=True)} - checked:
            _check(lattices[part], problem, number)
            checked.add((number, part))
        own = lists[one["lists"]]
        if sorted([*numbers, *own.numbers.tolist()]) != list(range(len(problem.graphs))):
            raise ValueError("lattices are missing, or there twice")
        open = dict(zip(numbers, (lattices[part] for part in parts), strict=True))
        rays = rays_of(one["rays"], width)
        mixes = checked_array(one["mixes"], np.float64, (min(len(one["mixes"]), most), width))
        cones.append(Cone(rays, mixes, whole(one["depth"]), whole(one["bound"]), own, open))
    return cones


def rays_of(value: Any, width: int) -> FloatArray:
    """Return the rays [d, d] of a cone of a state."""
    return checked_array(value, np.float64, (width, width))


def whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{quoted(value)} is no count")
    return value


def _check(lattice: OpenLattice, problem: LatticeProblem, number: int) -> None:
    """Refuse what is not left of a lattice: links of which no path can be made, or other numbers of them."""
    graph = problem.graphs[number]
    n_links = len(graph.sources)
    checked_array(lattice.marks, np.uint8, (-(-n_links // 8),), 256)
    kept = np.unpackbits(lattice.marks)
    if not (0 < lattice.count == np.count_nonzero(kept[:n_links]) == np.count_nonzero(kept)):
        raise ValueError("marks of other links")
    if not np.isfinite(lattice.needed):
        raise ValueError("work without end")
    if lattice.rows is not None:
        checked_array(lattice.rows, np.float64, (len(lattice.rows), len(problem.settings.columns)))
    reached = np.zeros(graph.n_nodes, dtype=np.bool_)
    reached[0] = True
    for link in np.flatnonzero(kept).tolist():
        reached[graph.targets[link]] |= reached[graph.sources[link]] and reached[graph.seconds[link]]
    if not reached[-1]:
        raise ValueError("marks without a path")
