"""Decoders that are programs: what they get, give, and how they fail; and arguments that are refused before a start."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from looping.test_loop import START, Toy, looped
from looping.toy import NAMES, decoded, errors_of, universe
from refusals import refused

import lpmert
from lpmert.cli.decoder import read_config
from lpmert.looping.decoders import own_texts
from lpmert.metrics.text import BleuTexts

TOY = str(Path(__file__).with_name("toy.py"))
ALL, REFERENCES = universe()
READING = {"format": "moses"}
WORKER_TROUBLES = {
    "exit": r"ended with exit code 7 before it had answered\n  reading models\n  cannot find model x",
    "kill": "was killed by signal 9 before it had answered\n  reading models",
    "half": "which is not JSON",
    "bytes": "not UTF-8",
    "stranger": "no answer about an input that it was to decode",
    "twice": "no answer about an input that it was to decode",
    "nan": "u3:1: feature 'words' is 'x', not a number",
    "list": "features must be numbers by name, not .1, 2, 3.",
    "late": "answered decoding [01] about 'u3' in decoding [12]; each answer must have the number of its request",
    "names": "the features have none for words and name unknown features: wrds",
}
STEADY = "while :; do echo babble; echo moan >&2; sleep 0.02; done"  # writes so often that nobody ever waits for it
NAMED = [f"a name of many letters {number}" for number in range(10_000)]  # more inputs than a pipe holds
CONFIG = """
weights = { am = 1, lm = 0.01, words = 0 }
references = "references.tsv"
n = 4

[decoder]
worker = [PYTHON, TOY, "worker"]
folder = "."

