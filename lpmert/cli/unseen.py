"""What commands that estimate losses on unseen lists have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lpmert.cli.arguments import WholeNumber
from lpmert.cli.console import say
from lpmert.quoting import quoted

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.cli.shared import Shared
    from lpmert.result import Result
    from lpmert.system.interrupts import Interrupts

Command = TypeVar("Command", bound=Callable[..., Any])


def _pattern(_context: click.Context, _option: click.Parameter, text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"not a regular expression: {error}.") from error


source_option = click.option(
    "--source",
    metavar="REGEX",
    callback=_pattern,
    help="Lists in whose ids this matches the same share a source and stay together in cross-validation.",
)


def sources_of(data: Data, pattern: re.Pattern[str] | None) -> list[str] | None:
    """Return what a pattern matches in the id of each list; raises `click.BadParameter` where it matches nothing."""
    if pattern is None:
        return None
    found = [pattern.search(name) for name in data.list_ids]
    without = [name for name, match in zip(data.list_ids, found, strict=True) if match is None]
    if without:
        raise click.BadParameter(f"does not match the list id {quoted(without[0])}.", param_hint="--source")
    return [match.group() for match in found if match is not None]


def asking(command: Command) -> Command:
    """Add the options of `Asked`."""
    folds = click.option(
        "--cv", type=WholeNumber(min=2), metavar="N", help="Estimate the loss on unseen lists, from N parts."
    )
    return folds(source_option(command))


@dataclass(frozen=True)
class Asked:
    """An estimate of the loss on unseen lists that a search is asked for beside its result; folds: `None` for none."""

    folds: int | None = None
    source: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        """Check that one option has the other that it needs."""
        if self.source is not None and self.folds is None:
            raise click.UsageError("--source needs --cv.")

    def estimate(
        self, data: Data, shared: Shared, stop: Interrupts, on_stage: Callable[[str, int, int], object] | None
    ) -> tuple[Mapping[str, float], Shared]:
        """Return what is to be expected, nothing if it was not asked for, and the options with the time left.

        Ctrl-C ends the estimate alone, as the search is still to come.
        """
        if self.folds is None:
            return {}, shared
        from lpmert.system.deadline import Deadline
        from lpmert.unseen.estimate import expected_of
        from lpmert.unseen.material import divisible

        arguments = shared.search_arguments()
        deadline = Deadline(shared.time_limit)
        found = expected_of(
            divisible(data),
            arguments["method"],
            folds=self.folds,
            groups=sources_of(data, self.source),
            on_stage=on_stage,
            **{name: arguments[name] for name in ("metric", "ties", "region", "seed", "time_limit", "jobs", "backend")},
        )
        if not found and not shared.quiet:
            why = "was interrupted, and the search goes on" if stop.forgiven() else "did not end in time"
            say(f"warning: cross-validation {why}: nothing is known of unseen lists")
        return found, replace(shared, time_limit=deadline.left)


def with_optimism(result: Result, found: Mapping[str, float]) -> Result:
    """Return a result with what is to be expected, and the share of that which its own loss leaves out."""
    share = {"optimism": 1.0 - result.loss / found["loss"]} if found and found["loss"] > 0.0 else {}
    return replace(result, unseen={**found, **share})


def unseen_text(result: Result) -> str:
    """Return what a result says about unseen lists in a line, nothing if it was not asked for that."""
    found = result.unseen
    if not found:
        return ""
    ends = f" ({found['low']:.5g} to {found['high']:.5g})" if "low" in found else ""
    share = f", {100 * found['optimism']:.1f} % of it hidden by optimism" if "optimism" in found else ""
    return f"the weights found: about {found['loss']:.7g}{ends}{share}; {found['folds']:.0f}-fold cross-validation"
