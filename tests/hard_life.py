"""Damaged files and odd command lines by the thousand: each is taken, or refused in a line that says which it is.

python tests/hard_life.py --inputs 100000 --seed 1

Each entry point (a reader, the command line) gets its share of the inputs. An input fails if anything but
an `LpmertError` or one of our exit codes comes out of it, if it warns, if a message is not one of ours, or if it takes
more than some seconds of processor time. The same seed gives the same inputs.
"""

import argparse
import gzip
import lzma
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from unittest import mock

from commands import run
from shared import ROOT
from written_lists import DIALECTS, Content, content_of, put, small

import lpmert
from lpmert.cli.decoder import read_config
from lpmert.cli.main import COMMANDS
from lpmert.formats.utterances import read_transcripts
from lpmert.formats.weights import read_weights
from lpmert.registry import Registry

sys.path += [str(ROOT / "tests" / folder) for folder in ("formats", "lattice")]
_graphs: Any = import_module("test_lattice_formats")
_weights: Any = import_module("test_weights")
KINDS = import_module("test_malformed").KINDS

LONGEST = 10.0  # seconds of processor time that no small input may take
MEMORY = 4 << 30  # bytes that the program may take: no small input may ask for more

SIGNS = b", \" ' \\ = : - _ # ||| / [ ] { } ( ) null true NaN .. e9"
DIGITS = b"nan inf -inf 1e400 1e308 -0 5e-324 1e-400 0x1p3 1_0 -1 0 1 2"
BYTES = rb"\xff \xc3 \xed\xa0\x80 \xef\xbb\xbf \xff\xfe \x1f\x8b\x08 \x28\xb5\x2f\xfd PK\x03\x04"
PIECES = (
    *(b"", b" ", b"\n", b"\r\n", b"\r", b"\t", b"\0", *SIGNS.split(), *DIGITS.split()),
    *(b"9" * n for n in (19, 400, 5000)),
    *(one.decode("unicode_escape").encode("latin-1") for one in BYTES.split()),
    *(one.encode() for one in ("\u0661", "\u202e\u05d0", "\U0001f600", "\u2028", "e\u0301", "\x85", "[" * 3000)),
    *(b"\\u0000", b"\v", b"\x1b[2J", b"\\ud800", b"a" * 3000),
)
NUMBERS = "- -- -1 0 1 2 1e400 nan inf 1e308 5e-324 1_0 0x10 \u0661 x 5% 200% 1GB 1e9GB 1,2 1,2,3 0,0 -1,-1 1,nan"
NAMES = "= =1 am= am=1 am=1,lm=2 am=1,am=1 lm:0.. am:.. am:2..1 am=1,lm=1:0.. am=1:nan.. : am am,lm lm,am all * [ [!"
PLACES = ". .. missing missing/x /dev/null os:path x:y ::"
WORDS = (
    *("", *NUMBERS.split(), *NAMES.split(), "am,,lm", *PLACES.split(), "9" * 400, "a" * 300, "[" * 3000),
    *("a\nb", "\x1b[31m", "\U0001f600", "\u202ex", "\ud800", "\xa0", "\r", "\x85"),
    *("[1,2]", "{}", '{"am": 1}', '{"am": NaN}'),
)
METHODS = ("auto", "sweep", "choices", "cells", "och", "grid", "random", "exhaustive", "lp-mert", "beam", "groups")
LINES = (
    "solve t.tsv", "solve t.tsv --method METHOD", "solve t.tsv --weights-out out --write names",
    "solve t.tsv --bounds am:0..",
    "solve t.tsv --fix am=1", "solve t.tsv --linear am=1,lm=-1:0.. --total 1", "solve t.tsv --cosine 0.9 --around 1,1",
    "solve t.tsv --certificate out --json", "solve t.tsv --scale am=1 --seed 3 --gap 5% --memory-limit 1GB",
    "solve t.tsv --initial-weights 1,1 -q", "solve t.jsonl --segment list --features am,lm --loss errors --text text",
    "solve l.slf --references l.text", "solve l.slf --references l.text --n-best 5 --metric wer",
    "check t.tsv --weights 1,0.5", "check t.tsv --weights w.txt --json", "check t.tsv --weights am=1,lm=2 --ties best",
    "evaluate t.tsv --weights 1,0.5", "evaluate t.tsv --weights w.txt --json", "evaluate p.jsonl --weights am=1,lm=2",
    "convert t.tsv out.jsonl", "convert t.tsv out --to moses", "convert t.npz out.tsv", "convert m.txt out.npz",
    "convert t.tsv run.features --to mert", "convert p.jsonl out.csv.gz --features am --deduplicate",
    "nbest l.slf out.tsv --references l.text --weights 1,1 -n 3", "verify c.json t.tsv", "methods", "methods METHOD",
    "schema", "compare t.tsv --methods och,random --seeds 1", "mert -d 2 -F f.dat -S s.dat -i i.txt", "loop x.toml",
    "train t.tsv", "tune t.tsv", "--version", "--help", "solve --help",
)  # fmt: skip


