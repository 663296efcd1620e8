"""The folder of a loop: only the same loop may continue, and changed files are refused."""

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looping.test_loop import START, Toy, looped, plain

import lpmert
from lpmert.looping import loop as loops


def begun(folder: Path) -> Toy:
    """Leave two iterations of a loop in a folder, and return its decoder."""
    toy = Toy()
    looped(toy, folder=folder, iterations=2)
    return toy


def goes_on(folder: Path, decoder: Toy | None = None) -> str:
    return plain(looped(decoder, folder=folder, resume=True))


def test_an_unwritable_folder_is_named_and_the_loop_goes_on_later(tmp_path: Path) -> None:
    folder, aside = tmp_path / "loop", tmp_path / "aside"
    toy = Toy()
    decode = toy.decode

    def breaking(weights: Mapping[str, float], n: int) -> lpmert.Decoded:
        if len(toy.asked) == 1:
            folder.rename(aside)
            folder.write_text("no folder")
        return decode(weights, n)

    toy.decode = breaking
    with pytest.raises(lpmert.DataError, match=re.escape(str(folder)) + ".*cannot be written"):
        looped(toy, folder=folder)
    folder.unlink()
    aside.rename(folder)
    assert goes_on(folder) == plain(looped())


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "n": ({"n": 4}, "n = 3, not 4"),
    "seed": ({"seed": 1}, "has seed = 0, not 1"),
    "references": ({"references": {**Toy().references, "u0": "x"}}, "has other references; resume it"),
    "region": ({"region": lpmert.Region(nonnegative=True)}, "region"),
    "equal words": ({"equal_words": "latest"}, "equal_words"),
    "order": ({"weights": dict(reversed(START.items()))}, "weights in another order; resume it with the same"),
    "held out": ({"held_out": Toy(1), "held_out_references": Toy(1).references}, "has held_out = False, not True"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_loop_with_other_settings_does_not_go_on(tmp_path: Path, name: str) -> None:
    """The order of weights is that of the saved features; references are compared by digests, which are not shown."""
    toy = begun(tmp_path)
    change, named = OTHERS[name]
    own = {"decoder": toy, "weights": START, "references": toy.references, "n": 3, "folder": tmp_path}
    with pytest.raises(lpmert.DataError, match=f"the loop there .*{named}") as caught:
        lpmert.loop(**{**own, **change}, resume=True)
    assert not re.search("[0-9a-f]{20}", str(caught.value).replace(str(tmp_path), ""))
    with pytest.raises(lpmert.DataError, match="has a loop already"):
        lpmert.loop(**own)


@pytest.mark.parametrize("resume", [False, True])
def test_iterations_without_settings_are_refused(tmp_path: Path, resume: bool) -> None:
    begun(tmp_path)
    (tmp_path / "settings.json").unlink()
    with pytest.raises(lpmert.DataError, match=r"has iterations, but no settings\.json; the folder was changed"):
        looped(folder=tmp_path, resume=resume)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "less": lambda found: found.popitem(),
    "more": lambda found: found.update(more=1),
    "another type": lambda found: found.update(seconds="x"),
    "another number": lambda found: found.update(seconds=found["seconds"] + 1.0),
    "without end": lambda found: found.update(seconds=float("inf")),
    "another order of weights": lambda found: found.update(weights=dict(reversed(found["weights"].items()))),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["step.json", "decoded.json"])
def test_changed_files_are_refused_by_name(tmp_path: Path, name: str, change: str) -> None:
    begun(tmp_path)
    place = tmp_path / "001" / name
    found = json.loads(place.read_text())
    CHANGES[change](found)
    place.write_text(json.dumps(found))
    with pytest.raises(lpmert.DataError, match="the folder was changed") as caught:
        goes_on(tmp_path)
    assert caught.value.path == str(place)


def test_a_decoding_with_other_weights_is_refused(tmp_path: Path) -> None:
    """As of another loop, whose files are whole."""
    begun(tmp_path / "one")
    looped(weights={**START, "lm": 0.5}, folder=tmp_path / "other", iterations=1)
    for kind in ("json", "npz"):
        (tmp_path / "other" / "001" / f"decoded.{kind}").replace(tmp_path / "one" / "001" / f"decoded.{kind}")
    with pytest.raises(lpmert.DataError, match="weights of another decoding; the folder was changed"):
        goes_on(tmp_path / "one")


