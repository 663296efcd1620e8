"""Programs that decode: started without a shell, read against a clock, and quoted where they fail."""

from __future__ import annotations

import math
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, cast

from lpmert.errors import DecoderError, reason_of
from lpmert.quoting import quoted, shortened
from lpmert.system.deadline import checkpoint
from lpmert.system.files import longest_line, most_of_a_whole
from lpmert.system.interrupts import kept_from_children, undone_by_abort
from lpmert.system.memory import counting, group_of
from lpmert.system.scratch import writing_to
from lpmert.values import are_texts, are_texts_by_name, real_number

_LAST_LINES = 8
_LAST_BYTES = 4096
_BLOCK = 1 << 16
_SHOWN = 80
_GRACE_SECONDS = 5.0
"""How long a program may take to end once its input is closed."""
_ASKED_SECONDS = 0.2
"""How often the deadlines are looked at while a program computes; while it writes, after each block."""
_LAST_BLOCKS = 16
"""How much is read of the messages of a program that has failed: all, or so much of what never ends."""
_ENDED_SECONDS = 0.05
"""How often to look whether a program has ended that still may write messages."""
_SEEN_SECONDS = 1.0
"""How often to look which processes a program has; a look reads a line for each process of the machine."""


@dataclass(frozen=True)
class Launch:
    """How a program is started, and how long it may take; raises `DecoderError` for what cannot be meant.

    command: its words; folder: where it runs; environment: variables besides those of this process; timeout: seconds.
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
    def deadline(self) -> float | None:
        """When a decoding that begins now is over, as a `time.monotonic()`."""
        return None if self.timeout is None else time.monotonic() + self.timeout

    def program(self, command: Sequence[str] | None = None) -> Program:
        """Start the program, or with other words; raises `DecoderError`."""
        return Program(self.command if command is None else command, self.folder, self.environment)


class Program:
    """A program that runs in a process group of its own, until `end`, at the latest that of the `with` block.

    command: its words; folder: where it runs; environment: variables besides those of this process. Raises
    `DecoderError` if it cannot be started.
    """

    def __init__(
        self, command: Sequence[str], folder: str | Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._name = quoted(Path(command[0]).name)
        self._lines, self._begun = deque[bytes](), bytearray()
        self._written = 0
        self._messages, self._talks = b"", True
        self._seen, self._group = -math.inf, list[int]()
        with ExitStack() as stack:
            try:
                with kept_from_children():
                    self._process = subprocess.Popen(
                        [*command],
                        cwd=folder,
                        env={**os.environ, **(environment or {})},
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        start_new_session=True,
                    )
            except (OSError, ValueError) as error:
                why = reason_of(error) if isinstance(error, OSError) else str(error)
                if folder is not None and not Path(folder).is_dir():
                    why = f"there is no folder {quoted(str(folder))} to run it in"
                raise DecoderError(f"the decoder {quoted(command[0])} cannot be started: {why}") from error
            self._input, self._output, self._errors = (
                stack.enter_context(cast(IO[bytes], stream))
                for stream in (self._process.stdin, self._process.stdout, self._process.stderr)
            )
            os.set_blocking(self._input.fileno(), False)
            stack.enter_context(undone_by_abort(self._kill))
            stack.enter_context(counting(self._processes))
            self._closing = stack.pop_all()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(wait=error is None)

    def ask(self, request: str, deadline: float | None) -> None:
        """Hand a line to the program; raises `DecoderError` if it has ended, does not take all of it in time, or has
        written more than it was asked for before.
        """
        stray = b"\n".join((*self._lines, self._begun))
        if not stray and _ready(self._output):
            stray = os.read(self._output.fileno(), _BLOCK)
        if stray:
            raise self.failure(
                f"wrote {_beginning(stray)} without being asked; its standard output must hold one line for each input "
                "of a decoding, and nothing else: write all else to standard error"
            )
        self._written = 0
        left = memoryview(request.encode() + b"\n")
        while left:
            self._await(self._input, selectors.EVENT_WRITE, deadline)
            try:
                left = left[os.write(self._input.fileno(), left) :]
            except OSError as error:
                raise self.ended() from error

    def line(self, deadline: float | None) -> str:
        """Return the next line that the program writes, without its end.

        deadline: a `time.monotonic()`. Raises `DecoderError` where it is over, the program ends, it writes too much, or
        the line is not UTF-8.
        """
        while not self._lines:
            block = self._block(deadline)
            if not block:
                raise self.ended()
            begun, end, rest = block.partition(b"\n")
            self._begun += begun
            if len(self._begun) > longest_line.get():
                raise self.failure(
                    f"wrote a line of more than {longest_line.get():,} bytes, {_beginning(self._begun)}; each answer "
                    "must end with a line feed, and n limits how many hypotheses it may have"
                )
            if end:
                *whole, last = rest.split(b"\n")
                self._lines.extend((bytes(self._begun), *whole))
                self._begun = bytearray(last)
        line = self._lines.popleft()
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise self.failure(f"wrote a line that is not UTF-8: {quoted(line[:_SHOWN])}") from error

    def output(self, deadline: float | None, place: Path | None = None) -> None:
        """Copy all that the program writes into a file, or drop it, until it has ended well.

        Raises `DecoderError` where the deadline is over, the program fails, or it writes too much, `DataError` for a
        file that cannot be written.
        """
        with suppress(OSError):
            self._input.close()
        target = Path(os.devnull) if place is None else place
        with writing_to(target), target.open("wb") as file:
            while block := self._block(deadline):
                file.write(block)
        while (code := self._wait(_ASKED_SECONDS)) is None:
            self._look(deadline)
        if code:
            raise self.failure(_ending(code))

    def end(self, *, wait: bool = True) -> None:
        """End the program and what it has started; wait: give it time to end by itself."""
        with suppress(OSError):
            self._input.close()
        if wait:
            self._wait(_GRACE_SECONDS)
        self._kill()
        self._process.wait()
        with suppress(OSError):
            self._closing.close()

    def failure(self, why: str) -> DecoderError:
        """Return the error that says why the program is of no use, with its last words."""
        for _ in range(_LAST_BLOCKS):
            if not self._listen(0.0):
                break
        return DecoderError(f"the decoder {self._name} {why}{''.join(self._last_words())}")

    def ended(self) -> DecoderError:
        """Return the error of a program that ended though more was expected of it."""
        code = self._wait(_GRACE_SECONDS)
        if code is None:
            return self.failure("closed its output before it had answered")
        return self.failure(f"{_ending(code)} before it had answered")

    def _block(self, deadline: float | None) -> bytes:
        """Return what the program has written since the last call, at its end nothing."""
        self._await(self._output, selectors.EVENT_READ, deadline)
        block = os.read(self._output.fileno(), _BLOCK)
        self._written += len(block)
        if self._written > most_of_a_whole():
            raise self.failure(
                f"wrote more than {most_of_a_whole():,} bytes in one decoding, and was stopped; let it give fewer "
                "hypotheses (n), or find out why it does not end"
            )
        return block

    def _await(self, stream: IO[bytes], event: int, deadline: float | None) -> None:
        """Return once the program has written, or can take more; its messages are read meanwhile."""
        while True:
            self._look(deadline)
            with selectors.DefaultSelector() as selector:
                selector.register(stream, event)
                if self._talks:
                    selector.register(self._errors, selectors.EVENT_READ)
                ready = [key.fileobj for key, _ in selector.select(_ASKED_SECONDS)]
            if self._errors in ready:
                self._take_messages()
            if stream in ready:
                return

    def _wait(self, seconds: float) -> int | None:
        """Return the exit code of the program once it has ended, `None` if that takes longer; read its messages."""
        until = time.monotonic() + seconds
        while (code := self._process.poll()) is None and (left := until - time.monotonic()) > 0.0:
            if self._talks:
                self._listen(min(left, _ENDED_SECONDS))
            else:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(left)
        return code

    def _listen(self, seconds: float) -> bool:
        """Take messages of the program if there are any within so many seconds, and return whether there were."""
        heard = self._talks and _ready(self._errors, seconds)
        if heard:
            self._take_messages()
        return heard

    def _take_messages(self) -> None:
        """Read what the program has written to its standard error, and keep the end of it."""
        block = os.read(self._errors.fileno(), _BLOCK)
        self._messages, self._talks = (self._messages + block)[-_LAST_BYTES:], bool(block)

    def _look(self, deadline: float | None) -> None:
        checkpoint()
        if deadline is not None and time.monotonic() >= deadline:
            raise self._too_slow()

    def _too_slow(self) -> DecoderError:
        self._kill()
        return self.failure("was stopped at its time limit")

    def _processes(self) -> list[int]:
        """Return the processes of the program's group, which may change: as they were up to a second ago."""
        now = time.monotonic()
        if now >= self._seen + _SEEN_SECONDS:
            self._seen, self._group = now, group_of(self._process.pid)
        return self._group

    def _kill(self) -> None:
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _last_words(self) -> Iterator[str]:
        text = self._messages.decode(errors="replace")
        for line in [line.rstrip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]:
            yield f"\n  {shortened(line)}"


def _ready(stream: IO[bytes], seconds: float = 0.0) -> bool:
    """Whether there is something to read, or the end, within so many seconds."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def _beginning(line: bytes | bytearray) -> str:
    return quoted(line[:_SHOWN].decode(errors="replace")) + ("..." if len(line) > _SHOWN else "")


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
