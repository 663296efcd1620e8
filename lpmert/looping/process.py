"""Programs that decode: started without a shell, read against a clock, and quoted where they fail."""

from __future__ import annotations

import math
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, cast

from lpmert.errors import DecoderError, reason_of
from lpmert.quoting import quoted, shortened
from lpmert.system.deadline import checkpoint
from lpmert.system.interrupts import kept_from_children, undone_by_abort
from lpmert.system.memory import counting, group_of
from lpmert.values import real_number

_LAST_LINES = 8
_LAST_BYTES = 4096
_BLOCK = 1 << 16
_SHOWN = 80
_GRACE_SECONDS = 5.0
"""How long a program may take to end once its input is closed."""
_ASKED_SECONDS = 0.2
"""How often the deadline of the whole call is looked at while a program computes."""
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
        if not isinstance(words, Sequence) or isinstance(words, str) or not words or not _are_texts(words):
            raise DecoderError(f"the command must be the words of a program and its arguments, not {quoted(words)}")
        if self.folder is not None and not isinstance(self.folder, str | Path):
            raise DecoderError(f"folder must be a path, not {quoted(self.folder)}")
        if not isinstance(variables, Mapping) or not _are_texts([*variables, *variables.values()]):
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
        self._pending = b""
        self._seen, self._group = -math.inf, list[int]()
        with ExitStack() as stack:
            try:
                self._messages = stack.enter_context(TemporaryFile())
                with kept_from_children():
                    self._process = subprocess.Popen(
                        [*command],
                        cwd=folder,
                        env={**os.environ, **(environment or {})},
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=self._messages,
                        start_new_session=True,
                    )
            except (OSError, ValueError) as error:
                why = reason_of(error) if isinstance(error, OSError) else str(error)
                if folder is not None and not Path(folder).is_dir():
                    why = f"there is no folder {quoted(str(folder))} to run it in"
                raise DecoderError(f"the decoder {quoted(command[0])} cannot be started: {why}") from error
            self._input, self._output = (
                stack.enter_context(cast(IO[bytes], stream)) for stream in (self._process.stdin, self._process.stdout)
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

    def write(self, line: str, deadline: float | None) -> None:
        """Hand a line to the program; raises `DecoderError` if it has ended, or does not take all of it in time."""
        left = memoryview(line.encode() + b"\n")
        while left:
            self._await(self._input, selectors.EVENT_WRITE, deadline)
            try:
                left = left[os.write(self._input.fileno(), left) :]
            except OSError as error:
                raise self.ended() from error

    def line(self, deadline: float | None) -> str:
        """Return the next line that the program writes, without its end.

        deadline: a `time.monotonic()`. Raises `DecoderError` where it is over, the program ends, or the line is not
        UTF-8.
        """
        while b"\n" not in self._pending:
            block = self._block(deadline)
            if not block:
                raise self.ended()
            self._pending += block
        line, _, self._pending = self._pending.partition(b"\n")
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise self.failure(f"wrote a line that is not UTF-8: {quoted(line[:_SHOWN])}") from error

    def output(self, deadline: float | None) -> bytes:
        """Return all that the program writes, once it has ended well; raises `DecoderError` otherwise."""
        with suppress(OSError):
            self._input.close()
        found = b"".join(iter(lambda: self._block(deadline), b""))
        while True:
            try:
                code = self._process.wait(_ASKED_SECONDS)
                break
            except subprocess.TimeoutExpired:
                self._look(deadline)
        if code:
            raise self.failure(_ending(code))
        return found

    def end(self, *, wait: bool = True) -> None:
        """End the program and what it has started; wait: give it time to end by itself."""
        with suppress(OSError):
            self._input.close()
        if wait:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)
        self._kill()
        self._process.wait()
        with suppress(OSError):
            self._closing.close()

    def failure(self, why: str) -> DecoderError:
        """Return the error that says why the program is of no use, with its last words."""
        return DecoderError(f"the decoder {self._name} {why}{''.join(self._last_words())}")

    def ended(self) -> DecoderError:
        """Return the error of a program that ended though more was expected of it."""
        try:
            code = self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return self.failure("closed its output before it had answered")
        return self.failure(f"{_ending(code)} before it had answered")

    def _block(self, deadline: float | None) -> bytes:
        """Return what the program has written since the last call, at its end nothing."""
        self._await(self._output, selectors.EVENT_READ, deadline)
        return os.read(self._output.fileno(), _BLOCK)

    def _await(self, stream: IO[bytes], event: int, deadline: float | None) -> None:
        """Return once the program has written, or can take more."""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, event)
            while not selector.select(_ASKED_SECONDS):
                self._look(deadline)

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
        size = self._messages.seek(0, os.SEEK_END)
        self._messages.seek(max(0, size - _LAST_BYTES))
        text = self._messages.read().decode(errors="replace")
        for line in [line.rstrip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]:
            yield f"\n  {shortened(line)}"


def _are_texts(values: Sequence[object]) -> bool:
    return all(isinstance(one, str) for one in values)


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
