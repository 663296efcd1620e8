"""`lpmert tune`: weights for lists that nobody has seen yet, beside the optimum, with what either will cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click

from lpmert.cli.arguments import PARTS
from lpmert.cli.options import option
from lpmert.cli.problem import command
from lpmert.cli.progress import Stages
from lpmert.cli.report import Page
from lpmert.cli.reports import tuned_report
from lpmert.cli.running import Output, delivering, exit_code, logging_to_stderr, naming
from lpmert.cli.search import HeldOut, Search, Sources, progress_of
from lpmert.cli.solve import print_outcome
from lpmert.cli.weights_out import WeightsOut
from lpmert.system.interrupts import Interrupts

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.unseen.averaging import Averaging
    from lpmert.unseen.tune import Tuned


@dataclass(frozen=True)
class _Estimated(Sources):
    """How losses on unseen lists are estimated."""

    heading = "Unseen lists"

    cv: int = option("N", "Parts for cross-validation.", PARTS, default=5)
    quick: bool = option("", "Average without cross-validation.", default=False)


@command(
    "tune dev.tsv --segment utterance --features am,lm --loss errors --held-out test.tsv --weights-out weights.txt"
)
def tune(
    search: Search, estimated: _Estimated, held_out: HeldOut, weights: WeightsOut, page: Page, out: Output
) -> None:
    """Find weights for unseen lists from the lists or lattices in DATA.

    The best weights for these lists also fit their noise. So tune averages good weights as well, estimates by
    cross-validation what both cost on unseen lists, and recommends one: the average, unless the optimum is clearly
    better. --method searches for the optimum for a minute; --time-limit covers everything. --set NAME=VALUE is for that
    method, --set average.NAME=VALUE for the average: see `lpmert methods average`.

    The exit code is 3 if a limit stopped the search for the optimum. DATA is as for `lpmert solve`.
    """
    weights.beside(out)
    page.check()
    averaging, search = search.for_method("average")
    from lpmert.unseen.tune import tune as tune_weights

    files = (out, weights.weights_out, page.report)
    with logging_to_stderr(out), delivering(*files, renews=[weights.updated]) as deliver:
        data, others, there = held_out.read(search, out)
        arguments = search.arguments(data)
        weights.check(data.names)
        with Interrupts() as stop:
            with naming(search.name), progress_of(out, search.time_limit, "averages") as callback:
                tuned = tune_weights(
                    data,
                    held_out=others,
                    groups=estimated.of(data),
                    folds=estimated.cv,
                    quick=estimated.quick,
                    averaging=cast("Averaging", averaging),
                    callback=callback,
                    on_stage=None if out.quiet else Stages(),
                    **arguments,
                )
            tuned = replace(tuned, optimum=replace(tuned.optimum, unit=search.unit(data)), held_out_unit=there)
            if not out.quiet:
                print_outcome(tuned.optimum, shown=not out.as_json and out.output is None)
            text = partial(_weights_text, weights, tuned, data, arguments)
            report = partial(tuned_report, tuned, verbose=out.verbose > 0)
            deliver(tuned.to_json, weights.report(text, report))
            weights.save(text, out)
        drawn = page.write(tuned, data, arguments["metric"], search, out)
    raise click.exceptions.Exit(drawn or exit_code(tuned.optimum.status, stop))


def _weights_text(weights: WeightsOut, tuned: Tuned, data: Data, arguments: dict[str, Any]) -> str:
    from lpmert.api import problem_of
    from lpmert.formats.weights import keeps_loss

    problem = problem_of(data, arguments["metric"], arguments["ties"], arguments["region"])
    return weights.text(tuned.names, tuned.weights, keeps_loss(problem, tuned.weights))
