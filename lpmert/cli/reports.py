"""Reports of results as aligned text: the weights, what they cost, and last the verdict."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from lpmert.cli.text import column, labelled, side_by_side, wrapped
from lpmert.findings import LOSS, Unit
from lpmert.quoting import SHOWN_DECIMALS, number, percent

if TYPE_CHECKING:
    from lpmert.checked import Check
    from lpmert.errors import FloatArray
    from lpmert.model.evaluation import Evaluation
    from lpmert.result import Result

_FEWEST, _USUAL = 4, 6
"""Decimals of weights: the fewest, and those where nothing is known of how far each may move."""
_OF_RANGE = 2
"""Decimals of weights beyond those of the narrowest range in which one may move."""


def result_report(result: Result, *, verbose: bool = False, paths: str = "") -> str:
    """Return a result as text: weights, loss, bound, verdict; verbose: also times, counters, settings.

    paths: how many there are in the lattices.
    """
    unit = result.unit or LOSS
    figures = [*_figures(result, unit), *_bound(result, unit), ("on unseen", unseen_text(result))]
    table = [_feature_column(result), column("weight", result.weights.tolist(), decimals_of(result)), *_ranges(result)]
    verdict = _verdict_line(result.message, good=result.status.proved and not result.warnings)
    facts = _run_facts(result, paths) if verbose else []
    text = [side_by_side(table), labelled([*_facts(result), *facts]), labelled(figures), *warned(result)]
    return _joined([*text, verdict])


def summary(result: Result) -> str:
    """Return the outcome of a search in one line."""
    return f"{result.message} ({result.cost})"


def check_report(check: Check, *, verbose: bool = False, paths: str = "") -> str:
    """Return what the checked weights lose against the optimum or its bounds, as text; as `result_report`."""
    best = check.optimum
    unit = best.unit or LOSS
    figures = [*_figures(check, unit), ("optimum" if best.status.proved else "best found", unit.text(best.loss))]
    figures += [] if best.status.proved else _bound(best, unit)
    figures += [
        ("worse by", _excess(check, unit) if check.loss > best.loss else ""),
        ("on unseen", unseen_text(best)),
        ("search", best.message),
    ]
    decimals = decimals_of(best)
    found = column("better weights" if check.excess > 0 else "weights found", best.weights.tolist(), decimals)
    table = [_feature_column(best), column("these weights", check.weights.tolist(), decimals), found, *_ranges(best)]
    good = check.excess == 0 and best.status.proved and check.inside and not (check.wins_by_ties or check.warnings)
    facts = _run_facts(best, paths) if verbose else []
    text = [side_by_side(table), labelled([*_facts(best), *facts]), labelled(figures), *warned(check)]
    return _joined([*text, _verdict_line(_verdict(check, unit), good=good)])


def evaluation_report(found: Evaluation, names: Sequence[str], weights: Sequence[float], unit: Unit) -> str:
    """Return what given weights cost, as text; nothing was searched."""
    figures = [*_figures(found, unit), ("margin", "" if found.margin is None else number(found.margin))]
    return _joined([side_by_side([["feature", *names], column("weight", weights, _USUAL)]), labelled(figures)])


def unseen_text(result: Result) -> str:
    """Return what a result says about unseen lists in a line, nothing if it was not asked for that."""
    found, unit = result.unseen, result.unit or LOSS
    if not found:
        return ""
    ends = f" ({unit.short(found['low'])} to {unit.short(found['high'])})" if "low" in found else ""
    share = f", {100 * found['optimism']:.1f} % of the loss hidden by optimism" if "optimism" in found else ""
    return f"about {unit.short(found['loss'])}{ends}{share}; {found['folds']:.0f}-fold cross-validation"


def warning_lines(of: Result | Check) -> list[str]:
    """Return a line for each warning of a result or a check."""
    return [f"warning: {one.message}" for one in of.warnings]


def warned(of: Result | Check) -> list[str]:
    """Return the warnings of a result or a check as a part of a report, nothing if there are none."""
    lines = [click.style(wrapped(line, sys.stdout), fg="red", bold=True) for line in warning_lines(of)]
    return ["\n".join(lines)] if lines else []


def decimals_of(result: Result) -> int:
    """Return as many decimals as its weights need: some beyond the narrowest range in which one may move."""
    if any(one.code == "digits" for one in result.warnings):
        return SHOWN_DECIMALS
    if result.cell is None:
        return _USUAL
    ends: FloatArray = result.cell.ranges
    width = min((high - low for low, high in ends.tolist() if high > low), default=math.inf)
    needed = _FEWEST if math.isinf(width) else math.ceil(-math.log10(width)) + _OF_RANGE
    return min(SHOWN_DECIMALS, max(_FEWEST, needed))


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _verdict_line(text: str, *, good: bool) -> str:
    return click.style(wrapped(text, sys.stdout), fg="green" if good else "yellow", bold=True)


def _verdict(check: Check, unit: Unit) -> str:
    best = check.optimum
    if not check.inside:
        more = "and there are better ones in it" if check.excess > 0 else "and no better ones in it are known"
        return f"these weights lie outside the region, {more}"
    if check.excess > 0:
        return f"there are better weights: {unit.name} {unit.short(best.loss)} instead of {unit.short(check.loss)}"
    if check.wins_by_ties:
        return "below the optimum, but only by ties: no weights that decide every list get this loss"
    if best.status.proved:
        return "these weights are optimal: no weights give a lower loss"
    return "no better weights found, but it is not proved that there are none"


def _excess(check: Check, unit: Unit) -> str:
    best = check.optimum
    least = _more(check.excess, best.loss, unit)
    if best.lower_bound is None or best.lower_bound >= best.loss:
        return least
    return (
        f"at least {least}, at most {_more(max(check.excess, check.loss - best.lower_bound), best.lower_bound, unit)}"
    )


def _more(losses: float, whole: float, unit: Unit) -> str:
    text = unit.counted(losses) if unit.counts else unit.difference(losses).lstrip("-")
    return f"{text} ({100 * losses / abs(whole):.2f}%)" if whole and unit.offset == 0.0 else text


def _figures(of: Result | Check | Evaluation, unit: Unit) -> list[tuple[str, str]]:
    figures = [(unit.name, unit.text(of.loss))]
    if of.score != of.loss and not math.isclose(unit.of(of.loss), of.score, rel_tol=1e-9, abs_tol=1e-9):
        figures.append(("score", number(of.score)))
    if of.tied_lists:
        lists = "1 list" if of.tied_lists == 1 else f"{of.tied_lists:,} lists"
        best, worst = ("-" if loss is None else unit.text(loss) for loss in (of.loss_best_ties, of.loss_worst_ties))
        figures.append(("ties", f"{lists}: {best} at best, {worst} at worst"))
    return figures


def _bound(result: Result, unit: Unit) -> list[tuple[str, str]]:
    """Return the bound, and the gap where there is one; nothing of a heuristic."""
    if result.lower_bound is None:
        return []
    if result.gap_abs == 0.0:
        return [(unit.bound, unit.short(result.loss))]
    gap = [("gap", percent(result.gap_rel))] if unit.offset == 0.0 else []  # a share of the loss, which is not shown
    return [(unit.bound, unit.text(result.lower_bound, bound=True)), *gap]


def _feature_column(result: Result) -> list[str]:
    return ["feature", *(f"{name} (free)" if name in result.free else name for name in result.names)]


def _ranges(result: Result) -> list[list[str]]:
    if result.cell is None:
        return []
    ends, decimals = result.cell.ranges, decimals_of(result)
    return [column("may fall to", ends[:, 0].tolist(), decimals), column("may rise to", ends[:, 1].tolist(), decimals)]


def _facts(result: Result) -> list[tuple[str, str | Mapping[str, str]]]:
    """Return what limits the weights."""
    facts: list[tuple[str, str | Mapping[str, str]]] = []
    if result.limiting:
        facts.append(("limited by", f"{', '.join(result.limiting)}: the best choices go on beyond"))
    if result.free:
        facts.append(("free", "whatever the weight of a free feature, the others can make up for it"))
    return facts


def _run_facts(result: Result, paths: str) -> list[tuple[str, str | Mapping[str, str]]]:
    facts: list[tuple[str, str | Mapping[str, str]]] = []
    if paths:
        facts.append(("paths", f"{paths}; {result.counters.get('survivors', 0):,} may win in a cone that was searched"))
    facts.append(("inside by", {label: number(distance) for label, distance in result.region.items()}))
    facts.append(("loss", number(result.loss)))
    facts.append(("lower bound", number(result.lower_bound)))
    facts.append(("margin", number(result.margin)))
    facts.append(("method", f"{result.method}, seed {result.seed}"))
    facts.append(("signature", result.signature))
    facts.append(("seconds", {phase: f"{seconds:.3f}" for phase, seconds in result.seconds.items()}))
    facts.append(("work", {name.replace("_", " "): f"{count:,}" for name, count in result.counters.items()}))
    return facts
