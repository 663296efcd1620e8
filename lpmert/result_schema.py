"""The JSON Schema of results, checks, evaluations, comparisons, and what `tune` and `rank` find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from lpmert.quoting import quoted
from lpmert.result import SCHEMA, Status

Json = dict[str, Any]

_NUMBER: Json = {"type": "number"}
_WHOLE: Json = {"type": "integer", "minimum": 0}
_STRING: Json = {"type": "string"}
_TRUTH: Json = {"type": "boolean"}
_MAYBE: Json = {"type": ["number", "null"]}


def schema_of(kind: str) -> Json:
    """Return the schema (draft 2020-12) of one of `lpmert.registry.DOCUMENTS`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"lpmert {kind}",
        **_SCHEMAS[kind],
        "$defs": {"result": _RESULT},
    }


def _described(schema: Json, description: str) -> Json:
    return {**schema, "description": description}


def _array(of: Json, description: str) -> Json:
    return {"type": "array", "items": of, "description": description}


def _array_of(items: Json, count: int) -> Json:
    return {"type": "array", "items": items, "minItems": count, "maxItems": count}


def _or_null(schema: Json, description: str | None = None) -> Json:
    found: Json = {"anyOf": [{"type": "null"}, schema]}
    return found if description is None else _described(found, description)


def _by_name(of: Json, description: str) -> Json:
    return {"type": "object", "additionalProperties": of, "description": description}


def _object(properties: Mapping[str, Json], optional: tuple[str, ...] = ()) -> Json:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


