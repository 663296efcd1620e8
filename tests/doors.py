"""Every way into the kernels, on small problems: what a wheel is to hold compiled.

PYTHONPATH=tests python tests/doors.py      writes lpmert/numeric/entries.json anew
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from shared import ROOT
from strategies import random_nbest

import lpmert
from lpmert.formats.lattices import read_lattices
from lpmert.model.problem import Problem
from lpmert.numeric.ahead import entries
from lpmert.numeric.kernels import Kernel
from lpmert.numeric.winners import possible_winners
from lpmert.registry import METHODS
from lpmert.search.improve import Improver
from lpmert.search.method import Task
from lpmert.search.start import first_incumbent

ENTRIES = ROOT / "lpmert" / "numeric" / "entries.json"
_TIME = 1.0


def bleu_nbest(n_lists: int, size: int, dimension: int) -> lpmert.NBest:
    """Lists with the statistics of BLEU."""
    rng = np.random.default_rng(1)
    count = n_lists * size
    totals = rng.integers(8, 12, count)[:, None] - np.arange(4)
    matches = np.sort(rng.integers(0, totals[:, 3:] + 1, (count, 4)), axis=1)[:, ::-1]
    reference = np.repeat(rng.integers(8, 12, n_lists), size)
    statistics = np.column_stack([np.stack([matches, totals], axis=2).reshape(count, 8), reference])
    return lpmert.NBest(rng.normal(size=(count, dimension)), np.arange(0, count + 1, size), statistics.astype(float))


def chrf_nbest(n_lists: int, size: int, dimension: int) -> lpmert.NBest:
    """Lists with the statistics of chrF."""
    rng = np.random.default_rng(2)
    count = n_lists * size
    hypothesis = rng.integers(5, 9, (count, 6))
    reference = np.repeat(rng.integers(5, 9, (n_lists, 6)), size, axis=0)
    matching = rng.integers(0, np.minimum(hypothesis, reference) + 1)
    statistics = np.stack([hypothesis, reference, matching], axis=2).reshape(count, 18)
    return lpmert.NBest(rng.normal(size=(count, dimension)), np.arange(0, count + 1, size), statistics.astype(float))


PROBLEMS = {
    "loss": lambda n, dimension: random_nbest(lists=n, size=6, dimension=dimension),
    "bleu": lambda n, dimension: bleu_nbest(n, 6, dimension),
    "chrf": lambda n, dimension: chrf_nbest(n, 6, dimension),
    "f1": lambda n, dimension: random_nbest(lists=n, size=6, dimension=dimension, kind="f1"),
}
REGIONS = {
    "everywhere": None,
    "limits": lpmert.Region(nonnegative=True),
    "cap": lpmert.Region(cosine=0.5, around=[1.0, 1.0, 1.0]),
}


def go_through(methods: list[str], metrics: list[str], regions: list[str]) -> None:
    """Run methods with metrics and regions; those that a method does not take are left out."""
    for metric in metrics:
        for region in regions:
            for method in methods:
                for n_lists, dimension in ((14, 3), (30, 2), (8, 1)):
                    if region == "cap" and dimension != 3:
                        continue
                    try:
                        lpmert.minimize(
                            PROBLEMS[metric](n_lists, dimension),
                            metric=metric,
                            method=method,
                            region=REGIONS[region],
                            time_limit=_TIME,
                        )
                    except (lpmert.MethodError, lpmert.RegionError):
                        continue


def improve(problem: Problem) -> None:
    """Go on with line searches as beside a long search."""
    improver = Improver(Task(problem, problem.canonical, lambda: first_incumbent(problem, 0, None)), 1.0)
    for _ in range(24):
        improver.earn(1)


def everything() -> None:
    """Go through every door."""
    own = sorted(METHODS.own)
    go_through(own, list(PROBLEMS), list(REGIONS))
    nbest = speech()
    with tempfile.TemporaryDirectory() as folder:
        lpmert.certify(nbest, lpmert.minimize(nbest), f"{folder}/proof.json")
        pictures(nbest, folder)
    lpmert.compare(nbest, {"och": "och", "mira": "mira"}, seeds=1)
    for metric, make in PROBLEMS.items():
        lpmert.tune(make(14, 3), metric=metric, quick=True, time_limit=_TIME)
        improve(Problem(make(14, 6), metric))
    possible_winners(nbest.dense_features() * 1.0, nbest.offsets.copy())  # as of many hypotheses
    word_graphs()
    lpmert.minimize(bleu_nbest(14, 6, 5), metric="bleu", method="cells", time_limit=_TIME)  # over boxes
    for method in ("cells", "choices", "groups", "lp-mert"):
        lpmert.minimize(random_nbest(3, lists=150, size=20, dimension=6), method=method, time_limit=_TIME)


def pictures(nbest: lpmert.NBest, folder: str) -> None:
    """Draw a page."""
    lpmert.report(lpmert.minimize(nbest), f"{folder}/report.html", data=nbest, pairs=[("am", "lm")])


def word_graphs() -> None:
    """Go through the doors for lattices and hypergraphs."""
    speech = ROOT / "examples" / "speech"
    lattices = lpmert.load_lattices(speech / "lattices", speech / "text")
    hypergraphs = lpmert.Hypergraphs(
        [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 1.0, 0.0]],
        [0, 4],
        [1, 1, 2, 0],
        [[], [], [], [1, 2]],
        [["hour"], ["our"], ["an"], [1, 0]],
        ["an hour"],
    )
    region = lpmert.Region(fixed={"acoustic": 1.0}, bounds={"lm": (1.0, 30.0), "words": (-20.0, 20.0)})
    for metric in ("wer", "bleu"):
        for method in ("auto", "och"):
            lpmert.minimize(lattices, metric=metric, method=method, region=region, time_limit=_TIME)
            lpmert.minimize(hypergraphs, metric=metric, method=method, time_limit=_TIME)
    lpmert.n_best(lattices, [1.0, 9.5, 0.0], n=5)
    read_lattices(speech / "lattices", speech / "text", n_best=5, scales={"lm": 9.5})


def kernels() -> list[Kernel]:
    """Return all kernels of modules that have been imported."""
    modules = [module for name, module in sys.modules.items() if name.startswith("lpmert.")]
    found = [(module, value) for module in modules for value in vars(module).values()]
    return [value for module, value in found if isinstance(value, Kernel) and value.__module__ == module.__name__]


def compiled() -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield (module, name, types of the arguments) of each kernel that Python has called in this process."""
    for kernel in kernels():
        if kernel._run is not None:  # and not only other kernels
            yield from ((kernel.__module__, kernel.__name__, kinds) for kinds in kernel.dispatcher.overloads)


