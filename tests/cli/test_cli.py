"""The command line: exit codes, reports, output files; what Ctrl-C leaves behind; what shells complete."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
import pytest
from commands import COLUMNS, ended, json_of, precede, press_ctrl_c, python, run, succeeded
from shared import ROOT

import lpmert
from lpmert.cli import decoder, rank, running, search
from lpmert.cli.main import main
from lpmert.cli.running import exit_code
from lpmert.formats.moses import SCORE_TYPES
from lpmert.formats.weights import ENGINES, TOOLKITS
from lpmert.limits import Interrupts
from lpmert.model.problem import TIES
from lpmert.result import Status

OPTIMUM = 2.0

COMMANDS = {  # that search or judge, what each needs besides lists, and how the last line of its report begins
    "solve": ((), Status.OPTIMAL.value),
    "check": (("--weights", "-1,2"), "these weights are optimal: no weights give a lower loss"),
    "evaluate": (("--weights", "-1,2"), "margin"),
    "compare": (("--methods", "och", "--seeds", "1"), "optimum: errors 2, proved"),
    "tune": (("--quick",), "recommended for unseen lists"),
    "train": ((), "errors "),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reports_or_gives_json_on_stdout_or_in_a_file(table: Path, tmp_path: Path, command: str) -> None:
    more, last = COMMANDS[command]
    arguments = [command, table, *COLUMNS, *more]
    shown = succeeded(*arguments)
    assert "2 lists, 4 hypotheses" in shown.stderr
    assert shown.stdout.splitlines()[-1].startswith(last)
    assert len(shown.stdout.splitlines()) <= 20
    quiet = succeeded(*arguments, "--json", "-q")
    assert quiet.stderr == ""
    for extra in ([], ["--json"]):
        assert succeeded(*arguments, "-o", tmp_path / "r.json", *extra).stdout == ""
        assert list(json.loads((tmp_path / "r.json").read_text())) == list(json.loads(quiet.stdout))
        (tmp_path / "r.json").unlink()


@pytest.mark.parametrize("command", [*COMMANDS, "leave-one-out"])
def test_the_help_of_a_command_fits_a_screen_and_names_the_way_to_the_rest(command: str) -> None:
    short, whole = run(command, "--help").stdout, run(command, "--help-all").stdout
    assert len(short.splitlines()) <= 48
    assert re.search(rf"\d more options?: lpmert {command} --help-all", short)
    assert f"    lpmert {command} " in short, "an example"
    known = main.get_command(click.Context(main), command)
    options = {max(one.opts, key=len) for one in known.params if isinstance(one, click.Option)}
    assert {option for option in options if option.startswith("--")} <= set(re.findall(r"--[a-z-]+", whole))


def test_values_in_help_are_those_of_the_library() -> None:
    """The commands list them, as help must not import the modules that define them."""
    in_help = [decoder.SCORES, rank.ENGINE_NAMES, search.TIES, running.FORMS]
    forms = {running.NAMES, running.NUMBERS, running.JSON, running.UPDATE, *TOOLKITS}
    assert list(map(set, in_help)) == [set(SCORE_TYPES), set(ENGINES), set(TIES), forms]


def test_the_help_of_solve_explains_every_letter_of_the_progress() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "lpmert").rglob("*.py"))
    used = set(re.findall(r'(?:improve|Incumbent|_offer|look)\(.*, "([A-Z])"\)', sources))
    assert {"C", "D", "S"} <= used
    told = " ".join(run("solve", "--help-all").stdout.partition("A letter in the progress")[2].split("\n\n")[0].split())
    assert used | {"I"} == set(re.findall(r"\b[A-Z]\b", told))


def test_a_saved_file_is_a_result_and_weights_and_reading_counts_towards_the_time_limit(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["-o", tmp_path / "r.json", "--certificate", tmp_path / "proof.json", "--time-limit", 60]
    succeeded("solve", table, *COLUMNS, *options)
    result = lpmert.Result.load(tmp_path / "r.json")
    assert (result.status, result.loss, result.lower_bound) == (Status.OPTIMAL, OPTIMUM, OPTIMUM)
    other_order = ["--segment", "list", "--features", "lm,am", "--loss", "errors"]
    assert json_of("check", table, *other_order, "--weights", tmp_path / "r.json")["loss"] == OPTIMUM
    precede(monkeypatch, lpmert, "read", lambda **_: time.sleep(0.2))
    stopped = ended(3, "solve", table, *COLUMNS, "--time-limit", 0.1, "-o", tmp_path / "r.json")
    assert "stopped at the time limit" in stopped.stderr
    assert lpmert.Result.load(tmp_path / "r.json").seconds["read"] >= 0.2
    refused = ended(3, "verify", tmp_path / "proof.json", table, *COLUMNS, "--time-limit", 0.1)
    assert "time limit" in refused.stderr


def test_weights_are_in_the_scale_that_is_asked_for_or_fixed_or_are_told_not_to_be(table: Path) -> None:
    for given in ("--scale am=-2", "--fix am=-2", "--total 2"):
        found = json_of("solve", table, *COLUMNS, *given.split())
        am, lm = found["weights"].values()
        if given == "--total 2":
            assert am + lm == pytest.approx(2)
        else:
            shown = [line.split() for line in succeeded("solve", table, *COLUMNS, *given.split()).stdout.splitlines()]
            assert [float(row[1]) for row in shown if row[:1] == ["am"]] == [-2.0] == [am]
            low, high = found["cell"]["ranges"]["am"]
            assert (-math.inf if low is None else low) < -2.0 < (math.inf if high is None else high)
        assert found["loss"] == OPTIMUM
        assert json_of("evaluate", table, *COLUMNS, "--weights", json.dumps(found["weights"]))["loss"] == OPTIMUM
    outcome = succeeded("solve", table, *COLUMNS, "--fix", "am=-1", "--scale", "am=1")
    assert "no positive factor brings am to 1" in outcome.stderr
    assert "-1.0000" in outcome.stdout


def test_weights_of_no_problem_are_written_in_the_scale_that_their_form_sets(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("acoustic 0.3\nlm 0.9\n")
    for form, path, start in (
        *(("kaldi", None, "--inv-acoustic-scale="), ("icefall", None, "ngram_lm_scale="), ("numbers", None, "3.0+ ")),
        ("update", str(tmp_path / "old"), "acoustic 0.8780487804878.*\nlm "),  # 1.2 in all
    ):
        text = running.WeightsOutput(weights_out=path, write=form).text(("acoustic", "lm"), np.array([3.0, 1.1]), None)
        expected = {"numbers": 1.1, "update": 1.2 * 1.1 / 4.1}.get(form, 1.1 / 3)
        assert float(re.match(f"{start}(.*)", text)[1]) == pytest.approx(expected, rel=1e-13)


def test_the_log_says_where_several_jobs_are_of_no_use(table: Path) -> None:
    for options, told in (("--method sweep -v", 1), ("--method sweep", 1), ("-v", 0)):
        assert succeeded("solve", table, *COLUMNS, "--jobs", "2", *options.split()).stderr.count("one thread") == told


def test_weights_that_are_not_optimal_are_told_by_how_much(table: Path) -> None:
    shown = succeeded("check", table, *COLUMNS, "--weights", "1,0").stdout.splitlines()
    assert shown[-1] == "there are better weights: errors 2 instead of 3"
    assert {"errors 3", "optimum 2", "worse by 1 (50.00%)"} <= {" ".join(line.split()) for line in shown}
    told = json_of("check", table, *COLUMNS, "--weights", "1,0")
    assert (told["loss"], told["excess"], told["optimum"]["loss"]) == (3.0, 1.0, OPTIMUM)
    ties = succeeded("check", table, *COLUMNS, "--weights", "0.5,0.5").stdout
    assert "below the optimum, but only by ties" in ties
    assert "2 lists: 0 at best, 5 at worst" in ties


@pytest.mark.parametrize("status", Status)
def test_only_a_run_that_did_what_was_asked_exits_with_0(status: Status) -> None:
    finished = {Status.OPTIMAL, Status.OPTIMAL_TO_TOLERANCE, Status.GAP, Status.TARGET, Status.HEURISTIC}
    expected = 130 if status is Status.INTERRUPTED else 0 if status in finished else 3
    assert exit_code(status, Interrupts()) == expected


def test_ctrl_c_loses_only_the_proof(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precede(monkeypatch, lpmert, "certify", press_ctrl_c)
    proof = tmp_path / "proof.json"
    outcome = ended(130, "solve", table, *COLUMNS, "-o", tmp_path / "r.json", "--certificate", proof)
    assert outcome.stderr.endswith("no certificate written: interrupted\n")
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "optimal"
    assert not proof.exists()


def test_help_version_and_wrong_use_import_nothing_heavy() -> None:
    calls = (
        *(["--help"], ["--version"], *([command, "--help"] for command in ("methods", "train", "solve", "check"))),
        *(["solve", "x", *COLUMNS, "--method", "guess"], ["solve", "x", *COLUMNS, "--metric", "guess"]),
        ["methods", "guess"],
    )
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from lpmert.cli.main import main\n"
        f"print(*(CliRunner().invoke(main, call).exit_code for call in {calls!r}))\n"
        "print(*sys.modules)\n"
    )
    codes, modules = python("-c", program).stdout.splitlines()
    assert codes.split() == ["0"] * 6 + ["2"] * 3
    imported = {module.split(".")[0] for module in modules.split()}
    assert "click" in imported
    assert not imported & {"numpy", "scipy", "highspy", "rich"}
    assert run("--version").stdout == f"lpmert, version {lpmert.__version__}\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_and_names() -> None:
    script = 'eval "$(_LPMERT_COMPLETE=bash_source lpmert)"; '
    for words in ("lpmert sol", "lpmert solve --time-l", "lpmert solve --method cel"):
        script += f"COMPREPLY=(); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        script += '_lpmert_completion lpmert; printf "%s\\n" "${COMPREPLY[@]}"; '
    path = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    completed = subprocess.check_output(["bash", "-c", script], text=True, timeout=280, env=path).split()
    assert completed == ["solve", "--time-limit", "cells"]
