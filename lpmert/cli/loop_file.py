"""A loop with a decoder in a TOML file: the decoder, its first weights, their region, and references.

Paths count from the folder of the file, and programs run there. The keys of [region] are those of options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from lpmert.cli.running import naming
from lpmert.cli.search import Where, options_by_key
from lpmert.cli.settings import check_keys, read_toml, values_of
from lpmert.errors import DataError, DecoderError, RegionError
from lpmert.formats.references import read_transcripts
from lpmert.formats.weights import read_weights
from lpmert.looping.decoder import Decoder
from lpmert.looping.loop import loop
from lpmert.looping.programs import Command, Worker
from lpmert.model.region import Region
from lpmert.quoting import quoted
from lpmert.values import named_weights

_MAIN = ("weights", "references", "metric", "n", "region", "decoder", "held-out", "loop")
_HELD_OUT = ("references", "decoder")
_DECODER = ("folder", "environment", "timeout")
_WORKER = ("worker", "inputs", *_DECODER)
_COMMAND = ("command", "stdout", "reading", "weights_like", *_DECODER)
_ELSEWHERE = {*_MAIN, "held_out", "held_out_references", "folder", "resume", "on_iteration"}
_OPTIONS = signature(loop).parameters.values()
_LOOP = [one.name for one in _OPTIONS if one.kind is one.KEYWORD_ONLY and one.name not in _ELSEWHERE]


@dataclass(frozen=True)
class Config:
    """What `lpmert.loop` is called with, and what to close afterwards."""

    decoder: Decoder
    weights: Mapping[str, float]
    arguments: Mapping[str, Any]
    closing: ExitStack


def read_config(path: str | Path) -> Config:
    """Read a loop from a file; raises `DataError`, which names the key, and `DecoderError`."""
    place = Path(path)
    document = read_toml(place)
    check_keys(document, _MAIN, place)
    weights = _weights(document, place)
    main = _table(document, "decoder", place)
    closing = ExitStack()
    try:
        arguments: dict[str, Any] = {name: document[name] for name in ("metric", "n") if name in document}
        references = _references(document, place)
        if references is not None:
            arguments["references"] = references
        if "region" in document:
            arguments["region"] = _region(_table(document, "region", place), tuple(weights), place)
        decoder = _decoder(main, references, weights, place, closing)
        if "held-out" in document:
            aside = _table(document, "held-out", place)
            check_keys(aside, _HELD_OUT, place, "held-out.")
            others = _references(aside, place)
            differing = _table(aside, "decoder", place) if "decoder" in aside else {}
            merged = {**main, **differing}
            if "inputs" in main and "inputs" not in differing:
                del merged["inputs"]
            arguments["held_out"] = _decoder(merged, others, weights, place, closing)
            if others is not None:
                arguments["held_out_references"] = others
        options = document.get("loop", {})
        check_keys(options, _LOOP, place, "loop.")
    except BaseException:
        closing.close()
        raise
    return Config(decoder, weights, {**arguments, **options}, closing)


def _weights(document: Mapping[str, Any], place: Path) -> dict[str, float]:
    if "weights" not in document:
        raise DataError("weights are missing; give them by name, weights = { am = 1, lm = 7 }, or a file", path=place)
    given = document["weights"]
    with naming(str(place)):
        return named_weights(read_weights(place.parent / given) if isinstance(given, str) else given)


def _references(document: Mapping[str, Any], place: Path) -> Any:
    given = document.get("references")
    if given is None or isinstance(given, dict):
        return given
    if isinstance(given, str):
        return place.parent / given
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return [place.parent / one for one in given]
    raise DataError(f"references must be a file or several, not {quoted(given)}", path=place)


def _region(given: Mapping[str, Any], names: Sequence[str], place: Path) -> Region | None:
    known = options_by_key(Where)
    del known["cosine"], known["around"]  # steps of the loop have cosines of their own
    try:
        return Where(**values_of(given, known, place, "region.")).region(names)
    except RegionError as error:
        raise DataError(f"region: {error}", path=place) from error


def _decoder(
    given: Mapping[str, Any], references: Any, weights: Mapping[str, float], place: Path, closing: ExitStack
) -> Decoder:
    if ("worker" in given) == ("command" in given):
        raise DataError("decoder needs either command or worker: the words of a program", path=place)
    check_keys(given, _WORKER if "worker" in given else _COMMAND, place, "decoder.")
    settings = {"folder": ".", **given}
    for name in ("folder", "weights_like"):
        if name in settings:
            if not isinstance(settings[name], str):
                raise DataError(f"decoder.{name} must be a path, not {quoted(settings[name])}", path=place)
            settings[name] = place.parent / settings[name]
    try:
        if "command" in given:
            return Command(settings.pop("command"), tuple(weights), references=references, **settings)
        inputs = settings.pop("inputs", None)
        if inputs is None:
            if not isinstance(references, Mapping | Path):
                raise DataError("decoder.inputs are missing: what the worker is to decode")
            inputs = [*read_transcripts(references)]
        return closing.enter_context(Worker(settings.pop("worker"), inputs, **settings))
    except DecoderError as error:
        raise DecoderError(f"{place}: {error}") from error
    except DataError as error:
        raise error if error.path is not None else DataError(str(error), path=place) from error


def _table(document: Mapping[str, Any], name: str, place: Path) -> Mapping[str, Any]:
    found = document.get(name)
    if not isinstance(found, dict):
        raise DataError(f"the table [{name}] is missing", path=place)
    return found
