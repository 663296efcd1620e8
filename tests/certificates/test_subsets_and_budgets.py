"""Certificates of at most k features and of budgets: against oracles that share no code, and changed by hand."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from certificates import Document, assert_refused, layout, rewrite
from problems import at_odds

import lpmert
from lpmert import LimitError, MethodError, NBest, Region

Change = Callable[[Document], object]


def _least(lists: oracle.Lists, size: int) -> float:
    width = lists.features.shape[1]
    sets = (list(one) for one in combinations(range(width), size))
    return min(
        float(oracle.best_loss(oracle.Lists(lists.features[:, one], lists.offsets, lists.losses), "worst"))
        for one in sets
    )


@pytest.mark.parametrize("seed", range(8))
def test_certificates_of_at_most_k_features_agree_with_the_oracle(seed: int, tmp_path: Path) -> None:
    lists, nbest, _ = at_odds(seed, 3 + seed % 2, 3 + seed % 4)
    for size in range(1, nbest.n_features + 1):
        path = tmp_path / f"{size}.json.gz"
        result = lpmert.best_subsets(nbest, at_most=size).subsets[-1].result
        lpmert.certify(nbest, result, path, ties="worst", at_most=size)
        found = lpmert.verify(path, nbest)
        assert found.proved
        assert found.at_most == size
        assert float(found.loss) == _least(lists, size)
        dearer = np.flatnonzero(result.weights == result.weights[result.weights != 0.0][0])[0]
        other = replace(result, weights=np.where(np.arange(nbest.n_features) == dearer, -1.0, 0.0))
        if lpmert.evaluate(nbest, other.weights, ties="worst").loss > result.loss:
            with pytest.raises(MethodError):
                lpmert.certify(nbest, other, path, ties="worst", at_most=size)


@pytest.mark.parametrize("seed", range(8))
def test_certificates_within_budgets_agree_with_all_attainable_selections(seed: int, path: Path) -> None:
    lists, nbest, second = at_odds(seed, 2 + seed % 3, 3 + seed % 4)
    totals = oracle.attainable_totals(lists, np.column_stack([lists.losses, second]))
    for budget in {sums for _, sums in totals}:
        result = lpmert.within_budget(nbest, second, budget)
        lpmert.certify(nbest, result, path, budget={"second": budget}, second=second)
        found = lpmert.verify(path, nbest, second=second)
        assert found.proved
        assert found.budget == {"second": budget}
        assert float(found.loss) == min(loss for loss, own in totals if own <= budget)
        cheaper = [own for loss, own in totals if loss < found.loss]
        if cheaper:
            rewrite(path, budget={"second": str(int(min(cheaper)))})
            assert_refused(path, nbest, second=second)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[NBest, str]:
    """Lists and a certificate of at most two of four features, with a sign, whose weights need both."""
    path = tmp_path_factory.mktemp("few") / "c.json"
    rng = np.random.default_rng(1)
    nbest = NBest(rng.normal(size=(60, 4)).round(2), range(0, 61, 5), rng.integers(0, 9, 60), names=list("abcd"))
    region = Region(bounds={"b": (0, None)})
    result = lpmert.best_subsets(nbest, at_most=2, region=region)[2].result
    lpmert.certify(nbest, result, path, ties="worst", at_most=2, region=region)
    assert np.count_nonzero(result.weights) == 2
    assert lpmert.verify(path, nbest).at_most == 2
    return nbest, path.read_text()


def _trees(document: Document) -> list[int]:
    """Where the trees begin."""
    return [k for k, record in enumerate(document["tree"]) if "exponents" in record]


def _without_tree(number: int) -> Change:
    def apply(document: Document) -> None:
        begins = [*_trees(document), len(document["tree"])]
        del document["tree"][begins[number] : begins[number + 1]]

    return apply


def _swapped(document: Document) -> None:
    begins, tree = _trees(document), document["tree"]
    document["tree"] = tree[begins[-1] :] + tree[begins[1] : begins[-1]] + tree[: begins[1]]


def _put(key: str, value: object) -> Change:
    return lambda document: document.update({key: value})


CLAIMS: dict[str, tuple[Change, str]] = {
    "a smaller loss": (
        lambda d: d.update(loss=str(int(d["loss"]) - 1), bound=str(int(d["loss"]) - 1)),
        "the weights lose",
    ),
    "a smaller bound": (lambda d: d.update(bound=str(int(d["loss"]) - 1)), "the bound is the loss"),
}

CHANGES: dict[str, tuple[Change, str]] = {
    **CLAIMS,
    "a tree is missing": (_without_tree(0), ""),
    "the last tree is missing": (_without_tree(-2), "the tree ends|something follows"),
    "a tree twice": (lambda d: d["tree"].extend(d["tree"][_trees(d)[-1] :]), "something follows"),
    "trees of other sets": (_swapped, ""),
    "sets of its own": (_put("zeros", [["a"]] * 6), ""),
    "more features": (_put("at_most", 3), ""),
    "fewer features": (_put("at_most", 1), "2 weights are other than 0, and 1 may be"),
    "less than no features": (_put("at_most", -1), "no proof with"),
    "no number of features": (lambda d: d.pop("at_most"), "rule for ties"),
    "other ties": (_put("ties", "best"), "ties"),
    "a limit of two features": (
        _put("limits", [[(1.0).hex(), (1.0).hex(), (0.0).hex(), (0.0).hex()]]),
        "signs and zeros",
    ),
    "both signs": (
        lambda d: d["limits"].append([(-float.fromhex(x)).hex() for x in d["limits"][0]]),
        "limits of both signs",
    ),
    "another sign": (_put("limits", [[(0.0).hex(), (-1.0).hex(), (0.0).hex(), (0.0).hex()]]), ""),
    "an equation of two features": (_put("equations", [["1", "1", "0", "0"]]), "signs and zeros"),
    "a budget": (_put("budget", {"a": "5"}), "a budget|no proof with"),
    "a cosine": (lambda d: d.update(around=[(1.0).hex()] * 4, cosine="1/2"), "needs a header"),
    "no exponents": (lambda d: d["tree"].__delitem__(0), "dict expected, not None"),
    "exponents that are no numbers": (lambda d: d["tree"][0].update(exponents={"a": "0"}), "the exponents of a tree"),
    "exponents of fewer features": (lambda d: d["tree"][0]["exponents"].popitem(), "exponent"),
    "exponents and more": (lambda d: d["tree"][0].update(bound="3"), "the exponents of a tree expected"),
    "other weights": (lambda d: d["weights"].update(dict.fromkeys("ab", (1.0).hex())), ""),
}


def _order(document: Document) -> Document:
    """Bring the keys of a header to the order of the format."""
    keys = ["lpmert certificate", "fingerprint", "metric", "ties", "found_by", "loss", "bound", "weights", "limits"]
    keys += ["exponents", "equations", "sums", "around", "cosine", "at_most", "budget", "zeros", "tree"]
    return {key: document[key] for key in keys if key in document}


def test_every_record_of_every_tree_is_needed(few: tuple[NBest, str], path: Path) -> None:
    nbest, text = few
    assert layout(json.loads(text)) == text
    for place in range(len(json.loads(text)["tree"])):
        document = json.loads(text)
        del document["tree"][place]
        assert_refused(path, nbest, content=document)


def test_a_bound_between_two_steps_of_the_losses_is_not_rounded_down(path: Path) -> None:
    """With a alone the least loss is 3. With b alone losses are 2 and 4, in steps of 2: no bound is between them."""
    nbest = NBest([[1, 0], [0, 1], [0, 0]], [0, 3], [3, 2, 4], names=["a", "b"])
    (best,) = lpmert.best_subsets(nbest, at_most=1).subsets
    lpmert.certify(nbest, best.result, path, ties="worst", at_most=1)
    assert lpmert.verify(path, nbest).bound == 2
    rewrite(path, loss="3", bound="3", weights={"a": (1.0).hex(), "b": (0.0).hex()}, exponents={"a": 0})
    assert_refused(path, nbest, "the bound of this part is 0 steps of the loss, and 1 are needed")


def test_a_certificate_of_too_many_sets_is_refused_at_once(few: tuple[NBest, str], path: Path) -> None:
    names = [f"f{k}" for k in range(60)]
    nbest = NBest(np.random.default_rng(0).normal(size=(4, 60)), [0, 2, 4], [0, 1, 1, 0], names=names)
    weights = dict.fromkeys(names, (0.0).hex()) | {"f0": (1.0).hex()}
    other = {"fingerprint": nbest.fingerprint, "weights": weights, "at_most": 30, "limits": []}
    words = "60 features have more than 50,000 sets of 30, one tree each"
    assert_refused(path, nbest, words, content={**json.loads(few[1]), **other})


@pytest.fixture(scope="module")
def within(tmp_path_factory: pytest.TempPathFactory) -> tuple[NBest, Any, str]:
    """Lists, second numbers, and a certificate within a budget that has prices of both sums."""
    path = tmp_path_factory.mktemp("within") / "c.json"
    rng = np.random.default_rng(2)
    losses = rng.integers(0, 9, 60)
    nbest = NBest(rng.normal(size=(60, 3)).round(2), range(0, 61, 5), losses, names=list("abc"))
    second = 20 - losses + rng.integers(0, 9, 60)
    front = lpmert.pareto(nbest, second, name="words")
    point = front.points[len(front.points) // 2]
    lpmert.certify(nbest, point, path, budget={"words": point.sums["words"]}, second=second)
    assert lpmert.verify(path, nbest, second=second).loss == point.loss
    assert any(record.get("at", [0, 0])[1] for record in json.loads(path.read_text())["tree"])
    return nbest, second, path.read_text()


def _first_prices(prices: list[int]) -> Change:
    def apply(document: Document) -> None:
        next(record for record in document["tree"] if record.get("at", [0, 0])[1])["at"] = prices

    return apply


BUDGET_CHANGES: dict[str, tuple[Change, str]] = {
    **CLAIMS,
    "a smaller budget": (lambda d: d.update(budget={"words": str(int(d["budget"]["words"]) - 1)}), "do not keep to"),
    "a larger budget": (lambda d: d.update(budget={"words": str(int(d["budget"]["words"]) + 40)}), "needed"),
    "two budgets": (lambda d: d["budget"].update({"a": "4"}), "one second sum"),
    "no budget": (lambda d: d.pop("budget"), "prices|needed|expected"),
    "no prices": (_first_prices([1, 0]), "needed|a core compares"),
    "a negative price": (_first_prices([1, -1]), "prices of a loss and a second sum are positive"),
    "a loss without price": (_first_prices([0, 1]), "prices of a loss and a second sum are positive"),
    "prices that overflow": (_first_prices([1 << 62, 1]), "too large"),
    "three prices": (_first_prices([1, 1, 1]), "2 whole numbers"),
    "other ties": (_put("ties", "worst"), "ties"),
    "sums": (_put("sums", [1, 2]), "is not the loss"),
}


@pytest.mark.parametrize(
    ("proof", "change", "message"),
    [*(("few", *one) for one in CHANGES.values()), *(("within", *one) for one in BUDGET_CHANGES.values())],
    ids=[*CHANGES, *(f"budget: {name}" for name in BUDGET_CHANGES)],
)
def test_a_changed_certificate_is_refused(
    proof: str, change: Change, message: str, request: pytest.FixtureRequest, path: Path
) -> None:
    nbest, *second, text = request.getfixturevalue(proof)
    document = json.loads(text)
    change(document)
    content = layout(_order(document))
    assert content != text
    assert_refused(path, nbest, message, content=content, second=second[0] if second else None)


def test_another_second_sum_is_refused(within: tuple[NBest, Any, str], path: Path) -> None:
    nbest, second, text = within
    assert_refused(path, nbest, "do not keep to the budget", content=text, second=second + 1)
    assert_refused(path, nbest, "needed|a core compares", second=second // 2)
    with pytest.raises(lpmert.DataError, match="no feature or statistic 'words'"):
        lpmert.verify(path, nbest)


def test_sums_of_decimals_are_those_that_they_print_as(path: Path) -> None:
    """0.1 + 0.2 is within 0.3, which in doubles it is not."""
    lists = NBest([[1.0], [2.0], [1.0], [2.0]], [0, 2, 4], [[0], [0.1], [0], [0.2]], names=["a"])
    second = [0.1, 0.0, 0.2, 0.0]
    for budget, sums, loss in ((0.3, 0.3, "0"), (0.29, 0.0, "3/10")):
        result = lpmert.within_budget(lists, second, budget)
        assert result.sums == {"second": sums}
        lpmert.certify(lists, result, path, budget={"second": budget}, second=second)
        assert str(lpmert.verify(path, lists, second=second).loss) == loss


def test_what_cannot_be_certified_is_said(few: tuple[NBest, str], path: Path) -> None:
    nbest, _ = few
    result = lpmert.best_subsets(nbest, at_most=2)[2].result

    def refused(message: str, own: lpmert.Result = result, **arguments: Any) -> None:
        with pytest.raises(MethodError, match=message or None):
            lpmert.certify(nbest, own, path, **{"ties": "worst", "at_most": 2, **arguments})

    refused("no proof with .* other ties than the 'worst' of best_subsets", ties="first")
    refused("budget must be {name: number}", at_most=None, budget=[5])
    refused("goes with second", at_most=None, second=[1] * nbest.n_hypotheses)
    refused("signs and zeros", region=Region(total=1.0))
    refused("cannot be combined", budget={"a": 1.0})
    with pytest.raises(lpmert.DataError, match="a budget must be a finite number; got '5'"):
        lpmert.certify(nbest, result, path, budget={"a": "5"})
    refused("1 may be", at_most=1)
    refused("other weights lose less", at_most=4)
    refused("one second sum", ties="worst", at_most=None, budget={"a": 1.0})
    refused("one second sum", ties="first", at_most=None, budget={"a": 1.0, "b": 1.0})
    assert not path.exists()
    with pytest.raises(LimitError):
        lpmert.certify(nbest, result, path, ties="worst", at_most=2, time_limit=0)
