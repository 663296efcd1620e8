"""A loop with a decoder in a TOML file: the decoder, its first weights, their region, and references.

Paths count from the folder of the file, and programs run there. The keys of [region] are those of options; those of
[decoder] and [loop] are the arguments of the decoder's class and of `lpmert.loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from lpmert.cli.running import naming
from lpmert.cli.search import Where, options_by_key
from lpmert.cli.values import check_keys, read_toml, values_of
from lpmert.errors import DataError, DecoderError, RegionError
from lpmert.formats.references import read_transcripts
from lpmert.formats.weights import read_weights
from lpmert.looping.decoder import Decoder
from lpmert.looping.loop import loop
from lpmert.looping.programs import Command, Worker
from lpmert.model.region import Region
from lpmert.quoting import quoted
from lpmert.values import named_weights


def _arguments(of: Callable[..., Any], *but: str) -> list[str]:
    return [name for name in signature(of).parameters if name not in but]


_MAIN = ("weights", "references", "metric", "n", "region", "decoder", "held-out", "loop")
_LOOP = _arguments(loop, *_MAIN, "held_out", "held_out_references", "folder", "resume", "on_iteration")
_DECODERS = {
    "command": _arguments(Command, "names", "references"),
    "worker": ["worker", *_arguments(Worker, "command")],
}


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
    with naming(str(place)), ExitStack() as closing:
        weights = _weights(document, place)
        main = _table(document, "decoder")
        arguments: dict[str, Any] = {name: document[name] for name in ("metric", "n") if name in document}
        references = _references(document, place)
        if references is not None:
            arguments["references"] = references
        if "region" in document:
            arguments["region"] = _region(_table(document, "region"), tuple(weights), place)
        decoder = _decoder(main, references, weights, place, closing)
        if "held-out" in document:
            aside = _table(document, "held-out")
            check_keys(aside, ("references", "decoder"), place, "held-out.")
            others = _references(aside, place)
            differing = _table(aside, "decoder") if "decoder" in aside else {}
            own_inputs = {"inputs": None} if "inputs" in main else {}
            arguments["held_out"] = _decoder({**main, **own_inputs, **differing}, others, weights, place, closing)
            if others is not None:
                arguments["held_out_references"] = others
        options = document.get("loop", {})
        check_keys(options, _LOOP, place, "loop.")
        return Config(decoder, weights, {**arguments, **options}, closing.pop_all())


def _weights(document: Mapping[str, Any], place: Path) -> dict[str, float]:
    if "weights" not in document:
        raise DataError("weights are missing; give them by name, weights = { am = 1, lm = 7 }, or a file")
    given = document["weights"]
    return named_weights(read_weights(place.parent / given) if isinstance(given, str) else given)


def _references(document: Mapping[str, Any], place: Path) -> Any:
    given = document.get("references")
    if given is None or isinstance(given, dict):
        return given
    if isinstance(given, str):
        return place.parent / given
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return [place.parent / one for one in given]
    raise DataError(f"references must be a file or several, not {quoted(given)}")


def _region(given: Mapping[str, Any], names: Sequence[str], place: Path) -> Region | None:
    known = options_by_key(Where)
    del known["cosine"], known["around"]  # steps of the loop have cosines of their own
    try:
        return Where(**values_of(given, known, place, "region.")).region(names)
    except RegionError as error:
        raise DataError(f"region: {error}") from error


def _decoder(
    given: Mapping[str, Any], references: Any, weights: Mapping[str, float], place: Path, closing: ExitStack
) -> Decoder:
    if ("worker" in given) == ("command" in given):
        raise DataError("decoder needs either command or worker: the words of a program")
    kind = "worker" if "worker" in given else "command"
    check_keys(given, _DECODERS[kind], place, "decoder.")
    settings = {"folder": ".", **given}
    words = settings.pop(kind)
    for name in ("folder", "weights_like"):
        if name in settings:
            if not isinstance(settings[name], str):
                raise DataError(f"decoder.{name} must be a path, not {quoted(settings[name])}")
            settings[name] = place.parent / settings[name]
    try:
        if kind == "command":
            return Command(words, tuple(weights), references=references, **settings)
        inputs = settings.pop("inputs", None)
        if inputs is None:
            if not isinstance(references, Mapping | Path):
                raise DataError("decoder.inputs are missing: what the worker is to decode")
            inputs = [*read_transcripts(references)]
        return closing.enter_context(Worker(words, inputs, **settings))
    except DecoderError as error:
        raise DecoderError(f"{place}: {error}") from error


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    if not isinstance(found, dict):
        raise DataError(f"the table [{name}] is missing")
    return found
