"""The walk through a certificate's tree, depth first: every record closes a part or divides it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

from lpmert.certificates.check.closing import closed
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.parts import Part, narrowed, whole_part
from lpmert.certificates.check.shapes import Shape, cover
from lpmert.certificates.format import CertificateReader


def check_tree(reader: CertificateReader, lists: ProofLists, own: Callable[[], bool] = lambda: True) -> float:
    """Check a whole tree, or the leaves of it that are one's own, and return the least excess over the target.

    own: whether the leaf on the line at hand is to be checked here. It is infinite if nothing can be attained at all.
    Raises `CertificateError` where something is not shown.
    """
    least, root = inf, whole_part(lists)
    way: list[Shape] = []  # to the shape at hand, each a part of the one before
    above: list[Part] = []  # what may win in them, as far as that is known
    waiting: list[Iterator[Shape]] = [iter([root.shape])]  # those not looked at yet beside every shape on the way
    while waiting:
        shape = next(waiting[-1], None)
        if shape is None:
            waiting.pop()
            continue
        depth = len(waiting) - 1
        way[depth:], above[depth:] = [shape], []
        record = reader.record()
        if "split" in record or "corners" in record:
            waiting.append(iter(shape.parts(record) if depth else cover(lists.features.shape[1], record)))
            continue
        if not own() and "take" not in record:  # else refused below, by all: each must skip what others close
            while reader.follows("take"):
                reader.record()
            continue
        for shape in way[len(above) :]:
            above.append(narrowed(lists, above[-1], shape) if above else root)
        bound, parts = closed(lists, above[-1], record)
        least = min(least, bound)
        nodes = [parts]  # those not looked at yet beside every node on the way
        while nodes:
            part = next(nodes[-1], None)
            if part is None:
                nodes.pop()
                continue
            bound, parts = closed(lists, part, reader.record())
            least = min(least, bound)
            nodes.append(parts)
    reader.end()
    return least
