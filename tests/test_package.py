"""What the package offers by name, its docstrings, and what commands and results write as JSON."""

import ast
import inspect
import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from commands import assert_examples_run, json_of, refusal, run
from shared import ROOT

import lpmert
from lpmert import DataError, NBest, core

LISTS = NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
STUBS = [stub.relative_to(ROOT).with_suffix("") for stub in sorted((ROOT / "lpmert").rglob("*.pyi"))]
MODULES = [".".join(stub.parts).removesuffix(".__init__") for stub in STUBS]
FUNCTIONS = [name for name in lpmert.__all__ if name[0].islower() and inspect.isfunction(getattr(lpmert, name))]
CLASSES = ["NBest", "Region", "Linear", "Result"]
SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_stub_is_found_and_nothing_else(module: str) -> None:
    imported = import_module(module)
    assert imported.__all__, module
    for name in imported.__all__:
        assert getattr(imported, name) is not None
        assert name in dir(imported)
    with pytest.raises(AttributeError, match=f"'{module}' has no attribute 'nothing'"):
        _ = imported.nothing


def test_the_stub_of_the_core_has_what_is_compiled_and_nothing_else() -> None:
    stub = ast.parse((ROOT / "lpmert" / "core" / "__init__.pyi").read_text(encoding="utf-8"))
    stated = {one.name for one in stub.body if isinstance(one, ast.ClassDef | ast.FunctionDef)}
    stated |= {ast.unparse(one.target) for one in stub.body if isinstance(one, ast.AnnAssign)}
    assert {name for name in stated if not name.startswith("_")} == set(core.__all__)
    for one in stub.body:
        if isinstance(one, ast.ClassDef) and not one.name.startswith("_"):
            methods = {method.name for method in ast.walk(one) if isinstance(method, ast.FunctionDef)}
            compiled = getattr(core, one.name)
            for kind in compiled.__subclasses__() or [compiled]:  # a class that others derive from is their common face
                assert methods <= set(dir(kind))


def test_no_module_has_the_name_of_a_public_function() -> None:
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "lpmert").rglob("*.py")}
    functions = {name for name in lpmert.__all__ if callable(getattr(lpmert, name))}
    assert {"minimize", "compare", "verify"} <= functions
    assert not {f"lpmert.{name}" for name in functions} & modules


@pytest.mark.parametrize("given", [5, lpmert.Lattices([[1.0]], [0, 1], [0], [1], ["a"], ["a"])], ids=["5", "lattices"])
def test_what_is_no_lists_is_told_with_the_remedy(given: Any, tmp_path: Path) -> None:
    remedy = r"must be an NBest, not \w+; make one with lpmert.read\(...\) of files and data frames"
    for call in (
        lambda: lpmert.rerank(given, [1.0]),
        lambda: lpmert.rerank(given, [1.0], vote=True),
        lambda: lpmert.vote(given),
        lambda: lpmert.write(given, tmp_path / "x.npz"),
        *([lambda: lpmert.tune(given), lambda: lpmert.minimize(given)] if given == 5 else []),
    ):
        with pytest.raises(DataError, match=remedy):
            call()
    with pytest.raises(DataError, match="what minimize, check, tune or compare returned, not about 5"):
        lpmert.report(5, tmp_path / "x.html")


