"""Commands without a search: `lpmert evaluate`, `rerank`, `verify` and `convert`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import lpmert
from lpmert.cli import values
from lpmert.cli.options import argument, given_weights, memory_limit, option, time_limit
from lpmert.cli.progress import Stages
from lpmert.cli.reading import Reading, ReadingWithTies, sizes
from lpmert.cli.reports import evaluation_report, verdict_line, weights_table
from lpmert.cli.running import Output, Quiet, delivering, naming
from lpmert.cli.search import command, stated
from lpmert.cli.sensitivity import numbers_of
from lpmert.limits import Allowance, Deadline
from lpmert.quoting import SHOWN_DECIMALS, counted, listed, visible
from lpmert.registry import FORMATS

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.ranking import VerifiedRanking


@command("convert nbest.moses lists.tsv --references dev.en")
def convert(
    source: Reading,
    out: Quiet,
    target: str = argument("OUT"),
    to: str | None = option("NAME", "Format of OUT.  [default: chosen by its ending]", values.Registered(FORMATS)),
) -> None:
    """Convert the N-best lists in DATA to another format, exactly: reading OUT gives the same numbers.

    Lattices become lists of their N best hypotheses with different words (--n-best N --scales am=1,lm=12). The scores
    are those of the best of all paths with the same words. Sums and comparisons are exact.

    Several files are pooled by list. Files with one score each (--from scores) are given as NAME=FILE, one per feature.
    The help of an option names the formats it applies to; docs/formats.md describes all formats.
    """
    from lpmert.files import writing_later
    from lpmert.formats.detect import format_by_name, format_of_target, writer_of

    for name, option_name in (("metric", "--metric"), ("options", "--set")):
        if stated(name) and not source.references:
            raise click.UsageError(f"{option_name} applies to texts, with --references.")
    kind = to or format_of_target(target)
    writer_of(format_by_name(kind), kind)
    with writing_later(target):
        nbest = source.read()
    lpmert.write(nbest, target, kind)
    out.say(f"{target}: {sizes(nbest)}; features {listed(nbest.names)}; statistics {listed(nbest.statistic_names)}")


@dataclass(frozen=True)
class _Reranking(Reading):
    heading = "Data"

    weights: str = given_weights()
    vote: str | None = option(
        "COLUMN", "Sum the features of hypotheses with the same answer in this column, or in text."
    )

    def for_format(self) -> dict[str, Any]:
        """Return options for the reader; by default, features are those of the weights, and statistics need not be."""
        from lpmert.formats.weights import given_weights

        flags, takes = super().for_format(), self.in_format.reader_options
        if not any(flags.get(name) for name in ("references", "statistics_file", "last_field", "losses")):
            flags["references"] = False
        if "features" in takes and "features" not in flags:
            names = getattr(given_weights(self.weights, "--weights"), "names", None)
            if names:
                flags["features"] = ",".join(names)
        if self.vote is not None:
            if flags.get("text", self.vote) != self.vote:
                raise click.UsageError("--text and --vote name different columns; answers are the texts.")
            if "text" in takes:
                flags["text"] = self.vote
            elif self.vote != "text":
                raise click.UsageError(f"--vote must be text: {self.kind} has no columns, and texts are the answers.")
        return flags


@command("rerank test.tsv --segment utterance --weights weights.json")
def rerank(lists: _Reranking, out: Output) -> None:
    """Print the best hypothesis of each list in DATA as a line `ID<tab>TEXT`; DATA needs no losses.

    Without texts, it prints the number of the hypothesis in its list, counted from 0, as in the JSON.

    DATA is as for `lpmert solve`. In tables, the features are those that the weights name, unless --features is given.
    For lattices, it prints the best paths.

    --vote merges the hypotheses of a list that give the same answer, and sums their features. With a feature that is 1
    everywhere, this is weighted self-consistency. For formats without columns the answer is `text`.
    """
    with delivering(out) as deliver:
        data: Any = lists.read_whole()
        if lists.vote is not None and lists.whole:
            raise click.UsageError("--vote needs N-best lists, not whole lattices; ask for some with --n-best.")
        out.say(f"{lists.name}: {sizes(data)}")
        given = values.parse_weights(lists.weights, data.names, "--weights")
        if lists.whole:
            data = lpmert.n_best(data, given, n=1)
        found = lpmert.rerank(data, given, vote=lists.vote is not None)
        if found.tied:
            lists_are = counted(found.tied, "list is", "lists are")
            out.say(f"{lists_are} tied: the first of the best hypotheses is picked.")
        deliver(found.to_json, lambda: str(found))


@command("evaluate dev.tsv --segment utterance --features am,lm --loss errors --weights am=1,lm=9.5")
def evaluate(lists: ReadingWithTies, out: Output, weights: str = given_weights()) -> None:
    """Show what given weights cost on the lists or lattices in DATA, without a search.

    DATA is as for `lpmert solve`, WEIGHTS as for `lpmert check`. The JSON has the number of the hypothesis chosen from
    each list, counted from 0; for lattices, it has the best path.
    """
    from lpmert.api import evaluated, problem_of
    from lpmert.result import SCHEMA, plain

    with naming(lists.name), Allowance().enforced(), delivering(out) as deliver:
        data = lists.read_whole()
        out.say(f"{lists.name}: {sizes(data)}")
        given = values.parse_weights(weights, data.names, "--weights").of_features(data.names).tolist()
        problem = problem_of(data, lists.summed_metric(data), lists.ties, None)
        found = evaluated(problem, given)
        unit = lists.unit(data)
        found = replace(found, rates={**found.rates, **lists.rates(unit, found.loss)})
        document = {
            "schema": SCHEMA,
            "weights": dict(zip(data.names, given, strict=True)),
            **plain(found),
            "list_ids": data.list_ids,
            "signature": f"lpmert:{lpmert.__version__}|{problem.signature}",
            "fingerprint": data.fingerprint,
        }
        deliver(
            partial(json.dumps, document, allow_nan=False, indent=2),
            partial(evaluation_report, found, data.names, given, unit),
        )


@command("verify proof.json.gz dev.tsv --segment utterance --features am,lm --loss errors", heading="Limits")
def verify(
    *,
    certificate: str = argument("CERTIFICATE"),
    lists: ReadingWithTies,
    time_limit: float | None = time_limit(),
    memory_limit: int | None = memory_limit(),
    out: Output,
) -> None:
    """Check that CERTIFICATE, written by `lpmert solve --certificate`, proves its claim about DATA.

    DATA are lists or lattices; pass the same options as to `lpmert solve`. This runs no search and trusts no solver:
    every step is decided in exact arithmetic. If the certificate does not hold, the exit code is 5 and the message says
    where it fails. If a limit ends the check first, the exit code is 3 and nothing is known about the claim.
    """
    clock = Deadline(time_limit)
    with naming(lists.name), delivering(out) as deliver:
        with Allowance(memory_limit).enforced():
            data = lists.read_whole()
            of_data = {"metric": lists.summed_metric(data), "second": _second_sum(certificate, data, lists)}
        found = lpmert.verify(
            certificate,
            data,
            **of_data,
            ties=lists.ties,
            time_limit=clock.left,
            memory_limit=memory_limit,
            on_line=partial(Stages(out), "lines checked", parts=None),
        )
        deliver(partial(verified_json, found), partial(_verified_report, found))


def _second_sum(certificate: str, data: Data, lists: ReadingWithTies) -> Any:
    """Return the numbers of the second sum that a certificate names, `None` if they are a feature or statistic."""
    from lpmert.certificates.format import CertificateReader

    with suppress(lpmert.CertificateError):  # `lpmert.verify` raises it again and says where
        for column in CertificateReader(certificate).header().budget:
            numbers = numbers_of(data, column, lists)
            return None if isinstance(numbers, str) else numbers
    return None


def verified_json(found: lpmert.Verified | VerifiedRanking) -> str:
    """Return what a certificate proves as JSON; exact numbers are rounded to the nearest doubles."""
    return json.dumps({**asdict(found), "proved": found.proved}, default=float, indent=2)


def _verified_report(found: lpmert.Verified) -> str:
    parts = [weights_table(found.weights, {"weight": [*found.weights.values()]}, SHOWN_DECIMALS), ""]
    rows: list[Sequence[Any]] = [*found.limits, *found.equations]
    for k, row in enumerate(rows):
        most = Fraction(max(map(abs, row)))
        shares = [(name, Fraction(x) / most) for name, x in zip(found.weights, row, strict=True) if x]
        terms = " ".join(f"{_signed(share)} {visible(name)}" for name, share in shares)
        sign = "=" if k >= len(found.limits) else ">=" if found.at_most else ">"
        parts.append(f"where {terms} {sign} 0")
    return "\n".join([*parts, verdict_line(str(found), found.proved)])


def _signed(share: Fraction) -> str:
    """Return a number with its sign, in full: as a decimal if it is a double, otherwise as a fraction."""
    text = repr(float(share)).removesuffix(".0") if float(share) == share else str(share)
    return text if share < 0 else f"+{text}"
