"""The JSON Schema of results, checks, evaluations and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lpmert.result import SCHEMA, Status

KINDS = ("result", "check", "evaluation", "comparison")

Json = dict[str, Any]

_NUMBER: Json = {"type": "number"}
_WHOLE: Json = {"type": "integer", "minimum": 0}
_STRING: Json = {"type": "string"}
_TRUTH: Json = {"type": "boolean"}
_MAYBE: Json = {"type": ["number", "null"]}


def schema_of(kind: str) -> Json:
    """Return the schema (draft 2020-12) of one of `KINDS`."""
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
_CELL = _object(
    {
        "ranges": _by_name(
            {"type": "array", "items": _MAYBE, "minItems": 2, "maxItems": 2},
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
        "status": {"enum": [status.name.lower() for status in Status]},
        "message": _STRING,
        "success": _described(_TRUTH, "whether the run ended by itself"),
        "method": _STRING,
        **_CHOICE,
        "free": _array(_STRING, "features whose weight could as well be another"),
        "region": _by_name(_NUMBER, "how far inside each limit the weights are"),
        "unseen": _by_name(_NUMBER, "what is to be expected on unseen lists; empty unless it was asked for"),
        "limiting": _array(_STRING, "limits beyond which the cell goes on"),
        "cell": {"anyOf": [{"type": "null"}, _CELL]},
        "counters": _by_name(_NUMBER, "what was counted"),
        "seconds": _by_name(_NUMBER, "what took how long"),
        "trace": _array({"type": "array"}, "seconds, bound and loss at improvements, a thousand at most"),
        "initial": {"anyOf": [{"type": "null"}, _WEIGHTS], "description": "what the search was given to start from"},
        "resumed": _described(_TRUTH, "whether the search went on from a checkpoint, on which the bound also rests"),
        "seed": _WHOLE,
        "warnings": _array({"type": "object"}, "what is doubtful about the question"),
    },
    optional=("warnings", "unseen", "resumed"),
)
_SUMMARY = _by_name(_MAYBE, "over the runs")
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
_ENTRY = _object(
    {
        "name": _STRING,
        "settings": _STRING,
        "runs": _array(_RUN, "one for each seed"),
        "loss": _SUMMARY,
        "held_out_loss": {"anyOf": [{"type": "null"}, _SUMMARY]},
        "wins_by_ties": _TRUTH,
        "seconds": _NUMBER,
        "against_first": {"type": "object"},
        "stability": {"type": "object"},
    }
)
_INTERVAL = _object({"value": _NUMBER, "low": _MAYBE, "high": _MAYBE})
_EXPECTED = _object(
    {
        "name": _STRING,
        "here": _described(_MAYBE, "mean loss on the lists fitted to"),
        "loss": _described(_INTERVAL, "on lists not fitted to, with its interval of 95 %"),
        "optimism": _described(_MAYBE, "share of that loss which the one on the lists fitted to leaves out"),
        "difference": {"anyOf": [{"type": "null"}, _INTERVAL], "description": "from the first method"},
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
            "optimum": {"anyOf": [{"type": "null"}, _OPTIMUM]},
            "methods": _array(_ENTRY, "in the order given"),
            "cross_validation": {"anyOf": [{"type": "null"}, _CROSS_VALIDATION]},
        }
    ),
}
