"""Tuning: results and recommendations of function and command; estimates, into which held-out lists never leak."""

import json
import signal
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from commands import json_of, refusal, run, succeeded
from late import Late
from problems import changed_in, noise, random_nbest
from shared import ROOT

import lpmert
from lpmert.comparing import cross_validation as estimates
from lpmert.comparing.averaging import Average
from lpmert.comparing.cross_validation import Interval, Split, cross_validated, estimate_of, fit, folds_of
from lpmert.limits import Deadline
from lpmert.metrics.contract import metric_by_name
from lpmert.model.canonical import CallerWeights, CanonicalWeights

EXAMPLE = ROOT / "examples" / "asr" / "nbest.tsv.gz"
COLUMNS = ("--segment", "list", "--features", "am,lm,words", "--loss", "errors")
stats = Late("scipy.stats")


@pytest.fixture(scope="module")
def lists():
    nbest = lpmert.read(EXAMPLE, segment="utterance", features=["am", "lm", "words"], loss="errors")
    return nbest.restrict(slice(0, 60)), nbest.restrict(slice(60, 100))


@pytest.fixture(scope="module")
def table(lists, tmp_path_factory):
    """A folder with forty lists to tune on, and fifteen held out."""
    folder = tmp_path_factory.mktemp("tune")
    for name, some in (("dev.tsv", slice(0, 40)), ("test.tsv", slice(40, 55))):
        lpmert.write(lists[0].restrict(some), folder / name)
    return folder


def test_both_weights_cost_what_the_result_says_and_held_out_lists_need_the_same_columns(lists):
    dev, test = lists
    tuned = lpmert.tune(dev, held_out=test)
    assert (tuned.optimum.status.proved, tuned.optimum.loss) == (True, lpmert.minimize(dev).loss)
    assert tuned.averaged.loss == lpmert.evaluate(dev, tuned.averaged.weights).loss >= tuned.optimum.loss
    assert tuned.held_out.averaged.value == lpmert.evaluate(test, tuned.averaged.weights).loss
    assert tuned.held_out.optimum.value == lpmert.evaluate(test, tuned.optimum.weights).loss
    assert np.abs(tuned.weights).sum() == pytest.approx(1.0)
    assert np.array_equal(tuned.weights, getattr(tuned, tuned.recommended).weights)
    assert (tuned.estimate.folds, tuned.averaged.agreement > 0.95) == (5, True)
    with pytest.raises(lpmert.DataError, match="no feature 'words'"):
        lpmert.tune(dev, held_out=test.select_features(["am", "lm"]))


def test_the_average_and_the_estimate_depend_on_the_seed_alone(lists):
    dev = lists[0].restrict(slice(0, 30))
    first = lpmert.tune(dev, jobs=1)
    second = lpmert.tune(dev, jobs=3, node_limit=0, method="cells")
    assert np.array_equal(first.averaged.weights, second.averaged.weights)
    assert first.estimate == second.estimate
    other = lpmert.tune(dev, seed=1)
    assert not np.array_equal(first.averaged.weights, other.averaged.weights)


def test_chains_that_disagree_or_one_feature_cause_a_note(lists):
    tuned = lpmert.tune(lists[0], quick=True)
    parted = replace(tuned, averaged=replace(tuned.averaged, agreement=0.91))
    assert (tuned.notes, parted.notes[0][:35]) == ([], "the chains agree to 0.910 only, les")
    alone = lpmert.tune(lists[0].select_features(["am"]), quick=True)
    assert alone.recommended == "optimum"
    assert any("nothing to average" in note for note in alone.notes)


def test_the_optimum_is_recommended_only_where_it_is_clearly_better(monkeypatch, lists):
    dev = lists[0].restrict(slice(0, 12))

    def answering(low, high):
        found = estimates.Interval((low + high) / 2, low, high)
        return lambda *_, **__: estimates.Estimate(found, found, found, 12, 12, 5)

    for low, high in ((0.1, 2.0), (-0.1, 2.0), (0.0, 0.0), (-2.0, -0.1)):
        monkeypatch.setattr("lpmert.comparing.tune.cross_validated", answering(low, high))
        tuned = lpmert.tune(dev)
        assert tuned.recommended == ("optimum" if low > 0.0 else "averaged")
        assert any("within chance" in note for note in tuned.notes) == (low < 0.0 < low + high)


