"""The command line, called within this process or started as one of its own."""

import doctest
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from shared import ROOT

from lpmert.cli.main import main

# w1 > w2 chooses losses 0 and 3, w2 > w1 chooses 2 and 0; equal weights tie, and the first of each list costs nothing
TABLE = "list\tam\tlm\terrors\na\t1\t0\t0\na\t0\t1\t2\nb\t0\t1\t0\nb\t1\t0\t3\n"
COLUMNS = ["--segment", "list", "--features", "am,lm", "--loss", "errors"]
PATIENCE = 250.0  # seconds after which a process counts as hung; never reached by one that works


def run(*arguments: object) -> Result:
    """Run the command line in this process, so that tests can patch its parts."""
    return CliRunner().invoke(main, [*map(str, arguments)])


def ended(code: int, *arguments: object) -> Result:
    outcome = run(*arguments)
    assert outcome.exit_code == code, outcome.output
    return outcome


def succeeded(*arguments: object) -> Result:
    return ended(0, *arguments)


def json_of(*arguments: object) -> Any:
    """Run a command that must succeed; return the JSON that it prints."""
    return json.loads(succeeded(*arguments, "--json", "-q").stdout)


def loss_of(*arguments: object) -> float:
    return float(json_of(*arguments)["loss"])


def refusal(*arguments: object, code: int = 1) -> str:
    """Run a command that must end with this exit code; return its stderr, with single spaces."""
    return " ".join(ended(code, *arguments).stderr.split())


def assert_examples_run(text: str, name: str) -> None:
    """Assert that the examples of a text print what they show, here."""
    example = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(example, out=report.append)
    assert outcome.failed == 0, "".join(report)


def precede(patch: pytest.MonkeyPatch, owner: Any, name: str, action: Callable[..., object]) -> None:
    """Let each call of a function begin with this action, which is given its keywords."""
    function = getattr(owner, name)

    def later(*arguments: Any, **settings: Any) -> Any:
        action(**settings)
        return function(*arguments, **settings)

    patch.setattr(owner, name, later)


def press_ctrl_c(**_: object) -> None:
    signal.raise_signal(signal.SIGINT)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that can import the package and the helpers of tests."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path} | more


def python(*arguments: object, code: int | None = 0, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the package on its path; assert the exit code, unless it is `None`. more: of the environment."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=environment(**more), capture_output=True, text=True, check=False, timeout=1700
    )
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done


def start(*arguments: object, python: tuple[str, ...] = (), before: Callable[[], object] = int, **options: Any) -> Any:
    """Start lpmert as a process. python, options: of Python and of `Popen`; before: runs first in the process."""

    def prepare() -> None:
        # a shell may have started the tests with signals ignored, which children inherit
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        before()

    settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()} | options
    command = [sys.executable, *python, "-m", "lpmert", *map(str, arguments)]
    return subprocess.Popen(command, text=True, preexec_fn=prepare, **settings)


def until(true: Callable[[], object], process: Any) -> bool:
    """Wait until a condition holds; return `False` if the process ended before it did."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        if process.poll() is not None:
            return bool(true())
        assert time.monotonic() < deadline, "the process hangs"
        time.sleep(0.005)
    return True


def finished(*arguments: object, timeout: float = 300, **options: Any) -> tuple[int, str, str]:
    """Run lpmert as a process to its end; return exit code, stdout and stderr."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out or "", err or ""
