"""A decoder that is a command: run for each decoding, with the weights in a file or among its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np

from lpmert.errors import DataError, DecoderError
from lpmert.formats.detect import read
from lpmert.formats.references import References, outputs_by_list
from lpmert.formats.weights import WeightsFile, read_weights, weights_text
from lpmert.looping.decoder import Decoded
from lpmert.looping.measure import check_references
from lpmert.looping.process import Launch
from lpmert.quoting import listed, quoted
from lpmert.system.files import write_text
from lpmert.system.scratch import scratch_folder
from lpmert.values import are_texts, in_order, named_weights

_PLACES = ("weights", "weight", "n", "lists", "own")
STDOUT = ("lists", "own", "nothing")
"""What the standard output of a command may be."""


class Command:
    """A decoder that is started anew for each decoding.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments; no shell sees them. In these, `{weights}` stands for a file of the weights,
        `{weight:lm}` for the weight of the feature lm, `{n}` for the number of hypotheses, `{lists}` for the file
        where the lists are expected, `{own}` for that of the decoder's own outputs; `{{` and `}}` are braces.
    names : sequence of str
        The features, in the order of the file of weights.
    stdout : {"lists", "own", "nothing"}, optional
        What the command writes to its standard output; without it the lists, unless `{lists}` is in the command.
    reading : mapping, optional
        Arguments of `lpmert.read` for the lists, such as `format`, `segment`, `text`.
    references : mapping, str, Path or sequence, optional
        What the outputs should be, for lists that come without statistics; the loop counts these anew.
    weights_like : str or Path, optional
        The file whose form the file of weights has, such as moses.ini; without it, lines `name value`.
    folder : str or Path, optional
        Where the command runs.
    environment : mapping from str to str, optional
        Variables for it, besides those of this process.
    timeout : float, optional
        Seconds for one decoding.

    Notes
    -----
    The decoder's own outputs are lines of a list's id and its words, or, where ids are numbers, one line for each list,
    from list 0 on.
    """

    def __init__(
        self,
        command: Sequence[str],
        names: Sequence[str],
        *,
        stdout: str | None = None,
        reading: Mapping[str, Any] | None = None,
        references: References | Sequence[str | Path] | None = None,
        weights_like: str | Path | None = None,
        folder: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> None:
        self._launch = Launch(command, folder, environment, timeout)
        if not isinstance(names, Sequence) or isinstance(names, str | bytes) or not names or not are_texts(names):
            raise DecoderError(f"names must be the names of the features, not {quoted(names)}")
        if reading is not None and not isinstance(reading, Mapping):
            raise DecoderError(f"reading must be arguments of lpmert.read by name, not {quoted(reading)}")
        check_references(references)
        self._names = tuple(names)
        places = [place for word in command for place in _places(word)]
        for place, feature in places:
            if place not in _PLACES:
                raise DecoderError(f"{{{place}}} in the command is none of {listed(_PLACES)}; write {{{{ for a brace")
            if place == "weight" and feature not in names:
                raise DecoderError(f"no feature {quoted(feature)}, of {{weight:...}}; the features are {listed(names)}")
        used = {place for place, _ in places}
        self._stdout = ("nothing" if "lists" in used else "lists") if stdout is None else stdout
        if self._stdout not in STDOUT:
            raise DecoderError(f"the standard output must be one of {listed(STDOUT)}, not {quoted(stdout)}")
        if ("lists" in used) == (self._stdout == "lists"):
            raise DecoderError("the lists must come either in the file {lists} or on the standard output")
        if "own" in used and self._stdout == "own":
            raise DecoderError("the decoder's own outputs come twice: in the file {own} and on the standard output")
        if not used & {"weights", "weight"}:
            raise DecoderError("the command does not get the weights: neither {weights} nor {weight:NAME} is in it")
        self._has_own = "own" in used or self._stdout == "own"
        counted = {} if references is None else {"references": references, "metric": "wer", "partial": True}
        self._reading = {**counted, **(reading or {})}
        self._like = WeightsFile.of_lines(names) if weights_like is None else read_weights(weights_like)

    def decode(self, weights: Mapping[str, float], n: int) -> Decoded:
        """Run the command and read what it wrote; raises `DecoderError`, and `DataError` for what are no weights."""
        by_name, deadline = named_weights(weights), self._launch.deadline
        with scratch_folder() as scratch:
            files = {name: scratch / name for name in ("weights", "lists", "own")}
            values = np.array(in_order(by_name, self._names, "weights", more=True))
            same = partial(np.array_equal, values)
            write_text(files["weights"], weights_text(self._names, values, same, like=self._like)[0])
            places = {name: str(path) for name, path in files.items()} | {"n": str(n)}
            words = [_filled(word, places, by_name) for word in self._launch.command]
            with self._launch.program(words) as program:
                program.output(deadline, files.get(self._stdout))
                try:
                    return self._read(files["lists"], files["own"])
                except (DataError, DecoderError) as error:
                    text = str(error)
                    for name, path in files.items():
                        shown = "standard output" if name == self._stdout else f"{{{name}}}"
                        text = text.replace(str(path), shown)
                    raise program.failure(f"wrote what cannot be used: {text}") from error

    def _read(self, lists: Path, own: Path) -> Decoded:
        found = read(lists, **self._reading)
        return Decoded(found, outputs_by_list(own, found.list_ids) if self._has_own else None)


def _places(word: str) -> Iterator[tuple[str, str]]:
    """Yield what stands in braces in a word, and what follows it after a colon."""
    try:
        parts = [*Formatter().parse(word)]
    except ValueError as error:
        raise DecoderError(f"{quoted(word)} in the command: {error}; write {{{{ and }}}} for braces") from error
    for _, name, rest, _ in parts:
        if name is not None:
            yield name, rest or ""


def _filled(word: str, places: Mapping[str, str], weights: Mapping[str, float]) -> str:
    found = []
    for text, name, rest, _ in Formatter().parse(word):
        found.append(text)
        if name is not None:
            found.append(repr(weights[rest or ""]) if name == "weight" else places[name])
    return "".join(found)
