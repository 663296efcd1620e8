"""Check a certificate against the lists it is about, independently of every search engine.

Only the lists, the metric and exact arithmetic are used; everything heavy is imported when a check begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

    from lpmert.certificate import CertificateReader
    from lpmert.metrics.base import AdditiveMetric, Metric
    from lpmert.nbest import NBest
    from lpmert.result import FloatArray


@dataclass(frozen=True)
class Verified:
    """What a certificate proves.

    Decoding with `weights` [D] loses `loss`, without ties; no weights, or none with a positive product with every one
    of the `limits` [R, D], decode without ties to a smaller loss than `bound`. Both are exact. `records` counts the
    nodes of the tree; `found_by` is the signature of the run that found the weights.
    """

    loss: Fraction
    bound: Fraction
    weights: FloatArray
    names: tuple[str, ...]
    metric: str
    ties: str
    limits: FloatArray
    found_by: str
    records: int

    @property
    def proved(self) -> bool:
        """Whether the loss is the least one."""
        return self.bound == self.loss

    def __str__(self) -> str:
        """Return one sentence."""
        within = f" within {len(self.limits)} limits" if len(self.limits) else ""
        least = "is the least" if self.proved else f"is at most {float(self.loss - self.bound):.10g} above the least"
        return (
            f"certificate holds: loss {float(self.loss):.10g} {least}{within} "
            f"({self.metric}, ties: {self.ties}; {self.records} records)"
        )


def verify(certificate: str | Path, nbest: NBest, *, metric: str | Metric = "loss", ties: str = "first") -> Verified:
    """Check that a certificate proves its claim for these lists, this metric and this rule for ties.

    certificate: a file, plain or compressed. All comparisons are decided in exact arithmetic on the numbers as given.
    Raises `CertificateError`, with the file and the line where it breaks, if it does not hold; `DataError` if there is
    no such file.
    """
    from lpmert.certificate import CertificateReader
    from lpmert.result import CertificateError

    reader = CertificateReader(certificate)
    try:
        return _verified(reader, nbest, metric, ties)
    except CertificateError as error:
        raise CertificateError(f"{certificate}:{reader.line}: {error}") from error


def _verified(reader: CertificateReader, nbest: NBest, metric: str | Metric, ties: str) -> Verified:
    import numpy as np

    from lpmert.proof.lists import REPRESENTATIVE, ProofLists
    from lpmert.proof.tree import TreeCheck
    from lpmert.result import CertificateError

    header = reader.header
    measure = _additive(metric)
    measure.check(nbest.statistics)
    for what, stated, own in (
        ("metric", header.metric, measure.signature),
        ("rule for ties", header.ties, ties),
        ("fingerprint of the lists", header.fingerprint, nbest.fingerprint),
    ):
        if stated != own:
            raise CertificateError(f"the certificate is about other claims: its {what} is {stated}, here it is {own}")
    if ties not in REPRESENTATIVE:
        raise CertificateError(f"the rule for ties {ties!r} is none of {', '.join(REPRESENTATIVE)}")
    if tuple(header.weights) != nbest.names:
        raise CertificateError(f"weights are needed for {', '.join(nbest.names)}, not for {', '.join(header.weights)}")
    lists = ProofLists(nbest, measure, ties, header.exponents, header.limits)
    loss = lists.attained(list(header.weights.values()))
    if loss != header.loss:
        raise CertificateError(f"the weights lose {loss}, not {header.loss}")
    if header.bound > header.loss:
        raise CertificateError(f"the bound {header.bound} is above the loss {header.loss}")
    target = lists.target(header.bound)
    tree = TreeCheck(reader, lists, target)
    proved = None if tree.least is None else lists.loss_of(tree.least)
    if proved != header.bound:
        raise CertificateError(f"the tree proves a bound of {proved}, not {header.bound}")
    return Verified(
        loss=loss,
        bound=header.bound,
        weights=np.array(list(header.weights.values())),
        names=nbest.names,
        metric=header.metric,
        ties=ties,
        limits=np.array(header.limits, dtype=np.float64).reshape(-1, nbest.n_features),
        found_by=header.found_by,
        records=tree.records,
    )


def _additive(metric: str | Metric) -> AdditiveMetric:
    from lpmert.metrics.base import AdditiveMetric, metric_by_name
    from lpmert.result import MetricError

    measure = metric_by_name(metric)
    if not isinstance(measure, AdditiveMetric):
        raise MetricError(f"metric {measure.name!r} is no sum over lists; certificates are about losses that are")
    return measure
