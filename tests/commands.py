"""The command line, called within this process or started as one of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from shared import ROOT

from lpmert.cli.main import main

# w1 > w2 chooses losses 0 and 3, w2 > w1 chooses 2 and 0; equal weights tie, and the first of each list costs nothing
TABLE = "list\tam\tlm\terrors\na\t1\t0\t0\na\t0\t1\t2\nb\t0\t1\t0\nb\t1\t0\t3\n"
COLUMNS = ["--segment", "list", "--features", "am,lm", "--loss", "errors"]
PATIENCE = 250.0
"""Seconds after which a process counts as hung; never reached by one that works."""


def run(*arguments: object) -> Result:
    """Call the command line here, where tests can replace its parts."""
    return CliRunner().invoke(main, [*map(str, arguments)])


def ended(code: int, *arguments: object) -> Result:
    """Call a command, which must end with this exit code."""
    outcome = run(*arguments)
    assert outcome.exit_code == code, outcome.output
    return outcome


def succeeded(*arguments: object) -> Result:
    """Call a command, which must do what it is asked."""
    return ended(0, *arguments)


def json_of(*arguments: object) -> Any:
    """Call a command, which must do what it is asked; return what it prints as JSON."""
    return json.loads(succeeded(*arguments, "--json", "-q").stdout)


def loss_of(*arguments: object) -> float:
    return float(json_of(*arguments)["loss"])


def refusal(*arguments: object, code: int = 1) -> str:
    """Call a command, which must end with this exit code; return what it says, with single spaces."""
    return " ".join(ended(code, *arguments).stderr.split())


def environment(**more: str) -> dict[str, str]:
    """The environment in which a process finds the package and what tests share."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path} | more


def python(*arguments: object, code: int | None = 0, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python, which finds the package, with more in its environment; it must end with this code, unless `None`."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=environment(**more), capture_output=True, text=True, check=False, timeout=1700
    )
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done


def start(*arguments: object, python: tuple[str, ...] = (), before: Callable[[], object] = int, **options: Any) -> Any:
    """Start a process, with these options of Python and of `Popen`; `before` runs in it first."""

    def prepare() -> None:
        # a shell may have started the tests with signals ignored, which children inherit
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        before()

    settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()} | options
    command = [sys.executable, *python, "-m", "lpmert", *map(str, arguments)]
    return subprocess.Popen(command, text=True, preexec_fn=prepare, **settings)


def until(true: Callable[[], object], process: Any) -> bool:
    """Wait until something is true; return whether it is, or the process has ended before."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        if process.poll() is not None:
            return bool(true())
        assert time.monotonic() < deadline, "the process hangs"
        time.sleep(0.005)
    return True


def finished(*arguments: object, timeout: float = 300, **options: Any) -> tuple[int, str, str]:
    """Run a process to its end; return its exit code and what it wrote to stdout and stderr."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out or "", err or ""
