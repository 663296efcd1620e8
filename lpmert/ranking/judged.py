"""Judged documents of queries, as arrays and as lines of svmlight or LETOR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.quoting import quoted


@dataclass(frozen=True)
class Judged:
    """Documents of queries with features and judgments.

    Parameters
    ----------
    features : array [M, D]
        Finite numbers; what prints as decimals means these.
    offsets : array [Q + 1]
        Where the documents of each query begin and end.
    relevance : array [M]
        Grades; 0 is not relevant.
    names : tuple of str
        Of the features.
    queries : tuple of str
        Their names.
    """

    features: FloatArray
    offsets: IntArray
    relevance: FloatArray
    names: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        features = np.ascontiguousarray(self.features, dtype=np.float64)
        offsets = np.ascontiguousarray(self.offsets, dtype=np.int64)
        relevance = np.ascontiguousarray(self.relevance, dtype=np.float64)
        if features.ndim != 2 or 0 in features.shape:
            raise DataError("features must be an array of documents x features")
        if relevance.shape != features.shape[:1]:
            raise DataError(f"relevance must have one grade for each of {len(features)} documents")
        if offsets.ndim != 1 or offsets[0] != 0 or offsets[-1] != len(features) or (np.diff(offsets) <= 0).any():
            raise DataError(f"offsets must increase from 0 to the number of documents, {len(features)}")
        if not np.isfinite(features).all():
            raise DataError("features must be finite; replace missing scores by a rule of yours, such as the least one")
        if not np.isfinite(relevance).all() or (relevance < 0).any():
            raise DataError("relevance must be finite and not negative")
        names = tuple(self.names) or tuple(str(j + 1) for j in range(features.shape[1]))
        queries = tuple(self.queries) or tuple(str(q + 1) for q in range(len(offsets) - 1))
        if len(names) != features.shape[1] or len(queries) != len(offsets) - 1:
            raise DataError("names must name every feature, and queries every query")
        for name, value in zip(
            ("features", "offsets", "relevance", "names", "queries"),
            (features, offsets, relevance, names, queries),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def select(self, names: Sequence[str]) -> Judged:
        """Return the same documents with these features."""
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise DataError(f"there is no feature {quoted(unknown[0])}")
        columns = [self.names.index(name) for name in names]
        return Judged(self.features[:, columns], self.offsets, self.relevance, tuple(names), self.queries)


def read(path: str | Path) -> Judged:
    """Read lines of svmlight or LETOR: "grade qid:name index:value ... # comment"; values that are left out are 0.

    Lines of a query follow one another. Raises `DataError`, which names the line.
    """
    grades: list[float] = []
    queries: list[str] = []
    offsets = [0]
    rows: list[dict[int, float]] = []
    with Path(path).open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if len(words) < 2 or not words[1].startswith("qid:"):
                raise DataError("the second word must be qid:NAME", path=path, line=number)
            query = words[1].removeprefix("qid:")
            try:
                grades.append(float(words[0]))
                pairs = [(int(key), float(value)) for key, _, value in (word.partition(":") for word in words[2:])]
            except ValueError:
                raise DataError("expected 'grade qid:NAME index:value ...'", path=path, line=number) from None
            if len(dict(pairs)) < len(pairs) or any(key < 1 for key, _ in pairs):
                raise DataError("indices must be 1 or more, each once a line", path=path, line=number)
            if not queries or queries[-1] != query:
                if query in queries:
                    raise DataError(f"query {quoted(query)} comes again; sort by query", path=path, line=number)
                queries.append(query)
                offsets.append(offsets[-1])
            offsets[-1] += 1
            rows.append(dict(pairs))
    columns = sorted({key for row in rows for key in row})
    if not columns:
        raise DataError("there are no documents with features", path=path)
    features = np.array([[row.get(key, 0.0) for key in columns] for row in rows])
    return Judged(features, np.array(offsets), np.array(grades), tuple(map(str, columns)), tuple(queries))


def rows_by_query(offsets: IntArray) -> Iterator[slice]:
    return (slice(int(a), int(b)) for a, b in pairwise(offsets))
