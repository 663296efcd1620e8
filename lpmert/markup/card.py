"""What a result says in words: its verdict, its figures and its weights, as HTML."""

from __future__ import annotations

from typing import Any

from lpmert.markup.elements import Child, Element, element, html, table
from lpmert.markup.figures import duration, number, percent
from lpmert.markup.progress import progress


def sentence(result: dict[str, Any]) -> str:
    """Return what is known about the least loss, from a result as JSON has it, and what it rests on."""
    known = _known(result)
    return f"{known} This also rests on a checkpoint, from which it was resumed." if result.get("resumed") else known


def _known(result: dict[str, Any]) -> str:
    loss, bound = number(result["loss"]), result["lower_bound"]
    if result["status"] == "optimal":
        return f"Proved: no weights have a lower loss than {loss}."
    if bound is None:
        return f"Found weights with loss {loss}. Nothing is proved: a lower loss may exist."
    gap = f"{number(result['gap_abs'])} ({percent(result['gap_rel'])})"
    if result["status"] == "optimal_to_tolerance":
        return f"Optimal to tolerance: loss {loss}; a lower one, at least {number(bound)}, would hang on rounding."
    return f"Found weights with loss {loss}. No weights have less than {number(bound)}: a gap of {gap} is open."


def figures(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the figures of a result, each with its name."""
    found = [("loss", number(result["loss"]))]
    if result["score"] != result["loss"]:
        found.append(("score", number(result["score"])))
    found += [(name.replace("_", " "), f"{100 * share:.2f}%") for name, share in result["rates"].items()]
    found.append(("lower bound", number(result["lower_bound"])))
    if result["gap_abs"] is not None:
        found.append(("gap", f"{number(result['gap_abs'])} ({percent(result['gap_rel'])})"))
    found.append(("method", result["method"]))
    if "total" in result["seconds"]:
        found.append(("time", duration(result["seconds"]["total"])))
    return found


def figure_list(figures: list[tuple[str, str]]) -> Element:
    """Return figures with their names."""
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in figures), class_="figures"
    )


def weights_table(result: dict[str, Any]) -> Element:
    """Return the weights, and how far each may move alone before a list chooses otherwise."""
    heading, cell = ["feature", "weight"], result["cell"]
    if cell is not None:
        heading += ["may fall to", "may rise to"]
    rows: list[list[Child]] = []
    for name, weight in result["weights"].items():
        row: list[Child] = [name, f"{weight:.10g}"]
        if cell is not None:
            low, high = cell["ranges"][name]
            row += ["any" if low is None else f"{low:.10g}", "any" if high is None else f"{high:.10g}"]
        rows.append(row)
    return table(heading, rows, numbers=1, caption="Weights")


def card(result: dict[str, Any]) -> str:
    """Return verdict, figures, weights and progress as HTML, with its own style and nothing that is run."""
    warnings = [element("p", f"Warning: {one['message']}", class_="warning") for one in result.get("warnings", [])]
    parts = [element("p", element("strong", sentence(result))), *warnings, figure_list(figures(result))]
    style = element("style", _STYLE)
    return html(element("div", style, *parts, weights_table(result), progress(result), class_="lpmert-result"))


_STYLE = """
.lpmert-result { max-width: 44rem; }
.lpmert-result dl { display: flex; flex-wrap: wrap; gap: .3rem 1.6rem; margin: .5rem 0; }
.lpmert-result dt { opacity: .7; font-size: .85em; }
.lpmert-result dd { margin: 0; font-variant-numeric: tabular-nums; }
.lpmert-result .num { text-align: right; font-variant-numeric: tabular-nums; }
.lpmert-result svg { width: 100%; height: auto; max-width: 40rem; }
.lpmert-result .grid { stroke: currentColor; opacity: .15; }
.lpmert-result .axis { stroke: currentColor; opacity: .6; }
.lpmert-result text { fill: currentColor; font: 12px sans-serif; }
.lpmert-result .end { text-anchor: end; }
.lpmert-result .middle { text-anchor: middle; }
.lpmert-result .curve { fill: none; stroke-width: 2; }
.lpmert-result .curve.loss { stroke: #d9480f; }
.lpmert-result .curve.bound { stroke: #1c7ed6; }
"""
