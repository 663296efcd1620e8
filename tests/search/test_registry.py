"""Options of methods, and what other packages register: stated once, checked, and the same from Python and commands."""

import inspect
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import COLUMNS, json_of, python, refusal, run, succeeded
from shared import ROOT

import lpmert
from lpmert import DataError, LpmertError, MethodError, MetricError
from lpmert.configurable import Option
from lpmert.methods import Annealing, Auto, Beam, Cells, Grid, LpMert, MinimumSampleRisk, Och, Pro
from lpmert.registry import FORMATS, METHODS, METRICS, Registry

ALL = {name: METHODS.find(name) for name in METHODS.own}


def written(value: Any) -> str:
    """Return a value as a user would write it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def outside(one: Option) -> list[Any]:
    """What an option refuses: numbers beyond each end of its range, what is no number, another text."""
    if one.kind not in (int, float):
        return [] if not one.choices else ["no such choice"]
    ends = [(one.least, -1), (one.above, 0), (one.most, 1), (one.below, 0)]
    return [one.kind(end + step) for end, step in ends if end is not None] + [float("nan")]


def test_what_lies_outside_the_range_of_an_option_is_refused() -> None:
    refused = 0
    for cls, one in [(own, option) for own in ALL.values() for option in own.options()]:
        for value in outside(one):
            with pytest.raises(MethodError, match=rf"option {one.name.split('.')[-1]} of method '\w[\w-]*' must be"):
                cls().configured({one.name: str(value)})
            refused += 1
    assert refused > 80


def test_options_are_what_signature_docstring_and_help_say_and_defaults_written_out_change_nothing() -> None:
    for cls in ALL.values():
        documentation = " ".join((inspect.getdoc(cls) or "").split())
        for one in cls.options():
            assert all((one.help, one.allowed))
            assert one.checked(one.default, cls.name) == one.default
            if "." not in one.name:
                assert inspect.signature(cls).parameters[one.name].default == one.default
                assert f"{one.name} : {one.allowed}" in documentation
                assert one.help in documentation
        texts = {one.name: written(one.default) for one in cls.options() if one.default != ()}
        assert cls().configured(texts) == cls()
        assert cls().configured(texts).settings() == cls.name


FROM_THE_COMMAND_LINE = {
    "och": ({"directions": "powell", "restarts": "3"}, Och(directions="powell", restarts=3)),
    "annealing": ({"schedule": "gamma", "variance": "inf"}, Annealing(schedule="gamma", variance=np.inf)),
    "msr": ({"kept": "1", "considered": "none", "alpha": "0.5"}, MinimumSampleRisk(kept=1, alpha=0.5)),
    "lp-mert": ({"published": "yes", "lazy": "off"}, LpMert(published=True, lazy=False)),
    "beam": ({"beam": "5"}, Beam(beam=5)),
    "grid": ({"ranges": "am:-3..15e0", "points": "4"}, Grid(ranges=(("am", -3.0, 15.0),), points=4)),
    "auto": ({"cells.leaf_lists": "3"}, Auto(cells=Cells(leaf_lists=3))),
}


@pytest.mark.parametrize("name", FROM_THE_COMMAND_LINE)
def test_options_are_set_alike_from_python_and_from_the_command_line(table: Path, name: str) -> None:
    texts, expected = FROM_THE_COMMAND_LINE[name]
    assert METHODS.build(name).configured(texts) == expected
    sets = [part for text in texts.items() for part in ("--set", "=".join(text))]
    found = json_of("solve", table, *COLUMNS, "--method", name, *sets)
    assert f"|method:{expected.settings()}|" in found["signature"]


@pytest.mark.parametrize(
    ("method", "sets", "words"),
    [
        ("och", ["directions=up"], "one of greedy, powell; got 'up'. See `lpmert methods och`"),
        ("och", ["restarts=many"], "a whole number of at least 0; got 'many'"),
        ("msr", ["alpha=1.5"], "a number of at least 0 and at most 1; got 1.5"),
        ("och", ["starts=2"], "no option 'starts'; its options are directions, restarts"),
        ("och", ["restarts"], "such as restarts=20"),
        ("och", ["restarts=1", "restarts=2"], "'restarts' is given twice"),
        ("sweep", ["restarts=1"], "method 'sweep' has no option 'restarts'; it has none"),
        ("lp-mert", ["lazy=perhaps"], "yes or no; got 'perhaps'"),
        ("grid", ["ranges=lm"], "ranges such as lm:0..15,words:-3..3; got 'lm'"),
        ("auto", ["cells.leaf_lists=-1"], "option leaf_lists of method 'cells' must be a whole number"),
        ("annealing", ["variance=nan"], "a number above 0, or none; got nan"),
    ],
    ids=str,
)
def test_a_wrong_option_is_wrong_usage_with_the_remedy(table: Path, method: str, sets: list[str], words: str) -> None:
    flags = [part for one in sets for part in ("--set", one)]
    said = refusal("solve", table, *COLUMNS, "--method", method, *flags, code=2)
    assert (words in said, "--set" in said) == (True, True)


def test_numbers_of_numpy_are_taken_and_those_of_another_kind_refused() -> None:
    given = MinimumSampleRisk(rounds=np.int64(3), alpha=np.float32(0.5))
    assert (given, given.settings()) == (MinimumSampleRisk(rounds=3, alpha=0.5), "msr(alpha=0.5, rounds=3)")
    assert Pro(variance=2).settings() == Pro(variance=2.0).settings()
    assert (Och(restarts=10**400).restarts, LpMert(lazy=np.bool_(False)).lazy) == (10**400, False)
    refused: list[tuple[Any, str, list[Any]]] = [
        (Och, "restarts", [True, 2.0, "2", None]),
        (Och, "directions", [1]),
        (LpMert, "lazy", [1, "yes"]),
        (MinimumSampleRisk, "alpha", [10**400]),
    ]
    for method, option, values in refused:
        for value in values:
            with pytest.raises(MethodError, match=rf"option {option} of method '{method.name}' must be"):
                method(**{option: value})


def test_a_comparison_takes_options_for_each_method_and_for_the_optimum(table: Path) -> None:
    sets = ["--set", "och.restarts=2", "--set", "random.draws=7", "--set", "leaf_lists=4"]
    found = json_of("compare", table, *COLUMNS, "--methods", "och,random", "--seeds", "1", "--method", "cells", *sets)
    assert all(one in json.dumps(found) for one in ("och(restarts=2)", "random(draws=7)", "cells(leaf_lists=4)"))


@pytest.mark.parametrize("method", ["perceptron", "boosting", "msr"])
def test_sparse_features_are_trained_from_the_command_line(tmp_path: Path, method: str) -> None:
    rng = np.random.default_rng(0)
    nbest = lpmert.NBest(rng.integers(0, 2, (60, 30)), np.arange(0, 61, 4), rng.integers(0, 3, 60))
    lists, path = tmp_path / "lists.npz", tmp_path / "weights.json"
    lpmert.write(nbest, lists)
    succeeded("train", lists, "--method", method, "--set", "base=feature7", "-o", path)
    told = json.loads(path.read_text())
    assert told["weights"]["feature7"] == 1.0
    assert lpmert.evaluate(nbest, told["weights"]).loss == told["loss"] <= told["loss_before"]
    assert told["weights"] == dict(zip(nbest.names, ALL[method](base="feature7").train(nbest).weights, strict=True))
    for wrong, words in (("och", "does not train"), ("guess", "no method 'guess'")):
        assert words in refusal("train", lists, "--method", wrong, code=2)


def test_the_methods_are_listed_with_their_options() -> None:
    listed = run("methods")
    assert [line.split()[0] for line in listed.stdout.splitlines() if not line.startswith(" ")] == list(METHODS.names())
    for name in METHODS.own:
        shown = run("methods", name).stdout
        assert METHODS.find(shown.split()[1].strip("()")) is ALL[name]
        assert all(f"\n{one.name}=" in shown for one in ALL[name].options())
    assert run("methods", "guess").exit_code == 2


PACKAGE = '''
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import lpmert
from lpmert.formats import Format
from lpmert.methods import Found, Method, Run


@dataclass(frozen=True)
class OneFeature(Method):
    """All weight on one feature."""

    place: int = 0
    extra: object = None

    name = "one-feature"
    proves = False
    takes_ratios = True

    def start(self, task):
        return Run(task, lambda problem, start, seed, clock: Found(np.eye(problem.n_features)[self.place]))


class Doubled:
    """Twice the losses."""

    name = "doubled"
    signature = "metric:doubled"

    def check(self, statistics):
        pass

    def losses(self, statistics):
        return 2 * statistics[:, 0]

    def loss(self, total):
        return 2 * float(total[0])

    score = loss


def read_words(path):
    rows = [[float(word) for word in line.split()] for line in Path(path).read_text().splitlines()]
    numbers, *_ = zip(*rows)
    starts = [k for k, number in enumerate(numbers) if k == 0 or number != numbers[k - 1]]
    return lpmert.NBest([row[1:-1] for row in rows], [*starts, len(rows)], [[row[-1]] for row in rows], ["am", "lm"])


def write_words(nbest, path):
    lists = np.repeat(np.arange(nbest.n_lists), np.diff(nbest.offsets))
    rows = np.column_stack([lists, nbest.dense_features(), nbest.statistics])
    Path(path).write_text("".join(" ".join(map(repr, row)) + "\\n" for row in rows.tolist()))


WORDS = Format("numbers between spaces", read_words, write_words, endings=(".words",))
'''

ENTRY_POINTS = """
[lpmert.methods]
one-feature = tiny_plugin:OneFeature
missing = tiny_plugin:Missing
cells = tiny_plugin:OneFeature

