"""The best derivations of a hypergraph that differ in their words, in exact order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from lpmert.model.hypergraphs import Texts


class Derivation(NamedTuple):
    """The texts of a derivation, its links from the root on, those of the source first, and its score."""

    texts: Texts
    way: tuple[int, ...]
    score: int


class _Choice(NamedTuple):
    """A link, and which derivations of its source and its second one, by their ranks."""

    link: int
    first: int
    second: int


@dataclass
class _Node:
    """What is known of a node: its best derivations, candidates for the next one, and choices that may become some."""

    waiting: list[_Choice] = field(default_factory=list)
    heap: list[tuple[int, tuple[int, ...], Texts, _Choice]] = field(default_factory=list)
    seen: set[_Choice] = field(default_factory=set)
    said: set[Texts] = field(default_factory=set)
    best: list[Derivation] = field(default_factory=list)
    complete: bool = False


def distinct_derivations(
    links: Sequence[tuple[int, int, int]],
    scores: Sequence[int],
    say: Callable[[int, Texts], Texts],
    goal: int,
    n: int,
) -> list[Derivation]:
    """Return the n best derivations of a node with different texts, or as many as there are, the best first.

    links: source, second and target each, nodes whose number grows, 0 for none. say(link, texts): what a link makes of
    the texts of its tails. Of derivations with the same text the best one stands for all; of equal scores that comes
    first whose links do, from the root on.

    Every node ranks its own derivations, as far as others ask for them; of those with the same text only the best is
    part of a best one. Source: L. Huang and D. Chiang, Better k-best parsing, IWPT 2005, algorithm 3.
    """
    nodes: dict[int, _Node] = {}
    for link, (_, _, target) in enumerate(links):
        nodes.setdefault(target, _Node()).waiting.append(_Choice(link, 0, 0))
    asked = [(goal, rank) for rank in range(n - 1, -1, -1)]
    while asked:
        number, rank = asked[-1]
        node = nodes.get(number)
        if node is None or node.complete or len(node.best) > rank:
            asked.pop()
            continue
        unknown = _weigh(node, nodes, links, scores, say)
        if unknown is not None:
            asked.append(unknown)
        elif node.heap:
            _take_best(node, links)
        else:
            node.complete = True
    return nodes[goal].best if goal in nodes else []


def _weigh(
    node: _Node,
    nodes: dict[int, _Node],
    links: Sequence[tuple[int, int, int]],
    scores: Sequence[int],
    say: Callable[[int, Texts], Texts],
) -> tuple[int, int] | None:
    """Make candidates of all choices that wait; return a node and a rank that have to be known before."""
    while node.waiting:
        choice = node.waiting[-1]
        tails = []
        for number, rank in zip(links[choice.link], choice[1:], strict=False):
            if number == 0:
                continue
            below = nodes.get(number)
            if below is not None and len(below.best) > rank:
                tails.append(below.best[rank])
            elif below is None or below.complete:
                break  # there is no such derivation
            else:
                return number, rank
        else:
            score = scores[choice.link] + sum(tail.score for tail in tails)
            way = (choice.link, *(link for tail in tails for link in tail.way))
            texts = say(choice.link, tuple(text for tail in tails for text in tail.texts))
            heappush(node.heap, (-score, way, texts, choice))
        node.waiting.pop()
    return None


def _take_best(node: _Node, links: Sequence[tuple[int, int, int]]) -> None:
    """Move the best candidate to the derivations, if its text is new, and let those next to it wait."""
    cost, way, texts, choice = heappop(node.heap)
    if texts not in node.said:
        node.said.add(texts)
        node.best.append(Derivation(texts, way, -cost))
    source, second, _ = links[choice.link]
    nexts = [choice._replace(first=choice.first + 1)] if source else []
    nexts += [choice._replace(second=choice.second + 1)] if second else []
    node.waiting += [new for new in nexts if new not in node.seen]
    node.seen.update(nexts)
