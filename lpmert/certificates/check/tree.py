"""The walk through a certificate's tree, depth first: every record closes a part or divides it."""

from __future__ import annotations

from collections.abc import Callable

from lpmert.certificates.check.closing import closed
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.parts import Part, narrowed, whole_part
from lpmert.certificates.check.shapes import Shape, cover
from lpmert.certificates.format import CertificateReader, Record
from lpmert.errors import CertificateError


def check_tree(
    reader: CertificateReader, lists: ProofLists, kind: str, own: Callable[[], bool] = lambda: True
) -> int | None:
    """Check a whole tree of this kind, or the leaves of it that are one's own, and return the least bound they show.

    own: whether the leaf on the line at hand is to be checked here. The bound is a cost, for a claim of one sum, and
    `None` if nothing can be attained at all. Raises `CertificateError` where something is not shown.
    """
    least = None
    way: list[Shape] = []  # to the shape at hand, each a part of the one before
    above: list[Part] = []  # what may win in them, as far as that is known
    waiting = [(0, shape) for shape in reversed(cover(lists.features.shape[1], kind))]
    while waiting:
        depth, shape = waiting.pop()
        way[depth:], above[depth:] = [shape], []
        record: Record = reader.record() if shape.rays else {"leaf": "selections"}
        if "leaf" not in record:
            waiting += [(depth + 1, inner) for inner in reversed(shape.parts(record))]
            continue
        if record == {"leaf": "selections"}:
            record = reader.record()
        elif record.pop("leaf") != "costs":
            raise CertificateError(f"no leaf is closed by {record!r:.40}")
        if not own():
            while reader.follows("take"):
                reader.record()
            continue
        for shape in way[len(above) :]:
            above.append(narrowed(lists, above[-1], shape) if above else whole_part(lists, shape))
        bound, open_parts = closed(lists, above[-1], record)
        least = lesser(least, bound)
        while open_parts:
            bound, inner_parts = closed(lists, open_parts.pop(0), reader.record())
            least = lesser(least, bound)
            open_parts = inner_parts + open_parts
    reader.end()
    return least


def lesser(first: int | None, second: int | None) -> int | None:
    """Return the lesser of two bounds, either of which may be of nothing."""
    return min((own for own in (first, second) if own is not None), default=None)
