"""Check the certificate of a ranking: that weights reach a value, and that no weights reach more.

Leads at rays are decided in integers wherever floating point leaves doubt; values of rankings are rounded outward, from
rationals that enclose logarithms. Lemmas O1, O2, O4 to O6 of proofs/ranking.md. No code of the search is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import ceil, floor, gcd, isqrt, prod
from operator import sub
from pathlib import Path

import numpy as np

from lpmert.certificates.format import CertificateReader, RankingHeader, Record, agreeing, depth_first, integers
from lpmert.errors import CertificateError, DataError, FloatArray, IntArray, MetricError
from lpmert.limits import checkpoint
from lpmert.model.judgments import Judged, RankingMetric
from lpmert.numeric.rational import dot, in_decimals, to_integers
from lpmert.quoting import counted

_ONE = 1 << 80  # the unit: factors of terms are rounded up or down to multiples of 1 / _ONE
_MOST_BITS = 1 << 15  # bits of the largest entry of a ray
_PROVED = Fraction(1, 10**11)  # the most by which the bound may exceed the score of weights that are called best
_IN_DOUBT = 2  # in place of a sign that floating point does not decide
Ray = tuple[int, ...]  # a ray, or a row of features, in integers [D]


@dataclass(frozen=True)
class VerifiedRanking(RankingHeader):
    """What a certificate about rankings proves: the weights reach `score`, and no weights reach more than `bound`.

    Both are exact. Equal scores count in the worst order. `queries` counts those with a relevant document, `records`
    the records of the tree.
    """

    queries: int
    records: int

    @property
    def proved(self) -> bool:
        """Whether no weights reach more than 1e-11 above the score."""
        return self.bound - self.score <= _PROVED

    def __str__(self) -> str:
        """Return one sentence."""
        over = "weights that are not negative" if self.nonnegative else "all weights"
        more = f"is at most {float(self.bound - self.score):.4g} below the largest"
        least = "is the largest, to within 1e-11," if self.proved else more
        return (
            f"certificate holds: {self.ranking} {float(self.score):.10g} {least} of {over} "
            f"({counted(self.queries, 'query', 'queries')}, ties: worst order; {counted(self.records, 'record')})"
        )


def verify(
    certificate: str | Path,
    lists: Judged,
    metric: str | None = None,
    *,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    on_line: Callable[[int], object] = lambda _: None,
) -> VerifiedRanking:
    """Check that a certificate proves its claim for these documents.

    Parameters
    ----------
    certificate : str or Path
        The file that `certify` wrote, plain or compressed.
    lists : Judged
        The documents it is about.
    metric : str, optional
        The metric it must be about, such as "ndcg@10".
    time_limit, memory_limit, on_line
        As for `lpmert.verify`.

    Returns
    -------
    VerifiedRanking
        What was proved.

    Raises
    ------
    CertificateError, LimitError, DataError, MethodError
        As by `lpmert.verify`.

    Notes
    -----
    No search is run: all comparisons are decided in exact arithmetic on the numbers as they are printed.
    """
    reader = CertificateReader(certificate, on_line)
    with reader.checking(time_limit, memory_limit):
        header = reader.header(RankingHeader)
        agreeing(
            ("metric", header.ranking, metric or header.ranking),
            ("features", list(header.weights), list(lists.names)),
            ("features of the tree", list(header.exponents), list(lists.names)),
            ("fingerprint of the documents", header.fingerprint, lists.fingerprint),
        )
        if header.nonnegative and min(header.weights.values()) < 0:
            raise CertificateError("a weight is negative, but the claim is about weights that are not")
        try:
            measure = Measure(lists, RankingMetric.of(header.ranking))
        except (MetricError, DataError) as error:
            raise CertificateError(str(error)) from error
        reached = measure.reached(header.weights)
        if reached < header.score:
            raise CertificateError(f"the weights reach {float(reached):.10g}, not {float(header.score):.10g}")
        cones, most = Cones(lists, measure, list(header.exponents.values())), 0

        def visit(cone: Cone) -> Iterator[Cone]:
            nonlocal most
            record = reader.record()
            if not record and not cone.empty:
                most = max(most, cone.total)
            return iter(cones.parts(cone, record) if record else ())

        depth_first(map(cones.whole_cone, roots(cones.dimensions, header.nonnegative)), visit)
        reader.end()
        largest = Fraction(most, measure.parts.n_queries * _ONE**2)
        if largest > header.bound:
            raise CertificateError(
                f"by the tree, weights may reach {float(largest):.10g}, not {float(header.bound):.10g}"
            )
        claims = {**vars(header), "score": reached}
        return VerifiedRanking(**claims, queries=measure.parts.n_queries, records=reader.line - 2)


class Measure:
    """A metric on documents: bounds in integers on what rankings are worth, and on what weights reach.

    places: the discounts of the positions in units, rounded down and rounded up.
    """

    def __init__(self, lists: Judged, metric: RankingMetric) -> None:
        self.lists, self.k, self.parts = lists, metric.k, metric.parts(lists)
        low, high = zip(*self.parts.exact_discounts, strict=True)
        self.places = [floor(x * _ONE) for x in low], [ceil(x * _ONE) for x in high]

    def reached(self, weights: dict[str, float]) -> Fraction:
        """Return a value that weights reach at least, with ties in the worst order."""
        (factors,), features, total = to_integers([[*weights.values()]]), in_decimals(self.lists.features), 0
        for query in self.parts.factors:
            begin, end = self.lists.offsets[query : query + 2].tolist()
            behind = [-dot(factors, row) for row in to_integers(features[begin:end])]
            ranked = sorted(zip(behind, self.parts.levels[begin:end].tolist(), strict=True))[: self.k]
            total += self.worth(query, [(place, level) for place, (_, level) in enumerate(ranked) if level], 0)
            checkpoint()
        return Fraction(total, self.parts.n_queries * _ONE**2)

    def worth(self, query: int, found: list[tuple[int, int]], side: int) -> int:
        """Return what a query is worth, in units of 1 / _ONE**2, rounded down (side 0) or up (side 1).

        found: the positions of its relevant documents and their levels of relevance, in order.
        """
        rounded, factor, total = (floor, ceil)[side], self.parts.factors[query][side], 0
        for (place, level), merit in zip(found, map(int, self.parts.merits), strict=False):
            total += rounded(self.parts.exact_gains[level][side] * factor * _ONE) * self.places[side][place] * merit
        return min(total, _ONE**2)  # no ranking is worth more than the best one


def scale_of(features: FloatArray) -> int:
    """Return a power of two that makes all features integers."""
    used = features[features != 0]
    return 1 << max(0, 53 - int(np.frexp(used)[1].min())) if used.size else 1


def _whole(row: FloatArray, scale: int) -> Ray:
    """Return a row of features times `scale`, a power of two that makes them integers."""
    return tuple(part * (scale // whole) for part, whole in (x.as_integer_ratio() for x in row.tolist()))


def difference(features: FloatArray, document: int, rival: int, scale: int) -> Ray:
    """Return the features of a rival minus those of a document, times `scale`, in integers."""
    return tuple(map(sub, _whole(features[rival], scale), _whole(features[document], scale)))


def least_lead(features: FloatArray) -> Fraction:
    """Return l of O6: every cell has weights, with absolute values that sum to 1, at which all leads are at least l.

    features [M, D]: at most 2 in size. 0 unless all are multiples of 2^-52.
    """
    whole = features * 2.0**52
    if (whole != np.rint(whole)).any():
        return Fraction(0)
    columns = whole.astype(np.int64)
    columns -= columns.min(axis=0)
    units = [max(unit, 1) for unit in np.gcd.reduce(columns, axis=0).tolist()]
    spans = [max(most // unit, 1) for most, unit in zip(columns.max(axis=0).tolist(), units, strict=True)]
    d = len(units)
    power = max(d - 1, 1) ** (d - 1)
    root = isqrt(power) + (isqrt(power) ** 2 < power)
    inverse: Fraction = (
        d * root * prod(spans) * sum(Fraction(1 << 52, c * u) for c, u in zip(spans, units, strict=True))
    )
    return 1 / inverse


def roots(dimensions: int, nonnegative: bool) -> list[tuple[int, ...]]:
    """Return the signs of the orthants that a tree begins with."""
    return [signs for signs in product((1, -1), repeat=dimensions) if not nonnegative or min(signs) > 0]


@dataclass(frozen=True)
class Cone:
    """A cone, and what is decided in it.

    rays [D]. ahead [R]: how many documents of other levels lead each relevant one in the whole cone. An open pair is a
    relevant document and a rival of another level that leads it at some rays and is behind at others: ranked [P],
    numbers among the relevant documents; rivals [P], rows of features; signs [P, D] of the rival's lead at each ray.
    bounds: upper bounds by query, in units; total: their sum. empty: whether no cell has weights in the cone (O6 b).
    """

    rays: tuple[Ray, ...]
    ranked: IntArray
    rivals: IntArray
    signs: IntArray
    ahead: IntArray
    bounds: dict[int, int]
    total: int
    empty: bool = False


class Cones:
    """Cones of weights for features divided by powers of two, and their bounds.

    features [M, D]: divided, at most 2 in size; least: the least lead of O6. rows [R]: the relevant documents, those of
    a query in order of falling relevance; queries [R]: their queries; of_query: their slice by query.
    """

    def __init__(self, lists: Judged, measure: Measure, exponents: list[int]) -> None:
        if max(map(abs, exponents)) > 2000:
            raise CertificateError("exponents must be those of doubles")
        self.lists, self.measure = lists, measure
        with np.errstate(over="ignore", under="ignore"):
            self.features = np.ldexp(in_decimals(lists.features), -np.array(exponents))
        back = np.ldexp(self.features, np.array(exponents))
        if not (np.abs(self.features) <= 2).all() or (back != in_decimals(lists.features)).any():
            raise CertificateError("the exponents bring features beyond 2, or to where doubles do not hold them")
        self.dimensions = self.features.shape[1]
        self.scale, self.least = scale_of(self.features), least_lead(self.features)
        self.known: dict[tuple[int, bytes], int] = {}
        rows: list[int] = []
        self.of_query: dict[int, slice] = {}
        self.levels = measure.parts.levels
        for query in measure.parts.factors:
            begin, end = lists.offsets[query : query + 2].tolist()
            relevant = begin + np.flatnonzero(self.levels[begin:end])
            self.of_query[query] = slice(len(rows), len(rows) + len(relevant))
            rows += relevant[np.argsort(-self.levels[relevant], kind="stable")].tolist()
        self.rows = np.array(rows, dtype=np.int64)
        self.queries = np.repeat(list(self.of_query), [span.stop - span.start for span in self.of_query.values()])

    def whole_cone(self, signs: tuple[int, ...]) -> Cone:
        """Return the orthant with these signs."""
        rays = tuple(tuple(sign * (i == j) for j in range(self.dimensions)) for i, sign in enumerate(signs))
        ahead = np.zeros(len(self.rows), dtype=np.int64)
        none = np.zeros(0, dtype=np.int64)
        pairs: list[tuple[IntArray, IntArray, IntArray]] = [(none, none, none.reshape(0, self.dimensions))]
        for query, span in self.of_query.items():
            begin, end = self.lists.offsets[query : query + 2].tolist()
            for ranked in range(span.start, span.stop):
                row = int(self.rows[ranked])
                rivals = begin + np.flatnonzero(self.levels[begin:end] != self.levels[row])
                others, values = self.features[rivals], self.features[row]
                leads = ((others > values).astype(np.int8) - (others < values)) * np.array(signs, dtype=np.int8)
                leading, trailing = (leads >= 0).all(axis=1), (leads <= 0).all(axis=1)
                ahead[ranked] = np.count_nonzero(leading & (~trailing | (self.levels[rivals] < self.levels[row])))
                if ahead[ranked] >= self.measure.k:  # (O5)
                    continue
                rest = ~leading & ~trailing
                pairs.append((np.full(np.count_nonzero(rest), ranked), rivals[rest], leads[rest]))
            checkpoint()
        open_ranked, open_rivals, open_signs = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
        return self._bounded(Cone(rays, open_ranked, open_rivals, open_signs, ahead, {}, 0), list(self.of_query))

    def parts(self, cone: Cone, record: Record) -> list[Cone]:
        """Return the two cones into which a record divides one; they cover it (O4)."""
        (kind, entry), *more = record.items()
        if more or kind not in ("split", "tie"):
            raise CertificateError(f"no cone is divided by {record!r:.40}")
        p, q, share, rest = integers(entry, 4)
        if p == q or not {p, q} <= set(range(self.dimensions)):
            raise CertificateError(f"no edge of this cone is split by {record!r:.40}")
        first, second = cone.rays[p], cone.rays[q]
        if kind == "split":
            share, rest = share * _length(second), rest * _length(first)
        elif {share, rest} <= set(range(len(self.features))):  # for a tie, these are a document and a rival
            share, rest = -self._lead(share, rest, second), self._lead(share, rest, first)
        else:
            raise CertificateError("there is no such document")
        if share <= 0 or rest <= 0:
            raise CertificateError("a new ray must be between two of the cone")
        mixed = [share * x + rest * y for x, y in zip(first, second, strict=True)]
        shared = gcd(*mixed)
        ray = tuple(x // shared for x in mixed)
        if max(map(abs, ray)) >> _MOST_BITS:
            raise CertificateError("a ray has too many digits")
        fresh = self._signs(cone, ray)
        return [self._part(cone, replaced, ray, fresh) for replaced in (q, p)]

    def _part(self, cone: Cone, replaced: int, ray: Ray, fresh: IntArray) -> Cone:
        """Return a cone with another ray in the place of one; fresh [P]: the signs of the open pairs there."""
        signs = cone.signs.copy()
        signs[:, replaced] = fresh
        leading, trailing = (signs >= 0).all(axis=1), (signs <= 0).all(axis=1)
        led, rest = cone.ranked[leading], ~leading & ~trailing
        ahead = cone.ahead.copy()
        np.add.at(ahead, led, 1)
        rest &= ahead[cone.ranked] < self.measure.k  # (O5)
        rays = (*cone.rays[:replaced], ray, *cone.rays[replaced + 1 :])
        part = replace(
            cone,
            rays=rays,
            ranked=cone.ranked[rest],
            rivals=cone.rivals[rest],
            signs=signs[rest],
            ahead=ahead,
            empty=cone.empty or bool((leading & trailing).any()),
        )
        return self._bounded(part, np.unique(self.queries[led]).tolist())

    def _bounded(self, cone: Cone, changed: list[int]) -> Cone:
        """Return a cone with new bounds of the queries in which `ahead` has changed (O1, O2)."""
        bounds, total = dict(cone.bounds), cone.total
        for query in changed:
            ahead = cone.ahead[self.of_query[query]]
            key = query, ahead.tobytes()
            if key not in self.known:
                self.known[key] = self._filled(query, ahead.tolist())
            total += self.known[key] - bounds.get(query, 0)
            bounds[query] = self.known[key]
        return replace(cone, bounds=bounds, total=total)

    def _filled(self, query: int, ahead: list[int]) -> int:
        """Return the most that a query is worth where at least `ahead` others lead each relevant document (O1)."""
        levels = self.levels[self.rows[self.of_query[query]]].tolist()
        releases: dict[int, list[int]] = {level: [] for level in levels}  # the largest gain first
        for level, least in zip(levels, ahead, strict=True):
            releases[level].append(least)
        for of_level in releases.values():
            of_level[:] = [least + j for j, least in enumerate(sorted(of_level))][::-1]
        found = []
        for place in range(self.measure.k):
            level = next((level for level, own in releases.items() if own and own[-1] <= place), None)
            if level is not None:
                releases[level].pop()
                found.append((place, level))
        return self.measure.worth(query, found, 1)

    def _lead(self, document: int, rival: int, ray: Ray) -> int:
        return int(dot(ray, difference(self.features, document, rival, self.scale)))

    def _signs(self, cone: Cone, ray: Ray) -> IntArray:
        """Return the signs [P] of the rivals' leads at a ray, 0 for leads below `least` (O6).

        Leads that floating point leaves in doubt are computed in integers.
        """
        rounded = np.array([x / _length(ray) for x in ray])
        found: IntArray = np.empty(len(cone.ranked), dtype=np.int8)
        for begin in range(0, len(found), 1 << 16):
            block = slice(begin, begin + (1 << 16))
            differences = self.features[cone.rivals[block]] - self.features[self.rows[cone.ranked[block]]]
            leads = differences @ rounded
            doubt = (self.dimensions + 8) * 2.0**-50 * (np.abs(differences) @ np.abs(rounded)) + 1e-300
            found[block] = np.where(np.abs(leads) > doubt + 1.01 * float(self.least), np.sign(leads), _IN_DOUBT)
        for i in np.flatnonzero(found == _IN_DOUBT).tolist():
            lead = self._lead(int(self.rows[cone.ranked[i]]), int(cone.rivals[i]), ray)
            found[i] = 0 if abs(lead) < self.least * self.scale * _length(ray) else (lead > 0) - (lead < 0)
        return found


def _length(ray: Ray) -> int:
    return sum(map(abs, ray))
