"""Another package adds a method, a metric and a format without a change here; ours are registered the same way."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import finished
from shared import ROOT

import lpmert
from lpmert import DataError, LpmertError, MethodError, MetricError
from lpmert.formats import Format
from lpmert.methods import Cells
from lpmert.registry import FORMATS, METHODS, METRICS, Registry

REGISTRIES = (METHODS, METRICS, FORMATS)

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
    (folder / f"{module}.py").write_text(PACKAGE)
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the tiny package, on the path of this process and of others."""
    folder = tmp_path / "site"
    folder.mkdir()
    installed(folder, "tiny-plugin", "tiny_plugin", ENTRY_POINTS)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))
    (tmp_path / "lists.words").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("tiny_plugin", None)


TABLE = ("lists.tsv", "--segment", "list", "--features", "am,lm", "--loss", "loss", "--json", "--quiet")


class TestAnotherPackage:
    def test_its_method_metric_and_format_are_used_from_python(self, plugin: Path) -> None:
        nbest = lpmert.read(plugin / "lists.words")
        assert nbest.features.tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]
        result = lpmert.minimize(nbest, method="one-feature", metric="doubled")
        assert (result.loss, result.method, result.lower_bound) == (6.0, "one-feature", None)
        assert lpmert.minimize(nbest, metric="doubled").lower_bound == 6.0
        lpmert.write(nbest, plugin / "again.words")
        assert lpmert.read(plugin / "again.words", "words").fingerprint == nbest.fingerprint
        for registry, name in zip(REGISTRIES, ("one-feature", "doubled", "words"), strict=True):
            assert registry.names()[: len(registry.own)] == tuple(registry.own)
            assert name in registry.names()

    def test_its_method_metric_and_format_are_used_from_the_command_line(self, plugin: Path) -> None:
        code, _, log = finished("convert", "lists.words", "lists.tsv", "--segment", "list")
        assert code == 0, log
        code, out, log = finished("solve", *TABLE, "--method", "one-feature", "--metric", "doubled")
        assert code == 0, log
        assert (json.loads(out)["loss"], json.loads(out)["method"]) == (6.0, "one-feature")
        code, _, log = finished("convert", "lists.tsv", "back.words", *TABLE[1:-2])
        assert code == 0, log
        assert lpmert.read(plugin / "back.words").fingerprint == lpmert.read(plugin / "lists.words").fingerprint

    def test_what_is_not_registered_is_reached_by_its_place_in_the_current_folder(
        self, plugin: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (plugin / "mine.py").write_text(PACKAGE)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        chosen = ["--method", "mine:OneFeature", "--metric", "mine:Doubled"]
        program = (
            "import sys; sys.path.remove(''); from lpmert.cli.main import main; main()"  # as the installed command
        )
        lpmert.write(lpmert.read(plugin / "lists.words"), plugin / "lists.tsv", segment="list")
        for folder, code in ((plugin, 0), (plugin / "site", 1)):
            run = subprocess.run(
                [sys.executable, "-c", program, "solve", str(plugin / TABLE[0]), *TABLE[1:], *chosen],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=280,
                check=False,
            )
            assert run.returncode == code, run.stderr
            assert ("mine" in run.stderr) == bool(code)
        monkeypatch.syspath_prepend(plugin)
        assert lpmert.minimize(lpmert.read("lists.words", "mine:WORDS"), method="mine:OneFeature").loss == 3.0

    @pytest.mark.usefixtures("plugin")
    def test_a_name_of_ours_stays_ours_and_the_log_says_so(self, caplog: pytest.LogCaptureFixture) -> None:
        assert METHODS.find("cells").__module__ == "lpmert.methods.cells.cells"
        METHODS.names()
        assert "'cells' of tiny-plugin has the name of one of ours; use tiny_plugin:OneFeature" in caplog.text

    def test_a_name_that_two_packages_register_is_refused_with_both(self, plugin: Path) -> None:
        installed(plugin / "site", "other", "other_plugin", ENTRY_POINTS.replace("tiny_plugin", "other_plugin"))
        with pytest.raises(MetricError, match="'doubled' is registered twice") as error:
            METRICS.find("doubled")
        assert "tiny_plugin:Doubled of tiny-plugin" in str(error.value)
        assert "other_plugin:Doubled of other" in str(error.value)
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
def test_a_name_that_leads_nowhere_is_refused_with_the_remedy(
    registry: Registry, name: str, error: type[LpmertError], words: str
) -> None:
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


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.group)
def test_ours_are_registered_as_those_of_other_packages_are(registry: Registry) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][registry.group] == dict(registry.own)
    for name in registry.own:
        assert registry.find(name) is not None


def test_every_format_of_ours_is_one_and_every_table_has_its_own() -> None:
    from lpmert.registry import TABLES

    formats = {name: FORMATS.build(name) for name in FORMATS.own}
    assert all(isinstance(one, Format) for one in formats.values())
    assert [name for name, one in formats.items() if one.fixed and one.graphs is None] == list(TABLES)
    assert [formats[name].fixed["format"] for name in TABLES] == list(TABLES)


def test_names_of_ours_cost_no_look_at_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "_foreign", lambda _: pytest.fail("looked at what is installed"))
    nbest = lpmert.NBest(np.eye(2), [0, 2], [[0.0], [1.0]])
    assert lpmert.minimize(nbest, method="sweep", metric="zero-one").loss == 0.0


def test_what_is_installed_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: read.append(group) or [])
    own = Registry("method", "lpmert.tests-of-the-registry", "MethodError", {"ours": "here:It"})
    assert [own.names(), own.names()] == [("ours",), ("ours",)]
    assert read == ["lpmert.tests-of-the-registry"]
    monkeypatch.syspath_prepend("another place")
    own.names()
    assert len(read) == 2  # packages of another path are others
