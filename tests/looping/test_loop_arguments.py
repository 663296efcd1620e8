"""Invalid arguments are refused before anything is decoded, and leave no folder behind."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from looping.test_loop import START, Toy, looped
from refusals import refused

import lpmert
from lpmert.metrics.text import BleuTexts

TIED = lpmert.Region(linear=[lpmert.Linear({"am": 1, "lm": -1}, lower=0, upper=0)])
"""First weights outside a region could be the best of all iterations, and the answer would not be in it."""
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"region": lpmert.Region(bounds={"lm": (0.02, None)}, fixed={"am": 1})}, "outside the region: lm >= 0.02"),
    ({"region": lpmert.Region(fixed={"am": 2})}, "the region fixes am at 2, but the first weights have 1"),
    ({"region": TIED}, "outside the region: am=1,lm=-1 = 0 does not"),
    ({"region": lpmert.Region(fixed={"acoustic": 1})}, "no feature 'acoustic'"),
    ({"region": lpmert.Region(cosine=0.5, around=[1, 0, 0])}, "limits its steps"),
    ({"equal_words": "no"}, "equal_words must be one of"),
    ({"metric": "foo"}, "no metric 'foo' on texts"),
    ({"metric": 3}, "no metric 3 on texts"),
    ({"metric": BleuTexts(tokenize="zzz")}, "no tokenizer 'zzz'"),
    ({"search_seconds": -1}, "search_seconds must be a number of at least 0, or None; got -1"),
    ({"time_limit": "x"}, "time_limit must be"),
    ({"on_iteration": 3}, "on_iteration must be a function, or None; got 3"),
    ({"folder": 3}, "folder must be a path, or None, not 3"),
    *(({"references": own}, "references must be texts by list, a file or several files") for own in (3, [], [1])),
    ({"references": {"u0": 3}}, "references by list must be texts by the names of lists"),
    ({"method": lpmert.methods.Stabilised(earlier=[])}, "leave earlier out"),
    *(
        ({what: given}, f"^{what} must be an object with a method decode, such as")
        for what in ("decoder", "held_out")
        for given in (None, 3, b"x", [], lpmert.Worker)
        if what == "decoder" or given is not None
    ),
]
LISTS = Toy().lists(START, 3)


@pytest.mark.parametrize(("change", "named"), REFUSED)
def test_invalid_arguments_are_refused_first_and_leave_no_folder(tmp_path, change, named):
    toy = Toy()
    arguments = {"decoder": toy, "references": toy.references, "n": 3, "folder": tmp_path / "loop", **change}
    if "held_out" in change:
        arguments["held_out_references"] = toy.references
    with pytest.raises(lpmert.LpmertError, match=named):
        lpmert.loop(weights=START, **arguments)
    assert not toy.asked
    assert not (tmp_path / "loop").exists()


def test_a_package_that_is_missing_is_told_of_before_anything_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    toy = Toy()
    with pytest.raises(lpmert.MetricError, match="rapidfuzz is not installed; pip install"):
        looped(toy, metric="wer")
    assert not toy.asked


@pytest.mark.parametrize("by_file", [False, True])
def test_a_reference_of_what_is_not_decoded_is_named_with_what_to_do(tmp_path: Path, by_file: bool) -> None:
    toy = Toy()
    references: Any = {**toy.references, "u99": "x"}
    if by_file:
        text = "".join(f"{name}\t{words}\n" for name, words in references.items())
        references = tmp_path / "references.tsv"
        references.write_text(text)
    with pytest.raises(lpmert.DataError, match=r"no list for .*'u99'; add it, or leave the reference out$"):
        looped(toy, references=references, folder=tmp_path / "loop")
    assert not (tmp_path / "loop" / "001").exists()


def given_by_a_decoder(given: Any) -> lpmert.Looped:
    decoder = Toy()
    decoder.decode = lambda *_: given
    return looped(decoder)


def program(words: str, **options: Any) -> lpmert.Command:
    return lpmert.Command(words.split(), **{"names": ["am", "lm"], **options})


def worker_decodes(weights: Any, n: Any) -> lpmert.Decoded:
    with lpmert.Worker(["/no/such/program"], ["a"]) as worker:
        return worker.decode(weights, n)


test_what_decoders_cannot_do_is_refused = refused([
    *((lpmert.DecoderError, message, partial(given_by_a_decoder, given)) for given, message in [
        (None, r"iteration 1: decode must return an lpmert\.Decoded, not None"),
        (LISTS, r"iteration 1: decode must return an lpmert\.Decoded, not NBest"),
        (lpmert.Decoded(None), r"the lists of an lpmert\.Decoded must be an lpmert\.NBest, not None"),
        (lpmert.Decoded(LISTS, "x"), r"own of an lpmert\.Decoded must be texts by the names of lists, or None"),
        (lpmert.Decoded(LISTS, dict.fromkeys(LISTS.list_ids)), r"own of an lpmert\.Decoded must be texts by the names"),
    ]),
    *((lpmert.LpmertError, message, partial(program, words, **options)) for words, options, message in [
        ("", {}, "must be the words of a program"),
        ("decode {lists}", {}, "does not get the weights"),
        ("decode {weights} {list}", {}, r"\{list\} in the command is none of"),
        ("decode {weight:bm}", {}, "no feature 'bm'"),
        ("decode {weights}", {}, "does not get the file for its lists"),
        ("decode {weights} {", {}, "for braces"),
        ("decode {weights}", {"names": 3}, "names must be the names of the features, not 3"),
        ("decode {weights}", {"names": "am"}, "names must be the names of the features, not 'am'"),
        ("decode {weights}", {"reading": "moses"}, "reading must be arguments of lpmert.read by name, not 'moses'"),
        ("decode {weights}", {"references": 3}, "references must be texts by list, a file or several files, not 3"),
    ]),
    # before a program is started
    *((lpmert.DataError, message, partial(program("/no/such/program {weights} {lists}").decode, weights, 3))
      for weights, message in [
        (None, "weights must be numbers"),
        ({"am": 1.0, "lm": "x"}, "must be finite"),
        ({"am": 1.0}, "have none for lm"),
    ]),
    *((lpmert.LpmertError, "must be", partial(worker_decodes, *given)) for given in [
        (None, 3), ({"am": "x"}, 3), ({"am": 1.0}, 0), ({"am": 1.0}, b"x"),
    ]),
])  # fmt: skip
