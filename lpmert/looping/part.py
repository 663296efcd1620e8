"""One decoder with its inputs and references: decoded, checked, measured, kept; each weights once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from lpmert.errors import DecoderError
from lpmert.looping.decoder import Decoded, Decoder, checked
from lpmert.looping.journal import Journal
from lpmert.looping.measure import Cost, Measure
from lpmert.system.deadline import checkpoint, unheeded


class Output(NamedTuple):
    """What was decoded, its lists with statistics, what the decoder's own outputs cost, and how long it took."""

    decoded: Decoded
    cost: Cost
    seconds: float


class Part:
    """Inputs that are decoded in each iteration: those that weights are tuned on, or others.

    name: under which a journal keeps them. where: what to say of it where it fails, after the iteration.
    """

    def __init__(
        self, name: str, decoder: Decoder, measure: Measure, n: int, journal: Journal | None, where: str = ""
    ) -> None:
        self.measure, self._where = measure, where
        self._name, self._decoder, self._n, self._journal = name, decoder, n, journal
        self._ids: tuple[str, ...] | None = None
        self._known: dict[tuple[float, ...], Output] = {}

    def output(self, number: int, weights: Mapping[str, float]) -> Output:
        """Return what the decoder makes of weights, from the journal if it is there.

        Raises `DecoderError`, and `OutOfTime` at the deadline of the loop.
        """
        key = tuple(weights.values())
        if key not in self._known:
            self._known[key] = self._output(number, weights)
        return self._known[key]

    def _output(self, number: int, weights: Mapping[str, float]) -> Output:
        kept = None if self._journal is None else self._journal.decoded(number, self._name, weights)
        if kept is None:
            checkpoint()
            started = time.perf_counter()
            try:
                decoded = checked(self._decoder.decode(dict(weights), self._n), tuple(weights), self._ids)
            except DecoderError as error:
                raise DecoderError(f"iteration {number}{self._where}: {error}") from error
            seconds = time.perf_counter() - started
        else:
            decoded, seconds = checked(kept[0], tuple(weights), self._ids), kept[1]
        if self._ids is None:
            self.measure.expect(decoded.ids)
            self._ids = decoded.ids
        measured = replace(decoded, lists=self.measure.lists(decoded.lists))
        output = Output(measured, self.measure.own(measured, measured.lists), seconds)
        if kept is None and self._journal is not None:  # what cannot be used is not kept
            with unheeded():
                self._journal.keep_decoded(number, self._name, weights, decoded, seconds)
        return output
