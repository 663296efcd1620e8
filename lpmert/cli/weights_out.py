"""Where commands write weights, and in which form: JSON, the files of decoders, the settings of toolkits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lpmert.cli.options import option

if TYPE_CHECKING:
    from lpmert.errors import FloatArray
    from lpmert.formats.weights import Keeps, WeightsFile
    from lpmert.model.lattice_problem import LatticeProblem
    from lpmert.model.problem import Problem
    from lpmert.result import Result

JSON, NUMBERS, NAMES, UPDATE = "json", "numbers", "names", "update"
FORMS = (JSON, NUMBERS, NAMES, UPDATE, "kaldi", "icefall", "espnet", "pocketsphinx")
_OF_ENDING = {".ini": UPDATE, ".config": UPDATE, ".txt": NUMBERS}


@dataclass(frozen=True)
class Target:
    """The form of the weights that `solve` writes.

    like: the file to bring up to date. roles: features by role.
    """

    form: str
    like: WeightsFile | None = None
    roles: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(write: str | None, output: str | None, roles: Mapping[str, str]) -> Target:
        """Return what options and the ending of the file say; raises `DataError` if a file to update has no weights."""
        form = write or _OF_ENDING.get("" if output is None else Path(output).suffix, JSON)
        if form == UPDATE and output is None:
            raise click.UsageError("--write update needs -o with the file to bring up to date.")
        if form != UPDATE:
            return Target(form, None, roles)
        if not Path(str(output)).exists():
            raise click.UsageError(
                f"{output} is brought up to date, not made: copy the decoder's file there, or pass --write names."
            )
        from lpmert.formats.weights import read_weights

        return Target(form, read_weights(str(output)), roles)

    def check(self, names: Sequence[str]) -> None:
        """Raise `DataError` where these features have no place in this form: before a long search, not after it."""
        if self.form == JSON and not self.roles:
            return
        from lpmert.formats.weights import TOOLKITS

        if self.form in TOOLKITS:
            TOOLKITS[self.form].roles(names, self.roles)
        elif self.roles:
            raise click.UsageError("--roles is for the settings of toolkits, such as --write kaldi.")
        if self.like is not None:
            self.like.of_features(names)

    def text(self, problem: Problem | LatticeProblem, result: Result, weights: FloatArray) -> str:
        """Return the content of the file for weights [D] of a result, in their scale unless a file says another."""
        from lpmert.formats.weights import TOOLKITS, WeightsFile, keeps_loss, settings_text, weights_text
        from lpmert.model.problem import Problem
        from lpmert.search.decimals import few_decimals

        if self.form == JSON:
            return result.to_json() + "\n"
        names, keeps = result.names, keeps_loss(problem, result.weights)
        if self.form in TOOLKITS:
            return settings_text(self.form, names, weights, keeps, self.roles)
        like = self.like
        if self.form == NAMES:
            like = WeightsFile.of_lines(names)
        shorten = partial(few_decimals, problem) if isinstance(problem, Problem) else None
        return weights_text(names, weights, keeps, like=like, scaled=self.form == UPDATE, shorten=shorten)[0]


@dataclass(frozen=True)
class WeightsOut:
    """A file for weights beside the outcome."""

    heading = "Output"

    weights_out: str | None = option("Write the recommended weights.", type=click.Path(), metavar="FILE")
    weights_like: str | None = option(
        "Write them as in this file: its form, order and scale.", type=click.Path(), metavar="FILE"
    )


@dataclass(frozen=True)
class BesideOutcome:
    """A file for weights beside the outcome of a command, `None` for none; they take the form of `like`."""

    path: str | None
    like: WeightsFile | None

    @staticmethod
    def of(given: WeightsOut) -> BesideOutcome:
        """Return what these options say; raises `DataError` if the file whose form is wanted has no weights."""
        if given.weights_like is None:
            return BesideOutcome(given.weights_out, None)
        if given.weights_out is None:
            raise click.UsageError("--weights-like needs --weights-out.")
        from lpmert.formats.weights import read_weights

        return BesideOutcome(given.weights_out, read_weights(given.weights_like))

    def write(
        self,
        names: Sequence[str],
        weights: FloatArray,
        keeps: Callable[[], Keeps],
        *,
        named: bool = False,
        scaled: bool = False,
    ) -> None:
        """Write weights [D], if there is a file for them, as `weights_text` does.

        keeps: returns what tells whether fewer digits will do. named: without `like`, in lines with their names.
        """
        if self.path is None:
            return
        from lpmert.formats.weights import WeightsFile, weights_text
        from lpmert.system.files import write_text

        like = WeightsFile.of_lines(names) if self.like is None and named else self.like
        write_text(self.path, weights_text(names, weights, keeps(), like=like, scaled=scaled, path=self.path)[0])
