"""Check a certificate against the lists it is about, independently of every search.

Only the lists, the metric and exact arithmetic are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lpmert.certificates.check.lists import BudgetClaim, Claim, ProofLists
from lpmert.certificates.check.regions import basis_of, check_equations
from lpmert.certificates.check.tree import check_tree
from lpmert.certificates.format import CertificateReader, Header, agreeing, typed
from lpmert.errors import CertificateError
from lpmert.metrics.base import AdditiveMetric, Metric, RatioMetric, check_statistics, metric_of
from lpmert.model.nbest import NBest, column_of
from lpmert.numeric.lists import varying_columns
from lpmert.quoting import counted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from lpmert.metrics.text import TextMetric
    from lpmert.model.graphs import WordGraphs


MOST_SETS = 50_000  # how many sets of features a certificate about at most k features can have trees for


@dataclass(frozen=True)
class Verified(Header):
    """What a certificate proves.

    Decoding with `weights` gives `loss`, without ties between different losses. No weights of the region decode without
    ties to a loss below `bound`. Both numbers are exact; BLEU is compared exactly and given to the nearest multiple of
    2**-64. `records` counts the records of the tree.

    Weights are in the region if their product with each of the `limits` is positive and their product with each of the
    `equations` is 0; both have a number for each weight, in order. `weights` themselves fulfil the equations up to
    rounding: they stand for the exact weights in which each equation sets the first weight that it can.
    With `at_most`, the region has the weights with at most so many entries other than 0, and their products with limits
    may be 0; hypotheses that such weights cannot tell apart count as the worst of them. With a `budget`, it has the
    weights whose selection keeps the named sum within the number. Whatever a certificate does not have is empty or 0.
    """

    records: int = 0

    @property
    def proved(self) -> bool:
        """Whether the loss is the least one."""
        return self.bound == self.loss

    def __str__(self) -> str:
        """Return one sentence."""
        stated = ((self.limits, "limit"), (self.equations, "equation"))
        conditions = [counted(len(rows), noun) for rows, noun in stated if rows]
        conditions += [f"{name} of at most {float(most):.10g}" for name, most in self.budget.items()]
        within = f" within {' and '.join(conditions)}" if conditions else ""
        within = f" with at most {counted(self.at_most, 'feature')}{within}" if self.at_most else within
        least = "is the least" if self.proved else f"is at most {float(self.loss - self.bound):.10g} above the least"
        return (
            f"certificate holds: loss {float(self.loss):.10g} {least}{within} "
            f"({self.metric}, ties: {self.ties}; {self.records} records)"
        )


def verify(
    certificate: str | Path,
    nbest: NBest | WordGraphs,
    *,
    metric: str | Metric | TextMetric | None = None,
    ties: str = "first",
    second: ArrayLike | None = None,
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
        The lists it is about; or the lattices, in which the checker finds all paths that may win, in exact arithmetic.
    metric, ties
        Those it is about, as for `minimize`. With at most k features, ties always count at their worst.
    second : array [M], optional
        For a budget, the second number of each hypothesis; by default the feature or statistic that the certificate
        names.
    time_limit : float, optional
        Seconds.
    memory_limit : int, optional
        Bytes that the process may hold; by default what it holds at the beginning and nine tenths of what is free.
    on_line : callable, optional
        Called with the number of each line that is read, from 1.

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
    reader = CertificateReader(certificate, on_line)
    with reader.checking(time_limit, memory_limit):
        return _verified(reader, nbest, metric, ties, second)


def _verified(reader: CertificateReader, nbest: NBest | WordGraphs, metric: Any, ties: str, second: Any) -> Verified:
    header: Header = reader.header()
    if not isinstance(nbest, NBest):
        if header.at_most or header.budget:
            raise CertificateError("it is about N-best lists, not about lattices")
        from lpmert.certificates.check.lattices import claimed_lists  # lists do without its imports

        nbest, metric = claimed_lists(nbest, metric, header)
    measure = metric_of(metric, nbest.statistic_names)
    check_statistics(measure, nbest.statistics, nbest.offsets)
    ties = "worst" if header.at_most and ties == "first" else ties
    claim = claim_of(measure, nbest, ties, header.budget, second)
    agreeing(
        ("metric", header.metric, measure.signature),
        ("rule for ties", header.ties, ties),
        ("features", list(header.weights), list(nbest.names)),
        ("fingerprint of the lists", header.fingerprint, nbest.fingerprint),
    )
    # The weights are in the region, and decode to the loss without ties.
    unused = [name for name, weight in header.weights.items() if header.at_most and not weight]
    limits, equations = with_zeros(header, unused)
    _, zeros = zeros_of(header, nbest) if header.at_most else (0, iter(()))
    lists = ProofLists(nbest, claim, ties, header.exponents, limits, equations)
    check_equations(header.equations, list(header.weights.values()))
    sums = lists.attained(list(header.weights.values()))
    loss = claim.loss(sums)
    if loss != header.loss:
        raise CertificateError(f"the weights lose {loss}, not {header.loss}")
    # The bound is at most the loss, and equal to it exactly if the claim compares them as equal.
    claim.set_bound(header.sums, header.bound)
    if header.bound > loss or (header.bound == loss) != (claim.compared(sums) == 0):
        raise CertificateError(f"the weights lose {loss}, less than the bound {header.bound}, or too near it to tell")
    if (header.at_most or header.budget) and header.bound != loss:
        raise CertificateError(f"with a limit on features, or a budget, the bound is the loss, not {header.bound}")
    # No weights undercut the bound: by one tree, or by one for each set of features (G9).
    for zero in zeros:
        opening = reader.record()
        exponents = typed(opening.get("exponents"), dict)
        if len(opening) != 1 or {*map(type, exponents.values())} - {int}:
            raise CertificateError(f"the exponents of a tree expected, not {opening!r:.40}")
        check_tree(reader, ProofLists(nbest, claim, ties, exponents, *with_zeros(header, zero)))
    if not header.at_most:
        least = check_tree(reader, lists)
        least_sum = least if claim.several or least == inf else lists.sums([lists.target + int(least)])[0]
        if not header.budget and not claim.is_tight(least_sum):
            raise CertificateError(f"the bound {header.bound} is lower than what the tree proves")
    reader.end()
    return Verified(**vars(header), records=reader.line - 2)


def zeros_of(header: Header, nbest: NBest) -> tuple[int, Iterator[list[str]]]:
    """Return the number of trees of a claim about at most k features, and for each the features with weight 0: G9.

    There is one tree for each set of k of the features that vary within lists, in the order of `combinations`. Raises
    `CertificateError` for a claim that has no such proof.
    """
    if header.ties != "worst" or header.budget or header.at_most < 1:
        raise CertificateError("at_most has no proof with a budget, or other ties than the 'worst' of best_subsets")
    limits = [[*map(Fraction, row)] for row in header.limits]
    nonzeros = [[d for d, value in enumerate(row) if value] for row in [*limits, *header.equations]]
    if any(len(nonzero) != 1 for nonzero in nonzeros):
        raise CertificateError("a limit on features has a proof only with signs and zeros of weights as the region")
    signs = {(nonzero[0], row[nonzero[0]] > 0) for row, nonzero in zip(limits, nonzeros, strict=False)}
    if len({d for d, _ in signs}) < len(signs):
        raise CertificateError("limits of both signs of a feature leave no weights")
    n_used = sum(weight != 0.0 for weight in header.weights.values())
    if n_used > header.at_most:
        raise CertificateError(f"{n_used} weights are other than 0, and {header.at_most} may be")
    names = [nbest.names[d] for d in varying_columns(nbest.dense_features(), nbest.offsets).tolist()]
    size = min(header.at_most, len(names))
    n_sets = comb(len(names), size)
    if n_sets > MOST_SETS:
        raise CertificateError(f"{len(names)} features have more than {MOST_SETS:,} sets of {size}, one tree each")
    return n_sets, ([name for name in names if name not in used] for used in combinations(names, size))


def with_zeros(header: Header, zero: Sequence[str]) -> tuple[list[list[float]], list[list[Fraction]]]:
    """Return the limits and equations of a header with these weights at 0; limits that become 0 are left out."""
    names = list(header.weights)
    equations = [*header.equations, *([Fraction(int(name == fixed)) for name in names] for fixed in zero)]
    if not zero:
        return header.limits, equations
    basis, free = basis_of(equations, len(names))
    if not free:
        raise CertificateError("zeros and equations leave no weights")
    if any(len(row) != len(names) for row in header.limits):
        raise CertificateError(f"limits have {len(names)} numbers")
    rows = [np.array([Fraction(x) for x in row], dtype=object) for row in header.limits]
    return [limit for limit, row in zip(header.limits, rows, strict=True) if (row @ basis).any()], equations


def claim_of(
    metric: Metric, nbest: NBest, ties: str, budget: Mapping[str, Fraction] | None = None, second: Any = None
) -> Claim:
    """Return the claim about the loss of lists; second: the numbers of the budget, if no column has its name.

    Raises `CertificateError` for a metric without proofs.
    """
    if isinstance(metric, AdditiveMetric):
        losses = metric.losses(nbest.statistics)
        if not budget:
            return Claim(losses)
        if len(budget) != 1 or ties != "first":
            raise CertificateError("a budget is about one second sum, and the first of identical hypotheses")
        ((name, most),) = budget.items()
        return BudgetClaim(losses, column_of(nbest, name if second is None else second, name)[1], most)
    if not isinstance(metric, RatioMetric) or budget:
        raise CertificateError(f"certificates need a sum or ratio of statistics; {metric.name!r:.40} is neither")
    if ties != "first":
        raise CertificateError(f"ties {ties!r:.20} need a loss a hypothesis; {metric.name!r:.40} has none")
    from lpmert.certificates.check.ratio import RatioClaim  # sums do without its formulas

    return RatioClaim(metric, nbest.statistics)
