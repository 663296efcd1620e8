"""Losses in the units that users know: rates, where it is known what to divide them by, scores, gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lpmert.errors import FloatArray, IntArray
from lpmert.findings import Unit
from lpmert.metrics.base import Metric, SumOfLosses, Wer
from lpmert.metrics.ratio import Bleu, Chrf, LinearFraction, Per
from lpmert.quoting import shortened, visible
from lpmert.system.mapped import pieces

ACCURACY, ERROR_RATE = "accuracy", "error_rate"


def rates_of(metric: Metric, statistics: FloatArray, offsets: IntArray, loss: float) -> Mapping[str, float]:
    """Return a loss as shares by name: of right choices where hypotheses are right or wrong, or of errors.

    statistics [M, K] are those of all hypotheses, offsets [S + 1] those of the lists. Empty where what to divide by is
    not known.
    """
    if isinstance(metric, Wer):
        length = float(statistics[offsets[:-1], 1].sum())  # the same for all hypotheses of a list
        return {ERROR_RATE: loss / length} if length else {}
    if isinstance(metric, LinearFraction) and not metric.higher_is_better:
        return {ERROR_RATE: loss}
    if isinstance(metric, SumOfLosses) and all(((one == 0) | (one == 1)).all() for one in pieces(statistics)):
        return {ACCURACY: 1.0 - loss / (len(offsets) - 1)}
    return {}


_LONGEST_NAME = 40
_NAMES = {"loss": "loss", "error-rate": "error rate", "ter": "TER", "wer": "WER", "cer": "CER", "chrf": "chrF"}


def unit_of(metric: Metric, names: Sequence[str], rates: Mapping[str, float], n_lists: int) -> Unit:
    """Return the unit of a metric's losses; rates: those of the loss 1, see `rates_of`; names: of the statistics."""
    known = _NAMES.get(metric.name, metric.name.upper())
    if isinstance(metric, Bleu | Chrf):
        return Unit(known, -100.0, 100.0)
    if isinstance(metric, Wer) and ERROR_RATE in rates:
        return Unit(known, rates[ERROR_RATE], percent=True, counts="errors")
    if isinstance(metric, Per) or ERROR_RATE in rates:
        return Unit(known, percent=True)
    if isinstance(metric, LinearFraction):
        return Unit(known, -1.0, 1.0)
    if ACCURACY in rates:
        return Unit("accuracy", -1.0 / n_lists, 1.0, percent=True, counts="wrong")
    if not isinstance(metric, SumOfLosses):
        return Unit(_NAMES["loss"])
    name = shortened(visible(names[0]), _LONGEST_NAME)
    if name.startswith("-"):
        return Unit(name[1:], -1.0)
    share = name.removeprefix("1 - ")
    return Unit(name) if share == name else Unit(f"mean {share}", -1.0 / n_lists, 1.0)


def text_unit(settings: object, n_lists: int, rate: float | None) -> Unit:
    """Return the unit of what a metric on texts, or the one of that name, counts; rate: that of one edit if known."""
    from lpmert.metrics.text import TEXT_METRICS, ChrfTexts, EditTexts, SentenceBleuTexts, TerTexts

    settings = TEXT_METRICS.get(settings, settings) if isinstance(settings, str) else settings
    of_sentences = bool(getattr(settings, "per_sentence", False))
    if isinstance(settings, SentenceBleuTexts | ChrfTexts):  # sums of 1 - score
        return Unit("mean BLEU" if isinstance(settings, SentenceBleuTexts) else "mean chrF", -100.0 / n_lists, 100.0)
    if not isinstance(settings, EditTexts | TerTexts):
        return Unit(_NAMES["loss"])
    name = "TER" if isinstance(settings, TerTexts) else "WER" if settings.unit == "word" else "CER"
    if of_sentences:
        return Unit(f"mean {name}", 1.0 / n_lists, percent=True)
    return Unit(f"{name} edits") if rate is None else Unit(name, rate, percent=True, counts="errors")


def reference_length(settings: object, references: Sequence[Sequence[str]]) -> int | None:
    """Return by what edits that a metric on texts counted are divided for a rate; `None` where that is not known.

    With several references it depends on which are nearest.
    """
    from lpmert.metrics.text import EditTexts

    if not isinstance(settings, EditTexts) or settings.per_sentence or any(len(own) != 1 for own in references):
        return None
    return sum(settings.length(own[0]) for own in references) or None
