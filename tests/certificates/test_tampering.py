"""Certificates that were changed, or that are about other claims, are refused, with the place where they break."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import BASES, Document, assert_refused, base, document, layout

from lpmert import CertificateError, MetricError, NBest, verify
from lpmert.certificates.check.ratio import Ratio
from lpmert.metrics import Bleu
from lpmert.metrics.base import ZeroOne

Change = Callable[[Document], object]

SUMS = ("few boxes", "selections", "pairs")
TREES = ("selections", "pairs")
RATIOS = ("bleu boxes", "bleu selections")
CORES = "boxes closed by cores"


def before_last(found: Document, path: tuple[Any, ...]) -> Any:
    place: Any = found
    for key in path[:-1]:
        place = key(place) if callable(key) else place[key]
    return place


def put(*path: Any, to: object = None) -> Change:
    """Return the change that sets one value: keys and numbers lead to it, and functions go on from what is there."""

    def apply(found: Document) -> None:
        before_last(found, path)[path[-1]] = to

    return apply


def add(*path: Any, by: int = 1) -> Change:
    """Return the change that makes one number larger."""

    def apply(found: Document) -> None:
        before_last(found, path)[path[-1]] += by

    return apply


def drop(*path: Any) -> Change:
    """Return the change that deletes one value."""

    def apply(found: Document) -> None:
        del before_last(found, path)[path[-1]]

    return apply


def shift(step: Fraction, *keys: str) -> Change:
    return lambda found: found.update({key: str(Fraction(found[key]) + step) for key in keys})


def saying(*keys: str, last: bool = False, without: str = "") -> Callable[[Document], Any]:
    """Return what finds the first record that says all this, and not that; the base must have one."""

    def find(found: Document) -> Any:
        tree = found["tree"][::-1] if last else found["tree"]
        return next(record for record in tree if {*keys} <= {*record} and without not in record)

    return find


def split(found: Document) -> Any:
    """The first record that divides a box."""
    return next(record for record in found["tree"][1:] if "split" in record)


def leaf(found: Document) -> Any:
    """The first record that closes a box with nothing more."""
    return next(record for record in found["tree"] if not record)


def core(found: Document) -> tuple[list[Any], int]:
    """What holds the first core, and where this begins: exclusions name a hypothesis first."""
    for record in found["tree"]:
        for key, start in (("out", 2), ("cores", 0)):
            if key in record:
                return record[key][0], start
    raise LookupError("no core in the base")


def in_core(place: int, value: Callable[[Any], object]) -> Change:
    """Return the change of a number of the first core."""

    def apply(found: Document) -> None:
        entry, start = core(found)
        before, entry[start + place] = entry[start + place], value(entry[start + place])
        assert (before, type(before)) != (entry[start + place], type(entry[start + place]))

    return apply


def negated(weights: dict[str, str]) -> list[str]:
    return [(-float.fromhex(text)).hex() for text in weights.values()]


def subtree_end(tree: list[Any], start: int) -> int | None:
    """Where the part of a tree of boxes that begins at `start` ends; `None` if there are selections inside."""
    still_open = 1
    while still_open:
        if tree[start].keys() & {"out", "branch"}:
            return None
        still_open += 1 if "split" in tree[start] else -1
        start += 1
    return start


def inner_split(tree: list[Any]) -> tuple[int, int, int]:
    """Where the halves of a split begin and end that are unlike and contain no selections."""
    for first, record in enumerate(tree[:-1], start=1):
        if first > 1 and "split" in record and (end := subtree_end(tree, first - 1)):
            middle = subtree_end(tree, first)
            if tree[first:middle] != tree[middle:end]:
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


def core_of_a_choice_with_itself(found: Document) -> None:
    entry = saying("out")(found)["out"][0]
    entry[entry[2::3].index(entry[0]) * 3 + 3] = entry[1]


def exclusion_by_itself(found: Document) -> None:
    """The hypothesis is compared with itself alone."""
    entry = closing(found)["out"][0]
    entry[2:] = [*entry[:2], 1]


def cores_of_other_choices(found: Document) -> None:
    """All that were met on the way close a node."""
    record = saying("known", last=True, without="branch")(found)
    record["known"] = [*range(record["known"][-1] + 1)]


def core_with_a_repeated_hypothesis(found: Document) -> None:
    entry, start = core(found)
    entry[start + 1] = int(np.diff(base("selections")[0].offsets)[entry[start]]) - 1


def core_times(factor: int) -> Change:
    def apply(found: Document) -> None:
        entry, start = core(found)
        entry[start + 2 :: 3] = [factor * multiplier for multiplier in entry[start + 2 :: 3]]

    return apply


def core_emptied(found: Document) -> None:
    entry, start = core(found)
    del entry[start:]


def core_of_an_undecided_list(found: Document) -> None:
    """A true core, about choices that the node does not make."""
    later = saying("out", "take", last=True)(found)
    found["tree"][0].setdefault("out", []).append(later["out"][-1])


def exclusion_of_a_decided_list(found: Document) -> None:
    record = saying("out", "take")(found)
    record["out"][0][:2] = record["take"]


def branch_on_a_decided_list(found: Document) -> None:
    record = saying("branch", "take")(found)
    record["branch"] = record["take"][0]


def other_sums_and_their_loss(found: Document) -> None:
    """A better BLEU is claimed to be the bound."""
    add("sums", 0)(found)
    found["bound"] = str(Ratio(Bleu()).loss(found["sums"]))


def all_prices(to: list[int] | None) -> Change:
    def apply(found: Document) -> None:
        for record in found["tree"]:
            if "at" in record:
                record.update(at=to) if to else record.pop("at")

    return apply


def several_cores(found: Document) -> Any:
    """The cores of the first record that closes a box by three or more."""
    return next(one["cores"] for one in found["tree"] if one.keys() == {"cores"} and len(one["cores"]) > 2)


closing = saying("out", without="branch")
"""A record that closes its node by exclusions."""
known: tuple[Any, ...] = (saying("known"), "known")
branch: tuple[Any, ...] = (saying("branch"), "branch")
STEPS = [Fraction(1), Fraction(-1), Fraction(1, 1 << 60), Fraction(-1, 1 << 60)]

CHANGES: dict[tuple[str, ...], dict[str, Change]] = {
    SUMS: {
        **{f"{key} {float(step):+g}": shift(step, key) for key in ("loss", "bound") for step in STEPS},
        **{f"loss and bound {step:+d}": shift(Fraction(step), "loss", "bound") for step in (1, -1)},
        "metric": put("metric", to="metric:zero-one|columns:1"),
        "ties best": put("ties", to="best"),
        "ties unknown": put("ties", to="last"),
        "fingerprint": put("fingerprint", to="0" * 64),
        "schema": put("lpmert certificate", to=0),
        "further key in the header": put("note", to="trust me"),
        "exponent out of range": put("exponents", "feature1", to=5000),
        "exponent of an unknown feature": put("exponents", "feature0", to=0),
        "exponent that overflows": put("exponents", "feature1", to=10**21),
        "feature not spanned": drop("exponents", "feature1"),
        "limit of another width": put("limits", to=[["0x1.0p+0"]]),
        "limit that the weights break": lambda found: found.update(limits=[negated(found["weights"])]),
        "limit of huge numbers": lambda found: found.update(limits=[["0x1.0p+1000"] * len(found["weights"])]),
        "limit of zeros": lambda found: found.update(limits=[["0x0.0p+0"] * len(found["weights"])]),
        "header without limits": drop("limits"),
        "no weights": put("weights", to={}),
        "weights negated": lambda found: found["weights"].update(
            zip(found["weights"], negated(found["weights"]), strict=True)
        ),
        "weights all zero": lambda found: found["weights"].update(dict.fromkeys(found["weights"], "0x0.0p+0")),
        "weight moved far": put("weights", "feature1", to="0x1.0p+20"),
        "weight infinite": put("weights", "feature1", to="inf"),
        "weights in another order": lambda found: found.update(weights=dict(reversed(found["weights"].items()))),
        "last record dropped": drop("tree", -1),
        "first record dropped": drop("tree", 0),
        "last record doubled": lambda found: found["tree"].append(found["tree"][-1]),
        "no records": put("tree", to=[]),
        "tree reversed": lambda found: found["tree"].reverse(),
        "record that is no object": lambda found: found["tree"].insert(1, [found["tree"].pop(1)]),
        "unknown word in a record": put("tree", 1, "because", to="obvious"),
        **{
            f"multiplier {value!r}": in_core(2, lambda _, value=value: value)
            for value in (0, -1, 1.5, 1.0, True, "", "1", None, [1])
        },
        "core negated": core_times(-1),
        "core times 0": core_times(0),
        "line of a core dropped": drop(core, 0, slice(-3, None)),
        "core without its last multiplier": drop(core, 0, -1),
        "core emptied": core_emptied,
        "core of a list that is not there": in_core(0, lambda _: 1000),
        "core of a negative list": in_core(0, lambda _: -1),
        "core of a hypothesis that is not there": in_core(1, lambda _: 1000),
    },
    ("few boxes",): {
        "all weights divided in an unknown way": put("tree", 0, "split", to="forest"),
        "all weights divided like a box": put("tree", 0, "split", to=[1]),
        "box divided like all weights": put(split, "split", to="boxes"),
        "subtree dropped": subtree_dropped,
        "half a subtree dropped": half_a_subtree_dropped,
        "halves swapped": halves_swapped,
        "faces swapped": lambda found: found["tree"].append(found["tree"].pop(1)),
        "every axis another": every_axis_another,
        **{
            f"axis {axis!r}": put(split, "split", to=axis)
            for axis in ([0], [3], [-1], [], [1, 2], [1.0], ["1"], [True], None, 1, {})
        },
        "leaf that is split": put(leaf, "split", to=[1]),
        "leaf that takes": put(leaf, "take", to=None),
        "core that is split": put(saying("cores"), "split", to=[1]),
        "leaf closed by selections that do not follow": put(leaf, "branch", to=0),
        "selections called costs": lambda found: next(
            record for record in found["tree"] if record.keys() & {"out", "cores", "branch"}
        ).clear(),
        "leaf closed by something else": put(leaf, "leaf", to="faith"),
        "split closed at once": lambda found: split(found).clear(),
        "multiplier beyond the slack of a box": in_core(2, lambda multiplier: multiplier << 200),
    },
    TREES: {
        "selections called boxes": lambda found: found["tree"].insert(0, {"split": "boxes"}),
        "node that is split": put(saying("take"), "split", to="boxes"),
        "multiplier perturbed": in_core(2, lambda multiplier: multiplier + 1),
        "core of a choice with itself": core_of_a_choice_with_itself,
        "core by a number too large": put(*known, -1, to=10_000),
        "core by a negative number": put(*known, -1, to=-1),
        "core met before given by no number": put(*known, -1, to="0"),
        "branch on another list": add(*branch),
        "branch on a list that is not there": put(*branch, to=1000),
        "branch on a decided list": branch_on_a_decided_list,
        **{f"branch {value!r}": put(*branch, to=value) for value in (None, True, "0", [0], 0.0)},
        "branch dropped": drop(*branch),
        "branch of a closed node": put("tree", -1, "branch", to=0),
        "choice dropped": drop(saying("take"), "take"),
        "choice of another hypothesis": add(saying("take"), "take", -1),
        "choice at the root": put("tree", 0, "take", to=[0, 0]),
        "children swapped": lambda found: found["tree"].append(found["tree"].pop(-2)),
    },
    ("selections",): {
        "core with a repeated hypothesis": core_with_a_repeated_hypothesis,
        "core of an undecided list": core_of_an_undecided_list,
        "exclusion dropped": drop(closing, "out", -1),
        "exclusion doubled": lambda found: closing(found)["out"].extend(closing(found)["out"][:]),
        "exclusion of another hypothesis": add(closing, "out", 0, 1),
        "exclusion without a core": drop(closing, "out", 0, slice(2, None)),
        "exclusion by itself": exclusion_by_itself,
        "exclusion of nothing": drop(closing, "out", 0, slice(None)),
        "exclusion of a decided list": exclusion_of_a_decided_list,
    },
    ("pairs",): {
        "cores dropped": drop(saying("cores", without="branch"), "cores"),
        "cores of other choices": cores_of_other_choices,
    },
    (*RATIOS, "f1"): {
        **{f"sum {k} {step:+d}": add("sums", k, by=step) for k in range(3) for step in (-1, 1)},
        **{
            f"sums {str(sums)[:20]}": put("sums", to=sums)
            for sums in (
                *(None, [], "3", [1], [1, 2, 3], [-1] * 9, [0.5] * 9, [True] * 9, [10**30] * 9, [0] * 9, {}),
                [[1]] * 9,
            )
        },
        "sums dropped": drop("sums"),
        "loss and bound lower": shift(Fraction(-1, 1 << 60), "bound", "loss"),
        "bound lower": shift(Fraction(-1, 1 << 60), "bound"),
        "last record dropped": drop("tree", -1),
        "last record doubled": lambda found: found["tree"].append(found["tree"][-1]),
    },
    RATIOS: {
        **{
            f"at {str(at)[:20]}": put(saying("at"), "at", to=at)
            for at in (None, [], "3", [1], [0] * 9, [-1] * 9, [0.5] * 9, [True] * 9, [10**30] * 9, {}, 7)
        },
        "other sums and their loss": other_sums_and_their_loss,
        "prices far away": all_prices([1000, 1, 1, 1, 1000, 1, 1, 1000, 1]),
        "all prices dropped": all_prices(None),
        "first branch dropped": drop(*branch),
        "first branch of another list": put(*branch, to=100),
        "last part branches": put("tree", -1, "branch", to=0),
        "exclusion without its core": put(saying("out"), "out", 0, 2, to=[]),
        "exclusion of another": add(saying("out"), "out", 0, 1),
    },
    (CORES,): {
        "core dropped": lambda found: several_cores(found).pop(),
        "core turned round": lambda found: several_cores(found)[0].insert(2, -several_cores(found)[0].pop(2)),
        "core of one side": drop(several_cores, 0, slice(3, None)),
        "core repeated instead of others": lambda found: several_cores(found).__setitem__(
            slice(None), several_cores(found)[:1] * len(several_cores(found))
        ),
        "core of a list with itself": lambda found: several_cores(found)[0].__setitem__(
            slice(3, None), several_cores(found)[0][:3]
        ),
        "no cores": lambda found: several_cores(found).clear(),
    },
}


class TestRefuses:
    @pytest.mark.parametrize("name", BASES)
    def test_the_unchanged_certificates_hold(self, path: Path, name: str) -> None:
        nbest, text = base(name)
        assert layout(document(name)) == text
        path.write_text(text)
        assert verify(path, nbest).proved

    @pytest.mark.parametrize("name", dict.fromkeys(name for bases in CHANGES for name in bases))
    def test_a_changed_certificate_does_not_hold(self, path: Path, name: str, subtests: pytest.Subtests) -> None:
        nbest, text = base(name)
        changes = [one for bases, own in CHANGES.items() if name in bases for one in own.items()]
        assert len(changes) > 5
        for what, change in changes:
            with subtests.test(what):
                found = document(name)
                change(found)
                changed = layout(found)
                assert changed != text
                assert_refused(path, nbest, r"certificate\.json:[0-9]+: \w", content=changed)

    @pytest.mark.parametrize("change", [lambda entry: (0, (entry[0] + 1) % 14), lambda entry: (2, entry[2] << 80)])
    def test_a_changed_core_proves_no_more(self, path: Path, change: Callable[[list[int]], tuple[int, int]]) -> None:
        """Some of these cores are true by chance, and still close their box."""
        nbest, refused = base(CORES)[0], 0
        for at in range(5):
            found = document(CORES)
            entry = [one for one in found["tree"] if len(one.get("cores", ())) > 2][at]["cores"][0]
            place, value = change(entry)
            entry[place] = value
            path.write_text(layout(found))
            try:
                assert verify(path, nbest).proved
            except CertificateError:
                refused += 1
        assert refused >= 3

    @pytest.mark.parametrize("name", SUMS)
    def test_a_certificate_cut_short_anywhere_does_not_hold(self, path: Path, name: str) -> None:
        nbest, text = base(name)
        for end in range(0, len(text.rstrip()), max(1, len(text) // 40)):
            assert_refused(path, nbest, content=text[:end])

    @pytest.mark.parametrize("name", SUMS)
    def test_the_message_names_the_line_that_breaks(self, path: Path, name: str) -> None:
        found = document(name)
        found["tree"][1] = {"leaf": "faith"}
        assert_refused(path, base(name)[0], r"certificate\.json:3: ", content=found)

    @pytest.mark.parametrize("name", ["few boxes", "selections", "f1", "pairs"])
    def test_sums_and_prices_have_no_place_where_one_sum_tells_the_loss(self, path: Path, name: str) -> None:
        nbest, found = base(name)[0], document(name)
        if name != "f1":
            assert_refused(path, nbest, "is not the loss of", content={**found, "sums": [0]})
        (found["tree"][0] if name in TREES else leaf(found))["at"] = [1]
        assert_refused(path, nbest, "no prices where one sum", content=found)


OTHERS = ("feature", "loss", "order", "fewer hypotheses", "fewer lists", "names")


class TestOtherClaims:
    @pytest.mark.parametrize("name", [*SUMS, *RATIOS, "f1"])
    def test_other_lists_are_refused_even_if_forged(self, path: Path, name: str, subtests: pytest.Subtests) -> None:
        nbest, text = base(name)
        for what in OTHERS if name in SUMS else [what for what in OTHERS if what != "loss"]:
            other = other_lists(nbest, what)
            for content in (text, {**document(name), "fingerprint": other.fingerprint}):
                with subtests.test(what):
                    assert_refused(path, other, content=content)

    def test_another_metric_is_refused(self, path: Path) -> None:
        nbest, text = base("pairs")
        assert_refused(path, nbest, "metric: .* in the certificate, .* here", content=text, metric=ZeroOne())
        with pytest.raises(MetricError):
            verify(path, nbest, metric="bleu")

    @pytest.mark.parametrize("ties", ["best", "worst", "last"])
    def test_another_rule_for_ties_is_refused(self, path: Path, ties: str) -> None:
        nbest, text = base("few boxes")
        assert_refused(path, nbest, "rule for ties: .* in the certificate, .* here", content=text, ties=ties)

    @pytest.mark.parametrize("ties", ["best", "worst"])
    @pytest.mark.parametrize("name", ["selections", "bleu boxes"])
    def test_a_proof_for_one_rule_for_ties_is_none_for_another(self, path: Path, name: str, ties: str) -> None:
        assert_refused(path, base(name)[0], content={**document(name), "ties": ties}, ties=ties)


def other_lists(nbest: NBest, what: str) -> NBest:
    offsets, losses = nbest.offsets, nbest.statistics
    keep = np.setdiff1d(np.arange(nbest.n_hypotheses), offsets[:-1])
    signs = np.where(np.arange(nbest.n_hypotheses) < offsets[3], -1.0, 1.0)[:, None]
    changes: dict[str, dict[str, Any]] = {
        "feature": {"features": signs * nbest.features},
        "loss": {"statistics": losses.max() - losses},
        "fewer hypotheses": {
            "features": nbest.features[keep],
            "statistics": losses[keep],
            "offsets": offsets - np.arange(len(offsets)),
        },
        "names": {"names": ("another", *nbest.names[1:])},
    }
    lists = {"order": np.arange(nbest.n_lists)[::-1], "fewer lists": slice(1, None)}
    return nbest.restrict(lists[what]) if what in lists else replace(nbest, **changes[what])
