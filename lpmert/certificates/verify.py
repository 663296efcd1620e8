"""Check a certificate against the lists it is about, independently of every search.

Only the lists, the metric and exact arithmetic are used. The tree comes depth first: every record closes a node or
divides it (T1). A node is a box of weights together with choices made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate, combinations, pairwise
from math import comb, inf
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lpmert.certificates.claims import BudgetClaim, Claim, Price, RatioClaim
from lpmert.certificates.format import CertificateReader, Header, Record, agreeing, depth_first, integers, typed
from lpmert.certificates.lists import Box, ProofLists, Whole, basis_of, check_equations
from lpmert.errors import BoolArray, CertificateError, FloatArray, IntArray
from lpmert.limits import checked, checkpoint
from lpmert.metrics.base import AdditiveMetric, Metric, RatioMetric
from lpmert.metrics.contract import check_statistics, metric_of
from lpmert.model.nbest import NBest, column_of
from lpmert.numeric.lists import varying_columns
from lpmert.quoting import counted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from lpmert.metrics.text import TextMetric
    from lpmert.model.graphs import WordGraphs

_SCORE_BYTES = 32  # memory that a score and its comparisons take
Core = Mapping[int, int]  # choices (list -> row) that no weights of the box make together
Charges = list[tuple[int, Core]]  # cores, and what each adds to the bound


class Node(NamedTuple):
    """What may win at the weights of a box that make some choices.

    The open lists are those without a choice whose survivors differ in worth. rows [n]: their survivors, in order of
    cost within a list, equal ones in the order of before; starts [L]: where each list begins among these.
    fixed [K]: the summed worth of all other lists. price: what counts as cost, and the target that closes the node.
    chosen: the choices made (list -> row), with those of the limits; take: the last choice. cores: those met on the
    path to this node.
    """

    box: Box
    rows: IntArray
    starts: IntArray
    fixed: IntArray
    price: Price
    chosen: Mapping[int, int]
    take: tuple[int, int] | None = None
    cores: tuple[Core, ...] = ()

    @property
    def sizes(self) -> IntArray:
        """The number of survivors of each open list [L]."""
        return np.asarray(np.append(self.starts[1:], len(self.rows)) - self.starts)

    def scores(self, lists: ProofLists) -> FloatArray:
        """Return the scores [d, n] of the survivors at the rays of the box."""
        return np.asarray(self.box.points @ lists.features.take(self.rows, axis=0).T)

    def only(self, mask: BoolArray) -> Node:
        """Return the node with the rows that the mask [n] selects; lists without such rows are left out."""
        if mask.all():
            return self
        sizes = np.add.reduceat(mask, self.starts, dtype=np.int64)
        sizes = sizes[sizes > 0]
        return self._replace(rows=self.rows[mask], starts=np.cumsum(sizes) - sizes)

    def worth(self, lists: ProofLists) -> tuple[IntArray, IntArray]:
        """Return the least and the largest worth [K, L] in each open list."""
        worth = lists.worth.take(self.rows, axis=1)
        return np.minimum.reduceat(worth, self.starts, axis=1), np.maximum.reduceat(worth, self.starts, axis=1)

    def sum_bounds(self, lists: ProofLists) -> tuple[list[int], list[int]]:
        """Return bounds on the summed worth [K] of every selection of the node."""
        low, high = ((self.fixed + ends.sum(axis=1)).tolist() for ends in self.worth(lists))
        return low, high

    def costs(self, lists: ProofLists) -> IntArray:
        """Return the costs [n] of the survivors at the price of the node."""
        return np.asarray(np.array(self.price.slopes) @ lists.worth[:, self.rows])

    def least(self, costs: IntArray) -> int:
        """Return the least cost of a selection; costs [n]: those of the rows, of which the first of a list is least."""
        return self.price.of(self.fixed.tolist()) + int(costs[self.starts].sum())

    def ordered(self, lists: ProofLists, price: Price) -> Node:
        """Return the node at another price, its survivors in order of their new costs."""
        node = self._replace(price=price)
        order = np.lexsort((node.costs(lists), np.repeat(np.arange(len(self.starts)), self.sizes)))
        return node._replace(rows=self.rows[order])


def root_node(lists: ProofLists) -> Node:
    """Return the node of all weights within the limits."""
    nothing = np.zeros(len(lists.worth), dtype=lists.worth.dtype)
    # Of several sums, only the number of broken limits has a price before a record names prices.
    price = Price([0] * (len(lists.worth) - 1) + [1], 1 if lists.claim.several else lists.target)
    everything = Box(np.zeros((0, lists.features.shape[1]), dtype=object))
    node = Node(everything, np.arange(len(lists.features)), lists.offsets[:-1], nothing, price, lists.limit_rows)
    return narrowed(lists, node.ordered(lists, price), everything)


def narrowed(lists: ProofLists, node: Node, box: Box) -> Node:
    """Return a node restricted to a box inside its own, without the hypotheses that cannot win there (B1 b).

    The best hypothesis of a list at the centre, the first of equal ones, drops all that score no more anywhere in the
    box; then the first one left falls if any other scores at least as much everywhere in it. Lists whose survivors are
    all worth the same are settled. All this is decided exactly, whatever the rounding of scores.
    """
    checkpoint(len(node.rows) * _SCORE_BYTES * len(box.rays))
    node = node._replace(box=box)
    node = node.only(_survivors(lists, node)) if len(box.rays) else node
    least, most = node.worth(lists)
    differs: BoolArray = (least != most).any(axis=0)
    if differs.all():
        return node
    fixed = node.fixed + least[:, ~differs].sum(axis=1)
    return node.only(np.repeat(differs, node.sizes))._replace(fixed=fixed)


def _survivors(lists: ProofLists, node: Node) -> BoolArray:
    """Return which of the rows [n] of a node survive in its box."""
    scores, errors = node.scores(lists), lists.errors(node.box.points)
    rows, sizes, doubt = np.arange(len(node.rows)), node.sizes, float(errors.sum())
    best = np.repeat(_winners(lists, node, scores[0], float(errors[0])), sizes)
    beaten = _beaten(lists, node, doubt, scores.take(best, axis=1) - scores, best, rows)
    left = np.flatnonzero(~beaten)
    firsts = left[np.searchsorted(left, node.starts)]
    first = np.repeat(firsts, sizes)
    beaten[firsts] = np.logical_or.reduceat(
        _beaten(lists, node, doubt, scores - scores.take(first, axis=1), rows, first), node.starts
    )
    return ~beaten


def _winners(lists: ProofLists, node: Node, scores: FloatArray, error: float) -> IntArray:
    """Return the best hypothesis of each list [L] at the centre, the first of equal ones.

    scores [n]: those at the centre; error: the rounding error of their differences. Closer ones are decided exactly.
    """
    top = np.maximum.reduceat(scores, node.starts)
    close = np.flatnonzero(scores >= np.repeat(top - error, node.sizes))
    begins = np.searchsorted(close, node.starts)
    winners: IntArray = close[begins]
    if error:
        centre = Box(node.box.rays[:1])
        ends = np.append(begins[1:], len(close))
        for a in checked(np.flatnonzero(ends - begins > 1).tolist(), 10):
            for other in close[begins[a] + 1 : ends[a]].tolist():
                if not centre.is_nonnegative(_lead(lists, node, winners[a], other)):
                    winners[a] = other
    return winners


def _beaten(
    lists: ProofLists, node: Node, doubt: float, leads: FloatArray, winners: IntArray, losers: IntArray
) -> BoolArray:
    """Return for pairs [p] of hypotheses whether the winner scores at least as much as the loser in the whole box (B1).

    A hypothesis does not beat itself. leads [d, p]: of the winners at the rays, overwritten; doubt: the rounding error
    of the least lead in the box. Leads within it are decided exactly.
    """
    leads[0, winners == losers] = -np.inf
    margins = leads[0] - np.abs(leads[1:]).sum(axis=0)
    beaten: BoolArray = margins >= doubt
    for k in checked(np.flatnonzero(~beaten & ~(margins < -doubt)).tolist(), 10):
        beaten[k] = node.box.is_nonnegative(_lead(lists, node, winners[k], losers[k]))
    return beaten


def _lead(lists: ProofLists, node: Node, winner: int, loser: int) -> Whole:
    return np.asarray(lists.whole[node.rows[winner]] - lists.whole[node.rows[loser]])


_KEYS = {"take", "out", "at", "known", "cores", "branch"}


def check_node(lists: ProofLists, node: Node, record: Record) -> tuple[float, Iterator[Node]]:
    """Check the record of a node; return by how much the bounds of what it closes exceed the target, and the children.

    The excess is that of the least bound, infinite if nothing is closed or nothing closed can be attained. Children are
    the choices of a list that stay open, each created when it is asked for.

    Raises `CertificateError` if the record neither closes the node nor branches.
    """
    expected = None if node.take is None else list(lists.places[node.take[1]])
    taken = integers(record["take"], 2) if "take" in record else None
    if taken != expected or not set(record) <= _KEYS:
        raise CertificateError(f"expected a node that decides {expected} (list, hypothesis), not {record!r:.40}")
    met = list(node.cores)
    left = _without(lists, node, met, typed(record["out"], list)) if "out" in record else node
    attainable = len(left.starts) == len(node.starts)
    attainable = attainable and (not lists.claim.several or may_undercut(lists, *left.sum_bounds(lists)))
    if attainable and "at" in record:
        left = priced(lists, left, record["at"])
    costs = left.costs(lists)
    target = left.price.target
    others = left.least(costs)
    charges = _charges(lists, left, met, costs, record) if attainable else None
    bound = inf if charges is None else others + sum(amount for amount, _ in charges)
    if charges is None or bound >= target:
        if "branch" in record:
            raise CertificateError("the node is closed, and cannot branch")
        return bound - target, iter(())
    if "branch" not in record:
        raise CertificateError(f"the bound of this part is {bound} units of the loss, and {target} are needed")
    branch = typed(record["branch"], int)
    of_branch = lists.numbers[left.rows] == branch
    if not of_branch.any():
        raise CertificateError(f"list {branch} is not open")
    choices = list(zip(left.rows[of_branch].tolist(), costs[of_branch].tolist(), strict=True))
    others += sum(amount for amount, core in charges if branch not in core) - choices[0][1]
    rest = left.only(~of_branch)._replace(cores=tuple(met))
    excesses = [others + cost - target for _, cost in choices if others + cost >= target]
    # Made all at once, every child would hold its own copy of the choices.
    return min(excesses, default=inf), (
        rest._replace(fixed=rest.fixed + lists.worth[:, row], chosen={**rest.chosen, branch: row}, take=(branch, row))
        for row in [row for row, cost in choices if others + cost < target]
    )


def priced(lists: ProofLists, node: Node, at: object) -> Node:
    """Return a node at the prices taken at the sums `at`, which hold between the bounds of the node's sums (R4)."""
    low, high = map(lists.sums, node.sum_bounds(lists))
    price = lists.claim.price(low, high, integers(at, len(lists.constant)))
    return node.ordered(lists, Price([*price.slopes, price.forbidden], price.target - price.of(lists.constant)))


