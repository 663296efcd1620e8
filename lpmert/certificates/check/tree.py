"""The walk through a certificate's tree, depth first: every record closes a part or divides it."""

from __future__ import annotations

from lpmert.certificates.check.cones import IntegerCone, Ray, midpoint, orthants, part, priced, whole_cone
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.selections import SelectionRules, too_low
from lpmert.certificates.format import CONES, SELECTIONS, CertificateReader, Record, integers
from lpmert.errors import CertificateError


class TreeCheck:
    """A check that in every part of a tree of this kind nothing undercuts a claim.

    least: for a claim of one sum, the least cost that all leaves show, `None` if nothing can be attained at all.
    Raises `CertificateError` where something is not shown.
    """

    def __init__(self, reader: CertificateReader, lists: ProofLists, kind: str) -> None:
        self.least: int | None = None
        self._reader = reader
        self._lists = lists
        if kind == CONES and lists.features.shape[1]:
            for rays in orthants(lists.features.shape[1]):
                self._cones(whole_cone(lists, rays))
        elif kind == SELECTIONS:
            self._selections(None)
        else:
            raise CertificateError(f"no tree of {kind!r:.40} is known for {lists.features.shape[1]} features")
        reader.end()

    def _cones(self, cone: IntegerCone) -> None:
        waiting: list[tuple[IntegerCone, int, Ray]] = []
        while True:
            record = self._reader.record()
            if record.get("leaf") == "costs" and set(record) <= {"leaf", "at"}:
                self._costs(cone, record)
            elif record == {"leaf": "selections"}:
                self._selections(cone)
            else:
                p, q = integers(record.get("split"), 2)
                if p == q or not {p, q} <= set(range(len(cone.rays))) or len(record) > 1:
                    raise CertificateError(f"no edge of this cone is split by {record!r:.40}")
                ray = midpoint(cone.rays[p], cone.rays[q])
                waiting += [(cone, q, ray), (cone, p, ray)]
            if not waiting:
                return
            cone = part(self._lists, *waiting.pop())

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

    def _selections(self, cone: IntegerCone | None) -> None:
        rules = SelectionRules(self._lists, cone, self._lists.target)
        nodes = [rules.root]
        while nodes:
            bound, children = rules.check(nodes.pop(), self._reader.record())
            nodes += reversed(children)
            self._close(bound)

    def _close(self, bound: int | None) -> None:
        self.least = min((own for own in (self.least, bound) if own is not None), default=None)
