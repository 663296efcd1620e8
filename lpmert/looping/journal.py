"""A loop on disk: each decoding and each step is saved before the next one begins, so that a killed loop can continue.

`settings.json` has the settings that must not change. The folder of an iteration has the outputs of the decoder
(`decoded.npz`, `decoded.json`, and the same as `held-out`) and the step that followed (`step.json`). Every file is
written completely or not at all, and the JSON of a decoding is written last; JSON has a digest of itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lpmert.errors import DataError
from lpmert.formats.arrays import read_npz, write_npz
from lpmert.formats.utterances import made_folder
from lpmert.looping.decoder import Decoded
from lpmert.looping.steps import Step
from lpmert.quoting import quoted
from lpmert.system.deadline import unheeded
from lpmert.system.files import owned, read_text, write_text

_SETTINGS, _STEP, _DIGEST = "settings.json", "step.json", "sha256"


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
                    trouble = "has a loop already; resume it (--resume), or give another folder"
                    raise DataError(trouble, path=self._folder)
                _compare(_read(place), plain, self._folder)
            elif _iteration(self._folder, 1).exists():
                raise DataError(f"has iterations, but no {_SETTINGS}; the folder was changed", path=self._folder)
            else:
                _write(place, plain)

    def decoded(self, number: int, part: str, weights: Mapping[str, float]) -> tuple[Decoded, float] | None:
        """Return the outputs of the decoder in an iteration, and their seconds; `None` if they were not saved."""
        place = self._place(number, f"{part}.json")
        if place is None:
            return None
        found = _read(place)
        if [*found["weights"].items()] != [*weights.items()]:
            raise DataError("weights of another decoding; the folder was changed", path=place)
        return Decoded(read_npz(place.with_suffix(".npz")), found["own"]), found["seconds"]

    def keep_decoded(
        self, number: int, part: str, weights: Mapping[str, float], decoded: Decoded, seconds: float
    ) -> None:
        own = None if decoded.own is None else dict(decoded.own)

        def write(folder: Path) -> None:
            write_npz(decoded.lists, folder / f"{part}.npz")
            _write(folder / f"{part}.json", {"weights": dict(weights), "own": own, "seconds": seconds})

        self._keep(number, write)

    def step(self, number: int) -> Step | None:
        """Return the step after an iteration; `None` if it was not saved."""
        place = self._place(number, _STEP)
        return None if place is None else Step(**_read(place))

    def keep_step(self, number: int, step: Step) -> None:
        self._keep(number, lambda folder: _write(folder / _STEP, asdict(step)))

    def _place(self, number: int, name: str) -> Path | None:
        place = None if self._folder is None else _iteration(self._folder, number) / name
        return place if place is not None and place.exists() else None

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
    write_text(place, json.dumps({**content, _DIGEST: _digest(content)}, allow_nan=False, indent=2) + "\n")


def _read(place: Path) -> dict[str, Any]:
    """Return what `_write` has written; raises `DataError` for anything else."""
    try:
        found: dict[str, Any] = json.loads(read_text(place))
        unchanged = found.pop(_DIGEST) == _digest(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        unchanged = False
    if not unchanged:
        raise DataError("not what a loop writes; the folder was changed", path=place)
    return found


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
