"""`lpmert subsets`, `ranges`, `leave-one-out` and `pareto`: questions that take many searches.

How many features are needed, how certain weights and losses are, and the trade-off between the loss and a second sum.
"""

from __future__ import annotations

from functools import partial

import lpmert
from lpmert.cli.options import option
from lpmert.cli.reports import Picture, grid, joined, verdict_line
from lpmert.cli.running import ExitCode, Output
from lpmert.cli.search import Search, asking, command
from lpmert.quoting import Unit, counted, number, shortened, visible
from lpmert.reporting.tables import bound

_SIGNS = {1: "+", -1: "-", None: "not sure"}

_MOST_LISTS = 20  # maximum number of lists in the report of `leave-one-out`


@command("subsets lists.toml --at-most 2", heading="Sets of features")
def subsets(
    search: Search,
    drawn: Picture,
    out: Output,
    at_most: int | None = option("K", "At most K features.  [default: all]"),
) -> ExitCode:
    """Find the best 1, 2, ... features of the lists in DATA, and prove that no others do better.

    All other weights are 0. Hypotheses that a set of features cannot tell apart count at their worst, or with --ties
    best at their best. The JSON has the weights of each size. DATA is as for `lpmert solve`.
    """
    with asking(search, out, drawn.picture) as question:
        found = question.ask(lpmert.best_subsets, at_most=at_most, ties=search.counted_ties)
        question.deliver(found, partial(_subsets_report, found, question.unit, question.weights))
        drawn.write(lambda pictures: pictures.subsets(found, question.unit))
    return question.exit_code


@command("ranges lists.toml --relative-to am", heading="Near-optimal weights")
def ranges(
    search: Search,
    drawn: Picture,
    out: Output,
    slack: str = option("LOSS", "Loss above the optimum: 3, or 1%.", str, default="1%"),
    relative_to: str | None = option(
        "NAME", "The feature whose weight is 1 or -1.  [default: the largest with a sure sign]"
    ),
    cones: bool = option("", "Also describe the whole set; for up to 5 features.", default=False),
) -> ExitCode:
    """Show how certain each weight is: its range among all near-optimal weights.

    Near-optimal weights were found at the ends in the two middle columns; none lie beyond the outer two. A sign is
    shown if all near-optimal weights share it. DATA is as for `lpmert solve`.

    --cones divides the set of all near-optimal weights within these ranges into cones. It shows how large the set is,
    and how many lists choose the same hypothesis everywhere in it.
    """
    with asking(search, out, drawn.picture) as question:
        found = question.ask(lpmert.near_optimal, slack=slack, relative_to=relative_to, cones=cones)
        question.deliver(found, partial(_ranges_report, found, question.unit, question.weights))
        drawn.write(lambda pictures: pictures.ranges(found, question.unit))
    return question.exit_code


@command("leave-one-out dev.tsv --segment utterance --features am,lm,words --loss errors")
def leave_one_out(search: Search, out: Output) -> ExitCode:
    """Find what each list in DATA costs at weights that are the proved optimum of all other lists.

    If the other lists have several optima, the one at which the list costs most counts. So the sum estimates the loss
    on as many unseen lists from above, and is far too high for few lists. DATA is as for `lpmert solve`, with counts as
    losses.
    """
    with asking(search, out) as question:
        found = question.ask(lpmert.leave_one_out)
        question.deliver(found, partial(_left_out_report, found, question.unit, question.weights))
    return question.exit_code


@command("pareto lists.toml --second words --points 5", heading="Second sum")
def pareto(
    search: Search,
    drawn: Picture,
    out: Output,
    second: str = option("COLUMN", "A feature, or another column of DATA.", required=True),
    points: int | None = option("N", "At most N points.  [default: all]"),
) -> ExitCode:
    """Find all best trade-offs between the loss and the sum of a second column, such as words, seconds or cost.

    For each, it is proved that no weights have a loss as small with a smaller sum, or a sum as small with a smaller
    loss. The JSON has the weights of each. Among hypotheses with identical features the first counts. DATA is as for
    `lpmert solve`.
    """
    with asking(search, out, drawn.picture) as question:
        unit = question.unit

        def on_point(point: lpmert.Result) -> None:
            out.say(f"{second} {number(point.sums[second])}: {unit.name} {unit.text(point.loss)}")

        sums = search.second_sum(question.data, second)
        found = question.ask(lpmert.pareto, sums, name=second, points=points, on_point=on_point)
        question.deliver(found, partial(_front_report, found, unit, question.weights))
        drawn.write(lambda pictures: pictures.front(found, unit))
    return question.exit_code


