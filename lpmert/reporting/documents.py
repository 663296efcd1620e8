"""The material of a page: results, checks, tunings and comparisons, their lists, and other weights.

Also the lists whose choices differ between two weight vectors, and the lists with the closest decisions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from lpmert.api import problem_of
from lpmert.errors import DataError, FloatArray
from lpmert.findings import LOSS, Outcome, Unit
from lpmert.formats.weights import given_weights
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
from lpmert.values import weights_array

_KINDS: Mapping[str, tuple[str, frozenset[str]]] = {
    "tuning": ("tune", frozenset({"recommended", "averaged", "optimum"})),
    "comparison": ("compare", frozenset({"methods", "complete", "optimum"})),
    "check": ("check", frozenset({"excess", "optimum"})),
    "result": ("solve", frozenset({"status", "trace"})),
}
"""The command that writes each kind of document, and the keys by which it is recognised."""

_ALONG = 1e-9
"""Weights lie in the plane of a surface if, after scaling, the others differ from its centre by at most this share."""
_SAME = 1e-12
"""Tolerance at which weights of length 1 are the same."""

_LARGEST = 1e170
"""No sum of values that lists may hold is larger."""

_MOST_METHODS = 8
"""Maximum number of methods of a comparison whose best weights are shown."""


Source = Outcome | str | Path
"""An outcome, or the file that it was written to."""


@dataclass(frozen=True)
class Document:
    """An outcome: its name in messages, kind, content as JSON, and result, if one was found.

    other_weights: weights beside those of the result, by what they are.
    """

    name: str
    kind: str
    content: dict[str, Any]
    result: Result | None
    other_weights: Mapping[str, Mapping[str, float]]

    @property
    def fingerprint(self) -> str:
        return str(self.content["fingerprint"] if self.result is None else self.result.fingerprint)


def documents(sources: Iterable[Source]) -> list[Document]:
    """Return outcomes; those given as files are read.

    Raises `DataError` if `sources` is no sequence, a file holds no outcome, no outcome has a result, a result within a
    budget is not alone, or the outcomes are of different lists.
    """
    found = [_read(source, number) for number, source in enumerate(checked_sequence(sources, "results"), 1)]
    if all(one.result is None for one in found):
        trouble = "a report needs a result; write one with `lpmert solve ... -o result.json`"
        raise DataError(trouble, path=found[0].name if found else None)
    for one in found if len(found) > 1 else []:
        if one.result is not None and one.result.sums:
            raise DataError("holds within a budget only: report it apart", path=one.name)
    for one in found[1:]:
        if one.fingerprint != found[0].fingerprint:
            raise DataError(f"is about other lists than {found[0].name}: report them apart", path=one.name)
        first, result = found[0].result, one.result
        if first is not None and result is not None and first.names != result.names:
            raise DataError(f"has other features than {found[0].name}", path=one.name)
    return found


def _read(source: Source, number: int) -> Document:
    if not isinstance(source, str | os.PathLike):
        return _document(source.to_dict(), f"number {number}", lambda *_: None)
    check_installed("jsonschema")
    try:
        content = json.loads(read_text(source), parse_float=_number, parse_int=_number, parse_constant=_number)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON ({error}); pass what `lpmert solve -o` writes", path=source) from error
    return _document(content, os.fspath(source), fault)


def _number(text: str) -> float:
    """Return a number of a document; raises `ValueError` if it is not finite, or so large that sums would overflow."""
    value = float(text)
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{quoted(text)} is no number below {_LARGEST:g}")
    return value if "." in text or "e" in text.lower() else int(text)


def _document(content: dict[str, Any], name: str, fault: Callable[[Any, str], str | None]) -> Document:
    known = content.keys() if isinstance(content, dict) else set()
    kind = next((kind for kind, (_, keys) in _KINDS.items() if keys <= known), None)
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
        optimum = content if kind == "result" else content["optimum"]
        result = None if optimum is None else Result.from_dict(optimum)
        for key in ("unit", "held_out_unit") if kind in ("comparison", "tuning") else ():
            unit_in(content, key)
        others = {}
        if kind in ("result", "tuning") and optimum["initial"] is not None:
            others["start"] = optimum["initial"]
        if kind == "check":
            others["checked"] = content["weights"]
        elif kind == "tuning":
            others["averaged"] = content["averaged"]["weights"]
        elif kind == "comparison":
            others = {f"best of {entry['name']}": best_run(entry)["weights"] for entry in content["methods"]}
        for what, weights in {"weights": optimum["weights"] if optimum else {}, **others}.items():
            if result is not None and weights.keys() != set(result.names):
                raise ValueError(f"{quoted(what)} has other features than the optimum")
            if any(abs(weight) > MAGNITUDE_LIMIT for weight in weights.values()):
                raise ValueError(f"{quoted(what)} has a weight beyond {MAGNITUDE_LIMIT:g}")
        return Document(name, kind, content, result, others)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        again = f"write it again with `lpmert {_KINDS[kind][0]} -o`"
        raise DataError(f"not a {kind} of this version of lpmert ({error}); {again}", path=name) from error


@dataclass(frozen=True, eq=False)
class Material:
    """Outcomes of the same lists, the problem of these lists if they are given, and further weights [D] by name.

    main: the outcome whose result is shown. factor: a positive number by which all weights are multiplied for display;
    it does not change what lists choose.
    """

    documents: Sequence[Document]
    main: Document
    problem: Problem | LatticeProblem | None
    given: Mapping[str, FloatArray]
    factor: float

    @classmethod
    def of(
        cls,
        documents: Sequence[Document],
        data: NBest | WordGraphs | None,
        metric: Any,
        given: Mapping[str, Any],
        scale: tuple[str, float] | None,
    ) -> Material:
        """Return outcomes with their lists; scale: the name of a feature, and the number that is shown as its weight.

        Lists of a result within a budget are left out, as pictures of the loss show all weights. Raises `DataError` if
        the data are other lists, no positive factor gives that weight this number, or given weights do not fit.
        """
        with_result = [one for one in documents if one.result is not None]
        main = min(with_result, key=lambda one: one.kind == "comparison")  # the optimum is only a part of a comparison
        result = cast(Result, main.result)
        try:
            factor = 1.0 if scale is None else result.factor_to(*scale)
        except ValueError as error:
            raise DataError(str(error)) from error
        arrays = {name: weights_array(given_weights(own, name), result.names, name) for name, own in given.items()}
        problem = None
        if data is not None and not result.sums:
            ties = next((rule for rule in TIES if f"|ties:{rule}" in result.signature), "first")
            problem = problem_of(data, metric, ties, None)
            _check_same(problem, result, main.name)
        return cls(documents, main, problem, arrays, factor)

    def index(self, name: str) -> int:
        """Return the index of a feature; raises `DataError` if there is none, or its weight does not matter."""
        if name not in self.names:
            raise DataError(f"no feature {quoted(name)}; the features are {listed(self.names)}")
        index = self.names.index(name)
        if not self.lines.spread[index] > 0.0:
            raise DataError(f"feature {quoted(name)} does not vary within the lists: its weight does not matter")
        return index

    def window(self, name: str) -> FloatArray:
        """Return half the widths of a window [D]; raises `DataError` for an unknown name."""
        if name not in self.windows:
            raise DataError(f"window={quoted(name)} is none of {', '.join(self.windows)}")
        return self.windows[name]

    def surface(self, features: tuple[int, int], window: str) -> Surface:
        return surface(self.lines, self.weights, features, self.window(window))

    def profile(self, feature: int, window: str) -> Profile:
        return profile(self.lines, self.weights, feature, self.window(window), self.window("wide"))

    def in_plane(self, weights: FloatArray, features: tuple[int, int]) -> FloatArray | None:
        """Return the point [2] of weights [D] in the plane of a surface over two features, `None` if they are outside.

        Weights are in the plane if a positive factor moves them there; features that do not vary are ignored.
        """
        rest = self.lines.spread > 0.0
        rest[list(features)] = False
        others, centre = weights[rest], self.weights[rest]
        if centre.any():
            projection = float(others @ centre)
            factor = float(centre @ centre) / projection if projection > 0.0 else 0.0
        else:
            factor = float(np.linalg.norm(self.weights)) / (float(np.linalg.norm(weights)) or 1.0)
        distance = np.abs(factor * others - centre).max(initial=0.0)
        near = factor > 0.0 and distance <= _ALONG * np.abs(centre).max(initial=0.0)
        return factor * weights[list(features)] if near else None

    @property
    def result(self) -> Result:
        return cast(Result, self.main.result)

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
        """The loss along lines of weights; raises `DataError` without lists."""
        if self.result.sums:
            raise DataError("the result holds within a budget only, but pictures of the loss show all weights")
        if self.problem is None:
            raise DataError("this needs the lists: pass them")
        return lines_of(self.problem)

    @cached_property
    def windows(self) -> dict[str, FloatArray]:
        return windows(self.lines, self.weights)

    @cached_property
    def others(self) -> dict[str, FloatArray]:
        """Other weights [D] by name: given ones, starts of searches, averages, those of other methods.

        Weights that equal earlier ones up to a positive factor are left out, unless they are given. Raises `DataError`
        if given ones have the name of others.
        """
        found = dict(self.given)
        for one in self.documents:
            own = dict(list(one.other_weights.items())[:_MOST_METHODS])
            if one.result is not None and one is not self.main and one.kind != "comparison":
                own = {_title(one.result): one.result.by_name, **own}
            for what, by_name in own.items():
                name = what if one is self.main else f"{what} of {one.name}"
                if name in self.given:
                    trouble = f"weights {quoted(name)}: the results have others of this name"
                    raise DataError(f"{trouble}; give these another one")
                weights = np.array([float(by_name[feature]) for feature in self.names])
                if not any(_same_direction(weights, known) for known in (self.result.weights, *found.values())):
                    found[name] = weights
        return found


def _title(result: Result) -> str:
    return "proved optimum" if result.status.proved else "best found"


def _same_direction(first: FloatArray, second: FloatArray) -> bool:
    """Whether weights [D] equal others times a positive factor, up to rounding."""
    lengths = float(np.linalg.norm(first)), float(np.linalg.norm(second))
    return 0.0 not in lengths and bool(np.allclose(first / lengths[0], second / lengths[1], rtol=0.0, atol=_SAME))


def _check_same(problem: Problem | LatticeProblem, result: Result, name: str) -> None:
    """Raise `DataError` unless a problem has the lists, features and metric of a result; its region may differ.

    name: that of the outcome, for messages.
    """
    lists = problem.nbest if isinstance(problem, Problem) else problem.lattices
    trouble = ""
    if lists.fingerprint != result.fingerprint:
        what = "lists" if isinstance(lists, NBest) else "lattices"
        trouble = f"other {what} than those of {name}: pass the same files with the same options (features, loss, ...) "
        trouble += "as to the command that wrote it"
    elif lists.names != result.names:
        trouble = f"the features are {listed(lists.names)}, but {name} has {listed(result.names)}"
    elif f"|{problem.signature}|" not in f"|{result.signature}|":
        trouble = f"the metric here is {quoted(problem.metric.signature)}, but {name} has another one: its signature "
        trouble += f"is {quoted(result.signature)}; pass the same metric"
    if trouble:
        raise DataError(trouble)


LONGEST_DIFF = 2000
"""Texts with more words together are not compared word by word, which takes quadratic time."""

Piece = tuple[bool, str]
"""Whether words are changed, and the words."""


@dataclass(frozen=True)
class Choice:
    """A hypothesis: its number in its list (`None` for a path), its loss if the metric is additive, its text."""

    number: int | None
    loss: float | None
    text: str | None


@dataclass(frozen=True)
class Change:
    """A list that chooses `after` instead of `before` at other weights, or a close decision, with `after` next best.

    lead: of a close decision, how far `before` is ahead in score, for weights of length 1.
    """

    list_id: str
    before: Choice
    after: Choice
    lead: float | None = None

    @property
    def difference(self) -> float | None:
        """By how much the loss of the list grows, `None` if it has none of its own."""
        return None if self.before.loss is None or self.after.loss is None else self.after.loss - self.before.loss

    def pieces(self) -> tuple[list[Piece], list[Piece]]:
        """Return both texts in pieces, as `edits`."""
        return edits(self.before.text or "", self.after.text or "")


def _choices(problem: Problem | LatticeProblem, weights: FloatArray) -> list[Choice]:
    """Return the choice of each list at weights [D], in exact arithmetic."""
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
    """Return the lists whose choices differ between two weight vectors [D], the largest gains first."""
    data = problem.nbest if isinstance(problem, Problem) else problem.lattices
    pairs = zip(data.list_ids, _choices(problem, first), _choices(problem, second), strict=True)
    found = [Change(name, before, after) for name, before, after in pairs if before != after]
    return sorted(found, key=lambda change: change.difference or 0.0)


def closest(problem: Problem, weights: FloatArray, most: int) -> list[Change]:
    """Return at most `most` lists whose choice at weights [D] has the smallest lead, in floating point.

    Hypotheses with the same features as the choice are ignored.
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
    """Return two texts in pieces, which are unchanged where both have the same words in the same order."""
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
