"""`lpmert loop` and `mert`: the weights of a decoder, tuned with the decoder in the loop, or in scripts of Moses.

`mert` replaces Moses' `mert`: it has the same flags and files, and also reports a bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import lpmert
from lpmert.cli import progress, values
from lpmert.cli.options import argument, command, memory_limit, option, time_limit
from lpmert.cli.reports import Picture, looped_report
from lpmert.cli.running import ExitCode, Output, Quiet, exit_code, interruptible, naming, put, say
from lpmert.cli.search import WeightsOut
from lpmert.limits import Deadline, Interrupts
from lpmert.quoting import Unit, listed, number, quoted, shortened

if TYPE_CHECKING:
    from lpmert.errors import FloatArray
    from lpmert.formats.weights import WeightsFile


_HEADER_EVERY = 20
_WIDTH = 10  # width of the columns of losses
_HEAD = f"{'HeldOut':>10} {'OnPool':>10} {'Angle':>6} {'Pool':>9} {'New':>7} {'Differ':>6} {'Missed':>6} {'Time':>8}"


@command("loop mert.toml --iterations 10 --weights-out weights.txt", heading="Loop")
def loop(
    weights: WeightsOut,
    drawn: Picture,
    out: Output,
    config: str = argument("CONFIG"),
    folder: str | None = option("DIR", "Folder of the loop.  [default: CONFIG with .loop for .toml]"),
    forget: bool = option("", "Keep nothing on disk.", default=False),
    resume: bool = option("", "Continue the loop in its folder.", default=False),
    iterations: int | None = option("N", "At most N decodings."),
    time_limit: float | None = time_limit(),
    memory_limit: int | None = memory_limit(),
) -> int:
    """Tune the weights of a decoder: decode, add its hypotheses to a pool, search the pool, and decode again.

    CONFIG is a TOML file that describes the decoder; see docs/loop.md. Each iteration is saved before the next one
    begins: after a crash, the same command with --resume continues. The answer is the iteration whose decoder outputs
    cost least.

    The columns of the table: the loss of the decoder's own outputs in the unit of the metric (errors, and as a rate);
    HeldOut, the same for held-out inputs; OnPool, the best on the pool within the angle of the next step; Angle; Pool
    and New, hypotheses in the pool and new ones; Differ, lists in which the best hypothesis of the pool has other words
    than the decoder's output; Missed, lists in which the pool has a hypothesis that the decoder's model prefers to all
    that the decoder found.

    The exit code is 3 if a limit ended the loop.
    """
    if forget and (resume or folder is not None):
        raise click.UsageError("--forget keeps no folder; leave out --folder and --resume.")
    from lpmert.cli.loop_file import read_config
    from lpmert.reporting import pictures

    given = {"iterations": iterations, "time_limit": time_limit, "memory_limit": memory_limit}
    with weights.delivering(out, drawn.picture) as deliver:
        found = read_config(config)
        arguments = {**found.arguments, **{name: value for name, value in given.items() if value is not None}}
        with found.closing, interruptible() as stop:
            looped = lpmert.loop(
                found.decoder,
                found.weights,
                **arguments,
                folder=None if forget else folder or Path(config).with_suffix(".loop"),
                resume=resume,
                on_iteration=_table(out),
            )
        for one in looped.warnings:
            say(f"warning: {one}")
        out.say(looped.reason)
        text = partial(weights.text, looped.names, looped.weights, None)
        deliver(looped.to_json, partial(looped_report, looped), text, "")
        drawn.write(lambda: pictures.loop(looped.to_dict()))
    return exit_code(None, stop, looped.finished)


def _table(out: Quiet) -> Callable[[lpmert.Iteration], None]:
    def show(one: lpmert.Iteration) -> None:
        unit, fits = one.unit, one.consistency
        if one.number % _HEADER_EVERY == 1:
            loss = unit.counts.capitalize() if unit.counts else shortened(unit.name, _WIDTH)
            loss = f"{loss:>{_WIDTH}}" + (f" {unit.name:>8}" if unit.counts else "")
            out.say(f"{'Iter':>4} {loss} {_HEAD}")
        angle = "" if one.angle is None else f"{one.angle:.2f}"
        rate = f" {unit.short(one.loss):>8}" if unit.counts else ""
        out.say(
            f"{one.number:>4} {_cost(unit, one.loss)}{rate} {_cost(one.held_out_unit, one.held_out_loss)} "
            f"{_cost(unit, one.pool_loss)} {angle:>6} {one.hypotheses:>9,} {one.new_hypotheses:>7,} "
            f"{fits.own_differs:>6,} {fits.search_errors:>6,} {sum(one.seconds.values()):>7.1f}s"
        )

    return show


def _cost(unit: Unit | None, loss: float | None) -> str:
    """Return a loss as a cell of the table: as a count if its unit has one, else in the unit."""
    text = number(loss) if unit is None or unit.counts else unit.short(loss)
    return f"{text:>{_WIDTH}}"


SCORES = ("BLEU", "WER", "TER", "CDER", "CHRF")
WEIGHTS_FILE = "weights.txt"
_SETTINGS = ("regtype", "regwin", "smooth", "beta", "case", "reflen")  # of Moses' StatisticsBasedScorer and CHRFScorer


def _scorer_settings(text: str) -> dict[str, str]:
    """Return the settings in --scconfig. Unknown keys are ignored, as Moses does; others must be supported."""
    found = {}
    for setting in filter(None, text.split(",")):
        key, _, value = setting.partition(":")
        if key == "regtype" and value not in ("none", "average", "min"):
            raise click.BadParameter(f"regtype is none, average or min, not {quoted(value)}.")
        if key == "regtype" and value != "none":
            say(f"warning: regtype:{value} smooths Moses' line searches; here the plain score is optimised")
        elif key == "smooth" and value.strip("0.") != "":
            raise click.BadParameter("smooth must be 0; CHRF is not smoothed here.")
        elif key not in _SETTINGS:
            say(f"warning: {quoted(setting)} in --scconfig is unknown and ignored")
        found[key] = value
    return found


def _features(text: str) -> tuple[str, ...]:
    """Return names separated by commas or blanks: mert-moses.pl accepts both, and passes them on unchanged."""
    return values.column_names(",".join(re.split(r"\s*[,\s]\s*", text.strip())))


_UNUSED = "Accepted for compatibility; has no effect."


@dataclass(frozen=True)
class _Options:
    heading = "Options"

    dimensions: int = option("-d --pdim --d N", "Number of features.", required=True)
    ffile: list[str] = option("-F --ffile FILE,...", "Features of each run.", default="features.data")
    scfile: list[str] = option("-S --scfile FILE,...", "Statistics of each run.", default="statscore.data")
    ifile: list[str] = option("-i --ifile FILE,...", "Weights to start from.", default="init.opt")
    sctype: str = option("-s --sctype", "Metric of the statistics.", click.Choice(SCORES), default=SCORES[0])
    scconfig: Mapping[str, str] = option(
        "-c --scconfig KEY:VALUE,...", "How the statistics were computed.", _scorer_settings,
        default="", show_default=False
    )  # fmt: skip
    optimize: tuple[str, ...] | None = option("-o --optimize NAME,...", "Weights that may change.", _features)
    positive: tuple[str, ...] | None = option("-P NAME,...", "Weights that must not be below 0.", _features)
    sparse_weights: str | None = option("-p --sparse-weights FILE", "Weights that merge all sparse features into one.")
    seed: int = option("-r --rseed --r N", "Random seed.", int, default=0)
    threads: int = option("-T --threads N", "Number of threads.", default=1)
    time_limit: float = option("SECONDS", "Time limit.", default=60.0)
    verbose: int = option("-v --verbose N", "0 for no progress.", values.NATURAL, default=1)
    tries: int = option(
        "-n --ntry --n --random-restarts N", "Random starts of the line searches.", values.NATURAL, default=20
    )
    shards: int | None = option("-a --shard-count N", f"{_UNUSED} All lists are used.", values.NATURAL, rare=True)
    shard_size: float | None = option("-b --shard-size X", _UNUSED, rare=True)
    directions: int | None = option("-m --nrandom --nr N", _UNUSED, values.NATURAL, rare=True)
    line_search: str | None = option(
        "-t --type", _UNUSED, click.Choice(("powell", "random-direction", "random")), rare=True
    )


@command("mert -d 3 -S statscore.data -F features.data -i init.opt", lists_once=False)
def mert(options: _Options) -> int:
    """Find the best weights for the data of Moses' `mert`, and write them to weights.txt in the current folder.

    The options are those of Moses' `mert`. Line searches from random points take at most half the time; then a search
    for a proof follows. It ends with the proof, or at --time-limit with the best weights found and a bound on the score
    of any weights. The exit code is 0 with or without a proof, so that scripts go on.
    """
    from lpmert.files import writing_later
    from lpmert.formats.weights import read_weights

    clock = Deadline(options.time_limit)
    options = replace(options, seed=options.seed % (1 << 32))  # srandom reads a negative seed like this
    say(f"Seeding random numbers with {options.seed}")
    with writing_later(WEIGHTS_FILE), naming(", ".join(options.scfile)):
        nbest, metric = _scored(_lists(options), options.sctype, options.scconfig)
        starts = [_initial_weights(read_weights(path), nbest.names) for path in options.ifile]
        region = _region(options, nbest.names, starts[0])
        problem = lpmert.Problem(nbest, metric, region=region)
    with Interrupts() as stop:
        result = _searched(options, problem, starts, clock)
        _deliver(problem, result)
    code = exit_code(result.status, stop)
    return ExitCode.FINISHED if code is ExitCode.STOPPED else code


def _searched(
    options: _Options, problem: lpmert.Problem, starts: Sequence[FloatArray], clock: Deadline
) -> lpmert.Result:
    """Return the result of line searches, for half of the time, and then a search for a proof unless interrupted."""

    settings: dict[str, Any] = {"metric": problem.metric, "region": problem.region, "seed": options.seed}

    def search(method: str | lpmert.methods.Method, starts: Sequence[FloatArray], time_limit: float) -> lpmert.Result:
        settings.update(initial_weights=_best(problem, starts), time_limit=time_limit, jobs=options.threads)
        with progress.shown(time_limit) if options.verbose else nullcontext() as callback:
            return lpmert.minimize(problem.nbest, method=method, callback=callback, **settings)

    local = search(lpmert.methods.Och(restarts=options.tries), starts, (clock.left or 0.0) / 2)
    say(f"Line searches from {options.tries} random points: {1.0 - local.loss:.6f}")
    if local.status is lpmert.Status.INTERRUPTED:
        return local
    return search("auto", [*starts, local.weights], clock.left or 0.0)


def _deliver(problem: lpmert.Problem, result: lpmert.Result) -> None:
    """Write the weights, to stdout if the file cannot be written, and report their score."""
    import numpy as np

    from lpmert.files import write_text
    from lpmert.formats.format import number_text
    from lpmert.formats.weights import keeps_loss, weights_text

    names, weights, region = problem.nbest.names, result.weights, problem.region
    fixed = [names.index(name) for name in region.fixed] if region is not None else []
    keeps = keeps_loss(problem, weights)

    def keeps_all(rounded: FloatArray) -> bool:
        return keeps(rounded) and np.array_equal(rounded[fixed], weights[fixed])

    try:
        text, written = weights_text(names, weights, keeps_all, path=WEIGHTS_FILE)
        write_text(WEIGHTS_FILE, text)
    except lpmert.DataError:
        _report(problem, result, weights)
        put(" ".join(map(number_text, weights.tolist())))
        raise
    _report(problem, result, written)


def _lists(options: _Options) -> lpmert.NBest:
    """Return the lists of all runs, without repeats, with sparse features merged or left out."""
    from lpmert.files import read_text
    from lpmert.formats.moses import SCORE_TYPES, load_mert_data, merge_sparse
    from lpmert.formats.weights import read_weights

    for features, scores in zip(options.ffile, options.scfile, strict=False):
        say(f"Loading Data from: {scores} and {features}")
    data = load_mert_data(options.ffile, options.scfile)
    nbest = data.nbest
    if data.score_type != options.sctype:
        trouble = f"the statistics are those of {data.score_type}, not of {options.sctype}; set --sctype"
        raise lpmert.DataError(trouble, path=options.scfile[0])
    columns, width = SCORE_TYPES[options.sctype], len(nbest.statistic_names)
    if width != len(columns) and (options.sctype, width) != ("TER", 2):  # files of TER may lack the rate
        trouble = (
            f"{width} columns of {options.sctype}, which has {len(columns)} ({listed(columns)}); extract them again"
        )
        raise lpmert.DataError(trouble, path=options.scfile[0])
    if data.n_dense != options.dimensions:
        trouble = (
            f"{data.n_dense} features ({', '.join(nbest.names[: data.n_dense])}), but -d says {options.dimensions}"
        )
        raise lpmert.DataError(trouble, path=options.ffile[0])
    if options.sparse_weights is not None:
        # mert-moses.pl writes an empty file if no sparse feature has a weight
        sparse = read_weights(options.sparse_weights).by_name if read_text(options.sparse_weights).strip() else {}
        nbest = merge_sparse(data, sparse)
    elif nbest.n_features > data.n_dense:
        say(f"{nbest.n_features - data.n_dense} sparse features are left out, as Moses does without --sparse-weights")
        nbest = nbest.select_features(nbest.names[: data.n_dense])
    nbest = nbest.deduplicate()
    say(f"Data loaded: {nbest.n_lists} lists, {nbest.n_hypotheses} different hypotheses, {nbest.n_features} features")
    return nbest


def _scored(
    nbest: lpmert.NBest, score_type: str, settings: Mapping[str, str]
) -> tuple[lpmert.NBest, str | lpmert.metrics.Metric]:
    """Return the lists with the statistics of a score, and the metric whose loss is 1 minus Moses' score."""
    from lpmert.formats.format import Place
    from lpmert.metrics import Chrf, LinearFraction

    if score_type == "BLEU":
        return nbest, "bleu"
    if score_type == "CHRF":
        beta = settings.get("beta")
        chrf = Chrf(6, 0, 3.0 if beta is None else Place("--scconfig", 1).number(beta, "beta in --scconfig"))
        return nbest.select_statistics(chrf.columns), chrf
    rate = LinearFraction(score_type.lower(), nbest.statistic_names[:2], (1, 0), (0, 1), higher_is_better=False)
    return nbest.select_statistics(nbest.statistic_names[:2]), rate


