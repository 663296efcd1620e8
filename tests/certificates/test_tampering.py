"""Certificates that were changed, or that are about other claims, are refused, with the place where they break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import Document, base, document, layout

from lpmert import CertificateError, MetricError, NBest, verify
from lpmert.errors import FloatArray
from lpmert.metrics.base import ZeroOne


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "certificate.json"


@dataclass(frozen=True)
class Change:
    """A change of the certificate of a base that its checker must refuse."""

    base: str
    name: str
    apply: Callable[[Document], object]


CHANGES: list[Change] = []


def change(*bases: str) -> Callable[[Callable[[Document], object]], None]:
    """Register a change for the certificates of these bases."""

    def register(apply: Callable[[Document], object]) -> None:
        CHANGES.extend(Change(name, apply.__name__, apply) for name in bases)

    return register


def setting(name: str, *path_and_value: Any) -> None:
    """Register the change that sets one value, the same for all bases."""
    *path, last, value = path_and_value

    def apply(found: Document) -> None:
        place: Any = found
        for key in path:
            place = place[key]
        place[last] = value

    CHANGES.extend(Change(base_, name, apply) for base_ in BASES)


BASES = ("cones", "selections", "pairs")


def shifted(found: Document, key: str, step: Fraction) -> None:
    found[key] = str(Fraction(found[key]) + step)


def records(found: Document, key: str) -> list[Any]:
    """The records that say this, which the base must have."""
    return [record for record in found["tree"] if key in record]


def split(found: Document) -> list[Any]:
    """The records that divide cones."""
    return records(found, "split")[1:]


def first_core(found: Document) -> tuple[list[Any], int]:
    """What holds the first core, and where this begins: exclusions name a hypothesis first."""
    for record in found["tree"]:
        for key, start in (("out", 2), ("cores", 0)):
            if key in record:
                return record[key][0], start
    raise LookupError("no core in the base")


def changed_core(found: Document, place: int, value: object) -> None:
    core, start = first_core(found)
    assert core[start + place] != value or type(core[start + place]) is not type(value)
    core[start + place] = value


# What is claimed.
for _key in ("loss", "bound"):
    for _step in (Fraction(1), Fraction(-1), Fraction(1, 1 << 60), Fraction(-1, 1 << 60)):

        def _shift(found: Document, key: str = _key, step: Fraction = _step) -> None:
            shifted(found, key, step)

        CHANGES.extend(Change(name, f"{_key} {float(_step):+g}", _shift) for name in BASES)
for _step in (1, -1):

    def _shift_both(found: Document, step: int = _step) -> None:
        shifted(found, "loss", Fraction(step))
        shifted(found, "bound", Fraction(step))

    CHANGES.extend(Change(name, f"loss and bound {_step:+d}", _shift_both) for name in BASES)
setting("metric", "metric", "metric:zero-one|columns:1")
setting("ties best", "ties", "best")
setting("ties unknown", "ties", "last")
setting("fingerprint", "fingerprint", "0" * 64)
setting("schema", "lpmert certificate", 0)
setting("further key in the header", "note", "trust me")
setting("exponent out of range", "exponents", "feature1", 5000)
setting("exponent of an unknown feature", "exponents", "feature0", 0)
setting("exponent that overflows", "exponents", "feature1", 1000000000000000000000)
setting("limit of another width", "limits", [["0x1.0p+0"]])
setting("no weights", "weights", {})


@change(*BASES)
def weights_negated(found: Document) -> None:
    found["weights"] = {name: (-float.fromhex(text)).hex() for name, text in found["weights"].items()}


@change(*BASES)
def weights_all_zero(found: Document) -> None:
    found["weights"] = dict.fromkeys(found["weights"], "0x0.0p+0")


@change(*BASES)
def weight_moved_far(found: Document) -> None:
    found["weights"]["feature1"] = "0x1.0p+20"


@change(*BASES)
def weights_in_another_order(found: Document) -> None:
    found["weights"] = dict(reversed(found["weights"].items()))


@change(*BASES)
def weight_infinite(found: Document) -> None:
    found["weights"]["feature1"] = "inf"


@change(*BASES)
def feature_not_spanned(found: Document) -> None:
    del found["exponents"]["feature1"]


@change(*BASES)
def limit_that_the_weights_break(found: Document) -> None:
    found["limits"] = [[(-float.fromhex(text)).hex() for text in found["weights"].values()]]


@change(*BASES)
def limit_of_huge_numbers(found: Document) -> None:
    found["limits"] = [["0x1.0p+1000"] * len(found["weights"])]


@change(*BASES)
def limit_of_zeros(found: Document) -> None:
    found["limits"] = [["0x0.0p+0"] * len(found["weights"])]


@change(*BASES)
def header_without_limits(found: Document) -> None:
    del found["limits"]


@change("cones")
def all_weights_divided_in_another_way(found: Document) -> None:
    found["tree"][0]["split"] = "boxes"


@change("cones")
def all_weights_divided_in_an_unknown_way(found: Document) -> None:
    found["tree"][0]["split"] = "forest"


@change("cones")
def all_weights_divided_like_a_cone(found: Document) -> None:
    found["tree"][0]["split"] = [0, 1]


@change("cones")
def cone_divided_like_all_weights(found: Document) -> None:
    split(found)[0]["split"] = "cones"


@change("selections", "pairs")
def selections_called_cones(found: Document) -> None:
    found["tree"].insert(0, {"split": "cones"})


# The tree as a whole.
@change(*BASES)
def last_record_dropped(found: Document) -> None:
    found["tree"].pop()


@change(*BASES)
def first_record_dropped(found: Document) -> None:
    del found["tree"][0]


@change(*BASES)
def last_record_doubled(found: Document) -> None:
    found["tree"].append(found["tree"][-1])


@change(*BASES)
def no_records(found: Document) -> None:
    found["tree"] = []


@change(*BASES)
def tree_reversed(found: Document) -> None:
    found["tree"].reverse()


@change(*BASES)
def record_that_is_no_object(found: Document) -> None:
    found["tree"][1] = [found["tree"][1]]


@change(*BASES)
def unknown_word_in_a_record(found: Document) -> None:
    found["tree"][1]["because"] = "obvious"


# Cones.
def subtree_end(tree: list[Any], start: int) -> int:
    """Where the part of the cone tree that begins at `start` ends; no selections inside."""
    still_open = 1
    while still_open:
        still_open += 1 if "split" in tree[start] else -1
        start += 1
    return start


def inner_split(tree: list[Any]) -> int:
    """A split whose halves are unlike and contain no selections."""
    for start, record in enumerate(tree):
        if start and "split" in record:
            middle = subtree_end(tree, start + 1) if plain(tree, start) else start
            if middle > start and tree[start + 1 : middle] != tree[middle : subtree_end(tree, start)]:
                return start
    raise LookupError("no such split in the base")


def plain(tree: list[Any], start: int) -> bool:
    end = start
    still_open = 1
    while still_open:
        if "split" not in tree[end] and tree[end]:
            return False
        still_open += 1 if "split" in tree[end] else -1
        end += 1
    return True


@change("cones")
def subtree_dropped(found: Document) -> None:
    start = inner_split(found["tree"])
    found["tree"][start : subtree_end(found["tree"], start)] = [{}]


@change("cones")
def half_a_subtree_dropped(found: Document) -> None:
    start = inner_split(found["tree"])
    del found["tree"][start + 1 : subtree_end(found["tree"], start + 1)]


@change("cones")
def halves_swapped(found: Document) -> None:
    tree = found["tree"]
    start = inner_split(tree)
    middle, end = subtree_end(tree, start + 1), subtree_end(tree, start)
    tree[start + 1 : end] = tree[middle:end] + tree[start + 1 : middle]


@change("cones")
def orthants_swapped(found: Document) -> None:
    found["tree"][1:] = found["tree"][2:] + found["tree"][1:2]


@change("cones")
def every_edge_another(found: Document) -> None:
    for record in split(found):
        record["split"] = [(k + 1) % 3 for k in record["split"]]


@change("cones")
def edges_turned_round(found: Document) -> None:
    for record in split(found):
        record["split"].reverse()


for _number, _edge in enumerate([[0, 0], [0, 3], [-1, 0], [0], [0, 1, 2], [0.0, 1], ["0", 1], [True, 0], None, 7, {}]):

    def _wrong_edge(found: Document, edge: object = _edge) -> None:
        split(found)[0]["split"] = edge

    CHANGES.append(Change("cones", f"edge {_edge!r}", _wrong_edge))


def leaves(found: Document) -> list[Any]:
    """The records that close a cone with nothing more."""
    return [record for record in found["tree"] if not record]


@change("cones")
def leaf_that_is_split(found: Document) -> None:
    leaves(found)[0]["split"] = [0, 1]


@change("cones")
def core_that_is_split(found: Document) -> None:
    records(found, "cores")[0]["split"] = [0, 1]


@change("cones")
def leaf_closed_by_selections_that_do_not_follow(found: Document) -> None:
    leaves(found)[0]["branch"] = 0


@change("cones")
def selections_called_costs(found: Document) -> None:
    next(record for record in found["tree"] if record.keys() & {"out", "cores", "branch"}).clear()


@change("cones")
def leaf_closed_by_something_else(found: Document) -> None:
    leaves(found)[0]["leaf"] = "faith"


@change("cones")
def split_closed_at_once(found: Document) -> None:
    place = found["tree"].index(split(found)[0])
    found["tree"][place] = {}


# Cores.
for _text in (0, -1, 1.5, 1.0, True, "", "1", None, [1]):

    def _wrong_multiplier(found: Document, text: object = _text) -> None:
        changed_core(found, 2, text)

    CHANGES.extend(Change(name, f"multiplier {_text!r}", _wrong_multiplier) for name in BASES)


@change("selections", "pairs")
def multiplier_perturbed(found: Document) -> None:
    core, start = first_core(found)
    core[start + 2] += 1


@change("cones")
def multiplier_perturbed_beyond_the_slack_of_a_cone(found: Document) -> None:
    core, start = first_core(found)
    core[start + 2] <<= 200


@change(*BASES)
def every_line_of_a_core_negated(found: Document) -> None:
    core, start = first_core(found)
    core[start + 2 :: 3] = [-multiplier for multiplier in core[start + 2 :: 3]]


@change(*BASES)
def line_of_a_core_dropped(found: Document) -> None:
    del first_core(found)[0][-3:]


@change(*BASES)
def core_without_its_last_multiplier(found: Document) -> None:
    first_core(found)[0].pop()


@change(*BASES)
def core_emptied(found: Document) -> None:
    core, start = first_core(found)
    del core[start:]


@change("selections", "pairs")
def core_that_compares_a_choice_with_itself(found: Document) -> None:
    core = records(found, "out")[0]["out"][0]
    core[core[2::3].index(core[0]) * 3 + 3] = core[1]


@change("selections")
def core_that_compares_with_a_repeated_hypothesis(found: Document) -> None:
    nbest = base("selections")[0]
    sizes = np.diff(nbest.offsets)
    core, start = first_core(found)
    core[start + 1] = int(sizes[core[start]]) - 1


@change(*BASES)
def core_of_a_list_that_is_not_there(found: Document) -> None:
    changed_core(found, 0, 1000)


@change(*BASES)
def core_of_a_negative_list(found: Document) -> None:
    changed_core(found, 0, -1)


@change(*BASES)
def core_of_a_hypothesis_that_is_not_there(found: Document) -> None:
    changed_core(found, 1, 1000)


@change("selections")
def core_of_an_undecided_list(found: Document) -> None:
    """A true core, about choices that the node does not make."""
    later = [record for record in records(found, "out") if "take" in record]
    found["tree"][0].setdefault("out", []).append(later[-1]["out"][-1])


@change("selections", "pairs")
def core_by_a_number_too_large(found: Document) -> None:
    referring(found)[-1] = 10_000


@change("selections", "pairs")
def core_by_a_negative_number(found: Document) -> None:
    referring(found)[-1] = -1


@change("selections", "pairs")
def core_met_before_given_by_no_number(found: Document) -> None:
    referring(found)[-1] = "0"


def referring(found: Document) -> list[Any]:
    """The numbers of cores that a record names."""
    known: list[Any] = records(found, "known")[0]["known"]
    return known


# Decisions.
def closing(found: Document) -> Any:
    """A record that closes its node by exclusions."""
    return next(record for record in records(found, "out") if "branch" not in record)


@change("selections")
def exclusion_dropped(found: Document) -> None:
    closing(found)["out"].pop()


@change("selections")
def exclusion_doubled(found: Document) -> None:
    closing(found)["out"] *= 2


@change("selections")
def exclusion_of_another_hypothesis(found: Document) -> None:
    closing(found)["out"][0][1] += 1


@change("selections")
def exclusion_without_a_core(found: Document) -> None:
    del closing(found)["out"][0][2:]


@change("selections")
def exclusion_of_nothing(found: Document) -> None:
    closing(found)["out"][0].clear()


@change("selections")
def exclusion_of_a_decided_list(found: Document) -> None:
    record = next(record for record in records(found, "out") if "take" in record)
    record["out"][0][:2] = record["take"]


@change("pairs")
def cores_dropped(found: Document) -> None:
    del next(record for record in records(found, "cores") if "branch" not in record)["cores"]


@change("selections", "pairs")
def branch_on_another_list(found: Document) -> None:
    records(found, "branch")[0]["branch"] += 1


@change("selections", "pairs")
def branch_on_a_list_that_is_not_there(found: Document) -> None:
    records(found, "branch")[0]["branch"] = 1000


@change("selections", "pairs")
def branch_on_a_decided_list(found: Document) -> None:
    record = next(record for record in records(found, "branch") if "take" in record)
    record["branch"] = record["take"][0]


for _value in (None, True, "0", [0], 0.0):

    def _wrong_branch(found: Document, value: object = _value) -> None:
        records(found, "branch")[0]["branch"] = value

    CHANGES.extend(Change(name, f"branch {_value!r}", _wrong_branch) for name in ("selections", "pairs"))


@change("selections", "pairs")
def branch_dropped(found: Document) -> None:
    del records(found, "branch")[0]["branch"]


@change("selections", "pairs")
def branch_of_a_closed_node(found: Document) -> None:
    found["tree"][-1]["branch"] = 0


@change("selections", "pairs")
def choice_dropped(found: Document) -> None:
    del records(found, "take")[0]["take"]


@change("selections", "pairs")
def choice_of_another_hypothesis(found: Document) -> None:
    records(found, "take")[0]["take"][1] += 1


@change("selections", "pairs")
def choice_at_the_root(found: Document) -> None:
    found["tree"][0]["take"] = [0, 0]


@change("selections", "pairs")
def children_swapped(found: Document) -> None:
    tree = found["tree"]
    tree[-2:] = tree[:-3:-1]


@change("selections", "pairs")
def subtree_of_a_choice_dropped(found: Document) -> None:
    del found["tree"][-1]


class TestRefuses:
    def test_there_are_more_than_fifty_kinds_of_changes(self) -> None:
        assert len({each.name for each in CHANGES}) > 100

    @pytest.mark.parametrize("name", BASES)
    def test_the_unchanged_certificates_hold(self, path: Path, name: str) -> None:
        nbest, text = base(name)
        assert layout(document(name)) == text
        path.write_text(text)
        assert verify(path, nbest).proved

    @pytest.mark.parametrize("each", CHANGES, ids=[f"{each.base}: {each.name}" for each in CHANGES])
    def test_a_changed_certificate_does_not_hold(self, path: Path, each: Change) -> None:
        nbest, text = base(each.base)
        found = document(each.base)
        each.apply(found)
        changed = layout(found)
        assert changed != text
        path.write_text(changed)
        with pytest.raises(CertificateError, match=r"certificate\.json:[0-9]+: \w"):
            verify(path, nbest)

    @pytest.mark.parametrize("name", BASES)
    def test_a_certificate_cut_short_anywhere_does_not_hold(self, path: Path, name: str) -> None:
        nbest, text = base(name)
        for end in range(0, len(text.rstrip()), max(1, len(text) // 40)):
            path.write_text(text[:end])
            with pytest.raises(CertificateError):
                verify(path, nbest)

    @pytest.mark.parametrize("name", BASES)
    def test_the_message_names_the_line_that_breaks(self, path: Path, name: str) -> None:
        nbest, text = base(name)
        lines = text.split("\n")
        lines[2] = '{"leaf":"faith"},'
        path.write_text("\n".join(lines))
        with pytest.raises(CertificateError, match=r"certificate\.json:3: "):
            verify(path, nbest)


class TestOtherClaims:
    @pytest.mark.parametrize("name", BASES)
    @pytest.mark.parametrize("what", ["feature", "loss", "order", "fewer hypotheses", "fewer lists", "names"])
    def test_other_lists_are_told_apart(self, path: Path, name: str, what: str) -> None:
        nbest, text = base(name)
        path.write_text(text)
        with pytest.raises(CertificateError):
            verify(path, other_lists(nbest, what))

    @pytest.mark.parametrize("name", BASES)
    @pytest.mark.parametrize("what", ["feature", "loss", "order", "fewer hypotheses", "fewer lists", "names"])
    def test_a_forged_fingerprint_does_not_help(self, path: Path, name: str, what: str) -> None:
        nbest, _ = base(name)
        other = other_lists(nbest, what)
        found = document(name)
        found["fingerprint"] = other.fingerprint
        path.write_text(layout(found))
        with pytest.raises(CertificateError):
            verify(path, other)

    def test_another_metric_is_refused(self, path: Path) -> None:
        nbest, text = base("pairs")
        path.write_text(text)
        with pytest.raises(CertificateError, match=r"metric: .* in the certificate, .* here"):
            verify(path, nbest, metric=ZeroOne())
        with pytest.raises(MetricError):
            verify(path, nbest, metric="bleu")

    @pytest.mark.parametrize("ties", ["best", "worst", "last"])
    def test_another_rule_for_ties_is_refused(self, path: Path, ties: str) -> None:
        nbest, text = base("cones")
        path.write_text(text)
        with pytest.raises(CertificateError, match=r"rule for ties: .* in the certificate, .* here"):
            verify(path, nbest, ties=ties)

    @pytest.mark.parametrize("ties", ["best", "worst"])
    def test_a_proof_for_one_rule_for_ties_is_none_for_another(self, path: Path, ties: str) -> None:
        nbest, _ = base("selections")
        found = document("selections")
        found["ties"] = ties
        path.write_text(layout(found))
        with pytest.raises(CertificateError):
            verify(path, nbest, ties=ties)


def other_lists(nbest: NBest, what: str) -> NBest:
    features: FloatArray = np.array(nbest.dense_features())
    offsets, losses, names = np.array(nbest.offsets), np.array(nbest.statistics), list(nbest.names)
    if what == "feature":
        features[: offsets[3]] *= -1.0
    elif what == "loss":
        losses = losses.max() - losses
    elif what == "order":
        return nbest.restrict(np.arange(nbest.n_lists)[::-1])
    elif what == "fewer hypotheses":
        keep = np.setdiff1d(np.arange(nbest.n_hypotheses), offsets[:-1])
        features, losses = features[keep], losses[keep]
        offsets -= np.arange(len(offsets))
    elif what == "fewer lists":
        return nbest.restrict(slice(1, None))
    else:
        names[0] = "another"
    return NBest(features=features, offsets=offsets, statistics=losses, names=names)
