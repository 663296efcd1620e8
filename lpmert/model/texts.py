"""Statistics of lists counted from their texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lpmert.errors import DataError, MetricError
from lpmert.metrics.base import Metric
from lpmert.metrics.text import TEXT_METRICS, TextMetric
from lpmert.model.given import checked_sequence
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted
from lpmert.system.deadline import checked


def measure_texts(
    nbest: NBest, references: Sequence[str | Sequence[str]], metric: str | TextMetric = "bleu"
) -> tuple[NBest, Metric]:
    """Return the lists with statistics counted from their texts, and the metric that sums these.

    references: for each list one string, or several. metric: a name of `TEXT_METRICS`, or settings such as
    `BleuTexts(tokenize="none")`. Raises `DataError` without texts or where references are missing, and `MetricError`
    for a metric or tokenizer that is unknown or not installed.
    """
    settings = text_metric(metric)
    if nbest.texts is None:
        raise DataError("the lists have no texts; read them with a text column, or pass texts to NBest")
    references = checked_sequence(references, "references")
    if len(references) != nbest.n_lists:
        raise DataError(f"references needs one entry for each of the {nbest.n_lists} lists; got {len(references)}")
    several = [(one,) if isinstance(one, str) else tuple(one) for one in references]
    rows: list[Sequence[float]] = []
    bounds = zip(nbest.offsets[:-1].tolist(), nbest.offsets[1:].tolist(), strict=True)
    for list_id, (begin, end), own in zip(nbest.list_ids, bounds, several, strict=True):
        if not own or not all(isinstance(reference, str) for reference in own):
            raise DataError(
                f"list {quoted(list_id)} needs at least one reference, all of them strings; got {quoted(own)}"
            )
        count = settings.counter(own)
        texts = nbest.texts[begin:end]
        known = {text: count(text) for text in checked(dict.fromkeys(texts))}
        rows += [known[text] for text in texts]
    numbers = sorted({len(own) for own in several})
    source = f"nrefs:{numbers[0] if len(numbers) == 1 else 'var'}|{settings.signature}"
    measured = NBest(
        nbest.features,
        nbest.offsets,
        np.array(rows, dtype=np.float64),
        nbest.names,
        nbest.list_ids,
        settings.columns,
        nbest.texts,
    )
    return measured, settings.metric(source)


def text_metric(metric: str | TextMetric) -> TextMetric:
    """Return settings of a metric on texts, by name or as they are; raises `MetricError` for an unknown name."""
    if not isinstance(metric, str) and hasattr(metric, "counter"):
        return metric
    if metric not in TEXT_METRICS:
        raise MetricError(f"no metric {quoted(metric)} on texts; choose one of {', '.join(TEXT_METRICS)}")
    return TEXT_METRICS[metric]