_VERSION: Json = {"const": SCHEMA, "description": "version of this schema"}
_STATUS: Json = {"enum": [status.name.lower() for status in Status]}
_WEIGHTS = _by_name(_NUMBER, "by the names of the features, in their order")
_RATES = _by_name(_NUMBER, "the loss as shares: accuracy, error_rate; empty where what to divide by is not known")
_COST: dict[str, Json] = {
    "loss": _described(_NUMBER, "lower is better"),
    "score": _described(_NUMBER, "in the unit of the metric"),
    "statistics": _array(_NUMBER, "sums over the chosen hypotheses"),
    "rates": _RATES,
    "tied_lists": _described(_WHOLE, "lists that are tied at the weights"),
    "loss_best_ties": _described(_MAYBE, "the loss with ties at their best"),
    "loss_worst_ties": _described(_MAYBE, "the loss with ties at their worst"),
    "margin": _described(_MAYBE, "least lead of a chosen hypothesis"),
}
_CHOICE: dict[str, Json] = {
    "selection": _array(_WHOLE, "the hypothesis chosen from each list, from 0"),
    "list_ids": _array(_STRING, "of the lists, in the order of the selection"),
    "signature": _described(_STRING, "every setting that changes the numbers"),
    "fingerprint": _described(_STRING, "SHA-256 of the lists"),
}
_UNIT = _object(
    {
        "name": _STRING,
        "factor": _described(_NUMBER, "the figure that users know is offset + factor * loss"),
        "offset": _NUMBER,
        "percent": _described(_TRUTH, "whether that is a share, shown in percent"),
        "counts": _described(_STRING, "of a share, what losses count"),
    }
)
_POINT: Json = {**_array_of(_MAYBE, 3), "prefixItems": [_NUMBER, _MAYBE, _NUMBER]}
_CELL = _object(
    {
        "ranges": _by_name(
            _array_of(_MAYBE, 2),
            "how far each weight may move alone; null is infinite",
        ),
        "centre": _WEIGHTS,
        "margin": _NUMBER,
    }
)
_RESULT = _object(
    {
        "schema": _VERSION,
        "weights": _WEIGHTS,
        **_COST,
        "lower_bound": _described(_MAYBE, "proved; null for heuristics"),
        "gap_abs": _described(_MAYBE, "loss minus lower bound"),
        "gap_rel": _described(_MAYBE, "the same as a share of the loss; null also where it is infinite"),
        "status": _STATUS,
        "message": _STRING,
        "success": _described(_TRUTH, "whether the run ended by itself"),
        "method": _STRING,
        **_CHOICE,
        "free": _array(_STRING, "features whose weight could as well be another"),
        "region": _by_name(_NUMBER, "how far inside each limit the weights are"),
        "unit": _or_null(_UNIT, "how losses read in the unit of the metric"),
        "limiting": _array(_STRING, "limits beyond which the cell goes on"),
        "cell": _or_null(_CELL),
        "counters": _by_name(_NUMBER, "what was counted"),
        "seconds": _by_name(_NUMBER, "what took how long"),
        "trace": _array(_POINT, "seconds, bound and loss at improvements, a thousand at most"),
        "initial": _or_null(_WEIGHTS, "what the search was given to start from"),
        "resumed": _described(_TRUTH, "whether the search went on from a checkpoint, on which the bound also rests"),
        "sums": _by_name(_NUMBER, "second sums of the chosen hypotheses, where a budget or a front is about them"),
        "whole": _by_name({"type": "integer"}, "the smallest whole weights that choose as well, where they were found"),
        "seed": _WHOLE,
        "warnings": _array(_object({"code": _STRING, "message": _STRING}), "what is doubtful about the question"),
    },
    optional=("warnings", "unit", "resumed", "sums", "whole"),
)
_SUMMARY = {**dict.fromkeys(("mean", "best"), _NUMBER), **dict.fromkeys(("delta", "deviation"), _MAYBE)}
_DIFFERENCE = _object(dict.fromkeys(("loss", "p_value", "low", "high"), _NUMBER))
_RUN = _object(
    {
        "seed": {"type": ["integer", "null"]},
        "loss": _NUMBER,
        "score": _NUMBER,
        "tied_lists": _WHOLE,
        "inside": _TRUTH,
        "held_out_loss": _MAYBE,
        "held_out_score": _MAYBE,
        "seconds": _NUMBER,
        "status": {"type": ["string", "null"]},
        "weights": _WEIGHTS,
    }
)
_BEST_OF = _object({"runs": _WHOLE, "loss": _NUMBER, "held_out_loss": _MAYBE})
_ENTRY = _object(
    {
        "name": _STRING,
        "settings": _STRING,
        "runs": {**_array(_RUN, "one for each seed"), "minItems": 1},
        "loss": _object({**_SUMMARY, "excess": _MAYBE}),
        "held_out_loss": _or_null(_object(_SUMMARY)),
        "wins_by_ties": _TRUTH,
        "seconds": _NUMBER,
        "against_first": _object({"training": _or_null(_DIFFERENCE), "held_out": _or_null(_DIFFERENCE)}),
        "stability": _object({"pearson": _MAYBE, "spearman": _MAYBE, "best_of": _array(_BEST_OF, "none for one run")}),
    }
)
_INTERVAL = _object({"value": _NUMBER, "low": _MAYBE, "high": _MAYBE})
_EXPECTED = _object(
    {
        "name": _STRING,
        "here": _described(_MAYBE, "mean loss on the lists fitted to"),
        "loss": _described(_INTERVAL, "on lists not fitted to, with its interval of 95 %"),
        "optimism": _described(_MAYBE, "share of that loss which the one on the lists fitted to leaves out"),
        "difference": _or_null(_INTERVAL, "from the first method"),
        "p_value": _MAYBE,
        "held_out": _described(_MAYBE, "mean loss on lists held out altogether"),
        "fits": _WHOLE,
        "proved": _described(_WHOLE, "fits proved optimal"),
    }
)
_CROSS_VALIDATION = _object(
    {
        "folds": _WHOLE,
        "repetitions": _WHOLE,
        "groups": _WHOLE,
        "methods": _array(_EXPECTED, "in the order given, the optimum last"),
        "notes": _array(_STRING, "what to keep in mind"),
    }
)
_OPTIMUM: Json = {"$ref": "#/$defs/result"}
_AVERAGED = _object(
    {
        "weights": _WEIGHTS,
        "loss": _NUMBER,
        "score": _NUMBER,
        "tied_lists": _WHOLE,
        "unit": _NUMBER,
        "temperature": _described(_MAYBE, "null if it is infinite"),
        "agreement": _described(_MAYBE, "least cosine of the mean of a chain with that of all"),
        "chains": _WHOLE,
        "steps": _WHOLE,
        "complete": _TRUTH,
    }
)
_UNSEEN = _object(
    {
        **dict.fromkeys(("optimum", "averaged", "difference"), _INTERVAL),
        "n_lists": _WHOLE,
        "groups": _WHOLE,
        "folds": _described(_WHOLE, "parts into which the lists were drawn; 0 on held-out lists"),
    }
)

