"""From texts and references to statistics: BLEU, chrF and TER as sacrebleu counts, WER and CER by rapidfuzz.

Each class holds the settings of one metric; `measure_texts` returns lists with its statistics, and the metric that sums
them. References are prepared once per list, and texts that repeat within a list are counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from math import inf
from typing import Any, Protocol

import numpy as np

from lpmert.errors import MetricError
from lpmert.metrics.base import Metric, SumOfLosses
from lpmert.metrics.ratio import Bleu, Chrf
from lpmert.quoting import LOSS, Unit, listed, quoted
from lpmert.registry import BLEU_COLUMNS

_SMOOTH_VALUES: dict[str, float | None] = {"add-k": 1.0, "exp": None, "floor": 0.1, "none": None}
"""Smoothings of sentence BLEU and their default values, those of sacrebleu; `None` for a smoothing without a value."""

TextCounter = Callable[[str], Sequence[float]]  # returns the statistics of a text


class TextMetric(Protocol):
    """Settings of a metric on texts; by default the metric sums one loss for each hypothesis."""

    @property
    def columns(self) -> tuple[str, ...]:
        return ("loss",)

    def counter(self, references: Sequence[str]) -> TextCounter:
        """Return a function that counts the statistics of a text against these references of its list."""

    def metric(self, source: str) -> Metric:
        """Return the metric that sums the statistics; source: for its signature."""
        return SumOfLosses(source)

    @property
    def signature(self) -> str:
        """The settings that change the statistics."""


@dataclass(frozen=True)
class BleuTexts:
    """Corpus BLEU with a tokenizer of sacrebleu, by name; reference_length is "closest" (sacrebleu's) or "shortest"."""

    tokenize: str = "13a"
    lowercase: bool = False
    reference_length: str = "closest"

    def __post_init__(self) -> None:
        _check_one_of("reference_length", self.reference_length, ("closest", "shortest"))

    @property
    def columns(self) -> tuple[str, ...]:
        return BLEU_COLUMNS

    @property
    def signature(self) -> str:
        return f"{_case(self)}|tok:{self.tokenize}|len:{self.reference_length}|{_version('sacrebleu')}"

    def metric(self, source: str) -> Metric:
        return Bleu(source)

    def counter(self, references: Sequence[str]) -> TextCounter:
        counts, prepared = _counts(_bleu(self), references)
        shortest = min(prepared["ref_lens"])

        def count(text: str) -> list[float]:
            _, closest, *found = counts(text)
            length = closest if self.reference_length == "closest" else shortest
            return [*chain(*zip(found[:4], found[4:], strict=True)), length]

        return count


@dataclass(frozen=True)
class SentenceBleuTexts(TextMetric):
    """The sum of 1 - sentence BLEU over lists; smoothing and smooth_value are sacrebleu's.

    smoothing: "add-k" (Lin and Och, COLING 2004; with smooth_value 1, the default, this is BLEU+1), "floor" (0.1 by
    default), "exp" or "none". Raises `MetricError` for others, and for values that are not above 0.
    """

    smoothing: str = "add-k"
    smooth_value: float | None = None
    effective_order: bool = False
    tokenize: str = "13a"
    lowercase: bool = False

    def __post_init__(self) -> None:
        _check_one_of("smoothing", self.smoothing, _SMOOTH_VALUES)
        if self.smooth_value is None:
            return
        if _SMOOTH_VALUES[self.smoothing] is None:
            raise MetricError(f"smoothing {quoted(self.smoothing)} takes no smooth_value; omit it")
        if not 0 < self.smooth_value < inf:
            raise MetricError(f"smooth_value must be a number above 0; got {quoted(self.smooth_value)}")

    @property
    def signature(self) -> str:
        value = _SMOOTH_VALUES[self.smoothing] if self.smooth_value is None else self.smooth_value
        shown = "" if value is None else f"[{np.format_float_positional(value, trim='-')}]"
        settings = f"smooth:{self.smoothing}{shown}|{_flags(eff=self.effective_order)}"
        return f"sentence-bleu|{settings}|{_case(self)}|tok:{self.tokenize}|{_version('sacrebleu')}"

    def counter(self, references: Sequence[str]) -> TextCounter:
        smoothed = {"smooth_method": self.smoothing, "smooth_value": self.smooth_value}
        bleu = _bleu(self, **smoothed, effective_order=self.effective_order)
        counts, _ = _counts(bleu, references)
        return lambda text: [1.0 - bleu._compute_score_from_stats(counts(text)).score / 100.0]


@dataclass(frozen=True)
class ChrfTexts:
    """Corpus chrF, or with per_sentence the sum of 1 - chrF over lists; word_order=2 is chrF++."""

    char_order: int = 6
    word_order: int = 0
    beta: int = 2
    lowercase: bool = False
    whitespace: bool = False
    per_sentence: bool = False

    def __post_init__(self) -> None:
        self._corpus("")  # checks orders and beta

    @property
    def columns(self) -> tuple[str, ...]:
        return ("loss",) if self.per_sentence else self._corpus("").columns

    @property
    def signature(self) -> str:
        settings = f"{_case(self)}|{_flags(space=self.whitespace)}|{_version('sacrebleu')}"
        if not self.per_sentence:
            return settings
        return f"sentence-chrf|nc:{self.char_order}|nw:{self.word_order}|beta:{self.beta}|{settings}"

    def metric(self, source: str) -> Metric:
        return SumOfLosses(source) if self.per_sentence else self._corpus(source)

    def counter(self, references: Sequence[str]) -> TextCounter:
        chrf = _scorer("CHRF", self)
        counts, _ = _counts(chrf, references)
        return (lambda text: [1.0 - chrf._compute_f_score(counts(text)) / 100.0]) if self.per_sentence else counts

    def _corpus(self, source: str) -> Chrf:
        return Chrf(self.char_order, self.word_order, self.beta, source)


@dataclass(frozen=True)
class TerTexts(TextMetric):
    """Edits of translation edit rate, as sacrebleu counts them.

    With per_sentence each list's edits are divided by the average length of its references.
    """

    normalized: bool = False
    no_punct: bool = False
    asian_support: bool = False
    case_sensitive: bool = False
    per_sentence: bool = False

    @property
    def signature(self) -> str:
        flags = _flags(norm=self.normalized, punct=not self.no_punct, asian=self.asian_support)
        kind = "sentence-ter" if self.per_sentence else "ter"
        return f"{kind}|case:{'mixed' if self.case_sensitive else 'lc'}|{flags}|{_version('sacrebleu')}"

    def counter(self, references: Sequence[str]) -> TextCounter:
        counts, _ = _counts(_scorer("TER", self), references)

        def count(text: str) -> list[float]:
            edits, length = counts(text)
            return [_rate(edits, length) if self.per_sentence else float(edits)]

        return count

    def length(self, references: Sequence[str]) -> float:
        words = _counts(_scorer("TER", self), references)[1]["ref_words"]
        return sum(map(len, words)) / len(words)


@dataclass(frozen=True)
class EditTexts(TextMetric):
    """Insertions, deletions and substitutions of words (WER) or characters (CER) against the nearest reference.

    With per_sentence each list's edits are divided by the length of that reference.
    """

    unit: str = "word"
    lowercase: bool = False
    per_sentence: bool = False

    def __post_init__(self) -> None:
        _check_one_of("unit", self.unit, ("word", "character"))

    @property
    def signature(self) -> str:
        name = "wer" if self.unit == "word" else "cer"
        return f"{'sentence-' if self.per_sentence else ''}{name}|{_case(self)}|{_version('rapidfuzz')}"

    def counter(self, references: Sequence[str]) -> TextCounter:
        count = self.unit_counter([self._units(reference) for reference in references])
        return lambda text: count(self._units(text))

    def unit_counter(self, references: Sequence[Sequence[object]]) -> Callable[[Sequence[object]], Sequence[float]]:
        """Return a function that counts the statistics of a text; units of texts and references may have any type."""
        distance = _imported("rapidfuzz.distance").Levenshtein.distance

        def count(units: Sequence[object]) -> list[float]:
            nearest = min((distance(units, reference), len(reference)) for reference in references)
            return [_rate(*nearest) if self.per_sentence else float(nearest[0])]

        return count

    def length(self, references: Sequence[str]) -> float:
        return len(self._units(references[0]))

    def _units(self, text: str) -> Sequence[str]:
        cased = text.lower() if self.lowercase else text
        return cased.split() if self.unit == "word" else " ".join(cased.split())


def _rate(edits: float, length: float) -> float:
    """Return edits over the length of the reference; for an empty reference 1, or 0 without edits."""
    return edits / length if length else float(edits > 0)


def _check_one_of(setting: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise MetricError(f"{setting}={quoted(value)} is none of {', '.join(known)}")


def _case(settings: Any) -> str:
    return f"case:{'lc' if settings.lowercase else 'mixed'}"


def _flags(**flags: bool) -> str:
    return "|".join(f"{name}:{'yes' if value else 'no'}" for name, value in flags.items())


def _counts(scorer: Any, references: Sequence[str]) -> tuple[Callable[[str], Any], Any]:
    """Return a function that makes sacrebleu count a text against references, and what it has prepared of these."""
    prepared = scorer._extract_reference_info([scorer._preprocess_segment(reference) for reference in references])
    return lambda text: scorer._compute_segment_statistics(scorer._preprocess_segment(text), prepared), prepared


def _scorer(name: str, settings: ChrfTexts | TerTexts) -> Any:
    kept = {setting: value for setting, value in vars(settings).items() if setting != "per_sentence"}
    return getattr(_imported("sacrebleu.metrics"), name)(**kept)


def _bleu(settings: BleuTexts | SentenceBleuTexts, **more: Any) -> Any:
    bleu, tokenize = _imported("sacrebleu.metrics").BLEU, settings.tokenize
    if tokenize not in bleu.TOKENIZERS:
        raise MetricError(f"no tokenizer {quoted(tokenize)}; sacrebleu has {listed(sorted(bleu.TOKENIZERS))}")
    try:
        return bleu(tokenize=tokenize, lowercase=settings.lowercase, force=True, **more)
    except (ImportError, RuntimeError) as error:  # sacrebleu raises either for a tokenizer that needs another package
        raise MetricError(f"tokenizer {quoted(tokenize)} cannot be used: {' '.join(str(error).split())}") from error


def _imported(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MetricError(f"{module.split('.')[0]} is not installed; pip install 'lpmert[text]'") from error


def _version(package: str) -> str:
    return f"{package}:{_imported(package).__version__}"


TEXT_METRICS: dict[str, TextMetric] = {
    "bleu": BleuTexts(),
    "sentence-bleu": SentenceBleuTexts(),
    "chrf": ChrfTexts(),
    "sentence-chrf": ChrfTexts(per_sentence=True),
    "ter": TerTexts(),
    "sentence-ter": TerTexts(per_sentence=True),
    "wer": EditTexts(),
    "cer": EditTexts(unit="character"),
}
"""Metrics on texts by name, with their usual settings."""


def source_of(settings: TextMetric, references: Sequence[Sequence[str]]) -> str:
    """Return how statistics are counted from texts and the references of each list, for the signature of a metric."""
    numbers = sorted({len(texts) for texts in references})
    return f"nrefs:{numbers[0] if len(numbers) == 1 else 'var'}|{settings.signature}"


def text_metric(metric: str | TextMetric) -> TextMetric:
    """Return the settings of a metric on texts by name; settings are returned as they are. May raise `MetricError`."""
    if not isinstance(metric, str) and hasattr(metric, "counter"):
        return metric
    if metric not in TEXT_METRICS:
        raise MetricError(f"no metric {quoted(metric)} on texts; choose one of {', '.join(TEXT_METRICS)}")
    return TEXT_METRICS[metric]


def text_unit(settings: object, n_lists: int, rate: float | None) -> Unit:
    """Return the unit of the losses of a metric on texts; rate: the error rate of one edit, if known."""
    if isinstance(settings, SentenceBleuTexts | ChrfTexts):  # sums of 1 - score
        return Unit("mean BLEU" if isinstance(settings, SentenceBleuTexts) else "mean chrF", -100.0 / n_lists, 100.0)
    if not isinstance(settings, EditTexts | TerTexts):
        return LOSS
    name = "TER" if isinstance(settings, TerTexts) else "WER" if settings.unit == "word" else "CER"
    if settings.per_sentence:
        return Unit(f"mean {name}", 1.0 / n_lists, percent=True)
    return Unit(f"{name} edits") if rate is None else Unit(name, rate, percent=True, counts="errors")


def reference_length(settings: object, references: Sequence[Sequence[str]]) -> float | None:
    """Return the length by which edits are divided for an error rate; `None` where it is unknown.

    With several references, except for TER, it depends on which of them are nearest.
    """
    if not isinstance(settings, EditTexts | TerTexts) or settings.per_sentence:
        return None
    if isinstance(settings, EditTexts) and any(len(texts) != 1 for texts in references):
        return None
    return sum(map(settings.length, references)) or None