def may_undercut(lists: ProofLists, low: Sequence[int], high: Sequence[int]) -> bool:
    """Whether the best corner of summed worth between `low` and `high` undercuts a claim of several sums (R6, R7)."""
    return low[-1] == 0 and not lists.claim.closes(lists.sums(low), lists.sums(high))


def _without(lists: ProofLists, node: Node, met: list[Core], entries: list[Any]) -> Node:
    """Return a node without the hypotheses that entries exclude, each by a core, added to `met`, with choices made."""
    rows = set(node.rows.tolist())
    for entry in entries:
        number, hypothesis = integers(typed(entry, list)[:2], 2)
        (row,) = lists.rows([(number, hypothesis)])
        if row not in rows:
            raise CertificateError(f"hypothesis {hypothesis} of list {number} is not open")
        met += _checked(lists, node, [entry[2:]], {**node.chosen, number: row})
        rows.remove(row)
    return node.only(np.isin(node.rows, [*rows]))


def _charges(lists: ProofLists, node: Node, met: list[Core], costs: IntArray, record: Record) -> Charges | None:
    """Return what each core of a record adds to the bound, or `None` if nothing in the node can be attained (C5).

    A core consists of choices made and of the cheapest hypotheses of open lists. One of these lists has to leave its
    cheapest, and then pays at least the step to its next one. In all, no list pays more than its step. Adds new cores
    to `met`.
    """
    numbers = lists.numbers[node.rows[node.starts]].tolist()
    assumed = {**node.chosen, **dict(zip(numbers, node.rows[node.starts].tolist(), strict=True))}
    first = node.starts[node.sizes > 1]
    steps = (costs[first + 1] - costs[first]).tolist()
    residuals = dict(zip(lists.numbers[node.rows[first]].tolist(), steps, strict=True))
    known = typed(record.get("known", []), list)
    if not all(type(k) is int and 0 <= k < len(met) and met[k].items() <= assumed.items() for k in known):
        raise CertificateError(f"not all of {known!r:.60} are cores on the way to this node, and of choices made here")
    new = _checked(lists, node, typed(record.get("cores", []), list), assumed)
    cores = [met[k] for k in known] + new
    met += new
    charges = []
    for core in cores:
        payers = [number for number in core if number in residuals]
        if not payers:
            return None
        amount = min([residuals[number] for number in payers])
        for number in payers:
            residuals[number] -= amount
        charges.append((amount, core))
    return charges


