"""Figures, tables and verdicts of outcomes in the units of their metrics, for terminals and pages alike.

Checks, comparisons and tunings are passed as JSON, so that saved ones can be shown as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lpmert.findings import LOSS, Unit, is_restricted
from lpmert.quoting import counted, duration, number, percent

if TYPE_CHECKING:
    from lpmert.model.evaluation import Evaluation
    from lpmert.result import Check, Result

Content = Mapping[str, Any]
"""An outcome as a JSON object."""

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


def unit_in(content: Content, key: str = "unit") -> Unit:
    known = content.get(key)
    return LOSS if known is None else Unit(**known)


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
    """Return the loss of the best weights, the bound, and the second sum of a search within a budget."""
    sums = [(name, number(value)) for name, value in result.sums.items()]
    return [*figures(result, unit), *bound(result, unit), *sums]


def verdict(result: Result) -> str:
    """Return the verdict on the best weights, and what it rests on."""
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


def check_verdict(content: Content, unit: Unit) -> str:
    """Return the verdict on checked weights."""
    optimum = content["optimum"]
    best, proved = optimum["loss"], optimum["status"] == "optimal"
    if not content["inside"]:
        more = "and there are better ones in it" if content["excess"] > 0 else "and no better ones in it are known"
        return f"these weights lie outside the region, {more}"
    if content["excess"] > 0:
        return f"there are better weights: {unit.name} {unit.short(best)} instead of {unit.short(content['loss'])}"
    if content["wins_by_ties"]:
        return "below the optimum, but only by ties: no weights that decide every list get this loss"
    if proved:
        which = "no weights of the region" if is_restricted(optimum["signature"]) else "no weights"
        return f"these weights are optimal: {which} give a lower loss"
    return "no better weights found, but it is not proved that there are none"


def best_run(entry: Content) -> Content:
    """Return the run with the least loss in the entry of a method, preferring runs inside the region."""
    found: Content = min(entry["runs"], key=lambda run: (not run["inside"], run["loss"]))
    return found


class Compared:
    """A comparison as tables and notes, in the units of its lists and of the held-out lists."""

    def __init__(self, content: Content) -> None:
        self._content, self._unit = content, unit_in(content)
        self._held_out = unit_in(content, "held_out_unit")
        self._runs: Sequence[Content] = content["methods"]

    @property
    def verdict(self) -> str:
        """The best loss and its bound."""
        optimum, unit = self._content["optimum"], self._unit
        if optimum is None or optimum["lower_bound"] is None:
            return f"no bound on {unit.name} is known"
        if self._content["proved"]:
            return f"optimum: {unit.name} {unit.text(optimum['loss'])}, proved"
        least = f"{unit.bound} {unit.short(optimum['lower_bound'], bound=True)}"
        return f"best found: {unit.name} {unit.text(optimum['loss'])}, {least} ({optimum['message']})"

    @property
    def tables(self) -> list[Table]:
        """The table of runs, and that of the cross-validation if there is one."""
        return [table for table in (self._methods(), self._unseen()) if table.rows]

    @property
    def notes(self) -> list[str]:
        """Remarks on single methods and on the cross-validation, a line each."""
        found = [] if self._content["complete"] else ["not all runs were made"]
        for entry in self._runs:
            best = best_run(entry)
            if not best["inside"]:
                found.append(f"{entry['name']}: these weights lie outside the region")
            elif (bound := self._content["lower_bound"]) is not None and best["loss"] < bound:
                found.append(f"{entry['name']}: below the optimum only by ties, in {best['tied_lists']:,} lists")
            elif best["tied_lists"]:
                found.append(f"{entry['name']}: {best['tied_lists']:,} lists are tied at its best weights")
        validation = self._content["cross_validation"]
        if validation is not None:
            times = "once" if validation["repetitions"] == 1 else f"{validation['repetitions']} times"
            drawn = f"{validation['folds']}-fold cross-validation, {times}"
            found += [f"{drawn}: intervals of 95 % for lists from the same source", *validation["notes"]]
        return found

    def _difference(self, losses: float | None) -> str:
        """Return the absolute value of a difference of losses, such as a spread or an excess."""
        return "-" if losses is None else self._unit.difference(abs(losses)).lstrip("-")

    def _methods(self) -> Table:
        distance = "to optimum" if self._content["proved"] else "to bound"
        rows = []
        bound = self._content["lower_bound"]
        for entry in self._runs:
            loss, held_out = entry["loss"], entry["held_out_loss"]
            rows.append([
                entry["name"], str(len(entry["runs"])), *(self._unit.short(loss[name]) for name in ("mean", "best")),
                *(self._difference(loss[name]) for name in ("delta", "deviation")),
                self._difference(None if bound is None else best_run(entry)["loss"] - bound),
                self._held_out.short(None if held_out is None else held_out["mean"]),
                _p_value(entry), duration(entry["seconds"]),
            ])  # fmt: skip
        heading = [self._unit.name, "runs", "mean", "best", "Delta", "S", distance, "held out", "p", "time"]
        return Table.of("Methods on these lists", heading, rows)

    def _unseen(self) -> Table:
        """Return the table of the cross-validation, without rows if there was none."""
        unit, rows = self._unit, []
        for entry in (self._content["cross_validation"] or {"methods": ()})["methods"]:
            loss, difference, optimism = entry["loss"], entry["difference"], entry["optimism"]
            reach = None if loss["low"] is None else (loss["high"] - loss["low"]) / 2
            compared = ["-", "", "-"]
            if difference is not None:
                ends = unit.interval(difference["low"], difference["high"])
                compared = [unit.difference(difference["value"], sign=True), ends, _p_value(entry)]
            rows.append([
                entry["name"], unit.short(entry["here"]), unit.short(loss["value"]), self._difference(reach),
                "-" if optimism is None else f"{100 * optimism:.1f} %", self._held_out.short(entry["held_out"]),
                *compared,
            ])  # fmt: skip
        heading = [unit.name, "on these", "on unseen", "+-", "optimism", "held out", "difference", "95 %", "p"]
        return Table.of("On unseen lists", heading, rows)


def _p_value(entry: Content) -> str:
    p_value = entry["p_value"]
    return "-" if p_value is None else "<0.001" if p_value < 0.0005 else f"{p_value:.3f}"


def tuned_table(content: Content) -> Table:
    """Return the table of the losses of the best and the averaged weights, on these lists and on unseen ones."""
    optimum, averaged = content["optimum"], content["averaged"]
    unit, proved = unit_in(optimum), optimum["status"] == "optimal"
    rows = [["on these lists", unit.short(optimum["loss"]), unit.short(averaged["loss"]), ""]]
    if optimum["lower_bound"] is not None and not proved:
        rows.append([f"  {unit.bound}", unit.short(optimum["lower_bound"], bound=True), "", ""])
    if content["estimate"] is not None:
        rows += _rows_of_two("expected on unseen lists", content["estimate"], unit)
    if content["held_out"] is not None:
        rows += _rows_of_two("on held-out lists", content["held_out"], unit_in(content, "held_out_unit"))
    heading = [unit.name, OPTIMUM if proved else "best found", AVERAGED, "95 %"]
    return Table.of("What weights cost", heading, rows)


def _rows_of_two(label: str, estimate: Content, unit: Unit) -> list[list[str]]:
    """Return a row of both losses, with the interval of the average's, and a row of their difference."""
    averaged, difference = estimate["averaged"], estimate["difference"]
    reach = None if averaged["low"] is None else (averaged["high"] - averaged["low"]) / 2
    width = "" if reach is None else f"+- {unit.difference(reach).lstrip('-')}"
    change, ends = unit.difference(difference["value"], sign=True), unit.interval(difference["low"], difference["high"])
    return [
        [label, unit.short(estimate["optimum"]["value"]), unit.short(averaged["value"]), width],
        ["  difference", "", change, ends],
    ]


def tuned_notes(content: Content) -> list[str]:
    """Return remarks on the figures of a tuning, a line each."""
    found, averaged, estimate = [], content["averaged"], content["estimate"]
    if estimate is not None:
        groups = ""
        if estimate["groups"] != content["n_lists"]:
            groups = f", {estimate['groups']:,} sources kept together"
        drawn = f"{estimate['folds']}-fold cross-validation of lists from the same source"
        found.append(f"intervals of 95 %, {drawn}{groups}")
    if content["optimism"] is not None:
        found.append(
            f"the optimum's loss is {100 * content['optimism']:.1f} % smaller here than expected on unseen lists"
        )
    if averaged["agreement"] is not None:
        found.append(f"{averaged['chains']} chains of averages agree to {averaged['agreement']:.3f}")
    return [*found, *content["notes"]]


def tuned_verdict(content: Content) -> str:
    """Return which weights a tuning recommends."""
    which = "the averaged weights" if content["recommended"] == AVERAGED else "the best weights on these lists"
    return f"recommended for unseen lists: {which}"