def _initial_weights(file: WeightsFile, names: Sequence[str]) -> FloatArray:
    """Return the weights in a file; the feature merged from sparse ones may be missing there, and starts at 0."""
    import numpy as np

    from lpmert.formats.moses import SPARSE

    dense = len(names) - 1
    if names[-1] == SPARSE and len(file.values) in (dense, 3 * dense):
        return np.append(file.of_features(names[:-1]), 0.0)
    return file.of_features(names)


def _region(options: _Options, names: Sequence[str], start: FloatArray) -> lpmert.Region | None:
    for name in (*(options.optimize or ()), *(options.positive or ())):
        if name not in names:
            raise click.UsageError(f"no feature {quoted(name)}; the features are {listed(names)}.")
    free = names if options.optimize is None else options.optimize
    fixed = {name: float(weight) for name, weight in zip(names, start, strict=True) if name not in free}
    bounds = {name: (0.0, None) for name in options.positive or () if name in free}
    return lpmert.Region(fixed=fixed, bounds=bounds) if fixed or bounds else None


def _best(problem: lpmert.Problem, starts: Sequence[FloatArray]) -> FloatArray | None:
    """Return the weights with the least loss among those that are inside the region and not all 0."""
    usable = [start for start in starts if start.any() and problem.inside(problem.checked_weights(start))]
    return min(usable, key=lambda start: problem.evaluate(start).loss, default=None)


def _report(problem: lpmert.Problem, result: lpmert.Result, written: FloatArray) -> None:
    import numpy as np

    from lpmert.formats.format import number_text
    from lpmert.formats.weights import DECIMALS

    found = problem.evaluate(written)
    score, rounded = 1.0 - found.loss, np.round(written, DECIMALS)
    if not np.array_equal(rounded, written) and rounded.any():
        rounding = f"The weights need more than {DECIMALS} decimals, but mert-moses.pl rounds them to that many"
        say(f"{rounding} for the decoder; then the score is {1.0 - problem.evaluate(rounded).loss:.6f}")
    point = " ".join(map(number_text, written.tolist())).replace("e+", "e")  # mert-moses.pl cannot parse the plus
    say(f"Best point: {point}  => {score:.6f}")
    say(result.message)
    if result.lower_bound is not None:
        bound = 1.0 - result.lower_bound
        say(f"Bound: no weights score above {bound:.6f}; gap {max(0.0, bound - score):.6f}")
    if found.tied_lists:
        say(f"{found.tied_lists} lists are tied at these weights; the first hypothesis in the files counts")
