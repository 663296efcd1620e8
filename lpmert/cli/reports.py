"""Reports of results as aligned text."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from lpmert.cli.arguments import Scale
from lpmert.cli.text import column, labelled, side_by_side, wrapped
from lpmert.quoting import number, percent

if TYPE_CHECKING:
    from lpmert.checked import Check
    from lpmert.model.evaluation import Evaluation
    from lpmert.result import Result


def result_report(result: Result, scale: Scale | None = None, paths: str = "") -> str:
    """Return a result as text: status, loss, bound, gap, ties, weights, time, counters; paths: how many there are."""
    figures = [*_loss_figures(result), ("lower bound", number(result.lower_bound)), ("gap", _gap(result))]
    figures.append(("on unseen", unseen_text(result)))
    table = [_feature_column(result), column("weight", result.weights.tolist()), *_more_columns(result, scale)]
    headline = _headline(result.message, good=result.status.proved and not result.warnings)
    return "\n\n".join(
        [headline, *warned(result), labelled(figures), side_by_side(table), labelled(_run_facts(result, scale, paths))]
    )


def summary(result: Result) -> str:
    """Return the outcome of a search in one line."""
    loss, bound = number(result.loss), number(result.lower_bound)
    return f"{result.message} (loss {loss}, lower bound {bound}, gap {_gap(result)})"


def check_report(check: Check, scale: Scale | None = None, paths: str = "") -> str:
    """Return what the checked weights lose against the optimum or its bounds, as text; paths as for `result_report`."""
    best = check.optimum
    figures = [*_loss_figures(check), ("optimum" if best.status.proved else "best found", number(best.loss))]
    if not best.status.proved:
        figures.append(("lower bound", number(best.lower_bound)))
    figures += [("excess", _excess(check)), ("search", best.message), ("on unseen", unseen_text(best))]
    given = column("these weights", (check.weights / (math.fsum(map(abs, check.weights.tolist())) or 1.0)).tolist())
    found = column("better weights" if check.excess > 0 else "weights found", best.weights.tolist())
    table = [_feature_column(best), given, found, *_more_columns(best, scale)]
    headline = _headline(
        _verdict(check),
        good=check.excess == 0 and best.status.proved and check.inside and not (check.wins_by_ties or check.warnings),
    )
    return "\n\n".join(
        [headline, *warned(check), labelled(figures), side_by_side(table), labelled(_run_facts(best, scale, paths))]
    )


def unseen_text(result: Result) -> str:
    """Return what a result says about unseen lists in a line, nothing if it was not asked for that."""
    found = result.unseen
    if not found:
        return ""
    ends = f" ({found['low']:.5g} to {found['high']:.5g})" if "low" in found else ""
    share = f", {100 * found['optimism']:.1f} % of it hidden by optimism" if "optimism" in found else ""
    return f"the weights found: about {found['loss']:.7g}{ends}{share}; {found['folds']:.0f}-fold cross-validation"


def warning_lines(of: Result | Check) -> list[str]:
    """Return a line for each warning of a result or a check."""
    return [f"warning: {one.message}" for one in of.warnings]


def warned(of: Result | Check) -> list[str]:
    """Return the warnings of a result or a check as a part of a report, nothing if there are none."""
    lines = [click.style(wrapped(line, sys.stdout), fg="red", bold=True) for line in warning_lines(of)]
    return ["\n".join(lines)] if lines else []


def evaluation_report(found: Evaluation, names: Sequence[str], weights: Sequence[float]) -> str:
    """Return what given weights cost, as text; nothing was searched."""
    figures = [*_loss_figures(found), ("margin", number(found.margin))]
    table = [["feature", *names], column("weight", weights)]
    return "\n\n".join([labelled(figures), side_by_side(table)])


def _headline(text: str, *, good: bool) -> str:
    return click.style(wrapped(text, sys.stdout), fg="green" if good else "yellow", bold=True)


def _verdict(check: Check) -> str:
    best = check.optimum
    if not check.inside:
        more = "and there are better ones in it" if check.excess > 0 else "and no better ones in it are known"
        return f"these weights lie outside the region, {more}"
    if check.excess > 0:
        return "there are better weights"
    if check.wins_by_ties:
        return "below the optimum, but only by ties: no weights that decide every list get this loss"
    if best.status.proved:
        return "these weights are optimal: no weights give a lower loss"
    return "no better weights found, but it is not proved that there are none"


def _excess(check: Check) -> str:
    best = check.optimum
    least = f"{number(check.excess)}{_share(check.excess, best.loss)}"
    if best.lower_bound is None or best.lower_bound >= best.loss:
        return least
    most = max(check.excess, check.loss - best.lower_bound)
    return f"at least {least}, at most {number(most)}{_share(most, best.lower_bound)}"


def _share(part: float, whole: float) -> str:
    return f" ({100 * part / abs(whole):.2f}%)" if whole else ""


def _gap(result: Result) -> str:
    return "unknown" if result.gap_abs is None else f"{number(result.gap_abs)} ({percent(result.gap_rel)})"


def _loss_figures(of: Result | Check | Evaluation) -> list[tuple[str, str]]:
    figures = [("loss", number(of.loss))]
    if of.score != of.loss:
        figures.append(("score", number(of.score)))
    figures += [(name.replace("_", " "), f"{100 * share:.4g}%") for name, share in of.rates.items()]
    if of.tied_lists:
        lists = "1 list" if of.tied_lists == 1 else f"{of.tied_lists:,} lists"
        figures.append(
            ("ties", f"{lists}: loss {number(of.loss_best_ties)} at best, {number(of.loss_worst_ties)} at worst")
        )
    return figures


def _feature_column(result: Result) -> list[str]:
    return ["feature", *(f"{name} (free)" if name in result.free else name for name in result.names)]


def _more_columns(result: Result, scale: Scale | None) -> Iterable[list[str]]:
    if scale is not None and (scaled := _scaled(result, scale)) is not None:
        yield column(f"{scale.name} = {scale.value:g}", scaled)
    if result.cell is not None:
        yield column("may fall to", result.cell.ranges[:, 0].tolist())
        yield column("may rise to", result.cell.ranges[:, 1].tolist())


def _scaled(result: Result, scale: Scale) -> list[float] | None:
    try:
        scaled: list[float] = result.scaled_to(scale.name, scale.value).tolist()
    except ValueError:
        return None
    return scaled


def _run_facts(result: Result, scale: Scale | None, paths: str) -> list[tuple[str, str | Mapping[str, str]]]:
    facts: list[tuple[str, str | Mapping[str, str]]] = []
    if paths:
        facts.append(("paths", f"{paths}; {result.counters.get('survivors', 0):,} may win in a cone that was searched"))
    if scale is not None and _scaled(result, scale) is None:
        facts.append(("not scaled", f"no positive factor brings {scale.name} to {scale.value:g}"))
    facts.append(("inside by", {label: number(distance) for label, distance in result.region.items()}))
    if result.limiting:
        facts.append(("limited by", f"{', '.join(result.limiting)}: the best choices go on beyond"))
    if result.free:
        facts.append(("free", "whatever the weight of a free feature, the others can make up for it"))
    facts.append(("margin", number(result.margin)))
    facts.append(("method", f"{result.method}, seed {result.seed}"))
    facts.append(("signature", result.signature))
    facts.append(("seconds", {phase: f"{seconds:.3f}" for phase, seconds in result.seconds.items()}))
    facts.append(("work", {name.replace("_", " "): f"{count:,}" for name, count in result.counters.items()}))
    return facts
