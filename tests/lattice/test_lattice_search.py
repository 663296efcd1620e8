"""The optimum over all paths of lattices, against all of them one by one in exact arithmetic that shares no code."""

from time import process_time

import numpy as np
import pytest
from graph_problems import Drawn
from shared import needs_shared, shared

import lpmert
from lpmert import Region, Status
from lpmert.model.canonical import CallerWeights
from lpmert.model.graphs import Lattices
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.workers import using_workers


@pytest.mark.parametrize("jobs", [2, 3, 7])
def test_threads_decode_lattices_side_by_side_as_one_does(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.model.lattice_problem._LINKS_OF_UNIT", 3)
    for seed in range(700, 712):
        lattices = Drawn(seed, "ternary", 6, 3).lattices()
        weights = CallerWeights(np.random.default_rng(seed).integers(-2, 3, 3).astype(np.float64))
        alone = LatticeProblem(lattices).decode(weights)
        with using_workers("threads", jobs):
            together = LatticeProblem(lattices).decode(weights)
        assert [sorted(way.tolist() for way in won.ways) for won in alone.winners] == [
            sorted(way.tolist() for way in won.ways) for won in together.winners
        ]
        assert (alone.loss, alone.strict) == (together.loss, together.strict)


def test_paths_that_are_remembered_are_those_of_the_weights_asked_about() -> None:
    lattices = Drawn(720, "integers", 4, 2).lattices()
    remembering = LatticeProblem(lattices)
    asked = [[1.0, 2.0], [2.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -2.0], [3.0, 1.0]]
    for weights in [*asked, *reversed(asked), *asked]:
        given = remembering.evaluate(weights)
        given.statistics[:] = -1.0  # whoever gets an evaluation may write to it
        anew = LatticeProblem(lattices).evaluate(weights)
        again = remembering.evaluate(weights)
        assert (again.loss, again.tied_lists) == (anew.loss, anew.tied_lists)
        assert again.statistics.tolist() == anew.statistics.tolist()


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(("n_lattices", "errors", "most"), [(60, 228, 55), (100, 386, None)])
def test_the_least_errors_of_a_recogniser_are_those_of_an_independent_search(
    n_lattices: int, errors: int, most: int | None
) -> None:
    """The figures are those of a search of its own, in its data's description, by plain dominance at the rays."""
    folder = shared("asr-lattices")
    silent = ["<sil>", "[NOISE]", "[SPEECH]"]
    whole = lpmert.load_lattices(folder / "lattices.tar.xz", folder / "references.tsv.gz", silent=silent, variants=True)
    lattices = whole.restrict(slice(0, n_lattices))
    region = Region(fixed={"acoustic": 1.0}, bounds={"lm": (3.0, 20.0), "words": (-12.0, 12.0)})
    result = lpmert.minimize(lattices, region=region)
    assert (result.loss, result.lower_bound, result.status) == (errors, errors, Status.OPTIMAL)
    assert lpmert.evaluate(lattices, result).loss == errors
    if most is not None:
        problem = LatticeProblem(lattices)
        assert sum(problem.least_loss(s) for s in range(n_lattices)) == most
        assert lpmert.evaluate(lattices, [1.0, 9.5, -0.63]).loss == 250


def test_lattices_with_hundreds_of_features_keep_to_the_time_limit() -> None:
    """The limit is half a second of the clock; processor time does not grow with load, and the margin is large."""
    rng = np.random.default_rng(0)
    places, width, n_features = 6, 3, 640
    sources = np.tile(np.repeat(np.arange(places), width), 2)
    features = rng.integers(-9, 10, size=(len(sources), n_features)).astype(float)
    words = [f"w{k % 3}" for k in range(len(sources))]
    offsets = [0, places * width, 2 * places * width]
    lattices = Lattices(features, offsets, sources, sources + 1, words, ["w0 w1 w2 w0 w1 w2"] * 2)
    began = process_time()
    result = lpmert.minimize(lattices, metric="wer", time_limit=0.5)
    assert process_time() - began < 10.0
    assert result.status is Status.TIME_LIMIT
    assert 0.0 <= result.lower_bound <= result.loss
