"""Lists to write in any format, and files as other programs write them."""

import gzip
import json
import lzma
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from oracle import least_total

from lpmert import NBest

PACKINGS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}

Content = str | bytes | Callable[[], bytes]  # the content of a file, or a function that makes it


def put(folder: Path, files: Mapping[str, Content | None]) -> Path:
    """Write files below a folder and return it; `None` deletes a file."""
    for name, content in files.items():
        path = folder / name
        path.unlink(missing_ok=True)
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content_of(content))
    return folder


def content_of(content: Content) -> bytes:
    if isinstance(content, str):
        return content.encode()
    return content if isinstance(content, bytes) else content()


def frame(kind: str, columns: Mapping[str, Any]) -> Any:
    """Return a table in memory: a mapping, or the table of the library with this name."""
    if kind == "mapping":
        return columns
    library = pytest.importorskip(kind)
    return (library.table if kind == "pyarrow" else library.DataFrame)(columns)


TOO_LARGE = [2**53 + 1, -(2**53) - 1, 2**64 - 1]  # integers that doubles do not hold


def same(first: NBest, second: NBest, *, named: bool = True) -> bool:
    """Whether lists are equal; sparse features and dense ones may be. named: whether names must be, too."""
    names = (first.names, first.statistic_names), (second.names, second.statistic_names)
    return (
        (not named or names[0] == names[1])
        and first.list_ids == second.list_ids
        and first.texts == second.texts
        and (first.offsets == second.offsets).all()
        and first.statistics.tobytes() == second.statistics.tobytes()
        and first.dense_features().tobytes() == second.dense_features().tobytes()
    )


FILES = {  # every format that is written, and a name by which it is known
    "tsv": "lists.tsv",
    "csv": "lists.csv",
    "jsonl": "lists.jsonl",
    "json": "lists.json",
    "parquet": "lists.parquet",
    "npz": "lists.npz",
    "moses": "lists.txt",
    "mert": "run1.features.dat",
    "best-of-n": "candidates.jsonl",
}


def small(**changes: Any) -> NBest:
    """Return two lists with texts of all kinds; the arguments are those of `NBest`."""
    given: dict[str, Any] = {
        "features": [[1.0, 0.25], [-0.5, 2.0], [0.5, 1 / 3], [2.0, 1e-3], [-1.0, 3.5], [0.125, -7.0]],
        "offsets": [0, 3, 6],
        "statistics": [2, 0, 1, 3, 1, 0],
        "names": ["am_0", "lm_0"],
        "list_ids": ["b", "a"],
        "texts": ["a cat", "", "the cat", "x", "y", "das Tier"],
    }
    return NBest(**{**given, **changes})


def optimum(nbest: NBest) -> float:
    """Return the least loss by exact enumeration, which shares no code with the searches."""
    return least_total(nbest.dense_features().tolist(), nbest.offsets.tolist(), nbest.statistics[:, 0].tolist())


# lists as Moses' extractor writes them
FEATURES = """FEATURES_TXT_BEGIN_0 3 2 2 lm_0 w_0
-1.5 2
-1e-3 4
FEATURES_TXT_END_0
FEATURES_TXT_BEGIN_0 0 1 2 lm_0 w_0
5 6
FEATURES_TXT_END_0
"""
SCORES = """SCORES_TXT_BEGIN_0 3 2 2 WER
0 7
3 7
SCORES_TXT_END_0
SCORES_TXT_BEGIN_0 0 1 2 WER
1 4
SCORES_TXT_END_0
"""


LISTS = NBest(  # what each of `DIALECTS` says
    [[-1.5, 2.0], [-2.25, 0.001], [3.0, -4.0]],
    [0, 2, 3],
    [0, 1, 2],
    names=["am", "lm"],
    list_ids=["u1", "u2"],
    statistic_names=["errors"],
    texts=['the "cat', "", "a cat"],
)

_ROWS: list[dict[str, Any]] = [
    {"utt": "u1", "am": -1.5, "lm": 2, "errors": 0, "hyp": 'the "cat', "more": [1, 2]},
    {"utt": "u1", "am": -2.25, "lm": 0.001, "errors": 1, "hyp": "", "more": []},
    {"utt": "u2", "am": 3, "lm": -4, "errors": 2, "hyp": "a cat", "more": None},
]
_FLAT = {"segment": "utt", "features": "am,lm", "loss": "errors", "text": "hyp"}
_NESTED = {"segment": "id", "features": "scores.*", "loss": "out.n", "text": "out.hyp"}


