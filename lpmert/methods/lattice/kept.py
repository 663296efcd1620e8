"""What a search over lattices keeps in a checkpoint: cones that wait, and their lattices, each once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lpmert.methods.lattice.lists import Lists
from lpmert.methods.lattice.parts import OpenLattice
from lpmert.methods.lattice.sight import Cone
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


def cones_of(state: State) -> list[Cone]:
    """Return the cones of a state; they share what they shared."""
    lists = [Lists(**one) for one in state["lists"]]
    columns = (state["lattices"][name] for name in ("marks", "count", "least", "needed", "rows"))
    lattices = [
        OpenLattice(marks, int(count), int(least), float(needed), rows)
        for marks, count, least, needed, rows in zip(*columns, strict=True)
    ]
    return [
        Cone(
            one["rays"],
            one["mixes"],
            one["depth"],
            one["bound"],
            lists[one["lists"]],
            {n: lattices[place] for n, place in zip(one["numbers"].tolist(), one["open"].tolist(), strict=True)},
        )
        for one in state["cones"]
    ]
