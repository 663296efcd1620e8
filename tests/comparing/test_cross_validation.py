"""Cross-validation in comparisons: nothing leaks into a fit, intervals allow for overlap, and everything is shown."""

import numpy as np
import pytest
from commands import json_of, run
from late import Late
from problems import changed_in, noise, random_nbest

import lpmert
from lpmert import Limits, Problem
from lpmert.comparing.comparison import OPTIMUM
from lpmert.comparing.runs import corrected_test
from lpmert.methods import Averaging, Grid, Likelihood, Och, Stabilised
from lpmert.result_schema import schema_of
from lpmert.unseen.estimate import Split, corrected_error, corrected_reach, folds_of

jsonschema, stats = Late("jsonschema"), Late("scipy.stats")

FAST = {"och": Och(restarts=1), "grid": Grid(points=3), "average": Averaging()}
FEW_NODES = Limits(node_limit=20)


def fold_by_fold(nbest, methods=FAST, **settings):
    """The weights of every fit by method, one repetition of three folds."""
    found = lpmert.compare(nbest, methods, seeds=1, cv=3, repeat=1, optimum_limits=FEW_NODES, **settings)
    return {entry.name: [fit.weights for fit in entry.fits] for entry in found.cross_validation.methods}


def honest(fold, _):
    return lpmert.minimize(fold, method=Likelihood()).weights


def test_lists_held_out_change_nothing_in_their_fit():
    nbest = noise(1)
    before, fold = fold_by_fold(nbest, callables={"honest": honest}), folds_of(np.arange(nbest.n_lists), 3, 0)
    for number in range(3):
        after = fold_by_fold(changed_in(nbest, fold == number), callables={"honest": honest})
        assert all(np.array_equal(before[name][number], after[name][number]) for name in before)
        assert not all(np.array_equal(before[name], after[name]) for name in before)


def test_initial_weights_are_no_starts_of_folds():
    nbest = noise(3)
    plain = fold_by_fold(nbest, methods={"och": Och(restarts=0)})
    started = fold_by_fold(nbest, methods={"och": Och(restarts=0)}, initial_weights=[-1.0, 5.0])
    assert np.array_equal(plain["och"], started["och"])


def test_noise_costs_half_of_the_lists_whatever_it_is_fitted_with():
    values, here = [], []
    for seed in range(6):
        found = lpmert.compare(
            noise(seed, lists=40, dimension=4), FAST, seeds=1, cv=4, repeat=2, optimum=None
        ).cross_validation
        values.append([entry.loss.value for entry in found.methods])
        here.append(found["och"].here)
        assert found["och"].optimism > 0.1
    deviation = np.sqrt(40 / 4 / 6)  # of the mean of six sums of 40 fair coins
    assert np.all(np.abs(np.mean(values, axis=0) - 20) < 3 * deviation)
    assert np.mean(here) < 20 - 3 * deviation


@pytest.mark.parametrize("kind", ["loss", "f1"])
def test_the_loss_is_that_of_all_folds_decoded_apart(kind):
    nbest = random_nbest(5, lists=17, kind=kind)
    metric = Problem(nbest, kind).metric
    found = lpmert.compare(
        nbest,
        FAST,
        metric=kind,
        seeds=1,
        seed=3,
        cv=4,
        repeat=3,
        optimum_limits=FEW_NODES,
        held_out=random_nbest(6, kind=kind),
    )
    for entry in found.cross_validation.methods:
        losses = []
        for repetition in range(3):
            fold, total = folds_of(np.arange(17), 4, 3 + repetition), 0.0
            for number in range(4):
                weights = entry.fits[4 * repetition + number].weights
                total = total + Problem(nbest.restrict(fold == number), kind).evaluate(weights).statistics
            losses.append(metric.loss(total))
        assert entry.loss.value == pytest.approx(np.mean(losses))
        if entry.name == OPTIMUM:
            assert entry.here == found.optimum.loss
            assert entry.held_out == Problem(random_nbest(6, kind=kind), kind).evaluate(found.optimum.weights).loss
        else:
            assert entry.here == np.mean(found[entry.name].losses)
            assert entry.held_out == np.mean(found[entry.name].held_out_losses)
        assert entry.optimism == pytest.approx(1 - entry.here / entry.loss.value)
    first = found.cross_validation.methods[0]
    for entry in found.cross_validation.methods[1:]:
        assert entry.difference.value == pytest.approx(entry.loss.value - first.loss.value)
        assert (entry.p_value < 0.05) == (not entry.difference.low <= 0.0 <= entry.difference.high)


def test_the_optimum_of_a_fold_is_never_worse_than_the_methods_on_the_lists_fitted_to():
    found = lpmert.compare(random_nbest(2), FAST, seeds=1, cv=3, repeat=2, optimum_limits=FEW_NODES).cross_validation
    for place, fit in enumerate(found[OPTIMUM].fits):
        assert fit.loss <= min(entry.fits[place].loss for entry in found.methods)
    assert found[OPTIMUM].proved == sum(fit.status.proved for fit in found[OPTIMUM].fits)


