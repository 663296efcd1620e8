"""Check a certificate against the lists it is about, independently of every search engine.

Only the lists, the metric and exact arithmetic are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lpmert.certificates.check.lists import Claim, ProofLists
from lpmert.certificates.check.regions import cap_of
from lpmert.certificates.check.tree import check_tree
from lpmert.certificates.format import CertificateReader, Header
from lpmert.errors import CertificateError, FloatArray
from lpmert.metrics.base import AdditiveMetric, Metric, RatioMetric
from lpmert.metrics.contract import check_statistics, metric_of
from lpmert.model.nbest import NBest
from lpmert.quoting import LONGEST_REFUSAL, shortened
from lpmert.system.deadline import limited

if TYPE_CHECKING:
    from fractions import Fraction

    from lpmert.metrics.text import TextMetric
    from lpmert.model.graphs import WordGraphs


@dataclass(frozen=True)
class Verified:
    """What a certificate proves.

    Decoding with the `weights` loses `loss`, without ties; no weights decode without ties to less than `bound`, or none
    that have a positive product with every one of the `limits`, the product 0 with every one of the `equations` and at
    least the `cosine` with the weights `around`, if there are any.
    Both are exact, but for BLEU, which is compared exactly and given to the nearest multiple of 2**-64. Weights are
    those near the ones given that fulfil the equations: each of these sets the last weight that it can. `records`
    counts the parts of the tree.
    """

    claim: Header
    records: int

    @property
    def loss(self) -> Fraction:
        """What decoding with the weights loses."""
        return self.claim.loss

    @property
    def bound(self) -> Fraction:
        """A loss that no weights go below."""
        return self.claim.bound

    @property
    def weights(self) -> dict[str, float]:
        """The weights by name."""
        return self.claim.weights

    @property
    def limits(self) -> tuple[dict[str, float], ...]:
        """The limits, each with a number by name."""
        return tuple(dict(zip(self.weights, row, strict=True)) for row in self.claim.limits)

    @property
    def equations(self) -> tuple[dict[str, Fraction], ...]:
        """The equations, each with a number by name."""
        return tuple(dict(zip(self.weights, row, strict=True)) for row in self.claim.equations)

    @property
    def cosine(self) -> Fraction | None:
        """The least cosine with the weights `around`, if there is one."""
        return self.claim.cosine or None

    @property
    def around(self) -> dict[str, float] | None:
        """The weights by name around which the cosine holds, if there is one."""
        return dict(zip(self.weights, self.claim.around, strict=True)) if self.claim.cosine else None

    @property
    def proved(self) -> bool:
        """Whether the loss is the least one."""
        return self.bound == self.loss

    def __str__(self) -> str:
        """Return one sentence."""
        parts = ((len(self.limits), "limits"), (len(self.equations), "equations"))
        named = [f"{count} {what}" for count, what in parts if count]
        named += [f"a cosine of {float(self.cosine):g}"] if self.cosine else []
        within = f" within {' and '.join(named)}" if named else ""
        least = "is the least" if self.proved else f"is at most {float(self.loss - self.bound):.10g} above the least"
        return (
            f"certificate holds: loss {float(self.loss):.10g} {least}{within} "
            f"({self.claim.metric}, ties: {self.claim.ties}; {self.records} records)"
        )


def verify(
    certificate: str | Path,
    nbest: NBest | WordGraphs,
    *,
    metric: str | Metric | TextMetric | None = None,
    ties: str = "first",
    time_limit: float | None = None,
    memory_limit: int | None = None,
    on_line: Callable[[int], object] = lambda _: None,
) -> Verified:
    """Check that a certificate proves its claim for these lists, this metric and this rule for ties.

    Parameters
    ----------
    certificate : str or Path
        The file that `certify` wrote, plain or compressed.
    nbest : NBest, Lattices or Hypergraphs
        The lists it is about; or the lattices, whose paths that may win are found anew, in exact arithmetic.
    metric, ties
        Those it is about, as for `minimize`.
    time_limit : float, optional
        Seconds.
    memory_limit : int, optional
        Bytes that the process may hold; by default what it holds at the beginning and nine tenths of what is free.
    on_line : callable, optional
        Gets the number of each line that is checked, the first one being 1.

    Returns
    -------
    Verified
        What was proved, in exact numbers.

    Raises
    ------
    CertificateError
        If it does not hold; the message names the file and the line where it breaks.
    LimitError
        If a limit ended the check first.
    DataError, MetricError, MethodError
        If there is no such file, or the metric or a limit cannot be used.

    Notes
    -----
    No search is run and no solver is trusted: all comparisons are decided in exact arithmetic on the numbers as given.
    The lemmas are in `proofs`.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.read(
    ...     "examples/asr/nbest.tsv.gz", segment="utterance", features=["am", "lm", "words"], loss="errors"
    ... )
    >>> found = lpmert.verify("examples/asr/optimum.json.gz", lists)
    >>> found.loss, found.proved
    (Fraction(912, 1), True)
    """
    if time_limit is not None or memory_limit is not None:
        from lpmert.values import checked_limits

        checked_limits(time_limit, None, None, None, memory_limit)
    reader = CertificateReader(certificate, on_line)

    def placed(message: str) -> str:
        return f"{certificate}:{reader.line}: {message}" if reader.line else f"{certificate}: {message}"

    try:
        with limited(time_limit, memory_limit, lambda why: placed(f"not checked further: {why}")):
            return _verified(reader, nbest, metric, ties)
    except CertificateError as error:
        raise CertificateError(placed(shortened(str(error), LONGEST_REFUSAL))) from error


def _verified(reader: CertificateReader, nbest: NBest | WordGraphs, metric: Any, ties: str) -> Verified:
    header: Header = reader.header()
    if not isinstance(nbest, NBest):
        from lpmert.certificates.check.lattices import claimed_lists  # which needs more than lists do

        nbest, metric = claimed_lists(nbest, metric, header)
    measure = metric_of(metric, nbest.statistic_names)
    check_statistics(measure, nbest.statistics, nbest.offsets)
    claim = claim_of(measure, nbest.statistics, ties)
    for what, stated, own in (
        ("metric", header.metric, measure.signature),
        ("rule for ties", header.ties, ties),
        ("features", list(header.weights), list(nbest.names)),
        ("fingerprint of the lists", header.fingerprint, nbest.fingerprint),
    ):
        if stated != own:
            raise CertificateError(f"{what}: {stated} in the certificate, {own} here")
    cap = cap_of(header)
    lists = ProofLists(nbest, claim, ties, header.exponents, header.limits, header.equations, header.facets)
    lists.cap = cap
    sums = lists.attained(list(header.weights.values()))
    loss = claim.loss(sums)
    if loss != header.loss:
        raise CertificateError(f"the weights lose {loss}, not {header.loss}")
    claim.take(header.sums, header.bound)
    if header.bound > loss or (header.bound == loss) != (claim.compared(sums) == 0):
        raise CertificateError(f"the weights lose {loss}, less than the bound {header.bound}, or too near it to tell")
    lists.weigh()
    least = check_tree(reader, lists)
    if not claim.reached(least if claim.several or least == inf else lists.sums([lists.target + int(least)])[0]):
        raise CertificateError(f"the bound {header.bound} is lower than what the tree proves")
    return Verified(header, reader.line - 2)


def claim_of(metric: Metric, statistics: FloatArray, ties: str) -> Claim:
    """Return the claim about statistics [M, K]; raises `CertificateError` for a metric without proofs."""
    if isinstance(metric, AdditiveMetric):
        return Claim(metric.losses(statistics))
    if not isinstance(metric, RatioMetric):
        raise CertificateError(f"certificates need a sum or ratio of statistics; {metric.name!r:.40} is neither")
    if ties != "first":
        raise CertificateError(f"ties {ties!r:.20} need a loss a hypothesis; {metric.name!r:.40} has none")
    from lpmert.certificates.check.ratio import RatioClaim  # with the formulas, which sums do without

    return RatioClaim(metric, statistics)
