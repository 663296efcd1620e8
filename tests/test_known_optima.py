"""Problems whose least loss is known, by hand, by construction or from programs of others: every method proves it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from oracle import best_loss, decoded_loss, exact_decode
from problems import WER, bleu_loss, gaussian_lists
from searches import FRACTIONS, RATIOS, many_more, short_descent
from shared import librispeech, needs_shared, swahili, train_choices

import lpmert
from benchmarks import datasets
from lpmert import Linear, NBest, Region, Result, Status
from lpmert.metrics import LinearFraction, precision

Row = tuple[tuple[float, ...], Any]  # features, and a loss or counts


@dataclass(frozen=True)
class Known:
    """Lists and the least loss of the selections that some weights attain.

    selection: the hypotheses that have it, if only these do. short: methods that may end to tolerance. large: too large
    for some methods.
    """

    lists: NBest
    least: float
    metric: Any = "loss"
    region: Region | None = None
    ties: str = "first"
    selection: list[int] | None = None
    short: tuple[str, ...] = ()
    large: bool = False

    def methods(self) -> list[str]:
        """All methods that take it; the sums of sweep and mip are not exact on equations."""
        if self.large:
            return ["auto", "choices", "cells"]
        if self.metric != "loss":
            return [*(FRACTIONS if isinstance(self.metric, LinearFraction) else RATIOS)]
        plane = self.lists.n_features <= 2 and self.region is None
        return [*FRACTIONS, "mip", *(("sweep",) if plane else ())]


def made(*lists: list[Row], names: list[str] | None = None) -> NBest:
    rows = [row for one in lists for row in one]
    offsets = np.cumsum([0, *map(len, lists)])
    return NBest([features for features, _ in rows], offsets, [worth for _, worth in rows], names)


def ring(n: int) -> Known:
    """Lists {a, b}, {b, c}, ..., {z, a}, each of which would like its first, which goes round in a circle; and one more
    list with a feature of its own, so that some weights tie all of the circle.
    """
    units = np.eye(n + 1)
    features = np.concatenate([*(units[[k, (k + 1) % n]] for k in range(n)), [units[n], 0 * units[n]]])
    return Known(NBest(features, np.arange(0, 2 * n + 3, 2), np.tile([0.0, 1.0], n + 1)), 1)


def planted(seed: int, width: int) -> Known:
    """Some weights choose hypotheses that cost 1; all others cost more."""
    lists = gaussian_lists(seed, lists=5, hypotheses=4, features=width)
    chosen = exact_decode(lists, np.random.default_rng(seed).normal(size=width))[0]
    losses = np.random.default_rng(seed).integers(2, 9, len(lists.losses)).astype(float)
    losses[lists.offsets[:-1] + chosen] = 1.0
    return Known(NBest(lists.features, lists.offsets, losses), 5, selection=chosen)


def by_one_unit(seed: int) -> Known:
    """One selection costs one unit in 2^45 less than all others that are attainable."""
    lists = gaussian_lists(seed, lists=4, hypotheses=4, features=3)
    chosen = exact_decode(lists, np.random.default_rng(seed).normal(size=3))[0]
    losses = np.full(16, 2.0**45)
    losses[chosen[0]] -= 1.0
    losses[4:] += 4.0
    losses[4 * np.arange(1, 4) + chosen[1:]] -= 4.0
    return Known(NBest(lists.features, lists.offsets, losses), 4 * 2.0**45 - 1, selection=chosen)


def line_errors(seed: int) -> Known:
    """Linear classification in the plane: the least errors of a line through two points, moved a little each way."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(24, 2))
    labels = points[:, 0] + 0.8 * rng.normal(size=24) > 0
    least = min(int(labels.sum()), int((~labels).sum()))
    for i, j in combinations(range(24), 2):
        side = (points - points[i]) @ np.array([points[i][1] - points[j][1], points[j][0] - points[i][0]])
        for side[i], side[j] in product((1.0, -1.0), repeat=2):
            errors = int(np.sum((side > 0) != labels))
            least = min(least, errors, 24 - errors)
    return Known(lpmert.from_classification(points, labels), least, large=True)


