"""Figures, tables and verdicts of outcomes in the units of their metrics, for terminals and pages alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lpmert.quoting import LOSS, Unit, counted, duration, number, percent

if TYPE_CHECKING:
    from lpmert.comparing.comparison import Comparison, Entry, Expected
    from lpmert.comparing.cross_validation import Estimate, Interval
    from lpmert.comparing.tune import Tuned
    from lpmert.result import Check, Evaluation, Result

AVERAGED, OPTIMUM = "averaged", "optimum"


class Table(NamedTuple):
    """A table of texts, whose first column holds the names of its rows."""

    caption: str
    heading: list[str]
    rows: list[list[str]]

    @classmethod
    def of(cls, caption: str, heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
        """Return a table without the columns that have no values."""
        shown = [k for k in range(len(heading)) if k == 0 or any(row[k] not in ("", "-") for row in rows)]
        return cls(caption, [heading[k] for k in shown], [[row[k] for k in shown] for row in rows])


def figures(outcome: Result | Check | Evaluation, unit: Unit) -> list[tuple[str, str]]:
    """Return the loss, the score if it differs from the loss in this unit, and the effect of ties."""
    found = [(unit.name, unit.text(outcome.loss))]
    differs = not math.isclose(unit.of(outcome.loss), outcome.score, rel_tol=1e-9, abs_tol=1e-9)
    if outcome.score != outcome.loss and differs:
        found.append(("score", number(outcome.score)))
    if outcome.tied_lists:
        best, worst = map(unit.text, (outcome.loss_best_ties, outcome.loss_worst_ties))
        found.append(("ties", f"{counted(outcome.tied_lists, 'list')}: {best} at best, {worst} at worst"))
    return found


def bound(result: Result, unit: Unit) -> list[tuple[str, str]]:
    """Return the bound, and the gap if it is open; nothing if there is no bound."""
    if result.lower_bound is None:
        return []
    gap = [("gap", percent(result.gap_rel))] if unit.offset == 0.0 else []  # else relative to a loss that is not shown
    return [(unit.bound, unit.least(result.lower_bound, result.loss)), *(gap if result.gap_abs else [])]


def costs(result: Result, unit: Unit) -> list[tuple[str, str]]:
    sums = [(name, number(value)) for name, value in result.sums.items()]
    return [*figures(result, unit), *bound(result, unit), *sums]


def verdict(result: Result) -> str:
    unit = result.unit or LOSS
    cost = f"{unit.name} {unit.text(result.loss)}"
    least = None if result.lower_bound is None else unit.short(result.lower_bound, bound=True)
    if result.status.proved:
        region = "of the region " if result.restricted else ""
        within = f"with {' and '.join(result.sums)} within budget " if result.sums else ""
        sentence = f"Proved: no weights {region}{within}do better than {cost}."
    elif least is None:
        sentence = f"Found weights with {cost}. Nothing is proved: there may be better ones."
    elif result.status.name == "OPTIMAL_TO_TOLERANCE":
        sentence = f"Optimal to tolerance: {cost}; better weights, {unit.bound} {least}, would depend on rounding."
    else:
        gap = unit.difference(result.gap_abs or 0.0).lstrip("-")
        sentence = f"Found weights with {cost}. All weights have {unit.bound} {least}: a gap of {gap} is open."
    return f"{sentence} This also rests on a checkpoint, from which it was resumed." if result.resumed else sentence


def check_verdict(check: Check, unit: Unit) -> str:
    best = check.optimum
    if not check.inside:
        more = "and there are better ones in it" if check.excess > 0 else "and no better ones in it are known"
        return f"these weights lie outside the region, {more}"
    if check.excess > 0:
        return f"there are better weights: {unit.name} {unit.short(best.loss)} instead of {unit.short(check.loss)}"
    if check.wins_by_ties:
        return "below the optimum, but only by ties: no weights that decide every list get this loss"
    if best.status.proved:
        which = "no weights of the region" if best.restricted else "no weights"
        return f"these weights are optimal: {which} give a lower loss"
    return "no better weights found, but it is not proved that there are none"


def compared_verdict(found: Comparison) -> str:
    optimum, unit = found.optimum, found.unit
    if optimum is None or optimum.lower_bound is None:
        return f"no bound on {unit.name} is known"
    if found.proved:
        return f"optimum: {unit.name} {unit.text(optimum.loss)}, proved"
    least = f"{unit.bound} {unit.short(optimum.lower_bound, bound=True)}"
    return f"best found: {unit.name} {unit.text(optimum.loss)}, {least} ({optimum.message})"


def compared_notes(found: Comparison) -> list[str]:
    notes = [] if found.complete else ["not all runs were made"]
    for entry in found.methods:
        best, excess = entry.best, found.excess(entry.best)
        if not best.inside:
            notes.append(f"{entry.name}: these weights lie outside the region")
        elif excess is not None and excess < 0.0:
            notes.append(f"{entry.name}: below the optimum only by ties, in {best.tied_lists:,} lists")
        elif best.tied_lists:
            notes.append(f"{entry.name}: {best.tied_lists:,} lists are tied at its best weights")
    validation = found.cross_validation
    if validation is not None:
        times = "once" if validation.repetitions == 1 else f"{validation.repetitions} times"
        drawn = f"{validation.folds}-fold cross-validation, {times}"
        notes += [f"{drawn}: intervals of 95 % for lists from the same source", *validation.notes]
    return notes


def compared_tables(found: Comparison) -> list[Table]:
    unit, held_out, validation = found.unit, found.held_out_unit or LOSS, found.cross_validation

    def size(losses: float | None) -> str:
        """Return the absolute value of a difference of losses, such as a spread or an excess."""
        return "-" if losses is None else unit.difference(abs(losses)).lstrip("-")

    rows = []
    for entry in found.methods:
        loss, unseen = entry.loss, entry.held_out_loss
        rows.append([
            entry.name, str(len(entry.runs)), unit.short(loss.mean), unit.short(loss.best), size(loss.delta),
            size(loss.deviation), size(found.excess(entry.best)),
            held_out.short(None if unseen is None else unseen.mean), _p_value(entry), duration(entry.seconds),
        ])  # fmt: skip
    distance = "to optimum" if found.proved else "to bound"
    heading = [unit.name, "runs", "mean", "best", "Delta", "S", distance, "held out", "p", "time"]
    tables = [Table.of("Methods on these lists", heading, rows)]
    if validation is not None:
        rows = []
        for one in validation.methods:
            optimism = "-" if one.optimism is None else f"{100 * one.optimism:.1f} %"
            compared = ["-", "", "-"]
            if one.difference is not None:
                ends = unit.interval(one.difference.low, one.difference.high)
                compared = [unit.difference(one.difference.value, sign=True), ends, _p_value(one)]
            rows.append([
                one.name, unit.short(one.here), unit.short(one.loss.value), size(_reach(one.loss)), optimism,
                held_out.short(one.held_out), *compared,
            ])  # fmt: skip
        heading = [unit.name, "on these", "on unseen", "+-", "optimism", "held out", "difference", "95 %", "p"]
        tables.append(Table.of("On unseen lists", heading, rows))
    return tables


def _reach(interval: Interval) -> float | None:
    return None if interval.low is None or interval.high is None else (interval.high - interval.low) / 2


def _p_value(entry: Entry | Expected) -> str:
    p_value = entry.p_value
    return "-" if p_value is None else "<0.001" if p_value < 0.0005 else f"{p_value:.3f}"


def tuned_table(tuned: Tuned) -> Table:
    optimum, unit = tuned.optimum, tuned.optimum.unit or LOSS
    proved = optimum.status.proved
    rows = [["on these lists", unit.short(optimum.loss), unit.short(tuned.averaged.loss), ""]]
    if optimum.lower_bound is not None and not proved:
        rows.append([f"  {unit.bound}", unit.short(optimum.lower_bound, bound=True), "", ""])
    if tuned.estimate is not None:
        rows += _rows_of_two("expected on unseen lists", tuned.estimate, unit)
    if tuned.held_out is not None:
        rows += _rows_of_two("on held-out lists", tuned.held_out, tuned.held_out_unit or LOSS)
    heading = [unit.name, OPTIMUM if proved else "best found", AVERAGED, "95 %"]
    return Table.of("What weights cost", heading, rows)


def _rows_of_two(label: str, estimate: Estimate, unit: Unit) -> list[list[str]]:
    averaged, difference, reach = estimate.averaged, estimate.difference, _reach(estimate.averaged)
    width = "" if reach is None else f"+- {unit.difference(reach).lstrip('-')}"
    change, ends = unit.difference(difference.value, sign=True), unit.interval(difference.low, difference.high)
    return [
        [label, unit.short(estimate.optimum.value), unit.short(averaged.value), width],
        ["  difference", "", change, ends],
    ]


def tuned_notes(tuned: Tuned) -> list[str]:
    found, averaged, estimate = [], tuned.averaged, tuned.estimate
    if estimate is not None:
        groups = "" if estimate.groups == tuned.n_lists else f", {estimate.groups:,} sources kept together"
        drawn = f"{estimate.folds}-fold cross-validation of lists from the same source"
        found.append(f"intervals of 95 %, {drawn}{groups}")
    if tuned.optimism is not None:
        found.append(f"the optimum's loss is {100 * tuned.optimism:.1f} % smaller here than expected on unseen lists")
    if averaged.agreement is not None:
        found.append(f"{averaged.chains} chains of averages agree to {averaged.agreement:.3f}")
    return [*found, *tuned.notes]


def tuned_verdict(tuned: Tuned) -> str:
    which = "the averaged weights" if tuned.recommended == AVERAGED else "the best weights on these lists"
    return f"recommended for unseen lists: {which}"
