"""What cannot be meant is refused before anything is decoded, and leaves no folder behind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from looping.test_loop import START, Toy

import lpmert
from lpmert.metrics.text import BleuTexts


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (lpmert.Region(bounds={"lm": (0.02, None)}, fixed={"am": 1}), "outside the region: lm >= 0.02 does not hold"),
        (lpmert.Region(fixed={"am": 2}), "the region fixes am at 2, but the first weights have 1"),
        (
            lpmert.Region(linear=[lpmert.Linear({"am": 1, "lm": -1}, lower=0, upper=0)]),
            "outside the region: am=1,lm=-1 = 0 does not",
        ),
        (lpmert.Region(fixed={"acoustic": 1}), "no feature 'acoustic'"),
    ],
)
def test_first_weights_outside_the_region_are_refused_before_anything_is_decoded(
    region: lpmert.Region, message: str, tmp_path: Path
) -> None:
    """They could be the best of all iterations, and the answer would not be in the region."""
    toy = Toy()
    with pytest.raises(lpmert.RegionError, match=message):
        lpmert.loop(toy, START, references=toy.references, n=3, region=region, folder=tmp_path / "loop")
    assert not toy.asked
    assert not (tmp_path / "loop").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"equal_words": "no"}, "equal_words must be one of"),
        ({"metric": "foo"}, "no metric 'foo' on texts"),
        ({"metric": 3}, "no metric 3 on texts"),
        ({"metric": BleuTexts(tokenize="zzz")}, "no tokenizer 'zzz'"),
        ({"search_seconds": -1}, "search_seconds must be a number of at least 0, or None; got -1"),
        ({"time_limit": "x"}, "time_limit must be"),
    ],
)
def test_what_cannot_be_used_leaves_no_folder(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    toy = Toy()
    with pytest.raises(lpmert.LpmertError, match=named):
        lpmert.loop(toy, START, **{"references": toy.references, "folder": tmp_path / "loop", **change})
    assert not toy.asked
    assert not (tmp_path / "loop").exists()


def test_a_package_that_is_missing_is_told_of_before_anything_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    toy = Toy()
    with pytest.raises(lpmert.MetricError, match="rapidfuzz is not installed; pip install"):
        lpmert.loop(toy, START, references=toy.references, metric="wer")
    assert not toy.asked


@pytest.mark.parametrize("by_file", [False, True])
def test_a_reference_of_what_is_not_decoded_is_named_with_what_to_do(tmp_path: Path, by_file: bool) -> None:
    toy = Toy()
    references: Any = {**toy.references, "u99": "x"}
    if by_file:
        text = "".join(f"{name}\t{words}\n" for name, words in references.items())
        references = tmp_path / "references.tsv"
        references.write_text(text)
    with pytest.raises(lpmert.DataError, match=r"no list for .*'u99'; add it, or leave the reference out$"):
        lpmert.loop(toy, START, references=references, folder=tmp_path / "loop")
    assert not (tmp_path / "loop" / "001").exists()
