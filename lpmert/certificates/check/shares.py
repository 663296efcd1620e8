"""A tree checked by several processes: all read it, and each closes its share of the leaves."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.tree import check_tree
from lpmert.certificates.format import CertificateReader
from lpmert.errors import CertificateError
from lpmert.workers import Processes

_SHARE = 400
"""Lines in a row that are one process's, after which it finds the cones above anew."""

Share = tuple[float, bool, int, str, str]
"""The least excess, whether the bound was met, the last line read, what is wrong there, and the digest of the lines."""


def check_shares(reader: CertificateReader, lists: ProofLists, jobs: int) -> float:
    """Check a tree as `check_tree` does, with the same outcome, by this process and so many less one others."""
    with Processes(jobs - 1) as others:
        ground = others.share((reader.path, pickle.dumps(lists)))
        asked = [others.submit(_checked, ground, number, jobs, _SHARE) for number in range(1, jobs)]
        shares = [_share(reader, lists, 0, jobs, _SHARE)]
        for number, other in enumerate(asked, 1):
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


def _checked(ground: tuple[str | Path, bytes], *which: int) -> Share:
    """Do as `_share`, in another process."""
    path, lists = ground
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
