"""Decoders: weights in, N-best lists and own outputs out; programs as decoders; and the cost of the outputs.

A program is a command that is run for each decoding, or a worker that keeps running. Both are started without a shell;
the errors of programs that fail quote their last messages.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Formatter
from typing import IO, Any, Protocol, cast

import numpy as np

from lpmert.errors import DataError, DecoderError, reason_of
from lpmert.files import LONGEST_LINE, scratch_folder, unique_keys, write_text
from lpmert.formats.detect import read
from lpmert.formats.format import Place
from lpmert.formats.utterances import References
from lpmert.formats.weights import WeightsFile, read_weights, weights_text
from lpmert.limits import checkpoint, signals_blocked, undone_by_abort
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted, repeated, shortened
from lpmert.values import are_texts, are_texts_by_name, in_order, named_weights, whole_number


@dataclass(frozen=True, eq=False)
class Decoded:
    """The outputs of a decoder for its inputs.

    Parameters
    ----------
    lists : NBest
        The N-best lists, each in the decoder's order, with texts or with statistics.
    own : mapping from str to str, optional
        The text that the decoder would show for each list. It may have lists that are not among `lists`, for which the
        decoder has no alternatives. By default, the first hypothesis of each list is the decoder's own output.
    """

    lists: NBest
    own: Mapping[str, str] | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the decoded inputs."""
        return self.lists.list_ids if self.own is None else tuple(self.own)


class Decoder(Protocol):
    """The interface of a decoder for `lpmert.loop`; it decodes the same inputs in every call."""

    def decode(self, weights: Mapping[str, float], n: int) -> Decoded:
        """Decode all inputs.

        Parameters
        ----------
        weights : mapping from str to float
            The weights by feature.
        n : int
            The approximate maximum number of hypotheses per input.

        Returns
        -------
        Decoded
            The hypotheses of each input, and the decoder's own outputs.

        Raises
        ------
        DecoderError
            If decoding fails. The loop then ends, and can be resumed.
        """


def checked(decoded: object, names: Sequence[str], ids: Sequence[str] | None) -> Decoded:
    """Return the outputs of a decoder, with the features in the order of `names`.

    ids: of the inputs in the first decoding. Raises `DecoderError` for other objects, and if features or lists are
    missing or new.
    """
    if not isinstance(decoded, Decoded):
        raise DecoderError(f"decode must return an lpmert.Decoded, not {quoted(decoded)}")
    if not isinstance(decoded.lists, NBest):
        raise DecoderError(f"the lists of an lpmert.Decoded must be an lpmert.NBest, not {quoted(decoded.lists)}")
    lists, own = decoded.lists, decoded.own
    if own is not None and not are_texts_by_name(own):
        raise DecoderError(f"own of an lpmert.Decoded must be texts by the names of lists, or None, not {quoted(own)}")
    if {*lists.names} != {*names}:
        raise DecoderError(
            f"the weights are for {listed(names)}, but the decoder's lists have the features {listed(lists.names)}"
        )
    if lists.names != tuple(names):
        lists = lists.select_features(names)
    if own is not None:
        if lists.texts is None:
            raise DecoderError("the decoder's own outputs are texts, but its lists have none; read them with texts")
        if stray := [one for one in lists.list_ids if one not in own]:
            raise DecoderError(f"list {quoted(stray[0])} is not among the decoder's own outputs")
    if ids is not None and {*decoded.ids} != {*ids}:
        before, now = dict.fromkeys(ids), dict.fromkeys(decoded.ids)
        missing, new = [one for one in before if one not in now], [one for one in now if one not in before]
        faults = [f"{what} {listed(found)}" for what, found in (("lacks", missing), ("has the new", new)) if found]
        raise DecoderError(f"the decoder's output {' and '.join(faults)}; it must decode the same inputs every time")
    return Decoded(lists, own)


def own_texts(decoded: Decoded) -> dict[str, str]:
    """Return the decoder's own outputs by list; raises `DataError` without texts."""
    if decoded.own is not None:
        return dict(decoded.own)
    if decoded.lists.texts is None:
        raise DataError("the decoder's lists have no texts; read them with a text column")
    firsts = decoded.lists.offsets[:-1].tolist()
    return {name: decoded.lists.texts[row] for name, row in zip(decoded.lists.list_ids, firsts, strict=True)}


