"""Whole lattices from files: all paths count, and not only the best ones of each."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.lattice import SILENT, Counts, counted_words
from lpmert.formats.slf import SCORE_NAMES, WORDS
from lpmert.formats.slf_bulk import Links, links_of_text
from lpmert.formats.utterances import References, of_lists, read_transcripts, utterance_files, utterance_of
from lpmert.model.lattices import Lattices
from lpmert.quoting import listed, quoted
from lpmert.system.files import COMPRESSED_ENDINGS, decoded, read_text

_LATTICE_ENDINGS = frozenset({".slf", ".lat", ".lattice", ".htk"})
_VARIANT = re.compile(r"\(\d+\)$")

Sources = str | Path | Sequence[str | Path]


def load_lattices(
    source: Sources,
    references: References,
    *,
    counts: Counts | None = None,
    silent: Iterable[str] = (),
    variants: bool = False,
    partial: bool = False,
) -> Lattices:
    """Read lattices in HTK's SLF with all their paths.

    Parameters
    ----------
    source : str or path, or a sequence of them
        A lattice (a file that ends in .slf, .lat, .lattice or .htk, perhaps compressed), several, a tar archive of
        them, or a folder or manifest as for `lpmert.formats.read_lattices`. Utterances are called like their files.
    references : str, path or mapping
        Words by utterance: a Kaldi `text` file, a trn file, a table with the header utterance, reference, or a mapping.
    counts : mapping from name to words, optional
        More features: how many of these words (silences, fillers) a path holds. They are no words of the text.
    silent : iterable of str
        More words that are left out of the text, beside !NULL, <eps> and the sentence marks.
    variants : bool
        Whether `word(2)` is a second pronunciation of `word`.
    partial : bool
        Whether there may be references without a lattice.

    Returns
    -------
    Lattices
        The features are the scores that the lattices hold (acoustic, lm, ngram, pronunciation, duration, x1, ..., x9;
        natural logarithms), `words`, and those of `counts`.

    Raises
    ------
    DataError
        With file and, where there is one, line.

    Examples
    --------
    >>> import lpmert
    >>> lattices = lpmert.load_lattices("examples/speech/lattices", "examples/speech/text")
    >>> lattices.n_lists, lattices.names
    (12, ('acoustic', 'lm', 'words'))
    """
    counted = counted_words(counts or {})
    left_out = SILENT | set(silent)
    found: dict[str, tuple[str | Path, Links]] = {}
    for utterance, path, text in _texts(source):
        if utterance in found:
            raise DataError(f"utterance {quoted(utterance)} comes twice; rename one", path=path)
        found[utterance] = path, links_of_text(text, path)
    ids = list(found)
    paths, parts = [path for path, _ in found.values()], [part for _, part in found.values()]
    present = {name for part in parts for name in part.scores}
    names = [*(name for name in SCORE_NAMES if name in present), WORDS, *(counts or {})]
    if len(set(names)) < len(names):
        raise DataError(f"counts has a name that is a feature already: {listed(names)}")
    for path, part in zip(paths, parts, strict=True):
        for name in sorted(present - set(part.scores)):
            if len(part.sources) > 1:
                raise DataError(
                    f"no {name} scores, which other lattices have; add them, or read this lattice separately", path=path
                )
    transcripts = references if isinstance(references, str | Path) else None
    spoken = of_lists(read_transcripts(references), ids, transcripts, partial, what="lattice")
    vocabulary: dict[str, int] = {}
    silences = -1
    place: dict[str | None, tuple[int, str | None]] = {None: (silences, None)}
    for word in dict.fromkeys(word for part in parts for word in part.vocabulary):
        if word is None:
            continue
        plain = _VARIANT.sub("", word) if variants else word
        mute = word in left_out or word in counted or plain in left_out
        number = silences if mute else vocabulary.setdefault(plain or word, len(vocabulary))
        place[word] = number, counted.get(word)
    known = [[place[word] for word in part.vocabulary] for part in parts]
    numbers = np.concatenate(
        [np.array([number for number, _ in own])[part.words] for own, part in zip(known, parts, strict=True)]
    )
    n_links = [len(part.sources) for part in parts]
    features = np.zeros((len(numbers), len(names)))
    for column, name in enumerate(names):
        if name == WORDS:
            features[:, column] = numbers >= 0
        elif name in present:
            zeros = [np.zeros(n) for n in n_links]
            own = [part.scores.get(name, zero) for part, zero in zip(parts, zeros, strict=True)]
            features[:, column] = np.concatenate(own)
        else:
            own = [
                np.array([count == name for _, count in known_here])[part.words]
                for known_here, part in zip(known, parts, strict=True)
            ]
            features[:, column] = np.concatenate(own)
    return Lattices(
        features,
        np.cumsum([0, *n_links]),
        np.concatenate([part.sources for part in parts]),
        np.concatenate([part.targets for part in parts]),
        numbers,
        spoken,
        vocabulary=list(vocabulary),
        starts=[part.start for part in parts],
        ends=[part.end for part in parts],
        names=names,
        list_ids=ids,
    )


def _texts(source: Sources) -> Iterator[tuple[str, str | Path, str]]:
    """Yield utterance, path and text of every lattice."""
    if not isinstance(source, str | Path):
        if not source:
            raise DataError("no lattices; name at least one file")
        for one in source:
            yield from _texts(one)
        return
    path = Path(source)
    endings = path.suffixes[-2:]
    inner = endings[-2] if len(endings) == 2 and endings[-1] in COMPRESSED_ENDINGS else path.suffix
    if inner in _LATTICE_ENDINGS and not path.is_dir():
        yield utterance_of(path), path, read_text(path)
    elif path.is_file() and tarfile.is_tarfile(path):
        yield from _members(path)
    else:
        for utterance, file in utterance_files(path):
            yield utterance, file, read_text(file)


def _members(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield utterance, name and text of the files of a tar archive, ordered by name."""
    try:
        with tarfile.open(path) as archive:
            members = sorted((member for member in archive if member.isfile()), key=lambda member: member.name)
            for member in members:
                stream = archive.extractfile(member)
                if stream is not None:
                    name = f"{path}/{member.name}"
                    yield utterance_of(Path(member.name)), name, decoded(stream.read(), name).replace("\r\n", "\n")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"the archive is damaged: {error}", path=path) from error
