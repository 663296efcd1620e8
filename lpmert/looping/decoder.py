"""The interface of decoders to the loop: weights in, N-best lists and own outputs out; and the cost of the outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from lpmert.errors import DataError, DecoderError, FloatArray
from lpmert.formats.utterances import References, references_by_list
from lpmert.metrics.base import Metric, SumOfLosses, metric_of, rates_of, unit_of
from lpmert.metrics.text import TextCounter, reference_length, text_metric, text_unit
from lpmert.model.judgments import measure_texts
from lpmert.model.nbest import NBest
from lpmert.quoting import LOSS, listed, quoted
from lpmert.values import are_texts_by_name


@dataclass(frozen=True, eq=False)
class Decoded:
    """The outputs of a decoder for its inputs.

    Parameters
    ----------
    lists : NBest
        The N-best lists, each in the decoder's order, with texts or with statistics.
    own : mapping from str to str, optional
        The text that the decoder would show for each list. It may have lists that are not among `lists`, for which the
        decoder has no alternatives. By default, the first hypothesis of each list is the decoder's own output.
    """

    lists: NBest
    own: Mapping[str, str] | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the decoded inputs."""
        return self.lists.list_ids if self.own is None else tuple(self.own)


class Decoder(Protocol):
    """The interface of a decoder for `lpmert.loop`; it decodes the same inputs in every call."""

    def decode(self, weights: Mapping[str, float], n: int) -> Decoded:
        """Decode all inputs.

        Parameters
        ----------
        weights : mapping from str to float
            The weights by feature.
        n : int
            The approximate maximum number of hypotheses per input.

        Returns
        -------
        Decoded
            The hypotheses of each input, and the decoder's own outputs.

        Raises
        ------
        DecoderError
            If decoding fails. The loop then ends, and can be resumed.
        """


def check_decoder(decoder: object, what: str) -> None:
    """Raise `DecoderError` unless an object has a method `decode`; what: the name of the argument."""
    if isinstance(decoder, type | bytes | bytearray) or not callable(getattr(decoder, "decode", None)):
        raise DecoderError(
            f"{what} must be an object with a method decode, such as an lpmert.Worker or an lpmert.Command, not "
            f"{quoted(decoder)}"
        )


def checked(decoded: object, names: Sequence[str], ids: Sequence[str] | None) -> Decoded:
    """Return the outputs of a decoder, with the features in the order of `names`.

    ids: of the inputs in the first decoding. Raises `DecoderError` for other objects, and if features or lists are
    missing or new.
    """
    if not isinstance(decoded, Decoded):
        raise DecoderError(f"decode must return an lpmert.Decoded, not {quoted(decoded)}")
    if not isinstance(decoded.lists, NBest):
        raise DecoderError(f"the lists of an lpmert.Decoded must be an lpmert.NBest, not {quoted(decoded.lists)}")
    if decoded.own is not None and not are_texts_by_name(decoded.own):
        raise DecoderError(
            f"own of an lpmert.Decoded must be texts by the names of lists, or None, not {quoted(decoded.own)}"
        )
    lists = decoded.lists
    if {*lists.names} != {*names}:
        raise DecoderError(
            f"the weights are for {listed(names)}, but the decoder's lists have the features {listed(lists.names)}"
        )
    if lists.names != tuple(names):
        lists = lists.select_features(names)
    if decoded.own is not None:
        if lists.texts is None:
            raise DecoderError("the decoder's own outputs are texts, but its lists have none; read them with texts")
        stray = [one for one in lists.list_ids if one not in decoded.own]
        if stray:
            raise DecoderError(f"list {quoted(stray[0])} is not among the decoder's own outputs")
    if ids is not None and {*decoded.ids} != {*ids}:
        before, now = dict.fromkeys(ids), dict.fromkeys(decoded.ids)
        missing, new = [one for one in before if one not in now], [one for one in now if one not in before]
        faults = [f"{what} {listed(found)}" for what, found in (("lacks", missing), ("has the new", new)) if found]
        raise DecoderError(f"the decoder's output {' and '.join(faults)}; it must decode the same inputs every time")
    return Decoded(lists, decoded.own)


