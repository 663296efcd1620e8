"""`mert-moses.pl`, Moses' own loop, with `lpmert mert` in the place of Moses' `mert`.

The script is not here: its calls are made one by one, with the same words and files, and its answers are read by the
same expressions. Where `LPMERT_MERT_MOSES` names the script itself (scripts/training/mert-moses.pl of Moses), it runs.
"""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import commands
import pytest
from moses_programs import NAMES, bleu, decoded, install, per_counts, read_ini, write_ini

START = [0.3, 0.5, 0.2, 0.2]
LEAST_CHANGE = 1e-5
"""The script stops where no weight changes by so much."""
N_BEST = 20
MOST_RUNS = 25


def drawn_model(seed: int, sentences: int = 12, hypotheses: int = 60) -> tuple[list[Any], list[str]]:
    """Return sentences with hypotheses, whose second and fourth feature know something of the reference, and these."""
    rng = random.Random(seed)
    model, references = [], []
    for _ in range(sentences):
        truth = [f"w{rng.randrange(30)}" for _ in range(rng.randrange(8, 14))]
        references.append(" ".join(truth))
        options = {}
        for _ in range(hypotheses):
            guess = [word if rng.random() < 0.75 else f"w{rng.randrange(30)}" for word in truth]
            guess = guess[: rng.randrange(len(guess) - 2, len(guess) + 1)]
            right = sum(a == b for a, b in zip(guess, truth, strict=False))
            noisy = [
                rng.gauss(0, 2),
                right + rng.gauss(0, 2),
                rng.gauss(0, 2) - len(guess),
                0.5 * right + rng.gauss(0, 2),
            ]
            options[" ".join(guess)] = [round(value, 4) for value in noisy]
        model.append([{"words": words, "features": features} for words, features in options.items()])
    return model, references


class Run(NamedTuple):
    """What a run of the script's loop leaves: the weights before and after it, and the score that `mert` told."""

    before: list[float]
    after: list[float]
    score: float
    log: str