def _loss_and_bound(result: lpmert.Result, unit: Unit) -> list[str]:
    return [unit.short(result.loss), next((text for _, text in bound(result, unit)), "-")]


def _subsets_report(found: lpmert.Subsets, unit: Unit, weights: str) -> str:
    rows = [[f"{one.size:2}  {' '.join(one.features)}", *_loss_and_bound(one.result, unit)] for one in found.subsets]
    open_sizes = [str(one.size) for one in found.subsets if not one.result.status.proved]
    verdict = f"proved for each size: no other features or {weights} do better"
    if open_sizes:
        verdict = f"not proved for {', '.join(open_sizes)} features: {found[int(open_sizes[0])].result.message}"
    elif not found.complete:
        fewer = "; the sizes above are proved" if rows else ""
        verdict = f"stopped before {counted(len(rows) + 1, 'feature')}{fewer}"
    good = found.complete and not open_sizes
    return joined(grid(["best features", unit.name, unit.bound], rows), verdict_line(verdict, good))


def _ranges_report(found: lpmert.NearOptimal, unit: Unit, weights: str) -> str:
    rows = [
        [one.name, *map(_end, (one.weight, one.possible[0], *one.attained, one.possible[1])), _SIGNS[one.sign]]
        for one in found.ranges
    ]
    table = grid(["feature", "weight", "none below", "found from", "to", "none above", "sign"], rows)
    direction = "up" if unit.factor > 0 else "down"
    figures = f"{unit.name} of the optimum {unit.text(found.optimum.loss)}, of near-optimal weights {direction} to "
    figures += f"{unit.short(found.most)}; {found.scale}"
    cones = "" if found.cones is None else _cones_lines(found.cones, len(found.optimum.selection))
    verdict = f"proved: no near-optimal {weights} lie beyond the outer values"
    verdict += "" if found.complete else "; closer ones were not found"
    return joined(table, figures, cones, verdict_line(verdict, found.complete))


def _cones_lines(cones: lpmert.RashomonSet, n_lists: int) -> str:
    low, high = (f"{100.0 * share:.3g}" for share in cones.share)
    lines = [
        f"near-optimal    {low} to {high} % of all weights, proved",
        f"lists           {len(cones.unchanged)} of {n_lists} surely choose the same at all near-optimal weights",
    ]
    if cones.centre:
        lines.append("in the middle   " + "  ".join(f"{name} {_end(w)}" for name, w in cones.centre.items()))
    return "\n".join(lines)


def _end(value: float) -> str:
    return f"{value:.4g}".replace("inf", "any")


def _left_out_report(found: lpmert.LeftOut, unit: Unit, weights: str) -> str:
    ends = found.least, found.most
    costly = [k for k in range(len(found.list_ids)) if found.most[k] > found.fitted[k]]
    costly.sort(key=lambda k: found.fitted[k] - found.most[k])
    rows = [
        [shortened(visible(found.list_ids[k])), f"{found.fitted[k]:g}", _either(*(f"{one[k]:g}" for one in ends))]
        for k in costly[:_MOST_LISTS]
    ]
    others = f"and {len(costly) - _MOST_LISTS} others" if len(costly) > _MOST_LISTS else ""
    total = _either(*(unit.short(float(one.sum())) for one in ends))
    costs = f"{unit.name} of the optimum {unit.text(found.optimum.loss)}, of lists left out {total}"
    verdict = f"proved: each list is decoded with the worst of the optimal {weights} for all others"
    if not found.complete:
        verdict = f"{int((found.least < found.most).sum())} lists are open: the search was stopped"
    table = grid(["list", "fitted", "left out"], rows) if rows else ""
    return joined(table, others, costs, verdict_line(verdict, found.complete))


def _either(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _front_report(found: lpmert.Front, unit: Unit, weights: str) -> str:
    rows = [[number(one.sums[found.second]), *_loss_and_bound(one, unit)] for one in found.points]
    least = "" if found.least is None else f"least {found.second} of any {weights}: {number(found.least)}"
    verdict = f"proved: no {weights} have less of one without more of the other"
    if not found.complete:
        verdict = "not complete: points whose bound equals their value are proved"
    return joined(grid([found.second, unit.name, unit.bound], rows), least, verdict_line(verdict, found.complete))