_SCHEMAS: Mapping[str, Json] = {
    "result": _RESULT,
    "check": _object(
        {
            "schema": _VERSION,
            "weights": _WEIGHTS,
            **_COST,
            "excess": _described(_NUMBER, "loss beyond the best found"),
            "wins_by_ties": _described(_TRUTH, "whether only ties bring the loss below the optimum"),
            "inside": _described(_TRUTH, "whether the weights are within the region"),
            "optimum": _OPTIMUM,
        }
    ),
    "evaluation": _object({"schema": _VERSION, "weights": _WEIGHTS, **_COST, **_CHOICE, "inside": _TRUTH}),
    "comparison": _object(
        {
            "schema": _VERSION,
            "complete": _TRUTH,
            "signature": _STRING,
            "fingerprint": _STRING,
            "held_out_fingerprint": {"type": ["string", "null"]},
            "proved": _TRUTH,
            "lower_bound": _MAYBE,
            "optimum": _or_null(_OPTIMUM),
            "methods": _array(_ENTRY, "in the order given"),
            "cross_validation": _or_null(_CROSS_VALIDATION),
            "unit": _UNIT,
            "held_out_unit": _or_null(_UNIT),
        }
    ),
    "tuning": _object(
        {
            "weights": _described(_WEIGHTS, "those recommended"),
            "recommended": {"enum": ["averaged", "optimum"]},
            "optimum": _OPTIMUM,
            "averaged": _AVERAGED,
            "estimate": _or_null(_UNSEEN, "by cross-validation"),
            "held_out": _or_null(_UNSEEN),
            "held_out_unit": _or_null(_UNIT),
            "optimism": _described(_MAYBE, "share of the loss on unseen lists that the one on these leaves out"),
            "notes": _array(_STRING, "what to keep in mind"),
            "n_lists": _WHOLE,
            "seed": _WHOLE,
            "signature": _STRING,
            "seconds": _by_name(_NUMBER, "what took how long"),
        }
    ),
    "ranking": _object(
        {
            "weights": _WEIGHTS,
            "metric": _STRING,
            "score": _described(_NUMBER, "mean over the queries that count; higher is better"),
            "bound": _described(_NUMBER, "proved: no weights reach more"),
            "status": _STATUS,
            "message": _STRING,
            "alone": _by_name(_NUMBER, "what each feature alone is worth"),
            "equal": _described(_NUMBER, "what equal weights are worth"),
            "grid": _object({"score": _NUMBER, "points": _described(_WHOLE, "those tried"), "of": _WHOLE}),
            "other": _described(_MAYBE, "what the weights to compare with are worth"),
            "heuristics": _by_name(
                _object({"weights": _array(_NUMBER, "one for each feature"), "score": _NUMBER, "seconds": _NUMBER}),
                "what they find, if they were compared",
            ),
            "unseen": _or_null(
                _object(
                    {
                        **dict.fromkeys(("best", "equal"), _NUMBER),
                        "reach": _described(_NUMBER, "half the interval of 95 % of their difference"),
                        "folds": _WHOLE,
                        "message": _STRING,
                    }
                ),
                "by cross-validation",
            ),
            **dict.fromkeys(("queries", "documents"), _described(_WHOLE, "those that count")),
            "notes": _array(_STRING, "what to keep in mind"),
            "nodes": _described(_WHOLE, "cones searched"),
            "seconds": _NUMBER,
        }
    ),
}


def fault(document: Any, kind: str) -> str | None:
    """Return what in a document is not as the schema of its kind says, `None` where all is."""
    return next(_faults(document, _SCHEMAS[kind], ""), None)


def _faults(value: Any, schema: Json, place: str) -> Iterator[str]:
    """Yield what is wrong with a value; numbers must be such that float64, or int64, holds them."""
    if "anyOf" in schema:
        schema = {} if value is None else schema["anyOf"][1]
    if "$ref" in schema:
        schema = _RESULT
    where = quoted(place) if place else "the whole"
    if "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_is_of_type(value, one) for one in kinds):
            yield f"{where} is {quoted(value)}, not of type {' or '.join(kinds)}"
            return
    if "const" in schema and value != schema["const"]:
        yield f"{where} is {quoted(value)}, and only {schema['const']} is known"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {quoted(value)}, none of {', '.join(schema['enum'])}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{where} is {quoted(value)}, less than {schema['minimum']}"
    if isinstance(value, dict) and "type" in schema:
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{quoted(f'{place}.{name}' if place else name)} is missing"
        for name, own in value.items():
            inner = f"{place}.{name}" if place else name
            if name not in properties and others is False:
                yield f"{quoted(inner)} is unknown"
            else:
                yield from _faults(own, properties.get(name, others), inner)
    if isinstance(value, list | tuple) and "type" in schema:
        least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
        if not least <= len(value) <= most:
            yield f"{where} has {len(value)} entries, and {'at least ' * (least < most)}{least} are needed"
        for number, (own, first) in enumerate(zip_longest(value, schema.get("prefixItems", ())[: len(value)])):
            yield from _faults(own, first or schema.get("items", {}), f"{place}.{number}")


def _is_of_type(value: Any, kind: str) -> bool:
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, _TYPES[kind])


_LARGEST = 1e170
"""Beyond it are no sums of what lists may hold."""

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "null": type(None),
    "array": (list, tuple),
    "object": dict,
}