@pytest.mark.parametrize("name", ["settings.json", "001/step.json", "001/decoded.json"])
@pytest.mark.parametrize("depth", [100, 978, 996, 100_000])
def test_files_that_are_nested_too_deep_are_refused_by_name(tmp_path: Path, name: str, depth: int) -> None:
    begun(tmp_path)
    place = tmp_path / name
    found = json.loads(place.read_text())
    found["n" if name == "settings.json" else "weights"] = "deep"
    place.write_text(json.dumps(found).replace('"deep"', "[" * depth + "]" * depth))
    with pytest.raises(lpmert.DataError, match="the folder was changed"):
        goes_on(tmp_path)


def test_lists_of_other_inputs_are_refused(tmp_path: Path) -> None:
    begun(tmp_path)
    place = tmp_path / "002" / "decoded.npz"
    lists = lpmert.read(place)
    lpmert.write(lists.restrict(slice(0, 5)), place)
    with pytest.raises(lpmert.DecoderError, match="lacks u5, u6"):
        goes_on(tmp_path)


def test_unusable_outputs_are_not_saved(tmp_path: Path) -> None:
    """A decoder that forgets its words is fixed, and the loop continues."""
    silent = Toy()
    silent.lists = lambda *given: replace(Toy.lists(silent, *given), texts=None)
    with pytest.raises(lpmert.DataError):
        looped(silent, folder=tmp_path)
    assert not (tmp_path / "001").exists()
    assert goes_on(tmp_path) == plain(looped())


def test_a_failure_names_the_iteration_and_what_to_do(tmp_path: Path) -> None:
    class Failing(Toy):
        def decode(self, weights: Mapping[str, float], n: int) -> lpmert.Decoded:
            if self.asked:
                raise lpmert.DecoderError("the decoder is out of memory")
            return super().decode(weights, n)

    for decoder, more, where in (
        (Failing(), {}, "iteration 2: "),
        (Toy(), {"held_out": Failing(1)}, "iteration 2, held-out inputs: "),
    ):
        with pytest.raises(lpmert.DecoderError) as caught:
            looped(decoder, **more)
        assert str(caught.value) == f"{where}the decoder is out of memory"
    with pytest.raises(lpmert.DecoderError) as caught:
        looped(Failing(), folder=tmp_path)
    first, last = str(caught.value).splitlines()
    assert first == "iteration 2: the decoder is out of memory"
    assert last.startswith(f"earlier decodings are saved in {tmp_path}")
    assert last.endswith("continue with resume=True (--resume)")
    assert goes_on(tmp_path) == plain(looped())


def test_inputs_that_lose_their_hypotheses_are_named() -> None:
    """An output may have no alternatives, but a file that was cut off between two lists looks the same."""

    class Cut(Toy):
        def decode(self, weights: Mapping[str, float], n: int) -> lpmert.Decoded:
            lists = super().decode(weights, n).lists
            own = {name: lists.texts[row] for name, row in zip(lists.list_ids, lists.offsets, strict=False)}
            return lpmert.Decoded(lists.restrict(slice(0, 10)) if len(self.asked) > 1 else lists, own)

    found = looped(Cut(), iterations=2)
    said = "iteration 2: the decoder gave no hypotheses for 2 of 12 inputs, which had some before: u10, u11; check that"
    assert [one[: len(said)] for one in found.warnings if one.startswith("iteration")] == [said]
    assert not [one for one in looped().warnings if "no hypotheses" in one]


def test_of_loops_that_begin_at_once_in_a_folder_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others look for settings before the first has written its own, but must not overwrite them."""
    write, begins, refused = loops._write, threading.Event(), []

    def slowly(place: Path, content: Any) -> None:
        begins.set()
        time.sleep(0.3)
        write(place, content)

    def begin(n: int) -> None:
        try:
            loops.Journal(tmp_path, {"n": n}, resume=n == 5)
        except lpmert.DataError as error:
            refused.append(str(error))

    monkeypatch.setattr(loops, "_write", slowly)
    threads = [threading.Thread(target=begin, args=(n,)) for n in (3, 4, 5)]
    for one in threads:
        one.start()
        assert begins.wait(30)
    for one in threads:
        one.join(30)
    assert json.loads((tmp_path / "settings.json").read_text())["n"] == 3
    assert sorted("has n = 3, not 5" in one or "has a loop already" in one for one in refused) == [True, True]
    assert not list(tmp_path.glob(".*"))
