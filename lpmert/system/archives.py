"""Files in tar archives."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

from lpmert.errors import DataError
from lpmert.system.files import STDIN, head_of, open_bytes, text_of, whole

_TAR_BLOCK, _TAR_MAGIC = 512, slice(257, 262)


def is_archive(path: str | Path) -> bool:
    """Whether a file, decompressed, begins as a tar archive does."""
    return str(path) != STDIN and head_of(path, _TAR_BLOCK)[_TAR_MAGIC].startswith(b"ustar")


def archive_members(path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of the files of a tar archive, each of them perhaps compressed.

    Raises `DataError`, which names archive and file, for what is damaged, too large or not UTF-8.
    """
    with open_bytes(path) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    part = archive.extractfile(member) if member.isfile() else None
                    if part is not None:
                        name = f"{path}/{member.name}"
                        yield member.name, text_of(whole(part, name), name)
        except tarfile.TarError as error:
            raise DataError(f"the archive is damaged: {error}", path=path) from error