def test_diagnostics_of_the_lists_are_reported(caplog, tmp_path):
    rng = np.random.default_rng(0)
    right = (rng.random(120) < 0.5).astype(float)
    features = rng.normal(size=(120, 2))
    features[:, 0] += 2 * right
    turned = lpmert.NBest(features, np.arange(0, 121, 6), right, statistic_names=["correct"])
    (expected,) = (f"warning: {one.message}" for one in lpmert.minimize(turned).warnings)
    caplog.clear()
    lpmert.tune(turned, quick=True)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [expected]
    lpmert.write(turned, tmp_path / "turned.tsv")
    shown = run("tune", tmp_path / "turned.tsv", "--loss", "correct", "--quick")
    assert expected[:40] in " ".join(shown.stderr.split())


def test_fewer_than_thirty_lists_cause_a_note(lists):
    tuned = lpmert.tune(lists[0].restrict(slice(0, 29)))
    assert any("fewer than 30 lists" in note for note in tuned.notes)
    assert not lpmert.tune(lists[0].restrict(slice(0, 30)), folds=2).notes
    quick = lpmert.tune(lists[0].restrict(slice(0, 29)), quick=True)
    assert (quick.estimate, quick.notes) == (None, [])


@pytest.mark.usefixtures("interruptible")
def test_a_missing_cross_validation_is_explained(lists):
    dev = lists[0].restrict(slice(0, 30))
    alone = lpmert.tune(dev, groups=["one"] * 30)
    said = ["cross-validation needs two lists, or groups of lists, at least"]
    assert (alone.estimate, alone.notes, alone.to_dict()["notes"]) == (None, said, said)

    def interrupt(stage, done, _):
        if (stage, done) == ("cross-validation", 1):
            signal.raise_signal(signal.SIGINT)

    stopped = lpmert.tune(dev, on_stage=interrupt)
    said = ["cross-validation was interrupted: nothing is known of unseen lists"]
    assert (stopped.estimate, stopped.notes, stopped.averaged.complete) == (None, said, True)
    assert all(one.loss == lpmert.evaluate(dev, one.weights).loss for one in (stopped.averaged, stopped.optimum))
    assert stopped.optimum.lower_bound <= stopped.optimum.loss


@pytest.mark.parametrize(
    "region", [lpmert.Region(nonnegative=True), lpmert.Region(fixed={"lm": 1.0}, bounds={"am": (0.05, 0.2)})]
)
def test_the_average_keeps_to_the_region(lists, region):
    tuned = lpmert.tune(lists[0].restrict(slice(0, 20)), region=region, quick=True)
    assert tuned.averaged.steps > 0
    assert lpmert.evaluate(lists[0], tuned.averaged.weights, region=region).inside
    scale = tuned.averaged.weights[1] if region.fixed else np.abs(tuned.averaged.weights).sum()
    assert scale == pytest.approx(1.0)  # that of results: the fixed weight's own, or absolute values that sum to 1


@pytest.mark.serial
def test_a_time_limit_holds_for_everything(lists):
    dev = lists[0]
    lpmert.tune(dev.restrict(slice(0, 10)))  # loads modules
    began = time.process_time()
    tuned = lpmert.tune(dev, time_limit=0.0)
    assert time.process_time() - began < 5.0
    assert (tuned.estimate, tuned.averaged.complete, tuned.recommended) == (None, False, "optimum")
    for said in ("cross-validation did not end in time", "not complete"):
        assert any(said in note for note in tuned.notes)
    assert tuned.averaged.loss == lpmert.evaluate(dev, tuned.averaged.weights).loss


def compared(dev, **settings):
    return lpmert.compare(dev, ["och"], seeds=1, optimum=None, **settings)


