"""Certificates that were changed, or that are about other claims, are refused, with the place where they break."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from operator import mul, neg
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import BASES, Document, assert_refused, base, document, layout
from mutations import changed

from lpmert import MetricError, NBest, verify
from lpmert.certificates.claims import RatioClaim
from lpmert.certificates.format import OPTIONAL
from lpmert.metrics import Bleu
from lpmert.metrics.base import ZeroOne

Change = Callable[[Document], object]

SUMS = ("few boxes", "selections", "pairs")
TREES = ("selections", "pairs")
RATIOS = ("bleu boxes", "bleu selections")
STEPS = [Fraction(1), Fraction(-1), Fraction(1, 1 << 60), Fraction(-1, 1 << 60)]
NO_NUMBERS = ("", "x", "nan", "inf", "1e9", "1/0", "0x1p+9999", "9" * 1000, "-" + "9" * 1000, "1/" + "9" * 1000)
LIKE_1 = (None, True, 1, 1.0, "1", [1], {"a": 1})


def before_last(found: Document, path: tuple[Any, ...]) -> Any:
    """Keys and numbers lead to a place, and functions go on from what is there."""
    place: Any = found
    for key in path[:-1]:
        place = key(place) if callable(key) else place[key]
    return place


def put(*path: Any, to: object = None) -> Change:
    """Return the change that sets one value."""
    return lambda found: before_last(found, path).__setitem__(path[-1], to)


def add(*path: Any, by: int = 1) -> Change:
    return lambda found: put(*path, to=before_last(found, path)[path[-1]] + by)(found)


def drop(*path: Any) -> Change:
    return lambda found: before_last(found, path).__delitem__(path[-1])


def shift(step: Fraction | int, *keys: str) -> Change:
    return lambda found: found.update({key: str(Fraction(found[key]) + step) for key in keys})


def saying(*keys: str, last: bool = False, without: str = "") -> Callable[[Document], Any]:
    """Return what finds the first record that says all this, and not that; the base must have one."""

    def find(found: Document) -> Any:
        tree = found["tree"][::-1] if last else found["tree"]
        return next(record for record in tree if {*keys} <= {*record} and without not in record)

    return find


def first_where(true: Callable[[Document], object], begin: int = 0) -> Callable[[Document], Any]:
    """Return what finds the first record, from one on, of which something is true."""
    return lambda found: next(record for record in found["tree"][begin:] if true(record))


split = first_where(lambda record: "split" in record, 1)  # divides a box
leaf = first_where(lambda record: not record)  # closes a box with nothing more
of_core = first_where(lambda record: record.keys() & {"out", "cores"})
by_cores = first_where(lambda record: record.keys() == {"cores"} and len(record["cores"]) > 2)
priced = first_where(lambda record: record.get("at", [0, 0])[1])  # the first prices that count the second sum


def core(found: Document) -> tuple[list[Any], int]:
    """What holds the first core, and where this begins: exclusions name a hypothesis first."""
    record = of_core(found)
    return (record["out"][0], 2) if "out" in record else (record["cores"][0], 0)


def in_core(first: int, value: Callable[[Any], object], step: int | None = None) -> Change:
    """Return the change of a number of the first core, or of each number so many places on."""

    def apply(found: Document) -> None:
        entry, start = core(found)
        for place in range(start + first, len(entry), step or len(entry)):
            entry[place] = value(entry[place])

    return apply


def core_emptied(found: Document) -> None:
    entry, start = core(found)
    del entry[start:]


def core_of_a_choice_with_itself(found: Document) -> None:
    entry = saying("out")(found)["out"][0]
    entry[entry[2::3].index(entry[0]) * 3 + 3] = entry[1]


def core_with_a_repeated_hypothesis(found: Document) -> None:
    entry, start = core(found)
    entry[start + 1] = int(np.diff(base("selections")[0].offsets)[entry[start]]) - 1


def core_of_an_undecided_list(found: Document) -> None:
    """A true core, about choices that the node does not make."""
    later = saying("out", "take", last=True)(found)
    found["tree"][0].setdefault("out", []).append(later["out"][-1])


def cores_of_other_choices(found: Document) -> None:
    """All that were met on the way close a node."""
    record = saying("known", last=True, without="branch")(found)
    record["known"] = [*range(record["known"][-1] + 1)]


def exclusion_by_itself(found: Document) -> None:
    """The hypothesis is compared with itself alone."""
    entry = closing(found)["out"][0]
    entry[2:] = [*entry[:2], 1]


def on_a_decided_list(found: Document, kind: str) -> None:
    record = saying(kind, "take")(found)
    if kind == "out":
        record["out"][0][:2] = record["take"]
    else:
        record["branch"] = record["take"][0]


def inner_split(tree: list[Any]) -> tuple[int, int, int]:
    """Where the halves of a split begin and end that are unlike and contain no selections."""

    def end_of(start: int) -> int | None:
        still_open = 1
        while still_open and not tree[start].keys() & {"out", "branch"}:
            still_open += 1 if "split" in tree[start] else -1
            start += 1
        return None if still_open else start

    for first, record in enumerate(tree[:-1], start=1):
        if first > 1 and "split" in record and (end := end_of(first - 1)):
            middle = end_of(first)
            if middle and tree[first:middle] != tree[middle:end]:
                return first, middle, end
    raise LookupError("no such split in the base")


def subtree_dropped(found: Document) -> None:
    first, _, end = inner_split(found["tree"])
    found["tree"][first - 1 : end] = [{}]


def half_a_subtree_dropped(found: Document) -> None:
    first, middle, _ = inner_split(found["tree"])
    del found["tree"][first:middle]


def halves_swapped(found: Document) -> None:
    tree = found["tree"]
    first, middle, end = inner_split(tree)
    tree[first:end] = tree[middle:end] + tree[first:middle]


def every_axis_another(found: Document) -> None:
    for record in found["tree"][1:]:
        if "split" in record:
            record["split"] = [3 - k for k in record["split"]]


def weights_and_limits(weight: Callable[[float], float], limit: Callable[[float], float]) -> Iterator[Change]:
    """Yield the change of all weights, and that to one limit made of them."""

    def of_weights(found: Document, change: Callable[[float], float]) -> list[str]:
        return [change(float.fromhex(text)).hex() for text in found["weights"].values()]

    yield lambda found: found["weights"].update(zip(found["weights"], of_weights(found, weight), strict=True))
    yield lambda found: found.update(limits=[of_weights(found, limit)])


def weight_times(name: str, factor: float) -> Change:
    return lambda found: put("weights", name, to=(factor * float.fromhex(found["weights"][name])).hex())(found)


def other_sums_and_their_loss(found: Document) -> None:
    """A better BLEU is claimed to be the bound."""
    add("sums", 0)(found)
    found["bound"] = str(RatioClaim(Bleu(), np.empty((0, 9))).loss(found["sums"]))


def all_prices(to: list[int] | None) -> Change:
    def apply(found: Document) -> None:
        for record in found["tree"]:
            if "at" in record:
                record.update(at=to) if to else record.pop("at")

    return apply


def several_cores(found: Document) -> Any:
    """The cores of the first record that closes a box by three or more."""
    return by_cores(found)["cores"]


def to_the_end(place: int) -> Change:
    return lambda found: found["tree"].append(found["tree"].pop(place))


def trees(found: Document) -> list[list[Any]]:
    """The trees of a certificate about at most k features, each with the record of its exponents."""
    begins = [k for k, record in enumerate(found["tree"]) if "exponents" in record]
    return [found["tree"][begin:end] for begin, end in pairwise([*begins, None])]


def of_trees(change: Callable[[list[list[Any]]], list[list[Any]]]) -> Change:
    return lambda found: found.update(tree=[record for tree in change(trees(found)) for record in tree])


def budget(step: int) -> Change:
    return lambda found: found["budget"].update(feature3=str(int(found["budget"]["feature3"]) + step))


closing = saying("out", without="branch")  # A record that closes its node by exclusions
known: tuple[Any, ...] = (saying("known"), "known")
branch: tuple[Any, ...] = (saying("branch"), "branch")

CHANGES: dict[tuple[str, ...], list[Change | tuple[Change, str]]] = {
    tuple(BASES): [
        *(put(key, to=text) for key in ("loss", "bound") for text in (*NO_NUMBERS, "9" * 999, "9" * 5000)),
        *(put("weights", "feature1", to=text) for text in NO_NUMBERS),
        put("fingerprint", to="0" * 64),
        put("metric", to="metric:zero-one|columns:1"),
        put("ties", to="last"),
        put("lpmert certificate", to=0),
        put("note", to="trust me"),
        put("limits", to=[[]]),
        drop("limits"),
        put("tree", to=[]),
        lambda found: found["tree"].append(found["tree"][-1]),
    ],
    SUMS: [
        *(shift(step, key) for key in ("loss", "bound") for step in STEPS),
        *(shift(step, "loss", "bound") for step in (1, -1)),
        put("ties", to="best"),
        put("exponents", "feature1", to=5000),
        put("exponents", "feature0", to=0),
        put("exponents", "feature1", to=10**21),
        drop("exponents", "feature1"),
        put("limits", to=[["0x1.0p+0"]]),
        *weights_and_limits(neg, neg),
        *weights_and_limits(lambda _: 0.0, lambda _: 0.0),
        *weights_and_limits(lambda weight: -1e-300 * weight, lambda _: 2.0**1000),
        put("weights", to={}),
        put("weights", "feature1", to="0x1.0p+20"),
        lambda found: found.update(weights=dict(reversed(found["weights"].items()))),
        lambda found: found["tree"].reverse(),
        lambda found: found["tree"].insert(1, [found["tree"].pop(1)]),
        put("tree", 1, "because", to="obvious"),
        *(in_core(2, lambda _, value=value: value) for value in (0, -1)),
        *(in_core(2, partial(mul, factor), 3) for factor in (-1, 0)),
        drop(core, 0, slice(-3, None)),
        drop(core, 0, -1),
        core_emptied,
        *(in_core(0, lambda _, value=value: value) for value in (-1, 1000)),  # lists that are not there
        in_core(1, lambda _: 1000),
    ],
    ("few boxes",): [
        put("tree", 0, "split", to="forest"),
        put("tree", 0, "split", to=[1]),
        put(split, "split", to="boxes"),
        subtree_dropped,
        half_a_subtree_dropped,
        halves_swapped,
        to_the_end(1),
        every_axis_another,
        *(put(split, "split", to=axis) for axis in ([0], [3], [-1], [], [1, 2])),
        put(leaf, "split", to=[1]),
        put(leaf, "take", to=None),
        put(saying("cores"), "split", to=[1]),
        put(leaf, "branch", to=0),  # by selections that do not follow
        lambda found: first_where(lambda record: record.keys() & {"out", "cores", "branch"})(found).clear(),
        put(leaf, "leaf", to="faith"),
        lambda found: split(found).clear(),
        in_core(2, lambda multiplier: multiplier << 200),  # beyond the slack of the box
    ],
    TREES: [
        lambda found: found["tree"].insert(0, {"split": "boxes"}),
        put(saying("take"), "split", to="boxes"),
        in_core(2, lambda multiplier: multiplier + 1),
        core_of_a_choice_with_itself,
        *(put(*known, -1, to=number) for number in (10_000, -1)),
        add(*branch),
        put(*branch, to=1000),
        partial(on_a_decided_list, kind="branch"),
        drop(*branch),
        put("tree", -1, "branch", to=0),  # of a closed node
        drop(saying("take"), "take"),
        add(saying("take"), "take", -1),
        put("tree", 0, "take", to=[0, 0]),
        to_the_end(-2),  # two children
    ],
    ("selections",): [
        core_with_a_repeated_hypothesis,
        core_of_an_undecided_list,
        drop(closing, "out", -1),
        lambda found: closing(found)["out"].extend(closing(found)["out"][:]),
        add(closing, "out", 0, 1),
        drop(closing, "out", 0, slice(2, None)),
        exclusion_by_itself,
        drop(closing, "out", 0, slice(None)),
        partial(on_a_decided_list, kind="out"),
    ],
    ("pairs",): [
        drop(saying("cores", without="branch"), "cores"),
        cores_of_other_choices,
    ],
    (*RATIOS, "f1"): [
        *(add("sums", k, by=step) for k in range(3) for step in (-1, 1)),
        *(put("sums", to=sums) for sums in ([], [1], [1, 2, 3], [-1] * 9, [10**30] * 9, [0] * 9, [[1]] * 9)),
        drop("sums"),
        shift(STEPS[-1], "bound", "loss"),
        shift(STEPS[-1], "bound"),
    ],
    RATIOS: [
        *(put(saying("at"), "at", to=at) for at in ([], [1], [0] * 9, [-1] * 9, [0.5] * 9, [True] * 9, [10**30] * 9)),
        other_sums_and_their_loss,
        all_prices([1000, 1, 1, 1, 1000, 1, 1, 1000, 1]),
        all_prices(None),
        drop(*branch),
        put(*branch, to=100),
        put("tree", -1, "branch", to=0),
        put(saying("out"), "out", 0, 2, to=[]),
        add(saying("out"), "out", 0, 1),
    ],
    ("boxes closed by cores",): [
        lambda found: several_cores(found).pop(),
        lambda found: several_cores(found)[0].insert(2, -several_cores(found)[0].pop(2)),
        drop(several_cores, 0, slice(3, None)),
        lambda found: several_cores(found).__setitem__(slice(None), several_cores(found)[:1] * 3),
        lambda found: several_cores(found)[0].__setitem__(slice(3, None), several_cores(found)[0][:3]),
        lambda found: several_cores(found).clear(),
    ],
    ("equations",): [
        put("equations", to=[]),
        drop("equations", 1),
        drop("equations", 0, -1),
        *(put("equations", to=equations) for equations in ([[1.0] * 4], ["1"], [["1/0"] * 4])),
        *(put("equations", k, d, to=str(10**400)) for k in range(2) for d in range(4)),
        (put("weights", "feature2", to="0x1p+0"), "do not fulfil equation 0"),
        (weight_times("feature3", 1 + 1e-6), "do not fulfil equation 1"),
    ],
    ("two features", "budget"): [
        (shift(-1, "loss", "bound"), "the weights lose"),
        (shift(-1, "bound"), "the bound is the loss"),
        (put("around", to=["0x1.0p+0"] * 4), "needs a header"),
    ],
    ("two features",): [
        of_trees(lambda trees: trees[1:]),
        (of_trees(lambda trees: trees[:-1]), "the tree ends"),
        (of_trees(lambda trees: [*trees, trees[-1]]), "something follows"),
        of_trees(lambda trees: [trees[-1], *trees[1:-1], trees[0]]),
        put("zeros", to=[["feature1"]] * 6),
        put("at_most", to=3),
        (put("at_most", to=1), "2 weights are other than 0, and 1 may be"),
        (put("at_most", to=-1), "no proof with"),
        (drop("at_most"), "rule for ties"),
        (put("ties", to="best"), "ties"),
        (put("limits", 0, 0, to="0x1.0p+0"), "signs and zeros"),
        (lambda found: found["limits"].append(["0x0.0p+0", "-0x1.0p+0", "0x0.0p+0", "0x0.0p+0"]), "both signs"),
        put("limits", 0, 1, to="-0x1.0p+0"),
        (put("equations", to=[["1", "1", "0", "0"]]), "signs and zeros"),
        (put("budget", to={"feature1": "5"}), "a budget|no proof with"),
        (drop("tree", 0), "dict expected, not None"),
        (put("tree", 0, "exponents", "feature1", to="0"), "the exponents of a tree"),
        (drop("tree", 0, "exponents", "feature1"), "exponent"),
        (put("tree", 0, "bound", to="3"), "the exponents of a tree expected"),
        lambda found: found["weights"].update(feature1="0x1.0p+0", feature2="0x1.0p+0"),
    ],
    ("budget",): [
        (budget(-1), "do not keep to"),
        (budget(40), "needed"),
        (put("budget", "feature1", to="4"), "one second sum"),
        (put("budget", to={"feature1": "4"}), "do not keep to|needed|a core compares"),
        (drop("budget"), "prices|needed|expected"),
        (put(priced, "at", to=[1, 0]), "needed|a core compares"),
        *((put(priced, "at", to=to), "prices of a loss and a second sum are positive") for to in ([1, -1], [0, 1])),
        (put(priced, "at", to=[1 << 62, 1]), "too large"),
        (put(priced, "at", to=[1, 1, 1]), "2 whole numbers"),
        (put("ties", to="worst"), "ties"),
        (put("sums", to=[1, 2]), "is not the loss"),
    ],
}


@pytest.mark.parametrize("name", BASES)
def test_the_unchanged_certificates_hold(path: Path, name: str) -> None:
    nbest, text = base(name)
    assert layout(document(name)) == text
    path.write_text(text)
    assert verify(path, nbest).proved


@pytest.mark.parametrize("name", BASES)
def test_a_changed_certificate_does_not_hold(path: Path, name: str, subtests: pytest.Subtests) -> None:
    nbest, text = base(name)
    for bases, changes in CHANGES.items():
        for number, row in enumerate(changes if name in bases else ()):
            change, words = row if isinstance(row, tuple) else (row, "")
            with subtests.test(f"{number} of {bases}"):
                found = document(name)
                change(found)
                content = layout(found)
                assert content != text
                said = assert_refused(path, nbest, rf"certificate\.json:[0-9]+: (?=\w).*({words})", content=content)
                assert len(said) < len(str(path)) + 500


def first_places(value: Any) -> Iterator[tuple[Any, ...]]:
    """The places of all values of a JSON object, of the first of an array, and of three whole numbers of a core."""
    keys: list[Any] = [*value] if isinstance(value, dict) else []
    if isinstance(value, list):
        keys = [*range(len(value))][: 3 if {*map(type, value)} == {int} else 1]
    for key in keys:
        yield (key,)
        yield from ((key, *rest) for rest in first_places(value[key]))


@pytest.mark.parametrize("name", BASES)
def test_a_value_of_another_type_is_refused(path: Path, name: str) -> None:
    """Every value of the header, also one that is not there; and of the tree the first record that has each key."""
    found = document(name)
    tree = found["tree"]
    keys = {key for record in tree for key in record}
    firsts = {min(k for k, record in enumerate(tree) if key in record) for key in keys}
    places = [place for place in first_places(found | {"tree": None}) if place != ("tree",)]
    places += [(key,) for key in OPTIONAL if key not in found]
    places += [("tree", k, *rest) for k in firsts for rest in first_places(tree[k])]
    for place in places:
        whole = {place[0]: None, **found}
        for value in LIKE_1:
            if type(value) is not type(before_last(whole, (*place, None))):
                content = changed(whole, place, lambda _, value=value: value)
                assert_refused(path, base(name)[0], content=content)


@pytest.mark.parametrize("name", BASES)
def test_every_record_is_needed_also_within_limits(path: Path, name: str) -> None:
    for place in range(len(document(name)["tree"])):
        found = document(name)
        del found["tree"][place]
        assert_refused(path, base(name)[0], content=found, time_limit=1e6, memory_limit=1 << 50)


@pytest.mark.parametrize("name", SUMS)
def test_a_certificate_cut_short_anywhere_does_not_hold(path: Path, name: str) -> None:
    nbest, text = base(name)
    for end in range(0, len(text.rstrip()), max(1, len(text) // 40)):
        assert_refused(path, nbest, content=text[:end])


@pytest.mark.parametrize("name", ["few boxes", "selections", "f1", "pairs"])
def test_the_message_names_the_line_that_breaks_and_why(path: Path, name: str) -> None:
    nbest, found = base(name)[0], document(name)
    tree = [found["tree"][0], {"leaf": "faith"}, *found["tree"][2:]]
    assert_refused(path, nbest, r"certificate\.json:3: ", content={**found, "tree": tree})
    if name != "f1":
        assert_refused(path, nbest, "is not the loss of", content={**found, "sums": [0]})
    (found["tree"][0] if name in TREES else leaf(found))["at"] = [1]
    assert_refused(path, nbest, "no prices where one sum", content=found)


@pytest.mark.parametrize("name", [*SUMS, *RATIOS, "f1"])
def test_other_lists_are_refused_even_if_forged(path: Path, name: str, subtests: pytest.Subtests) -> None:
    nbest, text = base(name)
    offsets, losses, row = nbest.offsets, nbest.statistics, np.arange(nbest.n_hypotheses)
    keep = np.setdiff1d(row, offsets[:-1])
    signs = np.where(row < offsets[3], -1.0, 1.0)[:, None]
    others = {
        "feature": replace(nbest, features=signs * nbest.features),
        "order": nbest.restrict(np.arange(nbest.n_lists)[::-1]),
        "fewer lists": nbest.restrict(slice(1, None)),
        "fewer hypotheses": NBest(
            nbest.features[keep], offsets - np.arange(len(offsets)), losses[keep], nbest.names,
            statistic_names=nbest.statistic_names,
        ),
        "names": replace(nbest, names=("another", *nbest.names[1:])),
    }  # fmt: skip
    if name in SUMS:
        others["loss"] = replace(nbest, statistics=losses.max() - losses)
    for what, other in others.items():
        for content in (text, {**document(name), "fingerprint": other.fingerprint}):
            with subtests.test(what):
                assert_refused(path, other, content=content)


def test_another_metric_is_refused(path: Path) -> None:
    nbest, text = base("pairs")
    assert_refused(path, nbest, "metric: .* in the certificate, .* here", content=text, metric=ZeroOne())
    with pytest.raises(MetricError):
        verify(path, nbest, metric="bleu")


@pytest.mark.parametrize("ties", ["best", "worst", "last"])
def test_another_rule_for_ties_is_refused_and_its_proof_is_none_for_this_one(path: Path, ties: str) -> None:
    said = "rule for ties: .* in the certificate, .* here"
    assert_refused(path, base("few boxes")[0], said, content=base("few boxes")[1], ties=ties)
    for name in ("selections", "bleu boxes") if ties != "last" else ():
        assert_refused(path, base(name)[0], content={**document(name), "ties": ties}, ties=ties)
