"""`lpmert mert` takes the place of Moses' `mert` in scripts."""

import re
import shlex
import time
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
from oracle import decoded
from problems import bleu_loss, chrf_loss, random_nbest, sums

import lpmert
from lpmert.formats import moses
from lpmert.formats.moses import SCORE_TYPES, write_mert_data
from lpmert.metrics import Chrf
from lpmert.model.nbest import NBest

NAMES, COUNTS = ("d_0", "lm_0", "lm_1"), ("errors", "reference_length")
# how mert-moses.pl finds the weights and the score in what `mert` printed
BEST_POINT = re.compile(r"Best point:\s*([\s\d\.\-e]+?)\s*=> ([\-\d\.]+)")


def lists(seed: int = 3, n_lists: int = 8) -> NBest:
    """Random lists with errors and the length of the reference."""
    drawn = random_nbest(seed, lists=n_lists)
    lengths = np.repeat(5 + np.arange(n_lists) % 7, np.diff(drawn.offsets))
    counts = np.column_stack([drawn.statistics[:, 0], lengths])
    return NBest(drawn.features.round(3), drawn.offsets, counts, NAMES, statistic_names=COUNTS)


def put(folder: Path, nbest: NBest, run: str = "", start: str = "0.2 0.3 0.5\n0 0 0\n1 1 1\n", **options: str) -> None:
    write_mert_data(nbest, folder / f"{run}features", scores=folder / f"{run}scores", **options)
    (folder / "init.opt").write_text(start)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with `lists()` and weights to start from."""
    monkeypatch.chdir(tmp_path)
    put(tmp_path, lists())
    return tmp_path


FLAGS = "-d 3 --ffile features --scfile scores --sctype WER -v 0"


def run(more: str = "", flags: str = FLAGS) -> str:
    """Run the command, and return what it tells on stderr."""
    outcome = commands.succeeded("mert", *shlex.split(f"{flags} {more}"))
    assert outcome.stdout == ""
    return outcome.stderr


def errors_only(nbest: NBest) -> NBest:
    return NBest(nbest.features, nbest.offsets, nbest.statistics[:, 0], nbest.names)


def written() -> np.ndarray:
    line = Path("weights.txt").read_text()
    assert line.endswith(" \n")
    return np.array(line.split(), dtype=np.float64)


def least_errors(nbest: NBest) -> float:
    result = lpmert.minimize(errors_only(nbest), method="exhaustive")
    assert result.status.proved
    return result.loss


def errors_of(nbest: NBest, weights: Any) -> float:
    return lpmert.evaluate(errors_only(nbest), weights).loss


def test_the_proved_least_errors_are_reached_and_written_as_moses_does() -> None:
    nbest = lists()
    told = run()
    weights = written()
    best = least_errors(nbest)
    assert errors_of(nbest, weights) == best
    assert np.abs(weights).sum() == pytest.approx(1, abs=1e-5)
    total = nbest.statistics[nbest.offsets[:-1], 1].sum()
    found = BEST_POINT.search(told)
    assert list(map(float, found[1].split())) == weights.tolist()
    assert float(found[2]) == pytest.approx(1 - best / total, abs=1e-6)
    assert "proved optimal" in told
    assert f"no weights score above {1 - best / total:.6f}; gap 0.000000" in told


@pytest.mark.parametrize(("kind", "beta"), [("BLEU", 0.0), ("CHRF", 3.0), ("CHRF", 1.0)])
def test_scores_are_those_of_moses_and_no_random_weights_beat_them(here: Path, kind: str, beta: float) -> None:
    rng = np.random.default_rng(0)
    nbest = random_nbest(lists=8, size=5, kind="bleu")
    statistics = nbest.statistics
    if kind == "CHRF":
        own = np.roll(sums(rng, Chrf(6, 0), 30, 40).reshape(40, 6, 3), 1, axis=2)
        statistics = np.column_stack([own.reshape(40, 18), own[:, 0, 1:]])
    put(here, NBest(nbest.features, nbest.offsets, statistics, NAMES, statistic_names=SCORE_TYPES[kind]))
    assert (here / "scores").read_text().split()[4] == kind
    named = "" if kind == "BLEU" else f"-s {kind} -c beta:{beta}" if beta != 3.0 else "-s CHRF"
    told = run(f"--ffile features --scfile scores {named}", "-d 3")  # mert-moses.pl does not name BLEU

    def score_of(weights: np.ndarray) -> float:
        total = statistics[decoded(nbest.dense_features(), nbest.offsets, weights)].sum(axis=0)
        return 1.0 - (
            chrf_loss(np.roll(total[:18].reshape(6, 3), -1, axis=1).ravel(), beta) if beta else bleu_loss(total)
        )

    found = float(BEST_POINT.search(told)[2])
    assert score_of(written()) == pytest.approx(found, abs=1e-6)
    assert found >= float(re.search(r"Line searches from 20 random points: (-?\d\.\d+)", told)[1])
    assert max(score_of(weights) for weights in rng.normal(size=(3000, 3))) <= found + 1e-6
    assert "proved optimal" in told


def test_runs_are_merged(here: Path) -> None:
    first, second = lists(1, n_lists=4), lists(2, n_lists=4)
    put(here, first, "run1.")
    put(here, second, "run2.")
    # the words of mert-moses.pl
    files = "--ffile run1.features,run2.features --scfile run1.scores,run2.scores --ifile init.opt"
    call = f"-d 3 --scconfig case:true {files} -n 20 --sctype WER"
    told = run(call, "")
    merged = first.merge(second)
    assert f"{merged.n_hypotheses} different hypotheses" in told
    best = written().tolist()
    assert errors_of(merged, best) == least_errors(merged)
    # the script ends where a run that starts from the last weights leaves all of them as they are
    (here / "weights.txt").rename(here / "init.opt")
    run(call, "")
    assert written().tolist() == best


def test_the_flags_that_scripts_have_are_taken() -> None:
    for flags in (
        "--pdim 3 -F features -S scores -i init.opt -s WER",
        "--d 3 --ffile=features --scfile=scores --ifile=init.opt --sctype=WER --r 7 --n 5",
        "-d3 -Ffeatures -Sscores -sWER -r 1000 -n 20 -m 50 -t random-direction",
        f"{FLAGS} --rseed 5 --ntry 1 --nrandom 2 --nr 2 --type powell --threads 1",
        f"{FLAGS} --random-restarts 3 --verbose 0 --scconfig case:true,regtype:none,regwin:3",
        f"{FLAGS} -T 1 -c reflen:closest --time-limit 5",
        f"{FLAGS} -n 20 -r 1000 -m 50 -t random-direction --threads 2",
        f"{FLAGS} --shard-count 3 --shard-size 0.5 -r -1 -o d_0,lm_0 -c case:false",
    ):
        run(flags, "")
        assert written().shape == (3,)
        Path("weights.txt").unlink()


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ("--n 3 --s WER", 2, "No such option"),
        ("-x", 2, "No such option"),
        ("--scconfig regtype:median", 2, "regtype is none, average or min, not 'median'"),
        ("--scconfig smooth:1", 2, "smooth must be 0"),
        ("-o w_0", 2, "no feature 'w_0'; the features are d_0, lm_0, lm_1"),
        ("-P w_0", 2, "no feature 'w_0'"),
        ("-t simplex", 2, "'simplex' is not one of"),
        ("-d 4", 1, "features: 3 features (d_0, lm_0, lm_1), but -d says 4"),
        ("-s BLEU", 1, "scores: the statistics are those of WER, not of BLEU; set --sctype"),
        ("--ffile none", 1, "none: cannot be read: No such file"),
        ("--ffile features,features", 1, "2 files of features and 1 of scores"),
        ("-i none", 1, "none: cannot be read: No such file"),
        ("-i short", 1, "short: 2 numbers for 3 features"),
        ("-i word", 1, "word:1: a weight"),
        ("-i huge", 1, "huge:1: a weight is '1e999', not a finite number"),
        ("-i weights.txt", 1, "weights.txt: would overwrite 'weights.txt', which is read; give another name to one"),
    ],
)
def test_wrong_flags_and_files_are_told_and_nothing_is_written(here: Path, flags: str, code: int, message: str) -> None:
    for name, last in (("short", ""), ("word", "x"), ("huge", "1e999"), ("weights.txt", "0.5")):
        (here / name).write_text(f"0.1 0.2 {last}\n")
    assert message in commands.refusal("mert", *f"{FLAGS} {flags}".split(), code=code)
    assert commands.run("mert", *FLAGS.split()[2:]).exit_code == 2, "the number of features must be given"
    assert (here / "weights.txt").read_text() == "0.1 0.2 0.5\n"


def test_counts_that_cannot_be_are_refused_with_their_file(here: Path) -> None:
    (here / "features").write_text("FEATURES_TXT_BEGIN_0 0 2 2 a b\n1 0\n0 1\nFEATURES_TXT_END_0\n")
    (here / "init.opt").write_text("1 1\n")
    for kind, row, message in (
        ("TER", "1", r"1 columns of TER, which has 3 \(.*\); extract them again"),
        ("WER", "1 2 3", r"3 columns of WER, which has 2"),
        ("BLEU", "1 2 3", r"3 columns of BLEU, which has 9 \(match_1, total_1"),
        ("CHRF", "1 2 3", r"3 columns of CHRF, which has 20"),
        ("WER", "1 -3", r"metric 'wer' counts: .* column 'reference_length' has -3"),
        ("BLEU", "2 1 1 1 1 1 1 1 1", r"metric 'bleu': .* 2 matches among 1 n-grams"),
    ):
        begin = f"SCORES_TXT_BEGIN_0 0 2 {len(row.split())} {kind}"
        (here / "scores").write_text(f"{begin}\n{row}\n{row}\nSCORES_TXT_END_0\n")
        said = commands.refusal("mert", *f"{FLAGS} -d 2 -s {kind}".split())
        assert re.search(f"lpmert: error: scores: {message}", said)


def test_weights_that_are_not_optimised_stay_and_those_that_must_not_be_negative_are_not(here: Path) -> None:
    nbest = lists()
    run()
    negative = [name for name, weight in zip(NAMES, written(), strict=True) if weight < 0]
    assert negative
    run(f"-P {','.join(negative)}")
    assert all(weight >= 0 for name, weight in zip(NAMES, written(), strict=True) if name in negative)
    put(here, nbest, start="0.2 0.12345678901234567 0.5\n")
    run("-o d_0")
    assert written()[1:].tolist() == [0.12345678901234567, 0.5]
    put(here, nbest, start="0.2 0.3 0.5\n")
    run("-o d_0,lm_1")
    weights = written()
    assert weights[1] == 0.3
    grid = np.linspace(-30, 30, 121)
    problem = lpmert.Problem(errors_only(nbest))
    best = problem.evaluate(weights).loss
    assert min(problem.evaluate([a, 0.3, b]).loss for a in grid for b in grid[::6]) >= best
    for names in ("d_0 lm_1", " d_0 , lm_1"):  # as mert-moses.pl may pass them on
        run(f"-o '{names}'")
        assert written().tolist() == weights.tolist()


def test_sparse_features_are_merged_or_left_out_with_a_word(here: Path) -> None:
    run()
    errors = errors_of(lists(), written())
    (here / "sparse").write_text("")  # as of mert-moses.pl --pro-starting-point: no sparse feature has a weight
    (here / "init.pro").write_text("0.1 0.2 0.3 1\n0 0 0 0\n1 1 1 1\n")
    run("-p sparse --ifile init.pro,init.pro")
    assert len(written()) == 4  # the script takes the last away
    assert errors_of(lists(), written()[:3]) == errors
    text = (here / "features").read_text()
    rows = [line if line.startswith("F") else f"{line} a_b={n % 3}" for n, line in enumerate(text.splitlines())]
    (here / "features").write_text("\n".join(rows) + "\n")
    assert "1 sparse features are left out" in run()
    assert len(written()) == 3
    (here / "sparse").write_text("# weights\na_b 2\nunseen 1\n")
    for starts in ((here / "init.opt").read_text(), "0.1 0.2 0.3 0.4\n"):
        (here / "init.opt").write_text(starts)
        run("--sparse-weights sparse")
        assert len(written()) == 4


def test_weights_have_as_many_digits_as_it_takes(here: Path) -> None:
    # two lists that cost nothing only where w_0 / w_1 is between 1 + 0.5e-8 and 1 + 1e-8
    features = [[0, 0], [1e8, -1e8 - 1], [0, 0], [-1e8, 1e8 + 0.5]]
    nbest = NBest(features, [0, 2, 4], [[0, 1], [1, 1], [0, 1], [1, 1]], statistic_names=COUNTS)
    put(here, nbest, start="1 0\n")
    told = run("-d 2")
    assert "=> 1.000000" in told
    assert errors_of(nbest, written()) == 0
    assert re.search("need more than 6 decimals.* then the score is 0.500000", told)


def test_settings_that_change_nothing_here_are_said_and_a_search_that_is_stopped_exits_with_0(here: Path) -> None:
    put(here, lists(n_lists=60))
    told = run("--time-limit 0 --scconfig regtype:average,regwin:5,weights:0.5")
    assert "stopped at the time limit" in told
    assert len(written()) == 3
    assert BEST_POINT.search(told)
    assert "regtype:average smooths Moses' line searches" in told
    assert "'weights:0.5' in --scconfig is unknown and ignored" in told


def test_time_counts_from_the_start_and_proofs_get_what_line_searches_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def delay(*, time_limit: float, **_: object) -> None:
        limits.append(time_limit)
        time.sleep(0.5)

    commands.precede(monkeypatch, moses, "load_mert_data", lambda **_: time.sleep(1.5))
    commands.precede(monkeypatch, lpmert, "minimize", delay)
    run("--time-limit 100")
    first, second = limits
    assert 0 < first <= (100 - 1.5) / 2  # what reading leaves, halved
    assert first < second <= 2 * first - 0.5  # what line searches leave
