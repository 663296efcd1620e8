"""A loop on disk: each decoding and each step is kept before the next one begins, so that a killed loop goes on.

`settings.json` has what must not change; the folder of an iteration has what was decoded (`decoded.npz`,
`decoded.json`, and the same as `held-out`) and the step that followed (`step.json`). Every file is whole or not there,
and the JSON of a decoding is written last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lpmert.errors import DataError
from lpmert.formats.arrays import read_npz, write_npz
from lpmert.formats.utterances import made_folder
from lpmert.looping.decoder import Decoded
from lpmert.quoting import quoted
from lpmert.system.files import read_text, write_text

_SETTINGS, _STEP = "settings.json", "step.json"


class Journal:
    """The folder of a loop.

    settings: what must be the same when a loop goes on. Raises `DataError` if there is a loop already and it is not to
    be resumed, or if it had other settings.
    """

    def __init__(self, folder: str | Path, settings: Mapping[str, Any], *, resume: bool) -> None:
        self._folder = made_folder(folder)
        place = self._folder / _SETTINGS
        plain = json.loads(json.dumps(settings))
        if place.exists():
            if not resume:
                raise DataError("has a loop already; resume it (--resume), or give another folder", path=self._folder)
            before = _read(place)
            changed = [name for name in {**before, **plain} if before.get(name) != plain.get(name)]
            if changed:
                name = changed[0]
                raise DataError(
                    f"the loop there had another {name}: {quoted(before.get(name))}, not {quoted(plain.get(name))}; "
                    "resume it with the same settings, or give another folder",
                    path=self._folder,
                )
        else:
            _write(place, plain)

    def decoded(self, number: int, part: str, weights: Mapping[str, float]) -> tuple[Decoded, float] | None:
        """Return what was decoded in an iteration, and in how many seconds; `None` if that is not there."""
        place = self._place(number) / f"{part}.json"
        if not place.exists():
            return None
        found = _read(place)
        if found.get("weights") != dict(weights):
            raise DataError("was decoded with other weights than this loop has; the folder was changed", path=place)
        own = found.get("own")
        return Decoded(read_npz(place.with_suffix(".npz")), own), float(found["seconds"])

    def keep_decoded(
        self, number: int, part: str, weights: Mapping[str, float], decoded: Decoded, seconds: float
    ) -> None:
        """Keep what was decoded."""
        folder = made_folder(self._place(number))
        write_npz(decoded.lists, folder / f"{part}.npz")
        own = None if decoded.own is None else dict(decoded.own)
        _write(folder / f"{part}.json", {"weights": dict(weights), "own": own, "seconds": seconds})

    def step(self, number: int) -> dict[str, Any] | None:
        """Return the step after an iteration, `None` if it is not there."""
        place = self._place(number) / _STEP
        return _read(place) if place.exists() else None

    def keep_step(self, number: int, step: Mapping[str, Any]) -> None:
        """Keep a step."""
        _write(made_folder(self._place(number)) / _STEP, step)

    def _place(self, number: int) -> Path:
        return self._folder / f"{number:03d}"


def _write(place: Path, content: Mapping[str, Any]) -> None:
    write_text(place, json.dumps(content, allow_nan=False, indent=2) + "\n")


def _read(place: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_text(place))
    except ValueError as error:
        raise DataError(f"not JSON ({error}); the folder was changed", path=place) from error
    if not isinstance(found, dict):
        raise DataError("not an object; the folder was changed", path=place)
    return found