def test_fits_of_folds_are_the_intervals_data():
    nbest = random_nbest(5, lists=17)
    found = lpmert.compare(nbest, FAST, seeds=1, cv=4, repeat=2, optimum=None).cross_validation
    och, grid = ([fit.held_out_loss for fit in found[name].fits] for name in ("och", "grid"))
    sizes = [np.sum(folds_of(np.arange(17), 4, seed) == number) for seed in (0, 1) for number in range(4)]
    values = 17 * (np.array(grid) - np.array(och)) / sizes
    error = np.sqrt((1 / 8 + 1 / 3) * values.var(ddof=1))
    reach = stats.t.ppf(0.975, 7) * error
    ends = found["grid"].difference
    assert (ends.high - ends.low) / 2 == pytest.approx(reach)
    assert found["grid"].p_value == pytest.approx(2 * stats.t.sf(abs(values.mean()) / error, 7))


def test_the_corrected_interval_by_hand():
    values = np.array([1.0, 2.0, 3.0, 4.0])  # of variance 5 / 3, times 1 / 4 + 1 / 4
    assert corrected_error(values, 0.25) == pytest.approx(np.sqrt(5 / 6))
    assert corrected_reach(values, 0.25) == pytest.approx(3.182446 * np.sqrt(5 / 6), rel=1e-6)
    assert corrected_test(values - 2.5, 0.25) == 1.0
    assert corrected_test(np.ones(4), 0.25) == 0.0
    assert corrected_test(np.zeros(4), 0.25) == 1.0


def test_lists_of_a_source_are_held_out_together():
    nbest = random_nbest(5, lists=18)
    groups = [name % 6 for name in range(18)]
    found = lpmert.compare(nbest, FAST, seeds=1, cv=3, repeat=2, groups=groups, optimum=None).cross_validation
    assert found.groups == 6
    split = Split(np.array(groups), 3, 0, 2)
    for repetition in range(2):
        fold = split.of_lists(repetition)
        assert all(len(set(fold[group::6].tolist())) == 1 for group in range(6))
        for number in range(3):
            weights = found["och"].fits[3 * repetition + number].weights
            alone = lpmert.minimize(nbest.restrict(fold != number), method=FAST["och"], seed=repetition).weights
            assert np.array_equal(weights, alone)


def test_weights_that_are_given_are_left_out_and_it_is_said():
    found = lpmert.compare(random_nbest(), FAST, seeds=1, cv=2, repeat=1, weights={"mine": [1, 2, 3]}, optimum=None)
    assert [entry.name for entry in found.cross_validation.methods] == list(FAST)
    assert any(note.startswith("mine: not fitted here") for note in found.cross_validation.notes)


def test_what_was_done_before_a_stop_counts_in_whole_repetitions():
    found = lpmert.compare(
        random_nbest(), FAST, seeds=1, cv=2, repeat=3, optimum=None, on_stage=lambda _, done, parts: done == 5 < parts
    )
    assert not found.complete
    assert (found.cross_validation.repetitions, found.cross_validation.planned) == (2, 3)
    assert "only 2 of 3 repetitions were made" in found.cross_validation.notes
    early = lpmert.compare(random_nbest(), FAST, seeds=1, cv=2, repeat=3, optimum=None, on_stage=lambda *_: True)
    assert early.cross_validation is None


@pytest.mark.parametrize(
    ("methods", "settings", "text"),
    [
        ({"stabilised": Stabilised(earlier=[])}, {}, "continues from what earlier runs left behind"),
        ({"optimum": Och()}, {}, "name of the optimum"),
        (FAST, {"cv": 1}, "cv"),
        (FAST, {"repeat": 0}, "repeat"),
        (FAST, {"groups": [1, 2]}, "one entry for each"),
        (FAST, {"groups": ["same"] * 12}, "needs two lists, or groups"),
    ],
)
def test_what_cannot_be_cross_validated_is_refused(methods, settings, text):
    with pytest.raises(lpmert.LpmertError, match=text):
        lpmert.compare(random_nbest(lists=12), methods, **{"cv": 2, **settings})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("cv") / "lists.tsv"
    lpmert.write(noise(4, lists=30), path)
    return path


class TestCommands:
    def test_compare_shows_and_writes(self, table):
        arguments = ("--methods", "och,average", "--seeds", "1", "--cv", "3", "--repeat", "2", "--node-limit", "20")
        shown = run("compare", table, *arguments)
        assert shown.exit_code in (0, 3), shown.stderr
        for text in ("on unseen", "optimism", "difference", "3-fold cross-validation, 2 times", "\noptimum "):
            assert text in shown.stdout
        written = json_of("compare", table, *arguments)
        jsonschema.validate(written, schema_of("comparison"))
        assert [entry["name"] for entry in written["cross_validation"]["methods"]] == ["och", "average", "optimum"]

    def test_tune_takes_options_of_the_average(self, table):
        found = json_of("tune", table, "--quick", "--set", "average.temperature=10")["averaged"]
        assert found["temperature"] == pytest.approx(10 * found["unit"])
