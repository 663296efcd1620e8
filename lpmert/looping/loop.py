"""The door `loop`: decode, pool, search, decode again, until the decoder itself gets no better."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lpmert.formats.utterances import References
    from lpmert.looping.decoder import Decoder
    from lpmert.looping.looped import Iteration, Looped
    from lpmert.metrics.base import Metric
    from lpmert.metrics.text import TextMetric
    from lpmert.model.region import Region
    from lpmert.search.method import Method
    from lpmert.values import Weights

ITERATIONS = 20
PATIENCE = 3
SEARCH_SECONDS = 60.0
"""How long a pool is searched where no limit is given."""


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
    """Tune the weights of a decoder: decode, add what it gives to a pool, search the pool, and decode again.

    What counts is what the decoder's own outputs cost. Where they cost more than before, the next step goes at most
    half as far from the best weights.

    Parameters
    ----------
    decoder : Decoder
        What decodes: `lpmert.Command`, `lpmert.Worker`, or any object with such a `decode`.
    weights : mapping from name to number, Result, str or Path
        The first weights, by name. All others get their scale, unless the region sets it.
    references : mapping, str, Path or sequence, optional
        What the outputs should be, as for `lpmert.read`; without them, the decoder's lists have statistics.
    metric : str, TextMetric or Metric, optional
        Of texts ("wer" by default), or what sums the statistics (by default what their names tell).
    n : int
        How many hypotheses of an input the decoder is asked for.
    region : Region, optional
        Where the weights may lie; without a cosine.
    method : str or Method
        How a pool is searched, as for `minimize`; or "average", for weights that hold on other inputs. Steps of methods
        that do not look for the least loss ("stabilised", "annealing", "likelihood", ...) need no confirmation.
    equal_words : {"all", "latest", "best"}
        What the pool keeps of hypotheses with the same words and other features.
    held_out : Decoder, optional
        The same decoder with other inputs, decoded in each iteration; nothing is fitted to them.
    held_out_references : mapping, str, Path or sequence, optional
        What its outputs should be.
    iterations : int
        Most decodings.
    patience : int
        After how many decodings that are no better, of the inputs or of those held out, the loop ends.
    search_seconds : float, optional
        Most seconds for each search, `None` for no limit.
    time_limit : float, optional
        Most seconds for everything; a decoding that runs then is given up.
    memory_limit : int, optional
        Most bytes that this process and the decoder's hold together; the loop ends before that.
    folder : str or Path, optional
        Where everything is kept, so that the loop can go on after it was stopped at any moment.
    resume : bool
        Go on with the loop in `folder`, if there is one.
    jobs : int
        Threads of a search.
    seed : int
        Of all that is random.
    on_iteration : callable, optional
        Gets each `Iteration` once it is over.

    Returns
    -------
    Looped
        The weights of the best iteration, and all iterations.

    Raises
    ------
    DecoderError
        Where the decoder fails; what was done before is in `folder`.
    DataError, MetricError, MethodError, RegionError
        Where an argument cannot be used.

    Notes
    -----
    The loop of Och, Minimum Error Rate Training in Statistical Machine Translation, ACL 2003, with steps that the
    decoder has to confirm. `docs/loop.md` has the rules and their reasons.

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
    from lpmert.api import settings_of
    from lpmert.errors import DataError, DecoderError, MethodError, RegionError
    from lpmert.formats.weights import checked_region, given_weights
    from lpmert.looping.decoder import check_decoder
    from lpmert.looping.journal import Journal
    from lpmert.looping.looped import Looped
    from lpmert.looping.measure import Measure
    from lpmert.looping.part import Part
    from lpmert.looping.pool import Pool
    from lpmert.looping.rounds import Rounds
    from lpmert.looping.steps import AVERAGE, Stepping, check_first
    from lpmert.quoting import quoted
    from lpmert.system.deadline import Deadline, OutOfTime, heeding
    from lpmert.system.interrupts import Interrupts
    from lpmert.system.memory import Allowance
    from lpmert.values import checked_limits, named_weights, real_number, whole_number
    from lpmert.workers import using_workers

    check_decoder(decoder, "decoder")
    if held_out is not None:
        check_decoder(held_out, "held_out")
    if on_iteration is not None and not callable(on_iteration):
        raise MethodError(f"on_iteration must be a function, or None; got {quoted(on_iteration)}")
    if folder is not None and not isinstance(folder, str | Path):
        raise DataError(f"folder must be a path, or None, not {quoted(folder)}")
    most = real_number(search_seconds)
    if search_seconds is not None and (most is None or not most >= 0.0):
        raise MethodError(f"search_seconds must be a number of at least 0, or None; got {quoted(search_seconds)}")
    solver, limits, seed = settings_of(
        "och" if method == AVERAGE else method, search_seconds, None, None, None, memory_limit, jobs, seed
    )
    if solver.remembers:
        raise MethodError(f"a loop keeps what iterations leave behind; leave state and earlier out of {solver.name}")
    n, iterations, patience = (
        whole_number(value, name, 1) for value, name in ((n, "n"), (iterations, "iterations"), (patience, "patience"))
    )
    if resume and folder is None:
        raise DataError("resume needs the folder of the loop")
    if (held_out is None) != (held_out_references is None) and references is not None:
        raise DataError("held-out inputs need both a decoder and references: held_out and held_out_references")
    region = checked_region(region)
    if region is not None and region.cosine is not None:
        raise RegionError("the region of a loop cannot have a cosine, which limits its steps; use bounds instead")
    first = named_weights(given_weights(weights))
    if region is not None:
        check_first(first, region)
    measure, aside = Measure(references, metric), Measure(held_out_references, metric)
    settings = {
        "weights": first,
        "n": n,
        "method": AVERAGE if method == AVERAGE else solver.settings(),
        "metric": None if metric is None else str(getattr(metric, "signature", metric)),
        "region": None if region is None else region.signature,
        "equal_words": equal_words,
        "patience": patience,
        "seed": seed,
        "held_out": held_out is not None,
        "references": _digest(references),
        "held_out_references": _digest(held_out_references),
    }
    interrupts = Interrupts()
    seconds = checked_limits(time_limit, None, None, None, None).time_limit
    memory = None if limits.memory_limit is None else Allowance(limits.memory_limit)
    deadline = Deadline(seconds, None, lambda: interrupts.pressed, memory)
    pool = Pool(equal_words)
    journal = None if folder is None else Journal(folder, settings, resume=resume)  # once nothing else can be refused
    rounds = Rounds(
        part=Part("decoded", decoder, measure, n, journal),
        held_out=None if held_out is None else Part("held-out", held_out, aside, n, journal, ", held-out inputs"),
        stepping=Stepping(
            None if method == AVERAGE else solver, measure, region, limits, np.array([*first.values()]), seed
        ),
        pool=pool,
        journal=journal,
        deadline=deadline,
        patience=patience,
        on_iteration=on_iteration,
    )
    with interrupts, deadline.running(), heeding(), using_workers("threads", jobs):
        try:
            rounds.run(first, iterations)
        except OutOfTime:
            used_up = "the memory" if deadline.out_of_memory else "the time"
            rounds.stop("it was interrupted" if interrupts.pressed else f"{used_up} is used up")
        except DecoderError as error:
            if folder is None:
                raise
            how = f"what was decoded before is kept in {folder}; once the decoder is mended, go on with"
            raise DecoderError(f"{error}\n{how} resume=True (--resume)") from error
    best = rounds.best
    return Looped(
        weights=np.array([*best.weights.values()]),
        names=tuple(first),
        best=best.number,
        iterations=tuple(rounds.done),
        reason=rounds.reason,
        finished=rounds.finished,
        warnings=tuple(rounds.warnings),
        seed=seed,
        signature=json.dumps(settings),
    )


def _digest(references: Any) -> str | None:
    """Return what tells whether references are the same as those of a loop that goes on."""
    if references is None:
        return None
    if not isinstance(references, Mapping):
        from lpmert.system.files import read_text

        files = [references] if isinstance(references, str | Path) else references
        references = [read_text(path) for path in files]
    return hashlib.sha256(json.dumps(references).encode()).hexdigest()
