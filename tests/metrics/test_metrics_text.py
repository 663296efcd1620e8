"""Statistics from texts: what sacrebleu, jiwer's definitions and recorded runs say of the same texts."""

import lzma
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import succeeded
from graph_problems import edits
from hypothesis import given, settings, strategies as st
from late import Late
from refusals import refused
from shared import SHARED_DATA, needs_shared

from lpmert import DataError, MetricError, NBest
from lpmert.errors import FloatArray
from lpmert.metrics import Metric, TextMetric, measure_texts
from lpmert.metrics.text import (
    TEXT_METRICS,
    BleuTexts,
    ChrfTexts,
    EditTexts,
    SentenceBleuTexts,
    TerTexts,
    reference_length,
)

sacrebleu = Late("sacrebleu.metrics")

WORDS = ["a", "b", "the", "The", "cat,", "dog.", "(x)", "12.5", "naïve", "猫", "u.s.", "it's", "-", "!"]
SENTENCES = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
CORPORA = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.tuples(SENTENCES, st.lists(SENTENCES, min_size=n, max_size=n)), min_size=1, max_size=5)
)


def one_each(texts: list[str]) -> NBest:
    return NBest(np.zeros((len(texts), 1)), np.arange(len(texts) + 1), np.zeros(len(texts)), texts=texts)


def statistics_of(metric: str | TextMetric, text: str, *references: str) -> list[float]:
    return measure_texts(one_each([text]), [references], metric)[0].statistics[0].tolist()


def corpus(pairs: list[tuple[str, list[str]]], metric: str | TextMetric) -> tuple[Metric, FloatArray]:
    measured, summed = measure_texts(one_each([text for text, _ in pairs]), [own for _, own in pairs], metric)
    summed.check(measured.statistics)
    return summed, measured.statistics.sum(axis=0)


def transposed(pairs: list[tuple[str, list[str]]]) -> tuple[list[str], list[list[str]]]:
    """Return hypotheses and references as sacrebleu takes them."""
    return [text for text, _ in pairs], [list(own) for own in zip(*(own for _, own in pairs), strict=True)]


# The numbers of other tools


@pytest.mark.parametrize(
    ("references", "closest"), [((4, 1), [1, 1, 4, 4, 4]), ((1, 4), [1, 1, 4, 4, 4]), ((4, 3), [3, 3, 3, 4, 4])]
)
def test_the_closest_reference_length_is_the_shorter_on_ties(references: tuple[int, ...], closest: list[int]) -> None:
    texts = ["x " * length for length in references]
    found = [statistics_of(BleuTexts(), "y " * length, *texts)[8] for length in range(1, 6)]
    assert found == closest
    shortest = [statistics_of(BleuTexts(reference_length="shortest"), "y " * n, *texts)[8] for n in range(6)]
    assert shortest == [min(references)] * 6


