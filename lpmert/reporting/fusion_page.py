"""The page about fused scores: the best weights, other weights, the metric along weights, and queries that change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lpmert.model.judged import Judged
from lpmert.ranking import per_query
from lpmert.ranking.search import along
from lpmert.reporting import pictures
from lpmert.reporting.page import picture, rendered
from lpmert.system.files import write_text

if TYPE_CHECKING:
    from lpmert.fusion import Fused

_MOST_CHANGES = 60
"""Maximum number of queries shown: half with the largest gains, half with the largest losses."""

_MOST_CURVES = 8
"""Maximum number of features whose shares get a curve."""


def write_fusion_page(found: Fused, lists: Judged, path: str | Path) -> None:
    """Write a page about the fused scores of these documents: an HTML file that fetches nothing and runs no scripts.

    Raises `MethodError` without jinja2 or matplotlib, and `DataError` if the file cannot be written.
    """
    pictures.check_installed("jinja2", "matplotlib")
    result, best = found.result, found.result.score
    changed = changes(lists, found.metric, result.weights.tolist())
    shown = pictures.both_ends(changed, _MOST_CHANGES)
    text = rendered(
        "fusion.html.jinja",
        found=found,
        title=f"{found.metric} {best:.6f}, {found.message}",
        proved=result.status.proved,
        facts=[
            (found.metric, f"{best:.6f}"),
            ("at equal weights", f"{found.others['equal weights'].score:.6f}"),
            ("queries", f"{found.queries:,}"),
            ("documents", f"{found.documents:,}"),
        ],
        weights=[[name, f"{weight:.6g}", f"{found.alone[name]:.6f}"] for name, weight in result.by_name.items()],
        others=[[name, f"{one.score:.6f}", f"{one.score - best:+.6f}"] for name, one in found.others.items()],
        curves=_curves(found, lists),
        changes=[_row(*one) for one in shown],
        better=sum(after[0] > before[0] for _, before, after in changed),
        worse=sum(after[0] < before[0] for _, before, after in changed),
        same=found.queries - len(changed),
        left_out=len(changed) - len(shown),
    )
    write_text(path, text)


_Value = tuple[float, list[int]]
"""The value of the metric for a query, and the ranks of its relevant documents."""


def changes(lists: Judged, metric: str, weights: Sequence[float]) -> list[tuple[str, _Value, _Value]]:
    """Return the queries whose values at equal weights and at these differ, with both; the largest gain first."""
    equal: Mapping[str, _Value] = per_query(lists, [1.0] * len(weights), metric)
    found = [(name, equal[name], value) for name, value in per_query(lists, weights, metric).items()]
    return sorted((one for one in found if one[1][0] != one[2][0]), key=lambda one: one[1][0] - one[2][0])


def _row(name: str, before: _Value, after: _Value) -> list[str]:
    ranks = [", ".join(map(str, relevant)) or "none" for _, relevant in (before, after)]
    return [name, *ranks, f"{before[0]:.4f}", f"{after[0]:.4f}", f"{after[0] - before[0]:+.4f}"]


def _curves(found: Fused, lists: Judged) -> Sequence[object]:
    result = found.result
    if result.curve is not None:
        words = f"{found.metric} from {result.curve.values.min():.4f} to {result.curve.values.max():.4f}"
        return [picture(pictures.fusion(found), words)]
    if len(result.names) == 1 or (result.weights < 0).any():
        return []
    drawn = []
    for feature, name in enumerate(result.names[:_MOST_CURVES]):
        shares, values = along(lists, found.metric, result.weights, feature)
        words = f"{found.metric} from {values.min():.4f} to {values.max():.4f} as the share of {name} goes from 0 to 1"
        drawn.append(picture(pictures.along(found, feature, shares, values), words))
    return drawn
