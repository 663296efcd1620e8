"""Weights for a decoder: JSON, numbers, lines with names, its own file brought up to date, settings of toolkits."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lpmert.cli.arguments import PATH
from lpmert.cli.arguments import roles as roles_of
from lpmert.cli.options import option
from lpmert.cli.running import Output, put

if TYPE_CHECKING:
    from lpmert.errors import FloatArray
    from lpmert.formats.weights import Keeps, Shorten, WeightsFile

JSON, NUMBERS, NAMES, UPDATE = "json", "numbers", "names", "update"
FORMS = (NAMES, NUMBERS, JSON, UPDATE, "kaldi", "icefall", "espnet", "pocketsphinx")
_OF_ENDING = {".ini": UPDATE, ".txt": NUMBERS, ".json": JSON}


@dataclass(frozen=True)
class WeightsOut:
    """A file for weights beside the outcome, or their form on stdout in place of the report."""

    heading = "Output"

    weights_out: str | None = option("FILE", "Write the weights, for a decoder.", PATH)
    write: str | None = option(
        "FORM", f"Form of the weights: {', '.join(FORMS)}; on stdout without --weights-out.  [default: update for "
        ".ini, numbers for .txt, json for .json, else names]", click.Choice(FORMS), rare=True,
    )  # fmt: skip
    roles: dict[str, str] | None = option(
        "ROLE=FEATURE,...", "Features' roles in the toolkit of --write, such as acoustic=am.", roles_of, rare=True
    )

    def __post_init__(self) -> None:
        """Check that there is a file to bring up to date."""
        if self.form != UPDATE:
            return
        if self.weights_out is None:
            raise click.UsageError("--write update needs --weights-out with the file to update.")
        if not Path(self.weights_out).exists():
            raise click.UsageError(
                f"{self.weights_out} does not exist, and `update` only changes files: "
                "copy the decoder's file there, or pass --write names."
            )

    @property
    def form(self) -> str:
        """What the options and the ending of the file say."""
        return self.write or _OF_ENDING.get(Path(self.weights_out or "").suffix, NAMES)

    @property
    def to_stdout(self) -> bool:
        """Whether the weights take the place of the report."""
        return self.write is not None and self.weights_out is None

    @property
    def updated(self) -> str | None:
        """The file to bring up to date, which is read and written."""
        return self.weights_out if self.form == UPDATE else None

    @cached_property
    def like(self) -> WeightsFile | None:
        """The file to bring up to date; raises `DataError` if it has no weights."""
        from lpmert.formats.weights import read_weights

        return read_weights(str(self.weights_out)) if self.updated else None

    def beside(self, out: Output) -> None:
        """Raise `click.UsageError` where the outcome and the weights would go to stdout both."""
        if self.to_stdout and out.as_json and out.output is None:
            raise click.UsageError("--json and --write need one of --output and --weights-out: both go to stdout.")

    def report(self, text: Callable[[], str], report: Callable[[], str]) -> Callable[[], str]:
        """Return what goes to stdout: the weights, if they take the place of the report."""
        return (lambda: text().removesuffix("\n")) if self.to_stdout else report

    def check(self, names: Sequence[str]) -> None:
        """Raise `DataError` where these features have no place in this form: before a long search, not after it."""
        from lpmert.formats.weights import TOOLKITS

        if self.form in TOOLKITS:
            TOOLKITS[self.form].roles(names, self.roles or {})
        elif self.roles:
            raise click.UsageError("--roles is for the settings of toolkits, such as --write kaldi.")
        if self.like is not None:
            self.like.of_features(names)

    def text(self, names: Sequence[str], weights: FloatArray, keeps: Keeps, shorten: Shorten | None = None) -> str:
        """Return what says weights [D]: with six decimals and as many more as `keeps` asks for, or in full as JSON."""
        from lpmert.formats.weights import TOOLKITS, WeightsFile, settings_text, weights_text

        if self.form == JSON:
            return json.dumps(dict(zip(names, weights.tolist(), strict=True)), indent=2) + "\n"
        if self.form in TOOLKITS:
            return settings_text(self.form, names, weights, keeps, self.roles or {})
        like = WeightsFile.of_lines(names) if self.form == NAMES else self.like
        scaled = self.form == UPDATE
        return weights_text(names, weights, keeps, like=like, scaled=scaled, shorten=shorten, path=self.weights_out)[0]

    def save(self, text: Callable[[], str], out: Output) -> None:
        """Write a text to the file for weights, if there is one, or to stdout if no report went there."""
        from lpmert.system.files import write_text

        if self.weights_out is not None:
            write_text(self.weights_out, text())
        elif self.to_stdout and out.output is not None:
            put(text().removesuffix("\n"))
