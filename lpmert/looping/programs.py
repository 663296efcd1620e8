"""Decoders that are programs: a command that is run for each decoding, and a worker that keeps running.

Both are started without a shell and have a time limit; the errors of programs that fail quote their last messages.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Formatter
from typing import IO, Any, cast

import numpy as np

from lpmert.errors import DataError, DecoderError, reason_of
from lpmert.formats.detect import read
from lpmert.formats.references import References, outputs_by_list
from lpmert.formats.text import Place, unique_keys
from lpmert.formats.weights import WeightsFile, read_weights, weights_text
from lpmert.looping.decoder import Decoded, check_references
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted, repeated, shortened
from lpmert.system.deadline import checkpoint
from lpmert.system.files import LONGEST_FILE, LONGEST_LINE, scratch_folder, write_text, writing_to
from lpmert.system.interrupts import signals_blocked, undone_by_abort
from lpmert.system.memory import counting, group_of
from lpmert.values import are_texts, are_texts_by_name, in_order, named_weights, real_number, whole_number

_LAST_LINES = 8
_LAST_BYTES = 4096
_BLOCK = 1 << 16
_SHOWN = 80
_GRACE_SECONDS = 5.0
"""How long a program may take to end once its input is closed."""
_LOOK_SECONDS = 0.2
"""Seconds between checks of the deadline while a program computes; while it writes, each block is followed by one."""
_MESSAGE_SECONDS = 1.0
"""How long to wait for the last messages of a killed program: a process that left its group may keep the pipe open."""
_GROUP_SECONDS = 1.0
"""Seconds between looks at the processes of a program, each of which reads a line for every process of the machine."""


@dataclass(frozen=True)
class Launch:
    """How a program is started, and how long it may take; raises `DecoderError` for invalid values.

    command: its words; folder: where it runs; environment: variables in addition to those of this process; timeout:
    seconds for a decoding.
    """

    command: Sequence[str]
    folder: str | Path | None = None
    environment: Mapping[str, str] | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        words, variables = self.command, {} if self.environment is None else self.environment
        if not isinstance(words, Sequence) or isinstance(words, str) or not words or not are_texts(words):
            raise DecoderError(f"the command must be the words of a program and its arguments, not {quoted(words)}")
        if self.folder is not None and not isinstance(self.folder, str | Path):
            raise DecoderError(f"folder must be a path, not {quoted(self.folder)}")
        if not are_texts_by_name(variables):
            raise DecoderError(f"environment must be texts by name, not {quoted(variables)}")
        seconds = real_number(self.timeout)
        if self.timeout is not None and (seconds is None or not 0.0 < seconds < math.inf):
            raise DecoderError(f"timeout must be a positive number of seconds, not {quoted(self.timeout)}")

    @property
    def deadline(self) -> float:
        """The deadline of a decoding that begins now, as a `time.monotonic()`."""
        return math.inf if self.timeout is None else time.monotonic() + self.timeout

    def started(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start the program with these words, in a process group of its own; raises `DecoderError`."""
        try:
            with signals_blocked():
                return subprocess.Popen(
                    [*command],
                    cwd=self.folder,
                    env={**os.environ, **(self.environment or {})},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            why = reason_of(error) if isinstance(error, OSError) else str(error)
            if self.folder is not None and not Path(self.folder).is_dir():
                why = f"there is no folder {quoted(str(self.folder))} to run it in"
            raise DecoderError(f"the decoder {quoted(command[0])} cannot be started: {why}") from error


class Program:
    """A running program, which ends by `end` or with the `with` block.

    command: its words, unless they are those of the launch. Raises `DecoderError` if it cannot be started.
    """

    def __init__(self, launch: Launch, command: Sequence[str] | None = None) -> None:
        words = launch.command if command is None else command
        self._name = quoted(Path(words[0]).name)
        self._unread, self._written = bytearray(), 0
        self._group, self._looked = list[int](), -math.inf
        self._process = launch.started(words)
        self._input, self._output, errors = (
            cast(IO[bytes], stream) for stream in (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        os.set_blocking(self._input.fileno(), False)
        self.missing = ""
        """What a program that runs out of time has not answered yet, for the error."""
        self._messages = b""
        self._listener = threading.Thread(target=self._listen, args=(errors,), daemon=True)
        self._listener.start()
        with ExitStack() as stack:
            stack.enter_context(self._output)
            stack.enter_context(undone_by_abort(self._kill))
            stack.enter_context(counting(self._processes))
            self._closing = stack.pop_all()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.end(wait=error is None)

    def ask(self, request: str, deadline: float) -> None:
        """Send a line to the program; raises `DecoderError` if it has ended, does not read the line in time, or has
        written more than was requested before.
        """
        stray = self._unread or (self._ready(self._output, selectors.EVENT_READ, 0.0) and self._block(deadline))
        if stray:
            raise self.failure(
                f"wrote {_beginning(stray)} without being asked; its standard output must hold one line for each input "
                "of a decoding, and nothing else: write all else to standard error"
            )
        self._written, self.missing = 0, ""
        left = memoryview(request.encode() + b"\n")
        while left:
            self._await(self._input, selectors.EVENT_WRITE, deadline)
            try:
                left = left[os.write(self._input.fileno(), left) :]
            except OSError as error:
                raise self.ended() from error

    def line(self, deadline: float) -> str:
        """Return the next line that the program writes, without the line feed.

        deadline: a `time.monotonic()`. Raises `DecoderError` if it is reached, the program ends or writes too much, or
        the line is not UTF-8.
        """
        searched = 0
        while (end := self._unread.find(b"\n", searched)) < 0:
            searched = len(self._unread)
            if searched > LONGEST_LINE:
                raise self.failure(
                    f"wrote a line of more than {LONGEST_LINE:,} bytes, {_beginning(self._unread)}; each answer "
                    "must end with a line feed, and n limits how many hypotheses it may have"
                )
            block = self._block(deadline)
            if not block:
                raise self.ended()
            self._unread += block
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise self.failure(f"wrote a line that is not UTF-8: {quoted(line[:_SHOWN])}") from error

    def output(self, deadline: float, place: Path | None = None) -> None:
        """Copy the output of the program into a file, or drop it, until the program has ended.

        Raises `DecoderError` if the deadline is reached, or the program fails or writes too much, `DataError` for a
        file that cannot be written.
        """
        self._close_input()
        target = Path(os.devnull) if place is None else place
        with writing_to(target), target.open("wb") as file:
            while block := self._block(deadline):
                file.write(block)
        while (code := self._code_within(_LOOK_SECONDS)) is None:
            self._look(deadline)
        if code:
            raise self.failure(_ending(code))

    def end(self, *, wait: bool = True) -> None:
        """End the program and the processes that it has started; wait: give it time to end by itself."""
        self._close_input()
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
        """Return the error for a program that ended too early."""
        code = self._code_within(_GRACE_SECONDS)
        what = "closed its output" if code is None else _ending(code)
        return self.failure(f"{what} before it had answered")

    def _block(self, deadline: float) -> bytes:
        """Return the output of the program since the last call; nothing once it has ended."""
        self._await(self._output, selectors.EVENT_READ, deadline)
        block = os.read(self._output.fileno(), _BLOCK)
        self._written += len(block)
        if self._written > LONGEST_FILE:
            raise self.failure(
                f"wrote more than {LONGEST_FILE:,} bytes in one decoding, and was stopped; let it give fewer "
                "hypotheses (n), or find out why it does not end"
            )
        return block

    def _await(self, stream: IO[bytes], event: int, deadline: float) -> None:
        """Wait until the program has written, or can read more."""
        self._look(deadline)
        while not self._ready(stream, event, _LOOK_SECONDS):
            self._look(deadline)

    @staticmethod
    def _ready(stream: IO[bytes], event: int, seconds: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(stream, event)
            return bool(selector.select(seconds))

    def _look(self, deadline: float) -> None:
        checkpoint()
        if time.monotonic() >= deadline:
            raise self.failure(f"was stopped at its time limit{self.missing}; allow more with timeout")

    def _listen(self, errors: IO[bytes]) -> None:
        """Read the program's standard error and keep its end, until all processes have closed it."""
        with errors:
            while block := os.read(errors.fileno(), _BLOCK):
                self._messages = (self._messages + block)[-_LAST_BYTES:]

    def _code_within(self, seconds: float) -> int | None:
        """Wait for the exit code of the program; `None` if it has not ended after so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def _processes(self) -> list[int]:
        """Return the processes of the program's group, at most a second old."""
        now = time.monotonic()
        if now >= self._looked + _GROUP_SECONDS:
            self._looked, self._group = now, group_of(self._process.pid)
        return self._group

    def _kill(self) -> None:
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _close_input(self) -> None:
        with suppress(OSError):
            self._input.close()


def _beginning(line: bytes | bytearray) -> str:
    return quoted(line[:_SHOWN].decode(errors="replace")) + ("..." if len(line) > _SHOWN else "")


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


_PLACES = ("weights", "weight", "n", "lists", "own")
STDOUT = ("lists", "own", "nothing")
"""What a command may write to its standard output."""


class Command:
    """A decoder that is started anew for each decoding.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments, run without a shell. `{weights}` is replaced by the name of a file with the
        weights, `{weight:lm}` by the weight of the feature lm, `{n}` by the number of hypotheses, `{lists}` by the name
        of the file for the lists, `{own}` by that for the decoder's own outputs; `{{` and `}}` are braces.
    names : sequence of str
        The features, in the order of the file of weights.
    stdout : {"lists", "own", "nothing"}, optional
        What the command writes to its standard output; by default the lists, unless `{lists}` is in the command.
    reading : mapping, optional
        Arguments of `lpmert.read` for the lists, such as `format`, `segment`, `text`.
    references : mapping, str, Path or sequence, optional
        The reference texts, for lists without statistics; the loop counts the statistics itself.
    weights_like : str or Path, optional
        A file whose format the file of weights takes, such as moses.ini; by default lines `name value`.
    folder : str or Path, optional
        Where the command runs.
    environment : mapping from str to str, optional
        Environment variables in addition to those of this process.
    timeout : float, optional
        Seconds for one decoding.

    Notes
    -----
    The decoder's own outputs are lines with a list's id and its words; or, if ids are numbers, one line for each list,
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
        """Run the command and read its output; see `Decoder.decode`. Raises `DataError` for invalid weights."""
        by_name, deadline = named_weights(weights), self._launch.deadline
        with scratch_folder() as scratch:
            files = {name: scratch / name for name in ("weights", "lists", "own")}
            values = np.array(in_order(by_name, self._names, "weights", more=True))
            same = partial(np.array_equal, values)
            write_text(files["weights"], weights_text(self._names, values, same, like=self._like)[0])
            places = {name: str(path) for name, path in files.items()} | {"n": str(n)}
            words = [word.format(**places, weight=_Weights(by_name)) for word in self._launch.command]
            with Program(self._launch, words) as program:
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
    """Yield each name in braces in a word, with the text after its colon."""
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


class Worker:
    """A decoder in a process that keeps running; it is only restarted after a failure.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments, run without a shell.
    inputs : sequence of str
        The inputs to decode; each is also the id of its list.
    folder : str or Path, optional
        Where the program runs.
    environment : mapping from str to str, optional
        Environment variables in addition to those of this process.
    timeout : float, optional
        Seconds for one decoding of all inputs.

    Notes
    -----
    For each decoding the program reads a line of JSON with `decoding`, `weights`, `n` and `inputs`, and writes a line
    of JSON for each input; `docs/loop.md` has the protocol. Use a `Worker` in a `with` block, or `close` it.
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
        twice = repeated(map(str, self.inputs))
        if twice is not None or not are_texts(self.inputs):
            raise DecoderError(f"inputs must be different texts, not {quoted(twice or inputs)}")
        self._program: Program | None = None
        self._decodings = 0

    def __enter__(self) -> Worker:
        return self

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
            self._program = Program(self._launch)
        program, deadline = self._program, self._launch.deadline
        try:
            self._decodings += 1
            request = {"decoding": self._decodings, "weights": weights, "n": n, "inputs": self.inputs}
            program.ask(json.dumps(request, allow_nan=False), deadline)
            answers = self._answers(program, deadline)
            try:
                return _decoded([answers[one] for one in self.inputs], tuple(weights))
            except DataError as error:
                raise program.failure(f"gave lists that cannot be used: {error}") from error
        except BaseException:
            self._program = None
            program.end(wait=False)
            raise

    def _answers(self, program: Program, deadline: float) -> dict[str, dict[str, Any]]:
        answers: dict[str, dict[str, Any]] = {}
        missing = dict.fromkeys(self.inputs)
        while missing:
            first = quoted(next(iter(missing)))
            program.missing = f" before it had answered {len(missing):,} of {len(self.inputs):,} inputs, first {first}"
            line = program.line(deadline)
            try:
                answer = json.loads(line, object_pairs_hook=unique_keys)
            except (ValueError, RecursionError) as error:
                raise program.failure(f"wrote {quoted(line)}, which is not JSON ({error})") from error
            if isinstance(answer, dict) and "error" in answer:
                why = answer["error"]
                raise program.failure(f"gave up: {shortened(why) if isinstance(why, str) else quoted(why)}")
            name = answer.get("id") if isinstance(answer, dict) else None
            if not isinstance(name, str) or name not in missing:
                raise program.failure(f"wrote {quoted(line)}, which is no answer about an input that it was to decode")
            if (number := answer.get("decoding", self._decodings)) != self._decodings:
                raise program.failure(
                    f"answered decoding {quoted(number)} about {quoted(name)} in decoding {self._decodings}; it must "
                    "answer each request before it reads the next one"
                )
            answers[name] = answer
            del missing[name]
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


def _features(values: Any, names: Sequence[str], path: str) -> list[float]:
    if isinstance(values, dict):
        values = in_order(values, names, "the features")
    if not isinstance(values, list) or len(values) != len(names):
        raise DataError(f"features must be {len(names)} numbers, not {quoted(values)}", path=path)
    place = Place(path, 1)
    return [
        place.number(value, f"feature {quoted(name)}", textual=False) for name, value in zip(names, values, strict=True)
    ]
