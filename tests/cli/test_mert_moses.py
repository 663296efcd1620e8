"""`mert-moses.pl`, Moses' own loop, with `lpmert mert` in the place of Moses' `mert`.

The script is not here: its calls are made one by one, with the same words and files, and its answers are read by the
same expressions.
"""

import json
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
from moses_programs import NAMES, bleu, decoded, install, write_ini

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
