"""A decoder that stays: a program that takes weights and gives lists in lines of JSON, again and again.

For each decoding it gets one line,

    {"decoding": 1, "weights": {"am": 1, "lm": 6.5}, "n": 100, "inputs": ["a.wav", "b.wav"]}

For each input it writes one line, in any order, and nothing else,

    {"id": "a.wav", "own": "what it would show", "hypotheses": [{"text": "...", "features": {"am": -310.5, "lm": -7}}]}

`id` is the input and `features` may be numbers in the order of the weights. `own` may be left out everywhere: then the
first hypothesis is what it would show. `decoding` may be repeated in an answer, which is then refused in any other
decoding. `{"error": "..."}` gives up.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from lpmert.errors import DataError, DecoderError
from lpmert.formats.text import Place, unique_keys
from lpmert.looping.decoder import Decoded
from lpmert.looping.process import Launch, Program
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted, shortened
from lpmert.values import are_texts, in_order, named_weights, whole_number


class Worker:
    """A decoder in a process that is started once, and again after it has failed.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments; no shell sees them.
    inputs : sequence of str
        What to decode; each is the name of its list.
    folder : str or Path, optional
        Where the program runs.
    environment : mapping from str to str, optional
        Variables for it, besides those of this process.
    timeout : float, optional
        Seconds for one decoding of all inputs.

    Notes
    -----
    The module's description has the protocol. Use it in a `with` block, or `close` it.
    """

    def __init__(
        self,
        command: Sequence[str],
        inputs: Sequence[str],
        *,
        folder: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> None:
        self._launch = Launch(command, folder, environment, timeout)
        if isinstance(inputs, str) or not isinstance(inputs, Sequence) or not inputs:
            raise DecoderError(f"inputs must be the names of what to decode, not {quoted(inputs)}")
        self.inputs = tuple(inputs)
        twice = [name for name, count in Counter(map(str, self.inputs)).items() if count > 1]
        if twice or not are_texts(self.inputs):
            raise DecoderError(f"inputs must be different texts, not {quoted(twice or inputs)}")
        self._program: Program | None = None
        self._decodings = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the program, if it runs."""
        if self._program is not None:
            program, self._program = self._program, None
            program.end()

    def decode(self, weights: Mapping[str, float], n: int) -> Decoded:
        """Return the lists of all inputs.

        Raises `DecoderError`, after which the next call starts the program again, and `DataError` for what are no
        weights.
        """
        weights, n = named_weights(weights), whole_number(n, "n", 1, DecoderError)
        if self._program is None:
            self._program = self._launch.program()
        program, deadline = self._program, self._launch.deadline
        try:
            self._decodings += 1
            asked = {"decoding": self._decodings, "weights": weights, "n": n, "inputs": self.inputs}
            program.ask(json.dumps(asked, allow_nan=False), deadline)
            answers = self._answers(program, deadline)
        except BaseException:
            self._program = None
            program.end(wait=False)
            raise
        try:
            return _decoded([answers[one] for one in self.inputs], tuple(weights))
        except DataError as error:
            raise program.failure(f"gave lists that cannot be used: {error}") from error

    def _answers(self, program: Program, deadline: float | None) -> dict[str, dict[str, Any]]:
        answers: dict[str, dict[str, Any]] = {}
        expected = {*self.inputs}
        while len(answers) < len(self.inputs):
            line = program.line(deadline)
            try:
                answer = json.loads(line, object_pairs_hook=unique_keys)
            except (ValueError, RecursionError) as error:
                raise program.failure(f"wrote {quoted(line)}, which is not JSON ({error})") from error
            if isinstance(answer, dict) and "error" in answer:
                why = answer["error"]
                raise program.failure(f"gave up: {shortened(why) if isinstance(why, str) else quoted(why)}")
            name = answer.get("id") if isinstance(answer, dict) else None
            if not isinstance(name, str) or name not in expected or name in answers:
                raise program.failure(f"wrote {quoted(line)}, which is no answer about an input that it was to decode")
            if (number := answer.get("decoding", self._decodings)) != self._decodings:
                raise program.failure(
                    f"answered decoding {quoted(number)} about {quoted(name)} in decoding {self._decodings}; it must "
                    "answer each request before it reads the next one"
                )
            answers[name] = answer
        return answers


def _decoded(answers: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Decoded:
    features: list[list[float]] = []
    texts: list[str] = []
    sizes: dict[str, int] = {}
    own: dict[str, str] = {}
    for answer in answers:
        hypotheses = answer.get("hypotheses")
        if not isinstance(hypotheses, list):
            raise DataError("no array of hypotheses", path=answer["id"])
        for one in hypotheses:
            text = one.get("text") if isinstance(one, dict) else None
            if not isinstance(text, str):
                raise DataError(f"a hypothesis without a text: {quoted(one)}", path=answer["id"])
            texts.append(text)
            features.append(_features(one.get("features"), names, answer["id"]))
        if hypotheses:
            sizes[answer["id"]] = len(hypotheses)
        if "own" in answer:
            if not isinstance(answer["own"], str):
                raise DataError(f"own must be a text, not {quoted(answer['own'])}", path=answer["id"])
            own[answer["id"]] = answer["own"]
        elif not hypotheses:
            raise DataError("neither hypotheses nor an output of its own", path=answer["id"])
    if own and len(own) < len(answers):
        raise DataError("some inputs have an output of their own, others do not")
    if not texts:
        raise DataError("no hypothesis of any input")
    offsets = np.cumsum([0, *sizes.values()])
    lists = NBest(features, offsets, np.zeros(len(texts)), names, tuple(sizes), texts=texts)
    return Decoded(lists, own or None)


def _features(given: Any, names: Sequence[str], path: str) -> list[float]:
    if isinstance(given, dict):
        given = in_order(given, names, "the features")
    if not isinstance(given, list) or len(given) != len(names):
        raise DataError(f"features must be {len(names)} numbers, not {quoted(given)}", path=path)
    place = Place(path, 1)
    return [place.json_number(value, f"feature {quoted(name)}") for name, value in zip(names, given, strict=True)]
