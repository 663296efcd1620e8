"""Check a certificate against the lists it is about, independently of every search engine.

Only the lists, the metric and exact arithmetic are used.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lpmert.certificates.check.claims import Claim
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.tree import check_tree
from lpmert.certificates.format import CertificateReader
from lpmert.certificates.verified import Verified
from lpmert.errors import CertificateError, FloatArray, MethodError
from lpmert.metrics.base import AdditiveMetric, Metric, RatioMetric
from lpmert.metrics.contract import metric_of
from lpmert.model.nbest import NBest
from lpmert.quoting import LONGEST_REFUSAL, quoted, shortened
from lpmert.system.deadline import limited

if TYPE_CHECKING:
    from lpmert.metrics.text import TextMetric
    from lpmert.model.graphs import WordGraphs


def verify(
    certificate: str | Path,
    nbest: NBest | WordGraphs,
    *,
    metric: str | Metric | TextMetric | None = None,
    ties: str = "first",
    time_limit: float | None = None,
    memory_limit: int | None = None,
    jobs: int = 1,
    on_line: Callable[[int], object] = lambda _: None,
) -> Verified:
    """Check that a certificate proves its claim for these lists, this metric and this rule for ties.

    Parameters
    ----------
    certificate : str or Path
        The file that `certify` wrote, plain or compressed.
    nbest : NBest, Lattices or Hypergraphs
        The lists it is about, or the lattices: their paths that may win are found anew, in exact arithmetic.
    metric, ties
        Those it is about, as for `minimize`.
    time_limit : float, optional
        Seconds.
    memory_limit : int, optional
        Bytes that all processes may hold; by default what they hold at the beginning and nine tenths of what is free.
    jobs : int
        Number of processes that check a tree together, this one among them, at least 1; the outcome is the same.
    on_line : callable, optional
        Gets the number of each line that is checked, the first one being 1; of one process's lines among several.

    Returns
    -------
    Verified
        What was proved, in exact numbers.

    Raises
    ------
    CertificateError
        If it does not hold; the message names the file and the line where it breaks.
    LimitError
        If a limit ended the check before it was known whether it holds.
    DataError, MetricError, MethodError
        If there is no such file, or the metric or the number of jobs does not fit.

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
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise MethodError(f"jobs must be a whole number of at least 1; got {quoted(jobs)}")
    if time_limit is not None or memory_limit is not None:
        from lpmert.values import checked_limits

        checked_limits(time_limit, None, None, None, memory_limit)
    reader = CertificateReader(certificate, on_line)

    def placed(message: str) -> str:
        return f"{certificate}:{reader.line}: {message}" if reader.line else f"{certificate}: {message}"

    try:
        with limited(time_limit, memory_limit, lambda why: placed(f"not checked further: {why}")):
            return _verified(reader, nbest, metric, ties, jobs)
    except CertificateError as error:
        raise CertificateError(placed(shortened(str(error), LONGEST_REFUSAL))) from error


def _verified(reader: CertificateReader, nbest: NBest | WordGraphs, metric: Any, ties: str, jobs: int) -> Verified:
    header = reader.header()
    if not isinstance(nbest, NBest):
        from lpmert.certificates.check.lattices import claimed_lists  # which needs more than lists do

        nbest, metric = claimed_lists(nbest, metric, header)
    measure = metric_of(metric, nbest.statistic_names)
    measure.check(nbest.statistics)
    claim = claim_of(measure, nbest.statistics, ties)
    for what, stated, own in (
        ("metric", header.metric, measure.signature),
        ("rule for ties", header.ties, ties),
        ("features", list(header.weights), list(nbest.names)),
        ("fingerprint of the lists", header.fingerprint, nbest.fingerprint),
    ):
        if stated != own:
            raise CertificateError(f"{what}: {stated} in the certificate, {own} here")
    cap = None
    if header.equations or header.around or header.cosine or header.facets:
        from lpmert.certificates.check.cosine import cap_of

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
    if jobs > 1 and Path(reader.path).is_file():
        from lpmert.certificates.check.shares import check_shares

        least = check_shares(reader, lists, jobs)
    else:
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
