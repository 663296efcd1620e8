"""Parts of the page that are tables: comparisons, weights for unseen lists, several results, and the small print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lpmert.markup.elements import Child, Element, element, table
from lpmert.markup.figures import duration, number, percent
from lpmert.reporting.documents import Document, Documents
from lpmert.result import Result

_MINUS = "\N{MINUS SIGN}"


def short(value: float | None) -> str:
    """Return a number with up to seven digits and a true minus; a dash where it is unknown."""
    return "-" if value is None else f"{value:.7g}".replace("-", _MINUS)


def comparison_part(document: Document) -> Element:
    """Return a comparison of methods, and their cross-validation if there was one."""
    content = document.content
    distance = "to optimum" if content["proved"] else "to bound"
    held_out = any(entry["held_out_loss"] for entry in content["methods"])
    heading = ["method", "runs", "mean", "best", "range", "deviation", distance]
    rows: list[list[Child]] = []
    for entry in content["methods"]:
        loss = entry["loss"]
        cells = [short(loss[name]) for name in ("mean", "best", "delta", "deviation", "excess")]
        own = entry["held_out_loss"]
        there = [short(own["mean"] if own else None)] if held_out else []
        against = entry["against_first"]["held_out"] or entry["against_first"]["training"]
        p_value = "-" if against is None else f"{against['p_value']:.3f}"
        rows.append([entry["name"], str(len(entry["runs"])), *cells, *there, p_value, duration(entry["seconds"])])
    heading += [*(["held out"] if held_out else []), "p", "time"]
    note = "Losses of all runs of each method; p: of the difference from the first one, by a paired permutation test."
    parts = [element("p", note), table(heading, rows, numbers=1, caption="Methods on these lists")]
    if not content["complete"]:
        parts.append(element("p", "Not all runs were made.", class_="warning"))
    if content["cross_validation"] is not None:
        parts += _cross_validation(content["cross_validation"])
    return element("section", element("h2", "Compared"), *parts, id="compared")


def _cross_validation(found: Mapping[str, Any]) -> list[Element]:
    heading = ["method", "here", "on unseen lists", "95 %", "optimism", "difference", "95 %", "p"]
    rows: list[list[Child]] = []
    for entry in found["methods"]:
        loss, difference, p_value = entry["loss"], entry["difference"], entry["p_value"]
        optimism = "-" if entry["optimism"] is None else f"{100 * entry['optimism']:.1f} %"
        compared = ["-", "", "-"]
        if difference is not None:
            compared = [_signed(difference["value"]), _ends(difference), "-" if p_value is None else f"{p_value:.3f}"]
        rows.append([entry["name"], short(entry["here"]), short(loss["value"]), _ends(loss), optimism, *compared])
    times = "once" if found["repetitions"] == 1 else f"{found['repetitions']} times"
    caption = f"{found['folds']}-fold cross-validation, {times}"
    return [table(heading, rows, numbers=1, caption=caption), *(element("p", note) for note in found["notes"])]


def tuning_part(document: Document) -> Element:
    """Return what optimum and average cost here and, as estimated or measured, on unseen lists."""
    content = document.content
    optimum, averaged, optimism = content["optimum"], content["averaged"], content["optimism"]
    which = "the averaged weights" if content["recommended"] == "averaged" else "the optimum"
    rows: list[list[Child]] = [["on these lists", number(optimum["loss"]), "", number(averaged["loss"]), "", "", ""]]
    for label, key in (("expected on unseen lists", "estimate"), ("on held-out lists", "held_out")):
        found = content[key]
        if found is not None:
            one, other, difference = found["optimum"], found["averaged"], found["difference"]
            cells = [short(one["value"]), _ends(one), short(other["value"]), _ends(other)]
            rows.append([label, *cells, _signed(difference["value"]), _ends(difference)])
    heading = ["loss", "optimum", "95 %", "averaged", "95 %", "difference", "95 %"]
    told = [f"Recommended for lists that nobody has seen yet: {which}."]
    if optimism is not None:
        told.append(f"{100 * optimism:.1f} % of what the optimum will cost there is hidden by optimism.")
    weights: list[list[Child]] = [
        [name, f"{weight:.10g}", f"{averaged['weights'][name]:.10g}"] for name, weight in optimum["weights"].items()
    ]
    return element(
        "section",
        element("h2", "On unseen lists"),
        element("p", " ".join(told)),
        table(heading, rows, numbers=1, caption="What weights cost"),
        *(element("p", f"Note: {note}.") for note in content["notes"]),
        table(["feature", "optimum", "averaged"], weights, numbers=1, caption="Weights for unseen lists"),
        id="unseen",
    )


def expected_part(result: Result) -> Element | None:
    """Return what a search with cross-validation expects on unseen lists; `None` without one."""
    found = result.unseen
    if not found:
        return None
    ends = f" ({short(found['low'])} to {short(found['high'])})" if "low" in found else ""
    share = f", {100 * found['optimism']:.1f} % of it hidden by optimism" if "optimism" in found else ""
    text = f"About {short(found['loss'])}{ends}{share}, by {found['folds']:.0f}-fold cross-validation."
    return element("section", element("h2", "On unseen lists"), element("p", text), id="unseen")


def results_part(documents: Documents) -> Element | None:
    """Return all results side by side; `None` where there is one only."""
    found = [one for one in documents.all if one.result is not None]
    if len(found) < 2:
        return None
    rows: list[list[Child]] = []
    for one in found:
        result = one.result
        if result is not None:
            figures = [number(result.loss), number(result.lower_bound), percent(result.gap_rel)]
            seconds = result.seconds.get("total")
            time = "-" if seconds is None else duration(seconds)
            rows.append([one.name, result.method, result.message, *figures, time])
    heading = ["file", "method", "how it ended", "loss", "lower bound", "gap", "time"]
    return element(
        "section", element("h2", "Results"), table(heading, rows, numbers=3, caption="Results"), id="results"
    )


def lattices_part(result: Result) -> Element | None:
    """Return how many paths there are and how many may win somewhere; `None` for a result of lists."""
    counters = result.counters
    if "log10_paths" not in counters:
        return None
    lattices, links = counters.get("lists", 0), counters.get("links", 0)
    told = [
        f"{lattices:,} lattices with {links:,} links; 10^{counters['log10_paths']:,} ways to choose a path from each."
    ]
    if "survivors" in counters:
        told.append(f"{counters['survivors']:,} paths may win in a cone of weights that the search went through.")
    return element("section", element("h2", "Lattices"), *(element("p", one) for one in told), id="lattices")


def details_part(result: Result) -> Element:
    """Return counters, seconds, limits, and what identifies the run."""
    tables = []
    for caption, values in (("Counted", result.counters), ("Distance from limits", result.region)):
        if values:
            rows: list[list[Child]] = [[name.replace("_", " "), number(value)] for name, value in values.items()]
            tables.append(table(["", ""], rows, numbers=1, caption=caption))
    if result.seconds:
        times: list[list[Child]] = [[name, f"{seconds:.3f}"] for name, seconds in result.seconds.items()]
        tables.append(table(["", ""], times, numbers=1, caption="Seconds"))
    facts = [("signature", result.signature), ("fingerprint of the lists", result.fingerprint)]
    facts.append(("seed", str(result.seed)))
    if result.free:
        facts.append(("weights that do not matter", ", ".join(result.free)))
    if result.limiting:
        facts.append(("limits beyond which the cell goes on", ", ".join(result.limiting)))
    listed = element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in facts))
    inner = element("details", element("summary", "Counters, times and signature"), listed, *tables)
    return element("section", inner, id="details")


def _ends(interval: Mapping[str, float | None]) -> str:
    low, high = interval["low"], interval["high"]
    return "" if low is None or high is None else f"{low:.5g} to {high:.5g}".replace("-", _MINUS)


def _signed(value: float) -> str:
    return f"{value:+.4g}".replace("-", _MINUS)
