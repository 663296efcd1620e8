"""Certificates as plain data, so that tests can change them and write them back in the layout of the format.

Those in certificates_schema2/ stay as they are, so that what one version wrote is accepted by the next; a new schema
gets a folder of its own. `python tests/certificates.py` writes those that are not there.
"""

import json
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import METRICS

import lpmert
from lpmert import CertificateError, Linear, Region, ranking
from lpmert.certificates.format import Header, RankingHeader
from lpmert.certificates.write.certify import write_certificate
from lpmert.model.nbest import NBest
from lpmert.registry import BLEU_COLUMNS, F_COLUMNS

Document = dict[str, Any]


def layout(document: Document) -> str:
    """The text of a certificate: the header on the first line, its keys in the order of the format; then the tree."""
    known = [field.name for field in fields(RankingHeader if "ranking" in document else Header)]
    order = dict.fromkeys(["lpmert certificate", *known, *document])
    header = {key: document[key] for key in order if key in document and key != "tree"}
    records = ",\n".join(json.dumps(record, separators=(",", ":")) for record in document["tree"])
    return json.dumps(header)[:-1] + ', "tree": [\n' + records + "\n]}\n"


def random_nbest(seed: int, *, n_lists: int, n_features: int, longest: int) -> NBest:
    """Lists of which the last hypothesis repeats the features of the first, with losses of two digits."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, longest + 1, n_lists)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    features = rng.normal(size=(offsets[-1], n_features))
    features[offsets[1:] - 1] = features[offsets[:-1]]
    return NBest(features, offsets, np.round(rng.random(offsets[-1]), 2))


def random_pairs(seed: int, *, n_lists: int, n_features: int) -> NBest:
    """Lists {0, x} with losses 0 and 1, as in classification with noise."""
    rng = np.random.default_rng(seed)
    features = np.zeros((2 * n_lists, n_features))
    features[1::2] = rng.normal(size=(n_lists, n_features))
    positive = features[1::2] @ rng.normal(size=n_features) + rng.normal(size=n_lists) > 0
    return NBest(features, np.arange(0, 2 * n_lists + 1, 2), np.column_stack([positive, ~positive]).ravel())


def random_counts(seed: int, worth: str, *, n_lists: int, n_features: int, longest: int) -> NBest:
    """The same features with the counts of a metric, whose names tell which."""
    lists = random_nbest(seed, n_lists=n_lists, n_features=n_features, longest=longest)
    counts = METRICS[worth][2](np.random.default_rng(seed), lists.offsets.tolist())
    names = BLEU_COLUMNS if worth == "bleu" else F_COLUMNS
    return NBest(lists.features, lists.offsets, counts, statistic_names=names)


def random_words(seed: int, *, n_lists: int, n_features: int) -> NBest:
    """Lists of five with losses from 0 to 8, the last feature of which is a length: the longer, the lower the loss."""
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, 9, 5 * n_lists)
    features = rng.normal(size=(5 * n_lists, n_features)).round(2)
    features[:, -1] = 20 - losses + rng.integers(0, 9, 5 * n_lists)
    return NBest(features, range(0, 5 * n_lists + 1, 5), losses)


BASES: dict[str, tuple[Callable[[], NBest], dict[str, Any]]] = {
    "small boxes": (lambda: random_nbest(3, n_lists=5, n_features=2, longest=4), {"kind": "boxes"}),
    "few boxes": (lambda: random_nbest(0, n_lists=14, n_features=3, longest=6), {"kind": "boxes"}),
    "boxes": (lambda: random_nbest(1, n_lists=16, n_features=4, longest=4), {"kind": "boxes"}),
    "boxes closed by cores": (lambda: random_nbest(3, n_lists=40, n_features=3, longest=6), {"kind": "boxes"}),
    "selections": (lambda: random_nbest(0, n_lists=8, n_features=5, longest=8), {"kind": "selections"}),
    "pairs": (lambda: random_pairs(0, n_lists=30, n_features=4), {"kind": "selections"}),
    "bleu boxes": (lambda: random_counts(0, "bleu", n_lists=6, n_features=2, longest=4), {"kind": "boxes"}),
    "bleu selections": (lambda: random_counts(1, "bleu", n_lists=5, n_features=4, longest=5), {"kind": "selections"}),
    "f1": (lambda: random_counts(2, "f1", n_lists=8, n_features=3, longest=5), {"kind": "boxes"}),
    "equations": (
        lambda: random_nbest(1, n_lists=16, n_features=4, longest=4),
        {"region": Region(fixed={"feature2": 0}, linear=[Linear({"feature3": 1, "feature4": -2}, lower=0, upper=0)])},
    ),
    "two features": (
        lambda: random_words(1, n_lists=12, n_features=4),
        {"at_most": 2, "ties": "worst", "region": Region(bounds={"feature2": (0, None)})},
    ),
    "budget": (lambda: random_words(2, n_lists=12, n_features=3), {"budget": {"feature3": Fraction(232)}}),
}  # fmt: skip


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
    for _name, (_make, _settings) in BASES.items():
        if kept(_name).exists():
            continue
        _nbest = _make()
        match _settings:
            case {"at_most": _size, "region": _region}:
                _result = lpmert.best_subsets(_nbest, at_most=_size, region=_region)[_size].result
            case {"budget": _budget}:
                _result = lpmert.within_budget(_nbest, "feature3", _budget["feature3"])
            case _:
                _result = lpmert.minimize(_nbest, region=_settings.get("region"))
        write_certificate(kept(_name), _nbest, _result, **_settings)
