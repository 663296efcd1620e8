"""What hypotheses of some number of tokens attain at best: statistics of a ratio metric that none of them betters.

A hypothesis of a lattice has as many tokens as its words, and no more n-grams of a reference than any path of it. This
needs metrics whose tokens of a text are those of its words, one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.metrics.text import BleuTexts, ChrfTexts

_ORDERS = 4
"""Of BLEU."""


@dataclass(frozen=True)
class Ideal:
    """The best against some references.

    references: the tokens of each; most [N]: n-grams of order n that may match at all; rows: from numbers of tokens
    [P], in ascending order and without gaps, matches [N] that no hypothesis exceeds, and the fewest words of one, to
    statistics [P', K]; each hypothesis of one of these lengths costs no less, with whatever others, than one of the
    rows would.
    """

    references: tuple[Sequence[str], ...]
    most: IntArray
    rows: Callable[[IntArray, IntArray, int], FloatArray]


def tokens_of_words(settings: object) -> Callable[[str], Sequence[str]] | None:
    """Return what splits a word into tokens, where those of a text are those of its words; otherwise `None`."""
    if isinstance(settings, BleuTexts) and settings.tokenize in ("13a", "none"):
        return settings.splitter()
    if isinstance(settings, ChrfTexts) and not (
        settings.per_sentence or settings.whitespace or not settings.char_order
    ):
        return settings.characters
    return None


def ideals(settings: object, references: Sequence[str]) -> list[Ideal]:
    """Return the ideals of a metric that has tokens of words, one of which every hypothesis is held against."""
    if isinstance(settings, BleuTexts):
        return [_of_bleu(settings, references)]
    if isinstance(settings, ChrfTexts):
        return [_of_chrf(settings, reference) for reference in references]
    return []


def _of_bleu(settings: BleuTexts, references: Sequence[str]) -> Ideal:
    tokens_of = settings.splitter()
    split = tuple(tokens_of(reference) for reference in references)
    most = np.zeros(_ORDERS, dtype=np.int64)
    for order in range(_ORDERS):
        counts: Counter[tuple[str, ...]] = Counter()
        for tokens in split:
            counts |= Counter(tuple(tokens[i : i + order + 1]) for i in range(len(tokens) - order))
        most[order] = counts.total()
    lengths = sorted(map(len, split))

    def length(tokens: int) -> int:
        if settings.reference_length == "shortest":
            return lengths[0]
        return min(lengths, key=lambda one: abs(one - tokens))  # of two as close the shorter one

    def rows(tokens: IntArray, matches: IntArray, _: int) -> FloatArray:
        totals = np.maximum(0, tokens[:, None] - np.arange(_ORDERS))
        found = np.empty((len(tokens), 2 * _ORDERS + 1))
        found[:, 0:-1:2] = np.minimum(matches, totals)
        found[:, 1:-1:2] = totals
        found[:, -1] = [length(one) for one in tokens.tolist()]
        return found

    return Ideal(split, most, rows)


def _of_chrf(settings: ChrfTexts, reference: str) -> Ideal:
    orders = np.arange(settings.char_order)
    perfect = np.array(settings.counter([reference])(reference), dtype=np.float64)
    most = perfect[2 : 3 * settings.char_order : 3].astype(np.int64)

    def rows(tokens: IntArray, matches: IntArray, fewest: int) -> FloatArray:
        enough = int((matches + orders).max())  # with more, nothing grows but what counts against it
        tokens = tokens[tokens <= max(enough, int(tokens[0]))]
        totals = np.maximum(0, tokens[:, None] - orders)
        totals[:, most == 0] = 0  # orders that the reference does not have are not counted
        variants = []
        for words in range(min(fewest, settings.word_order), settings.word_order + 1):
            found = np.tile(perfect, (len(tokens), 1))  # what is known of characters tells little of words
            found[:, 0 : 3 * len(orders) : 3] = totals
            found[:, 2 : 3 * len(orders) : 3] = np.minimum(matches, totals)
            longer = 3 * (len(orders) + words)  # n-grams that so few words do not have are not counted
            found[:, longer::3] = found[:, longer + 2 :: 3] = 0
            variants.append(found)
        return np.concatenate(variants)

    return Ideal((settings.characters(reference),), most, rows)
