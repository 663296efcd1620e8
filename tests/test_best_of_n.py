"""The best-of-N example: its scores are what they say, its programs run, and its page shows what they print."""

import ast
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import succeeded
from shared import ROOT

import lpmert

FOLDER = ROOT / "examples" / "best_of_n"
PUZZLES = FOLDER / "puzzles.jsonl.gz"


def puzzles() -> list[dict[str, Any]]:
    with gzip.open(PUZZLES, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def table_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]


def test_the_shipped_puzzles_are_those_that_the_program_makes(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl.gz"
    subprocess.run([sys.executable, FOLDER / "puzzles.py", path, "2"], check=True, timeout=200)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        made = [json.loads(line) for line in file]
    assert made == puzzles()[:2]


def result_of(program: str, given: list[int]) -> Any:
    try:
        return eval(program, {"x": given})  # ours, and shipped
    except (TypeError, ValueError, IndexError):
        return None


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_examples_votes_and_right_answers_are_counted_from_what_the_programs_do() -> None:
    found = puzzles()
    assert len(found) == 240
    assert sum(one["correct"] for puzzle in found for one in puzzle["candidates"]) == 531
    assert sum(any(one["correct"] for one in puzzle["candidates"]) for puzzle in found) == 156
    others = [[3, 3, -4, 8, 0], [7, -2, -2, 5, 1, 6], [-9, 4, 2], [1, 1, 2, 8, -5]]
    for puzzle in found[::6]:
        examples = [[ast.literal_eval(part) for part in one.split(" -> ")] for one in puzzle["prompt"].split("; ")]
        behaviour = {}
        for one in puzzle["candidates"]:
            met = sum(result_of(one["text"], given) == wanted for given, wanted in examples)
            assert met == one["scores"]["examples"], one["text"]
            behaviour[one["text"]] = [repr(result_of(one["text"], given)) for given in others]
            if one["correct"]:
                assert behaviour[one["text"]] == [repr(result_of(puzzle["solution"], given)) for given in others]
        for one in puzzle["candidates"]:
            agree = [behaviour[other["text"]] == behaviour[one["text"]] for other in puzzle["candidates"]]
            assert one["scores"]["votes"] <= sum(agree) - 1  # on more inputs than these four


def test_the_comparison_counts_right_answers_of_puzzles_that_have_one() -> None:
    command = [sys.executable, FOLDER / "rerank.py", PUZZLES, "--puzzles", "40", "--folds", "2", "--repeat", "1"]
    done = subprocess.run([*command, "--seconds", "5"], check=True, capture_output=True, text=True, timeout=280)
    shown = {cells[1].strip(): cells for line in table_of(done.stdout) if (cells := line.split("|"))}
    named = {line.split("|")[1].strip() for line in table_of(page_table())}
    assert {*shown} == named
    first = [max(puzzle["candidates"], key=lambda one: one["scores"]["examples"]) for puzzle in puzzles()[:40]]
    there = sum(any(one["correct"] for one in puzzle["candidates"]) for puzzle in puzzles()[:40])
    share = f"{100 * sum(one['correct'] for one in first) / there:.1f} %"
    assert shown["examples alone"][2].strip() == shown["examples alone"][3].strip() == share


def page_table() -> str:
    return (FOLDER / "README.md").read_text(encoding="utf-8").partition("## On unseen puzzles")[2]


def test_auto_proves_what_one_of_its_methods_proves_soon() -> None:
    result = lpmert.minimize(lpmert.read(PUZZLES), node_limit=6_000)
    assert result.status is lpmert.Status.OPTIMAL
    assert result.loss == result.lower_bound == 105  # as by choices alone, which the page tells


@pytest.mark.slow
def test_the_page_shows_what_the_comparison_prints() -> None:
    command = [sys.executable, FOLDER / "rerank.py", PUZZLES, "--seconds", "300"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1700)
    assert table_of(done.stdout)[:-1] == table_of(page_table())[:-1]  # the last one is as good as its time


def test_the_commands_of_the_page_run() -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```", (FOLDER / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    solve, tune, _ = block.splitlines()
    found = succeeded(*solve.replace("examples/", f"{ROOT}/examples/").split()[1:])
    assert "proved optimal" in found.stdout
    assert "105" in found.stdout
    succeeded(*tune.replace("examples/", f"{ROOT}/examples/").split()[1:], "--quick")
