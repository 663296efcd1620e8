"""The benchmarks find what they race against, say so when they cannot, and report what they measured."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from oracle import decoded, directions_of_the_plane
from problems import bleu_loss, f_loss
from shared import needs_shared

from benchmarks.__main__ import main
from benchmarks.harness import Answer, Benchmark, Dataset, Objective, Solver, Task, contradictions, disagreements
from benchmarks.lists import loss
from benchmarks.parses import best_trees, parse_lists, read_sentences
from benchmarks.rows import Row, read_rows
from benchmarks.runner import RunOptions, run
from benchmarks.suites import quick, unseen
from benchmarks.suites.risk import log_bleu_slopes
from lpmert import NBest

pytestmark = pytest.mark.slow
NUMBERS = {"seed": 0, "time_limit": 10.0, "loss": 3.0, "lower_bound": 3.0, "seconds": 0.5, "processor_seconds": 0.5}
PROOF = Row(dataset="toy", objective="loss", solver="one", status="optimal", **NUMBERS)
TOY = NBest([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [1.0, 1.0]], [0, 2, 4], [0.0, 2.0, 1.0, 3.0], names=["a", "b"])
ORACLES = {
    "summaries": (100, 14, 0.26244),
    "dialogues": (60, 5, 0.13889),
    "hansard": (100, 22, 0.67021),
    "swahili": (500, 14, 0.57348),
    "heating": (900, 6, 0.0),
    "heating and cooling": (250, 8, 0.0),
    "travel modes": (2779, 9, 0.0),
}
TREEBANK = """\
# text = A dog barks
1\tA\ta\tDET\t_\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tbarks\tbark\tVERB\t_\t_\t0\troot\t_\t_

# text = Dogs don't bark
1\tDogs\tdog\tNOUN\t_\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\t_
4\tbark\tbark\tVERB\t_\t_\t0\troot\t_\t_
4.1\tloud\tloud\tADV\t_\t_\t_\t_\t_\t_

# text = Dogs bark
1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_
2\tbark\tbark\tVERB\t_\t_\t0\troot\t_\t_
"""


def toy_benchmark(optimum: float | None = None) -> Benchmark:
    """One solver that answers with weights (1, 0), whatever it claims."""
    solver = Solver("guess", lambda *_: Answer(np.array([1.0, 0.0]), "optimal", 0.0))
    task = Task(Dataset("toy", lambda: TOY), loss(), solver, time_limit=10.0, optimum=optimum)
    return Benchmark("toy", "Toy", lambda: [task], lambda _: [])


def test_the_harness_not_the_solver_says_what_weights_cost(tmp_path: Path) -> None:
    # weights (1, 0) choose a hypothesis of loss 0 and one of loss 3, whatever the solver claims
    run(toy_benchmark(), RunOptions(), tmp_path, print)
    (row,) = read_rows(tmp_path / "toy.jsonl").values()
    assert (row.loss, row.gap) == (3.0, 1.0)


@pytest.mark.parametrize(("fields", "optimum", "proof", "expected"), [
    ({}, 3.0, True, ""),
    ({"loss": 4.0}, 3.0, False, "called optimal"),
    ({"loss": 2.0, "lower_bound": None, "status": "heuristic"}, 3.0, False, "below the known optimum"),
    ({"loss": 5.0, "lower_bound": 4.0, "status": "time_limit"}, 3.0, False, "above the known optimum"),
    ({"loss": 5.0, "lower_bound": None, "status": "time_limit"}, 3.0, True, "no proof"),
    ({"loss": 5.0, "lower_bound": None, "status": "heuristic"}, 3.0, False, ""),
    ({"lower_bound": 3.5}, None, False, "above the loss"),
])  # fmt: skip
def test_wrong_optima_are_found(fields: dict[str, object], optimum: float | None, proof: bool, expected: str) -> None:
    (task,) = toy_benchmark(optimum).tasks()
    found = list(contradictions(replace(PROOF, **fields), replace(task, proof=proof), 1e-9))
    assert (expected in found[0]) if expected else not found


@pytest.mark.parametrize(
    ("options", "least"),
    [(("--dataset", "counts-*", "--solver", "[!e]*"), 4), ((), 20)],
    ids=["some", "all"],
)
def test_every_method_still_proves_the_known_optima(options: tuple[str, ...], least: int, tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["run", "quick", *options, "--rows", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert found.output.count(": optimal") > least


@pytest.mark.parametrize(("objective", "worth"), [(quick.BLEU, bleu_loss), (quick.F1, f_loss(Fraction(1)))])
def test_optima_of_ratios_are_those_of_every_direction_of_the_plane(objective: Objective, worth: Any) -> None:
    ((dataset, _, optimum, _),) = [case for case in quick.CASES if case[1] is objective]
    nbest = dataset.load()
    lists = nbest.dense_features(), nbest.offsets
    chosen = (decoded(*lists, weights) for weights in directions_of_the_plane(*lists))
    least = min(worth([*map(int, nbest.statistics[rows].sum(axis=0))]) for rows in chosen)
    assert optimum == pytest.approx(float(least), abs=1e-12)


def test_rows_that_contradict_a_proof_are_found() -> None:
    fine = replace(PROOF, solver="two", status="heuristic", loss=4.0, lower_bound=None)
    assert not list(disagreements([PROOF, fine], 1e-9))
    for wrong in (
        replace(PROOF, solver="two", loss=4.0, lower_bound=4.0),
        replace(fine, loss=2.0),
        replace(fine, status="time_limit", loss=5.0, lower_bound=3.5),
    ):
        (text,) = disagreements([PROOF, wrong], 1e-9)
        assert "two" in text
    assert not list(disagreements([PROOF, replace(fine, loss=2.0, dataset="another")], 1e-9))


@needs_shared
def test_the_sources_of_unseen_lists_are_those_that_their_descriptions_count() -> None:
    """Sizes and losses as the READMEs beside the data state them, so that they are other people's numbers."""
    oracles = {}
    for source in unseen.SOURCES:
        nbest = source.load()
        assert (nbest.n_lists, nbest.n_features) == (source.n_lists, source.n_features)
        least = np.minimum.reduceat(nbest.statistics[:, 0], nbest.offsets[:-1])
        oracles[source.name] = (nbest.n_lists, nbest.n_features, pytest.approx(float(least.mean()), abs=6e-6))
    assert {name: oracles[name] for name in ORACLES} == ORACLES