class Cost(NamedTuple):
    """The cost of outputs: their loss, and the score of the metric."""

    loss: float
    score: float


class Measure:
    """Measures outputs: counts the statistics of texts against references, or takes the statistics of the lists.

    metric: of texts, or of the statistics; once lists are measured, `metric` is that of their statistics and `unit` the
    unit in which the loss is shown. Raises `DataError` for references of another type, `MetricError` for a metric that
    is unknown or not installed.
    """

    def __init__(self, references: References | Sequence[Any] | None, metric: Any) -> None:
        check_references(references)
        self._references = references
        self._settings = None if references is None else text_metric(metric or "wer")
        if self._settings is not None:
            self._settings.counter(("",))  # raises before anything is decoded if a package is missing
        self._named = metric
        self.metric: Metric
        self.unit = LOSS
        self._by_list: dict[str, tuple[str, ...]] = {}
        self._counters: dict[str, TextCounter] = {}

    def expect(self, ids: Sequence[str]) -> None:
        """Match the references with the decoded inputs; raises `DataError` if some are missing or superfluous."""
        if self._references is not None and self._settings is not None:
            found = references_by_list(ids, self._references, options=False)
            self._by_list = dict(zip(ids, found, strict=True))
            self._counters = {name: self._settings.counter(own) for name, own in self._by_list.items()}

    def lists(self, lists: NBest) -> NBest:
        if self._settings is None:
            self.metric = metric_of(self._named, lists.statistic_names)
            rates = rates_of(self.metric, lists.statistics, lists.offsets, 1.0)
            self.unit = unit_of(self.metric, lists.statistic_names, rates, lists.n_lists)
            return lists
        found, self.metric = measure_texts(lists, [self._by_list[one] for one in lists.list_ids], self._settings)
        if isinstance(self.metric, SumOfLosses):
            length = reference_length(self._settings, [*self._by_list.values()])
            self.unit = text_unit(self._settings, len(self._by_list), None if length is None else 1.0 / length)
        else:
            self.unit = unit_of(self.metric, found.statistic_names, {}, found.n_lists)
        return found

    def own(self, decoded: Decoded, only: Collection[str] | None = None) -> Cost:
        """Return the cost of the decoder's own outputs, for all lists or `only` some; decoded: with statistics."""
        if self._settings is not None:
            texts = own_texts(decoded)
            rows = [self._counters[name](text) for name, text in texts.items() if only is None or name in only]
        elif decoded.own is not None:
            raise DataError("the decoder's own outputs are texts, for which there are no references")
        else:
            rows = decoded.lists.statistics[decoded.lists.offsets[:-1]].tolist()
        total: FloatArray = np.array([fsum(column) for column in zip(*rows, strict=True)])
        return Cost(self.metric.loss(total), self.metric.score(total))


def own_texts(decoded: Decoded) -> dict[str, str]:
    """Return the decoder's own outputs by list; raises `DataError` without texts."""
    if decoded.own is not None:
        return dict(decoded.own)
    if decoded.lists.texts is None:
        raise DataError("the decoder's lists have no texts; read them with a text column")
    firsts = decoded.lists.offsets[:-1].tolist()
    return {name: decoded.lists.texts[row] for name, row in zip(decoded.lists.list_ids, firsts, strict=True)}


def check_references(references: object) -> None:
    """Raise `DataError` unless an object is of a type that references can have."""
    if references is None or isinstance(references, str | Path):
        return
    if isinstance(references, Mapping):
        if not are_texts_by_name(references):
            raise DataError(f"references by list must be texts by the names of lists, not {quoted(references)}")
    elif not (isinstance(references, Sequence) and references and all(isinstance(p, str | Path) for p in references)):
        raise DataError(f"references must be texts by list, a file or several files, not {quoted(references)}")
