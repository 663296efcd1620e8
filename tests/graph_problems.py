"""Random small lattices and hypergraphs with the least loss of all their paths, enumerated in exact arithmetic.

The twin of `problems.py` for graphs: what links weigh comes from the same kinds of features, limits and equations from
the same kinds of regions, and `fuzz.py` says what must hold of the results.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from drawn_hypergraphs import DrawnHypergraphs
from drawn_lattices import Drawn, edits
from problems import FEATURES, THIN, Given, Loss, bleu_loss, feature_names, region

from lpmert import Hypergraphs, Lattices, Region

MOST_SELECTIONS = 400
METRICS = ("wer", "cer", "loss", "bleu")


@dataclass(frozen=True)
class GivenGraphs(Given):
    """Lattices or hypergraphs, and the lists of all their paths; sums, texts: the exact features of the paths, and what
    they say.
    """

    graphs: Lattices | Hypergraphs | None = None
    sums: list[list[Fraction]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def data(self) -> Any:
        return self.graphs

    @cached_property
    def _meant(self) -> list[list[Fraction]]:
        return self.sums


def graph_problem(features: str, metric: str, seed: int, *, in_region: bool = False, kind: str = "") -> GivenGraphs:
    """Lattices, or for every third seed hypergraphs, whose links have features of this kind; kind: of region."""
    in_region = in_region or bool(kind)
    drawn, paths, width, rng = _drawn(features, metric, seed, in_region=in_region)
    kind, settings, half_spaces, equations = region(rng, width, kind) if in_region else ("", {}, [], [])
    names = feature_names(width)
    losses = rng.integers(0, 5, len(drawn.features)).astype(float)
    graphs = replace_features(drawn, FEATURES[features](rng, drawn.offsets, width), losses, names)
    links = rounded(graphs, drawn.features)
    sums, texts, values, offsets = [], [], [], [0]
    for own, reference in zip(paths, drawn.references, strict=True):
        for way, words in own:
            sums.append([sum((links[link][d] for link in way), Fraction(0)) for d in range(width)])
            texts.append(" ".join(words))
            values.append(_value(metric, way, words, reference.split(), losses))
        offsets.append(len(sums))
    hyper = isinstance(drawn, DrawnHypergraphs)
    loss: Loss | None = bleu_loss if metric == "bleu" else None
    return GivenGraphs(
        name=f"{'hypergraphs' if hyper else 'lattices'}, {features}, {metric}, {seed}" + (f", {kind}" if kind else ""),
        features=np.array([[float(value) for value in row] for row in sums]),
        offsets=offsets,
        statistics=np.array([[float(value) for value in row] for row in values]),
        values=values,
        metric=metric,
        loss=loss,
        region=Region(**settings) if in_region else None,
        rows=half_spaces,
        equations=equations,
        exact=loss is None,
        thin=features in THIN or kind == "many",
        graphs=graphs,
        sums=sums,
        texts=texts,
    )


Paths = list[list[tuple[tuple[int, ...], list[str]]]]
"""Of each graph, its paths in the order in which they stand for each other: links, and words."""


def _drawn(
    features: str, metric: str, seed: int, *, in_region: bool
) -> tuple[Drawn | DrawnHypergraphs, Paths, int, np.random.Generator]:
    """Graphs with few paths, all of which are known."""
    rng = np.random.default_rng([seed, *features.encode(), *metric.encode(), int(in_region), 11])
    while True:
        width, count = int(rng.choice([1, 2, 2, 3, 3, 4, 5])), int(rng.integers(1, 4))
        number = int(rng.integers(2**31))
        if seed % 3 == 2:
            hyper = DrawnHypergraphs(number, count, width, 12)
            paths: Paths = [list(hyper.derivations(s)) for s in range(count)]
            drawn: Drawn | DrawnHypergraphs = hyper
        else:
            plain = Drawn(number, "integers", count, width)
            paths = [
                [(way, [word for link in reversed(way) if (word := plain.words[link]) is not None]) for way in own]
                for own in (plain.paths(s) for s in range(count))
            ]
            drawn = plain
        # A lattice whose only path has no links is refused.
        whole = all(own and all(way for way, _ in own) for own in paths)
        if whole and 1 < prod(len(own) for own in paths) <= MOST_SELECTIONS:
            return drawn, paths, width, rng


def replace_features(
    drawn: Drawn | DrawnHypergraphs, features: Any, losses: Any, names: list[str]
) -> Lattices | Hypergraphs:
    """The graphs with other features and losses; drawn keeps the features as they are given."""
    drawn.features = np.asarray(features, dtype=np.float64)
    if isinstance(drawn, Drawn):
        return Lattices(
            drawn.features, drawn.offsets, drawn.sources, drawn.targets, drawn.words, drawn.references,
            starts=drawn.starts, ends=drawn.ends, losses=losses, names=names,
        )  # fmt: skip
    return Hypergraphs(
        drawn.features, drawn.offsets, drawn.heads, drawn.tails, drawn.outputs, drawn.references,
        goals=drawn.goals, losses=losses, names=names,
    )  # fmt: skip


def rounded(graphs: Lattices | Hypergraphs, given: np.ndarray) -> list[list[Fraction]]:
    """The features of the links [L, D] rounded to multiples of the graphs' units, which docs/lattices.md promises.

    Every link that the graphs hold must have such features; those between the several tails of an edge have none.
    """
    units = [Fraction(unit) for unit in graphs.units.tolist()]
    found = [
        [round(Fraction(value) / unit) * unit for value, unit in zip(row, units, strict=True)] for row in given.tolist()
    ]
    held = {tuple(map(Fraction, row)) for row in graphs.features.tolist()}
    assert held <= {(Fraction(0),) * len(units), *map(tuple, found)}, (
        "links have other features than those given, rounded to their units"
    )
    return found


def _value(
    metric: str, way: tuple[int, ...], words: list[str], reference: list[str], losses: np.ndarray
) -> tuple[Fraction, ...]:
    if metric == "loss":
        return (Fraction(sum(losses[link] for link in way)),)
    if metric == "wer":
        return (Fraction(edits(words, reference)),)
    if metric == "cer":
        return (Fraction(edits(list(" ".join(words)), list(" ".join(reference)))),)
    return tuple(map(Fraction, [*bleu_counts(words, reference), len(reference)]))


def bleu_counts(words: list[str], reference: list[str]) -> list[int]:
    """Papineni et al. 2002: clipped matches and totals of the orders 1 to 4."""
    counts = []
    for n in range(1, 5):
        own, other = (Counter(tuple(text[k : k + n]) for k in range(len(text) - n + 1)) for text in (words, reference))
        counts += [(own & other).total(), own.total()]
    return counts


def with_ties(given: Given, ties: str) -> Given:
    """The problem whose identical hypotheses all have the least, or the most, of their losses: what `ties` promises."""
    values = list(given.values)
    pick = min if ties == "best" else max
    for one, rows in zip(*given._lists, strict=True):
        groups: dict[tuple[Fraction, ...], list[int]] = {}
        for vector, row in zip(one, rows, strict=True):
            groups.setdefault(tuple(vector), []).append(row)
        for group in groups.values():
            for row in group:
                values[row] = pick(given.values[other] for other in group)
    return replace(given, name=f"{given.name}, ties {ties}", values=values)
