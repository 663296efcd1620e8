"""`lpmert loop` and `mert`: the weights of a decoder, tuned with the decoder in the loop, or in scripts of Moses.

The TOML file of `lpmert loop` describes the decoder, its first weights, their region, and references. Paths are
relative to the folder of the file, and programs run there. The keys of [region] are those of options; the keys of
[decoder] and [loop] are the arguments of the decoder's class and of `lpmert.loop`.

`mert` replaces Moses' `mert`: it has the same flags and files, and also reports a bound.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import lpmert
from lpmert.cli import options
from lpmert.cli.options import NATURAL, argument, command, option
from lpmert.cli.reports import Picture, looped_report
from lpmert.cli.running import (
    ExitCode,
    Quiet,
    WeightsOutput,
    exit_code,
    interruptible,
    naming,
    progress_shown,
    put,
    say,
)
from lpmert.cli.search import RegionOptions, options_by_key
from lpmert.limits import Deadline, Interrupts
from lpmert.quoting import Unit, listed, number, quoted, shortened

if TYPE_CHECKING:
    from lpmert.errors import FloatArray
    from lpmert.looping.decoders import Decoder


_HEADER_EVERY = 20
_WIDTH = 10  # width of the columns of losses
_HEAD = f"{'HeldOut':>10} {'OnPool':>10} {'Angle':>6} {'Pool':>9} {'New':>7} {'Differ':>6} {'Missed':>6} {'Time':>8}"


@command("loop mert.toml --iterations 10 --weights-out weights.txt", heading="Loop")
def loop(
    drawn: Picture,
    out: WeightsOutput,
    config: str = argument("CONFIG"),
    folder: str | None = option("DIR", "Folder of the loop.  [default: CONFIG with .loop for .toml]"),
    forget: bool = option("", "Keep nothing on disk.", default=False),
    resume: bool = option("", "Continue the loop in its folder.", default=False),
    iterations: int | None = option("N", "At most N decodings."),
    time_limit: float | None = options.time_limit(),
    memory_limit: int | None = options.memory_limit(),
) -> ExitCode:
    """Tune the weights of a decoder: decode, add its hypotheses to a pool, search the pool, and decode again.

    CONFIG is a TOML file that describes the decoder; see docs/loop.md. Each iteration is saved before the next one
    begins: after a crash, the same command with --resume continues. The answer is the iteration whose decoder outputs
    cost least.

    In the table, OnPool is the least loss on the pool within the angle of the next step. Differ counts the lists in
    which the best hypothesis of the pool has other words than the decoder's output, Missed those in which the pool has
    a hypothesis that the decoder's model prefers to all that it found.

    The exit code is 3 if a limit ended the loop.
    """
    if forget and (resume or folder is not None):
        raise click.UsageError("--forget keeps no folder; leave out --folder and --resume.")
    given = {"iterations": iterations, "time_limit": time_limit, "memory_limit": memory_limit}
    with out.opened(drawn.picture) as deliver, ExitStack() as programs:
        arguments = read_config(config, programs)
        out.check([*arguments["weights"]])
        arguments |= {name: value for name, value in given.items() if value is not None}
        arguments["folder"] = None if forget else folder or Path(config).with_suffix(".loop")
        with interruptible() as stop:
            looped = lpmert.loop(**arguments, resume=resume, on_iteration=partial(_print_iteration, out))
        for one in looped.warnings:
            say(f"warning: {one}")
        weights = partial(out.text, looped.names, looped.weights, None)
        deliver(looped.to_json, partial(looped_report, looped), looped.reason, weights)
        drawn.write(lambda pictures: pictures.loop(looped.to_dict()))
    return exit_code(None, stop, looped.finished)


def _print_iteration(out: Quiet, one: lpmert.Iteration) -> None:
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


def _cost(unit: Unit | None, loss: float | None) -> str:
    """Return a loss as a cell of the table: as a count if its unit has one, else in the unit."""
    text = number(loss) if unit is None or unit.counts else unit.short(loss)
    return f"{text:>{_WIDTH}}"


def read_config(path: str | Path, programs: ExitStack) -> dict[str, Any]:
    """Return the arguments of `lpmert.loop` in the description of a loop; programs: ends those that were started.

    Raises `DataError`, which names the key, and `DecoderError`.
    """
    from lpmert.formats.weights import read_weights
    from lpmert.values import named_weights

    file, document = Path(path), options.read_toml(path)
    main = ("weights", "references", "metric", "n", "region", "decoder", "held-out", "loop")
    options.check_keys(document, main, file)
    with naming(str(file)):
        if "weights" not in document:
            raise lpmert.DataError("weights are missing; give them by name, weights = { am = 1, lm = 7 }, or a file")
        value = document["weights"]
        weights = named_weights(read_weights(file.parent / value) if isinstance(value, str) else value)
        found: dict[str, Any] = {"weights": weights}
        found |= {name: document[name] for name in ("metric", "n") if name in document}
        references = found["references"] = _references(document, file)
        if "region" in document:
            found["region"] = _region_in(_table_in(document, "region"), tuple(weights), file)
        table = _table_in(document, "decoder")
        found["decoder"] = _decoder(table, references, weights, file, programs)
        if "held-out" in document:
            held_out = _table_in(document, "held-out")
            options.check_keys(held_out, ("references", "decoder"), file, "held-out.")
            references = found["held_out_references"] = _references(held_out, file)
            changes = _table_in(held_out, "decoder") if "decoder" in held_out else {}
            no_inputs = {"inputs": None} if "inputs" in table else {}
            found["held_out"] = _decoder({**table, **no_inputs, **changes}, references, weights, file, programs)
        settings = document.get("loop", {})
        others = (*main, "held_out", "held_out_references", "folder", "resume", "on_iteration")
        known = [name for name in signature(lpmert.loop).parameters if name not in others]
        options.check_keys(settings, known, file, "loop.")
        found |= settings
        return found


def _table_in(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = document.get(name)
    if not isinstance(table, dict):
        raise lpmert.DataError(f"the table [{name}] is missing")
    return table


def _references(document: Mapping[str, Any], file: Path) -> Any:
    value = document.get("references")
    if isinstance(value, str):
        return file.parent / value
    if isinstance(value, list) and all(isinstance(path, str) for path in value):
        return [file.parent / path for path in value]
    if value is None or isinstance(value, dict):
        return value
    raise lpmert.DataError(f"references must be a file or several, not {quoted(value)}")


def _region_in(table: Mapping[str, Any], names: Sequence[str], file: Path) -> lpmert.Region | None:
    known = options_by_key(RegionOptions)
    del known["cosine"], known["around"]  # the loop sets a cosine for each step
    try:
        return RegionOptions(**options.values_of(table, known, file, "region.")).region(names)
    except lpmert.RegionError as error:
        raise lpmert.DataError(f"region: {error}") from error


def _decoder(
    table: Mapping[str, Any], references: Any, weights: Mapping[str, float], file: Path, programs: ExitStack
) -> Decoder:
    from lpmert.formats.utterances import read_transcripts

    if ("worker" in table) == ("command" in table):
        raise lpmert.DataError("decoder needs either command or worker: the words of a program")
    kind = "worker" if "worker" in table else "command"
    program: Any = lpmert.Worker if kind == "worker" else lpmert.Command
    others = {"command", "names", "references"} - {kind}
    known = [kind, *(name for name in signature(program).parameters if name not in others)]
    options.check_keys(table, known, file, "decoder.")
    settings = {"folder": ".", **table}
    words = settings.pop(kind)
    for name in ("folder", "weights_like"):
        if name in settings:
            if not isinstance(settings[name], str):
                raise lpmert.DataError(f"decoder.{name} must be a path, not {quoted(settings[name])}")
            settings[name] = file.parent / settings[name]
    try:
        if kind == "command":
            return lpmert.Command(words, tuple(weights), references=references, **settings)
        inputs = settings.pop("inputs", None)
        if inputs is None:
            if not isinstance(references, Mapping | Path):
                raise lpmert.DataError(
                    "decoder.inputs are missing: what to decode; give references, also in [held-out]"
                )
            inputs = [*read_transcripts(references)]
        return programs.enter_context(lpmert.Worker(words, inputs, **settings))
    except lpmert.DecoderError as error:
        raise lpmert.DecoderError(f"{file}: {error}") from error


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
    return options.column_names(",".join(re.split(r"\s*[,\s]\s*", text.strip())))


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
    verbose: int = option("-v --verbose N", "0 for no progress.", NATURAL, default=1)
    tries: int = option("-n --ntry --n --random-restarts N", "Random starts of the line searches.", NATURAL, default=20)
    shards: int | None = option("-a --shard-count N", f"{_UNUSED} All lists are used.", NATURAL, rare=True)
    shard_size: float | None = option("-b --shard-size X", _UNUSED, rare=True)
    directions: int | None = option("-m --nrandom --nr N", _UNUSED, NATURAL, rare=True)
    line_search: str | None = option(
        "-t --type", _UNUSED, click.Choice(("powell", "random-direction", "random")), rare=True
    )


@command("mert -d 3 -S statscore.data -F features.data -i init.opt", lists_once=False)
def mert(given: _Options) -> ExitCode:
    """Find the best weights for the data of Moses' `mert`, and write them to weights.txt in the current folder.

    The options are those of Moses' `mert`. Line searches from random points take at most half the time; then a search
    for a proof follows. It ends with the proof, or at --time-limit with the best weights found and a bound on the score
    of any weights. The exit code is 0 with or without a proof, so that scripts go on.
    """
    from lpmert.files import writing_later

    clock = Deadline(given.time_limit)
    given = replace(given, seed=given.seed % (1 << 32))  # srandom reads a negative seed like this
    say(f"Seeding random numbers with {given.seed}")
    with writing_later(WEIGHTS_FILE), naming(", ".join(given.scfile)):
        problem, starts = _read(given)
    with Interrupts() as stop:
        result = _searched(given, problem, starts, clock)
        _deliver(problem, result)
    code = exit_code(result.status, stop)
    return ExitCode.FINISHED if code is ExitCode.STOPPED else code


def _read(given: _Options) -> tuple[lpmert.Problem, list[FloatArray]]:
    """Return the problem and the weights to start from.

    The lists are those of all runs, without repeats, with sparse features merged or left out. The loss of the metric is
    1 minus Moses' score.
    """
    import numpy as np

    from lpmert.files import read_text
    from lpmert.formats.format import Place
    from lpmert.formats.moses import SCORE_TYPES, SPARSE, load_mert_data, merge_sparse
    from lpmert.formats.weights import read_weights
    from lpmert.metrics import Chrf, LinearFraction

    for features, scores in zip(given.ffile, given.scfile, strict=False):
        say(f"Loading Data from: {scores} and {features}")
    data, kind = load_mert_data(given.ffile, given.scfile), given.sctype
    nbest = data.nbest
    if data.score_type != kind:
        trouble = f"the statistics are those of {data.score_type}, not of {kind}; set --sctype"
        raise lpmert.DataError(trouble, path=given.scfile[0])
    columns, width = SCORE_TYPES[kind], len(nbest.statistic_names)
    if width != len(columns) and (kind, width) != ("TER", 2):  # files of TER may lack the rate
        trouble = f"{width} columns of {kind}, which has {len(columns)} ({listed(columns)}); extract them again"
        raise lpmert.DataError(trouble, path=given.scfile[0])
    if data.n_dense != given.dimensions:
        dense_names = ", ".join(nbest.names[: data.n_dense])
        trouble = f"{data.n_dense} features ({dense_names}), but -d says {given.dimensions}"
        raise lpmert.DataError(trouble, path=given.ffile[0])
    if given.sparse_weights is not None:
        # mert-moses.pl writes an empty file if no sparse feature has a weight
        sparse = read_weights(given.sparse_weights).by_name if read_text(given.sparse_weights).strip() else {}
        nbest = merge_sparse(data, sparse)
    elif nbest.n_features > data.n_dense:
        say(f"{nbest.n_features - data.n_dense} sparse features are left out, as Moses does without --sparse-weights")
        nbest = nbest.select_features(nbest.names[: data.n_dense])
    nbest = nbest.deduplicate()
    say(f"Data loaded: {nbest.n_lists} lists, {nbest.n_hypotheses} different hypotheses, {nbest.n_features} features")

    metric: Any = "bleu"
    if kind == "CHRF":
        beta = given.scconfig.get("beta")
        metric = Chrf(6, 0, 3.0 if beta is None else Place("--scconfig", 1).number(beta, "beta in --scconfig"))
        nbest = nbest.select_statistics(metric.columns)
    elif kind != "BLEU":
        counts = nbest.statistic_names[:2]
        metric = LinearFraction(kind.lower(), counts, (1, 0), (0, 1), higher_is_better=False)
        nbest = nbest.select_statistics(counts)

    names, dense, starts = nbest.names, data.n_dense, []
    for path in given.ifile:
        file = read_weights(path)
        if names[-1] == SPARSE and len(file.values) in (dense, 3 * dense):  # the merged feature is missing there
            starts.append(np.append(file.of_features(names[:-1]), 0.0))
        else:
            starts.append(file.of_features(names))
    return lpmert.Problem(nbest, metric, region=_region(given, names, starts[0])), starts


def _region(given: _Options, names: Sequence[str], start: FloatArray) -> lpmert.Region | None:
    for name in (*(given.optimize or ()), *(given.positive or ())):
        if name not in names:
            raise click.UsageError(f"no feature {quoted(name)}; the features are {listed(names)}.")
    free = names if given.optimize is None else given.optimize
    fixed = {name: float(weight) for name, weight in zip(names, start, strict=True) if name not in free}
    bounds = {name: (0.0, None) for name in given.positive or () if name in free}
    return lpmert.Region(fixed=fixed, bounds=bounds) if fixed or bounds else None


def _searched(given: _Options, problem: lpmert.Problem, starts: Sequence[FloatArray], clock: Deadline) -> lpmert.Result:
    """Return the result of line searches, for half of the time, and then a search for a proof unless interrupted."""
    settings: dict[str, Any] = {"metric": problem.metric, "region": problem.region, "seed": given.seed}

    def search(method: str | lpmert.methods.Method, starts: Sequence[FloatArray], time_limit: float) -> lpmert.Result:
        settings.update(initial_weights=_best(problem, starts), time_limit=time_limit, jobs=given.threads)
        with progress_shown(time_limit) if given.verbose else nullcontext() as callback:
            return lpmert.minimize(problem.nbest, method=method, callback=callback, **settings)

    local = search(lpmert.methods.Och(restarts=given.tries), starts, (clock.left or 0.0) / 2)
    say(f"Line searches from {given.tries} random points: {1.0 - local.loss:.6f}")
    if local.status is lpmert.Status.INTERRUPTED:
        return local
    return search("auto", [*starts, local.weights], clock.left or 0.0)


def _best(problem: lpmert.Problem, starts: Sequence[FloatArray]) -> FloatArray | None:
    usable = [start for start in starts if start.any() and problem.inside(problem.checked_weights(start))]
    return min(usable, key=lambda start: problem.evaluate(start).loss, default=None)


def _deliver(problem: lpmert.Problem, result: lpmert.Result) -> None:
    """Write the weights, to stdout if the file cannot be written, and report their score."""
    import numpy as np

    from lpmert.files import write_text
    from lpmert.formats.format import number_text
    from lpmert.formats.weights import DECIMALS, keeps_loss, weights_text

    names, weights, region = problem.nbest.names, result.weights, problem.region
    fixed = [names.index(name) for name in region.fixed] if region is not None else []
    keeps = keeps_loss(problem, weights)

    def keeps_all(rounded: FloatArray) -> bool:
        return keeps(rounded) and np.array_equal(rounded[fixed], weights[fixed])

    failure = None
    try:
        text, written = weights_text(names, weights, keeps_all, path=WEIGHTS_FILE)
        write_text(WEIGHTS_FILE, text)
    except lpmert.DataError as error:
        failure, written = error, weights
    found, rounded = problem.evaluate(written), np.round(written, DECIMALS)
    if not np.array_equal(rounded, written) and rounded.any():
        rounding = f"The weights need more than {DECIMALS} decimals, but mert-moses.pl rounds them to that many"
        say(f"{rounding} for the decoder; then the score is {1.0 - problem.evaluate(rounded).loss:.6f}")
    point = " ".join(map(number_text, written.tolist()))
    say(f"Best point: {point.replace('e+', 'e')}  => {1.0 - found.loss:.6f}")  # mert-moses.pl cannot parse the plus
    say(result.message)
    if result.lower_bound is not None:
        gap = max(0.0, found.loss - result.lower_bound)
        say(f"Bound: no weights score above {1.0 - result.lower_bound:.6f}; gap {gap:.6f}")
    if found.tied_lists:
        say(f"{found.tied_lists} lists are tied at these weights; the first hypothesis in the files counts")
    if failure is not None:
        put(point)
        raise failure
