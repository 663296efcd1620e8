"""Which columns of a table are likely what, where nobody said: by their names, and by what the first rows hold.

Nothing here decides how lists are read: it is for the command that an error proposes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.formats.columns import SEGMENTS, TRUTH, Columns
from lpmert.metrics.columns import LOSSES
from lpmert.model.arrays import MAGNITUDE_LIMIT
from lpmert.quoting import listed

Cells = Mapping[str, Any]
"""A sequence or an array for each column."""

COLUMN = "COLUMN"
"""Stands for a column that is not known."""

_SEGMENTS = (
    *SEGMENTS, "utt", "utterance", "sent", "sentence", "id", "qid", "query", "prompt", "doc", "case", "context"
)  # fmt: skip
_ERRORS = ("errors", "error", "edits")
_LOSSES = (*LOSSES, "error", "wer", "cer", "edits")
_GAINS = ("correct", "is_correct", "gain", "accuracy", "passed", "chosen", "choice", "relevance")
_TEXTS = ("text", "hypothesis", "output", "summary", "answer")
_TOTALS = ("score", "total", "sum", "overall")
_FEW_ROWS = 10
"""Fewer rows than that, and chance may look like a rule."""
_ROUNDING = 1e-3
"""Share of its spread by which a sum may differ from its parts, all written with few digits."""
_NAMED_PARTS = 4
_SUMMED_COLUMNS, _SUMMED_ROWS = 50, 2000
"""Most in which sums are looked for, as that takes time."""


class Suggestion(NamedTuple):
    """Likely columns by option, and why others are no features."""

    options: dict[str, str]
    no_features: dict[str, str]


def suggested(cells: Cells, said: Columns, *, textual: bool, costs: bool = True) -> Suggestion:
    """Return what the columns of a table are likely to be.

    cells: of the first rows, by name. said: what is known. textual: numbers are written as text. costs: hypotheses are
    to have losses.
    """
    numbers = {name: found for name in cells if (found := _numbers(cells[name], textual)) is not None}
    segment = said.segment or _segment(cells, numbers)
    first = _first_rows(cells.get(segment, next(iter(cells.values()), ())), known=segment in cells)
    options = _loss(cells, said, numbers, textual)
    text = said.text or _text({name: cells[name] for name in cells if name not in {*numbers, segment}})
    taken = {segment, text, *_split(options.get("loss") or options.get("gain") or options["statistics"])}
    features = {name: found for name, found in numbers.items() if name not in taken and _split(name) == [name]}
    gaps = [name for name in cells if name not in {*numbers, *taken} and _numbers(cells[name][:1], textual) is not None]
    reasons = dict.fromkeys(gaps, "not a number in every row") | _reasons(features, first, costs=costs)
    lengths = [name for name in reasons if reasons[name] == _SAME and "ref" in name.lower() and _counts(numbers[name])]
    if costs:
        left = {name: found for name, found in features.items() if name not in reasons}
        reasons |= _sums(left, numbers.get(options.get("loss", "")), options.get("loss", ""), first)
    loss = options.get("loss", "")
    if lengths and not said.statistics and _last(loss) in _ERRORS and _counts(numbers[loss]):
        options |= {"statistics": f"{options.pop('loss')},{lengths[0]}", "metric": "wer"}
        del reasons[lengths[0]], features[lengths[0]]
    named = [name for name in features if name not in reasons] or [*features] or ["A,B,C"]
    return Suggestion({"segment": segment, "features": ",".join(named), **options, "text": text}, reasons)


def _loss(cells: Cells, said: Columns, numbers: Iterable[str], textual: bool) -> dict[str, str]:
    """Return the option that says what hypotheses cost, with its columns."""
    if said.statistics:
        return {"loss" if len(said.statistics) == 1 else "statistics": ",".join(said.statistics)}
    truths = [name for name in cells if _is_truth(cells[name], textual)]
    for option, found in (
        ("loss", _named(_LOSSES, numbers)),
        ("gain", _named(_GAINS, [*truths, *numbers])),
        ("gain", next(iter(truths), None)),
        ("gain", _named(("reward",), numbers)),
        ("loss", _named(("cost",), numbers)),
    ):
        if found is not None:
            return {option: found}
    return {"loss": COLUMN}


def _named(likely: Iterable[str], names: Iterable[str]) -> str | None:
    """Return the first column that is called one of these, in any case, and behind any path of keys."""
    names = list(names)
    return next((name for one in likely for name in names if _last(name) == one), None)


def _last(name: str) -> str:
    return name.lower().rpartition(".")[2]


def _split(names: str | None) -> list[str]:
    return [] if not names else [name.strip() for name in names.split(",")]


def _numbers(cells: Any, textual: bool) -> FloatArray | None:
    """Return the cells of a column if all are finite numbers."""
    if not textual and not isinstance(cells, np.ndarray) and not {*map(type, cells)} <= {int, float}:
        return None
    try:
        found = np.array([float(cell) for cell in cells])
    except (ValueError, OverflowError):
        return None
    return found if (np.abs(found) <= MAGNITUDE_LIMIT).all() else None


def _counts(numbers: FloatArray) -> bool:
    return bool((numbers >= 0).all() and (numbers % 1 == 0).all())


def _is_truth(cells: Sequence[Any], textual: bool) -> bool:
    if textual:
        return all(str(cell).strip().lower() in TRUTH for cell in cells)
    return all(isinstance(cell, bool) for cell in cells)


def _is_text(cells: Sequence[Any]) -> bool:
    return {*map(type, cells)} == {str}


def _starts(cells: Sequence[Any]) -> list[int]:
    """Return the rows on which another cell begins."""
    return [row for row in range(len(cells)) if row == 0 or cells[row] != cells[row - 1]]


def _first_rows(cells: Sequence[Any], *, known: bool) -> IntArray:
    """Return for each row the one on which its list begins; where lists are not known, all rows are one."""
    starts = _starts(cells) if known else [0][: len(cells)]
    return np.repeat(np.array(starts, dtype=np.int64), np.diff([*starts, len(cells)]))


def _segment(cells: Cells, numbers: Mapping[str, FloatArray]) -> str:
    """Return the column that names lists: by its name, or as its cells repeat from row to row and never come back."""
    ids = [name for name in cells if (name in numbers and (numbers[name] % 1 == 0).all()) or _is_text(cells[name])]
    ids = [name for name in ids if name]
    runs = {name: len(_starts(cells[name])) for name in ids}
    repeating = [name for name in ids if runs[name] < len(cells[name])]
    found = _named(_SEGMENTS, repeating) or (_named(_SEGMENTS, ids) if not repeating else None)
    if found is not None:
        return found
    together = [
        name for name in repeating if 1 < runs[name] == len({*cells[name]}) and 2 * runs[name] <= len(cells[name])
    ]
    return max(together, key=runs.__getitem__, default=COLUMN)  # the finest, and of these the first


def _text(cells: Cells) -> str:
    """Return the column of the hypotheses: by its name, or the one with the longest cells."""
    texts = {name: cells[name] for name in cells if _is_text(cells[name])}
    return _named(_TEXTS, texts) or max(texts, key=lambda name: sum(map(len, texts[name])), default=COLUMN)


_SAME = "the same within each list"


def _reasons(features: Mapping[str, FloatArray], first: IntArray, *, costs: bool) -> dict[str, str]:
    """Return why single columns are no features."""
    found: dict[str, str] = {}
    size = len(first)
    place = np.arange(size) - first
    longest = int(place.max(initial=0)) + 1
    for name, values in features.items():
        if size >= _FEW_ROWS and (np.diff(values) == 1).all():
            found[name] = "numbers the rows"
        elif longest > 2 and any(np.array_equal(values, place + one) for one in (0, 1)):
            found[name] = "counts the rows of a list"
        elif _last(name) == "rank":
            found[name] = "a rank by its name"
        elif costs and longest > 1 and (values == values[first]).all():
            found[name] = _SAME
        elif costs and _last(name) in (*_LOSSES, *_GAINS):
            found[name] = "a loss or a gain"
    return found


def _sums(features: Mapping[str, FloatArray], loss: FloatArray | None, called: str, first: IntArray) -> dict[str, str]:
    """Return which columns are sums of others, with any factors, and which make up the loss."""
    found: dict[str, str] = {}
    if not 1 < len(features) <= _SUMMED_COLUMNS:
        return found
    rows = np.flatnonzero(np.arange(len(first)) > first)[:_SUMMED_ROWS]

    def differences(values: FloatArray) -> FloatArray:
        return np.asarray(values[rows] - values[first[rows]])

    left = {name: differences(values) for name, values in features.items()}
    if loss is not None:
        parts = _parts(differences(loss), left)
        found |= dict.fromkeys(parts, f"part of {called}")
    left = {name: values for name, values in left.items() if name not in found}
    last_first = [*left]
    last_first.reverse()
    for name in sorted(last_first, key=lambda name: not any(one in name.lower() for one in _TOTALS)):
        rest = {other: values for other, values in left.items() if other != name}
        parts = _parts(left[name], rest)
        if parts:
            several = listed(parts) if len(parts) <= _NAMED_PARTS else f"{len(parts)} others"
            found[name] = f"a multiple of {parts[0]}" if len(parts) == 1 else f"a sum of {several}, with some weights"
            left = rest
    return found


def _parts(target: FloatArray, others: Mapping[str, FloatArray]) -> list[str]:
    """Return the columns of which one is a sum up to rounding; none if it is not, or if there are too few rows."""
    if len(target) < 3 * len(others) + _FEW_ROWS or not others or not target.any():
        return []
    columns = np.column_stack(list(others.values()))
    scales = np.abs(columns).max(axis=0)
    scales[scales == 0] = 1
    weights = np.linalg.lstsq(columns / scales, target, rcond=1e-6)[0]
    if np.abs(target - (columns / scales) @ weights).max() > _ROUNDING * target.std():
        return []
    return [
        name for name, weight in zip(others, weights, strict=True) if abs(weight) > _ROUNDING * np.abs(target).max()
    ]