def _lines(records: Iterable[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def _nested(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["utt"],
        "scores": {"am": row["am"], "lm": row["lm"]},
        "out": {"hyp": row["hyp"], "n": row["errors"]},
    }


_OF_LISTS = {key: [row for row in _ROWS if row["utt"] == key] for key in ("u1", "u2")}


def _arrays(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: [row[key] for row in rows] for key in ("utt", "am", "lm", "errors", "hyp")}


def _below(key: str, columns: dict[str, str], *, but: str = "") -> dict[str, str]:
    """The same columns, each a path below a key, except one."""
    return {
        what: names if what == but else ",".join(f"{key}.{name}" for name in names.split(","))
        for what, names in columns.items()
    }


_SETS = [{"utt": key, "candidates": rows} for key, rows in _OF_LISTS.items()]
_ARRAYS_BY_LIST = [{**_arrays(rows), "utt": key} for key, rows in _OF_LISTS.items()]
_DOTTED = [
    {"id.x": row["utt"], "s.am": row["am"], "s.lm": row["lm"], "e.n": row["errors"], "h": row["hyp"]} for row in _ROWS
]
_LAST: dict[str, Any] = {"last_field": True, "statistics": ["errors"]}

DIALECTS: dict[str, tuple[str, dict[str, Any]]] = {  # the same lists as others write them, and options that it takes
    "TSV": ('utt\tam\tlm\terrors\thyp\nu1\t-1.5\t2\t0\tthe "cat\nu1\t-2.25\t1e-3\t1\t\nu2\t3\t-4\t2\ta cat\n', _FLAT),
    "CSV": ('utt,am,lm,errors,hyp\nu1,-1.5,2,0,"the ""cat"\nu1,-2.25,1e-3,1,\nu2,3,"-4",2,a cat\n', _FLAT),
    "JSON lines": (_lines(_ROWS), _FLAT),
    "JSON lines in other orders": (_lines(dict(reversed(row.items())) for row in _ROWS), _FLAT),
    "array": (json.dumps(_ROWS), _FLAT),
    "indented array": (json.dumps(_ROWS, indent=2), _FLAT),
    "nested lines": (_lines(map(_nested, _ROWS)), _NESTED),
    "columns": (json.dumps(_arrays(_ROWS)), _FLAT),
    "wrapped": (json.dumps({"data": _ROWS}, indent=2), _below("data", _FLAT)),
    "candidates a line": (_lines(_SETS), _below("candidates", _FLAT, but="segment")),
    "array of sets": (json.dumps(_SETS, indent=2), _below("candidates", _FLAT, but="segment")),
    "arrays a line": (_lines(_ARRAYS_BY_LIST), _FLAT),
    "sets in one object": (
        json.dumps({"sets": _SETS}, indent=2),
        {**_below("sets.candidates", _FLAT), "segment": "sets.utt"},
    ),
    "keys with dots": (_lines(_DOTTED), {"segment": "id.x", "features": "s.am,s.lm", "loss": "e.n", "text": "h"}),
    "Moses": (
        'u1 ||| the "cat ||| am= -1.5 lm= 2 ||| -3.1 ||| 0\nu1 |||  ||| am= -2.25 lm= 1e-3 ||| -3.2 ||| 1\n'
        "u2 ||| a cat ||| am= 3 lm= -4 ||| -1 ||| 2\n",
        _LAST,
    ),
    "Moses before 2013": (
        'u1||| the "cat  ||| am: -1.5 lm: 2 ||| -3.1 ||| 0\nu1|||   ||| am: -2.25 lm: 1e-3 ||| -3.2 ||| 1\n'
        "u2||| a cat  ||| am: 3 lm: -4 ||| -1 ||| 2\n",
        _LAST,
    ),
    "pairs in any order": (
        'u1 ||| the "cat ||| am=-1.5 lm=2 ||| -3.1 ||| 0\nu1 |||  ||| lm=1e-3 am=-2.25 ||| -3.2 ||| 1\n'
        "u2 ||| a cat ||| am=3 lm=-4 ||| -1 ||| 2\n",
        _LAST,
    ),
    "travatar": (
        'u1 ||| the "cat ||| -3.1 ||| am=-1.5 lm=2 ||| 0\nu1 |||  ||| -3.2 ||| am=-2.25 lm=1e-3 ||| 1\n'
        "u2 ||| a cat ||| -1 ||| am=3 lm=-4 ||| 2\n",
        _LAST,
    ),
    "best of N": (
        '{"id": "u1", "prompt": "?", "candidates": [{"text": "the \\"cat", "scores": {"am": -1.5, "lm": 2}, '
        '"statistics": {"errors": 0}}, {"text": "", "scores": {"lm": 1e-3, "am": -2.25}, "statistics": {"errors": 1}, '
        '"tokens": 3}]}\n'
        '{"id": "u2", "candidates": [{"text": "a cat", "scores": {"am": 3, "lm": -4}, "statistics": {"errors": 2}}]}\n',
        {},
    ),
}
