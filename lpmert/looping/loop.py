"""`loop`: decode, add to the pool, search the pool, and decode again, until the decoder's outputs stop improving.

A loop with a folder saves each decoding and each step before the next one begins, so that it can continue when it was
killed. `settings.json` has the settings that must not change. The folder of an iteration has the outputs of the decoder
(`decoded.npz`, `decoded.json`, and the same as `held-out`) and the step that followed (`step.json`). Every file is
written completely or not at all, and the JSON of a decoding is written last; JSON has a digest of itself.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpmert.api import many_searches
from lpmert.comparing.cross_validation import repeats
from lpmert.errors import DataError, DecoderError, FloatArray, LimitError, MethodError, RegionError
from lpmert.files import owned, read_text, write_text
from lpmert.formats.format import read_npz, write_npz
from lpmert.formats.utterances import References, made_folder, references_by_list
from lpmert.formats.weights import checked_region, given_weights
from lpmert.limits import OutOfTime, checkpoint, heeding, told, unheeded
from lpmert.looping.decoders import Decoded, Decoder, check_references, checked, own_texts
from lpmert.looping.pool import Consistency, Pool, Step, Stepping, angle_between, consistency, vector_of, warning
from lpmert.metrics.base import Metric, SumOfLosses
from lpmert.metrics.contract import metric_of, rates_of, unit_of
from lpmert.metrics.text import TextMetric, reference_length, text_metric, text_unit
from lpmert.model.judgments import measure_texts
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.quoting import Unit, counted, listed, quoted
from lpmert.result import Weighted
from lpmert.search.method import Method
from lpmert.values import Weights, named_weights, real_number, whole_number

_SETTINGS, _STEP, _DIGEST = "settings.json", "step", "sha256"


class Journal:
    """The folder of a loop; without one, nothing is saved.

    settings: must be the same when a loop continues, including the order of weights. Raises `DataError` if the folder
    has a loop and `resume` is not set, or the loop has other settings or none.
    """

    def __init__(self, folder: str | Path | None, settings: Mapping[str, Any], *, resume: bool) -> None:
        self._folder = None if folder is None else made_folder(folder)
        if self._folder is None:
            return
        place = self._folder / _SETTINGS
        plain = json.loads(json.dumps(settings))
        with owned(place, self._folder, wait=True):  # another loop may begin at the same time
            if place.exists():
                if not resume:
                    trouble = "has a loop already; resume it (--resume), or give another folder"
                    raise DataError(trouble, path=self._folder)
                _compare(_read(place), plain, self._folder)
            elif _place(self._folder, 1, _STEP).parent.exists():
                raise DataError(f"has iterations, but no {_SETTINGS}; the folder was changed", path=self._folder)
            else:
                _write(place, plain)

    def decoded(self, number: int, name: str, weights: Mapping[str, float]) -> tuple[Decoded, float] | None:
        """Return the outputs of the decoder in an iteration, and their seconds; `None` if they were not saved."""
        found = self.found(number, name)
        if found is None or self._folder is None:
            return None
        place = _place(self._folder, number, name)
        if [*found["weights"].items()] != [*weights.items()]:
            raise DataError("weights of another decoding; the folder was changed", path=place)
        return Decoded(read_npz(place.with_suffix(".npz")), found["own"]), found["seconds"]

    def found(self, number: int, name: str) -> dict[str, Any] | None:
        """Return what was kept under a name in an iteration; `None` if nothing was."""
        place = None if self._folder is None else _place(self._folder, number, name)
        return None if place is None or not place.exists() else _read(place)

    def keep(self, number: int, name: str, content: Mapping[str, Any], lists: NBest | None = None) -> None:
        """Save an iteration's content, which JSON can hold, after its lists if it has some, at whatever deadline."""
        if self._folder is not None:
            with unheeded():
                place = _place(self._folder, number, name)
                made_folder(place.parent)
                if lists is not None:
                    write_npz(lists, place.with_suffix(".npz"))
                _write(place, content)


def _place(folder: Path, number: int, name: str) -> Path:
    return folder / f"{number:03d}" / f"{name}.json"