def check_references(references: object) -> None:
    """Raise `DataError` unless an object is of a type that references can have."""
    if references is None or isinstance(references, str | Path):
        return
    if isinstance(references, Mapping):
        if not are_texts_by_name(references):
            raise DataError(f"references by list must be texts by the names of lists, not {quoted(references)}")
    elif not (isinstance(references, Sequence) and references and all(isinstance(p, str | Path) for p in references)):
        raise DataError(f"references must be texts by list, a file or several files, not {quoted(references)}")


_LAST_LINES, _LAST_BYTES = 8, 4096  # of a program's messages
_BLOCK, _SHOWN = 1 << 16, 80  # bytes read at once, and of a line in a message
_GRACE_SECONDS = 5.0  # how long a program may take to end once its input is closed
_LOOK_SECONDS = 0.2  # seconds between looks at the limits of the call while a program computes
_MESSAGE_SECONDS = 1.0  # wait for last messages of a killed program: what left its group may keep the pipe open


def _check_program(command: object, folder: object) -> None:
    """Raise `DecoderError` unless these are the words of a program, and the folder where it runs."""
    if not isinstance(command, Sequence) or isinstance(command, str) or not command or not are_texts(command):
        raise DecoderError(f"the command must be the words of a program and its arguments, not {quoted(command)}")
    if folder is not None and not isinstance(folder, str | Path):
        raise DecoderError(f"folder must be a path, not {quoted(folder)}")


class Program(AbstractContextManager["Program"]):
    """A program that runs without a shell, in a process group of its own, until `end` or the end of the `with` block.

    pipe: `subprocess.PIPE` for one that is asked and answers, or `subprocess.DEVNULL`. Raises `DecoderError` if it
    cannot be started.
    """

    def __init__(self, words: Sequence[str], folder: str | Path | None, pipe: int) -> None:
        self._name = quoted(Path(words[0]).name)
        self._unread, self._messages, errors = bytearray(), b"", subprocess.PIPE
        try:
            with signals_blocked():
                self._process = subprocess.Popen(
                    [*words], cwd=folder, stdin=pipe, stdout=pipe, stderr=errors, start_new_session=True
                )
        except (OSError, ValueError) as error:
            why = reason_of(error) if isinstance(error, OSError) else str(error)
            if folder is not None and not Path(folder).is_dir():
                why = f"there is no folder {quoted(str(folder))} to run it in"
            raise DecoderError(f"the decoder {quoted(words[0])} cannot be started: {why}") from error
        self._input, self._output = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        self._listener = threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()
        with ExitStack() as stack:
            if pipe == subprocess.PIPE:
                os.set_blocking(self._input.fileno(), False)
                stack.enter_context(self._output)
            stack.enter_context(undone_by_abort(self._kill))
            self._closing = stack.pop_all()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.end(wait=error is None)

    def ask(self, request: str) -> None:
        """Send a line to the program; raises `DecoderError` if it has ended."""
        left = memoryview(request.encode() + b"\n")
        while left:
            self._await(self._input, selectors.EVENT_WRITE)
            try:
                left = left[os.write(self._input.fileno(), left) :]
            except OSError as error:
                raise self.ended() from error

    def line(self) -> str:
        """Return the next line that the program writes, without the line feed.

        Raises `DecoderError` if the program ends, or the line is too long or not UTF-8.
        """
        searched = 0
        while (end := self._unread.find(b"\n", searched)) < 0:
            searched = len(self._unread)
            if searched > LONGEST_LINE:
                raise self.failure(
                    f"wrote a line of more than {LONGEST_LINE:,} bytes, {_shown(self._unread)}...; each answer "
                    "must end with a line feed, and n limits how many hypotheses it may have"
                )
            self._await(self._output, selectors.EVENT_READ)
            block = os.read(self._output.fileno(), _BLOCK)
            if not block:
                raise self.ended()
            self._unread += block
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise self.failure(f"wrote a line that is not UTF-8: {_shown(line)}") from error

    def finish(self) -> None:
        """Wait until the program has ended; raises `DecoderError` if it fails."""
        while (code := self._code_within(_LOOK_SECONDS)) is None:
            checkpoint()
        if code:
            raise self.failure(_ending(code))

    def end(self, *, wait: bool = True) -> None:
        """End the program and the processes that it has started; wait: give it time to end by itself."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        if wait:
            self._code_within(_GRACE_SECONDS)
        self._kill()
        self._process.wait()
        self._closing.close()

    def failure(self, why: str) -> DecoderError:
        """Kill the program, and return an error that says why, with its last messages."""
        self._kill()
        self._listener.join(_MESSAGE_SECONDS)
        lines = [line.rstrip() for line in self._messages.decode(errors="replace").splitlines() if line.strip()]
        messages = "".join(f"\n  {shortened(line)}" for line in lines[-_LAST_LINES:])
        return DecoderError(f"the decoder {self._name} {why}{messages}")

    def ended(self) -> DecoderError:
        code = self._code_within(_GRACE_SECONDS)
        what = "closed its output" if code is None else _ending(code)
        return self.failure(f"{what} before it had answered")

    @staticmethod
    def _await(stream: IO[bytes], event: int) -> None:
        """Wait until the program has written, or can read more; raises `OutOfTime` at a limit of the call."""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, event)
            checkpoint()
            while not selector.select(_LOOK_SECONDS):
                checkpoint()

    def _listen(self, errors: IO[bytes]) -> None:
        """Read the program's standard error and keep its end, until all processes have closed it."""
        with errors:
            while block := os.read(errors.fileno(), _BLOCK):
                self._messages = (self._messages + block)[-_LAST_BYTES:]

    def _code_within(self, seconds: float) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def _kill(self) -> None:
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _shown(line: bytes | bytearray) -> str:
    return quoted(line[:_SHOWN].decode(errors="replace"))


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


