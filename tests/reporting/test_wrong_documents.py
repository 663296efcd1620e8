"""Outcomes with a wrong type, a missing key or a huge number in them: a page, or an error with the name of the file."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import refusal, run
from mutations import read_or_refused, wrong_documents

import lpmert


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with lists, and what solve, check, tune and compare say of them."""
    folder = tmp_path_factory.mktemp("outcomes")
    rng = np.random.default_rng(5)
    nbest = lpmert.NBest(rng.normal(size=(40, 2)), np.arange(11) * 4, rng.integers(0, 9, 40), names=["a", "b"])
    lpmert.write(nbest, folder / "x.npz")
    methods = ["--methods", "och,grid", "--seeds", "2", "--cv", "2", "--repeat", "1"]
    for command, *flags in (["solve"], ["check", "--weights", "1,1"], ["tune"], ["compare", *methods]):
        assert run(command, folder / "x.npz", "-q", *flags, "-o", folder / f"{command}.json").exit_code == 0
    return folder


@pytest.mark.parametrize("command", ["solve", "check", "tune", "compare"])
def test_a_report_of_wrong_documents_is_a_page_or_an_error_with_the_path(
    outcomes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    if command != "solve":  # of which there is no other picture
        monkeypatch.setattr("lpmert.reporting.pictures.svg", lambda _: "<svg/>")
    path, page = tmp_path / "w.json", tmp_path / "page.html"
    refused = 0
    documents = list(wrong_documents(json.loads((outcomes / f"{command}.json").read_text()), 1))
    chosen = np.random.default_rng(len(command)).choice(len(documents) - 2, 60, replace=False)
    for text in [*(documents[place] for place in chosen), *documents[-2:]]:
        path.write_text(text)
        refused += read_or_refused(path, lambda: lpmert.report(path, page)) is None
    assert refused > 3


def test_what_is_wrong_in_a_document_is_named(outcomes: Path, tmp_path: Path) -> None:
    check = json.loads((outcomes / "check.json").read_text())
    (tmp_path / "c.json").write_text(json.dumps({**check, "excess": "1"}))
    assert "c.json: not a check of this version of lpmert (excess: '1' is not of type 'number'); write" in refusal(
        "report", tmp_path / "c.json", "-o", tmp_path / "page.html"
    )
    comparison = json.loads((outcomes / "compare.json").read_text())
    del comparison["methods"][0]["seconds"]
    (tmp_path / "m.json").write_text(json.dumps(comparison))
    outcome = run("report", tmp_path / "m.json", "-o", tmp_path / "page.html")
    assert "(methods[0]: 'seconds' is a required property); write it again with `lpmert compare -o`" in outcome.stderr
    assert not (tmp_path / "page.html").exists()


def test_weights_of_other_features_or_beyond_all_lists_are_no_part_of_a_report(outcomes: Path, tmp_path: Path) -> None:
    for weights, message in (({"a": 1, "c": 1}, "other features"), ({"a": 1e151, "b": 1}, "a weight beyond 1e\\+150")):
        check = json.loads((outcomes / "check.json").read_text())
        (tmp_path / "c.json").write_text(json.dumps({**check, "weights": weights}))
        with pytest.raises(lpmert.DataError, match=message):
            lpmert.report(tmp_path / "c.json", tmp_path / "page.html")
    nbest = lpmert.read(outcomes / "x.npz")
    other = lpmert.NBest(nbest.features, nbest.offsets, nbest.statistics, names=["a", "c"])
    result = lpmert.minimize(other)
    changed = {**result.to_dict(), "fingerprint": nbest.fingerprint}
    with pytest.raises(lpmert.DataError, match=r"the features are a, b, and those of .* a, c|other lists"):
        lpmert.report(lpmert.Result.from_dict(changed), tmp_path / "page.html", data=nbest)
