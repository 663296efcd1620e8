"""The loop, its pool and its folder, with a decoder that knows all hypotheses."""

import json
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from late import Late
from looping.toy import NAMES, Hypotheses, decoded, errors_of, universe

import lpmert
from lpmert.looping import loop as loops
from lpmert.looping.pool import angle_between
from lpmert.methods import Stabilised
from lpmert.registry import METHODS
from lpmert.search.method import Run

START = {"am": 1.0, "lm": 0.01, "words": 0.0}
CHOOSING = [name for name in METHODS.own if not METHODS.find(name).minimises]
EXPLORING = Stabilised(selection=(10.9, 9.9, 3))  # nearly by distance alone


def nbest_of(some: Hypotheses, references: Mapping[str, str]) -> lpmert.NBest:
    rows = [(name, text, features) for name, hypotheses in some.items() for text, features in hypotheses]
    errors = [errors_of(text, references[name]) for name, text, _ in rows]
    offsets = np.cumsum([0, *map(len, some.values())])
    features = [features for _, _, features in rows]
    return lpmert.NBest(features, offsets, errors, NAMES, list(some), texts=[text for _, text, _ in rows])


class Toy:
    """A decoder that counts its calls."""

    def __init__(self, seed: int = 0) -> None:
        self.all, self.references = universe(seed)
        self.asked: list[dict[str, float]] = []

    def lists(self, weights: Mapping[str, float], n: int) -> lpmert.NBest:
        return nbest_of(decoded(self.all, weights, n), self.references)

    def decode(self, weights: Mapping[str, float], n: int) -> lpmert.Decoded:
        self.asked.append(dict(weights))
        return lpmert.Decoded(self.lists(weights, n))


def looped(decoder: Any = None, weights: Any = START, **options: Any) -> lpmert.Looped:
    """Loop with a decoder of the toy's inputs, by default with the toy itself, three hypotheses and its references."""
    decoder = decoder or Toy()
    references = getattr(decoder, "references", universe()[1])
    if held_out := options.get("held_out"):
        options["held_out_references"] = held_out.references
    return lpmert.loop(decoder, weights, **{"references": references, "n": 3, **options})


def word_errors(toy: Toy, weights: Mapping[str, float]) -> float:
    return float(sum(toy.lists(weights, 1).statistics[:, 0]))


@pytest.mark.parametrize("seed", range(4))
def test_with_all_hypotheses_in_the_lists_the_loop_ends_at_the_optimum_of_all(seed: int) -> None:
    toy = Toy(seed)
    found = looped(toy, n=30)
    best = lpmert.minimize(nbest_of(toy.all, toy.references))
    assert (best.status, found.finished) == (lpmert.Status.OPTIMAL, True)
    assert found.loss == best.loss < found.iterations[0].loss


def test_no_better_weights_are_only_claimed_with_a_proof() -> None:
    first = looped(n=30).by_name
    best = lpmert.minimize(nbest_of(*universe())).loss
    said, none = [], "no better weights were found on the pool"
    for options in ({}, {"method": "och"}, {"search_seconds": 0.0}):
        found = looped(weights=first, n=30, **options)
        assert (len(found.iterations), found.loss) == (1, best)
        said.append(found.reason.partition(", where all cost at least ")[::2])
    assert said[:2] == [("no weights are better on the pool", ""), (none, "")]
    assert (said[2][0], float(said[2][1]) < best) == (none, True)


@pytest.mark.parametrize("seed", range(4))
def test_losses_are_those_of_the_decoder_and_the_answer_is_the_best_iteration(seed: int) -> None:
    toy = Toy(seed)
    found = looped(toy)
    losses = [one.loss for one in found.iterations]
    assert losses == [word_errors(toy, one.weights) for one in found.iterations]
    assert [one.weights for one in found.iterations] == toy.asked
    assert found.best == losses.index(min(losses)) + 1
    assert found.by_name == found.iterations[found.best - 1].weights
    assert found.loss < losses[0]


