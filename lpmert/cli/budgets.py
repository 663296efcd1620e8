"""`lpmert pareto` and `solve --budget`: the loss against a second sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from lpmert.cli.arguments import POSITIVE
from lpmert.cli.options import option
from lpmert.cli.problem import command
from lpmert.cli.reports import verdict_line
from lpmert.cli.running import Output, delivering, exit_code, logging_to_stderr, naming, say
from lpmert.cli.search import Search
from lpmert.cli.sensitivity import Picture, bound_text, of_many, read_for_many
from lpmert.cli.text import side_by_side
from lpmert.quoting import number
from lpmert.system.interrupts import Interrupts

if TYPE_CHECKING:
    from lpmert.budgets import Front
    from lpmert.findings import Unit
    from lpmert.result import Callback, Result


@dataclass(frozen=True)
class _Second:
    """What is summed besides the loss."""

    heading = "Second sum"

    second: str = option("COLUMN", "A feature, or another column of DATA.", required=True)
    points: int | None = option("N", "At most N points, at even steps of the budget.  [default: all]", POSITIVE)


@command("pareto dev.tsv --segment utterance --features am,lm,words --loss errors --second words --points 5")
def pareto(search: Search, second: _Second, drawn: Picture, out: Output) -> None:
    """Find all best pairs of the loss and the sum of a second column, such as words, seconds or cost.

    Each pair comes with a proof that no weights have a loss as small with a smaller sum, or a sum as small with a
    smaller loss. The JSON has the weights of each. Among hypotheses with identical features the first counts. DATA is
    as for `lpmert solve`.
    """
    from lpmert import budgets
    from lpmert.reporting import pictures
    from lpmert.result import Status

    with logging_to_stderr(out), delivering(out, drawn.picture) as deliver:
        data = read_for_many(search, out)
        arguments = _of_first(of_many(search.arguments(data)))
        unit = search.unit(data)

        def on_point(point: Result) -> None:
            say(f"{second.second} {number(point.sums[second.second])}: {unit.name} {unit.text(point.loss)}")

        with Interrupts() as stop, naming(search.name):
            numbers = _numbers(data, second.second, search)
            own: dict[str, Any] = {**arguments, "name": second.second, "points": second.points}
            found = budgets.pareto(data, numbers, **own, on_point=None if out.quiet else on_point)
        deliver(found.to_json, lambda: _report(found, unit))
        if drawn.picture is not None:
            pictures.write_picture(pictures.front(found, unit), drawn.picture)
    raise click.exceptions.Exit(exit_code(Status.OPTIMAL if found.complete else Status.TIME_LIMIT, stop))


def best_within(
    data: Any, budget: tuple[str, float], search: Search, arguments: Mapping[str, Any], callback: Callback | None
) -> Result:
    """Return the best weights within a budget; raises `LimitError` where none were met in time."""
    from lpmert.budgets import within_budget

    (column, most), own = budget, _of_first(of_many(arguments))
    return within_budget(data, _numbers(data, column, search), most, name=column, callback=callback, **own)


def _of_first(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments without that of ties; raises `click.UsageError` where it is any but the first."""
    if arguments["ties"] != "first":
        raise click.UsageError("--ties is for one sum: with two of them the first of identical hypotheses counts.")
    return {name: value for name, value in arguments.items() if name != "ties"}


def _numbers(data: Any, column: str, search: Search) -> Any:
    """Return a feature or statistic of the lists by its name, or the numbers of a column that was not read with them.

    Raises `click.UsageError` for lists that cannot be read once more.
    """
    if column in (*data.names, *getattr(data, "statistic_names", ())):
        return column
    if "-" in search.inputs:
        raise click.UsageError(f"{column} is no feature, and stdin cannot be read twice; name a file.")
    others: dict[str, Any] = {"gain": None, "statistics": None, "metric": None, "references": (), "options": ()}
    return replace(search, loss=column, **others).read().statistics[:, 0]


def _report(found: Front, unit: Unit) -> str:
    """Return the front as text."""
    columns = [
        [found.second, *(number(one.sums[found.second]) for one in found.points)],
        [unit.name, *(unit.short(one.loss) for one in found.points)],
        [unit.bound, *(bound_text(one.lower_bound, unit) for one in found.points)],
    ]
    least = "" if found.least is None else f"least {found.second} of any weights: {number(found.least)}"
    verdict = "proved: no weights have less of one without more of the other"
    if not found.complete:
        verdict = "not complete: points whose bound equals their value are proved, and more time finds more"
    return "\n\n".join(filter(None, [side_by_side(columns), least, verdict_line(verdict, good=found.complete)]))