[loop]
iterations = 5
"""


def worker(*trouble: str) -> lpmert.Worker:
    return lpmert.Worker([sys.executable, TOY, "worker", *trouble], [*ALL])


def command(*trouble: str) -> lpmert.Command:
    words = [sys.executable, TOY, "command", "{weights}", "{lists}", "{n}", *trouble]
    return lpmert.Command(words, NAMES, reading=READING, references=REFERENCES)


def test_a_worker_and_a_command_give_what_the_toy_knows_and_loop_as_it_does() -> None:
    expected, alone = decoded(ALL, START, 3), looped(n=4)
    texts, rows = zip(*(one for some in expected.values() for one in some), strict=True)
    with worker() as one:
        for decoder in (one, command()):
            for _ in range(2):
                found = decoder.decode(START, 3)
                lists = found.lists
                assert (lists.names, lists.list_ids, lists.texts) == (NAMES, tuple(ALL), texts)
                assert np.array_equal(lists.features, rows)
                assert (found.own or own_texts(found)) == {name: some[0][0] for name, some in expected.items()}
            loop = looped(decoder, n=4)
            assert [step.weights for step in loop.iterations] == [step.weights for step in alone.iterations]
            assert loop.loss == alone.loss


@pytest.mark.parametrize("trouble", WORKER_TROUBLES)
def test_a_worker_that_fails_is_quoted(trouble: str) -> None:
    with worker(trouble) as decoder:
        for _ in range(2):  # it is started again
            with pytest.raises(lpmert.DecoderError, match=WORKER_TROUBLES[trouble]):
                decoder.decode(START, 3)


def test_answers_that_are_left_over_are_not_taken_for_those_of_the_next_decoding() -> None:
    other = {"am": -1.0, "lm": 0.0, "words": 0.0}
    with worker("surplus") as decoder:
        decoder.decode(START, 3)
        with pytest.raises(lpmert.DecoderError) as caught:
            decoder.decode(other, 3)
        assert "answered decoding 1 about 'u11' in decoding 2; each answer must" in str(caught.value)
        assert decoder.decode(other, 3).own == {name: some[0][0] for name, some in decoded(ALL, other, 1).items()}


def test_an_input_without_hypotheses_counts_by_what_the_worker_shows() -> None:
    with worker("empty") as decoder:
        found = decoder.decode(START, 3)
        assert ("u3" in found.lists.list_ids, found.own["u3"]) == (False, "")
        whole = looped(decoder, iterations=1)
    others = decoded(ALL, START, 1)
    errors = sum(errors_of(some[0][0], REFERENCES[name]) for name, some in others.items() if name != "u3")
    assert whole.loss == errors + 5  # all words of the reference are missing
    fits = whole.iterations[0].consistency
    assert (fits.lists, fits.own_loss) == (11, errors)


def test_a_command_that_fails_is_quoted() -> None:
    missing = lpmert.Command(["/no/such/program", "{weights}", "{lists}"], NAMES)
    elsewhere = lpmert.Command([sys.executable, "{weights}", "{lists}"], NAMES, folder="/no/such")
    for decoder, said in (
        (command("exit"), "ended with exit code 7\n  cannot find model x"),
        (command("nothing"), r"cannot be used: \{lists\}: cannot be read: No such file"),
        (missing, "'/no/such/program' cannot be started: No"),
        (elsewhere, "cannot be started: there is no folder '/no/such' to run it in"),
    ):
        with pytest.raises(lpmert.DecoderError, match=said):
            decoder.decode(START, 3)
    with pytest.raises(lpmert.DecoderError, match="lacks u5; it must decode the same inputs every time"):
        looped(_Then(command(), command("missing")))


class _Then:
    def __init__(self, *decoders: lpmert.Decoder) -> None:
        self.decoders = list(decoders)

    def decode(self, weights: dict[str, float], n: int) -> lpmert.Decoded:
        return self.decoders.pop(0).decode(weights, n)


def shell(script: str) -> lpmert.Command:
    return lpmert.Command(["sh", "-c", script, "{weights}", "{lists}"], NAMES, reading=READING)


def test_an_endless_line_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.looping.decoders.LONGEST_LINE", 1 << 16)
    endless = r"wrote a line of more than 65,536 bytes, 'x{80}'\.\.\.; each answer must end with a line feed"
    with worker("endless") as decoder, pytest.raises(lpmert.DecoderError, match=endless):
        decoder.decode(START, 3)


def test_of_many_messages_the_last_ones_are_shown() -> None:
    with pytest.raises(lpmert.DecoderError) as caught:
        shell("yes moan | head -c 3000000 >&2; echo last words >&2; exit 3").decode(START, 3)
    assert str(caught.value) == "the decoder 'sh' ended with exit code 3" + 7 * "\n  moan" + "\n  last words"


def test_a_program_that_closes_its_output_is_stopped() -> None:
    before = time.monotonic()
    with pytest.raises(lpmert.DecoderError, match="closed its output before it had answered"):
        lpmert.Worker(["sh", "-c", "exec <&- >&-; sleep 600"], NAMED).decode(START, 3)
    assert time.monotonic() - before < 60  # it sleeps for ten minutes


@pytest.mark.parametrize("decoder", [
    partial(worker, "hang"),
    partial(command, "hang"),
    partial(lpmert.Worker, ["sleep", "600"], NAMED),
    partial(lpmert.Command, ["sh", "-c", "exec >&-; sleep 600 # {weights} {lists}"], NAMES),
    partial(shell, STEADY),
    partial(shell, "yes babble"),
    partial(shell, f"exec >&-; {STEADY}"),
    partial(shell, "yes babble >&2"),
])  # fmt: skip
def test_the_time_limit_of_the_loop_gives_a_decoding_up(decoder: Callable[[], lpmert.Decoder]) -> None:
    with pytest.raises(lpmert.LpmertError, match="before the first decoding was over"):
        looped(time_limit=0)
    began = time.monotonic()
    with worker() as first:
        first.decode(START, 3)  # on a busy machine it takes a while to start
        found = looped(_Then(first, decoder()), time_limit=5.0)
    assert (len(found.iterations), found.reason) == (1, "the time is used up")
    assert time.monotonic() - began < 60  # they go on for ten minutes


def test_weights_reach_a_command_to_the_last_digit(tmp_path: Path) -> None:
    script = tmp_path / "decode.py"
    script.write_text(
        "import sys\n"
        "open('seen', 'w').write(' '.join(sys.argv[2:]) + '|' + open(sys.argv[2]).read())\n"
        "open(sys.argv[1], 'w').write('0 ||| a ||| am= 1 lm= 2 words= 3 ||| 0\\n')\n"
    )
    weights = {"am": 0.1 + 0.2, "lm": -1e-17, "words": 1 / 3}
    decoder = lpmert.Command(
        [sys.executable, "decode.py", "{lists}", "{weights}", "{weight:words}", "{{n}}={n}"],
        NAMES, reading=READING, references={"0": "a"}, folder=tmp_path,
    )  # fmt: skip
    decoder.decode(weights, 7)
    words, file = (tmp_path / "seen").read_text().split("|")
    assert words.split()[1:] == [repr(1 / 3), "{n}=7"]
    assert {name: float(value) for name, value in (line.split() for line in file.splitlines())} == weights
    assert os.path.dirname(words.split()[0]) != str(tmp_path)


def written(folder: Path, text: str = CONFIG) -> Path:
    (folder / "references.tsv").write_text("".join(f"{name}\t{words}\n" for name, words in REFERENCES.items()))
    config = folder / "toy.toml"
    config.write_text(text.replace("PYTHON", repr(sys.executable)).replace("TOY", repr(TOY)))
    return config


def test_a_configuration_says_all_that_a_call_says(tmp_path: Path) -> None:
    more = "[region]\nfix = 'am=1'\nbounds = 'lm:0..'\nlinear = ['lm=1,words=1:0..']\n"
    text = CONFIG.replace("[loop]", f"{more}\n[loop]\nseed = 3\nequal_words = 'latest'")
    bounds, linear = {"lm": (0, None)}, (lpmert.Linear({"lm": 1, "words": 1}, lower=0),)
    with ExitStack() as programs:
        found = read_config(written(tmp_path, text), programs)
        decoder = found.pop("decoder")
        assert isinstance(decoder, lpmert.Worker)
        assert decoder.inputs == tuple(REFERENCES)
        assert found == {
            "weights": START,
            "n": 4,
            "references": tmp_path / "references.tsv",
            "region": lpmert.Region(fixed={"am": 1}, bounds=bounds, linear=linear),
            "iterations": 5,
            "seed": 3,
            "equal_words": "latest",
        }


@pytest.mark.parametrize(("old", "new", "message"), [
    ("n = 4", "n =", "not TOML"),
    ("n = 4", f"x = {'9' * 5000}", "not TOML|cannot be read"),
    ("{ am = 1, lm = 0.01, words = 0 }", "[" * 3000, "not TOML|cannot be read"),
    ("{ am = 1, lm = 0.01, words = 0 }", r'"\u0000"', r"/\\x00: cannot be read: "),
    ("n = 4", "nn = 4", "no key 'nn'"),
    ("folder", "folders", "no key 'decoder.folders'"),
    ("iterations", "rounds", "no key 'loop.rounds'"),
    ("weights =", "[x]\nweights =", "no key 'x'|weights are missing"),
    ("lm = 0.01", 'lm = "x"', "weights must be finite numbers"),
    ("worker =", "wirker =", "either command or worker"),
    ("[decoder]", "[decoders]", "no key 'decoders'"),
    ('references = "references.tsv"', "", "decoder.inputs are missing"),
    ("[loop]", "[region]\nbounds = 'lm:3'\n[loop]", "region.bounds: "),
    ("[loop]", "[region]\ncosine = 0.5\n[loop]", "no key 'region.cosine'"),
    ('folder = "."', "folder = 3", "decoder.folder must be a path, not 3"),
    ('folder = "."', "inputs = 3", "inputs must be the names of what to decode, not 3"),
    ('folder = "."', "inputs = []", "inputs must be the names of what to decode, not "),
    ('folder = "."', 'inputs = ["u0", "u0"]', "inputs must be different texts, not .*u0"),
    ('[PYTHON, TOY, "worker"]', '"toy.py worker"', "must be the words of a program and its arguments, not 'toy"),
    *(('[PYTHON, TOY, "worker"]', new, "must be the words of a program and its arguments") for new in ("[]", "[3]")),
    ("[loop]", "[held-out]\nreferences = 'references.tsv'\ndecoder = 3\n[loop]", r"table \[decoder\] is missing"),
])  # fmt: skip
def test_a_wrong_configuration_names_the_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in CONFIG
    with pytest.raises((lpmert.DataError, lpmert.DecoderError), match=message) as caught, ExitStack() as programs:
        read_config(written(tmp_path, CONFIG.replace(old, new)), programs)
    assert "toy.toml" in str(caught.value) or "x00" in message  # a file of weights that is named so


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
