"""The walk through a certificate's tree, depth first: every record closes a part or divides it."""

from __future__ import annotations

from collections.abc import Callable

from lpmert.certificates.check.cones import IntegerCone, Shape, cover, part, priced, whole_cone
from lpmert.certificates.check.conflicts import charged
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.selections import SelectionRules, too_low
from lpmert.certificates.format import BOXES, CONES, SELECTIONS, CertificateReader, Record
from lpmert.errors import CertificateError


class TreeCheck:
    """A check that in parts of a tree nothing undercuts a claim.

    least: for a claim of one sum, the least cost that all leaves show, `None` if nothing can be attained at all. own:
    whether the leaf on the line at hand is to be checked here. Raises `CertificateError` where something is not shown.
    """

    def __init__(self, reader: CertificateReader, lists: ProofLists, own: Callable[[], bool]) -> None:
        self.least: int | None = None
        self._reader = reader
        self._lists = lists
        self._own = own

    def cones(self, shape: Shape) -> None:
        """Check what is said of a part of the cover."""
        way: list[Shape] = []  # to the cone at hand, each a part of the one before
        above: list[IntegerCone] = []  # what may win in them, as far as that is known
        waiting = [(0, shape)]
        while waiting:
            depth, shape = waiting.pop()
            way[depth:], above[depth:] = [shape], []
            record = self._reader.record()
            if "leaf" not in record:
                waiting += [(depth + 1, own) for own in reversed(shape.parts(record))]
                continue
            if own := self._own():
                for shape in way[len(above) :]:
                    above.append(part(self._lists, above[-1], shape) if above else whole_cone(self._lists, shape))
            if record["leaf"] == "costs" and set(record) <= {"leaf", "at" if self._lists.several else "conflicts"}:
                if own:
                    self._costs(above[-1], record)
            elif record != {"leaf": "selections"}:
                raise CertificateError(f"no leaf is closed by {record!r:.40}")
            elif own:
                self.selections(above[-1])
            else:
                self._reader.record()
                while self._reader.follows("take"):
                    self._reader.record()

    def _costs(self, cone: IntegerCone, record: Record) -> None:
        lists = self._lists
        if "at" in record:
            bound, target = priced(lists, cone, record["at"])
        elif not lists.several:
            more = charged(lists, cone, record["conflicts"]) if "conflicts" in record else 0
            bound, target = cone.bound + more, lists.target
            self.least = lesser(self.least, bound)
        else:
            bound, target = int(lists.closed(cone.low.tolist(), cone.high.tolist())), 1
        if bound < target:
            raise CertificateError(too_low(bound, target))

    def selections(self, cone: IntegerCone | None) -> None:
        """Check a tree of selections, of all weights or of those inside a cone."""
        rules = SelectionRules(self._lists, cone, self._lists.target)
        nodes = [rules.root]
        while nodes:
            bound, children = rules.check(nodes.pop(), self._reader.record())
            nodes += reversed(children)
            self.least = lesser(self.least, bound)


def lesser(first: int | None, second: int | None) -> int | None:
    """Return the lesser of two bounds, either of which may be of nothing."""
    return min((own for own in (first, second) if own is not None), default=None)


def check_tree(
    reader: CertificateReader, lists: ProofLists, kind: str, own: Callable[[], bool] = lambda: True
) -> int | None:
    """Check a whole tree of this kind, or the leaves of it that are one's own, and return the least bound of these as
    `TreeCheck` has it.
    """
    check = TreeCheck(reader, lists, own)
    if kind in (BOXES, CONES) and lists.features.shape[1]:
        for shape in cover(lists.features.shape[1], kind):
            check.cones(shape)
    elif kind == SELECTIONS:
        check.selections(None)
    else:
        raise CertificateError(f"no tree of {kind!r:.40} is known for {lists.features.shape[1]} features")
    reader.end()
    return check.least