[lpmert.metrics]
doubled = tiny_plugin:Doubled

[lpmert.formats]
words = tiny_plugin:WORDS
broken = no_such_module:BROKEN
"""

TEXT = "0 1 0 0\n0 0 1 2\n1 0 1 1\n1 1 0 3\n"
"""Two lists; am alone loses 0 + 3, lm alone 2 + 1, and no weights tell the lists apart: the least is 3."""


def installed(folder: Path, name: str, module: str, entry_points: str) -> None:
    """Put a package into a folder the way that installers do."""
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{module}.py").write_text(PACKAGE)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the tiny package, on the path of this process and of others."""
    folder = tmp_path / "site"
    installed(folder, "tiny-plugin", "tiny_plugin", ENTRY_POINTS)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))
    (tmp_path / "lists.words").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("tiny_plugin", None)


LISTS = ("lists.tsv", "--segment", "list", "--features", "am,lm", "--loss", "loss")


def test_its_method_metric_and_format_are_used_from_python(plugin: Path) -> None:
    nbest = lpmert.read(plugin / "lists.words")
    assert nbest.features.tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]
    result = lpmert.minimize(nbest, method="one-feature", metric="doubled")
    assert (result.loss, result.method, result.lower_bound) == (6.0, "one-feature", None)
    assert lpmert.minimize(nbest, metric="doubled").lower_bound == 6.0
    own: Any = METHODS.find("one-feature")  # options that it does not declare are its fields
    result = lpmert.minimize(nbest, method=own().configured({"place": "1"}))
    assert (result.loss, result.signature[-34:]) == (3.0, "method:one-feature(place=1)|seed:0")
    for settings, said in (({"place": "1.5"}, "whole number"), ({"extra": "x"}, "from Python only")):
        with pytest.raises(MethodError, match=said):
            own().configured(settings)
    lpmert.write(nbest, plugin / "again.words")
    assert lpmert.read(plugin / "again.words", "words").fingerprint == nbest.fingerprint
    for registry, name in ((METHODS, "one-feature"), (METRICS, "doubled"), (FORMATS, "words")):
        assert registry.names()[: len(registry.own)] == tuple(registry.own)
        assert name in registry.names()


