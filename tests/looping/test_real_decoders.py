"""The loop with two real decoders, as the examples run them, on little data."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import finished
from rapidfuzz.distance import Levenshtein
from shared import ROOT

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples" / "loop"
INDEXER, PAGES = Path("/usr/lib/mecab/mecab-dict-index"), Path("/usr/share/man/ja")


def looped(folder: Path, name: str, *arguments: object) -> dict[str, Any]:
    """Run an example in a folder of its own, with nothing held out."""
    config = folder / f"{name}.toml"
    text = (EXAMPLES / f"{name}.toml").read_text().partition("[held-out]")[0]
    config.write_text(text.replace('"python3"', json.dumps(sys.executable)))
    code, out, log = finished("loop", config, "--json", *arguments)
    assert code in (0, 3), log
    return json.loads(out)


@pytest.mark.skipif(
    not (INDEXER.exists() and PAGES.exists()), reason="needs mecab-utils and manpages-ja: examples/loop/install.sh"
)
def test_mecab_makes_fewer_errors_and_agrees_with_its_pool(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "kana_kanji.py", tmp_path)
    subprocess.run([sys.executable, tmp_path / "kana_kanji.py", "prepare", tmp_path / "kana", "60"], check=True)
    found = looped(tmp_path, "kana_kanji", "--iterations", 2)
    first, second = found["iterations"]
    assert second["loss"] < 0.95 * first["loss"]
    references = dict(line.split("\t") for line in (tmp_path / "kana" / "tune.tsv").read_text().splitlines())
    kept = json.loads((tmp_path / "kana_kanji.loop" / "002" / "decoded.json").read_text())
    assert second["loss"] == sum(Levenshtein.distance(text, references[one]) for one, text in kept["own"].items())
    for one in (first, second):  # MeCab's search is exact, but its costs are whole numbers
        assert one["consistency"]["search_errors"] <= 1
        assert one["consistency"]["own_differs"] <= 12
        assert abs(one["consistency"]["pool_loss"] - one["loss"]) <= 0.1 * one["loss"]


@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not (importlib.util.find_spec("pocketsphinx") and shutil.which("flite") and shutil.which("sox")),
    reason="needs pocketsphinx, flite and sox: examples/loop/install.sh",
)
def test_pocketsphinx_is_tuned_with_what_it_shows(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "pocketsphinx_worker.py", tmp_path)
    subprocess.run([sys.executable, EXAMPLES / "speech.py", tmp_path / "speech", "8"], check=True)
    found = looped(tmp_path, "pocketsphinx", "--iterations", 2)
    references = dict(line.split("\t") for line in (tmp_path / "speech" / "tune.tsv").read_text().splitlines())
    assert len(references) == 4
    for one in found["iterations"]:
        kept = json.loads((tmp_path / "pocketsphinx.loop" / f"{one['number']:03d}" / "decoded.json").read_text())
        errors = [Levenshtein.distance(text.split(), references[name].split()) for name, text in kept["own"].items()]
        assert one["loss"] == sum(errors)
        assert one["weights"]["am"] == 1
    assert found["loss"] == min(one["loss"] for one in found["iterations"])
