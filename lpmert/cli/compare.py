"""`lpmert compare`: methods and other tools' weights on the same lists; `lpmert tune`: weights for unseen lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import lpmert
from lpmert.cli import values
from lpmert.cli.options import option, time_limit
from lpmert.cli.reports import Page, compared_report, tuned_report
from lpmert.cli.running import Output, Text
from lpmert.cli.search import HeldOut, OneSearch, Sources, StartOptions, WeightsOut, answer, command, configured
from lpmert.comparing import DEFAULT_METHODS, DEFAULT_ON_LATTICES, OPTIMUM_SECONDS, REPETITIONS, SEEDS
from lpmert.quoting import Unit, duration, visible
from lpmert.reporting.tables import compared_verdict

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.comparing.comparison import Run


_UNSEEN = "Unseen lists"


@dataclass(frozen=True)
class _SearchForOptimum(OneSearch):
    time_limit: float | None = time_limit(f"{OPTIMUM_SECONDS:g} for the optimum")


@command(
    "compare dev.tsv --segment utterance --features am,lm --loss errors --methods och,grid --seeds 5",
    heading="What to compare",
)
def compare(
    search: _SearchForOptimum,
    start: StartOptions,
    sources: Sources,
    held_out: HeldOut,
    page: Page,
    out: Output,
    methods: tuple[str, ...] | None = option(
        "A,B,C",
        f"Methods.  [default: {','.join(DEFAULT_METHODS)}; for whole lattices {','.join(DEFAULT_ON_LATTICES)}]",
        values.method_names,
    ),
    weights: Mapping[str, str] = option("NAME=WEIGHTS", "Weights from another tool.", default=()),
    seeds: int = option("N", "Runs of each random method.", default=SEEDS),
    run_time_limit: float | None = option("SECONDS", "Stop each run after this time.", rare=True),
    cv: int | None = option("N", "Use N-fold cross-validation.", values.PARTS, group=_UNSEEN),
    repeat: int = option(
        "N", "Repeat --cv this often, with other folds.", default=REPETITIONS, rare=True, group=_UNSEEN
    ),
) -> int:
    """Compare methods, and weights that other tools found, on the lists in DATA.

    Every method runs on the same lists, with each of --seeds seeds if it is random, and is judged only by decoding.
    Then --method searches for the optimum, from the best weights found, until --time-limit. --set NAME=VALUE is for
    that method, --set METHOD.NAME=VALUE for one of those compared. WEIGHTS are as for `lpmert check`: numbers, pairs,
    or a file of this or another tool.

    For each method, the table shows: the mean loss of its runs and the best one; Delta (greatest minus least) and S
    (standard deviation); how far the best run is above the optimum, or above its bound; the mean loss on held-out
    lists; p, the p-value of the difference between its best run and that of the first method (on held-out lists if
    there are any); the median time of a run. Columns without figures are left out.

    --cv N fits every method and the optimum to all lists but one fold of N, and decodes that fold; --repeat does so
    again with other folds. The searches for the optimum share --time-limit. A second table shows the loss on these
    lists, the cross-validated loss, the share of it by which the former is too low (optimism), and the difference from
    the first method, with intervals of 95 % and p-values that allow for overlapping splits.

    The exit code is 3 if a limit stopped the search for the optimum, or the memory limit stopped the comparison. DATA
    is as for `lpmert solve`. Lattices are used with all their paths; most methods need lists, which --n-best extracts.
    """
    if sources.source is not None and cv is None:
        raise click.UsageError("--source needs --cv.")
    compared: dict[str, lpmert.methods.Method] = {}
    for name in dict.fromkeys(methods or (DEFAULT_ON_LATTICES if search.whole else DEFAULT_METHODS)):
        compared[name], search = search.for_method(name)
    if search.time_limit is None:
        search = replace(search, time_limit=OPTIMUM_SECONDS)

    def find(
        ask: Any, data: Data, unit: Unit, others: Any, others_unit: Unit | None
    ) -> tuple[lpmert.Comparison, Text, str]:
        found = ask(
            lpmert.compare,
            data,
            list(compared.values()),
            seeds=seeds,
            held_out=others,
            weights={name: values.parse_weights(text, data.names, "--weights") for name, text in weights.items()},
            initial_weights=start.weights(data.names),
            optimum=configured(search.method, search.method_settings),
            optimum_limits=lpmert.Limits(search.time_limit, **search.stops),
            time_limit=run_time_limit,
            cv=cv,
            repeat=repeat,
            groups=sources.of(data),
            on_run=partial(_print_run, out, unit, others_unit),
        )
        if not found.methods:
            raise lpmert.LimitError("nothing to compare: it was stopped before the first run ended")
        found = replace(found, unit=unit, held_out_unit=others_unit)
        return found, partial(compared_report, found), compared_verdict(found)

    return answer(search, out, find, page.report, held_out=held_out, draw=partial(page.write, search, out))


def _print_run(out: Output, unit: Unit, held_out_unit: Unit | None, name: str, run: Run) -> None:
    seed = "" if run.seed is None else f", seed {run.seed}"
    held_out = ""
    if run.held_out_loss is not None and held_out_unit is not None:
        held_out = f", held out {held_out_unit.short(run.held_out_loss)}"
    out.say(f"{visible(name)}{seed}: {unit.name} {unit.text(run.loss)}{held_out}, {duration(run.seconds)}")


@command(
    "tune dev.tsv --segment utterance --features am,lm --loss errors --held-out test.tsv --weights-out weights.txt",
    heading=_UNSEEN,
)
def tune(
    search: _SearchForOptimum,
    sources: Sources,
    held_out: HeldOut,
    weights: WeightsOut,
    page: Page,
    out: Output,
    cv: int = option("N", "Number of folds of cross-validation.", values.PARTS, default=5),
    quick: bool = option("", "Average without cross-validation.", default=False),
) -> int:
    """Find weights for unseen lists from the lists or lattices in DATA.

    The best weights for these lists also fit their noise. So tune also averages good weights, estimates by
    cross-validation what both cost on unseen lists, and recommends one: the average, unless the optimum is clearly
    better. --method searches for the optimum for a minute; --time-limit covers everything.

    The exit code is 3 if a limit stopped the search for the optimum. DATA is as for `lpmert solve`.
    """

    def find(ask: Any, data: Data, unit: Unit, others: Any, others_unit: Unit | None) -> tuple[lpmert.Tuned, Text, str]:
        found = ask(lpmert.tune, data, held_out=others, groups=sources.of(data), folds=cv, quick=quick)
        found = replace(found, optimum=replace(found.optimum, unit=unit), held_out_unit=others_unit)
        told = f"{found.optimum.message} ({found.optimum.cost})"
        return found, partial(tuned_report, found, verbose=out.verbose > 0), told

    draw = partial(page.write, search, out)
    return answer(search, out, find, page.report, weights=weights, held_out=held_out, draw=draw)