def tastes(sign: float) -> Known:
    """Choices by fixed tastes, or by the opposite of these."""
    rng = np.random.default_rng(3)
    features, own = rng.normal(size=(90, 4)), rng.normal(size=4)
    chosen = np.zeros(90, dtype=bool)
    chosen[np.arange(0, 90, 3) + (features @ own).reshape(30, 3).argmax(axis=1)] = True
    return Known(lpmert.from_choices(sign * features, np.repeat(np.arange(30), 3), chosen), 0, large=True)


OPPOSITE = made([((0.3, 0.1), 0), ((0.2, 0.2), 1)], [((0.8, 0.7), 0), ((0.9, 0.6), 1)])
"""What differs in the two lists is opposite, 0.1 and -0.1, but not as doubles, of which weights exist for both."""

HIDDEN = made([((1, 0), 0), ((1, 2.0**-60), 1)], [((2, 1), 1), ((2, 1 - 2.0**-52), 0)], names=["a", "b"])
"""With b = 0.1 a the sums of both lists round to the same; exactly, the second hypothesis and the third are better."""

TINY = made(
    [((-3, -1.2179876808002627e-100), 4), ((-3, -3.923183594206556e-103), 1), ((-3, 1.605558631447849e-100), 8)],
    [((-6, 5.923231268384194e-101), 3), ((-6, -2.448200403597718e-101), 5)],
    [((4, 1.661097998994102e-102), 7), ((4, -2.139726657124893e-101), 2)],
    names=["a", "b"],
)
"""At w = (1, -1) the least second feature of each list wins; sums of both columns round it away."""

EQUAL_ONCE_REDUCED = made(
    [((0, 1, 0), 1), ((0, 2, 0), 0), ((1, 0, 1), 2)], [((2, 0, 3), 3), ((1, 1, 1), 1), ((0, 5, 2), 0)], names=[*"abc"]
)
"""Without b the first two are identical; w = (-2, 0, 1) chooses them, and the last of the other list."""

LINE = Region(linear=[Linear({"a": 1.0, "b": -4.0}, 0.0, 0.0)], bounds={"a": (None, 0.0)})
"""a = 4 b: (0, 4) and (1, 0) are identical sums."""

BOX = Region(fixed={"d": 1.0}, bounds={"a": (-1, 0), "b": (0, 4), "c": (-0.5, 1.5)})
"""Whatever a and c are within it, the third hypothesis of `FAR` wins: a <= 0 and 2e20 d leave the others behind."""

FAR = made([((1e27, 1, 1e6, 1e20), 0), ((2e27, 3, -1e6, -1e20), 1), ((-1e27, 2, 3e6, 2e20), 2)], names=[*"abcd"])

NEARLY_TIED = [(6, -1, 0.3000000000000001), (2, 6, 1.9999999999999998), (-5, -7, -2.6), (5, 0, 0.5)]

NO_MATCH, NOTHING = [0, 5, 0, 4, 0, 3, 0, 2, 6], [0] * 9
MATCHES = [4, 5, 3, 4, 2, 3, 1, 2, 5], [5, 5, 4, 4, 3, 3, 2, 2, 0]


