"""`lpmert loop`: from a file to weights, and on after a kill at any moment; two real decoders, on little data."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import ended, finished, refusal, run, start, until
from looping.test_decoders import CONFIG, START, TOY, written
from looping.toy import decoded, universe
from rapidfuzz.distance import Levenshtein
from shared import ROOT

import lpmert

EXAMPLES = ROOT / "examples" / "loop"
INDEXER, PAGES = Path("/usr/lib/mecab/mecab-dict-index"), Path("/usr/share/man/ja")


def test_the_example_ends_at_the_optimum_of_all_lists(tmp_path: Path) -> None:
    """It decodes 5-best lists out of ready-made 100-best lists, whose proved optimum is in another example."""
    output, weights, picture = (tmp_path / name for name in ("out.json", "weights.txt", "loop.png"))
    code, _, log = finished(
        *("loop", "examples/loop/lists.toml", "--forget", "-o", output, "--weights-out", weights, "--picture", picture),
        cwd=ROOT,
    )
    assert code == 0, log
    found = json.loads(output.read_text())
    columns = {"segment": "utterance", "features": ["am", "lm", "words"], "loss": "errors"}
    everything = lpmert.read(ROOT / "examples/asr/nbest.tsv.gz", **columns)
    losses = [lpmert.evaluate(everything, one).loss for one in (found["weights"], weights)]
    assert [found["loss"], *losses] == [912] * 3  # what README.md shows as proved
    assert [one["number"] for one in found["iterations"]] == [*range(1, len(found["iterations"]) + 1)]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "no weights are better on the pool" in log
    assert not list(tmp_path.glob("*.loop"))
    shown = (ROOT / "docs" / "loop.md").read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    rows = [[line.split()[:-1] for line in text.splitlines() if re.match(r" *\d.*s$", line)] for text in (shown, log)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == len(found["iterations"]) > 1


def test_what_is_shown_is_in_the_unit_of_the_metric(tmp_path: Path) -> None:
    for metric, heading in (("bleu", "Iter BLEU HeldOut OnPool"), ("wer", "Iter Errors WER HeldOut")):
        config = written(tmp_path, CONFIG.replace("n = 4", f'n = 4\nmetric = "{metric}"'))
        outcome = run("loop", config, "--forget", "-o", tmp_path / "out.json")
        first = json.loads((tmp_path / "out.json").read_text())["iterations"][0]
        shown, row, *_ = (" ".join(line.split()) for line in outcome.stderr.splitlines())
        assert shown.startswith(heading)
        counts = f"{first['loss']:g} {100 * first['loss'] / 60:.2f}%"
        assert row.startswith(f"1 {first['score']:.2f} - " if metric == "bleu" else f"1 {counts} - ")


def test_saved_files_can_be_read_and_used(tmp_path: Path) -> None:
    config = written(tmp_path)
    first = run("loop", config, "--json", "-q")
    assert first.exit_code in (0, 3), first.output
    found = json.loads(first.stdout)
    folder = tmp_path / "toy.loop"
    lists = lpmert.read(folder / "001" / "decoded.npz")
    assert lists.texts == tuple(text for some in decoded(universe()[0], START, 4).values() for text, _ in some)
    assert "has a loop already" in refusal("loop", config)
    resumed = run("loop", config, "--json", "-q", "--resume")
    assert json.loads(resumed.stdout)["iterations"] == found["iterations"]


def test_a_failure_leaves_what_was_done_and_the_loop_goes_on(tmp_path: Path) -> None:
    config = written(tmp_path, CONFIG.replace('"worker"]', '"worker", "exit"]'))
    failed = ended(1, "loop", config)
    assert "toy.py" not in failed.stdout
    for said in ("7 before it had answered", "cannot find model x", "once the decoder is fixed, continue with"):
        assert said in failed.stderr
    written(tmp_path)
    assert run("loop", config, "--resume").exit_code in (0, 3)


def test_limits_and_wrong_usage(tmp_path: Path) -> None:
    config = written(tmp_path)
    assert "1 iteration done, the most allowed" in ended(3, "loop", config, "--iterations", 1).stdout
    ended(2, "loop", config, "--forget", "--resume")
    ended(2, "loop", config, "--write", "update")
    assert "none.toml: cannot be read" in refusal("loop", tmp_path / "none.toml")
    ended(1, "loop", config, "--resume", "-o", config)
    undrawn = refusal("loop", config, "--folder", tmp_path / "other", "--picture", tmp_path / "loop.gif")
    assert "must end in one of" in undrawn
    assert "no setting for feature" in refusal("loop", config, "--folder", tmp_path / "other", "--write", "kaldi")
    assert not (tmp_path / "other").exists()  # told before anything is decoded
    assert config.read_text().startswith("\nweights")


def _plain(output: str) -> object:
    """Return a loop without its seconds."""
    found = json.loads(output)
    return {**found, "iterations": [{**one, "seconds": None} for one in found["iterations"]]}


def test_two_loops_at_once_in_one_folder_end_alike(tmp_path: Path) -> None:
    """Both decode what the other one has not decoded yet; every file is whole, and says the same whoever wrote it."""
    (tmp_path / "alone").mkdir()
    code, out, log = finished("loop", written(tmp_path / "alone"), "--json", "-q")
    config = written(tmp_path)
    both = [start("loop", config, "--json", "-q", "--resume") for _ in range(2)]
    for process in both:
        found, error = process.communicate(timeout=300)
        assert process.returncode == code, error + log
        assert _plain(found) == _plain(out)
    assert not list(tmp_path.rglob(".*"))


def test_ctrl_c_ends_with_the_iterations_that_are_over(tmp_path: Path) -> None:
    ended(3, "loop", written(tmp_path), "--iterations", 1)
    config = written(tmp_path, CONFIG.replace('"worker"]', '"worker", "hang"]'))
    process = start("loop", config, "--json", "--resume")
    place = tmp_path / "toy.loop" / "001" / "step.json"
    assert until(place.exists, process)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, log = process.communicate(timeout=250)
    assert process.returncode == 130, log
    found = json.loads(out)
    assert (found["reason"], found["finished"], len(found["iterations"])) == ("it was interrupted", False, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_there_are_any_weights_is_told_by_the_exit_code(tmp_path: Path, number: int) -> None:
    config = written(tmp_path, CONFIG.replace('"worker"]', '"worker", "hang"]'))
    process = start("loop", config, "--json")
    assert until((tmp_path / "toy.loop" / "settings.json").exists, process)
    time.sleep(0.5)
    process.send_signal(number)
    out, log = process.communicate(timeout=120)
    assert (process.returncode, out, "interrupted" in log, "error" in log) == (128 + number, "", True, False)


def test_a_signal_that_ends_the_decoder_as_well_is_told_by_the_exit_code(tmp_path: Path) -> None:
    """As that of a queue which ends all processes of a job."""
    script = "import os, signal; os.kill(os.getppid(), signal.SIGTERM); os.abort()"
    process = start("loop", written(tmp_path, CONFIG.replace('TOY, "worker"', f'"-c", {script!r}')), "--forget")
    _, log = process.communicate(timeout=120)
    assert process.returncode == 143, log
    assert "was killed by signal 6" in log or "interrupted" in log


def test_programs_do_not_outlive_the_loop(tmp_path: Path) -> None:
    script = tmp_path / "deaf.py"
    script.write_text(
        f"import os, runpy, sys\nopen('pid', 'w').write(str(os.getpid()))\nsys.argv = [{TOY!r}, 'worker']\n"
        f"runpy.run_path({TOY!r}, run_name='__main__')\n"
    )
    config = written(tmp_path, CONFIG.replace("TOY, ", repr(str(script)) + ", "))
    ended(3, "loop", config, "--iterations", 1)
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def example(folder: Path, name: str, *arguments: object) -> dict[str, Any]:
    """Run an example in a folder of its own, with nothing held out."""
    config = folder / f"{name}.toml"
    text = (EXAMPLES / f"{name}.toml").read_text().partition("[held-out]")[0]
    config.write_text(text.replace('"python3"', json.dumps(sys.executable)))
    code, out, log = finished("loop", config, "--json", *arguments)
    assert code in (0, 3), log
    return json.loads(out)


@pytest.mark.slow
@pytest.mark.skipif(
    not (INDEXER.exists() and PAGES.exists()), reason="needs mecab-utils and manpages-ja: examples/loop/install.sh"
)
def test_mecab_makes_fewer_errors_and_agrees_with_its_pool(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "kana_kanji.py", tmp_path)
    subprocess.run([sys.executable, tmp_path / "kana_kanji.py", "prepare", tmp_path / "kana", "60"], check=True)
    found = example(tmp_path, "kana_kanji", "--iterations", 2)
    first, second = found["iterations"]
    assert second["loss"] < 0.95 * first["loss"]
    references = dict(line.split("\t") for line in (tmp_path / "kana" / "tune.tsv").read_text().splitlines())
    kept = json.loads((tmp_path / "kana_kanji.loop" / "002" / "decoded.json").read_text())
    assert second["loss"] == sum(Levenshtein.distance(text, references[one]) for one, text in kept["own"].items())
    for one in (first, second):  # MeCab's search is exact, but its costs are whole numbers
        assert one["consistency"]["search_errors"] <= 1
        assert one["consistency"]["own_differs"] <= 12
        assert abs(one["consistency"]["pool_loss"] - one["loss"]) <= 0.1 * one["loss"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not (importlib.util.find_spec("pocketsphinx") and shutil.which("flite") and shutil.which("sox")),
    reason="needs pocketsphinx, flite and sox: examples/loop/install.sh",
)
def test_pocketsphinx_is_tuned_with_what_it_shows(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "pocketsphinx_worker.py", tmp_path)
    subprocess.run([sys.executable, EXAMPLES / "speech.py", tmp_path / "speech", "8"], check=True)
    found = example(tmp_path, "pocketsphinx", "--iterations", 2)
    references = dict(line.split("\t") for line in (tmp_path / "speech" / "tune.tsv").read_text().splitlines())
    assert len(references) == 4
    for one in found["iterations"]:
        kept = json.loads((tmp_path / "pocketsphinx.loop" / f"{one['number']:03d}" / "decoded.json").read_text())
        errors = [Levenshtein.distance(text.split(), references[name].split()) for name, text in kept["own"].items()]
        assert one["loss"] == sum(errors)
        assert one["weights"]["am"] == 1
    assert found["loss"] == min(one["loss"] for one in found["iterations"])
