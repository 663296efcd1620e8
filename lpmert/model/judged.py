"""Judged documents of queries: what a search for weights that rank well takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.model.arrays import checked_offsets, fingerprint_of
from lpmert.numeric.lists import rows_of_lists
from lpmert.quoting import listed, quoted, repeated

_LARGEST = 1e100
"""Of grades."""


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
    unretrieved : sequence of Q arrays
        Grades of the relevant documents of each query that are not among its documents: no weights reach them, but NDCG
        and recall count them. By default there are none.
    notes : tuple of str
        What reading these changed or left out.
    """

    features: FloatArray
    offsets: IntArray
    relevance: FloatArray
    names: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    unretrieved: tuple[FloatArray, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        features, relevance = _numbers(self.features, "features"), _numbers(self.relevance, "relevance")
        if features.ndim != 2 or 0 in features.shape:
            raise DataError("features must be an array of documents x features")
        if relevance.shape != features.shape[:1]:
            raise DataError(f"relevance must have one grade for each of {len(features)} documents")
        offsets = checked_offsets(self.offsets, len(features), "documents")
        if not np.isfinite(features).all():
            raise DataError("features must be finite; replace missing scores by a rule of yours, such as the least one")
        n_queries = len(offsets) - 1
        unretrieved = tuple(_numbers(one, "unretrieved").ravel() for one in self.unretrieved or [()] * n_queries)
        every = np.concatenate([relevance, *unretrieved])
        if not np.isfinite(every).all() or (every < 0).any():
            raise DataError("relevance must be finite and not negative")
        if (every[every > 0] < 1.0 / _LARGEST).any() or (every > _LARGEST).any():
            raise DataError(
                f"relevance must be 0, or from {1.0 / _LARGEST:g} to {_LARGEST:g}, so that gains can be summed"
            )
        names = tuple(self.names) or tuple(str(j + 1) for j in range(features.shape[1]))
        queries = tuple(self.queries) or tuple(str(q + 1) for q in range(n_queries))
        if len(names) != features.shape[1] or {len(queries), len(unretrieved)} != {n_queries}:
            raise DataError("names must name every feature, queries every query; unretrieved has grades for each query")
        for what, some in (("features", names), ("queries", queries)):
            twice = repeated(some)
            if twice is not None:
                raise DataError(f"two {what} are called {quoted(twice)}; give each a name of its own")
        for name, value in zip(
            ("features", "offsets", "relevance", "names", "queries", "unretrieved"),
            (features, offsets, relevance, names, queries, unretrieved),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of everything that can change an optimum, and of the names."""
        labels = [self.names, self.queries, self.features.shape]
        values = [self.offsets, self.features, self.relevance, *self.unretrieved]
        sized = [part for one in values for part in (np.array([len(one)]), one)]
        return fingerprint_of("lpmert judged documents 1\n", labels, sized)

    def select(self, names: Sequence[str]) -> Judged:
        """Return the same documents with these features."""
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise DataError(f"there is no feature {quoted(unknown[0])}; the features are {listed(self.names)}")
        columns = [self.names.index(name) for name in names]
        return replace(self, features=self.features[:, columns], names=tuple(names))

    def of_queries(self, numbers: Sequence[int] | IntArray) -> Judged:
        """Return the documents of these queries, by their numbers from 0."""
        rows, offsets = rows_of_lists(self.offsets, np.asarray(numbers))
        return replace(
            self,
            features=self.features[rows],
            offsets=offsets,
            relevance=self.relevance[rows],
            queries=tuple(self.queries[q] for q in numbers),
            unretrieved=tuple(self.unretrieved[q] for q in numbers),
        )


def _numbers(values: Any, what: str) -> FloatArray:
    try:
        return np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers: {error}") from error


def rows_by_query(offsets: IntArray) -> Iterator[slice]:
    return (slice(int(a), int(b)) for a, b in pairwise(offsets))