_PLACES = ("weights", "weight", "n", "lists")


class Command:
    """A decoder that is started anew for each decoding.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments, run without a shell. `{weights}` is replaced by the name of a file with the
        weights, `{weight:lm}` by the weight of the feature lm, `{n}` by the number of hypotheses, `{lists}` by the name
        of the file for the lists; `{{` and `}}` are braces. Its standard output is dropped.
    names : sequence of str
        The features, in the order of the file of weights.
    reading : mapping, optional
        Arguments of `lpmert.read` for the lists, such as `format`, `segment`, `text`.
    references : mapping, str, Path or sequence, optional
        The reference texts, for lists without statistics; the loop counts the statistics itself.
    weights_like : str or Path, optional
        A file whose format the file of weights takes, such as moses.ini; by default lines `name value`.
    folder : str or Path, optional
        Where the command runs.

    Notes
    -----
    The decoder's own output is the first hypothesis of each list.
    """

    def __init__(
        self,
        command: Sequence[str],
        names: Sequence[str],
        *,
        reading: Mapping[str, Any] | None = None,
        references: References | Sequence[str | Path] | None = None,
        weights_like: str | Path | None = None,
        folder: str | Path | None = None,
    ) -> None:
        _check_program(command, folder)
        self._command, self._folder = command, folder
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
        if "lists" not in used:
            raise DecoderError("the command does not get the file for its lists: {lists} is not in it")
        if not used & {"weights", "weight"}:
            raise DecoderError("the command does not get the weights: neither {weights} nor {weight:NAME} is in it")
        counted = {} if references is None else {"references": references, "metric": "wer", "partial": True}
        self._reading = {**counted, **(reading or {})}
        self._like = WeightsFile.of_lines(names) if weights_like is None else read_weights(weights_like)

    def decode(self, weights: Mapping[str, float], n: int) -> Decoded:
        """Run the command and read its output; see `Decoder.decode`. Raises `DataError` for invalid weights."""
        by_name = named_weights(weights)
        with scratch_folder() as scratch:
            files = {name: scratch / name for name in ("weights", "lists")}
            values = np.array(in_order(by_name, self._names, "weights", more=True))
            same = partial(np.array_equal, values)
            write_text(files["weights"], weights_text(self._names, values, same, like=self._like)[0])
            places = {name: str(path) for name, path in files.items()} | {"n": str(n)}
            words = [word.format(**places, weight=_Weights(by_name)) for word in self._command]
            with Program(words, self._folder, subprocess.DEVNULL) as program:
                program.finish()
                try:
                    return Decoded(read(files["lists"], **self._reading))
                except DataError as error:
                    text = str(error).replace(str(files["lists"]), "{lists}")
                    raise program.failure(f"wrote what cannot be used: {text}") from error


def _places(word: str) -> Iterator[tuple[str, str]]:
    try:
        parts = [*Formatter().parse(word)]
    except ValueError as error:
        raise DecoderError(f"{quoted(word)} in the command: {error}; write {{{{ and }}}} for braces") from error
    for _, name, rest, _ in parts:
        if name is not None:
            yield name, rest or ""


class _Weights(dict[str, float]):
    """Weights, of which `{weight:NAME}` shows one."""

    def __format__(self, name: str) -> str:
        return repr(self[name])