class Script:
    """What mert-moses.pl does with its default options, in its order."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.folder, self.programs = folder, folder / "bin"
        self.model, self.references = drawn_model(seed)
        install(self.programs)
        (folder / "input").write_text("source\n" * len(self.model))
        (folder / "reference").write_text("\n".join(self.references) + "\n")
        (folder / "model.json").write_text(json.dumps(self.model))
        write_ini(folder / "moses.ini", folder / "model.json", START)

    def call(self, command: str, out: str, err: str) -> None:
        """As submit_or_exec."""
        done = subprocess.run(
            ["sh", "-c", f"{command} > {out} 2> {err}"],
            cwd=self.folder,
            env=commands.environment(),
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, (self.folder / err).read_text()

    def runs(self, *mert_options: str) -> Iterator[Run]:
        """Go round the loop until no weight changes."""
        total = sum(map(abs, START))
        weights = [weight / total for weight in START]
        before = START  # what init.opt gets: the decoder alone gets them normalised
        data = ""
        for run in range(1, MOST_RUNS + 1):
            overwritten = " ".join(
                f"{name}= " + " ".join(f"{w:.6f}" for w, other in zip(weights, NAMES, strict=True) if other == name)
                for name in sorted(set(NAMES))
            )
            n_best = f"run{run}.best{N_BEST}.out"
            self.call(
                f"{self.programs}/moses  -config moses.ini -inputtype 0 -weight-overwrite {shlex.quote(overwritten)}  "
                f"-n-best-list {n_best} {N_BEST}  -input-file input",
                f"run{run}.out",
                "moses.err",
            )
            subprocess.run(["gzip", "-f", n_best], cwd=self.folder, check=True)
            self.call(
                f"{self.programs}/extractor  --scconfig case:true  --scfile run{run}.scores.dat "
                f"--ffile run{run}.features.dat -r reference -n {n_best}.gz",
                "extract.out",
                "extract.err",
            )
            rows = [before, [0] * len(NAMES), [1] * len(NAMES)]
            (self.folder / "init.opt").write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
            shutil.copy(self.folder / "init.opt", self.folder / f"run{run}.init.opt")
            data = f"{data},{run}" if data else str(run)
            files = [
                ",".join(f"run{number}.{what}.dat" for number in data.split(",")) for what in ("features", "scores")
            ]
            self.call(
                f"{self.programs}/mert -d {len(NAMES)}   --scconfig case:true --ffile {files[0]} --scfile {files[1]} "
                f"--ifile run{run}.init.opt -n 20 {' '.join(mert_options)}",
                "mert.out",
                "mert.log",
            )
            assert (self.folder / "weights.txt").stat().st_size
            log = (self.folder / "mert.log").read_text()
            found = next(
                match
                for line in log.splitlines()
                if (match := re.search(r"Best point:\s*([\s\d\.\-e]+?)\s*=> ([\-\d\.]+)", line))
            )
            weights = [float(word) for word in re.split(r"\s+", found[1])]
            assert len(weights) == len(NAMES)
            yield Run(before, weights, float(found[2]), log)
            if all(abs(a - b) < LEAST_CHANGE for a, b in zip(before, weights, strict=True)):
                return
            before = weights

    def decoder_score(self, weights: list[float]) -> float:
        """BLEU of what the decoder makes of all its hypotheses with weights."""
        return bleu([best[0]["words"] for best in decoded(self.model, weights, 1)], self.references)

    def whole(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the script itself; its files are in the folder work."""
        files = ["input", "reference", str(self.programs / "moses"), "moses.ini"]
        flags = [f"--working-dir={self.folder}/work", f"--mertdir={self.programs}", f"--nbest={N_BEST}"]
        return subprocess.run(
            ["perl", os.environ["LPMERT_MERT_MOSES"], *flags, "--no-filter-phrase-table", *options, *files],
            cwd=self.folder,
            env=commands.environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def best_points(self, done: subprocess.CompletedProcess[str]) -> list[list[float]]:
        """The weights that the script has read from each run's mert.log."""
        assert done.returncode == 0, done.stderr
        return [[float(word) for word in one.split()] for one in re.findall(r"BEST at \d+: (.*?) =>", done.stdout)]


@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(
            ("-r", "1000", "-m", "50", "-t", "random-direction", "--threads", "2"), marks=pytest.mark.slow, id="all"
        ),
    ],
)
def test_the_loop_of_the_script_ends_at_weights_that_the_decoder_confirms(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    script = Script(tmp_path)
    runs = list(script.runs(*options))
    assert len(runs) < MOST_RUNS
    assert runs[-1].before == runs[-1].after
    assert all("proved optimal" in run.log for run in runs)
    # the pool has all that the decoder finds with the last weights, so its score is that of the decoder's output
    at_the_end = script.decoder_score(runs[-1].after)
    assert runs[-1].score == pytest.approx(at_the_end, abs=1e-6)
    assert at_the_end > script.decoder_score(START) + 0.02
    assert [float(word) for word in (tmp_path / "weights.txt").read_text().split()] == runs[-1].after


@pytest.mark.skipif(
    "LPMERT_MERT_MOSES" not in os.environ or shutil.which("perl") is None,
    reason="LPMERT_MERT_MOSES does not name mert-moses.pl, or there is no perl",
)
@pytest.mark.slow
class TestScriptItself:
    def test_it_ends_where_its_calls_made_one_by_one_end(self, tmp_path: Path) -> None:
        script = Script(tmp_path)
        expected = list(script.runs())
        done = script.whole()
        points = script.best_points(done)
        assert "None of the weights changed more than 1e-05" in done.stderr
        assert len(points) == len(expected) >= 3
        for found, run in zip(points, expected, strict=True):
            assert found == pytest.approx(run.after, abs=LEAST_CHANGE)
        _, in_the_end = read_ini(tmp_path / "work" / "moses.ini")
        assert in_the_end == points[-1]
        assert script.decoder_score(in_the_end) == pytest.approx(expected[-1].score, abs=1e-6)

    def test_options_of_starts_and_of_the_best_iteration(self, tmp_path: Path) -> None:
        script = Script(tmp_path, seed=3)
        ranges = ["--range=LM0:-1..1", "--range=TM0:0..2,-1..1"]
        steady = ["--historic-bests", "--predictable-seeds", "--random-restarts=5", "--mertmertargs=--time-limit 30"]
        done = script.whole(*ranges, *steady, "--return-best-dev")
        points = script.best_points(done)
        assert len(points) >= 3
        assert "None of the weights changed more than 1e-05" in done.stderr
        work = tmp_path / "work"
        assert (work / "run2.init.opt").read_text().splitlines()[1:] == ["0 -1 0 -1", "1 1 2 1"]
        decoded_with = [START, *points]
        outputs = [(work / f"run{number}.out").read_text().splitlines() for number in range(1, len(points))]
        scores = [bleu(one, script.references) for one in outputs]
        assert read_ini(work / "moses.ini")[1] == decoded_with[scores.index(max(scores))]
        assert max(scores) > scores[0] + 0.02

    @pytest.mark.parametrize("names", ["LM0_0,TM0_1", "LM0_0 TM0_1"])
    def test_features_that_are_not_active_keep_their_weights(self, tmp_path: Path, names: str) -> None:
        script = Script(tmp_path)
        points = script.best_points(script.whole(f"--activate-features={names}"))
        assert all([one[0], one[2]] == [START[0], START[2]] for one in points)
        assert script.decoder_score(points[-1]) > script.decoder_score(START)

    def test_a_loop_that_was_interrupted_goes_on(self, tmp_path: Path) -> None:
        script = Script(tmp_path)
        whole = script.best_points(script.whole())
        work = tmp_path / "work"
        for path in [*work.glob("run2.*"), *work.glob("run3.*")]:
            path.unlink()
        (work / "finished_step.txt").write_text("1\n")
        done = script.whole("--continue")
        assert "(1) BEST at 1 " in done.stdout  # read from its mert.log
        assert script.best_points(done) == whole[1:]

    def test_arguments_for_extractor_and_mert_reach_both(self, tmp_path: Path) -> None:
        script = Script(tmp_path)
        done = script.whole("--mertargs=--sctype PER", "--mertmertargs=--time-limit 30", "--maximum-iterations=2")
        last = script.best_points(done)[-1]
        pooled = (tmp_path / "work" / "run1.scores.dat").read_text()
        assert pooled.startswith(f"SCORES_TXT_BEGIN_0 0 {N_BEST} 3 PER\n")

        def score(weights: list[float]) -> float:
            outputs = [best[0]["words"] for best in decoded(script.model, weights, 1)]
            counts = map(per_counts, outputs, script.references)
            correct, length, reference = (sum(column) for column in zip(*counts, strict=True))
            return (correct - max(0, length - reference)) / reference

        assert "proved optimal" in (tmp_path / "work" / "mert.log").read_text()
        assert score(last) > score(START)

    def test_starts_from_another_optimizer_are_taken(self, tmp_path: Path) -> None:
        script = Script(tmp_path)
        for name, text in (("pro", ""), ("megam_i686.opt", "printf 'F0 0\\nF1 0.5\\nF2 0.1\\nF3 0.4\\n'")):
            (script.programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (script.programs / name).chmod(0o755)
        points = script.best_points(script.whole("--pro-starting-point", "--maximum-iterations=2"))
        assert [len(one) for one in points] == [5, 5]  # the last for sparse features, of which there are none
        assert script.decoder_score(points[-1][:4]) > script.decoder_score(START)