def cases() -> Iterator[tuple[str, Known]]:
    yield "the middle of a segment", Known(made([((0, 0, 1), 2), ((1, 1, 1), 0), ((2, 2, 1), 1)]), 1)
    yield "inside an edge of a triangle", Known(made([((1, 1), 0), ((0, 1), 2), ((2, 1), 3), ((1, 0), 5)]), 2)
    yield "out of a line by 1e-11", Known(made([((1, 1 + 1e-11), 0), ((0, 0), 1), ((2, 2), 1)]), 0)
    cancelling = [((0, 0), 1), ((1, 1), 0)], [((0, 0), 1), ((-1, -1), 0)]
    yield "lists that cancel each other", Known(made([((1, 0), 0), ((0, 1), 1)], [((0, 1), 0), ((1, 0), 1)]), 1)
    for a, b in product((1, -1), repeat=2):
        others = [((0, 0), 1), ((a, 0), 0)], [((0, 0), 1), ((0, b), 0)]
        yield f"such lists beside others, {a} {b}", Known(made(*cancelling, *others), 1)
    yield "opposite in decimals", Known(OPPOSITE, 1)
    huge = made([((1e150, 0), 1), ((0, 1e-200), 0)], [((-1e150, 2e-200), 0), ((0, 0), 1)])
    yield "features that underflow beside others", Known(huge, 0)
    yield "lists of one hypothesis", Known(made([((1, 2), 0.5)], [((3, 4), -1.5)]), -1)
    for ties, least in (("first", 5), ("best", 3), ("worst", 8)):
        zeros = made([((0, 0), 3), ((0, 0), 1)], [((0, 0), 2), ((0, 0), 5)])
        yield f"features that are all zero, {ties}", Known(zeros, least, ties=ties)
    for n in (3, 4, 5):
        yield f"a ring of {n}", ring(n)
    for seed, width in product(range(3), (2, 3, 5)):
        yield f"planted, {width} features, {seed}", planted(seed, width)
    for seed in range(4):
        yield f"better by one unit, {seed}", by_one_unit(seed)
        yield f"classes in the plane, {seed}", line_errors(seed)
    for exponent in (-300, 332):
        plain = gaussian_lists(1, lists=6, hypotheses=3, features=3)
        least = float(best_loss(plain)) * 2.0**exponent
        yield f"losses times 2^{exponent}", Known(replace(plain, losses=plain.losses * 2.0**exponent).nbest, least)
    yield "parity", Known(lpmert.from_classification([[0, 0], [1, 1], [0, 1], [1, 0]], [1, 1, 0, 0]), 1)
    for sign in (1.0, -1.0):
        yield f"choices by tastes, {sign:+g}", tastes(sign)
    rounding = Region(fixed={"a": 1.0, "b": 0.1})
    yield "sums that rounding makes identical", Known(HIDDEN, 2, region=rounding, selection=[1, 0])
    far_below = Region(fixed={"a": 1.0, "b": -1.0})
    yield "a feature far below the rounding of sums", Known(TINY, 11, region=far_below, selection=[0, 1, 1])
    for ties, least in (("first", 1), ("best", 0), ("worst", 1)):
        without, chosen = Region(fixed={"b": 0.0}), [1 - least, 2]
        reduced = Known(EQUAL_ONCE_REDUCED, least, region=without, ties=ties, selection=chosen)
        yield f"identical without a feature, {ties}", reduced
        on_line = made([((0, 4), 1), ((1, 0), 0), ((3, 3), 2)], names=["a", "b"])
        yield f"identical on a line, {ties}", Known(on_line, least, region=LINE, ties=ties)
    yield "a box of weights of very different size", Known(FAR, 2, region=BOX)
    errors = made([((1, 0), (5, 2)), ((0, 1), (7, 2))], [((1, 1), (5, 2)), ((0, 0), (9, 2))])
    yield "more errors than words", Known(errors, 2.5, WER)
    # Whatever the first weight, the first two lists add up to (5, 1); a second one above 0 makes the third 1 of 3.
    hiding = [((1, 0), (2, 1)), ((0, 0), (1, 1))], [((1, 0), (3, 0)), ((0, 0), (4, 0))]
    yield "cancelling lists of a fraction", Known(made(*hiding, [((0, 1), (1, 3)), ((0, 0), (4, 1))]), 1.5, WER)
    nearly = made([*zip(NEARLY_TIED, [(0, 3, 3), (0, 3, 3), (1, 3, 3), (2, 3, 3)], strict=True)])
    yield "a fraction that doubles take for a tie", Known(nearly, 1 / 3, precision(), short=("cells",))
    yield "no match at all", Known(made([((1, 0), NO_MATCH), ((0, 1), [0, 7, *NO_MATCH[2:]])]), 1.0, "bleu")
    yield "nothing at all", Known(made([((1, 0), NOTHING), ((0, 1), NOTHING)]), 1.0, "bleu")
    beside = [[((0, 1), NOTHING), ((1, 0), one)] for one in MATCHES]
    least_bleu = bleu_loss(np.add(*MATCHES).tolist())
    yield "empty hypotheses and references beside others", Known(made(*beside), least_bleu, "bleu", selection=[1, 1])


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
@short_descent(one=True)
def test_every_method_proves_what_is_known(name: str) -> None:
    """Not by a tie. Lists that cancel each other also start from equal weights; mip may end to its tolerance."""
    one = CASES[name]
    for method in one.methods():
        for initial in (None, np.ones(one.lists.n_features)) if "cancel" in name else (None,):
            result = lpmert.minimize(
                one.lists, metric=one.metric, region=one.region, method=method, ties=one.ties, initial_weights=initial
            )
            about = f"{name}: {method} says {result.status.name} {result.loss}, bound {result.lower_bound}"
            assert one.selection in (None, result.selection.tolist()), about
            if result.status is Status.OPTIMAL_TO_TOLERANCE and method in (*one.short, "mip"):
                assert result.lower_bound <= one.least * (1 + 2.0**-52), about
                assert method != "mip" or result.loss == pytest.approx(one.least, rel=1e-15), about
                continue
            assert (result.status, result.lower_bound) == (Status.OPTIMAL, result.loss), about
            assert result.loss == pytest.approx(one.least, rel=1e-14), about
            assert result.tied_lists == 0 or not ("cancel" in name or "ring" in name), about