def _checked(lists: ProofLists, node: Node, entries: list[Any], assumed: Mapping[int, int]) -> list[Core]:
    """Check cores, each an entry [list, other hypothesis, multiplier, list, ...], and return them (C1, B4).

    Each list of an entry must have a choice among those assumed, and no weights of the box make all of these choices:
    the differences other - chosen, times positive multipliers, add up to a vector whose product with no weights of the
    box is negative. Weights that made all the choices would have a negative product with each difference.
    """
    sizes = [len(typed(entry, list)) // 3 for entry in entries]
    flat = integers([value for entry in entries for value in entry], 3 * sum(sizes))
    numbers, multipliers = flat[::3], flat[2::3]
    chosen = [assumed.get(number, -1) for number in numbers]
    others = lists.rows(zip(numbers, flat[1::3], strict=True))
    if 0 in sizes or -1 in chosen or min(multipliers, default=1) < 1 or any(map(eq, chosen, others)):
        raise CertificateError("a core compares choices with other hypotheses of their lists, positive times each")
    ends = [0, *accumulate(sizes)]
    differences = np.array(multipliers, dtype=object)[:, None] * (lists.whole[others] - lists.whole[chosen])
    sums = np.add.reduceat(differences, ends[:-1]) if entries else ()
    if not all(node.box.is_nonnegative(balance) for balance in checked(sums, 10)):
        raise CertificateError("the multipliers of a core do not balance its differences")
    return [dict(zip(numbers[start:end], chosen[start:end], strict=True)) for start, end in pairwise(ends)]


def check_tree(reader: CertificateReader, lists: ProofLists) -> float:
    """Check a whole tree (T1); return by how much its least bound exceeds the target, as of `check_node`."""
    least = inf
    lists.weigh()

    def visit(node: Node) -> Iterator[Node]:
        nonlocal least
        record = reader.record()
        if node.take is None and "split" in record:
            return map(partial(narrowed, lists, node), node.box.parts(record))
        excess, children = check_node(lists, node, record)
        least = min(least, excess)
        return children

    depth_first(iter([root_node(lists)]), visit)
    return least


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
        header: Header = reader.header()
        asked: Any = metric  # on texts for lattices, on statistics for lists
        if not isinstance(nbest, NBest):
            if header.at_most or header.budget:
                raise CertificateError("it is about N-best lists, not about lattices")
            from lpmert.certificates.lattices import claimed_lists  # lists do without its imports

            nbest, asked = claimed_lists(nbest, asked, header)
        measure = metric_of(asked, nbest.statistic_names)
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
            raise CertificateError(
                f"the weights lose {loss}, less than the bound {header.bound}, or too near it to tell"
            )
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
    return RatioClaim(metric, nbest.statistics)
