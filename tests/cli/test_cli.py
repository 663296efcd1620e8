"""The command line: exit codes, reports, output files; what Ctrl-C leaves behind; what shells complete."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from commands import COLUMNS, ended, json_of, python, run, succeeded
from shared import ROOT

import lpmert
from lpmert.cli import decoder, rank, reading, search
from lpmert.cli.main import main
from lpmert.cli.options import Option
from lpmert.cli.reading import ReadingWithTies
from lpmert.cli.running import exit_code
from lpmert.formats.moses import SCORE_TYPES
from lpmert.formats.weights import ENGINES, TOOLKITS
from lpmert.model.problem import TIES
from lpmert.result import Status
from lpmert.system.interrupts import Interrupts

OPTIMUM = 2.0


COMMANDS = {
    "solve": (),
    "check": ("--weights", "-1,2"),
    "evaluate": ("--weights", "-1,2"),
    "compare": ("--methods", "och", "--seeds", "1"),
    "tune": ("--quick",),
    "train": (),
}
"""Commands that search or judge, and what each needs besides lists."""


def rows(*arguments: object) -> list[list[str]]:
    """Run a command to its end and return the words of the lines of its report."""
    outcome = succeeded(*arguments)
    return [line.split() for line in outcome.stdout.splitlines()]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reports_or_gives_json_on_stdout_or_in_a_file(table: Path, tmp_path: Path, command: str) -> None:
    arguments = [command, table, *COLUMNS, *COMMANDS[command]]
    shown = succeeded(*arguments)
    assert "2 lists, 4 hypotheses" in shown.stderr
    quiet = run(*arguments, "--json", "-q")
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    for extra in ([], ["--json"]):
        written = run(*arguments, "-o", tmp_path / "r.json", *extra)
        assert (written.exit_code, written.stdout) == (0, "")
        assert list(json.loads((tmp_path / "r.json").read_text())) == list(json.loads(quiet.stdout))
        (tmp_path / "r.json").unlink()
    verdicts = {
        "solve": Status.OPTIMAL.value,
        "check": "these weights are optimal: no weights give a lower loss",
        "compare": "optimum: errors 2, proved",
    }
    last = shown.stdout.splitlines()[-1]
    assert last == verdicts.get(command, last)
    assert len(shown.stdout.splitlines()) <= 20


@pytest.mark.parametrize("command", [*COMMANDS, "leave-one-out"])
def test_the_help_of_a_command_fits_a_screen_and_names_the_way_to_the_rest(command: str) -> None:
    short, whole = run(command, "--help").stdout, run(command, "--help-all").stdout
    assert len(short.splitlines()) <= 48
    assert re.search(rf"\d more options?: lpmert {command} --help-all", short)
    assert f"    lpmert {command} " in short, "an example"
    known = main.get_command(click.Context(main), command)
    options = {max(one.opts, key=len) for one in known.params if isinstance(one, click.Option)}
    assert {option for option in options if option.startswith("--")} <= set(re.findall(r"--[a-z-]+", whole))
    assert {one.group for one in known.params if isinstance(one, Option) and one.name == "as_json"} <= {"Output"}


def test_values_in_help_are_those_of_the_library() -> None:
    """The commands list them, as help must not import the modules that define them."""
    in_help = [decoder.SCORES, rank.ENGINE_NAMES, reading.TIES, search.FORMS]
    forms = {search.NAMES, search.NUMBERS, search.JSON, search.UPDATE, *TOOLKITS}
    assert list(map(set, in_help)) == [set(SCORE_TYPES), set(ENGINES), set(TIES), forms]


def test_what_rerank_takes_of_the_lists_stands_beside_where_they_are() -> None:
    groups = {one.name: one.group for one in main.commands["rerank"].params if isinstance(one, Option)}
    assert groups["vote"] == groups["weights"] == groups["features"] == "Data"


def test_the_help_of_solve_explains_every_letter_of_the_progress_table() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "lpmert").rglob("*.py"))
    used = set(re.findall(r'(?:improve|Incumbent|_offer|look)\(.*, "([A-Z])"\)', sources))
    assert {"C", "D", "S"} <= used
    told = " ".join(run("solve", "--help-all").stdout.partition("The progress column src")[2].split("\n\n")[0].split())
    assert used | {"I"} == set(re.findall(r"\b[A-Z]\b", told))


class TestSolve:
    def test_a_saved_file_is_a_result_and_weights_for_any_order_of_features(self, table: Path, tmp_path: Path) -> None:
        succeeded("solve", table, *COLUMNS, "-o", tmp_path / "r.json")
        result = lpmert.Result.load(tmp_path / "r.json")
        assert (result.status, result.loss, result.lower_bound) == (Status.OPTIMAL, OPTIMUM, OPTIMUM)
        assert result.by_name["lm"] > result.by_name["am"]
        assert "read" in result.seconds
        columns = ["--segment", "list", "--features", "lm,am", "--loss", "errors"]
        assert json_of("check", table, *columns, "--weights", tmp_path / "r.json")["loss"] == OPTIMUM

    def test_reading_counts_towards_the_time_limit(
        self, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        succeeded("solve", table, *COLUMNS, "--certificate", tmp_path / "proof.json", "--time-limit", 60)
        read = ReadingWithTies.read_whole

        def slowly(own: ReadingWithTies) -> Any:
            time.sleep(0.2)
            return read(own)

        monkeypatch.setattr(ReadingWithTies, "read_whole", slowly)
        stopped = ended(3, "solve", table, *COLUMNS, "--time-limit", 0.1, "-o", tmp_path / "r.json")
        assert "stopped at the time limit" in stopped.stderr
        assert lpmert.Result.load(tmp_path / "r.json").seconds["read"] >= 0.2
        refused = ended(3, "verify", tmp_path / "proof.json", table, *COLUMNS, "--time-limit", 0.1)
        assert "time limit" in refused.stderr

    def test_weights_are_in_the_scale_that_is_asked_for_or_fixed(self, table: Path) -> None:
        weights = json_of("solve", table, *COLUMNS)["weights"]
        name = max(weights, key=lambda name: abs(weights[name]))
        target = 2 * int(np.sign(weights[name]))
        for given in (["--scale", f"{name}={target}"], ["--fix", f"{name}={target}"], ["--total", "2"]):
            result = json_of("solve", table, *COLUMNS, *given)
            if "--total" in given:
                assert sum(result["weights"].values()) == pytest.approx(2)
            else:
                shown = next(row for row in rows("solve", table, *COLUMNS, *given) if row[:1] == [name])
                assert float(shown[1]) == target == result["weights"][name]
                low, high = result["cell"]["ranges"][name]
                assert low is None or low < target
                assert high is None or target < high
            assert result["loss"] == OPTIMUM
            assert json_of("evaluate", table, *COLUMNS, "--weights", json.dumps(result["weights"]))["loss"] == OPTIMUM

    def test_a_scale_that_no_positive_factor_reaches_is_told(self, table: Path) -> None:
        assert json_of("solve", table, *COLUMNS, "--fix", "am=-1")["weights"]["am"] == -1
        outcome = run("solve", table, *COLUMNS, "--fix", "am=-1", "--scale", "am=1")
        assert "no positive factor brings am to 1" in outcome.stderr
        assert "-1.0000" in outcome.stdout

    def test_the_log_says_where_several_jobs_are_of_no_use(self, table: Path) -> None:
        sweep = "--method", "sweep", "--jobs", "2", "-v"
        assert "one thread" in run("solve", table, *COLUMNS, *sweep).stderr
        assert "one thread" in run("solve", table, *COLUMNS, *sweep[:-1]).stderr
        assert "one thread" not in run("solve", table, *COLUMNS, "--jobs", "2", "-v").stderr


class TestCheck:
    def test_weights_that_are_not_optimal_are_told_by_how_much(self, table: Path) -> None:
        shown = rows("check", table, *COLUMNS, "--weights", "1,0")
        assert " ".join(shown[-1]) == "there are better weights: errors 2 instead of 3"
        assert ["errors", "3"] in shown
        assert ["optimum", "2"] in shown
        assert ["worse", "by", "1", "(50.00%)"] in shown
        told = json_of("check", table, *COLUMNS, "--weights", "1,0")
        assert (told["loss"], told["excess"], told["optimum"]["loss"]) == (3.0, 1.0, OPTIMUM)

    def test_weights_below_the_optimum_are_said_to_win_by_ties(self, table: Path) -> None:
        outcome = run("check", table, *COLUMNS, "--weights", "0.5,0.5")
        assert "only by ties" in outcome.stdout
        assert "2 lists: 0 at best, 5 at worst" in outcome.stdout


class TestRegions:
    @pytest.mark.parametrize(
        ("options", "holds"),
        [
            (["--nonnegative"], lambda am, lm: am > 0 < lm),
            (["--fix", "lm=2", "--bounds", "am:-0.5..0.25"], lambda am, lm: lm == 2 and -0.5 < am < 0.25),
            (["--linear", "am=1,lm=-2:0.."], lambda am, lm: am > 2 * lm),
            (["--total", "1", "--bounds", "am:0.2..0.3"], lambda am, lm: 0.2 < am < 0.3 and math.isclose(am + lm, 1)),
            (
                ["--cosine", "0.999", "--around", "3,4"],
                lambda am, lm: (3 * am + 4 * lm) / 5 / math.hypot(am, lm) >= 0.999,
            ),
        ],
        ids=["nonnegative", "bounds", "linear", "total", "cosine"],
    )
    def test_every_limit_holds(self, table: Path, options: list[str], holds: Callable[[float, float], bool]) -> None:
        weights = json_of("solve", table, *COLUMNS, *options)["weights"]
        assert holds(weights["am"], weights["lm"])

    def test_weights_are_written_in_full(self, table: Path, tmp_path: Path) -> None:
        path = tmp_path / "weights.json"
        result = json_of("solve", table, *COLUMNS, "--weights-out", path)
        assert json.loads(path.read_text()) == result["weights"]

    def test_with_v_the_report_tells_the_distance_to_each_limit(self, table: Path) -> None:
        outcome = run("solve", table, *COLUMNS, "--nonnegative", "-v")
        assert "inside by" in outcome.stdout
        assert "am >= 0" in outcome.stdout


class TestEndings:
    @pytest.mark.parametrize("status", Status)
    def test_only_a_run_that_did_what_was_asked_exits_with_0(self, status: Status) -> None:
        expected = {Status.INTERRUPTED: 130} | dict.fromkeys(
            [Status.OPTIMAL, Status.OPTIMAL_TO_TOLERANCE, Status.GAP, Status.TARGET, Status.HEURISTIC], 0
        )
        assert exit_code(status, Interrupts()) == expected.get(status, 3)

    def test_ctrl_c_loses_only_the_proof(self, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        original = lpmert.certify

        def pressed(*arguments: Any, **settings: Any) -> None:
            signal.raise_signal(signal.SIGINT)
            original(*arguments, **settings)

        monkeypatch.setattr(lpmert, "certify", pressed)
        proof = tmp_path / "proof.json"
        outcome = ended(130, "solve", table, *COLUMNS, "-o", tmp_path / "r.json", "--certificate", proof)
        assert outcome.stderr.endswith("no certificate written: interrupted\n")
        assert json.loads((tmp_path / "r.json").read_text())["status"] == "optimal"
        assert not proof.exists()


class TestStart:
    CALLS = (
        *(["--help"], ["--version"], *([command, "--help"] for command in ("methods", "train", "solve", "check"))),
        *(["solve", "x", *COLUMNS, "--method", "guess"], ["solve", "x", *COLUMNS, "--metric", "guess"]),
        ["methods", "guess"],
    )

    def test_help_version_and_wrong_use_import_nothing_heavy(self) -> None:
        program = (
            "import sys\n"
            "from click.testing import CliRunner\n"
            "from lpmert.cli.main import main\n"
            f"print(*(CliRunner().invoke(main, call).exit_code for call in {self.CALLS!r}))\n"
            "print(*sys.modules)\n"
        )
        codes, modules = python("-c", program).stdout.splitlines()
        assert codes.split() == ["0"] * 6 + ["2"] * 3
        imported = {module.split(".")[0] for module in modules.split()}
        assert "click" in imported
        assert not imported & {"numpy", "scipy", "highspy", "rich"}

    def test_the_version_is_printed(self) -> None:
        assert run("--version").stdout == f"lpmert, version {lpmert.__version__}\n"


def _completed(words: str) -> list[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = 'eval "$(_LPMERT_COMPLETE=bash_source lpmert)"; ' + (
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        '_lpmert_completion lpmert; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=280, env=environment)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_and_names() -> None:
    assert _completed("lpmert sol") == ["solve"]
    assert _completed("lpmert solve --time-l") == ["--time-limit"]
    assert _completed("lpmert solve --method cel") == ["cells"]
