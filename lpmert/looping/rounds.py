"""The iterations of a loop, one after the other, and when they end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lpmert.errors import DecoderError, FloatArray, LpmertError
from lpmert.looping.decoder import Cost, Decoded, Decoder, Measure, checked
from lpmert.looping.journal import Journal
from lpmert.looping.looped import Iteration
from lpmert.looping.pool import Growth, Pool, consistency, warning
from lpmert.looping.steps import Step, Stepping, angle_between
from lpmert.model.problem import Problem
from lpmert.quoting import listed
from lpmert.system.deadline import Deadline, checkpoint, unheeded


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


LEAST_ANGLE = 0.05
"""Degrees; a smaller step is none."""


class Rounds:
    """What a loop has done so far: `done`, and the `reason` why it ended; `finished`, if no limit did that."""

    def __init__(
        self,
        part: Part,
        held_out: Part | None,
        stepping: Stepping,
        pool: Pool,
        journal: Journal | None,
        deadline: Deadline,
        patience: int,
        on_iteration: Callable[[Iteration], object] | None,
    ) -> None:
        self._part, self._held_out, self._stepping, self._pool = part, held_out, stepping, pool
        self._journal, self._deadline, self._patience = journal, deadline, patience
        self._tell = on_iteration
        self.done: list[Iteration] = []
        self.warnings: list[str] = []
        self.reason, self.finished = "", True
        self._pending: Iteration | None = None
        self._centre: Iteration | None = None
        """The last iteration that was accepted: where steps start."""

    @property
    def best(self) -> Iteration:
        """The iteration with the least loss, the first one of equals."""
        return min(self.done, key=lambda one: one.loss)

    def run(self, weights: Mapping[str, float], most: int) -> None:
        """Decode and step, at most so many times; raises `OutOfTime` at the deadline, `DecoderError`."""
        angle: float | None = None
        for number in range(1, most + 1):
            iteration, growth = self._decode(number, weights)
            self._pending = iteration
            angle = self._next_angle(iteration, angle)
            self.reason = self._ended(iteration, growth, angle)
            if not self.reason and number == most:
                self.reason, self.finished = f"{most} iterations were allowed", False
            if self.reason:
                self._finish(iteration)
                return
            step = self._step(number, angle)
            if step.stays:
                self.reason = self._stepping.said(step)
            self._finish(
                replace(iteration, pool_loss=step.loss, lower_bound=step.lower_bound, angle=angle), step.seconds
            )
            if step.stays:
                return
            weights = step.weights

    def stop(self, reason: str) -> None:
        """End where a limit came; a decoding that was over counts. Raises `LpmertError` if there is none."""
        if self._pending is not None:
            self._finish(self._pending)
        if not self.done:
            raise LpmertError(f"{reason} before the first decoding was over")
        self.reason, self.finished = reason, False

    def _decode(self, number: int, weights: Mapping[str, float]) -> tuple[Iteration, Growth]:
        output = self._part.output(number, weights)
        held_out = None if self._held_out is None else self._held_out.output(number, weights)
        lost = self._pool.without(output.decoded.lists.list_ids)
        if lost:
            self.warnings.append(
                f"iteration {number}: the decoder gave no hypotheses of {len(lost)} of {len(output.decoded.ids)} "
                f"inputs, and some before: {listed(lost)}; see that its output is whole"
            )
        growth = self._pool.add(output.decoded.lists)
        vector = _vector(weights)
        lists = self._pool.lists(vector)
        fits = consistency(
            self._pool, Problem(lists, self._part.measure.metric), output.decoded, self._part.measure, vector
        )
        said = warning(fits, self._pool.equal_words)
        if said is not None:
            self.warnings.append(f"iteration {number}: {said}")
        centre = self._centre
        iteration = Iteration(
            number=number,
            weights=dict(weights),
            loss=output.cost.loss,
            score=output.cost.score,
            rate=output.cost.rate,
            held_out_loss=None if held_out is None else held_out.cost.loss,
            accepted=centre is None or self._stepping.explores or output.cost.loss <= centre.loss,
            hypotheses=lists.n_hypotheses,
            new_hypotheses=growth.hypotheses,
            new_words=growth.words,
            grown_lists=growth.lists,
            consistency=fits,
            pool_loss=None,
            lower_bound=None,
            angle=None,
            seconds={"decode": output.seconds + (0.0 if held_out is None else held_out.seconds)},
        )
        return iteration, growth

    def _next_angle(self, iteration: Iteration, angle: float | None) -> float | None:
        """Return how far the next step may go: after one that was not accepted, half as far."""
        centre = self._centre
        if centre is None or iteration.accepted:
            self._centre = iteration
            return None
        apart = angle_between(_vector(iteration.weights), _vector(centre.weights)) / 2.0
        return apart if angle is None else min(apart, angle / 2.0)

    def _ended(self, iteration: Iteration, growth: Growth, angle: float | None) -> str:
        """Return why no further decoding is worth it, if so."""
        runs = [*self.done, iteration]
        if angle is not None and angle < LEAST_ANGLE:
            return "steps became too small"
        if iteration.accepted and iteration.number > 1 and not growth.hypotheses:
            return "no list grew"
        for what, losses in (("", [one.loss for one in runs]), ("held-out ", [one.held_out_loss for one in runs])):
            known = [loss for loss in losses if loss is not None]
            if len(known) == len(runs) and len(runs) - 1 - int(np.argmin(known)) >= self._patience:
                return f"the {what}loss has not come down for {self._patience} iterations"
        return ""

    def _step(self, number: int, angle: float | None) -> Step:
        before = {} if self._centre is None else self._centre.weights
        start = _vector(before)
        method, searching = self._stepping.method, self._stepping.within(angle)
        if method is not None and searching is not None and searching is not method:
            self.warnings.append(
                f"iteration {number}: {method.name} cannot keep to an angle; {searching.name} searched within it"
            )
        kept = None if self._journal is None else self._journal.step(number, tuple(before))
        if kept is not None:
            self._stepping.remember(kept, start)
            return kept
        checkpoint()
        step = self._stepping.step(self._pool.lists(start), start, angle, self._deadline)
        checkpoint()  # a search that was cut short is not kept
        self._stepping.remember(step, start)
        if self._journal is not None:
            with unheeded():
                self._journal.keep_step(number, step)
        return step

    def _finish(self, iteration: Iteration, seconds: float = 0.0) -> None:
        self._pending = None
        self.done.append(replace(iteration, seconds={**iteration.seconds, "search": seconds}))
        if self._tell is not None:
            with unheeded():
                self._tell(self.done[-1])


def _vector(weights: Mapping[str, float]) -> FloatArray:
    return np.array([*weights.values()], dtype=np.float64)