def test_a_pool_that_no_longer_grows_agrees_with_the_decoder() -> None:
    found = looped(patience=9)
    for one in found.iterations:
        fits = one.consistency
        assert (fits.own_differs, fits.search_errors, fits.equal_words) == (0, 0, 0)
        assert fits.pool_loss == fits.own_loss == one.loss
        assert one.pool_loss is None or one.lower_bound is None or one.lower_bound <= one.pool_loss
    assert not found.warnings


def test_losses_are_in_the_unit_of_the_metric() -> None:
    found = looped(held_out=Toy(), n=4)
    assert found.warnings[0].startswith("12 of 12 held-out lists are also among the lists tuned on")
    one = found.iterations[0]
    shown = f"{100 * one.loss / 60:.2f}% ({one.loss:g} errors)"  # 12 lists of 5 words
    assert (one.unit.name, one.unit.text(one.loss)) == ("WER", shown)
    assert (one.held_out_loss, one.held_out_unit.text(one.loss)) == (one.loss, shown)
    assert f"{shown} at first" in str(found)
    bleu = looped(metric="bleu", n=4, iterations=1).iterations[0]
    assert (bleu.unit.name, bleu.unit.text(bleu.loss), bleu.held_out_unit) == ("BLEU", f"{bleu.score:.2f}", None)


def test_statistics_of_the_lists_count_where_there_are_no_references() -> None:
    """Errors alone, or errors and words, which are a rate."""

    class Counts(Toy):
        def lists(self, weights: Mapping[str, float], n: int) -> lpmert.NBest:
            lists = super().lists(weights, n)
            counts = np.column_stack([lists.statistics, np.full(lists.n_hypotheses, 5)])
            return replace(lists, statistics=counts, statistic_names=("errors", "words"))

    expected = looped(n=4).iterations
    errors = lpmert.loop(Toy(), START, n=4).iterations
    counts = lpmert.loop(Counts(), START, metric="wer", n=4).iterations
    for one, two, other in zip(errors, counts, expected, strict=True):
        assert (one.weights, one.loss) == (two.weights, two.loss) == (other.weights, other.loss)
        assert two.unit == other.unit


def test_corpus_bleu_is_tuned_too() -> None:
    toy = Toy()
    found = looped(toy, metric="bleu", n=30)
    texts = [some[0][0] for some in decoded(toy.all, found.by_name, 1).values()]
    references = [toy.references[name] for name in toy.all]
    expected = Late("sacrebleu.metrics").BLEU().corpus_score(texts, [references]).score
    assert found.iterations[found.best - 1].score == pytest.approx(expected)
    assert found.loss < found.iterations[0].loss


def test_weights_keep_the_scale_of_the_first_ones_and_the_region() -> None:
    found = looped(weights={name: 10 * value for name, value in START.items()})
    assert all(sum(map(abs, one.weights.values())) == pytest.approx(10.1) for one in found.iterations)
    found = looped(region=lpmert.Region(fixed={"am": 1}, bounds={"lm": (0, 0.5), "words": (-1, 1)}))
    assert len(found.iterations) > 1
    assert all((one.weights["am"], 0 <= one.weights["lm"] <= 0.5 + 1e-12) == (1.0, True) for one in found.iterations)


class Fragile(Toy):
    """A decoder that breaks down far from where it starts: it then shows the worst it has."""

    reach = math.radians(25)

    def decode(self, weights: Mapping[str, float], n: int) -> lpmert.Decoded:
        lists = super().decode(weights, n).lists
        a, b = (np.array([one[name] for name in NAMES]) for one in (weights, START))
        far = math.acos(min(1.0, float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b)))) > self.reach
        texts = lists.texts or ()
        ends = zip(lists.offsets[:-1].tolist(), lists.offsets[1:].tolist(), strict=True)
        own = {name: texts[end - 1 if far else begin] for name, (begin, end) in zip(lists.list_ids, ends, strict=True)}
        return lpmert.Decoded(lists, own)


