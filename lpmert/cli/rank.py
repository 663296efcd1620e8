"""`lpmert rank`: the weights of several retrievers' scores that rank judged documents best."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import lpmert
from lpmert.cli import options
from lpmert.cli.options import argument, command, option, weights_of
from lpmert.cli.reports import Picture, column, joined, labelled, side_by_side, verdict_line, verified_json
from lpmert.cli.running import ExitCode, Output, Stages, exit_code, naming, say
from lpmert.limits import Deadline, Interrupts
from lpmert.quoting import counted

if TYPE_CHECKING:
    from lpmert.fusion import Found, Fused

_DECIMALS = 6
ENGINE_NAMES = ("opensearch", "elasticsearch", "weaviate", "ranx")


@dataclass(frozen=True)
class _Documents:
    heading = "Data"

    data: tuple[str, ...] = argument("DATA...", nargs=-1)
    qrels: str | None = option("FILE", "Grades (TREC, BEIR or JSON); DATA are then runs.")
    query: str | None = option("COLUMN", "Column with the query.  [default: query]")
    relevance: str | None = option("COLUMN", "Column with the grade.  [default: relevance]")
    features: tuple[str, ...] | None = option("A,B,C", "Columns of scores, or indices of LETOR.")
    normalise: str | None = option(
        "HOW", "Scale scores: minmax, z, or rank: 1 / (60 + rank).", click.Choice(("minmax", "z", "rank"))
    )  # fmt: skip
    missing: str | None = option(
        "RULE", "Score of a document that a run lacks: minimum or zero.", click.Choice(("minimum", "zero"))
    )  # fmt: skip

    @property
    def name(self) -> str:
        return self.qrels or self.data[0]

    def read(self) -> Any:
        from lpmert.formats.judged import named_runs

        names = ("query", "relevance", "features", "normalise", "missing")
        settings: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.qrels is None:
            if len(self.data) > 1:
                raise click.UsageError("several DATA are runs, and need --qrels with the grades.")
            return lpmert.read_judged(self.data[0], **settings)
        named = [text for text in self.data if "=" in text and not os.path.exists(text)]
        plain = [text for text in self.data if text not in named]
        runs = named_runs(plain) | dict(map(options.file_by_name, named))
        if len(runs) < len(self.data):
            raise click.UsageError("two runs have the same name; name them apart with NAME=FILE.")
        return lpmert.read_judged(runs, qrels=self.qrels, **settings)


@command("rank bm25.run dense.run --qrels qrels.txt --normalise minmax --metric ndcg@10", heading="Search")
def rank(
    documents: _Documents,
    drawn: Picture,
    out: Output,
    metric: str = option("NAME@K", "ndcg, ndcg-exp, mrr, map, recall, precision or success.", default="ndcg@10"),
    signed: bool = option("", "Allow weights below 0.", default=False),
    time_limit: float | None = options.time_limit("60"),
    weights: str | None = option("WEIGHTS", "Compare with these weights; same syntax as `lpmert check --weights`."),
    cv: int | None = option("N", "Estimate the value on unseen queries by N-fold cross-validation.", options.PARTS),
    seed: int = options.seed(),
    write: str | None = option(
        "ENGINE", f"Print settings with the weights instead of the report: {', '.join(ENGINE_NAMES)}.",
        click.Choice(ENGINE_NAMES), group="Output"
    ),
    certificate: str | None = option("FILE", "Write a proof that --verify checks.", group="Output"),
    verify: str | None = option("FILE", "Check a proof; pass the options of the search again.", group="Output"),
) -> ExitCode:  # fmt: skip
    """Find the weights of retrievers' scores that rank the documents in DATA best, and prove it.

    DATA are runs in TREC format or JSON; each is a feature, named after its file or by NAME=FILE, and --qrels has the
    grades. Or DATA is one file with everything: lines as for LETOR and svmlight, or a table with a row per document.
    docs/search.md says how missing and ungraded documents, ties and grades count.

    The report compares with each feature alone, equal weights, and the best of a grid of 11 values per weight.
    --time-limit applies to the search; the grid and --cv have limits of their own. Weights have as many digits as are
    needed to keep their score. --picture, for two features, shows the metric at all shares of the second one. The JSON
    has the weights by name; --weights reads it.

    --certificate writes a proof, of the bound if the search was stopped. --verify checks it in exact arithmetic,
    without a search. If it does not hold, the exit code is 5 and the message says where it fails.
    """
    if verify is not None and (certificate or write):
        raise click.UsageError("--verify searches nothing; leave out --certificate and --write.")
    if write is not None:
        _check_engine(write, documents, signed, out)
    from lpmert import ranking
    from lpmert.formats.weights import engine_text
    from lpmert.fusion import fuse

    with options.refusing("--metric"):
        judged_by = ranking.RankingMetric.of(metric.lower())
    with out.opened(drawn.picture, certificate) as deliver:
        with naming(documents.name):
            lists = documents.read()
        if drawn.picture is not None and len(lists.names) != 2:
            raise click.UsageError(f"--picture draws two features, and there are {len(lists.names)}.")
        other = None if weights is None else weights_of(weights).of_features(lists.names)
        sizes = f"{_sizes(len(lists.queries), len(lists.relevance))}, {counted(len(lists.names), 'feature')}"
        out.say(f"{documents.name}: {sizes}; seed {seed}")
        if len(lists.names) == 1 and not signed:
            say("warning: one feature leaves nothing to choose: its own order is the ranking; give several")
        if verify is not None:
            on_line = partial(Stages(out), "lines checked", parts=None)
            verified = ranking.verify(verify, lists, str(judged_by), time_limit=time_limit, on_line=on_line)
            table = side_by_side([["feature", *verified.weights], ["weight", *map(repr, verified.weights.values())]])
            verdict = verdict_line(str(verified), verified.proved)
            deliver(partial(verified_json, verified), lambda: joined(table, verdict))
            return ExitCode.FINISHED
        with Interrupts() as stop, naming(documents.name), Deadline(stop=lambda: stop.pressed).running():
            found = fuse(
                lists,
                judged_by,
                nonnegative=not signed,
                time_limit=60.0 if time_limit is None else time_limit,
                seed=seed,
                other=other,
                folds=cv,
                on_stage=Stages(out),
            )
        if stop.pressed and found.result.status is lpmert.Status.TIME_LIMIT:
            found = replace(found, result=replace(found.result, status=lpmert.Status.INTERRUPTED))
        if cv is not None and found.unseen is None:
            out.say("warning: cross-validation was interrupted: nothing is known of unseen queries")
        settings = partial(engine_text, write or "", found.result.names, found.result.weights, documents.normalise)
        deliver(found.to_json, settings if write else partial(_report, found))
        drawn.write(lambda pictures: pictures.fusion(found))
        if certificate is not None:
            ranking.certify(found.result, certificate)
    return exit_code(found.result.status, stop)


def _check_engine(name: str, documents: _Documents, signed: bool, out: Output) -> None:
    """Raise `click.UsageError` if a search engine cannot reproduce how the scores are normalised and summed."""
    from lpmert.formats.judged import rule_of
    from lpmert.formats.weights import ENGINES

    if documents.normalise not in ENGINES[name]:
        names = " or ".join(one for one in ENGINES[name] if one)
        raise click.UsageError(f"{name} normalises scores itself: search with --normalise {names}.")
    if (documents.missing or rule_of(documents.normalise)) != "zero":
        raise click.UsageError(f"{name} adds 0 for a document that is not in a run: give --missing zero.")
    if signed:
        raise click.UsageError(f"{name} takes no weights below 0: leave out --signed.")
    if out.as_json and out.output is None:
        raise click.UsageError("--json and --write both print to stdout; give one of them.")


def _sizes(queries: int, documents: int) -> str:
    return f"{counted(queries, 'query', 'queries')}, {counted(documents, 'document')}"


def _report(found: Fused) -> str:
    from lpmert.fusion import rounded_up

    result, unseen, best = found.result, found.unseen, found.result.score

    def beside(one: Found) -> str:
        return f"{one.score:.{_DECIMALS}f} ({one.score - best:+.{_DECIMALS}f})"

    expected = ""
    if unseen is not None:
        ends = f"difference {unseen.best - unseen.equal:+.4f} +- {unseen.reach:.4f}"
        expected = f"about {unseen.best:.4f}, equal weights {unseen.equal:.4f} ({ends}); "
        expected += f"{unseen.folds}-fold cross-validation"
    table = [
        ["feature", *result.names],
        ["weight", *(repr(weight).removesuffix(".0") for weight in result.weights.tolist())],
        column("alone", list(found.alone.values()), _DECIMALS),
    ]
    told = [
        (found.metric, f"{best:.{_DECIMALS}f}"),
        ("at most", "" if result.status.proved else rounded_up(result.bound)),
        *((name, beside(one)) for name, one in found.others.items()),
        ("on unseen", expected),
        ("counted", _sizes(found.queries, found.documents)),
        *(("", note) for note in found.notes),
    ]
    verdict = found.message if unseen is None else f"{found.message}; {unseen.message}"
    return joined(side_by_side(table), labelled(told), verdict_line(verdict, result.status.proved))