_foreign = Registry._foreign
_found: dict[str, Any] = {}


def _known(registry: Registry) -> Any:
    """What other packages register, looked up once."""
    if registry.kind not in _found:
        _found[registry.kind] = _foreign(registry)
    return _found[registry.kind]


class Failed(Exception):
    """An input came out as none may."""


class TooLong(BaseException):
    """An input takes too much time; nothing in the package may take this for an error of its own."""


class EntryPoint(NamedTuple):
    """A way in. draw: makes an input of a random number generator; returns what reports tell of it, and a call that
    sends it, which returns `False` or raises an `LpmertError` if the input is refused.
    """

    share: float
    draw: Callable[[random.Random], tuple[str, Callable[[], object]]]


def outcome_of(call: Callable[[], object]) -> str:
    """Whether an input is taken or refused, in a message that is one of ours."""
    try:
        return "refused" if call() is False else "taken"
    except lpmert.LpmertError as error:
        message = str(error)
        if not message.strip() or not message.replace("\n", "").isprintable():
            raise Failed(f"the message is {message!r}") from error
        return "refused"


def mutate(rng: random.Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The content after a few changes, most of them small, or none."""
    data = bytearray(content)
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(10):
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + rng.randrange(1, 9)]
            case 2 | 3 | 4:
                data[at : at + rng.randrange(4)] = rng.choice(PIECES)
            case 5:
                del data[at:]
            case 6 | 7:  # a number, or a word, becomes another one
                while 0 < at <= len(data) and data[at - 1 : at].isalnum():
                    at -= 1
                end = at
                while end < len(data) and (data[end : end + 1].isalnum() or data[end : end + 1] in (b".", b"-")):
                    end += 1
                data[at:end] = rng.choice(PIECES)
            case 8:  # lines are doubled, moved, dropped
                lines = bytes(data).split(b"\n")
                lines[rng.randrange(len(lines))] = rng.choice(lines)
                data = bytearray(b"\n".join(lines))
            case _ if others:
                other = rng.choice(others)
                data[at:] = other[rng.randrange(len(other)) :]
    return bytes(data)


def packed(rng: random.Random, content: bytes) -> bytes:
    """The content, at times compressed, and at times damaged after that."""
    kind = rng.randrange(40)
    if kind > 1:
        return content
    content = lzma.compress(content) if kind else gzip.compress(content, mtime=0)
    return mutate(rng, content) if rng.random() < 0.5 else content


def readers(folder: Path) -> Iterator[tuple[str, EntryPoint]]:
    """Every kind of files with its seeds, read as what it is or what it looks like; of several files one is changed."""
    references = dict.fromkeys(("x", "u01", *map(str, range(12))), "the cat")

    def read_lattices(place: Path, **options: Any) -> object:
        try:
            return lpmert.load_lattices(place / "x", references, partial=True, **options)
        except lpmert.DataError as error:
            if not str(error).startswith(str(place / "x")) and "no reference for utterance" not in str(error):
                raise Failed(f"the message names no file: {error}") from error
            raise

    slf = (
        b"VERSION=1.0\nUTTERANCE=x\nN=3 L=3\nI=0 W=!NULL\nI=1 W=the\nI=2 W=cat v=1\n"
        b"J=0 S=0 E=1 a=-1.5 l=-2\nJ=1 S=1 E=2 a=-3 l=0.5\nJ=2 S=0 E=2 a=-9 l=-1\n"
    )
    archive = _graphs.archived("w", dict.fromkeys(("x.slf", "sub/a.slf"), slf.replace(b"UTTERANCE=x\n", b"")))
    loop = (
        'weights = { am = 1, lm = 7 }\nmetric = "wer"\nn = 10\nreferences = { a = "the cat", b = "x" }\n'
        '[decoder]\nworker = ["true"]\ninputs = ["a", "b"]\nfolder = "."\n'
        '[region]\nnonnegative = true\nbounds = { am = "0..2" }\n[loop]\niterations = 3\nseed = 1\n'
    )
    utterance = gzip.decompress((ROOT / "examples" / "speech" / "srilm" / "u01.nbest.gz").read_bytes())
    kinds: dict[str, tuple[float, list[dict[str, Content]], Callable[[Path], object]]] = {
        **{name: (0.2 if name in DIALECTS else 1, [kind.files], kind.read) for name, kind in KINDS.items()},
        **{
            name: (1, [{"x": text} for text in texts], partial(read_lattices, format=name))
            for name, texts in _graphs.KINDS.items()
        },
        "slf of all fields": (1.5, [{"x": slf}], partial(read_lattices, format="slf")),
        "archives": (1, [{"x": archive[:5120]}], read_lattices),
        "srilm, other forms": (
            0.6,
            [{"lists/x": utterance}, {"lists/x": "(-12.5) the cat\n(-13) a cat\n"}],
            lambda place: lpmert.read(place / "lists", "srilm", references=references, partial=True),
        ),
        "references, other forms": (
            0.7,
            [{"x": "the cat (b)\na cat (a)\nx (c)\n"}, {"x": "utterance\treference\nb\tx\na\ty\nc\tz\n"}],
            lambda place: read_transcripts(place / "x"),
        ),
        "weights of all forms": (
            3,
            [{"x": text} for text in _weights.FORMS.values()],
            lambda place: read_weights(place / "x").values,
        ),
        "loop": (1, [{"x": loop}], lambda place: read_config(place / "x", ExitStack())),
    }
    everything = [content_of(one) for _, seeds, _ in kinds.values() for files in seeds for one in files.values()]
    kinds["told by content"] = (3, [{"x": one} for one in everything], lambda place: lpmert.read(place / "x"))
    for number, (name, (share, seeds, read)) in enumerate(kinds.items()):
        yield name, _of_files(folder / str(number), share, seeds, everything, read)


def _of_files(folder: Path, share: float, seeds: Any, others: Sequence[bytes], read: Any) -> EntryPoint:
    def draw(rng: random.Random) -> tuple[str, Callable[[], object]]:
        seed = rng.randrange(len(seeds))
        name = rng.choice(sorted(seeds[seed]))
        content = packed(rng, mutate(rng, content_of(seeds[seed][name]), others))
        return f"{name}: {content!r}", lambda: read(put(folder / str(seed), {**seeds[seed], name: content}))

    return EntryPoint(share, draw)


def command_lines(folder: Path) -> EntryPoint:
    """Command lines with words dropped, doubled, replaced, or added, in a folder with small files."""
    place = folder / "commands"
    _fill(place)

    def draw(rng: random.Random) -> tuple[str, Callable[[], object]]:
        words = [rng.choice(METHODS) if word == "METHOD" else word for word in rng.choice(LINES).split()]
        options = [word for line in LINES for word in line.split() if word.startswith("-")]
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            at = rng.randrange(len(words) + 1)
            match rng.randrange(6):
                case 0:
                    del words[at : at + 1]
                case 1:
                    words.insert(at, rng.choice(words or ["x"]))
                case 2:
                    words[at : at + 1] = [rng.choice(WORDS)]
                case 3:
                    words[at:at] = [rng.choice(options), rng.choice(WORDS)]
                case 4:
                    words[at : at + 1] = [rng.choice([*COMMANDS, "solve", "check", *os.listdir(place)])]
                case _:
                    word = mutate(rng, rng.choice(words or ["x"]).encode(errors="surrogatepass"))
                    words[at : at + 1] = [word[:500].replace(b"\0", b"").decode("utf-8", "surrogateescape")]
        searching = words[:1] in (["solve"], ["check"], ["compare"], ["tune"], ["train"])
        words = [word for word in words if word not in ("--jobs", "-j")]
        words += ["--time-limit", "0.2"] if searching else []
        return f"lpmert {words!r}", lambda: take(words or [""])

    def take(words: list[str]) -> bool:
        with chdir(place):
            outcome = run(*words)
        error = outcome.exception
        if error is not None and not isinstance(error, SystemExit):
            raise Failed(repr(error)) from error
        if outcome.exit_code not in (0, 1, 2, 3, 5) or "Traceback" in outcome.output:
            raise Failed(f"exit code {outcome.exit_code}: {outcome.output!r}")
        last = outcome.stderr.strip().splitlines()[-1:] or [""]
        if outcome.exit_code in (1, 2, 5) and not outcome.stderr.count("rror") + outcome.stderr.count("refused"):
            raise Failed(f"exit code {outcome.exit_code} with {last}")
        return outcome.exit_code in (0, 3)

    return EntryPoint(0.08, draw)


def _fill(place: Path) -> None:
    place.mkdir()
    nbest = small(offsets=[0, 3, 5, 6], list_ids=["b", "a", "c"], names=["am", "lm"], statistic_names=["errors"])
    for name in ("t.tsv", "t.jsonl", "t.npz"):
        lpmert.write(nbest, place / name)
    lpmert.write(nbest, place / "p.jsonl", "best-of-n")
    lpmert.write(nbest, place / "m.txt", "moses")
    lpmert.write(nbest, place / "f.dat", "mert", score_type="own", scores=place / "s.dat")
    lpmert.certify(nbest, lpmert.minimize(nbest), place / "c.json")
    slf = "VERSION=1.0\nUTTERANCE=l\nN=3 L=3\nI=0\nI=1 W=the\nI=2 W=cat\n"
    slf += "J=0 S=0 E=1 a=-1 l=-2\nJ=1 S=1 E=2 a=-3 l=1\nJ=2 S=0 E=2 a=-9 l=-1\n"
    put(place, {"i.txt": "1 1\n", "w.txt": "am 1\nlm 0.5\n", "l.slf": slf, "l.text": "l the cat\n"})


def entry_points(folder: Path) -> dict[str, EntryPoint]:
    """All entry points by name; their files lie in the folder."""
    return {**dict(readers(folder)), "command line": command_lines(folder)}


@contextmanager
def limited() -> Iterator[None]:
    """Let the block take so much processor time, and let warnings be errors."""

    def stop(*_: object) -> NoReturn:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        # what is installed does not change meanwhile, and looking takes longer than all else
        with warnings.catch_warnings(), mock.patch.object(Registry, "_foreign", _known):
            warnings.simplefilter("error")
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def try_entry_points(
    inputs: int, seed: int, folder: Path, only: Sequence[str] = (), tell: Callable[[str], object] = print
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Send so many inputs through the entry points; count what was taken, refused and failed, and return failures."""
    chosen = {name: entry for name, entry in entry_points(folder).items() if not only or name in only}
    whole = sum(entry.share for entry in chosen.values())
    outcomes: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    seen: set[str] = set()
    for name, entry in chosen.items():
        started = time.process_time()
        for number in range(max(1, round(inputs * entry.share / whole))):
            told, call = entry.draw(random.Random(f"{seed}:{name}:{number}"))
            try:
                with limited():
                    outcome = outcome_of(call)
            except (Exception, TooLong) as error:  # noqa: BLE001
                outcome = "failed"
                trace = traceback.extract_tb((error.__cause__ or error).__traceback__)
                own = [f"{one.filename}:{one.lineno}" for one in trace if "lpmert/" in one.filename]
                where = own[-1] if own else ""
                if (kind := f"{name} {type(error).__name__} {where}") not in seen:
                    seen.add(kind)
                    failures.append(f"{seed}:{name}:{number} at {where}: {error!r:.600}\n  {told[:1500]}")
                    tell(f"FAILED {failures[-1]}")
            outcomes[name, outcome] += 1
        found = ", ".join(f"{outcomes[name, what]:,} {what}" for what in ("taken", "refused", "failed"))
        tell(f"{name}: {found}; {time.process_time() - started:.1f}s of processor time")
    return outcomes, failures


def main() -> None:
    """Try the entry points, and tell how often what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="an entry point of those it prints")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    memory = Path("/dev/shm")  # the inputs are small, and a disk slow
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        outcomes, failures = try_entry_points(given.inputs, given.seed, Path(folder), given.only)
    print(f"{outcomes.total():,} inputs, {len(failures)} kinds of failures")  # noqa: T201
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