@pytest.mark.parametrize("judge", [partial(lpmert.tune, quick=True), compared])
def test_held_out_lists_that_are_not_unseen_cause_a_warning(lists, caplog, judge):
    dev, test = lists[0].restrict(slice(0, 30)), lists[0].restrict(slice(20, 60))
    judge(dev, held_out=test.changed(list_ids=[f"other {one}" for one in test.list_ids]))
    (said,) = (one.getMessage() for one in caplog.records)
    assert said.startswith("warning: 10 of 40 held-out lists are also among the lists tuned on, with")
    caplog.clear()
    judge(dev.merge(dev.changed(list_ids=range(30))), held_out=test)  # lists that repeat themselves are no evidence
    judge(dev, held_out=test.restrict(slice(10, 40)))
    assert not caplog.records
    judge(dev.select_features(["lm", "am"]), held_out=test.restrict(slice(10, 40)))
    (said,) = (one.getMessage() for one in caplog.records)
    assert said.endswith(" have further features, which are left out: words")


def test_the_command_shows_writes_and_recommends(table):
    command = ("tune", table / "dev.tsv", *COLUMNS)
    out = succeeded(*command, "--held-out", table / "test.tsv", "--weights-out", table / "w.txt").stdout
    for text in ("recommended for unseen lists", "on these lists", "expected on unseen lists", "on held-out lists"):
        assert text in out
    assert "fewer than 30 lists: the held-out comparison is not worth much" in out
    numbers = [float(word) for word in (table / "w.txt").read_text().split()]
    dev = lpmert.read(table / "dev.tsv", segment="list", features=["am", "lm", "words"], loss="errors")
    quiet = succeeded(*command, "--json", "--quiet")
    found = json.loads(quiet.stdout)
    assert lpmert.evaluate(dev, numbers).loss == lpmert.evaluate(dev, found["weights"]).loss
    assert found["optimum"]["loss"] <= found["averaged"]["loss"]
    assert (quiet.stderr, found["estimate"]["folds"]) == ("", 5)


def moses(folder, name, words):
    """Ten sentences of two hypotheses, the right one by feature `a`, numbered from 0, and their references."""
    rows = []
    for number in range(10):
        text = f"{words} {number}"
        rows += [f"{number} ||| {text} ||| a= 1 b= {number % 3} ||| 0", f"{number} ||| wrong ||| a= 0 b= 1 ||| 0"]
    (folder / f"{name}.nbest").write_text("\n".join(rows) + "\n")
    (folder / f"{name}.ref").write_text("".join(f"{words} {number}\n" for number in range(10)))
    return folder / f"{name}.nbest", folder / f"{name}.ref"


@pytest.mark.parametrize("command", [("tune", "--quick"), ("compare", "--methods", "grid")])
def test_lists_held_out_have_references_of_their_own(tmp_path, command):
    lists, references = moses(tmp_path, "dev", "a sentence")
    held_out, own = moses(tmp_path, "test", "some other words")
    data = (*command, lists, "--references", references, "--metric", "wer", "--held-out", held_out)
    assert "--held-out needs --held-out-references" in refusal(*data, code=2)
    content = json_of(*data, "--held-out-references", own)
    tuned = command[0] == "tune"
    found = content["held_out"]["averaged"]["value"] if tuned else content["methods"][0]["held_out_loss"]["mean"]
    assert found == 0.0  # all words of the others differ from the references of DATA


def far_average(*_: object, **__: object) -> Average:
    """An average whose weights have nothing to do with the optimum, and whose temperature is 1."""
    return Average(CanonicalWeights(np.array([-1.0, 0.5])), 1.0, 1.0, 1.0, 1, 100, complete=True)


