"""Random small hypergraphs as they are given, and all their derivations one by one, by code that shares none."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from lpmert import Hypergraphs

Derivation = tuple[tuple[int, ...], list[str]]
"""Edges from the goal on, first tails first, and the words."""


class DrawnHypergraphs:
    """Hypergraphs whose edges have up to three tails, with unused nodes and edges that cannot be derived.

    most: derivations of each; words: letters to draw from.
    """

    def __init__(self, seed: int, n_graphs: int, width: int, most: int, words: str = "abc") -> None:
        rng = np.random.default_rng(seed)
        self.heads: list[int] = []
        self.tails: list[tuple[int, ...]] = []
        self.outputs: list[tuple[str | int, ...]] = []
        self.offsets, self.references, self.goals = [0], [], []
        while len(self.goals) < n_graphs:
            n = int(rng.integers(1, 5))
            numbers = rng.permutation(n + 1).tolist()  # the last one is derived by nothing
            first = len(self.heads)
            for rank in range(n):
                for _ in range(int(rng.integers(1, 4))):
                    below = [] if rank == 0 else rng.integers(0, rank, size=rng.integers(0, 4)).tolist()
                    below = [n if rng.random() < 0.05 else node for node in below]
                    output: list[str | int] = [str(word) for word in rng.choice(list(words), rng.integers(0, 3))]
                    output += range(len(below))
                    self.heads.append(numbers[rank])
                    self.tails.append(tuple(numbers[node] for node in below))
                    self.outputs.append(tuple(output[k] for k in rng.permutation(len(output)).tolist()))
            goal = numbers[int(rng.integers(0, n))]
            self.offsets.append(len(self.heads))
            self.goals.append(goal)
            number = len(self.goals) - 1
            size = self.count(number, goal)
            if not 1 <= size <= most:
                del self.heads[first:], self.tails[first:], self.outputs[first:]
                self.offsets.pop()
                self.goals.pop()
                continue
            self.references.append(" ".join(rng.choice(list(words), rng.integers(1, 6)).tolist()))
        shape = len(self.heads), width
        self.features = rng.integers(-3, 4, size=shape) / rng.choice([1.0, 4.0])
        self.losses = rng.integers(0, 4, size=len(self.heads))

    def graphs(self) -> Hypergraphs:
        return Hypergraphs(
            self.features,
            self.offsets,
            self.heads,
            self.tails,
            self.outputs,
            self.references,
            goals=self.goals,
            losses=self.losses,
        )

    def count(self, number: int, node: int) -> int:
        total = 0
        for edge in range(self.offsets[number], self.offsets[number + 1]):
            if self.heads[edge] == node:
                total += int(np.prod([self.count(number, tail) for tail in self.tails[edge]]))
        return total

    def derivations(self, number: int, node: int | None = None) -> list[Derivation]:
        """All derivations of a node, or the goal, those first that come first edge by edge."""
        node = self.goals[number] if node is None else node
        found: list[Derivation] = []
        for edge in range(self.offsets[number], self.offsets[number + 1]):
            if self.heads[edge] != node:
                continue
            for below in product(*(self.derivations(number, tail) for tail in self.tails[edge])):
                words: list[str] = []
                for word in self.outputs[edge]:
                    words += [word] if isinstance(word, str) else below[word][1]
                found.append(((edge, *(one for edges, _ in below for one in edges)), words))
        return found

    def sums(self, edges: Sequence[int]) -> list[Fraction]:
        rows = [[Fraction(value) for value in self.features[edge].tolist()] for edge in edges]
        return [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]
