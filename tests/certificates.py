"""Certificates as plain data, so that tests can change them and write them back in the layout of the format.

Those in certificates_schema2/ stay as they are, so that what one version wrote is accepted by the next; a new schema
gets a folder of its own. `python tests/certificates.py` writes those that are not there.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import METRICS

import lpmert
from lpmert import CertificateError, ranking
from lpmert.certificates.write.certify import write_certificate
from lpmert.model.nbest import NBest
from lpmert.registry import BLEU_COLUMNS, F_COLUMNS

Document = dict[str, Any]


def layout(document: Document) -> str:
    """The text of a certificate: the header on the first line, then one record a line."""
    header = {key: value for key, value in document.items() if key != "tree"}
    records = ",\n".join(json.dumps(record, separators=(",", ":")) for record in document["tree"])
    return json.dumps(header)[:-1] + ', "tree": [\n' + records + "\n]}\n"


def random_nbest(seed: int, *, n_lists: int, n_features: int, longest: int) -> NBest:
    """Lists of which the last hypothesis repeats the features of the first, with losses of two digits."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, longest + 1, n_lists)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    features = rng.normal(size=(offsets[-1], n_features))
    features[offsets[1:] - 1] = features[offsets[:-1]]
    losses = np.round(rng.random(offsets[-1]), 2)
    return NBest(features=features, offsets=offsets, statistics=losses)


def random_pairs(seed: int, *, n_lists: int, n_features: int) -> NBest:
    """Lists {0, x} with losses 0 and 1, as in classification with noise."""
    rng = np.random.default_rng(seed)
    features = np.zeros((2 * n_lists, n_features))
    features[1::2] = rng.normal(size=(n_lists, n_features))
    positive = features[1::2] @ rng.normal(size=n_features) + rng.normal(size=n_lists) > 0
    losses = np.column_stack([positive, ~positive]).ravel().astype(float)
    return NBest(features=features, offsets=np.arange(0, 2 * n_lists + 1, 2), statistics=losses)


def random_counts(seed: int, worth: str, *, n_lists: int, n_features: int, longest: int) -> NBest:
    """The same features with the counts of a metric, whose names tell which."""
    lists = random_nbest(seed, n_lists=n_lists, n_features=n_features, longest=longest)
    counts = METRICS[worth][2](np.random.default_rng(seed), lists.offsets.tolist())
    names = BLEU_COLUMNS if worth == "bleu" else F_COLUMNS
    return NBest(lists.features, lists.offsets, counts, statistic_names=names)


BASES = {
    "small boxes": (lambda: random_nbest(3, n_lists=5, n_features=2, longest=4), "boxes"),
    "few boxes": (lambda: random_nbest(0, n_lists=14, n_features=3, longest=6), "boxes"),
    "boxes": (lambda: random_nbest(1, n_lists=16, n_features=4, longest=4), "boxes"),
    "boxes closed by cores": (lambda: random_nbest(3, n_lists=40, n_features=3, longest=6), "boxes"),
    "selections": (lambda: random_nbest(0, n_lists=8, n_features=5, longest=8), "selections"),
    "pairs": (lambda: random_pairs(0, n_lists=30, n_features=4), "selections"),
    "bleu boxes": (lambda: random_counts(0, "bleu", n_lists=6, n_features=2, longest=4), "boxes"),
    "bleu selections": (lambda: random_counts(1, "bleu", n_lists=5, n_features=4, longest=5), "selections"),
    "f1": (lambda: random_counts(2, "f1", n_lists=8, n_features=3, longest=5), "boxes"),
}


def kept(name: str) -> Path:
    return Path(__file__).with_name("certificates_schema2") / f"{name}.json"


@cache
def base(name: str) -> tuple[NBest, str]:
    """Lists and the text of a certificate about them; all bases together say everything that certificates can."""
    return BASES[name][0](), kept(name).read_text()


def document(name: str) -> Document:
    """The certificate of a base as plain data, of its own for every caller."""
    found: Document = json.loads(base(name)[1])
    return found


def rewrite(path: Path, **changes: object) -> None:
    """Let a certificate say something else in its header, or have another tree."""
    path.write_text(layout({**json.loads(path.read_text()), **changes}))


def assert_refused(
    path: Path, data: Any, words: str = "", *, content: Document | str | bytes | None = None, **settings: Any
) -> str:
    """Assert that the certificate, or one with this content, is refused in these words; return the message."""
    if content is not None:
        text = layout(content) if isinstance(content, dict) else content
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    verify = ranking.verify if isinstance(data, ranking.Judged) else lpmert.verify
    with pytest.raises(CertificateError, match=words or None) as refused:
        verify(path, data, **settings)
    return str(refused.value)


if __name__ == "__main__":
    for _name, (_make, _kind) in BASES.items():
        if kept(_name).exists():
            continue
        _nbest = _make()
        write_certificate(kept(_name), _nbest, lpmert.minimize(_nbest), kind=_kind)
