"""How far one weight alone may move, and decoding that remembers what it was asked last."""

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.model.evaluation import Evaluator, ranges_of_weights

OFFSETS = np.array([0, 4, 5, 11, 14])


def winners(features: FloatArray, weights: FloatArray) -> list[int]:
    pieces = np.split(features @ weights, OFFSETS[1:-1])
    return [int(np.argmax(piece)) for piece in pieces]


def evaluator(features: FloatArray) -> Evaluator:
    losses: IntArray = np.arange(len(features))
    return Evaluator(features, OFFSETS, losses[:, None].astype(float), losses, losses.astype(float))


def test_no_choice_changes_within_the_range_of_a_weight_and_one_does_beyond() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        features, weights = rng.normal(size=(14, 3)), rng.normal(size=3)
        chosen = winners(features, weights)
        ranges = ranges_of_weights(features, OFFSETS, weights)
        for d, (low, high) in enumerate(ranges):
            assert low < weights[d] < high
            for end in (low, high):
                for share, same in ((0.999, True), (1.001, False)):
                    moved = weights.copy()
                    moved[d] = weights[d] + share * (np.clip(end, -1e6, 1e6) - weights[d])
                    assert (winners(features, moved) == chosen) is (same or not np.isfinite(end))


def test_features_that_are_all_alike_leave_a_weight_free() -> None:
    features = np.column_stack([np.arange(14.0), np.ones(14)])
    ranges = ranges_of_weights(features, OFFSETS, np.array([1.0, 0.5]))
    assert ranges.tolist() == [[0.0, np.inf], [-np.inf, np.inf]]


def test_decoding_other_weights_is_not_what_was_decoded_before() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(14, 3))
    decoder = evaluator(features)
    weights = rng.normal(size=3)
    for _ in range(3):
        for sign in (1.0, -1.0):
            asked = sign * weights
            chosen = decoder.decode(asked).selection
            assert (chosen - OFFSETS[:-1]).tolist() == winners(features, asked)
            asked *= -1.0  # the caller's own, in place
            assert (decoder.decode(asked).selection - OFFSETS[:-1]).tolist() == winners(features, asked)