@pytest.mark.parametrize("method", ["auto", "beam"])
def test_a_step_that_the_decoder_does_not_confirm_is_halved_until_it_does(method: str) -> None:
    """A method that cannot search within an angle is replaced there by one that can, and the loop says so."""
    found = looped(Fragile(), n=30, patience=8, method=method)
    rejected = [one for one in found.iterations if not one.accepted]
    assert rejected
    assert found.loss < found.iterations[0].loss
    centre = found.iterations[0]
    for one, after in zip(found.iterations, found.iterations[1:], strict=False):
        if one.accepted:
            centre = one
            assert one.angle is None
        else:
            vectors = [np.array([*weights.values()]) for weights in (one.weights, after.weights, centre.weights)]
            apart = angle_between(vectors[0], vectors[2])
            assert one.angle <= apart / 2 + 1e-9
            assert angle_between(vectors[1], vectors[2]) <= one.angle + 1e-6
    assert any("shows other words" in text for text in found.warnings)
    said = [text for text in found.warnings if "cannot keep to an angle; auto searched" in text]
    assert len(said) == (0 if method == "auto" else sum(one.angle is not None for one in found.iterations))


class Shifting(Toy):
    """A decoder whose language model gives other scores at other weights: equal words have other features each time."""

    def decode(self, weights: Mapping[str, float], n: int) -> lpmert.Decoded:
        lists = super().decode(weights, n).lists
        shift = np.random.default_rng(len(self.asked)).normal(size=lists.n_hypotheses) * 6
        rows = lists.dense_features() + np.outer(shift, [0, 1, 0])
        order = np.lexsort([-rows @ np.array([weights[x] for x in NAMES]), lists.list_index])
        texts = np.array(lists.texts)[order].tolist()
        own = {"features": rows[order], "statistics": lists.statistics[order], "texts": texts}
        return lpmert.Decoded(replace(lists, **own))


def test_changing_features_cause_a_warning_with_a_remedy() -> None:
    found = looped(Shifting(), n=30, patience=4)
    last = found.iterations[-1].consistency
    assert (last.words, last.equal_words, last.feature) == (12 * 30, 12 * 30, "lm")
    assert 2.0 < last.spread < 18.0
    assert any("equal_words" in text and "in lm" in text for text in found.warnings)
    latest = looped(Shifting(), n=30, patience=4, equal_words="latest")
    assert all(one.hypotheses == 12 * 30 for one in latest.iterations)


def test_search_errors_are_counted_list_by_list() -> None:
    class Forgetful(Toy):
        def decode(self, weights: Mapping[str, float], n: int) -> lpmert.Decoded:
            whole = super().decode(weights, n)
            if len(self.asked) == 1:
                return whole
            best = decoded(self.all, weights, n)
            without = {name: some[1:] if name in [*best][:4] else some for name, some in best.items()}
            return lpmert.Decoded(nbest_of(without, self.references))

    found = looped(Forgetful(), n=30, iterations=2)
    counted = [(one.consistency.search_errors, one.consistency.own_differs) for one in found.iterations]
    assert counted == [(0, 0), (4, 4)]


def test_held_out_inputs_are_decoded_but_nothing_is_fitted_to_them() -> None:
    others = Toy(9)
    alone = looped(n=4)
    found = looped(n=4, held_out=others, patience=9)
    assert all(one.held_out_loss == word_errors(others, one.weights) for one in found.iterations)
    pairs = [*zip(alone.iterations, found.iterations, strict=False)]
    assert all(one.weights == other.weights for one, other in pairs)


def test_the_loop_ends_once_losses_stop_improving() -> None:
    others = Toy(9)
    others.references = dict.fromkeys(others.references, "none of all these words here")
    others.lists = lambda weights, n: Toy.lists(Toy(9), weights, n)
    found = looped(n=2, held_out=others, patience=1)
    assert (len(found.iterations), found.reason) == (2, "the held-out loss has not come down for 1 iterations")


def plain(found: lpmert.Looped) -> str:
    """Return all of a loop but its seconds."""
    return json.dumps([asdict(one) | {"seconds": 0} for one in found.iterations]) + found.reason


