"""The optimum over all paths of lattices, against all of them one by one in exact arithmetic that shares no code."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import oracle
import pytest
from shared import asr_lattices, needs_shared
from strategies import many_more

import lpmert
from lpmert import Region, Status
from lpmert.methods.auto import Auto
from lpmert.methods.lattice.search import LatticeSettings
from lpmert.methods.lattice.solve import solve_lattices
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.lattices import Lattices

Path = tuple[int, ...]
WORDS = ("a", "b", "c", None)


def edits(first: list[str], second: list[str]) -> int:
    row = list(range(len(second) + 1))
    for i, x in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


class Drawn:
    """Random small lattices as they are given, and all their paths in the order in which they stand for each other."""

    def __init__(self, seed: int, kind: str, n_lattices: int, width: int) -> None:
        rng = np.random.default_rng(seed)
        self.sources: list[int] = []
        self.targets: list[int] = []
        self.words: list[str | None] = []
        self.offsets, self.references, self.starts, self.ends = [0], [], [], []
        for _ in range(n_lattices):
            n = int(rng.integers(2, 7))
            numbers = rng.permutation(n)  # nodes need not be numbered along the links
            links = [(i, i + 1) for i in range(n - 1)]
            links += [tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(rng.integers(0, 8))]
            for place in rng.permutation(len(links)).tolist():
                i, j = links[place]
                self.sources.append(int(numbers[i]))
                self.targets.append(int(numbers[j]))
                self.words.append(WORDS[int(rng.integers(len(WORDS)))])
            self.offsets.append(len(self.sources))
            self.starts.append(int(numbers[0]))
            self.ends.append(int(numbers[int(rng.integers(1, n))]))  # what lies beyond are dead ends
            self.references.append(" ".join(rng.choice(["a", "b", "c"], rng.integers(0, 4)).tolist()))
        shape = len(self.sources), width
        self.features = {
            "integers": lambda: rng.integers(-3, 4, size=shape).astype(float),
            "ternary": lambda: rng.integers(-1, 2, size=shape).astype(float),
            "dyadic": lambda: rng.integers(-50, 51, size=shape) / 16.0,
            "large": lambda: rng.integers(-(10**9), 10**9, size=shape).astype(float),
            "steep": lambda: rng.integers(-3, 4, size=shape) * 2.0 ** np.arange(0, 30 * width, 30),
        }[kind]()

    def lattices(self) -> Lattices:
        return Lattices(
            self.features,
            self.offsets,
            self.sources,
            self.targets,
            self.words,
            self.references,
            starts=self.starts,
            ends=self.ends,
        )

    def paths(self, number: int) -> list[Path]:
        """All paths of a lattice, those first that come first link by link from the end."""
        first, last = self.offsets[number], self.offsets[number + 1]
        found: list[Path] = []

        def walk(node: int, way: Path) -> None:
            if node == self.starts[number]:
                found.append(way)
            for link in range(first, last):
                if self.targets[link] == node:
                    walk(self.sources[link], (*way, link))

        walk(self.ends[number], ())
        return found

    def listed(self) -> tuple[list[list[Fraction]], list[int], list[int]]:
        """Features, offsets and losses of all paths of all lattices."""
        features, offsets, losses = [], [0], []
        for number, reference in enumerate(self.references):
            for way in self.paths(number):
                rows = [[Fraction(value) for value in self.features[link].tolist()] for link in way]
                features.append([sum(column, Fraction(0)) for column in zip(*rows, strict=True)])
                said = [word for link in reversed(way) if (word := self.words[link]) is not None]
                losses.append(edits(said, reference.split()))
            offsets.append(len(features))
        return features, offsets, losses


def limits_of(seed: int, width: int) -> tuple[Region | None, list[list[int]]]:
    """A region, and its limits as rows with a positive product."""
    unit = np.eye(width, dtype=int).tolist()
    names = [f"feature{d + 1}" for d in range(width)]
    kinds: list[tuple[Region | None, list[list[int]]]] = [
        (None, []),
        (Region(nonnegative=True), unit),
        (Region(bounds={names[0]: (0, None)}), unit[:1]),
    ]
    if width > 1:
        least, most = [-2, 1] + [0] * (width - 2), [3, -1] + [0] * (width - 2)
        box = Region(fixed={names[0]: 1.0}, bounds={names[1]: (2.0, 3.0)})
        kinds.append((box, [unit[0], least, most]))
    return kinds[seed % len(kinds)]


def least_loss(drawn: Drawn, limits: list[list[int]]) -> int | None:
    features, offsets, losses = drawn.listed()
    found = oracle.attainable(features, offsets, limits)
    return min((sum(losses[row] for row in rows) for rows in found), default=None)


def check(seed: int, kind: str, settings: LatticeSettings | None = None, *, most: int = 400) -> None:
    rng = np.random.default_rng(1000 + seed)
    n_lattices, width = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    drawn = Drawn(seed, kind, n_lattices, width)
    if np.prod([len(drawn.paths(s)) for s in range(n_lattices)]) > most or not all(
        any(drawn.paths(s)) for s in range(n_lattices)
    ):
        return
    region, limits = limits_of(seed, width)
    problem = LatticeProblem(drawn.lattices(), "wer", region)
    result = solve_lattices(problem, Auto(), settings=settings)
    expected = least_loss(drawn, limits)
    assert expected is not None
    assert result.loss == expected
    assert result.lower_bound is not None
    assert result.lower_bound <= expected
    if result.status is Status.OPTIMAL:
        assert result.lower_bound == expected
    else:
        assert result.status is Status.OPTIMAL_TO_TOLERANCE
        assert kind == "steep"
    # What the weights say they lose is what decoding with them loses.
    features, offsets, losses = drawn.listed()
    exact = [Fraction(weight) for weight in result.weights.tolist()]
    total = 0
    for start, end in pairwise(offsets):
        scores = [sum(w * x for w, x in zip(exact, row, strict=True)) for row in features[start:end]]
        total += losses[start + scores.index(max(scores))]
    assert total == expected


KINDS = ("integers", "ternary", "dyadic", "large", "steep")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [0, *(many_more(block) for block in range(1, 12))])
def test_the_optimum_is_that_of_all_paths(kind: str, block: int) -> None:
    for seed in range(40 * block, 40 * block + 40):
        check(seed, kind)


@pytest.mark.parametrize("kind", ["integers", "dyadic", "large"])
@pytest.mark.parametrize("comparisons", [1, 10, 100])
def test_lattices_that_stay_open_at_first_end_with_the_same_optimum(kind: str, comparisons: int) -> None:
    for seed in range(500, 515):
        check(seed, kind, LatticeSettings(comparisons=comparisons))


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(("n_lattices", "errors", "most"), [(60, 228, 55), (100, 386, None)])
def test_the_least_errors_of_a_recogniser_are_those_of_an_independent_search(
    n_lattices: int, errors: int, most: int | None
) -> None:
    """The figures are those of a search of its own, in its data's description, by plain dominance at the rays."""
    folder = asr_lattices()
    silent = ["<sil>", "[NOISE]", "[SPEECH]"]
    whole = lpmert.load_lattices(folder / "lattices.tar.xz", folder / "references.tsv.gz", silent=silent, variants=True)
    lattices = part_of(whole, n_lattices)
    region = Region(fixed={"acoustic": 1.0}, bounds={"lm": (3.0, 20.0), "words": (-12.0, 12.0)})
    result = lpmert.minimize(lattices, region=region)
    assert (result.loss, result.lower_bound, result.status) == (errors, errors, Status.OPTIMAL)
    assert lpmert.evaluate(lattices, result).loss == errors
    if most is not None:
        problem = LatticeProblem(lattices)
        assert sum(problem.least_loss(s) for s in range(n_lattices)) == most
        assert lpmert.evaluate(lattices, [1.0, 9.5, -0.63]).loss == 250


def part_of(lattices: Lattices, n: int) -> Lattices:
    """The first n lattices."""
    links = slice(0, int(lattices.offsets[n]))
    return Lattices(
        lattices.features[links],
        lattices.offsets[: n + 1],
        lattices.sources[links],
        lattices.targets[links],
        lattices.words[links],
        lattices.references[:n],
        vocabulary=lattices.vocabulary,
        names=lattices.names,
        list_ids=lattices.list_ids[:n],
    )