@pytest.mark.parametrize(("losses", "recommended"), [([0, 9], "optimum"), ([0, 0.3], "averaged")])
def test_far_averages_need_an_estimate(losses: list[float], recommended: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two weights, with temperature 1, averages around the optimum cost at most 1 more."""
    nbest = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3], [1, 0], [0, 1]], [0, 2, 4, 6], np.array(losses * 3))
    monkeypatch.setattr("lpmert.comparing.averaging.average_weights", far_average)
    found = lpmert.tune(nbest, quick=True)
    assert (found.optimum.loss, found.averaged.loss) == (0.0, pytest.approx(3 * losses[1]))
    assert found.recommended == recommended
    assert np.array_equal(found.weights, found.optimum.weights) == (recommended == "optimum")


def half_width(interval):
    return (interval.high - interval.low) / 2


def fits_of(nbest, monkeypatch):
    """The weights of every fold, in order."""
    found = []

    def kept(problem, *arguments, **more):
        one = fit(problem, *arguments, **more)
        found.append((one.found, one.averaged))
        return one

    monkeypatch.setattr(estimates, "fit", kept)
    cross_validated(lpmert.Problem(nbest), Split.of(None, nbest.n_lists, 4, 0), Deadline())
    return found


def test_lists_held_out_change_nothing_in_their_fold(monkeypatch):
    nbest = noise(1, lists=32, dimension=3)
    fold = folds_of(32, 4, 0)
    before = fits_of(nbest, monkeypatch)
    for number in range(4):
        after = fits_of(changed_in(nbest, fold == number), monkeypatch)
        assert np.array_equal(before[number], after[number])
        assert any(not np.array_equal(before[k][1], after[k][1]) for k in range(4) if k != number)


def test_the_interval_of_a_sum_is_that_of_student():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 9, (2, 40, 1)).astype(float)
    found = estimate_of(metric_by_name("loss"), first, second, np.arange(40))
    for interval, values in ((found.optimum, first), (found.averaged, second), (found.difference, second - first)):
        low, high = stats.t.interval(0.95, 39, values.mean(), stats.sem(values[:, 0]))
        assert (interval.low, interval.high) == pytest.approx((40 * low, 40 * high))
        assert interval.value == values.sum()


def test_equal_values_leave_the_interval_unknown():
    """Two perfect lists do not prove that all others are, nor two worse ones that all others are worse."""
    right, wrong = np.zeros((2, 1)), np.ones((2, 1))
    found = estimate_of(metric_by_name("loss"), right, wrong, np.arange(2), 2)
    assert (found.optimum, found.difference) == (Interval(0.0, None, None), Interval(2.0, None, None))


def test_the_interval_of_a_difference_is_wider_where_the_folds_share_what_they_are_fitted_to():
    first, second = np.random.default_rng(0).integers(0, 9, (2, 40, 1)).astype(float)
    apart, folds = (estimate_of(metric_by_name("loss"), first, second, np.arange(40), count) for count in (0, 5))
    assert folds.difference.value == apart.difference.value
    # Nadeau and Bengio: the variance of 5 folds' mean is 1 / 5 + 1 / 4 of theirs, not 1 / 5
    factor = np.sqrt((1 / 5 + 1 / 4) / (1 / 5))
    assert half_width(folds.difference) == pytest.approx(factor * half_width(apart.difference))
    assert half_width(folds.averaged) == half_width(apart.averaged)


def test_lists_of_a_group_count_once_in_the_interval():
    first = np.random.default_rng(0).integers(0, 9, (20, 1)).astype(float)
    twice, group = np.repeat(first, 2, axis=0), np.repeat(np.arange(20), 2)
    single = estimate_of(metric_by_name("loss"), first, first, np.arange(20))
    double = estimate_of(metric_by_name("loss"), twice, twice, group)
    assert half_width(double.optimum) == pytest.approx(2 * half_width(single.optimum))
    assert double.difference.value == 0.0


def test_a_ratio_is_estimated_from_all_lists_together():
    nbest = random_nbest(1, lists=40, kind="bleu")
    found = cross_validated(lpmert.Problem(nbest, "bleu"), Split.of(None, 40, 4, 0), Deadline())
    fold = folds_of(40, 4, 0)
    total = np.zeros(9)
    for number in range(4):
        fitted, aside = (lpmert.Problem(nbest.restrict(own), "bleu") for own in (fold != number, fold == number))
        total += aside.evaluate(CallerWeights(fit(fitted, 0, None, 1).averaged)).statistics
    assert found.averaged.value == metric_by_name("bleu").loss(total)
    assert found.averaged.low < found.averaged.value < found.averaged.high