def test_its_method_metric_and_format_are_used_from_the_command_line(plugin: Path) -> None:
    succeeded("convert", "lists.words", "lists.tsv")
    found = json_of("solve", *LISTS, "--method", "one-feature", "--metric", "doubled")
    assert (found["loss"], found["method"]) == (6.0, "one-feature")
    succeeded("convert", "lists.tsv", "back.words", *LISTS[1:])
    assert lpmert.read(plugin / "back.words").fingerprint == lpmert.read(plugin / "lists.words").fingerprint


def test_the_unregistered_is_reached_by_its_place(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plugin / "mine.py").write_text(PACKAGE)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    chosen = ["--method", "mine:OneFeature", "--metric", "mine:Doubled"]
    program = "import sys; sys.path.remove(''); from lpmert.cli.main import main; main()"  # as the installed command
    lpmert.write(lpmert.read(plugin / "lists.words"), plugin / "lists.tsv")
    for folder, code in ((plugin, 0), (plugin / "site", 1)):
        run = python("-c", program, "solve", plugin / LISTS[0], *LISTS[1:], *chosen, code=code, cwd=folder)
        assert ("mine" in run.stderr) == bool(code)
    monkeypatch.syspath_prepend(plugin)
    assert lpmert.minimize(lpmert.read("lists.words", "mine:WORDS"), method="mine:OneFeature").loss == 3.0


