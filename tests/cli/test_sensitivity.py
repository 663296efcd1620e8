"""Commands about subsets, ranges, lists left out, fronts and budgets: what they print is what the library finds."""

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import ended, finished, json_of, refusal, run, succeeded

import lpmert

TABLE = """question,a,b,c,errors,d,e,f,wrong
1,1,0,3,0,0,0,2,4
1,0,1,0,4,2,1,5,2
1,2,1,1,2,3,3,9,0
2,0,2,0,1,0,0,1,5
2,1,1,5,3,3,1,4,1
2,2,0,1,0,4,4,7,0
3,5,0,0,2,1,0,0,3
3,0,0,1,1,2,2,6,1
3,1,4,0,5,0,5,9,0
"""
OPTIONS = ("--segment", "question", "--features", "a,b,c", "--loss", "errors")
OTHERS = ("--segment", "question", "--features", "d,e", "--loss", "wrong")
NEAR = ("--slack", "1", "--relative-to", "b")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "dev.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def lists(table: Path) -> lpmert.NBest:
    return lpmert.read(table, segment="question", features=["a", "b", "c"], loss="errors")


@pytest.fixture
def others(table: Path) -> lpmert.NBest:
    return lpmert.read(table, segment="question", features="d,e", loss="wrong")


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
    ended(3, "subsets", table, *OPTIONS, "--time-limit", "0", "-o", tmp_path / "out.json")
    done = ended(3, "subsets", table, *OPTIONS, "--time-limit", "0")
    assert "stopped before 1 feature" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text())["complete"] is False


