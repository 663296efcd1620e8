"""What a page is made of: results, checks, tunings and comparisons, the lists they are about, and other weights.

And what lists choose: which choices two weight vectors differ in, and which are the closest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from lpmert.api import problem_of
from lpmert.errors import DataError, FloatArray
from lpmert.findings import LOSS, Outcome, Unit
from lpmert.metrics.base import AdditiveMetric
from lpmert.model.arrays import MAGNITUDE_LIMIT, checked_sequence
from lpmert.model.graphs import WordGraphs
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.nbest import NBest
from lpmert.model.problem import TIES, Problem
from lpmert.quoting import listed, quoted
from lpmert.reporting.lines import Lines, Profile, Surface, lines_of, profile, surface, windows
from lpmert.reporting.pictures import check_installed
from lpmert.reporting.tables import best_run, unit_in
from lpmert.result import Result
from lpmert.result_schema import fault
from lpmert.system.deadline import checkpoint
from lpmert.system.files import read_text

_KINDS: Mapping[str, tuple[str, frozenset[str]]] = {
    "tuning": ("tune", frozenset({"recommended", "averaged", "optimum"})),
    "comparison": ("compare", frozenset({"methods", "complete", "optimum"})),
    "check": ("check", frozenset({"excess", "optimum"})),
    "result": ("solve", frozenset({"status", "trace"})),
}
"""What writes a document, and the keys that tell what it is."""

_ALONG = 1e-9
"""Weights lie in the plane of a surface if all others are those of its middle, up to a factor and this share."""
_SAME = 1e-12
"""By how much weights of length 1 may differ through rounding."""

_LARGEST = 1e170
"""Beyond it are no sums of what lists may hold."""

_MOST_METHODS = 8
"""Methods of a comparison whose best weights are set beside the others."""


Source = Outcome | str | Path
"""An outcome, or the file that it was written to."""


@dataclass(frozen=True)
class Document:
    """One outcome: the name it goes by, its kind, all that it holds, and its result, if one was found.

    beside: other weights, by what they are.
    """

    name: str
    kind: str
    content: dict[str, Any]
    result: Result | None
    beside: Mapping[str, Mapping[str, float]]

    @property
    def fingerprint(self) -> str:
        return str(self.content["fingerprint"] if self.result is None else self.result.fingerprint)


@dataclass(frozen=True)
class Documents:
    """All outcomes, of the same lists; main: the result that the page is about."""

    all: tuple[Document, ...]
    main: Document

    @property
    def result(self) -> Result:
        return cast(Result, self.main.result)

    def of_kind(self, kind: str) -> Sequence[Document]:
        return [one for one in self.all if one.kind == kind]


def documents(sources: Iterable[Source]) -> Documents:
    """Return outcomes, read from files where they are such.

    Raises `DataError` for what is no sequence, for a file that holds none, where there is no result among them, for
    results within a budget beside others, and for outcomes of other lists than the first one.
    """
    found = [_read(source, place) for place, source in enumerate(checked_sequence(sources, "results"), 1)]
    with_result = [one for one in found if one.result is not None]
    if not with_result:
        trouble = "a report needs a result; write one with `lpmert solve ... -o result.json`"
        raise DataError(trouble, path=found[0].name if found else None)
    for one in found if len(found) > 1 else []:
        if one.result is not None and one.result.sums:
            raise DataError("holds within a budget only: report it apart", path=one.name)
    for one in found[1:]:
        if one.fingerprint != found[0].fingerprint:
            raise DataError(f"is about other lists than {found[0].name}: report them apart", path=one.name)
        first, own = found[0].result, one.result
        if first is not None and own is not None and first.names != own.names:
            raise DataError(f"has other features than {found[0].name}", path=one.name)
    main = min(with_result, key=lambda one: one.kind == "comparison")  # whose result is one among many
    return Documents(tuple(found), main)


def _read(source: Source, place: int) -> Document:
    if not isinstance(source, str | os.PathLike):
        return _document(source.to_dict(), f"number {place}", lambda *_: None)
    check_installed("jsonschema")
    try:
        content = json.loads(read_text(source), parse_float=_number, parse_int=_number, parse_constant=_number)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON ({error}); pass what `lpmert solve -o` writes", path=source) from error
    if not isinstance(content, dict):
        raise DataError("not an outcome of lpmert; pass what `lpmert solve -o` writes", path=source)
    return _document(content, os.fspath(source), fault)


def _number(text: str) -> float:
    """Return a number of a document; raises `ValueError` for what is none, and where sums would overflow."""
    value = float(text)
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{quoted(text)} is no number below {_LARGEST:g}")
    return value if "." in text or "e" in text.lower() else int(text)


def _document(content: dict[str, Any], name: str, fault: Callable[[Any, str], str | None]) -> Document:
    kind = next((kind for kind, (_, keys) in _KINDS.items() if keys <= content.keys()), None)
    if kind is None:
        raise DataError(
            "neither a result nor a check, a tuning or a comparison; pass what solve, check, tune or compare write "
            "with -o",
            path=name,
        )
    try:
        wrong = fault(content, kind)
        if wrong is not None:
            raise ValueError(wrong)
        own = content if kind == "result" else content["optimum"]
        result = None if own is None else Result.from_dict(own)
        for key in ("unit", "held_out_unit") if kind in ("comparison", "tuning") else ():
            unit_in(content, key)
        beside = {"start": own["initial"]} if kind in ("result", "tuning") and own["initial"] is not None else {}
        if kind == "check":
            beside["checked"] = content["weights"]
        elif kind == "tuning":
            beside["averaged"] = content["averaged"]["weights"]
        elif kind == "comparison":
            beside = {f"best of {entry['name']}": best_run(entry)["weights"] for entry in content["methods"]}
        for what, weights in {"weights": own["weights"] if own else {}, **beside}.items():
            if result is not None and weights.keys() != set(result.names):
                raise ValueError(f"{quoted(what)} has other features than the optimum")
            if any(abs(weight) > MAGNITUDE_LIMIT for weight in weights.values()):
                raise ValueError(f"{quoted(what)} has a weight beyond {MAGNITUDE_LIMIT:g}")
        return Document(name, kind, content, result, beside)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        again = f"write it again with `lpmert {_KINDS[kind][0]} -o`"
        raise DataError(f"not a {kind} of this version of lpmert ({error}); {again}", path=name) from error


@dataclass(frozen=True, eq=False)
class Material:
    """Outcomes, the problem they are about if its lists are at hand, and further weights [D] by name.

    factor: what all weights are multiplied by; decoding does not see it.
    """

    documents: Documents
    problem: Problem | LatticeProblem | None = None
    given: Mapping[str, FloatArray] = field(default_factory=dict)
    factor: float = 1.0

    @classmethod
    def of(
        cls,
        documents: Documents,
        data: NBest | WordGraphs | None,
        metric: Any,
        given: Mapping[str, FloatArray],
        scale: tuple[str, float] | None,
        data_name: str = "data",
    ) -> Material:
        """Return outcomes with the lists that they are about; scale: the weight that is shown as some number.

        Raises `DataError` where data are others, no positive factor makes a weight that number, or given weights have
        the name of others.
        """
        try:
            factor = 1.0 if scale is None else documents.result.factor_to(*scale)
        except ValueError as error:
            raise DataError(str(error)) from error
        if data is not None and documents.result.sums:
            raise DataError("the result holds within a budget only, and pictures of the loss are about all weights")
        problem = None
        if data is not None:
            ties = next((rule for rule in TIES if f"|ties:{rule}" in documents.result.signature), "first")
            problem = problem_of(data, metric, ties, None)
            check_same(problem, documents, data_name)
        made = cls(documents, problem, given, factor)
        for name in made._other_weights():
            if name in given:
                raise DataError(f"weights {quoted(name)}: the results have others of this name; give these another one")
        return made

    def place(self, name: str) -> int:
        """Return which feature has this name; raises `DataError` where none does, or its weight does not matter."""
        if name not in self.names:
            raise DataError(f"no feature {quoted(name)}; the features are {listed(self.names)}")
        place = self.names.index(name)
        if not self.lines.spread[place] > 0.0:
            raise DataError(f"feature {quoted(name)} does not vary within the lists: its weight does not matter")
        return place

    def window(self, name: str) -> FloatArray:
        """Return how far a window goes [D]; raises `DataError` for a name that none has."""
        if name not in self.windows:
            raise DataError(f"window={quoted(name)} is none of {', '.join(self.windows)}")
        return self.windows[name]

    def surface(self, features: tuple[int, int], window: str) -> Surface:
        return surface(self.lines, self.weights, features, self.window(window))

    def profile(self, feature: int, window: str) -> Profile:
        return profile(self.lines, self.weights, feature, self.window(window), self.window("wide"))

    def in_plane(self, weights: FloatArray, features: tuple[int, int]) -> FloatArray | None:
        """Return where weights [D] lie in the plane of a surface over two features, `None` if they do not.

        A positive factor brings them there; weights of features that do not vary are left out of account.
        """
        rest = self.lines.spread > 0.0
        rest[list(features)] = False
        own, there = weights[rest], self.weights[rest]
        if there.any():
            along = float(own @ there)
            factor = float(there @ there) / along if along > 0.0 else 0.0
        else:
            factor = float(np.linalg.norm(self.weights)) / (float(np.linalg.norm(weights)) or 1.0)
        off = np.abs(factor * own - there).max(initial=0.0)
        near = factor > 0.0 and off <= _ALONG * np.abs(there).max(initial=0.0)
        return factor * weights[list(features)] if near else None

    @property
    def result(self) -> Result:
        return self.documents.result

    @property
    def names(self) -> tuple[str, ...]:
        return self.result.names

    @property
    def unit(self) -> Unit:
        return self.result.unit or (LOSS if self.problem is None else self.problem.unit)

    @property
    def title(self) -> str:
        return _title(self.result)

    @cached_property
    def weights(self) -> FloatArray:
        """The weights [D] of the result, times the factor."""
        return np.asarray(self.result.weights * self.factor)

    @cached_property
    def lines(self) -> Lines:
        """Lines through the lists; raises `DataError` without these."""
        if self.problem is None:
            raise DataError("this needs the lists: pass them")
        return lines_of(self.problem)

    @cached_property
    def windows(self) -> dict[str, FloatArray]:
        return windows(self.lines, self.weights)

    @cached_property
    def others(self) -> dict[str, FloatArray]:
        """Other weights [D] by name: given ones, those that searches started from, averages, other methods'.

        Of those that are the same up to a positive factor the first ones stand; given ones always do.
        """
        found: dict[str, FloatArray] = {}
        known = [self.result.weights]
        for name, weights in {**self.given, **self._other_weights()}.items():
            if name in self.given or not any(_alike(weights, one) for one in known):
                found[name] = weights
                known.append(weights)
        return found

    def _other_weights(self) -> dict[str, FloatArray]:
        """Return those that the outcomes hold beside the best ones."""
        found: dict[str, FloatArray] = {}
        for one in self.documents.all:
            name = "" if one is self.documents.main else f" of {one.name}"
            if one.result is not None and one is not self.documents.main and one.kind != "comparison":
                found[_title(one.result) + name] = one.result.weights
            for what, weights in list(one.beside.items())[:_MOST_METHODS]:
                found[what + name] = np.array([float(weights[feature]) for feature in self.names])
        return found


def _title(result: Result) -> str:
    return "proved optimum" if result.status.proved else "best found"


def _alike(first: FloatArray, second: FloatArray) -> bool:
    """Whether weights [D] are others times a positive factor, but for rounding."""
    lengths = float(np.linalg.norm(first)), float(np.linalg.norm(second))
    return 0.0 not in lengths and bool(np.allclose(first / lengths[0], second / lengths[1], rtol=0.0, atol=_SAME))


def check_same(problem: Problem | LatticeProblem, documents: Documents, data: str) -> None:
    """Raise `DataError` unless a problem is that of the outcomes, but for its region."""
    result = documents.result
    lists = problem.nbest if isinstance(problem, Problem) else problem.lattices
    if lists.fingerprint != result.fingerprint:
        what = "lists" if isinstance(lists, NBest) else "lattices"
        raise DataError(
            f"other {what} than those of {documents.main.name}: pass the same files with the same options "
            "(features, loss, ...) as to the command that wrote it",
            path=data,
        )
    if lists.names != result.names:
        trouble = f"the features are {listed(lists.names)}, and those of {documents.main.name} {listed(result.names)}"
        raise DataError(trouble, path=data)
    if f"|{problem.signature}|" not in f"|{result.signature}|":
        metric = problem.metric.signature
        raise DataError(
            f"the metric here is {quoted(metric)}, and that of {documents.main.name} another: its signature is "
            f"{quoted(result.signature)}; pass the same metric",
            path=data,
        )


LONGEST_DIFF = 2000
"""Words of two texts together above which no differences are sought, which takes quadratic time."""

Piece = tuple[bool, str]
"""Words, and whether they are changed."""


@dataclass(frozen=True)
class Choice:
    """A hypothesis: its number within its list, `None` for a path; its loss, if it has one of its own; its text."""

    number: int | None
    loss: float | None
    text: str | None


@dataclass(frozen=True)
class Change:
    """A list that chooses another hypothesis, or would next: after the choice before it.

    lead: by which the choice is ahead, in units of the score at |weights| = 1, where that was asked for.
    """

    list_id: str
    before: Choice
    after: Choice
    lead: float | None = None

    @property
    def difference(self) -> float | None:
        """What the list loses more than before."""
        return None if self.before.loss is None or self.after.loss is None else self.after.loss - self.before.loss

    def pieces(self) -> tuple[list[Piece], list[Piece]]:
        """Return both texts in pieces that are the same or not."""
        return edits(self.before.text or "", self.after.text or "")


def _choices(problem: Problem | LatticeProblem, weights: FloatArray) -> list[Choice]:
    """Return what each list chooses at weights [D], in exact arithmetic."""
    if isinstance(problem, Problem):
        return [_of_list(problem, s, number) for s, number in enumerate(problem.evaluate(weights).selection.tolist())]
    verdict = problem.decode(problem.checked_weights(weights))
    found = []
    for number, won in enumerate(verdict.winners):
        checkpoint()
        way = won.ways[0]
        loss = float(problem.statistics(number, way)[0]) if problem.additive else None
        found.append(Choice(None, loss, problem.text(number, way)))
    return found


def changes(problem: Problem | LatticeProblem, first: FloatArray, second: FloatArray) -> list[Change]:
    """Return the lists that choose otherwise at the second weights [D] than at the first, the greatest gains first."""
    data = problem.nbest if isinstance(problem, Problem) else problem.lattices
    pairs = zip(data.list_ids, _choices(problem, first), _choices(problem, second), strict=True)
    found = [Change(name, before, after) for name, before, after in pairs if before != after]
    return sorted(found, key=lambda change: change.difference or 0.0)


def closest(problem: Problem, weights: FloatArray, most: int) -> list[Change]:
    """Return the lists, at most so many, whose choice at weights [D] has the least lead, in floating point.

    Hypotheses with the features of the choice do not count.
    """
    nbest = problem.nbest
    features = nbest.dense_features()
    scores = features @ (weights / (np.linalg.norm(weights) or 1.0))
    found = []
    for s, chosen in enumerate(problem.evaluate(weights).selection.tolist()):
        checkpoint()
        begin, end = nbest.offsets[s : s + 2].tolist()
        others = np.flatnonzero((features[begin:end] != features[begin + chosen]).any(axis=1))
        if len(others):
            second = int(others[np.argmax(scores[begin + others])])
            found.append((max(0.0, float(scores[begin + chosen] - scores[begin + second])), s, chosen, second))
    found.sort()
    return [
        Change(nbest.list_ids[s], _of_list(problem, s, chosen), _of_list(problem, s, second), lead)
        for lead, s, chosen, second in found[:most]
    ]


def edits(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return two texts in pieces, words that are in both in the same order unchanged."""
    checkpoint()
    first, second = before.split(), after.split()
    if len(first) + len(second) > LONGEST_DIFF:
        return [(True, " ".join(first))], [(True, " ".join(second))]
    found = SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    return (
        [(tag != "equal", " ".join(first[a:b])) for tag, a, b, _, _ in found if a < b],
        [(tag != "equal", " ".join(second[a:b])) for tag, _, _, a, b in found if a < b],
    )


def _of_list(problem: Problem, s: int, number: int) -> Choice:
    checkpoint()
    nbest = problem.nbest
    row = int(nbest.offsets[s]) + number
    metric = problem.metric
    loss = float(metric.losses(nbest.statistics[row : row + 1])[0]) if isinstance(metric, AdditiveMetric) else None
    return Choice(number, loss, None if nbest.texts is None else nbest.texts[row])
