"""The TOML file of `lpmert loop`: the decoder, its first weights, their region, and references.

Paths are relative to the folder of the file, and programs run there. The keys of [region] are those of options; the
keys of [decoder] and [loop] are the arguments of the decoder's class and of `lpmert.loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from lpmert.cli.running import naming
from lpmert.cli.search import RegionOptions, options_by_key
from lpmert.cli.values import check_keys, read_toml, values_of
from lpmert.errors import DataError, DecoderError, RegionError
from lpmert.formats.utterances import read_transcripts
from lpmert.formats.weights import read_weights
from lpmert.looping.decoders import Command, Decoder, Worker
from lpmert.looping.loop import loop
from lpmert.model.region import Region
from lpmert.quoting import quoted
from lpmert.values import are_texts, named_weights


def _arguments(function: Callable[..., Any], *excluded: str) -> list[str]:
    return [name for name in signature(function).parameters if name not in excluded]


_MAIN = ("weights", "references", "metric", "n", "region", "decoder", "held-out", "loop")
_LOOP = _arguments(loop, *_MAIN, "held_out", "held_out_references", "folder", "resume", "on_iteration")
_DECODERS = {
    "command": _arguments(Command, "names", "references"),
    "worker": ["worker", *_arguments(Worker, "command")],
}


@dataclass(frozen=True)
class Config:
    """Arguments of `lpmert.loop`; `closing` ends the programs that were started."""

    decoder: Decoder
    weights: Mapping[str, float]
    arguments: Mapping[str, Any]
    closing: ExitStack


def read_config(path: str | Path) -> Config:
    """Read the description of a loop; raises `DataError`, which names the key, and `DecoderError`."""
    file = Path(path)
    document = read_toml(file)
    check_keys(document, _MAIN, file)
    with naming(str(file)), ExitStack() as closing:
        weights = _weights(document, file)
        main = _table(document, "decoder")
        arguments: dict[str, Any] = {name: document[name] for name in ("metric", "n") if name in document}
        references = arguments["references"] = _references(document, file)
        if "region" in document:
            arguments["region"] = _region(_table(document, "region"), tuple(weights), file)
        decoder = _decoder(main, references, weights, file, closing)
        if "held-out" in document:
            held_out = _table(document, "held-out")
            check_keys(held_out, ("references", "decoder"), file, "held-out.")
            references = arguments["held_out_references"] = _references(held_out, file)
            changes = _table(held_out, "decoder") if "decoder" in held_out else {}
            no_inputs = {"inputs": None} if "inputs" in main else {}
            arguments["held_out"] = _decoder({**main, **no_inputs, **changes}, references, weights, file, closing)
        options = document.get("loop", {})
        check_keys(options, _LOOP, file, "loop.")
        return Config(decoder, weights, {**arguments, **options}, closing.pop_all())


def _weights(document: Mapping[str, Any], file: Path) -> dict[str, float]:
    if "weights" not in document:
        raise DataError("weights are missing; give them by name, weights = { am = 1, lm = 7 }, or a file")
    value = document["weights"]
    return named_weights(read_weights(file.parent / value) if isinstance(value, str) else value)


def _references(document: Mapping[str, Any], file: Path) -> Any:
    value = document.get("references")
    if isinstance(value, str):
        return file.parent / value
    if isinstance(value, list) and are_texts(value):
        return [file.parent / path for path in value]
    if value is None or isinstance(value, dict):
        return value
    raise DataError(f"references must be a file or several, not {quoted(value)}")


def _region(table: Mapping[str, Any], names: Sequence[str], file: Path) -> Region | None:
    known = options_by_key(RegionOptions)
    del known["cosine"], known["around"]  # the loop sets a cosine for each step
    try:
        return RegionOptions(**values_of(table, known, file, "region.")).region(names)
    except RegionError as error:
        raise DataError(f"region: {error}") from error


def _decoder(
    table: Mapping[str, Any], references: Any, weights: Mapping[str, float], file: Path, closing: ExitStack
) -> Decoder:
    if ("worker" in table) == ("command" in table):
        raise DataError("decoder needs either command or worker: the words of a program")
    kind = "worker" if "worker" in table else "command"
    check_keys(table, _DECODERS[kind], file, "decoder.")
    settings = {"folder": ".", **table}
    words = settings.pop(kind)
    for name in ("folder", "weights_like"):
        if name in settings:
            if not isinstance(settings[name], str):
                raise DataError(f"decoder.{name} must be a path, not {quoted(settings[name])}")
            settings[name] = file.parent / settings[name]
    try:
        if kind == "command":
            return Command(words, tuple(weights), references=references, **settings)
        inputs = settings.pop("inputs", None)
        if inputs is None:
            if not isinstance(references, Mapping | Path):
                raise DataError("decoder.inputs are missing: what to decode; give references, also in [held-out]")
            inputs = [*read_transcripts(references)]
        return closing.enter_context(Worker(words, inputs, **settings))
    except DecoderError as error:
        raise DecoderError(f"{file}: {error}") from error


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = document.get(name)
    if not isinstance(table, dict):
        raise DataError(f"the table [{name}] is missing")
    return table