def test_sizes_time_left_out_are_no_success(table: Path, lists: lpmert.NBest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each size that was reached is proved."""
    found = lpmert.best_subsets(lists)
    some = replace(found, subsets=found.subsets[:2], complete=False)
    monkeypatch.setattr(lpmert, "best_subsets", lambda *_, **__: some)
    done = run("subsets", table, *OPTIONS, "-q")
    assert "stopped before 3 features; the sizes above are proved" in done.stdout
    assert done.exit_code == 3


def test_ranges_prints_what_is_attained_and_what_is_possible(table: Path, lists: lpmert.NBest) -> None:
    found = lpmert.near_optimal(lists, slack=1, relative_to="b")
    done = succeeded("ranges", table, *OPTIONS, *NEAR, "-q")
    head, *rows = done.stdout.splitlines()[:4]
    assert head.split() == ["feature", "weight", "none", "below", "found", "from", "to", "none", "above", "sign"]
    for row, one in zip(rows, found.ranges, strict=True):
        name, *numbers = row.split()[:6]
        ends = [one.weight, one.possible[0], *one.attained, one.possible[1]]
        assert name == one.name
        assert numbers == [f"{end:.4g}".replace("inf", "any") for end in ends]
    assert found.scale in done.stdout
    plain = json_of("ranges", table, *OPTIONS, *NEAR)
    assert plain == {**found.to_dict(), "seconds": plain["seconds"], "optimum": plain["optimum"]}


def test_ranges_tells_how_large_the_set_is_with_cones(table: Path, lists: lpmert.NBest) -> None:
    cones = lpmert.near_optimal(lists, slack="1", relative_to="b", cones=True).cones
    assert cones is not None
    done = succeeded("ranges", table, *OPTIONS, *NEAR, "--cones", "-q")
    low, high = (f"{100 * share:.3g}" for share in cones.share)
    assert f"{low} to {high} % of all weights, proved" in done.stdout
    assert f"{len(cones.unchanged)} of 3 surely choose the same" in done.stdout
    plain = json_of("ranges", table, *OPTIONS, *NEAR, "--cones")["cones"]
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
    done = ended(3, "leave-one-out", table, *OPTIONS, "-q")
    assert "lists are open: the search was stopped" in done.stdout
    assert " to " in done.stdout


def test_solve_at_most_is_the_best_subset_of_that_size(table: Path, lists: lpmert.NBest) -> None:
    found = lpmert.best_subsets(lists, at_most=2)[2]
    plain = json_of("solve", table, *OPTIONS, "--at-most", "2")
    assert plain["loss"] == found.result.loss == plain["lower_bound"]
    assert {name for name, weight in plain["weights"].items() if weight} == set(found.features)


def test_pareto_prints_the_front_of_a_feature_or_of_another_column(table: Path, others: lpmert.NBest) -> None:
    numbers_of_f = lpmert.read(table, segment="question", features="d", loss="f").statistics[:, 0]
    for column, numbers in (("e", "e"), ("f", numbers_of_f)):
        found = lpmert.pareto(others, numbers, name=column)
        assert len(found.points) > 1
        done = succeeded("pareto", table, *OTHERS, "--second", column, "-q")
        head, *rows = done.stdout.splitlines()
        assert head.split() == [column, "wrong", "at", "least"]
        shown = [row.split() for row in rows[: len(found.points)]]
        assert shown == [[f"{one.sums[column]:g}", *[f"{one.loss:g}"] * 2] for one in found.points]
        assert "proved: no weights have less of one without more of the other" in done.stdout
        plain = json_of("pareto", table, *OTHERS, "--second", column)
        assert [one["sums"] for one in plain["points"]] == [dict(one.sums) for one in found.points]
        assert (plain["second"], plain["complete"], plain["every"]) == (column, True, True)


def test_pareto_says_what_time_left_open(table: Path) -> None:
    done = ended(3, "pareto", table, *OTHERS, "--second", "e", "--time-limit", "0")
    assert "not complete" in done.stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("subsets", *OPTIONS), "proved for each size: no other features or weights of the region do better"),
        (("ranges", *OPTIONS, *NEAR), "proved: no near-optimal weights of the region lie beyond"),
        (("pareto", *OPTIONS, "--second", "c"), "proved: no weights of the region have less of one"),
    ],
)
def test_a_proof_within_a_region_says_so(table: Path, command: tuple[str, ...], said: str) -> None:
    """Weights elsewhere may do better; without a region, they were ruled out as well."""
    for region in (("--linear", "a=1,b=1,c=1:0.."), ("--nonnegative",)):
        assert said in succeeded(*command, table, *region).stdout
    assert said.replace(" of the region", "") in succeeded(*command, table).stdout


def test_solve_keeps_a_budget_or_says_what_the_least_sum_is(table: Path, others: lpmert.NBest) -> None:
    least = lpmert.pareto(others, "e").points[-1]
    document = json_of("solve", table, *OTHERS, "--budget", f"e={least.sums['e']}")
    assert document["loss"] == document["lower_bound"] == least.loss
    assert document["sums"] == {"e": least.sums["e"]}
    assert document["region"] == {f"e <= {least.sums['e']:g}": 0.0}
    shown = run("solve", table, *OTHERS, "--budget", f"e={least.sums['e']}", "-q").stdout
    assert ["e", f"{least.sums['e']:g}"] in [line.split() for line in shown.splitlines()]
    assert "no weights give a lower loss with e within budget" in shown
    half = "..0" if document["weights"]["d"] < 0 else "0.."
    restricted = run("solve", table, *OTHERS, "--budget", f"e={least.sums['e']}", "--bounds", f"d:{half}", "-q").stdout
    assert "no weights of the region give a lower loss with e within budget" in restricted
    assert f"the least sum of any is {least.sums['e']:g}" in refusal(
        "solve", table, *OTHERS, "--budget", f"e={least.sums['e'] - 1}"
    )


def test_another_column_of_standard_input_is_read_too(table: Path) -> None:
    flags = (*OTHERS, "--second", "f")
    code, told, _ = finished("pareto", "-", *flags, "-q", "--json", stdin=table.open())
    assert code == 0
    of_file, of_stdin = json_of("pareto", table, *flags), json.loads(told)
    assert [point["sums"] for point in of_stdin["points"]] == [point["sums"] for point in of_file["points"]]


def test_solve_prints_whole_weights_that_choose_as_well(table: Path, others: lpmert.NBest) -> None:
    found = lpmert.whole_weights(others, lpmert.minimize(others))
    assert json_of("solve", table, *OTHERS)["whole"] == found
    text = ", ".join(f"{name} {value}" for name, value in found.items())
    assert f"in whole numbers {text}: the choices are as good" in run("solve", table, *OTHERS, "-q").stdout


def test_whole_weights_that_limits_leave_no_room_for_are_left_out(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = json_of("solve", table, *OTHERS)
    monkeypatch.setattr("lpmert.whole.TIMES", 1 << 40)  # bytes that their lists take beside the search's
    bare = json_of("solve", table, *OTHERS)
    assert (bare["status"], bare["loss"], bare["whole"]) == ("optimal", full["loss"], {})
    assert full["whole"]


def test_certificates_of_features_and_budgets_are_written_and_verified(table: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof.json.gz"
    for more, said in (
        (("--at-most", "1"), "is the least with at most 1 feature ("),
        (("--budget", "e=4"), "is the least within e of at most 4"),
        (("--budget", "f=20"), "is the least within f of at most 20"),  # which is no feature
    ):
        solved = json_of("solve", table, *OTHERS, *more, "--certificate", proof)
        document = json_of("verify", proof, table, *OTHERS)
        assert document["proved"]
        assert document["loss"] == solved["loss"]
        assert said in succeeded("verify", proof, table, *OTHERS, "-q").stdout
        proof.unlink()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("subsets", *OPTIONS), ["errors", "features"]),
        (("ranges", *OPTIONS, *NEAR), ["optimum", "c ("]),
        (("pareto", *OTHERS, "--second", "e"), ["e, sum at most", "best wrong"]),
    ],
    ids=["subsets", "ranges", "pareto"],
)
def test_all_are_drawn(tmp_path: Path, table: Path, command: tuple[str, ...], words: list[str]) -> None:
    pytest.importorskip("matplotlib")
    succeeded(*command, table, "-q", "--picture", tmp_path / "found.svg")
    drawn = (tmp_path / "found.svg").read_text()
    assert all(word in drawn for word in words)
    assert ".png" in refusal(*command, table, "--picture", tmp_path / "found.txt")


def test_ctrl_c_before_the_optimum_is_proved_is_told_by_the_exit_code(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = lpmert.leave_one_out

    def pressed(*arguments: Any, **settings: Any) -> lpmert.LeftOut:
        signal.raise_signal(signal.SIGINT)
        return original(*arguments, **settings)

    monkeypatch.setattr(lpmert, "leave_one_out", pressed)
    assert "interrupted: loss and bound hold" in refusal("leave-one-out", table, *OPTIONS, code=130)
    monkeypatch.undo()
    assert "stopped by a limit" in refusal("leave-one-out", table, *OPTIONS, "--time-limit", 0, code=3)