# Real data, and problems brought over by the converters


def assert_proved(result: Result, nbest: NBest, loss: float, tolerance: float = 0.0) -> None:
    assert (result.status, result.lower_bound) == (Status.OPTIMAL, result.loss)
    assert result.loss == pytest.approx(loss, rel=0, abs=tolerance)
    assert decoded_loss(nbest, result.weights) == pytest.approx(result.loss, rel=1e-12)


@needs_shared
@pytest.mark.parametrize(
    ("load", "loss", "nodes"),
    [
        (librispeech, 1767, 4_000),
        (lambda: librispeech(4), 1758, 4_000),
        many_more(lambda: librispeech(5), 1746, 35_000),
        many_more(lambda: datasets.libri_characters().load(), 1739, 400_000),
        many_more(lambda: datasets.generated(100, 30, 6).load(), 201, 20_000),
    ],
    ids=["speech, 3", "speech, 4", "speech, 5", "speech, 6", "generated, 6"],
)
def test_proofs_take_no_more_nodes_than_they_need(load: Callable[[], NBest], loss: float, nodes: int) -> None:
    """The optima are those of programs in C++ that share no code with this one, and take about as many nodes."""
    assert_proved(lpmert.minimize(load(), node_limit=nodes, time_limit=1500), load(), loss)


@needs_shared
def test_common_speech_weights_are_checked() -> None:
    nbest, weights = librispeech(), np.array([0.6, 0.4, 0.6])
    found = lpmert.check(nbest, weights)
    assert (found.loss, found.optimum.loss, found.wins_by_ties) == (decoded_loss(nbest, weights), 1767, False)
    assert found.excess == found.loss - 1767 > 0


@needs_shared
@pytest.mark.parametrize("method", ["auto", many_more("choices")])
@pytest.mark.parametrize(("first", "loss"), [(0, 4.948169), (8, 4.641196), (16, 5.091451), (24, 5.890797)])
def test_swahili_with_fourteen_features(first: int, loss: float, method: str) -> None:
    nbest = swahili().restrict(slice(first, first + 8))
    assert_proved(lpmert.minimize(nbest, method=method), nbest, loss, tolerance=1e-6)


@needs_shared
@pytest.mark.parametrize("method", ["auto", many_more("choices"), many_more("cells")])
@pytest.mark.parametrize(("count", "loss"), [(100, 25), (200, 45), (400, 115), (2929, 858)])
def test_choices_of_train_trips(count: int, loss: int, method: str) -> None:
    nbest = train_choices().restrict(slice(count))
    assert_proved(lpmert.minimize(nbest, method=method), nbest, loss)


@needs_shared
@pytest.mark.serial
@pytest.mark.parametrize("method", ["auto", many_more("choices"), many_more("cells")])
def test_the_time_limit_is_kept_on_spelling_normalisation(method: str) -> None:
    nbest, began = datasets.csmt().load(), time.perf_counter()
    result = lpmert.minimize(nbest, method=method, time_limit=2.0)
    assert time.perf_counter() - began < 12.0
    assert 148 <= result.lower_bound <= result.loss == decoded_loss(nbest, result.weights)