class Worker(AbstractContextManager["Worker"]):
    """A decoder in a process that keeps running; it is only restarted after a failure.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments, run without a shell.
    inputs : sequence of str
        The inputs to decode; each is also the id of its list.
    folder : str or Path, optional
        Where the program runs.

    Notes
    -----
    For each decoding the program reads a line of JSON with `decoding`, `weights`, `n` and `inputs`, and writes a line
    of JSON for each input; `docs/loop.md` has the protocol. Use a `Worker` in a `with` block, or `close` it.
    """

    def __init__(self, command: Sequence[str], inputs: Sequence[str], *, folder: str | Path | None = None) -> None:
        _check_program(command, folder)
        self._command, self._folder = command, folder
        if isinstance(inputs, str) or not isinstance(inputs, Sequence) or not inputs:
            raise DecoderError(f"inputs must be the names of what to decode, not {quoted(inputs)}")
        self.inputs = tuple(inputs)
        twice = repeated(map(str, self.inputs))
        if twice is not None or not are_texts(self.inputs):
            raise DecoderError(f"inputs must be different texts, not {quoted(twice or inputs)}")
        self._known = frozenset(self.inputs)
        self._program: Program | None = None
        self._decodings = 0

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the program, if it runs."""
        if self._program is not None:
            program, self._program = self._program, None
            program.end()

    def decode(self, weights: Mapping[str, float], n: int) -> Decoded:
        """Decode all inputs; see `Decoder.decode`.

        After a `DecoderError`, the next call starts the program again. Raises `DataError` for invalid weights.
        """
        weights, n = named_weights(weights), whole_number(n, "n", 1, DecoderError)
        if self._program is None:
            self._program = Program(self._command, self._folder, subprocess.PIPE)
        program = self._program
        try:
            self._decodings += 1
            request = {"decoding": self._decodings, "weights": weights, "n": n, "inputs": self.inputs}
            program.ask(json.dumps(request, allow_nan=False))
            answers = self._answers(program)
            try:
                return _decoded([answers[one] for one in self.inputs], tuple(weights))
            except DataError as error:
                raise program.failure(f"gave lists that cannot be used: {error}") from error
        except BaseException:
            self._program = None
            program.end(wait=False)
            raise

    def _answers(self, program: Program) -> dict[str, dict[str, Any]]:
        answers: dict[str, dict[str, Any]] = {}
        while len(answers) < len(self.inputs):
            line = program.line()
            try:
                answer = json.loads(line, object_pairs_hook=unique_keys)
            except (ValueError, RecursionError) as error:
                raise program.failure(f"wrote {quoted(line)}, which is not JSON ({error})") from error
            name = answer.get("id") if isinstance(answer, dict) else None
            if not isinstance(name, str) or name not in self._known or name in answers:
                raise program.failure(f"wrote {quoted(line)}, which is no answer about an input that it was to decode")
            if (number := answer.get("decoding")) != self._decodings:
                raise program.failure(
                    f"answered decoding {quoted(number)} about {quoted(name)} in decoding {self._decodings}; each "
                    "answer must have the number of its request, and come before the next one"
                )
            answers[name] = answer
        return answers


def _decoded(answers: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Decoded:
    features: list[list[float]] = []
    texts: list[str] = []
    sizes: dict[str, int] = {}
    own: dict[str, str] = {}
    for answer in answers:
        name, hypotheses = answer["id"], answer.get("hypotheses")
        if not isinstance(hypotheses, list):
            raise DataError("no array of hypotheses", path=name)
        for one in hypotheses:
            text = one.get("text") if isinstance(one, dict) else None
            if not isinstance(text, str):
                raise DataError(f"a hypothesis without a text: {quoted(one)}", path=name)
            texts.append(text)
            features.append(_features(one.get("features"), names, name))
        if hypotheses:
            sizes[name] = len(hypotheses)
        elif "own" not in answer:
            raise DataError("neither hypotheses nor an output of its own", path=name)
        own[name] = answer["own"] if "own" in answer else hypotheses[0]["text"]
        if not isinstance(own[name], str):
            raise DataError(f"own must be a text, not {quoted(own[name])}", path=name)
    if not texts:
        raise DataError("no hypothesis of any input")
    offsets = np.cumsum([0, *sizes.values()])
    return Decoded(NBest(features, offsets, np.zeros(len(texts)), names, tuple(sizes), texts=texts), own)


def _features(values: Any, names: Sequence[str], path: str) -> list[float]:
    if not isinstance(values, dict):
        raise DataError(f"features must be numbers by name, not {quoted(values)}", path=path)
    place = Place(path, 1)
    ordered = zip(names, in_order(values, names, "the features"), strict=True)
    return [place.number(value, f"feature {quoted(name)}", textual=False) for name, value in ordered]