class Crash(BaseException):
    """Kills a loop at a certain write."""


def killed_at(fatal: int, monkeypatch: pytest.MonkeyPatch, begin: Callable[[], object]) -> bool:
    """Begin a loop that is killed at a write, and return whether it reached that write."""
    write, writes = loops._write, count()

    def failing(place: Path, content: Mapping[str, Any]) -> None:
        if next(writes) == fatal:
            raise Crash
        write(place, content)

    with monkeypatch.context() as patch, suppress(Crash):
        patch.setattr(loops, "_write", failing)
        begin()
    return next(writes) > fatal


def test_a_loop_killed_at_any_write_goes_on_to_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Toy()
    whole = plain(looped(toy))
    for fatal in range(200):
        folder = tmp_path / str(fatal)
        if not killed_at(fatal, monkeypatch, partial(looped, folder=folder)):
            break
        after = Toy()
        assert plain(looped(after, folder=folder, resume=True)) == whole
        assert len(after.asked) <= len(toy.asked)
    assert fatal > 2 * len(toy.asked) - 2


def test_killed_stabilised_tuning_remembers_its_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method = Stabilised(regularised=True)
    settings: dict[str, Any] = {"iterations": 4, "patience": 9, "method": method}
    whole = plain(looped(Toy(2), **settings))
    for fatal in (4, 6):
        folder = tmp_path / str(fatal)
        assert killed_at(fatal, monkeypatch, partial(looped, Toy(2), folder=folder, **settings))
        assert plain(looped(Toy(2), folder=folder, resume=True, **settings)) == whole


def lists(rows: list[tuple[str, str, float, float]]) -> lpmert.NBest:
    """Return lists of (list, words, feature, errors)."""
    ids, words, features, errors = zip(*rows, strict=True)
    sizes = Counter(ids)
    offsets = np.cumsum([0, *sizes.values()])
    return lpmert.NBest(np.array(features)[:, None], offsets, errors, ["f"], list(sizes), texts=words)


FIRST = lists([("a", "x y", 1.0, 0), ("a", "x z", 0.5, 1), ("b", "u", 3.0, 0)])
SECOND = lists([("a", "x y", 1.25, 0), ("a", "x w", 0.0, 2), ("b", "u", 3.0, 0), ("c", "v", 1.0, 0)])

REST = [("a", "x y", 1.25), ("a", "x z", 0.5), ("a", "x w", 0.0), ("b", "u", 3.0), ("c", "v", 1.0)]


@pytest.mark.parametrize(("policy", "expected"), [("all", [("a", "x y", 1.0), *REST]), ("latest", REST)])
def test_equal_words_count_as_the_policy_says(policy: str, expected: list[tuple[str, str, float]]) -> None:
    pool = lpmert.Pool(policy)
    assert [pool.add(one) for one in (FIRST, SECOND, SECOND)] == [3, 3, 0]
    found = pool.lists()
    ids = [found.list_ids[k] for k in found.list_index]
    assert list(zip(ids, found.texts or (), found.features[:, 0].tolist(), strict=True)) == expected
    assert found.statistics[:, 0].tolist() == [{"x z": 1.0, "x w": 2.0}.get(words, 0.0) for _, words, _ in expected]
    assert pool.spread == (5, 1, 0.25, "f")


def test_features_that_differ_by_less_than_a_millionth_are_equal() -> None:
    pool = lpmert.Pool()
    nearly = [lists([("a", "x y", 1.0 + off, 0)]) for off in (4e-7, 6e-7)]
    assert [pool.add(one) for one in (FIRST, *nearly)] == [3, 0, 1]
    assert pool.lists().features[0, 0] == 1.0


