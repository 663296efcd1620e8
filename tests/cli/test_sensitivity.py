"""`lpmert subsets`, `ranges` and `leave-one-out`: what they print is what the library finds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from commands import json_of, refusal, run, succeeded

import lpmert

TABLE = """question,a,b,c,errors
1,1,0,3,0
1,0,1,0,4
1,2,1,1,2
2,0,2,0,1
2,1,1,5,3
2,2,0,1,0
3,5,0,0,2
3,0,0,1,1
3,1,4,0,5
"""
OPTIONS = ("--segment", "question", "--features", "a,b,c", "--loss", "errors")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "dev.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def lists(table: Path) -> lpmert.NBest:
    return lpmert.read(table, segment="question", features=["a", "b", "c"], loss="errors")


def test_subsets_prints_the_best_features_of_each_size(table: Path, lists: lpmert.NBest) -> None:
    found = lpmert.best_subsets(lists)
    done = succeeded("subsets", table, *OPTIONS, "-q")
    head, *rows = done.stdout.splitlines()[:4]
    assert head.split() == ["best", "features", "errors", "at", "least"]
    for row, one in zip(rows, found.subsets, strict=True):
        assert row.split() == [str(one.size), *one.features, *[f"{one.result.loss:g}"] * 2]
    assert "proved for each size" in done.stdout
    plain = json_of("subsets", table, *OPTIONS, "--at-most", "2")
    assert [(one["size"], one["result"]["loss"]) for one in plain["subsets"]] == [
        (one.size, one.result.loss) for one in found.subsets[:2]
    ]
    assert plain["complete"] is True


def test_a_bound_that_is_met_is_shown_as_the_figure_that_meets_it(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("question,a,b,good\n1,1,0,1\n1,0,1,0\n2,2,0,1\n2,0,1,0\n3,0,0,0\n3,0,0,1\n")
    # one in three is wrong, 66.66...%, and the bound is not a hundredth above
    done = succeeded("subsets", path, "--segment", "question", "--features", "a,b", "--gain", "good", "-q")
    for row in done.stdout.splitlines()[1:3]:
        assert row.split()[-2:] == ["66.67%"] * 2


def test_subsets_says_what_time_left_open(tmp_path: Path, table: Path) -> None:
    done = run("subsets", table, *OPTIONS, "--time-limit", "0", "-o", tmp_path / "out.json")
    assert done.exit_code == 3, done.output
    assert json.loads((tmp_path / "out.json").read_text())["complete"] is False


def test_sizes_that_time_left_out_are_no_success(
    table: Path, lists: lpmert.NBest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each size that was reached is proved."""
    found = lpmert.best_subsets(lists)
    some = replace(found, subsets=found.subsets[:2], complete=False)
    monkeypatch.setattr(lpmert, "best_subsets", lambda *_, **__: some)
    done = run("subsets", table, *OPTIONS, "-q")
    assert "proved for these sizes; there was no time for more" in done.stdout
    assert done.exit_code == 3


def test_ranges_prints_what_is_attained_and_what_is_possible(table: Path, lists: lpmert.NBest) -> None:
    found = lpmert.near_optimal(lists, slack=1, relative_to="b")
    done = succeeded("ranges", table, *OPTIONS, "--slack", "1", "--relative-to", "b", "-q")
    head, *rows = done.stdout.splitlines()[:4]
    assert head.split() == ["feature", "weight", "none", "below", "found", "from", "to", "none", "above", "sign"]
    for row, one in zip(rows, found.ranges, strict=True):
        name, *numbers = row.split()[:6]
        ends = [one.weight, one.possible[0], *one.attained, one.possible[1]]
        assert name == one.name
        assert numbers == [f"{end:.4g}".replace("inf", "any") for end in ends]
    assert found.scale in done.stdout
    plain = json_of("ranges", table, *OPTIONS, "--slack", "1", "--relative-to", "b")
    assert plain == {**found.to_dict(), "seconds": plain["seconds"], "optimum": plain["optimum"]}


def test_ranges_tells_how_large_the_set_is_with_cones(table: Path, lists: lpmert.NBest) -> None:
    cones = lpmert.near_optimal(lists, slack="1", relative_to="b", cones=True).cones
    assert cones is not None
    done = succeeded("ranges", table, *OPTIONS, "--slack", "1", "--relative-to", "b", "--cones", "-q")
    low, high = (f"{100 * share:.3g}" for share in cones.share)
    assert f"{low} to {high} % of all weights, proved" in done.stdout
    assert f"{len(cones.unchanged)} of 3 surely choose the same" in done.stdout
    plain = json_of("ranges", table, *OPTIONS, "--slack", "1", "--relative-to", "b", "--cones")["cones"]
    assert (plain["share"], plain["centre"]) == (list(cones.share), cones.centre)
    assert plain["unchanged"] == list(cones.unchanged)
    assert "inner" not in plain


def test_leave_one_out_prints_the_lists_that_cost_more(table: Path, lists: lpmert.NBest) -> None:
    found = lpmert.leave_one_out(lists)
    done = succeeded("leave-one-out", table, *OPTIONS, "-q")
    assert f"of lists left out {found.loss:g}\n" in done.stdout
    more = dict(zip(lists.list_ids, found.most.tolist(), strict=True))
    rows = [line.split() for line in done.stdout.split("\n\n")[0].splitlines()[1:]]
    assert rows
    assert len(rows) == found.n_changed
    assert all(float(left_out) == more[name] > float(fitted) for name, fitted, left_out in rows)
    assert "proved: each list" in done.stdout
    plain = json_of("leave-one-out", table, *OPTIONS)
    assert plain["most"] == found.most.tolist()
    assert plain["loss"] == found.loss


def test_leave_one_out_says_what_time_left_open(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.unseen.leave_one_out._Search.without", lambda *_: None)
    done = run("leave-one-out", table, *OPTIONS, "-q")
    assert done.exit_code == 3, done.output
    assert "lists are open: the search was stopped" in done.stdout
    assert " to " in done.stdout


def test_solve_at_most_is_the_best_subset_of_that_size(table: Path, lists: lpmert.NBest) -> None:
    found = lpmert.best_subsets(lists, at_most=2)[2]
    plain = json_of("solve", table, *OPTIONS, "--at-most", "2")
    assert plain["loss"] == found.result.loss == plain["lower_bound"]
    assert {name for name, weight in plain["weights"].items() if weight} == set(found.features)


@pytest.mark.parametrize(("command", "words"), [("subsets", ["errors", "features"]), ("ranges", ["optimum", "c ("])])
def test_both_are_drawn(tmp_path: Path, table: Path, command: str, words: list[str]) -> None:
    pytest.importorskip("matplotlib")
    more = ("--slack", "1", "--relative-to", "b") if command == "ranges" else ()
    succeeded(command, table, *OPTIONS, *more, "-q", "--picture", tmp_path / "found.svg")
    drawn = (tmp_path / "found.svg").read_text()
    assert all(word in drawn for word in words)
    assert ".png" in refusal(command, table, *OPTIONS, "--picture", tmp_path / "found.txt")
