"""The JSON Schema of results, checks, evaluations, comparisons, and the outcomes of `tune` and `rank`.

It is derived from their dataclasses, which `plain` writes: types from annotations, descriptions from docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from lpmert.comparing.comparison import Comparison
from lpmert.errors import FloatArray
from lpmert.findings import BY_FEATURE, Cell, json_fields
from lpmert.fusion import Fused
from lpmert.model.evaluation import Evaluation
from lpmert.quoting import shortened, visible
from lpmert.ranking import RankingResult
from lpmert.result import SCHEMA, Check, Result
from lpmert.unseen.tune import AVERAGED, OPTIMUM, Tuned

Json = dict[str, Any]

_PLAIN: Mapping[Any, Json] = {
    float: {"type": "number"},
    int: {"type": "integer", "minimum": 0},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
}
_MAYBE: Json = {"type": ["number", "null"]}
_NAMES: Mapping[str, Any] = {"FloatArray": FloatArray, "Mapping": Mapping}
"""Names in annotations that their modules import only for type checkers."""

_PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : .*\n((?:    .*\n?)+)", re.MULTILINE)


def schema_of(kind: str) -> Json:
    """Return the schema (draft 2020-12) of one of `lpmert.registry.DOCUMENTS`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"lpmert {kind}",
        **_SCHEMAS[kind],
        "$defs": {"result": _RESULT},
    }


def _object(properties: Mapping[str, Json], optional: tuple[str, ...] = ()) -> Json:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _entries(kind: type[Any]) -> dict[str, Json]:
    """Return the schema of each entry in the JSON of a dataclass."""
    hints, texts = get_type_hints(kind, localns=_NAMES), dict[str, str]()
    for names, text in _PARAMETER.findall(cleandoc(kind.__doc__ or "")):
        texts |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    for name, own in vars(kind).items():
        if isinstance(own, property):
            hints[name] = get_type_hints(own.fget, localns=_NAMES)["return"]
            texts[name] = (own.__doc__ or "").partition("\n")[0]
    found = {name: _of(hints[name], by_feature=name in BY_FEATURE) for name in json_fields(kind) if name in hints}
    described = {name: {"description": texts[name]} for name in found if texts.get(name)}
    return {name: {**own, **described.get(name, {})} for name, own in found.items()}


def _of(hint: Any, *, by_feature: bool = False) -> Json:
    """Return the schema of a type; by_feature: for an array whose keys are the names of features."""
    inner = get_args(hint)
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if hint is Result:
        return {"$ref": "#/$defs/result"}
    if isinstance(hint, type) and is_dataclass(hint):
        return _object(_entries(hint))
    if get_origin(hint) is np.ndarray:
        entry = _of(int if np.int64 in get_args(inner[1]) else float)
        return _by_name(entry) if by_feature else {"type": "array", "items": entry}
    if get_origin(hint) is UnionType:
        other = _of(inner[0], by_feature=by_feature)
        return {"type": [other["type"], "null"]} if [*other] == ["type"] else _or_null(other)
    if get_origin(hint) is tuple and inner[-1] is not Ellipsis:
        size = len(inner)
        return {"type": "array", "prefixItems": [*map(_of, inner)], "minItems": size, "maxItems": size}
    if get_origin(hint) in (tuple, list):
        return {"type": "array", "items": _of(inner[0])}
    if inner:
        return _by_name(_of(inner[1]))
    return {"enum": [one.name.lower() for one in hint]}


def _by_name(of: Json) -> Json:
    return {"type": "object", "additionalProperties": of}


def _or_null(schema: Json) -> Json:
    return {"anyOf": [{"type": "null"}, schema]}


_VERSION: Json = {"schema": {"const": SCHEMA, "description": "Version of this schema."}}
_RANGES = _by_name({"type": "array", "items": _MAYBE, "minItems": 2, "maxItems": 2})
_OF_RESULT: dict[str, Json] = {
    **_entries(Result),
    **_VERSION,
    "cell": _or_null(_object({**_entries(Cell), "ranges": _RANGES})),
    "whole": _by_name({"type": "integer"}),
}
_RESULT = _object(_OF_RESULT, optional=("warnings", "unit", "resumed", "sums", "whole"))


def _like_result(kind: type[Any], *more: str) -> dict[str, Json]:
    """Return the entries of a dataclass, and more, with the descriptions of a result where they share names."""
    own = _entries(kind)
    return {**own, **{name: one for name, one in _OF_RESULT.items() if name in (*own, *more)}}


_SCHEMAS: Mapping[str, Json] = {
    "result": _RESULT,
    "check": _object(_like_result(Check, "schema")),
    "evaluation": _object(_like_result(Evaluation, "schema", "weights", "list_ids", "signature", "fingerprint")),
    "comparison": _object({**_entries(Comparison), **_VERSION}),
    "tuning": _object({**_entries(Tuned), "recommended": {"enum": [AVERAGED, OPTIMUM]}}),
    "ranking": _object({**_entries(RankingResult), **_entries(Fused)}),
}


def fault(document: Any, kind: str) -> str | None:
    """Return why a document violates the schema of its kind; `None` if it does not."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    found = best_match(Draft202012Validator(schema_of(kind)).iter_errors(document))
    return None if found is None else f"{found.json_path.removeprefix('$.')}: {shortened(visible(found.message))}"