def speech() -> lpmert.NBest:
    """Read the lists of README's example."""
    return lpmert.read_table(
        ROOT / "examples/asr/nbest.tsv.gz", segment="utterance", features="am,lm,words", loss="errors"
    )


def speech_lattices() -> None:
    """Search as docs/speech.md does first."""
    folder = ROOT / "examples" / "speech"
    region = lpmert.Region(fixed={"acoustic": 1.0}, bounds={"lm": (1.0, 30.0), "words": (-20.0, 20.0)})
    lpmert.minimize(lpmert.load_lattices(folder / "lattices", folder / "text"), metric="wer", region=region)


GROUPS: dict[str, Callable[[], object]] = {
    "sums": lambda: lpmert.minimize(speech()),
    "ratios": lambda: go_through(["auto"], ["bleu"], ["everywhere"]),
    "lattices": speech_lattices,
}
"""What users begin with; kernels that one of these needs are compiled side by side."""


def of_group(name: str) -> list[list[Any]]:
    """Return what is compiled, in a process of its own, of a group."""
    code = f"import doors, json; doors.GROUPS[{name!r}](); print(json.dumps(doors.entries(doors.compiled())))"
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    command, environment = [sys.executable, "-c", code], os.environ | {"PYTHONPATH": path}
    table = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    found: list[list[Any]] = table["entries"]
    return found


if __name__ == "__main__":
    everything()
    table = entries(compiled())
    lines = [json.dumps(entry) for entry in table["entries"]]
    tuples = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in table["tuples"].items()]
    of_groups = {name: [lines.index(json.dumps(entry)) for entry in of_group(name)] for name in GROUPS}
    groups = [f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in of_groups.items()]
    ENTRIES.write_text(
        '{"tuples": {\n' + ",\n".join(tuples) + '\n}, "groups": {\n' + ",\n".join(groups) + '\n}, "entries": [\n'
        + ",\n".join(lines) + "\n]}\n"
    )  # fmt: skip
