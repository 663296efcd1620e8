"""A loop on disk: each decoding and each step is saved before the next one begins, so that a killed loop can continue.

`settings.json` has the settings that must not change. The folder of an iteration has the outputs of the decoder
(`decoded.npz`, `decoded.json`, and the same as `held-out`) and the step that followed (`step.json`). Every file is
written completely or not at all, and the JSON of a decoding is written last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from lpmert.errors import DataError
from lpmert.formats.arrays import read_npz, write_npz
from lpmert.formats.references import made_folder
from lpmert.looping.decoder import Decoded
from lpmert.looping.steps import Step
from lpmert.quoting import quoted
from lpmert.system.deadline import unheeded
from lpmert.system.files import owned, read_text, write_text
from lpmert.values import are_texts_by_name

_SETTINGS, _STEP = "settings.json", "step.json"


T = TypeVar("T")


class Journal:
    """The folder of a loop; without one, nothing is saved.

    settings: must be the same when a loop continues, including the order of weights. Raises `DataError` if the folder
    has a loop and `resume` is not set, or the loop has other settings or none.
    """

    def __init__(self, folder: str | Path | None, settings: Mapping[str, Any], *, resume: bool) -> None:
        self._folder = None if folder is None else made_folder(folder)
        if self._folder is None:
            return
        place = self._folder / _SETTINGS
        plain = json.loads(json.dumps(settings))
        with owned(place, self._folder, wait=True):  # another loop may begin at the same time
            if place.exists():
                if not resume:
                    raise DataError(
                        "has a loop already; resume it (--resume), or give another folder", path=self._folder
                    )
                _compare(_read(place), plain, self._folder)
            elif _iteration(self._folder, 1).exists():
                raise DataError(f"has iterations, but no {_SETTINGS}; the folder was changed", path=self._folder)
            else:
                _write(place, plain)

    def decoded(self, number: int, part: str, weights: Mapping[str, float]) -> tuple[Decoded, float] | None:
        """Return the outputs of the decoder in an iteration, and their seconds; `None` if they were not saved."""

        def of(place: Path) -> tuple[Decoded, float]:
            found = _read(place)
            own, seconds = found["own"], float(found["seconds"])
            if [*found["weights"].items()] != [*weights.items()]:
                raise ValueError("weights of another decoding")
            if not math.isfinite(seconds) or (own is not None and not are_texts_by_name(own)):
                raise ValueError("seconds that are not finite, or outputs that are no texts")
            return Decoded(read_npz(place.with_suffix(".npz")), own), seconds

        return self._known(number, f"{part}.json", of)

    def keep_decoded(
        self, number: int, part: str, weights: Mapping[str, float], decoded: Decoded, seconds: float
    ) -> None:
        """Save the outputs of the decoder in an iteration."""
        own = None if decoded.own is None else dict(decoded.own)

        def write(folder: Path) -> None:
            write_npz(decoded.lists, folder / f"{part}.npz")
            _write(folder / f"{part}.json", {"weights": dict(weights), "own": own, "seconds": seconds})

        self._keep(number, write)

    def step(self, number: int, names: Sequence[str]) -> Step | None:
        """Return the step after an iteration, with weights for these features; `None` if it was not saved."""
        return self._known(number, _STEP, lambda place: Step.of(_read(place), names))

    def keep_step(self, number: int, step: Step) -> None:
        """Save the step after an iteration."""
        self._keep(number, lambda folder: _write(folder / _STEP, asdict(step)))

    def _known(self, number: int, name: str, of: Callable[[Path], T]) -> T | None:
        """Return the content of a file of an iteration; `None` if it does not exist."""
        if self._folder is None or not (place := _iteration(self._folder, number) / name).exists():
            return None
        try:
            return of(place)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"not what a loop writes ({quoted(error)}); the folder was changed", path=place) from error

    def _keep(self, number: int, write: Callable[[Path], None]) -> None:
        """Write into the folder of an iteration, at whatever deadline."""
        if self._folder is not None:
            with unheeded():
                write(made_folder(_iteration(self._folder, number)))


def _iteration(folder: Path, number: int) -> Path:
    return folder / f"{number:03d}"


def _compare(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raise `DataError` if a loop continues with other settings than it began with."""
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if json.dumps(old) != json.dumps(new):  # the order of weights is that of the features
            trouble = f"has {name} = {quoted(old)}, not {quoted(new)}" if old != new else f"has {name} in another order"
            if name.endswith("references"):  # the settings only have their digests
                trouble = f"has other {name.replace('_', ' ')}"
            raise DataError(
                f"the loop there {trouble}; resume it with the same settings, or give another folder", path=folder
            )


def _write(place: Path, content: Mapping[str, Any]) -> None:
    write_text(place, json.dumps(content, allow_nan=False, indent=2) + "\n")


def _read(place: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_text(place))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON ({error}); the folder was changed", path=place) from error
    if not isinstance(found, dict):
        raise DataError("not an object; the folder was changed", path=place)
    return found
