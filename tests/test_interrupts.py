"""The first signal only asks a search to end; the second one ends the process at once."""

import signal
import subprocess
import sys

import pytest
from shared import ROOT

from lpmert.system.interrupts import Interrupts

SCRIPT = """
import signal, sys
from lpmert.system.interrupts import Interrupts, abort
number = int(sys.argv[1])
signal.signal(number, abort)
with Interrupts() as interrupts:
    for _ in range(2):
        signal.raise_signal(number)
        print("pressed", interrupts.pressed, interrupts.number, flush=True)
print("goes on", flush=True)
"""


@pytest.mark.usefixtures("interruptible")
def test_the_first_ctrl_c_is_noted_and_the_second_raises() -> None:
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.pressed
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_aborts_a_command(number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(int(number))], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout == f"pressed True {int(number)}\n"
    assert (done.returncode, done.stderr.strip()) == (128 + number, "lpmert: interrupted")
