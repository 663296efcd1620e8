"""`lpmert pareto` and `solve --budget`: what they print is what the library finds."""

import json
from pathlib import Path

import pytest
from commands import finished, json_of, refusal, run, succeeded

import lpmert

TABLE = """question,a,b,c,errors
1,0,0,2,4
1,2,1,5,2
1,3,3,9,0
2,0,0,1,5
2,3,1,4,1
2,4,4,7,0
3,1,0,0,3
3,2,2,6,1
3,0,5,9,0
"""
COLUMNS = {"segment": "question", "features": ["a", "b"], "loss": "errors"}
FEWER = ("--segment", "question", "--features", "a,b", "--loss", "errors")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "dev.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def lists(table: Path) -> lpmert.NBest:
    return lpmert.read(table, **COLUMNS)


def test_pareto_prints_the_front_of_a_feature_or_of_another_column(table: Path, lists: lpmert.NBest) -> None:
    others = lpmert.read(table, segment="question", features=["a", "b"], loss="c").statistics[:, 0]
    for column, numbers in (("b", "b"), ("c", others)):
        found = lpmert.pareto(lists, numbers, name=column)
        assert len(found.points) > 1
        done = succeeded("pareto", table, *FEWER, "--second", column, "-q")
        head, *rows = done.stdout.splitlines()
        assert head.split() == [column, "errors", "at", "least"]
        shown = [row.split() for row in rows[: len(found.points)]]
        assert shown == [[f"{one.sums[column]:g}", *[f"{one.loss:g}"] * 2] for one in found.points]
        assert "proved: no weights have less of one without more of the other" in done.stdout
        plain = json_of("pareto", table, *FEWER, "--second", column)
        assert [one["sums"] for one in plain["points"]] == [dict(one.sums) for one in found.points]
        assert (plain["second"], plain["complete"], plain["every"]) == (column, True, True)


def test_pareto_says_what_time_left_open(table: Path) -> None:
    done = run("pareto", table, *FEWER, "--second", "b", "--time-limit", "0")
    assert done.exit_code == 3, done.output
    assert "not complete" in done.stdout


def test_solve_keeps_a_budget_or_says_what_the_least_sum_is(table: Path, lists: lpmert.NBest) -> None:
    least = lpmert.pareto(lists, "b").points[-1]
    document = json_of("solve", table, *FEWER, "--budget", f"b={least.sums['b']}")
    assert document["loss"] == document["lower_bound"] == least.loss
    assert document["sums"] == {"b": least.sums["b"]}
    assert document["region"] == {f"b <= {least.sums['b']:g}": 0.0}
    shown = run("solve", table, *FEWER, "--budget", f"b={least.sums['b']}", "-q").stdout
    assert ["b", f"{least.sums['b']:g}"] in [line.split() for line in shown.splitlines()]
    assert "no weights give a lower loss with b within budget" in shown
    assert f"the least sum of any is {least.sums['b']:g}" in refusal(
        "solve", table, *FEWER, "--budget", f"b={least.sums['b'] - 1}"
    )


def test_another_column_of_standard_input_is_read_too(table: Path) -> None:
    flags = (*FEWER, "--second", "c")
    code, told, _ = finished("pareto", "-", *flags, "-q", "--json", stdin=table.open())
    assert code == 0
    of_file, of_stdin = json_of("pareto", table, *flags), json.loads(told)
    assert [point["sums"] for point in of_stdin["points"]] == [point["sums"] for point in of_file["points"]]


def test_a_front_is_drawn(table: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    succeeded("pareto", table, *FEWER, "--second", "b", "-q", "--picture", tmp_path / "front.svg")
    drawn = (tmp_path / "front.svg").read_text()
    assert "b, sum at most" in drawn
    assert "best errors" in drawn


def test_solve_prints_whole_weights_that_choose_as_well(table: Path, lists: lpmert.NBest) -> None:
    found = lpmert.whole_weights(lists, lpmert.minimize(lists))
    assert json_of("solve", table, *FEWER)["whole"] == found
    text = ", ".join(f"{name} {value}" for name, value in found.items())
    assert f"in whole numbers {text}: the choices are as good" in run("solve", table, *FEWER, "-q").stdout


def test_whole_weights_that_the_limits_leave_no_room_for_are_left_out(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = json_of("solve", table, *FEWER)
    monkeypatch.setattr("lpmert.whole.TIMES", 1 << 40)  # bytes that their lists take beside the search's
    bare = json_of("solve", table, *FEWER)
    assert (bare["status"], bare["loss"], bare["whole"]) == ("optimal", full["loss"], {})
    assert full["whole"]


def test_certificates_of_features_and_budgets_are_written_and_verified(table: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof.json.gz"
    for more, said in (
        (("--at-most", "1"), "is the least with at most 1 features"),
        (("--budget", "b=4"), "is the least within b of at most 4"),
        (("--budget", "c=20"), "is the least within c of at most 20"),  # which is no feature
    ):
        solved = json_of("solve", table, *FEWER, *more, "--certificate", proof)
        document = json_of("verify", proof, table, *FEWER)
        assert document["proved"]
        assert document["loss"] == solved["loss"]
        assert said in succeeded("verify", proof, table, *FEWER, "-q").stdout
        proof.unlink()