def sections(thing: Any) -> dict[str, str]:
    _, *parts = SECTION.split(inspect.getdoc(thing) or "")
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_every_argument_is_described_in_order(name: str) -> None:
    described = re.findall(r"^([*\w, ]+?)(?: :.*)?$", sections(getattr(lpmert, name))["Parameters"], re.MULTILINE)
    names = [one.strip("*") for line in described if not line.startswith(" ") for one in line.split(", ")]
    assert sorted(names) == sorted(inspect.signature(getattr(lpmert, name)).parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_function_returns_and_raises_is_described(name: str) -> None:
    function = getattr(lpmert, name)
    found = sections(function)
    assert ("Returns" in found) == (inspect.signature(function).return_annotation != "None")
    for error in re.findall(r"\w+", found["Raises"].split("\n")[0]):
        assert issubclass(getattr(lpmert, error), lpmert.LpmertError)


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_the_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    thing = getattr(lpmert, name)
    assert ">>> " in sections(thing)["Examples"]
    assert_examples_run(inspect.getdoc(thing) or "", name)


def test_a_result_of_another_version_is_refused(table: Path) -> None:
    lpmert.minimize(lpmert.read(table)).save(table.parent / "r.json")
    found = lpmert.Result.load(table.parent / "r.json")
    assert found.list_ids == ("a", "b")
    (table.parent / "r.json").write_text(json.dumps(found.to_dict() | {"schema": 2}))
    with pytest.raises(lpmert.DataError, match=r"not a result of lpmert .schema 2, and only 1 is known"):
        lpmert.Result.load(table.parent / "r.json")


class TestRates:
    def test_zero_one_losses_give_an_accuracy_and_what_may_be_a_gain_gives_none(self, tmp_path: Path) -> None:
        nbest = lpmert.NBest([[1.0], [0], [0], [1]], [0, 2, 4], [0, 1, 0, 1], names=["a"])
        result = lpmert.minimize(nbest)
        assert (result.loss, result.rates) == (1, {"accuracy": 0.5})
        assert lpmert.check(nbest, [1]).rates == lpmert.evaluate(nbest, [-1]).rates == {"accuracy": 0.5}
        lpmert.write(nbest, tmp_path / "x.npz")
        for command in (["solve"], ["evaluate", "--weights", "1"]):
            assert "accuracy      50.00% (1 wrong)" in run(*command, tmp_path / "x.npz").stdout
        gains = replace(nbest, statistic_names=["correct"])
        assert [doubt.code for doubt in lpmert.minimize(gains).warnings] == ["orientation"]
        assert lpmert.minimize(gains).rates == lpmert.evaluate(gains, [1]).rates == {}
        lpmert.write(gains, tmp_path / "x.tsv")
        assert lpmert.minimize(lpmert.read(tmp_path / "x.tsv", gain="correct")).rates == {"accuracy": 0.5}

    def test_errors_and_words_give_a_word_error_rate(self, tmp_path: Path) -> None:
        rows = "a\t1\t0\t0\t3\na\t0\t1\t2\t3\nb\t1\t0\t4\t5\nb\t0\t1\t1\t5\n"
        (tmp_path / "x.tsv").write_text(f"utt\tam\tlm\terrors\tref_words\n{rows}")
        table = [tmp_path / "x.tsv", "--segment", "utt", "--features", "am,lm", "--statistics", "errors,ref_words"]
        wer = [*table, "--metric", "wer"]
        outcome = run("solve", *wer, "-q", "--certificate", tmp_path / "proof")
        assert "WER           37.50% (3 errors)\nat least      37.50%" in outcome.stdout  # 2 + 1 of 3 + 5 words
        assert "loss 3 is the least" in run("verify", tmp_path / "proof", *wer, "-q").stdout
        told = run("check", *wer, "--weights", "1,0", "-q").stdout
        assert "WER           50.00% (4 errors)" in told
        assert "worse by      1 error (33.33%)" in told
        assert "on these lists             37.50%    37.50%" in run("tune", *wer, "-q").stdout
        (tmp_path / "x.tsv").write_text((tmp_path / "x.tsv").read_text().replace("4\t5", "4\t6"))
        for command in (["solve"], ["verify", tmp_path / "proof"], ["train", "-o", tmp_path / "w"]):
            assert "list 1 (from 0) is 5 for one hypothesis and 6 for another" in refusal(*command, *wer, "-q")

    def test_references_give_a_word_error_rate(self, tmp_path: Path) -> None:
        texts = ["a cat", "the cat", "x", "das Tier"]
        lists = lpmert.NBest([[1.0], [0], [1], [0]], [0, 2, 4], [0] * 4, names=["a"], list_ids=["u", "v"], texts=texts)
        lpmert.write(lists, tmp_path / "x.tsv")
        (tmp_path / "refs").write_text("u the cat sat\nv das Tier\n")
        flags = [tmp_path / "x.tsv", "--references", tmp_path / "refs"]
        # weight below 0: 1 word of 5 is missing; above 0: 2 of 3 and 2 of 2 are wrong
        for command, loss, rate in ((("solve",), 1, 0.2), (("evaluate", "--weights", "1"), 4, 0.8)):
            found = json_of(*command, *flags)
            assert (found["loss"], found["rates"]) == (loss, {"error_rate": rate})
        found = json_of("check", *flags, "--weights", "1", "--metric", "cer")
        assert found["rates"]["error_rate"] == found["loss"] / (len("the cat sat") + len("das Tier"))