def _compare(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raise `DataError` if a loop continues with other settings than it began with."""
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if json.dumps(old) != json.dumps(new):  # the order of weights is that of the features
            trouble = f"has {name} = {quoted(old)}, not {quoted(new)}" if old != new else f"has {name} in another order"
            if name.endswith("references"):  # the settings only have their digests
                trouble = f"has other {name.replace('_', ' ')}"
            raise DataError(
                f"the loop there {trouble}; resume it with the same settings, or give another folder", path=folder
            )


def _write(place: Path, content: Mapping[str, Any]) -> None:
    write_text(place, json.dumps({**content, _DIGEST: _digest(content)}, allow_nan=False, indent=2) + "\n")


def _read(place: Path) -> dict[str, Any]:
    """Return what `_write` has written; raises `DataError` for anything else."""
    try:
        found: dict[str, Any] = json.loads(read_text(place))
        unchanged = found.pop(_DIGEST) == _digest(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        unchanged = False
    if not unchanged:
        raise DataError("not what a loop writes; the folder was changed", path=place)
    return found


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Iteration:
    """One decoding, and the search that followed.

    Parameters
    ----------
    number : int
        Number of the iteration, from 1.
    weights : mapping from name to float
        The weights of the decoding.
    loss, score : float
        Loss and score of the decoder's own outputs.
    unit : Unit
        The unit in which the losses are shown.
    held_out_loss, held_out_unit : float and Unit, optional
        The same for held-out inputs.
    accepted : bool
        Whether the loss is at most that of the iteration from which the step started.
    hypotheses, new_hypotheses : int
        Number of hypotheses in the pool after the decoding, and of new ones.
    consistency : Consistency
        How well pool and decoder agree.
    seconds : mapping from str to float
        Seconds for the decoding and for the search.
    pool_loss, lower_bound : float, optional
        The least loss found on the pool within `angle` of the best weights, and its proven bound; `None` in the last
        iteration.
    angle : float, optional
        Maximum angle of the step in degrees; `None` for no limit.
    """

    json_omits = ("unit", "held_out_unit")

    number: int
    weights: Mapping[str, float]
    loss: float
    score: float
    unit: Unit
    held_out_loss: float | None
    held_out_unit: Unit | None
    accepted: bool
    hypotheses: int
    new_hypotheses: int
    consistency: Consistency
    seconds: Mapping[str, float]
    pool_loss: float | None = None
    lower_bound: float | None = None
    angle: float | None = None


@dataclass(frozen=True, eq=False)
class Looped(Weighted):
    """The outcome of a loop: the iteration with the least loss of the decoder's own outputs.

    Parameters
    ----------
    weights : array [D]
        The weights of the best iteration, in the scale of the first weights.
    names : tuple of str
        The features.
    best : int
        Number of the best iteration, the first of equal ones.
    iterations : tuple of Iteration
        All iterations.
    reason : str
        Why the loop ended.
    finished : bool
        Whether it ended by itself, not by a limit.
    warnings : tuple of str
        Warnings, a sentence each.
    seed : int
        The random seed.
    signature : str
        Every setting that changes the numbers.
    """

    json_properties = ("loss", "held_out_loss", "unit")

    weights: FloatArray
    names: tuple[str, ...]
    best: int
    iterations: tuple[Iteration, ...]
    reason: str
    finished: bool
    warnings: tuple[str, ...]
    seed: int
    signature: str

    @property
    def loss(self) -> float:
        """The loss of the decoder's own outputs with these weights."""
        return self.iterations[self.best - 1].loss

    @property
    def held_out_loss(self) -> float | None:
        """The same for held-out inputs."""
        return self.iterations[self.best - 1].held_out_loss

    @property
    def unit(self) -> Unit:
        """The unit in which the losses are shown."""
        return self.iterations[self.best - 1].unit

    def __str__(self) -> str:
        """Return a short report."""
        first, best = self.iterations[0], self.iterations[self.best - 1]
        where = f"in iteration {self.best} of {len(self.iterations)}, {first.unit.text(first.loss)} at first"
        found = f"{best.unit.name} {best.unit.text(best.loss)} {where}"
        return "\n".join([found, *self._lines(), self.reason, *self.warnings])


class Output(NamedTuple):
    """The outputs of a decoding, with statistics; loss and score of the decoder's own outputs; the seconds taken."""

    decoded: Decoded
    loss: float
    score: float
    seconds: float


class Inputs:
    """Inputs that are decoded in each iteration, for tuning or held out, and what their outputs cost.

    The statistics of texts are counted against `references`; without these, the lists have them. Once lists are
    decoded, `metric` is that of their statistics and `unit` the unit in which the loss is shown. Raises `DecoderError`
    for what is no decoder, `DataError` for references of another type, `MetricError` for a metric that is unknown or
    not installed.
    """

    metric: Metric
    unit: Unit

    def __init__(
        self, decoder: Decoder, references: References | Sequence[Any] | None, metric: Any, n: int, *, held_out: bool
    ) -> None:
        if isinstance(decoder, type | bytes | bytearray) or not callable(getattr(decoder, "decode", None)):
            needs = "must be an object with a method decode, such as an lpmert.Worker or an lpmert.Command, not"
            raise DecoderError(f"{'held_out' if held_out else 'decoder'} {needs} {quoted(decoder)}")
        check_references(references)
        self._name, self._where = ("held-out", ", held-out inputs") if held_out else ("decoded", "")
        self._decoder, self._n, self._references, self._named = decoder, n, references, metric
        self._texts = None if references is None else text_metric(metric or "wer")
        if self._texts is not None:
            self._texts.counter(("",))  # raises before anything is decoded if a package is missing
        self._ids: tuple[str, ...] | None = None
        self._by_list: dict[str, tuple[str, ...]] = {}

    @property
    def digest(self) -> str | None:
        """The digest of the references, with what is in their files; `None` without references."""
        given: Any = self._references
        if isinstance(given, str | Path):
            given = [given]
        return None if given is None else _digest(given if isinstance(given, Mapping) else [*map(read_text, given)])

    def output(self, journal: Journal, number: int, weights: Mapping[str, float]) -> Output:
        """Decode with weights, or take the outputs from the journal.

        Raises `DecoderError`, `DataError` if references are missing or superfluous, and `OutOfTime` at the deadline of
        the loop.
        """
        known = journal.decoded(number, self._name, weights)
        if known is None:
            checkpoint()
            started = time.perf_counter()
            try:
                decoded = checked(self._decoder.decode(dict(weights), self._n), tuple(weights), self._ids)
            except DecoderError as error:
                raise DecoderError(f"iteration {number}{self._where}: {error}") from error
            seconds = time.perf_counter() - started
        else:
            decoded, seconds = checked(known[0], tuple(weights), self._ids), known[1]
        if self._ids is None:
            self._ids = decoded.ids
            if self._references is not None:
                found = references_by_list(self._ids, self._references, options=False)
                self._by_list = dict(zip(self._ids, found, strict=True))
        measured = replace(decoded, lists=self._measured(decoded.lists))
        output = Output(measured, *self.cost(measured), seconds)
        if known is None:  # saved only now, because unusable outputs have raised an error
            own = None if decoded.own is None else dict(decoded.own)
            content = {"weights": dict(weights), "own": own, "seconds": seconds}
            journal.keep(number, self._name, content, decoded.lists)
        return output

    def _measured(self, lists: NBest) -> NBest:
        if self._texts is None:
            self.metric = metric_of(self._named, lists.statistic_names)
            rates = rates_of(self.metric, lists.statistics, lists.offsets, 1.0)
            self.unit = unit_of(self.metric, lists.statistic_names, rates, lists.n_lists)
            return lists
        found, self.metric = measure_texts(lists, [self._by_list[one] for one in lists.list_ids], self._texts)
        if isinstance(self.metric, SumOfLosses):
            length = reference_length(self._texts, [*self._by_list.values()])
            self.unit = text_unit(self._texts, len(self._by_list), None if length is None else 1.0 / length)
        else:
            self.unit = unit_of(self.metric, found.statistic_names, {}, found.n_lists)
        return found

    def cost(self, decoded: Decoded, only: Collection[str] | None = None) -> tuple[float, float]:
        """Return loss and score of the decoder's own outputs, of all lists or `only` some; decoded: with statistics."""
        if self._texts is not None:
            texts = [item for item in own_texts(decoded).items() if only is None or item[0] in only]
            rows = [self._texts.counter(self._by_list[name])(text) for name, text in texts]
        elif decoded.own is not None:
            raise DataError("the decoder's own outputs are texts, for which there are no references")
        else:
            rows = decoded.lists.statistics[decoded.lists.offsets[:-1]].tolist()
        total = np.array([fsum(column) for column in zip(*rows, strict=True)])
        return self.metric.loss(total), self.metric.score(total)


LEAST_ANGLE = 0.05  # smallest angle of a step, in degrees, before the loop ends


@dataclass
class Rounds:
    """A running loop: the iterations `done`, the `reason` why it ended, and whether it `finished` without a limit."""

    inputs: Inputs
    held_out: Inputs | None
    stepping: Stepping
    pool: Pool
    journal: Journal
    patience: int
    on_iteration: Callable[[Iteration], object] | None
    done: list[Iteration] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    reason: str = ""
    finished: bool = True

    def run(self, weights: Mapping[str, float], most: int) -> None:
        """Run up to `most` iterations, until there is a reason to stop.

        Raises `DecoderError`, and `OutOfTime` at the deadline.
        """
        centre: Iteration | None = None  # the last accepted iteration, from which steps start
        angle: float | None = None
        for number in range(1, most + 1):
            output = self.inputs.output(self.journal, number, weights)
            held_out = None if self.held_out is None else self.held_out.output(self.journal, number, weights)
            if number == 1 and held_out is not None:  # equal inputs give equal lists, as the weights are the same
                self.warnings += repeats(held_out.decoded.lists, output.decoded.lists)
            new, hypotheses, agreement = self._merged(number, weights, output)
            # a method that does not minimise goes where it chooses
            accepted = centre is None or not self.stepping.searches.method.minimises or output.loss <= centre.loss
            iteration = Iteration(
                number=number,
                weights=dict(weights),
                loss=output.loss,
                score=output.score,
                unit=self.inputs.unit,
                held_out_loss=None if held_out is None else held_out.loss,
                held_out_unit=None if self.held_out is None else self.held_out.unit,
                accepted=accepted,
                hypotheses=hypotheses,
                new_hypotheses=new,
                consistency=agreement,
                seconds={"decode": output.seconds + (0.0 if held_out is None else held_out.seconds), "search": 0.0},
            )
            self.done.append(iteration)
            if centre is None or accepted:
                centre, angle = iteration, None
            else:  # halve the step after one that was not accepted
                half = angle_between(vector_of(weights), vector_of(centre.weights)) / 2.0
                angle = half if angle is None else min(half, angle / 2.0)
            try:
                self.reason = self._ended(angle)
                if not self.reason and number == most:
                    self.reason, self.finished = f"{counted(most, 'iteration')} done, the most allowed", False
                if not self.reason:
                    step = self._step(number, centre.weights, angle)
                    seconds = {**iteration.seconds, "search": step.seconds}
                    self.done[-1] = replace(
                        iteration, pool_loss=step.loss, lower_bound=step.lower_bound, angle=angle, seconds=seconds
                    )
                    self.reason, weights = self.stepping.reason_to_stay(step) if step.stays else "", step.weights
            finally:  # also if a limit ends the search
                told(self.on_iteration, self.done[-1])
            if self.reason:
                return

    def _merged(self, number: int, weights: Mapping[str, float], output: Output) -> tuple[int, int, Consistency]:
        """Add a decoding to the pool; return the new hypotheses, all, and how well it agrees with the decoder."""
        found = output.decoded.lists
        present = {*found.list_ids}
        missing = [name for name in self.pool.list_ids if name not in present]
        if missing:
            self.warnings.append(
                f"iteration {number}: the decoder gave no hypotheses for {len(missing)} of {len(output.decoded.ids)} "
                f"inputs, which had some before: {listed(missing)}; check that its output is complete"
            )
        new, lists = self.pool.add(found), self.pool.lists()
        own_loss, _ = self.inputs.cost(output.decoded, {*lists.list_ids})
        problem = Problem(lists, self.inputs.metric)
        agreement = consistency(self.pool, problem, output.decoded, own_loss, vector_of(weights))
        message = warning(agreement, self.pool.equal_words)
        if message is not None:
            self.warnings.append(f"iteration {number}: {message}")
        return new, lists.n_hypotheses, agreement

    def _step(self, number: int, start: Mapping[str, float], angle: float | None) -> Step:
        """Search the pool for the next weights, or take the step from the journal."""
        method, searching = self.stepping.searches.method, self.stepping.within(angle)
        if searching is not method:
            self.warnings.append(
                f"iteration {number}: {method.name} cannot keep to an angle; {searching.name} searched within it"
            )
        known = self.journal.found(number, _STEP)
        if known is None:
            checkpoint()
            step = self.stepping.step(self.pool.lists(), self.inputs.metric, vector_of(start), angle)
            checkpoint()  # a search that was cut short is not saved
            self.journal.keep(number, _STEP, asdict(step))
        else:
            step = Step(**known)
        self.stepping.steps.append(step)
        return step

    def _ended(self, angle: float | None) -> str:
        """Return why no further decoding is worthwhile; an empty text if it is."""
        last = self.done[-1]
        if angle is not None and angle < LEAST_ANGLE:
            return "steps became too small"
        if last.accepted and last.number > 1 and not last.new_hypotheses:
            return "no list grew"
        held_out = [one.held_out_loss for one in self.done if one.held_out_loss is not None]
        for what, losses in (("", [one.loss for one in self.done]), ("held-out ", held_out)):
            if losses and len(losses) - 1 - int(np.argmin(losses)) >= self.patience:
                return f"the {what}loss has not come down for {self.patience} iterations"
        return ""


ITERATIONS = 20
PATIENCE = 3
SEARCH_SECONDS = 60.0  # default time limit of each search of the pool


def loop(
    decoder: Decoder,
    weights: Weights,
    *,
    references: References | Sequence[str | Path] | None = None,
    metric: str | Metric | TextMetric | None = None,
    n: int = 100,
    region: Region | None = None,
    method: str | Method = "auto",
    equal_words: str = "all",
    held_out: Decoder | None = None,
    held_out_references: References | Sequence[str | Path] | None = None,
    iterations: int = ITERATIONS,
    patience: int = PATIENCE,
    search_seconds: float | None = SEARCH_SECONDS,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    jobs: int = 1,
    seed: int = 0,
    on_iteration: Callable[[Iteration], object] | None = None,
) -> Looped:
    """Tune the weights of a decoder: decode, add the hypotheses to a pool, search the pool, and decode again.

    The decoder's own outputs decide whether a step is accepted. If their loss has increased, the next step starts again
    from the best weights and goes at most half as far.

    Parameters
    ----------
    decoder : Decoder
        The decoder: an `lpmert.Command`, an `lpmert.Worker`, or any object with such a `decode` method.
    weights : mapping from name to number, Result, str or Path
        The first weights, by name. All later ones have their scale, unless the region sets one.
    references : mapping, str, Path or sequence, optional
        The reference texts, as for `lpmert.read`; without them, the decoder's lists must have statistics.
    metric : str, TextMetric or Metric, optional
        The metric of texts ("wer" by default), or of the statistics (by default their names decide).
    n : int
        Number of hypotheses that the decoder is asked for per input.
    region : Region, optional
        Where the weights may lie; it must have no cosine.
    method : str or Method
        How to search the pool, as for `minimize`; "average" is for unseen inputs. Steps of methods that do not
        minimise the loss ("stabilised", "annealing", "average", ...) are always accepted.
    equal_words : {"all", "latest"}
        Which hypotheses with the same words and different features the pool keeps: all, or those of the last decoding
        that gave these words.
    held_out : Decoder, optional
        The same decoder with other inputs, decoded in each iteration; nothing is fitted to them.
    held_out_references : mapping, str, Path or sequence, optional
        The reference texts of the held-out inputs.
    iterations : int
        Maximum number of decodings.
    patience : int
        The loop ends after this many decodings without an improvement on the inputs, or on the held-out inputs.
    search_seconds : float, optional
        Maximum seconds for each search; `None` for no limit.
    time_limit : float, optional
        Maximum seconds for everything; a decoding that is running then is abandoned.
    memory_limit : int, optional
        Maximum memory of this process in bytes; the loop ends before the limit.
    folder : str or Path, optional
        Folder in which everything is saved, so that a loop that was stopped can continue.
    resume : bool
        Continue the loop in `folder`, if there is one.
    jobs : int
        Number of threads for a search.
    seed : int
        Random seed.
    on_iteration : callable, optional
        Called with each `Iteration` when it is complete.

    Returns
    -------
    Looped
        The weights of the best iteration, and all iterations.

    Raises
    ------
    DecoderError
        If the decoder fails; everything before is saved in `folder`.
    LimitError
        If a limit or Ctrl-C ended the loop before the first decoding was over.
    DataError, MetricError, MethodError, RegionError
        If an argument cannot be used.

    Notes
    -----
    The loop is that of Och, Minimum Error Rate Training in Statistical Machine Translation, ACL 2003, with steps that
    the decoder has to confirm. `docs/loop.md` has the rules and their reasons.

    Examples
    --------
    >>> import lpmert
    >>> class Toy:
    ...     def decode(self, weights, n):
    ...         features = {"one two": (-3, -1), "one too": (-2, -5)}
    ...         score = {text: weights["am"] * am + weights["lm"] * lm for text, (am, lm) in features.items()}
    ...         texts = sorted(features, key=score.get, reverse=True)
    ...         rows = [features[text] for text in texts]
    ...         return lpmert.Decoded(lpmert.NBest(rows, [0, 2], [[0], [0]], ["am", "lm"], texts=texts))
    >>> found = lpmert.loop(Toy(), {"am": 1, "lm": 0.1}, references={"0": "one two"})
    >>> [one.loss for one in found.iterations]
    [1.0, 0.0]
    """
    n = whole_number(n, "n", 1)
    inputs, held_out_inputs = Inputs(decoder, references, metric, n, held_out=False), None
    if held_out is not None:
        held_out_inputs = Inputs(held_out, held_out_references, metric, n, held_out=True)
    if on_iteration is not None and not callable(on_iteration):
        raise MethodError(f"on_iteration must be a function, or None; got {quoted(on_iteration)}")
    if folder is not None and not isinstance(folder, str | Path):
        raise DataError(f"folder must be a path, or None, not {quoted(folder)}")
    most = real_number(search_seconds)
    if search_seconds is not None and (most is None or not most >= 0.0):
        raise MethodError(f"search_seconds must be a number of at least 0, or None; got {quoted(search_seconds)}")
    iterations, patience = whole_number(iterations, "iterations", 1), whole_number(patience, "patience", 1)
    if resume and folder is None:
        raise DataError("resume needs the folder of the loop")
    if (held_out is None) != (held_out_references is None) and references is not None:
        raise DataError("held-out inputs need both a decoder and references: held_out and held_out_references")
    region = checked_region(region)
    if region is not None and region.cosine is not None:
        raise RegionError("the region of a loop cannot have a cosine, which limits its steps; use bounds instead")
    first = named_weights(given_weights(weights))
    pool = Pool(equal_words)
    call = method, time_limit, memory_limit, jobs, seed, "threads"
    with many_searches("a loop needs", *call, partial=True) as searches, heeding():
        if searches.method.remembers:
            raise MethodError(f"a loop keeps what iterations leave behind; leave earlier out of {searches.method.name}")
        rounds: Rounds | None = None
        try:
            settings = {
                "weights": first,
                "n": n,
                "method": searches.method.settings(),
                "metric": None if metric is None else str(getattr(metric, "signature", metric)),
                "region": None if region is None else region.signature,
                "equal_words": equal_words,
                "patience": patience,
                "seed": searches.seed,
                "held_out": held_out is not None,
                "references": inputs.digest,
                "held_out_references": None if held_out_inputs is None else held_out_inputs.digest,
            }
            stepping = Stepping(searches, most, region, first)
            journal = Journal(folder, settings, resume=resume)  # after all checks, because it writes
            rounds = Rounds(inputs, held_out_inputs, stepping, pool, journal, patience, on_iteration)
            rounds.run(first, iterations)
        except OutOfTime:
            used_up = "the memory" if searches.deadline.out_of_memory else "the time"
            reason = "it was interrupted" if searches.interrupts.pressed else f"{used_up} is used up"
            if rounds is None or not rounds.done:
                raise LimitError(f"{reason} before the first decoding was over") from None
            rounds.reason, rounds.finished = reason, False
        except DecoderError as error:
            if folder is None:
                raise
            how = f"earlier decodings are saved in {folder}; once the decoder is fixed, continue with"
            raise DecoderError(f"{error}\n{how} resume=True (--resume)") from error
    best = min(rounds.done, key=lambda one: one.loss)
    return Looped(
        weights=np.array([*best.weights.values()]),
        names=tuple(first),
        best=best.number,
        iterations=tuple(rounds.done),
        reason=rounds.reason,
        finished=rounds.finished,
        warnings=tuple(rounds.warnings),
        seed=searches.seed,
        signature=json.dumps(settings),
    )
