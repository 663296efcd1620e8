"""A tree checked by several processes: all read it, and each closes its share of the leaves."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor
from math import inf
from pathlib import Path

from joblib import Parallel, delayed

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.tree import check_tree
from lpmert.certificates.format import CertificateReader
from lpmert.errors import CertificateError, MethodError

_SHARE = 400
"""Lines in a row that are one process's, after which it finds the cones above anew."""


def check_shares(reader: CertificateReader, lists: ProofLists, jobs: int) -> float:
    """Check a tree as `check_tree` does, with the same outcome, by so many processes.

    Raises `MethodError` if one of them is killed.
    """
    least = inf
    refused = []
    try:
        with Parallel(n_jobs=jobs) as parallel:
            shares = list(parallel(delayed(_checked)(reader.path, lists, number, jobs) for number in range(jobs)))
    except BrokenExecutor as broken:
        raise MethodError("a process that checks was killed, so that nothing is known; try with fewer jobs") from broken
    for bound, met, line, error in shares:
        reader.line = line
        refused += [(line, error)] if error else []
        least = min(least, bound)
        lists.claim.met = lists.claim.met or met
    if refused:
        reader.line, error = min(refused)
        raise CertificateError(error)
    return least


def _checked(path: str | Path, lists: ProofLists, number: int, jobs: int) -> tuple[float, bool, int, str]:
    """Return the least excess of a share, whether the bound was met, the last line read, and what is wrong there."""
    reader = CertificateReader(path)
    reader.header()
    try:
        least = check_tree(reader, lists, lambda: reader.line // _SHARE % jobs == number)
    except CertificateError as error:
        return inf, False, reader.line, str(error)
    return least, lists.claim.met, reader.line, ""
