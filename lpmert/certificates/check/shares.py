"""A tree of cones checked by several processes: each walks over a share of the records, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from joblib import Parallel, delayed

from lpmert.certificates.check.cones import orthants
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.tree import TreeCheck, Walk, lesser
from lpmert.certificates.format import CertificateReader, Record
from lpmert.errors import CertificateError

_SHARE = 400
"""Records that a process walks over at least, before which it finds the cones above anew."""

Line = tuple[int, Record]


class Share(NamedTuple):
    """Records, each with its line, and where the walk over them begins; error: what comes after them, with its line."""

    walk: Walk | None
    lines: list[Line]
    error: tuple[int, str] | None = None


class _Lines:
    """Records that are at hand; `line` is where the reading stands."""

    def __init__(self, lines: list[Line]) -> None:
        self.line = lines[0][0] if lines else 0
        self._left = lines[::-1]

    def more(self) -> bool:
        return bool(self._left)

    def record(self) -> Record:
        if not self._left:
            raise CertificateError("the tree ends while parts of it are open")
        self.line, record = self._left.pop()
        return record


def check_shares(reader: CertificateReader, lists: ProofLists, jobs: int) -> int | None:
    """Check a tree of cones as `check_tree` does, with the same outcome, by so many processes."""
    least = None
    with Parallel(n_jobs=jobs, return_as="generator", pre_dispatch="2 * n_jobs") as parallel:
        for bound, met, error in parallel(delayed(_checked)(share, lists) for share in _shares(reader, lists)):
            if error is not None:
                reader.line = error[0]
                raise CertificateError(error[1])
            least = lesser(least, bound)
            lists.claim.met = lists.claim.met or met
    return least


def _checked(share: Share, lists: ProofLists) -> tuple[int | None, bool, tuple[int, str] | None]:
    """Return the least bound of a share, whether the bound was met, and what is wrong with it."""
    lines = _Lines(share.lines)
    check = TreeCheck(lines, lists)
    try:
        check.cones(share.walk, lines.more)
        if lines.more():
            raise CertificateError("the tree is closed, but something follows")
    except CertificateError as error:
        return None, False, (lines.line, str(error))
    return check.least, lists.claim.met, share.error


def _shares(reader: CertificateReader, lists: ProofLists) -> Iterator[Share]:
    """Cut the records into shares, between two cones."""
    cones = _cones(reader)
    start: Walk | None = None
    lines: list[Line] = []
    try:
        for rays in orthants(lists.features.shape[1]):
            walk: Walk | None = Walk(rays)
            start, lines = walk, []
            while walk is not None:
                own = next(cones, None)
                if own is None:
                    raise CertificateError("the tree ends while parts of it are open")
                lines += own
                walk = walk.closed() if "leaf" in own[0][1] else walk.split(own[0][1])
                if len(lines) >= _SHARE:
                    yield Share(start, lines)
                    start, lines = walk, []
            yield Share(start, lines)
        start, lines = None, []
        if next(cones, None) is not None:
            raise CertificateError("the tree is closed, but something follows")
    except CertificateError as error:
        yield Share(start, lines, (reader.line, str(error)))


def _cones(reader: CertificateReader) -> Iterator[list[Line]]:
    """Yield the record of each cone, with those of the selections that follow it."""
    own: list[Line] = []
    records = reader.records()
    while True:
        try:
            record = next(records, None)
        except CertificateError:
            if own:
                yield own
            raise
        if record is not None and own and ("take" in record or (len(own) == 1 and own[0][1] == {"leaf": "selections"})):
            own.append((reader.line, record))
            continue
        if own:
            yield own
        if record is None:
            return
        own = [(reader.line, record)]