@pytest.mark.usefixtures("plugin")
def test_a_name_of_ours_stays_ours_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert METHODS.find("cells").__module__ == "lpmert.methods.cells"
    METHODS.names()
    assert "'cells' has the name of one of ours; use tiny_plugin:OneFeature" in caplog.text


def test_a_name_that_two_packages_register_is_refused_with_both(plugin: Path) -> None:
    installed(plugin / "site", "other", "other_plugin", ENTRY_POINTS.replace("tiny_plugin", "other_plugin"))
    both = "'doubled' is registered twice.*give one of other_plugin:Doubled, tiny_plugin:Doubled"
    with pytest.raises(MetricError, match=both):
        METRICS.find("doubled")
    assert METRICS.build("other_plugin:Doubled").name == "doubled"


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("registry", "name", "error", "words"),
    [
        (METHODS, "guess", MethodError, "no method 'guess'; choose one of auto, cells"),
        (METRICS, "guess", MetricError, "one-feature|doubled, or give module:Name"),
        (FORMATS, "guess", DataError, "no format 'guess'.*words"),
        (METHODS, "missing", MethodError, "cannot be loaded from tiny_plugin:Missing: module 'tiny_plugin' has no"),
        (METHODS, "no_such_module:X", MethodError, "cannot be loaded from no_such_module:X: No module named"),
        (METHODS, "tiny_plugin:", MethodError, "cannot be loaded"),
        (METHODS, ":X", MethodError, "cannot be loaded"),
        (METHODS, "tiny_plugin:Format", MethodError, "cannot be made without arguments"),
    ],
    ids=str,
)
def test_a_name_of_nothing_is_refused(registry: Registry, name: str, error: type[LpmertError], words: str) -> None:
    with pytest.raises(error, match=words):
        registry.build(name)


@pytest.mark.usefixtures("plugin")
def test_what_is_of_another_kind_is_refused() -> None:
    nbest = lpmert.read("lists.words")
    with pytest.raises(MethodError, match="a method must be one of"):
        lpmert.minimize(nbest, method="tiny_plugin:Doubled")
    with pytest.raises(MethodError):
        lpmert.minimize(nbest, method=Cells)
    with pytest.raises(MetricError, match="metric must be a name or have"):
        lpmert.minimize(nbest, metric="tiny_plugin:WORDS")
    with pytest.raises(DataError, match="is not a format"):
        lpmert.read("lists.words", "tiny_plugin:Doubled")


def test_names_of_ours_cost_no_look_at_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "_foreign", lambda _: pytest.fail("looked at what is installed"))
    nbest = lpmert.NBest(np.eye(2), [0, 2], [[0.0], [1.0]])
    assert lpmert.minimize(nbest, method="sweep", metric="zero-one").loss == 0.0
