"""Certificates prove what enumeration in fractions finds: kinds of lists and graphs, metrics, regions and trees.

The problems are those of `problems.py` and `graph_problems.py`, whose oracles share no code with engines and checker.
"""

from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from graph_problems import METRICS as GRAPH_METRICS
from graph_problems import graph_problem, with_ties
from problems import FEATURES, LOSSES, METRICS, REGIONS, Given, problem
from searches import many_more

import lpmert
from lpmert import CertificateError, MethodError, RegionError, verify
from lpmert.certificates.write.certify import write_certificate

pytestmark = pytest.mark.usefixtures("poor_start")

WORTHS = (*LOSSES, *METRICS)
TREES = ("boxes", "selections", None)
WHERE = ["", *(region for region in REGIONS if region != "many")]  # whose cones take exact arithmetic minutes
TIES = ("first", "best", "worst")
REFUSALS = (
    "fewer digits",
    "no weights to certify",
    "tie",
    "too large for a certificate",
    "no proof is known for a loss above 1",
)
"""What is refused: regions in decimals, weights that doubles do not have, graphs, and some fractions."""


def certified(given: Given, path: Path, tree: str | None = None, ties: str = "first") -> str:
    """Hold the certificate of the optimum to the least loss; return how it ended."""
    settings = {"metric": given.metric, "region": given.region, "ties": ties}
    try:
        result = lpmert.minimize(given.data, **settings)
    except RegionError:
        return "nothing inside, or digits that doubles do not hold"
    if tree and lpmert.Problem(given.nbest, given.metric, region=given.region).canonical.n_features == 0:
        tree = None
    try:
        if tree:
            write_certificate(path, given.nbest, result, **settings, kind=tree)
        else:
            lpmert.certify(given.data, result, path, **settings)
    except (MethodError, CertificateError) as error:
        assert any(words in str(error) for words in REFUSALS), given.name  # noqa: PT017
        return "refused"
    found = verify(path, given.data, metric=given.metric, ties=ties)
    least, attained = given.least, given.attained(result.weights.tolist())[0]
    slack = 0 if given.loss is None or given.exact else Fraction(1, 10**12)
    assert abs(found.bound - Fraction(least)) <= slack, given.name
    assert abs(found.loss - Fraction(attained)) <= slack or given.equations, given.name
    assert found.proved == (found.loss == found.bound)
    return "proved" if found.proved else "a gap"


@pytest.mark.parametrize("seeds", [range(1), many_more(range(1, 12))])
@pytest.mark.parametrize("kind", FEATURES)
def test_certificates_of_lists_prove_the_least_loss(kind: str, seeds: range, tmp_path: Path) -> None:
    """Losses, metrics, trees and rules for ties take turns."""
    ended: Counter[str] = Counter()
    place = list(FEATURES).index(kind)
    for seed in seeds:
        for k, region in enumerate(WHERE):
            turn = place + k + 10 * seed
            given = problem(kind, WORTHS[turn % len(WORTHS)], 200 + seed, kind=region)
            ties = TIES[turn % 3] if given.loss is None and isinstance(given.metric, str) else "first"
            given = given if ties == "first" else with_ties(given, ties)
            ended[certified(given, tmp_path / f"{turn}.json", TREES[(place + 2 * k + seed) % len(TREES)], ties)] += 1
    assert ended["proved"] > 3 * len(seeds), ended


@pytest.mark.parametrize("seeds", [range(6), many_more(range(6, 60))])
@pytest.mark.parametrize("kind", ["integers", "dyadic", "ternary", "duplicates"])
def test_certificates_of_lattices_and_hypergraphs_prove_the_least_loss_of_all_paths(
    kind: str, seeds: range, tmp_path: Path
) -> None:
    """Of no more than three features: a certificate has a cone for each orthant."""
    ended: Counter[str] = Counter()
    for seed in seeds:
        for k, metric in enumerate(GRAPH_METRICS):
            given = graph_problem(kind, metric, seed, kind=WHERE[(seed + 2 * k) % len(WHERE)])
            if given.features.shape[1] <= 3:
                ended[certified(given, tmp_path / f"{seed}-{k}.json")] += 1
    assert ended["proved"] > len(seeds), ended
