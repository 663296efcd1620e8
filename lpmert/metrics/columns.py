"""Names of the statistics of metrics."""

from __future__ import annotations

import re
from collections.abc import Sequence

BLEU_COLUMNS = (
    "match_1",
    "total_1",
    "match_2",
    "total_2",
    "match_3",
    "total_3",
    "match_4",
    "total_4",
    "reference_length",
)
F_COLUMNS = ("match", "predicted", "gold")
ERROR_COLUMNS = ("errors", "reference_length")
"""Of WER and CDER, where the length of the reference is known."""
TER_COLUMNS = ("edits_100", "reference_length_100", "rate_100")
"""Of TER in data of Moses' mert, times 100."""
PER_COLUMNS = ("correct", "length", "reference_length")
"""Of the position-independent error rate: words that match in any order, words of hypothesis and reference."""
TEXT_METRICS = ("bleu", "sentence-bleu", "chrf", "sentence-chrf", "ter", "sentence-ter", "wer", "cer")
"""Names of the metrics on texts, for those who do not want to import these."""
LOSSES = ("loss", "errors")
"""Names by which one column of losses is recognised."""

_CHRF = re.compile(r"match_(char|word)_[1-9][0-9]?")


def chrf_columns(char_order: int, word_order: int) -> tuple[str, ...]:
    """Return the names of the statistics of chrF, three an order."""
    orders = [f"char_{n}" for n in range(1, char_order + 1)]
    orders += [f"word_{n}" for n in range(1, word_order + 1)]
    return tuple(f"{what}_{order}" for order in orders for what in ("hypothesis", "reference", "match"))


def named_like_statistics(names: Sequence[str]) -> bool:
    """Whether columns with these names are known for statistics: losses, those of a metric, or statistic1, ..."""
    columns = tuple(names)
    if len(columns) == 1:
        return columns[0] in LOSSES
    numbered = tuple(f"statistic{number}" for number in range(1, len(columns) + 1))
    known = (BLEU_COLUMNS, F_COLUMNS, ERROR_COLUMNS, TER_COLUMNS, PER_COLUMNS, numbered)
    return columns in known or chrf_orders(columns) is not None


def chrf_orders(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the orders of characters and words of which these are the statistics; `None` for other names."""
    columns = tuple(names)
    kinds = [match[1] for name in columns if (match := _CHRF.fullmatch(name))]
    orders = kinds.count("char"), kinds.count("word")
    return orders if kinds and chrf_columns(*orders) == columns else None
