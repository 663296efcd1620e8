"""What a format is: what a package registers to add one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lpmert.formats.graphs import Edges, GraphText, Links
from lpmert.model.nbest import NBest

Graphs = Callable[[GraphText], Iterable[tuple[str | None, Links | Edges]]]
"""Yields each graph of a text, and its utterance if the text says it."""


@dataclass(frozen=True)
class Format:
    """A format, as it is registered.

    reader(source, **options) returns the lists; writer(lists, path, **options) writes them, `None` where the format is
    only read. pooled: several files are one set of lists. endings: of the names of such files, such as ".lists". fixed:
    options of both that are not the caller's to set. graphs: for a format of lattices or hypergraphs, what reads them
    whole from the text of a file; see `lpmert.formats.graphs`.
    """

    description: str
    reader: Callable[..., NBest]
    writer: Callable[..., None] | None = None
    pooled: bool = False
    endings: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    graphs: Graphs | None = None

    @property
    def reader_options(self) -> dict[str, bool]:
        """The options of the reader, and whether each is needed."""
        return self._options(self.reader, 1)

    @property
    def writer_options(self) -> dict[str, bool]:
        """The options of the writer, and whether each is needed."""
        return {} if self.writer is None else self._options(self.writer, 2)

    def _options(self, function: Callable[..., Any], skipped: int) -> dict[str, bool]:
        parameters = list(inspect.signature(function).parameters.values())[skipped:]
        return {one.name: one.default is inspect.Parameter.empty for one in parameters if one.name not in self.fixed}
