"""Commands about subsets, ranges, lists left out, fronts and budgets: what they print is what the library finds."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import ended, finished, json_of, precede, press_ctrl_c, refusal, succeeded
from searches import timeless

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
OPTIONS = ("dev.csv", "--segment", "question", "--features", "a,b,c", "--loss", "errors")
OTHERS = ("dev.csv", "--segment", "question", "--features", "d,e", "--loss", "wrong")
NEAR = ("--slack", "1", "--relative-to", "b")
E, F = ("--second", "e"), ("--second", "f")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dev.csv").write_text(TABLE)


def lists() -> lpmert.NBest:
    return lpmert.read("dev.csv", segment="question", features="a,b,c", loss="errors")


def others() -> lpmert.NBest:
    return lpmert.read("dev.csv", segment="question", features="d,e", loss="wrong")


@pytest.mark.parametrize(
    ("call", "find", "rows", "said"),
    [
        (("subsets", *OPTIONS), lambda: lpmert.best_subsets(lists()),
         lambda found: [(one.size, *one.features, one.result.loss) for one in found.subsets], "proved for each size"),
        (("ranges", *OPTIONS, *NEAR), lambda: lpmert.near_optimal(lists(), slack=1, relative_to="b"),
         lambda found: [(one.name, one.weight, *one.attained, *one.possible) for one in found.ranges],
         "proved: no near-optimal weights"),
        (("leave-one-out", *OPTIONS), lambda: lpmert.leave_one_out(lists()),
         lambda found: [row for row in zip(found.list_ids, found.fitted, found.most, strict=True) if row[1] < row[2]],
         "proved: each list"),
        *((("pareto", *OTHERS, "--second", second),
           lambda sums=sums, name=second: lpmert.pareto(others(), sums, name=name),
           lambda found: [(*one.sums.values(), one.loss) for one in found.points],
           "proved: no weights have less of one without more of the other")
          for second, sums in (("e", "e"), ("f", [2, 5, 9, 1, 4, 7, 0, 6, 9]))),
    ],
)  # fmt: skip
def test_commands_print_what_the_library_finds(call: tuple[str, ...], find: Any, rows: Any, said: str) -> None:
    found = find()
    text = succeeded(*call, "-q").stdout
    lines = text.split("\n\n")[0].splitlines()[1:]
    assert len(lines) == len(rows(found)) > 0
    for row in rows(found):
        words = [one if isinstance(one, str) else f"{one:.4g}".replace("inf", "any") for one in row]
        assert any(set(words) <= set(line.split()) for line in lines), row
    assert said in text
    assert timeless(json_of(*call)) == timeless(json.loads(found.to_json()))


def test_at_most_is_the_best_subset_of_this_size() -> None:
    solved, best = json_of("solve", *OPTIONS, "--at-most", "2"), lpmert.best_subsets(lists(), at_most=2)[2]
    assert solved["loss"] == solved["lower_bound"] == best.result.loss
    assert {name for name, weight in solved["weights"].items() if weight} == set(best.features)


def test_a_bound_that_is_met_is_shown_as_the_figure_that_meets_it() -> None:
    Path("answers.csv").write_text("question,a,b,good\n1,1,0,1\n1,0,1,0\n2,2,0,1\n2,0,1,0\n3,0,0,0\n3,0,0,1\n")
    # one in three is wrong, 66.66...%, and the bound is not a hundredth above
    done = succeeded("subsets", "answers.csv", "--segment", "question", "--features", "a,b", "--gain", "good", "-q")
    assert [row.split()[-2:] for row in done.stdout.splitlines()[1:3]] == [["66.67%"] * 2] * 2


def test_what_time_left_open_is_said_also_where_each_size_that_was_reached_is_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for call, said in (
        (("subsets", *OPTIONS), "stopped before 1 feature"),
        (("pareto", *OTHERS, *E), "not complete"),
        (("leave-one-out", *OPTIONS), "stopped by a limit"),
    ):
        done = ended(3, *call, "--time-limit", "0", "-o", "out.json")
        assert said in done.stderr or json.loads(Path("out.json").read_text())["complete"] is False
        assert said in ended(3, *call, "--time-limit", "0").output
    found = lpmert.best_subsets(lists())
    some = replace(found, subsets=found.subsets[:2], complete=False)
    monkeypatch.setattr(lpmert, "best_subsets", lambda *_, **__: some)
    done = ended(3, "subsets", *OPTIONS, "-q")
    assert "stopped before 3 features; the sizes above are proved" in done.stdout


def test_ranges_tells_how_large_the_set_is_with_cones() -> None:
    cones = lpmert.near_optimal(lists(), slack="1", relative_to="b", cones=True).cones
    assert cones is not None
    text = succeeded("ranges", *OPTIONS, *NEAR, "--cones", "-q").stdout
    low, high = (f"{100 * share:.3g}" for share in cones.share)
    assert f"{low} to {high} % of all weights, proved" in text
    assert f"{len(cones.unchanged)} of 3 surely choose the same" in text
    plain = json_of("ranges", *OPTIONS, *NEAR, "--cones")["cones"]
    told = plain["share"], plain["centre"], plain["unchanged"]
    assert told == (list(cones.share), cones.centre, list(cones.unchanged))
    assert "inner" not in plain


def test_leave_one_out_says_what_is_open_or_that_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        precede(patch, lpmert, "leave_one_out", press_ctrl_c)
        assert "interrupted: loss and bound hold" in refusal("leave-one-out", *OPTIONS, code=130)
    monkeypatch.setattr("lpmert.comparing.cross_validation._Search.without", lambda *_: None)
    text = ended(3, "leave-one-out", *OPTIONS, "-q").stdout
    assert "lists are open: the search was stopped" in text
    assert " to " in text


def test_a_proof_within_a_region_says_so() -> None:
    """Weights elsewhere may do better; without a region, they were ruled out as well."""
    for command, said in (
        (("subsets", *OPTIONS), "proved for each size: no other features or weights of the region do better"),
        (("ranges", *OPTIONS, *NEAR), "proved: no near-optimal weights of the region lie beyond"),
        (("pareto", *OPTIONS, "--second", "c"), "proved: no weights of the region have less of one"),
    ):
        for region in (("--linear", "a=1,b=1,c=1:0.."), ("--nonnegative",)):
            assert said in succeeded(*command, *region).stdout
        assert said.replace(" of the region", "") in succeeded(*command).stdout


def test_solve_keeps_a_budget_or_says_what_the_least_sum_is() -> None:
    least = lpmert.pareto(others(), "e").points[-1]
    budget = ("--budget", f"e={least.sums['e']}")
    document = json_of("solve", *OTHERS, *budget)
    assert document["loss"] == document["lower_bound"] == least.loss
    assert (document["sums"], document["region"]) == ({"e": least.sums["e"]}, {f"e <= {least.sums['e']:g}": 0.0})
    text = succeeded("solve", *OTHERS, *budget, "-q").stdout
    assert ["e", f"{least.sums['e']:g}"] in [line.split() for line in text.splitlines()]
    assert "no weights give a lower loss with e within budget" in text
    half = "..0" if document["weights"]["d"] < 0 else "0.."
    restricted = succeeded("solve", *OTHERS, *budget, "--bounds", f"d:{half}", "-q").stdout
    assert "no weights of the region give a lower loss with e within budget" in restricted
    refused = refusal("solve", *OTHERS, "--budget", f"e={least.sums['e'] - 1}")
    assert f"the least sum of any is {least.sums['e']:g}" in refused


def test_another_column_of_standard_input_is_read_too() -> None:
    with open("dev.csv") as file:
        code, told, _ = finished("pareto", "-", *OTHERS[1:], *F, "-q", "--json", stdin=file)
    assert code == 0
    of_file, of_stdin = json_of("pareto", *OTHERS, *F), json.loads(told)
    assert [point["sums"] for point in of_stdin["points"]] == [point["sums"] for point in of_file["points"]]


def test_solve_prints_whole_weights_unless_limits_leave_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lpmert.whole_weights(others(), lpmert.minimize(others()))
    full = json_of("solve", *OTHERS)
    assert full["whole"] == found != {}
    text = ", ".join(f"{name} {value}" for name, value in found.items())
    assert f"in whole numbers {text}: the choices are as good" in succeeded("solve", *OTHERS, "-q").stdout
    monkeypatch.setattr("lpmert.interpretable.TIMES", 1 << 40)  # bytes that their lists take beside the search's
    bare = json_of("solve", *OTHERS)
    assert (bare["status"], bare["loss"], bare["whole"]) == ("optimal", full["loss"], {})


def test_certificates_of_features_and_budgets_are_written_and_verified() -> None:
    for more, said in (
        (("--at-most", "1"), "is the least with at most 1 feature ("),
        (("--budget", "e=4"), "is the least within e of at most 4"),
        (("--budget", "f=20"), "is the least within f of at most 20"),  # which is no feature
    ):
        solved = json_of("solve", *OTHERS, *more, "--certificate", "proof.json.gz")
        document = json_of("verify", "proof.json.gz", *OTHERS)
        assert (document["proved"], document["loss"]) == (True, solved["loss"])
        assert said in succeeded("verify", "proof.json.gz", *OTHERS, "-q").stdout


def test_all_are_drawn() -> None:
    pytest.importorskip("matplotlib")
    for command, words in (
        (("subsets", *OPTIONS), ["errors", "features"]),
        (("ranges", *OPTIONS, *NEAR), ["optimum", "c ("]),
        (("pareto", *OTHERS, *E), ["e, sum at most", "best wrong"]),
    ):
        succeeded(*command, "-q", "--picture", "found.svg")
        drawn = Path("found.svg").read_text()
        assert all(word in drawn for word in words)
        assert ".png" in refusal(*command, "--picture", "found.txt")
