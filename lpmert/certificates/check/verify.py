"""Check a certificate against the lists it is about, independently of every search engine.

Only the lists, the metric and exact arithmetic are used. Several processes read the whole tree, and each closes its
share of the leaves.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lpmert.certificates.check.lists import Claim, ProofLists
from lpmert.certificates.check.regions import cap_of
from lpmert.certificates.check.tree import check_tree
from lpmert.certificates.format import CertificateReader
from lpmert.certificates.verified import Verified
from lpmert.errors import CertificateError, FloatArray, MethodError
from lpmert.metrics.base import AdditiveMetric, Metric, RatioMetric
from lpmert.metrics.contract import check_statistics, metric_of
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
    shared = jobs > 1 and Path(reader.path).is_file()
    least = check_shares(reader, lists, jobs) if shared else check_tree(reader, lists)
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


_SHARE = 400
"""Lines in a row that are one process's, after which it finds the cones above anew."""

Share = tuple[float, bool, int, str, str]
"""The least excess, whether the bound was met, the last line read, what is wrong there, and the digest of the lines."""


def check_shares(reader: CertificateReader, lists: ProofLists, jobs: int) -> float:
    """Check a tree as `check_tree` does, with the same outcome, by this process and so many less one others."""
    from lpmert.workers import Processes  # which one process does without

    with Processes(jobs - 1) as others:
        context = others.share((reader.path, pickle.dumps(lists)))
        pending = [others.submit(_checked, context, number, jobs, _SHARE) for number in range(1, jobs)]
        shares = [_share(reader, lists, 0, jobs, _SHARE)]
        for number, other in enumerate(pending, 1):
            if number * _SHARE <= reader.line:  # else the tree ended before there was a leaf for it
                shares.append(other.wait())
    for _, met, line, *_ in shares:
        reader.line = max(reader.line, line)
        lists.claim.met = lists.claim.met or met
    refused = [(line, error) for _, _, line, error, _ in shares if error]
    if refused:
        reader.line, error = min(refused)
        raise CertificateError(error)
    if len({digest for *_, digest in shares}) > 1:
        raise CertificateError("the file changed while it was read")
    return min(bound for bound, *_ in shares)


def _checked(context: tuple[str | Path, bytes], *which: int) -> Share:
    """Do as `_share`, in another process."""
    path, lists = context
    reader = CertificateReader(path)
    reader.header()
    return _share(reader, pickle.loads(lists), *which)  # noqa: S301 - by a process of ours


def _share(reader: CertificateReader, lists: ProofLists, number: int, jobs: int, size: int) -> Share:
    """Return what a share shows.

    size: lines in a row that belong to one of so many jobs.
    """
    digest = sha256()
    reader.lines = _digested(reader.lines, digest)
    try:
        least = check_tree(reader, lists, lambda: reader.line // size % jobs == number)
    except CertificateError as error:
        return inf, False, reader.line, str(error), ""
    return least, lists.claim.met, reader.line, "", digest.hexdigest()


def _digested(lines: Iterator[tuple[int, str]], digest: Any) -> Iterator[tuple[int, str]]:
    """Yield lines, each as it goes into the digest of all."""
    for line, text in lines:
        digest.update(text.encode())
        yield line, text