def test_the_same_words_twice_in_one_decoding_both_count_as_the_latest() -> None:
    pool = lpmert.Pool("latest")
    pool.add(lists([("a", "x", 1.0, 0), ("a", "x", 2.0, 0)]))
    assert pool.lists().n_hypotheses == 2
    pool.add(lists([("a", "x", 2.0, 0)]))
    assert pool.lists().features[:, 0].tolist() == [2.0]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(lpmert.DataError, match="equal_words must be one of all, latest"):
        lpmert.Pool("newest")
    pool = lpmert.Pool()
    with pytest.raises(lpmert.DataError, match="the pool is empty"):
        pool.lists()
    pool.add(FIRST)
    with pytest.raises(lpmert.DataError, match="other features"):
        pool.add(lpmert.NBest([[1.0]], [0, 1], [0.0], ["g"], texts=["x"]))


def direction(weights: Any) -> np.ndarray:
    vector = np.asarray(weights, dtype=np.float64)
    return np.asarray(vector / np.linalg.norm(vector))


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The weights [D] that each search ends with, before anything is made of them."""
    found: list[np.ndarray] = []
    advance = Run.advance

    def advancing(search: Run) -> None:
        advance(search)
        found.append(search._problem.to_caller(search.incumbent.weights))

    monkeypatch.setattr(Run, "advance", advancing)
    return found


@pytest.mark.parametrize("method", [*(name for name in CHOOSING if name != "stabilised"), EXPLORING])
def test_what_a_method_selects_is_decoded_next(searched: list[np.ndarray], method: Any) -> None:
    """Even if its loss on the pool is higher than before, as after starting from the optimum of all hypotheses."""
    best = lpmert.minimize(nbest_of(*universe()))
    searched.clear()
    found = looped(weights=best, n=5, method=method, iterations=4, patience=4)
    selected = searched[1::2] if method == "average" else searched  # averages begin with line searches
    steps_taken = [*zip(found.iterations, found.iterations[1:], selected, strict=False)]
    assert any(one.pool_loss is not None and one.pool_loss > one.loss for one, _, _ in steps_taken)
    for _, after, weights in steps_taken:
        assert direction([*after.weights.values()]) == pytest.approx(direction(weights), abs=1e-9)
    assert found.loss == best.loss  # the answer is the decoder's best iteration


def test_the_only_optimum_of_a_convex_method_is_the_same_from_everywhere() -> None:
    lists = nbest_of(*universe())
    best, alone = lpmert.minimize(lists), lpmert.minimize(lists, method="pro")
    assert alone.loss > best.loss
    found = lpmert.minimize(lists, method="pro", initial_weights=best)
    assert direction(found.weights) == pytest.approx(direction(alone.weights), abs=1e-5)


@pytest.mark.parametrize("method", CHOOSING)
def test_steps_that_a_method_chooses_need_no_confirmation(method: str) -> None:
    found = looped(Fragile(), n=30, method=method, iterations=3)
    assert all(one.accepted and one.angle is None for one in found.iterations)
    assert any(one.loss > before.loss for before, one in zip(found.iterations, found.iterations[1:], strict=False))


@pytest.mark.parametrize("method", ["likelihood", "perceptron"])
def test_a_step_that_ends_where_it_began_is_not_called_a_search_for_better_weights(method: str) -> None:
    found = looped(method=method, search_seconds=0.0)
    assert [one.weights for one in found.iterations] == [START]
    assert found.reason == "the search ended at the same weights on the pool"


def begun(folder: Path) -> Toy:
    """Leave two iterations of a loop in a folder, and return its decoder."""
    toy = Toy()
    looped(toy, folder=folder, iterations=2)
    return toy


def goes_on(folder: Path, decoder: Toy | None = None) -> str:
    return plain(looped(decoder, folder=folder, resume=True))


def test_an_unwritable_folder_is_named_and_the_loop_goes_on_later(tmp_path: Path) -> None:
    folder, aside = tmp_path / "loop", tmp_path / "aside"
    toy = Toy()
    decode = toy.decode

    def breaking(weights: Mapping[str, float], n: int) -> lpmert.Decoded:
        if len(toy.asked) == 1:
            folder.rename(aside)
            folder.write_text("no folder")
        return decode(weights, n)

    toy.decode = breaking
    with pytest.raises(lpmert.DataError, match=re.escape(str(folder)) + ".*cannot be written"):
        looped(toy, folder=folder)
    folder.unlink()
    aside.rename(folder)
    assert goes_on(folder) == plain(looped())


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "n": ({"n": 4}, "n = 3, not 4"),
    "seed": ({"seed": 1}, "has seed = 0, not 1"),
    "references": ({"references": {**Toy().references, "u0": "x"}}, "has other references; resume it"),
    "region": ({"region": lpmert.Region(nonnegative=True)}, "region"),
    "equal words": ({"equal_words": "latest"}, "equal_words"),
    "order": ({"weights": dict(reversed(START.items()))}, "weights in another order; resume it with the same"),
    "held out": ({"held_out": Toy(1), "held_out_references": Toy(1).references}, "has held_out = False, not True"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_loop_with_other_settings_does_not_go_on(tmp_path: Path, name: str) -> None:
    """The order of weights is that of the saved features; references are compared by digests, which are not shown."""
    toy = begun(tmp_path)
    change, named = OTHERS[name]
    own = {"decoder": toy, "weights": START, "references": toy.references, "n": 3, "folder": tmp_path}
    with pytest.raises(lpmert.DataError, match=f"the loop there .*{named}") as caught:
        lpmert.loop(**{**own, **change}, resume=True)
    assert not re.search("[0-9a-f]{20}", str(caught.value).replace(str(tmp_path), ""))
    with pytest.raises(lpmert.DataError, match="has a loop already"):
        lpmert.loop(**own)


@pytest.mark.parametrize("resume", [False, True])
def test_iterations_without_settings_are_refused(tmp_path: Path, resume: bool) -> None:
    begun(tmp_path)
    (tmp_path / "settings.json").unlink()
    with pytest.raises(lpmert.DataError, match=r"has iterations, but no settings\.json; the folder was changed"):
        looped(folder=tmp_path, resume=resume)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "less": lambda found: found.popitem(),
    "more": lambda found: found.update(more=1),
    "another type": lambda found: found.update(seconds="x"),
    "another number": lambda found: found.update(seconds=found["seconds"] + 1.0),
    "without end": lambda found: found.update(seconds=float("inf")),
    "another order of weights": lambda found: found.update(weights=dict(reversed(found["weights"].items()))),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["step.json", "decoded.json"])
def test_changed_files_are_refused_by_name(tmp_path: Path, name: str, change: str) -> None:
    begun(tmp_path)
    place = tmp_path / "001" / name
    found = json.loads(place.read_text())
    CHANGES[change](found)
    place.write_text(json.dumps(found))
    with pytest.raises(lpmert.DataError, match="the folder was changed") as caught:
        goes_on(tmp_path)
    assert caught.value.path == str(place)


def test_a_decoding_with_other_weights_is_refused(tmp_path: Path) -> None:
    """As of another loop, whose files are whole."""
    begun(tmp_path / "one")
    looped(weights={**START, "lm": 0.5}, folder=tmp_path / "other", iterations=1)
    for kind in ("json", "npz"):
        (tmp_path / "other" / "001" / f"decoded.{kind}").replace(tmp_path / "one" / "001" / f"decoded.{kind}")
    with pytest.raises(lpmert.DataError, match="weights of another decoding; the folder was changed"):
        goes_on(tmp_path / "one")


@pytest.mark.parametrize("name", ["settings.json", "001/step.json", "001/decoded.json"])
@pytest.mark.parametrize("depth", [100, 978, 996, 100_000])
def test_files_that_are_nested_too_deep_are_refused_by_name(tmp_path: Path, name: str, depth: int) -> None:
    begun(tmp_path)
    place = tmp_path / name
    found = json.loads(place.read_text())
    found["n" if name == "settings.json" else "weights"] = "deep"
    place.write_text(json.dumps(found).replace('"deep"', "[" * depth + "]" * depth))
    with pytest.raises(lpmert.DataError, match="the folder was changed"):
        goes_on(tmp_path)


def test_lists_of_other_inputs_are_refused(tmp_path: Path) -> None:
    begun(tmp_path)
    place = tmp_path / "002" / "decoded.npz"
    lists = lpmert.read(place)
    lpmert.write(lists.restrict(slice(0, 5)), place)
    with pytest.raises(lpmert.DecoderError, match="lacks u5, u6"):
        goes_on(tmp_path)


def test_unusable_outputs_are_not_saved(tmp_path: Path) -> None:
    """A decoder that forgets its words is fixed, and the loop continues."""
    silent = Toy()
    silent.lists = lambda *given: replace(Toy.lists(silent, *given), texts=None)
    with pytest.raises(lpmert.DataError):
        looped(silent, folder=tmp_path)
    assert not (tmp_path / "001").exists()
    assert goes_on(tmp_path) == plain(looped())


def test_a_failure_names_the_iteration_and_what_to_do(tmp_path: Path) -> None:
    class Failing(Toy):
        def decode(self, weights: Mapping[str, float], n: int) -> lpmert.Decoded:
            if self.asked:
                raise lpmert.DecoderError("the decoder is out of memory")
            return super().decode(weights, n)

    for decoder, more, where in (
        (Failing(), {}, "iteration 2: "),
        (Toy(), {"held_out": Failing(1)}, "iteration 2, held-out inputs: "),
    ):
        with pytest.raises(lpmert.DecoderError) as caught:
            looped(decoder, **more)
        assert str(caught.value) == f"{where}the decoder is out of memory"
    with pytest.raises(lpmert.DecoderError) as caught:
        looped(Failing(), folder=tmp_path)
    first, last = str(caught.value).splitlines()
    assert first == "iteration 2: the decoder is out of memory"
    assert last.startswith(f"earlier decodings are saved in {tmp_path}")
    assert last.endswith("continue with resume=True (--resume)")
    assert goes_on(tmp_path) == plain(looped())


def test_time_that_is_used_up_before_the_folder_is_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "references").write_text("".join(f"{name} {text}\n" for name, text in Toy().references.items()))
    for more in ({}, {"references": tmp_path / "references"}):
        with pytest.raises(lpmert.LimitError, match="the time is used up before the first decoding"):
            looped(time_limit=0, folder=tmp_path / "loop", resume=True, **more)


def test_inputs_that_lose_their_hypotheses_are_named() -> None:
    """An output may have no alternatives, but a file that was cut off between two lists looks the same."""

    class Cut(Toy):
        def decode(self, weights: Mapping[str, float], n: int) -> lpmert.Decoded:
            lists = super().decode(weights, n).lists
            own = {name: lists.texts[row] for name, row in zip(lists.list_ids, lists.offsets, strict=False)}
            return lpmert.Decoded(lists.restrict(slice(0, 10)) if len(self.asked) > 1 else lists, own)

    found = looped(Cut(), iterations=2)
    said = "iteration 2: the decoder gave no hypotheses for 2 of 12 inputs, which had some before: u10, u11; check that"
    assert [one[: len(said)] for one in found.warnings if one.startswith("iteration")] == [said]
    assert not [one for one in looped().warnings if "no hypotheses" in one]


def test_of_loops_that_begin_at_once_in_a_folder_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others look for settings before the first has written its own, but must not overwrite them."""
    write, begins, refused = loops._write, threading.Event(), []

    def slowly(place: Path, content: Any) -> None:
        begins.set()
        time.sleep(0.3)
        write(place, content)

    def begin(n: int) -> None:
        try:
            loops.Journal(tmp_path, {"n": n}, resume=n == 5)
        except lpmert.DataError as error:
            refused.append(str(error))

    monkeypatch.setattr(loops, "_write", slowly)
    threads = [threading.Thread(target=begin, args=(n,)) for n in (3, 4, 5)]
    for one in threads:
        one.start()
        assert begins.wait(30)
    for one in threads:
        one.join(30)
    assert json.loads((tmp_path / "settings.json").read_text())["n"] == 3
    assert sorted("has n = 3, not 5" in one or "has a loop already" in one for one in refused) == [True, True]
    assert not list(tmp_path.glob(".*"))
