"""`lpmert loop`: tune a decoder's weights with the decoder in the loop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lpmert.cli.arguments import NATURAL, PATH, POSITIVE, memory_limit, time_limit
from lpmert.cli.options import argument, command, option
from lpmert.cli.reports import looped_report
from lpmert.cli.running import ExitCode, Output, delivering, logging_to_stderr, say
from lpmert.cli.weights_out import WeightsOut
from lpmert.quoting import number, shortened
from lpmert.system.interrupts import Interrupts

if TYPE_CHECKING:
    from lpmert.findings import Unit
    from lpmert.looping.looped import Iteration

_HEADER_EVERY = 20
_WIDTH = 10
"""Of the column of losses."""
_HEAD = f"{'HeldOut':>10} {'OnPool':>10} {'Angle':>6} {'Pool':>9} {'New':>7} {'Differ':>6} {'Missed':>6} {'Time':>8}"


@dataclass(frozen=True)
class _Loop:
    """The loop, and where it is kept."""

    heading = "Loop"

    config: str = argument("CONFIG", PATH)
    folder: str | None = option("DIR", "Folder of the loop.  [default: CONFIG with .loop for .toml]", PATH)
    forget: bool = option("", "Keep nothing on disk.", default=False)
    resume: bool = option("", "Continue the loop in that folder.", default=False)
    iterations: int | None = option("N", "At most N decodings.", POSITIVE)
    time_limit: float | None = time_limit()
    memory_limit: int | None = memory_limit("process and decoder")
    seed: int | None = option("N", "Seed for everything random.", NATURAL, rare=True)
    jobs: int | None = option("N", "Threads of each search.", POSITIVE)
    picture: str | None = option("FILE", "Draw the losses: FILE.png or FILE.svg.", PATH)

    def __post_init__(self) -> None:
        """Check what one option says against another."""
        if self.forget and (self.resume or self.folder is not None):
            raise click.UsageError("--forget keeps no folder; leave out --folder and --resume.")


@command("loop mert.toml --iterations 10 --weights-out weights.txt")
def loop(own: _Loop, weights: WeightsOut, out: Output) -> None:
    """Tune the weights of a decoder: decode, add its hypotheses to a pool, search the pool, and decode again.

    CONFIG is a TOML file that describes the decoder; see docs/loop.md. Each iteration is saved before the next one
    begins: after a crash, the same command with --resume continues. The answer is the iteration whose decoder outputs
    cost least.

    The columns: the loss of the decoder's own outputs in the unit of the metric (errors, and as a rate); the same for
    held-out inputs; the best on the pool within the angle of the next step; hypotheses in the pool, and new ones; lists
    in which the pool would show something else; lists in which it has something that the decoder's model prefers to all
    it found.

    The exit code is 3 if a limit ended the loop.
    """
    weights.beside(out)
    import numpy as np

    from lpmert.errors import LpmertError
    from lpmert.looping.config import read_config
    from lpmert.looping.loop import loop as run
    from lpmert.reporting import pictures

    if own.picture is not None:
        pictures.check_picture(own.picture)
    folder = Path(own.config).with_suffix(".loop") if own.folder is None else own.folder
    with logging_to_stderr(out), delivering(out, weights.weights_out, own.picture, renews=[weights.updated]) as deliver:
        found = read_config(own.config)
        told = {name: getattr(own, name) for name in ("iterations", "time_limit", "memory_limit", "seed", "jobs")}
        given = {name: value for name, value in told.items() if value is not None}
        with found.closing, Interrupts() as stop:
            try:
                looped = run(
                    found.decoder,
                    found.weights,
                    **{**found.arguments, **given},
                    folder=None if own.forget else folder,
                    resume=own.resume,
                    on_iteration=None if out.quiet else _Table(),
                )
            except LpmertError as error:  # of a loop that was stopped before it had any weights to give
                if not stop.pressed:
                    raise
                say(f"lpmert: {error}")
                raise click.exceptions.Exit(128 + stop.number) from error
        if not out.quiet:
            for line in (*(f"warning: {one}" for one in looped.warnings), looped.reason):
                say(line)
        text = partial(weights.text, looped.names, looped.weights, partial(np.array_equal, looped.weights))
        deliver(looped.to_json, weights.report(text, partial(looped_report, looped)))
        weights.save(text, out)
        if own.picture is not None:
            pictures.write_picture(pictures.loop(looped.to_dict()), own.picture)
    if stop.pressed:
        raise click.exceptions.Exit(128 + stop.number)
    raise click.exceptions.Exit(ExitCode.FINISHED if looped.finished else ExitCode.STOPPED)


class _Table:
    """Shows each iteration in a line."""

    def __init__(self) -> None:
        self._rows = 0

    def __call__(self, one: Iteration) -> None:
        """Take an iteration."""
        if self._rows % _HEADER_EVERY == 0:
            unit = one.unit
            what = f"{unit.counts.capitalize():>{_WIDTH}} {unit.name:>8}" if unit.counts else _named(unit)
            say(f"{'Iter':>4} {what} {_HEAD}")
        self._rows += 1
        angle = "" if one.angle is None else f"{one.angle:.2f}"
        rate = f" {one.unit.short(one.loss):>8}" if one.unit.counts else ""
        fits = one.consistency
        say(
            f"{one.number:>4} {_cost(one.unit, one.loss)}{rate} {_cost(one.held_out_unit, one.held_out_loss)} "
            f"{_cost(one.unit, one.pool_loss)} {angle:>6} {one.hypotheses:>9,} {one.new_hypotheses:>7,} "
            f"{fits.own_differs:>6,} {fits.search_errors:>6,} {sum(one.seconds.values()):>7.1f}s"
        )


def _named(unit: Unit) -> str:
    return f"{shortened(unit.name, _WIDTH):>{_WIDTH}}"


def _cost(unit: Unit | None, loss: float | None) -> str:
    """Return a loss as a cell of the table: counted where its unit counts, else in its unit."""
    text = number(loss) if unit is None or unit.counts or loss is None else unit.short(loss)
    return f"{text:>{_WIDTH}}"