@settings(max_examples=60, deadline=None)
@given(CORPORA, st.sampled_from(["13a", "none", "intl", "char", "zh"]), st.booleans())
def test_corpus_bleu_is_that_of_sacrebleu(pairs: Any, tokenize: str, lowercase: bool) -> None:
    theirs = sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, smooth_method="none", force=True)
    metric, total = corpus(pairs, BleuTexts(tokenize=tokenize, lowercase=lowercase))
    assert metric.score(total) == pytest.approx(theirs.corpus_score(*transposed(pairs)).score, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(CORPORA, st.sampled_from([(6, 0), (6, 2), (3, 1), (1, 0), (0, 2)]), st.sampled_from([1, 2, 3]), st.booleans())
def test_corpus_chrf_is_that_of_sacrebleu(pairs: Any, orders: tuple[int, int], beta: int, flag: bool) -> None:
    keywords: dict[str, Any] = {
        "char_order": orders[0], "word_order": orders[1], "beta": beta, "lowercase": flag, "whitespace": not flag
    }  # fmt: skip
    metric, total = corpus(pairs, ChrfTexts(**keywords))
    theirs = sacrebleu.CHRF(**keywords)
    assert metric.score(total) == pytest.approx(theirs.corpus_score(*transposed(pairs)).score, abs=1e-9)
    metric, total = corpus(pairs, ChrfTexts(**keywords, per_sentence=True))
    scores = [theirs.sentence_score(text, own).score for text, own in pairs]
    assert metric.loss(total) == pytest.approx(sum(1 - score / 100 for score in scores), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(CORPORA, st.booleans(), st.booleans(), st.booleans())
def test_edits_and_rates_of_ter_are_those_of_sacrebleu(pairs: Any, normed: bool, bare: bool, cased: bool) -> None:
    keywords: dict[str, Any] = {"normalized": normed, "no_punct": bare, "case_sensitive": cased}
    theirs = sacrebleu.TER(**keywords)
    metric, total = corpus(pairs, TerTexts(**keywords))
    length = reference_length(TerTexts(**keywords), [own for _, own in pairs])
    whole = theirs.corpus_score(*transposed(pairs))
    assert (metric.loss(total), length or 0.0) == (whole.num_edits, pytest.approx(whole.ref_length))
    assert length is None or 100 * whole.num_edits / length == pytest.approx(whole.score)
    metric, total = corpus(pairs, TerTexts(**keywords, per_sentence=True))
    scores = [theirs.sentence_score(text, own).score for text, own in pairs]
    assert metric.loss(total) == pytest.approx(sum(scores) / 100, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    SENTENCES,
    st.lists(SENTENCES, min_size=1, max_size=3),
    st.sampled_from([("add-k", None), ("add-k", 1.0), ("add-k", 0.5), ("exp", None), ("floor", None), ("floor", 0.01),
                     ("none", None)]),
    st.booleans(),
)  # fmt: skip
def test_sentence_bleu_is_that_of_sacrebleu(text: str, own: list[str], smoothing: Any, effective: bool) -> None:
    method, value = smoothing
    theirs = sacrebleu.BLEU(smooth_method=method, smooth_value=value, effective_order=effective)
    ours = SentenceBleuTexts(smoothing=method, smooth_value=value, effective_order=effective)
    (loss,) = statistics_of(ours, text, *own)
    assert loss == pytest.approx(1 - theirs.sentence_score(text, own).score / 100, abs=1e-12)
    assert -1e-12 <= loss <= 1


@settings(max_examples=150, deadline=None)
@given(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=3), st.booleans())
def test_word_and_character_errors_are_levenshtein_distances(text: str, own: list[str], lowercase: bool) -> None:
    cased, *others = (one.lower() if lowercase else one for one in (text, *own))
    words = min(edits(cased.split(), one.split()) for one in others)
    characters = min(edits(cased, one) for one in others)
    assert statistics_of(EditTexts(lowercase=lowercase), text, *own) == [words]
    assert statistics_of(EditTexts(unit="character", lowercase=lowercase), text, *own) == [characters]


def test_error_rates_of_a_sentence_are_over_the_nearest_reference_and_spaces_beyond_one_are_no_errors() -> None:
    assert statistics_of(EditTexts(per_sentence=True), "a b c", "a b d e", "x y") == [0.5]
    assert statistics_of(EditTexts(unit="character", per_sentence=True), "ab", "abcd") == [0.5]
    assert statistics_of("cer", " a  b\t", "a b") == statistics_of("wer", " a  b\t", "a b") == [0]


# Zeros


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_empty_texts_and_no_match_have_defined_values(name: str) -> None:
    for text, reference in (("", "a b"), ("a b", ""), ("", ""), (" ", "a"), ("x", "y")):
        for more in ([], [("a b c d e", ["a b c d e"])]):
            metric, total = corpus([(text, [reference]), *more], name)
            assert np.isfinite([*total, metric.loss(total), metric.score(total)]).all()


@pytest.mark.parametrize(
    ("name", "empty", "against_nothing", "nothing"),
    [
        ("sentence-bleu", 1.0, 1.0, 1.0),  # sacrebleu calls a BLEU of nothing 0
        ("sentence-chrf", 1.0, 1.0, 1.0),
        ("sentence-ter", 1.0, 1.0, 0.0),
        ("ter", 2.0, 2.0, 0.0),
        ("wer", 2.0, 2.0, 0.0),
        ("cer", 3.0, 3.0, 0.0),
    ],
)
def test_losses_of_empty_texts(name: str, empty: float, against_nothing: float, nothing: float) -> None:
    found = [statistics_of(name, *pair)[0] for pair in (("", "a b"), ("a b", ""), ("", ""))]
    assert found == [empty, against_nothing, nothing]


# Lists


def test_texts_of_a_list_are_measured_against_its_references() -> None:
    texts = ["a b", "a", "a b", "a b"]
    nbest = NBest([[1.0], [2.0], [3.0], [4.0]], [0, 3, 4], np.zeros(4), ["tm"], ["p", "q"], texts=texts)
    measured, metric = measure_texts(nbest, ["a b", ["x y z", "a"]], "wer")
    assert measured.statistics[:, 0].tolist() == [0, 1, 0, 1]
    assert (measured.names, measured.list_ids, measured.texts) == (nbest.names, nbest.list_ids, nbest.texts)
    assert measured.statistic_names == ("loss",)
    assert measured.dense_features().tolist() == nbest.dense_features().tolist()
    assert "nrefs:var|wer|case:mixed|rapidfuzz:" in metric.signature


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_columns_are_those_of_the_statistics(name: str) -> None:
    measured, metric = measure_texts(one_each(["a b c d e", "f"]), ["a b c", "f"], name)
    assert measured.statistic_names == TEXT_METRICS[name].columns
    metric.check(measured.statistics)
    assert "|nrefs:1|" in metric.signature


# fmt: off
SETTINGS: list[TextMetric] = [
    *(BleuTexts(tokenize=name) for name in ("13a", "none", "intl", "char", "zh")),
    BleuTexts(lowercase=True), BleuTexts(reference_length="shortest"),
    SentenceBleuTexts(), SentenceBleuTexts(smooth_value=0.5), SentenceBleuTexts(smooth_value=0.5000001),
    *(SentenceBleuTexts(smoothing=name) for name in ("exp", "floor", "none")),
    SentenceBleuTexts(smoothing="floor", smooth_value=0.5), SentenceBleuTexts(effective_order=True),
    SentenceBleuTexts(tokenize="none"), SentenceBleuTexts(lowercase=True),
    *(ChrfTexts(char_order=order, per_sentence=flag) for flag in (False, True) for order in (6, 5)),
    *(ChrfTexts(**{name: value}, per_sentence=flag) for flag in (False, True) for name, value in
      [("word_order", 2), ("beta", 1), ("lowercase", True), ("whitespace", True)]),
    TerTexts(), *(TerTexts(**{name: True}) for name in
                  ("per_sentence", "normalized", "no_punct", "asian_support", "case_sensitive")),
    *(EditTexts(unit=unit, per_sentence=flag) for unit in ("word", "character") for flag in (False, True)),
    EditTexts(lowercase=True),
]
# fmt: on


def test_every_setting_is_in_the_signature_which_is_the_same_for_equal_settings() -> None:
    signatures = [measure_texts(one_each(["a"]), ["a"], metric)[1].signature for metric in SETTINGS]
    assert len(set(signatures)) == len(SETTINGS)
    assert SentenceBleuTexts().signature == SentenceBleuTexts(smooth_value=1).signature
    assert "smooth:add-k[1]" in SentenceBleuTexts().signature
    assert "smooth:floor[0.1]" in SentenceBleuTexts(smoothing="floor").signature


# What is refused


TWO = one_each(["a", "b"])
# fmt: off
test_references_that_do_not_fit_and_settings_without_a_meaning_are_refused = refused([
    *((DataError, message, partial(measure_texts, lists, references)) for lists, references, message in [
        (TWO, "a", "references must be a sequence, not 'a'; give a list"),
        (TWO, ["a"], "2 lists; got 1"),
        (TWO, ["a", []], "list '1' needs at least one reference"),
        (TWO, ["a", [None]], "all of them strings"),
        (NBest([[1.0]], [0, 1], [0.0]), ["a"], "no texts; read them"),
    ]),
    *((MetricError, message, partial(measure_texts, one_each(["a"]), ["a"], metric)) for metric, message in [
        ("blue", "choose one of bleu, sentence-bleu"),
        (BleuTexts(tokenize="14a"), "no tokenizer '14a'.*13a"),
    ]),
    *((MetricError, message, build) for build, message in [
        (lambda: BleuTexts(reference_length="longest"), "none of closest, shortest"),
        (lambda: SentenceBleuTexts(smoothing="add"), "none of add-k, exp, floor, none"),
        (lambda: SentenceBleuTexts(smoothing="exp", smooth_value=1), "'exp' takes no smooth_value"),
        (lambda: SentenceBleuTexts(smooth_value=-1), "smooth_value must be a number above 0; got -1"),
        (lambda: SentenceBleuTexts(smooth_value=float("nan")), "above 0; got nan"),
        (lambda: ChrfTexts(char_order=0, per_sentence=True), "needs an order"),
        (lambda: ChrfTexts(beta=-1, per_sentence=True), "from 0 to 1e\\+100; got -1"),
        (lambda: EditTexts(unit="phoneme"), "none of word, character"),
    ]),
])
# fmt: on


@pytest.mark.parametrize(
    ("module", "metric", "message"),
    [
        ("MeCab", BleuTexts(tokenize="ja-mecab"), r"'ja-mecab'.*pip install sacrebleu\[ja\]"),
        ("sacrebleu.metrics", "bleu", r"sacrebleu is not installed; pip install 'lpmert\[text\]'"),
        ("rapidfuzz.distance", "wer", r"rapidfuzz is not installed; pip install 'lpmert\[text\]'"),
    ],
)
def test_what_is_not_installed_is_named(module: str, metric: Any, message: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(MetricError, match=message):
        measure_texts(one_each(["a"]), ["a"], metric)


# A recorded run


def lines_of(name: str, separator: str) -> list[list[str]]:
    with lzma.open(SHARED_DATA / "swahili-mert-100best" / name, "rt", encoding="utf-8", newline="\n") as file:
        return [[part.strip() for part in line.split(separator)] for line in file]


@needs_shared
def test_first_hypotheses_have_the_corpus_bleu_of_the_recorded_run() -> None:
    first: dict[str, str] = {}
    for key, text, *_ in lines_of("run7.nbest.txt.xz", "|||"):
        first.setdefault(key, text)
    references = dict(lines_of("reference.txt.xz", "\t"))
    own = [references[key] for key in first]
    measured, metric = measure_texts(one_each(list(first.values())), own, BleuTexts(tokenize="none"))
    assert metric.score(measured.statistics.sum(axis=0)) == pytest.approx(32.72, abs=5e-3)


# Warnings


TEXTS, CAPITALS = ["good morning doctor", "it is late"], ["GOOD MORNING, DOCTOR", "it is late."]
JAPANESE = ["今日は 天気がいい"], ["今日は天気がいい。"]
# fmt: off
WARNED: list[tuple[str | TextMetric, list[str], list[str], str]] = [
    ("wer", TEXTS, CAPITALS, "4 of 6 words of the references, such as 'GOOD', are in the texts only in another case"),
    (EditTexts(lowercase=True), TEXTS, CAPITALS, "2 of 6 words of the references, such as 'morning,'"),
    (BleuTexts(), ["good morning", "it is late"], ["GOOD MORNING", "IT is late !"], "3 of 6 words"),
    ("cer", ["de\u0301ja\u0300 vu"], ["d\u00e9j\u00e0 vu"], "1 of 2 words"),
    ("wer", TEXTS, ["good evening Doctors", "it is early ."], ""), ("ter", TEXTS, CAPITALS, ""),
    ("bleu", *JAPANESE, "BLEU is 0 for all weights"), (BleuTexts(tokenize="char"), *JAPANESE, ""),
]
# fmt: on


@pytest.mark.parametrize(("metric", "texts", "references", "words"), WARNED)
def test_references_spelt_otherwise_and_a_bleu_that_no_weights_lift_above_0_are_told(
    metric: str | TextMetric, texts: list[str], references: list[str], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    measure_texts(one_each(texts), references, metric)
    found = " ".join(record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert words in found
    assert bool(found) == bool(words)


def test_ter_is_told_in_percent_with_its_edits(tmp_path: Path) -> None:
    (tmp_path / "lists").write_text("0 ||| a b d ||| F0= 1 ||| 1\n1 ||| c ||| F0= 1 ||| 1\n")
    (tmp_path / "references").write_text("a b c\nc e\n")
    given = (tmp_path / "lists", "--references", tmp_path / "references", "--metric", "ter", "--weights", "1")
    assert "40.00% (2 errors)" in succeeded("evaluate", *given).stdout
