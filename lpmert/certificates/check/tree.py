"""The walk through a certificate's tree, depth first: every record closes a part or divides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from lpmert.certificates.check.cones import IntegerCone, Ray, midpoint, orthants, part, priced, whole_cone
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.selections import SelectionRules, too_low
from lpmert.certificates.format import CONES, SELECTIONS, CertificateReader, Record, integers
from lpmert.errors import CertificateError


class Walk(NamedTuple):
    """Where a walk over cones stands: which cone comes next, and which parts are waiting.

    rays: of an orthant. way: the rays that took the place of others in it, up to the next cone. waiting: parts to come,
    the last one first: after how many steps of the way their whole was, and which ray takes which one's place in it.
    """

    rays: tuple[Ray, ...]
    way: tuple[tuple[int, Ray], ...] = ()
    waiting: tuple[tuple[int, int, Ray], ...] = ()

    def current(self) -> tuple[Ray, ...]:
        """Return the rays of the next cone."""
        rays = list(self.rays)
        for replaced, ray in self.way:
            rays[replaced] = ray
        return tuple(rays)

    def split(self, record: Record) -> Walk:
        """Return where the walk stands in the first part of a cone that a record splits."""
        rays = self.current()
        p, q = integers(record.get("split"), 2)
        if p == q or not {p, q} <= set(range(len(rays))) or len(record) > 1:
            raise CertificateError(f"no edge of this cone is split by {record!r:.40}")
        ray = midpoint(rays[p], rays[q])
        return self._replace(way=(*self.way, (p, ray)), waiting=(*self.waiting, (len(self.way), q, ray)))

    def closed(self) -> Walk | None:
        """Return where it stands when the next cone is closed, `None` at the end of the orthant."""
        if not self.waiting:
            return None
        *waiting, (depth, replaced, ray) = self.waiting
        return self._replace(way=(*self.way[:depth], (replaced, ray)), waiting=tuple(waiting))


class Records(Protocol):
    """Where records come from."""

    def record(self) -> Record: ...


class TreeCheck:
    """A check that in parts of a tree nothing undercuts a claim.

    least: for a claim of one sum, the least cost that all leaves show, `None` if nothing can be attained at all.
    Raises `CertificateError` where something is not shown.
    """

    def __init__(self, reader: Records, lists: ProofLists) -> None:
        self.least: int | None = None
        self._reader = reader
        self._lists = lists

    def cones(self, walk: Walk | None, more: Callable[[], bool] = lambda: True) -> None:
        """Check what follows where a walk stands, up to the end of its orthant or of the records."""
        if walk is None:
            return
        above = [whole_cone(self._lists, walk.rays)]
        for step in walk.way:
            above.append(part(self._lists, above[-1], *step))
        while walk is not None and more():
            record = self._reader.record()
            if record.get("leaf") == "costs" and set(record) <= {"leaf", "at"}:
                self._costs(above[-1], record)
                walk = walk.closed()
            elif record == {"leaf": "selections"}:
                self.selections(above[-1])
                walk = walk.closed()
            else:
                walk = walk.split(record)
            if walk is not None:
                above[len(walk.way) :] = []
                above.append(part(self._lists, above[-1], *walk.way[-1]))

    def _costs(self, cone: IntegerCone, record: Record) -> None:
        if not self._lists.several and "at" not in record:
            if cone.bound < self._lists.target:
                raise CertificateError(too_low(cone.bound, self._lists.target))
            self._close(cone.bound)
        elif "at" not in record:
            if not self._lists.closed(cone.low.tolist(), cone.high.tolist()):
                raise CertificateError("sums inside the box of this cone undercut the bound")
        else:
            bound, target = priced(self._lists, cone, record["at"])
            if bound < target:
                raise CertificateError(too_low(bound, target))

    def selections(self, cone: IntegerCone | None) -> None:
        """Check a tree of selections, of all weights or of those inside a cone."""
        rules = SelectionRules(self._lists, cone, self._lists.target)
        nodes = [rules.root]
        while nodes:
            bound, children = rules.check(nodes.pop(), self._reader.record())
            nodes += reversed(children)
            self._close(bound)

    def _close(self, bound: int | None) -> None:
        self.least = lesser(self.least, bound)


def lesser(first: int | None, second: int | None) -> int | None:
    """Return the lesser of two bounds, either of which may be of nothing."""
    return min((own for own in (first, second) if own is not None), default=None)


def check_tree(reader: CertificateReader, lists: ProofLists, kind: str) -> int | None:
    """Check a whole tree of this kind, and return the least bound of its leaves as `TreeCheck` has it."""
    check = TreeCheck(reader, lists)
    if kind == CONES and lists.features.shape[1]:
        for rays in orthants(lists.features.shape[1]):
            check.cones(Walk(rays))
    elif kind == SELECTIONS:
        check.selections(None)
    else:
        raise CertificateError(f"no tree of {kind!r:.40} is known for {lists.features.shape[1]} features")
    reader.end()
    return check.least
