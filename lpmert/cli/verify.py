"""`lpmert verify`: check a certificate against the lists it is about."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

import lpmert
from lpmert.cli.arguments import PATH, memory_limit, time_limit
from lpmert.cli.options import argument
from lpmert.cli.problem import command
from lpmert.cli.progress import Stages
from lpmert.cli.reading import Question
from lpmert.cli.running import Short, delivering, naming
from lpmert.cli.text import column, side_by_side
from lpmert.errors import DataError
from lpmert.system.files import lines
from lpmert.system.memory import Allowance


@dataclass(frozen=True)
class _Claim:
    """The certificate."""

    certificate: str = argument("CERTIFICATE", PATH)


@dataclass(frozen=True)
class _Limits:
    """How long the check may take."""

    heading = "Limits"

    time_limit: float | None = time_limit()
    memory_limit: int | None = memory_limit("process")


@command("verify proof.json.gz dev.tsv --segment utterance --features am,lm --loss errors")
def verify(claim: _Claim, lists: Question, limits: _Limits, out: Short) -> None:
    """Check that CERTIFICATE, written by `lpmert solve --certificate`, proves its claim about DATA.

    DATA are lists or lattices. This runs no search and trusts no solver: every step is decided in exact arithmetic.
    Pass the same options as to `lpmert solve`. If the certificate does not hold, the exit code is 5 and the message
    says where it fails. If a limit ends the check first, the exit code is 3 and nothing is known about the claim.
    """
    with naming(lists.name), delivering(out) as deliver:
        with Allowance(limits.memory_limit).enforced():
            data = lists.read_whole()
        found = lpmert.verify(
            claim.certificate,
            data,
            metric=lists.summed_metric(data),
            ties=lists.ties,
            time_limit=limits.time_limit,
            memory_limit=limits.memory_limit,
            on_line=(lambda _: None) if out.quiet else _line_counter(claim.certificate),
        )
        deliver(lambda: _json(found), lambda: _report(found))


def _json(found: lpmert.Verified) -> str:
    of_claim = {name: getattr(found.claim, name) for name in ("metric", "ties", "found_by")}
    equations = [{name: float(value) for name, value in row.items()} for row in found.equations]
    document = {
        **{"loss": float(found.loss), "lower_bound": float(found.bound), "proved": found.proved},
        **{"weights": found.weights, "limits": found.limits, "equations": equations},
        **{**of_claim, "records": found.records},
    }
    return json.dumps(document, indent=2)


def _report(found: lpmert.Verified) -> str:
    parts = [side_by_side([["feature", *found.weights], column("weight", list(found.weights.values()))]), ""]
    for rows, sign in ((found.limits, ">"), (found.equations, "=")):
        for row in rows:
            terms = " ".join(f"{float(value):+g} {name}" for name, value in row.items() if value)
            parts.append(f"where {terms} {sign} 0")
    return "\n".join([*parts, click.style(str(found), fg="green" if found.proved else "yellow", bold=True)])


def _line_counter(certificate: str) -> Callable[[int], object]:
    """Return what says from time to time which line is checked, of how many, if the file can be read twice."""
    stages, n_lines = Stages(), None
    if Path(certificate).is_file():
        with suppress(DataError):  # which is told where it is met again
            n_lines = sum(1 for _ in lines(certificate))
    return lambda line: None if n_lines is None else stages("lines checked", line, n_lines)