def projective_trees(n: int) -> Iterator[tuple[int, ...]]:
    """All heads of n words of which exactly one has head 0, without a circle and without arcs that cross."""
    for heads in product(range(n + 1), repeat=n):
        arcs = [(min(arc), max(arc)) for arc in enumerate(heads, 1)]
        crossing = any(a < c < b < d for a, b in arcs for c, d in arcs)
        if heads.count(0) == 1 and not crossing and all(reaches_the_root(word, heads) for word in range(1, n + 1)):
            yield (0, *heads)


def reaches_the_root(word: int, heads: Sequence[int]) -> bool:
    for _ in heads:
        word = heads[word - 1] if word else 0
    return word == 0


@pytest.mark.parametrize(("n", "how_many"), [(1, 1), (2, 2), (3, 7), (4, 30), (5, 143)])
def test_the_best_trees_are_those_of_all_projective_trees(n: int, how_many: int) -> None:
    trees = list(projective_trees(n))
    assert len(trees) == how_many  # C(3n - 2, n - 1) / n
    arcs = np.random.default_rng(n).normal(size=(n + 1, n + 1))
    trees.sort(key=lambda heads: -sum(arcs[heads[word], word] for word in range(1, n + 1)))
    for k in (1, 2, 10, how_many, how_many + 7):
        assert [tuple(heads) for heads in best_trees(arcs, k).tolist()] == trees[:k]


def test_lists_have_the_features_and_errors_of_hand_counted_trees(tmp_path: Path) -> None:
    path = tmp_path / "toy.conllu"
    path.write_text(TREEBANK, encoding="utf-8")
    sentences = read_sentences(path)
    words = [" ".join(sentence.words[1:]) for sentence in sentences]
    assert words == ["A dog barks", "Dogs do n't bark", "Dogs bark"]
    nbest = parse_lists(sentences, sentences, n_trees=100)
    assert np.diff(nbest.offsets).tolist() == [7, 30]  # all trees; two words are too few for a list
    first = nbest.statistics[:7]
    assert sorted(first[:, 0]) == sorted(sum(map(int.__ne__, tree, (0, 2, 3, 0))) for tree in projective_trees(3))
    assert (first[:, 1] == 3).all()
    (right,) = np.flatnonzero(first[:, 0] == 0)
    # 9 arcs among 9 + 16 + 4 pairs. Of a dependent's tag, a head's word and the side: each pair of the first sentence
    # is there once, but for the root above a verb, three times, and above a noun, three times without an arc.
    # Each pair counts as if it had been seen once more, with the average rate.
    rate = 9 / 29
    arc, none = (1 + rate) / 2, rate / 2
    det = arc / (none + arc + none)
    noun = arc / (rate / 4 + none + arc)
    root = (3 + rate) / 4
    verb = root / (root + none + none)
    assert nbest.features[right, nbest.names.index("head")] == pytest.approx(log(det * noun * verb))
    # numbers of dependents left and right that are seen: (0, 0), (1, 0), (3, 0), (0, 1), a quarter each beforehand
    det, noun, verb, top = (1.25 / 2), (1.25 / 4), (2.25 / 4), (3.25 / 4)
    assert nbest.features[right, nbest.names.index("dependents")] == pytest.approx(log(det * noun * verb * top))


@pytest.mark.parametrize("reference", [40.0, 80.0])
def test_slopes_of_bleu_are_those_of_differences(reference: float) -> None:
    """Longer and shorter than the reference, against the oracle's BLEU."""
    sums = np.array([30.0, 60, 20, 50, 9, 40, 3, 30, reference])
    steps = ((sums + one, sums - one) for one in 1e-5 * np.eye(9))
    differences = [(log(1.0 - bleu_loss(up)) - log(1.0 - bleu_loss(down))) / 2e-5 for up, down in steps]
    assert np.allclose(log_bleu_slopes(sums), differences, rtol=1e-6, atol=1e-9)
