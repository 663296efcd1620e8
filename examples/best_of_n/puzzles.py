"""Programming puzzles, answered by a solver that guesses, and what cheap verifiers say of its answers.

    puzzles.py FILE [PUZZLES]    write a best-of-N set; the same on every machine

A puzzle is a hidden function of a list of whole numbers, of which four examples are shown. The solver draws a random
program and changes it at random, in short walks that see two of the examples; each of its answers is where one walk
ended. Verifiers run the answers, count, and vote; none of them sees the hidden function. An answer is right if it
agrees with the hidden function on forty other inputs. Needs nothing but Python.
"""

import gzip
import json
import math
import random
import sys
import warnings
from collections import Counter
from difflib import SequenceMatcher
from itertools import pairwise

PUZZLES, CANDIDATES, EARLIER = 240, 16, 200
EXAMPLES, SEEN, PROBES, TESTS = 3, 2, 20, 40
SHORT, LONG = (2, 4), (3, 6)  # lengths of the inputs of examples, and of all others
STEPS = (50, 1000)  # of a walk, which ends sooner where it meets what it sees
HEAT = 0.08  # of a walk: how readily it takes a worse program
SLOPPY = 0.15  # share of changes that do not heed types

# program -> parts; LIST and NUMBER are the types of parts and of what comes out
LIST, NUMBER = "list", "number"
RULES = {
    LIST: [
        ("x",), ("sorted(", LIST, ")"), (LIST, "[::-1]"), (LIST, "[1:]"), (LIST, "[:-1]"), (LIST, "[::2]"),
        (LIST, "[:", NUMBER, "]"), (LIST, " + ", LIST), ("[", NUMBER, "]"), ("[v + ", NUMBER, " for v in ", LIST, "]"),
        ("[v * ", NUMBER, " for v in ", LIST, "]"), ("[v for v in ", LIST, " if v % 2 == 0]"),
        ("[v for v in ", LIST, " if v > ", NUMBER, "]"), ("list(dict.fromkeys(", LIST, "))"),
        ("[abs(v) for v in ", LIST, "]"),
    ],
    NUMBER: [
        ("0",), ("1",), ("2",), ("3",), ("sum(", LIST, ")"), ("max(", LIST, ")"), ("min(", LIST, ")"),
        ("len(", LIST, ")"), (LIST, "[0]"), (LIST, "[-1]"), ("(", NUMBER, " + ", NUMBER, ")"),
        ("(", NUMBER, " - ", NUMBER, ")"), ("(", NUMBER, " * ", NUMBER, ")"), ("abs(", NUMBER, ")"),
    ],
}  # fmt: skip
LEAVES = {LIST: [("x",)], NUMBER: [("0",), ("1",), ("2",), ("3",)]}
NAMES = {"__builtins__": {}, "sorted": sorted, "sum": sum, "max": max, "min": min, "len": len, "abs": abs, "list": list}
NAMES["dict"] = dict


def drawn(rng, kind, depth):
    """Return a random program, a tuple of texts and programs."""
    rule = rng.choice(RULES[kind] if depth > 0 else LEAVES[kind])
    return tuple(drawn(rng, part, depth - 1) if part in RULES else part for part in rule)


def text_of(program):
    return "".join(part if isinstance(part, str) else text_of(part) for part in program)


def tokens_of(program):
    for part in program:
        if isinstance(part, str):
            yield part.strip()
        else:
            yield from tokens_of(part)


def kind_of(program):
    """Return the type of what a program gives, by the rule that made it."""
    shape = tuple(part if isinstance(part, str) else None for part in program)
    shapes = {tuple(None if part in RULES else part for part in rule) for rule in RULES[LIST]}
    return LIST if shape in shapes else NUMBER


def changed(rng, program):
    """Return a program with a random part replaced."""
    places = [n for n, part in enumerate(program) if not isinstance(part, str)]
    if not places or rng.random() < 0.3:
        kind = rng.choice([LIST, NUMBER]) if rng.random() < SLOPPY else kind_of(program)
        return drawn(rng, kind, rng.choice([0, 1, 1, 2]))
    place = rng.choice(places)
    return (*program[:place], changed(rng, program[place]), *program[place + 1 :])


class Runs:
    """Runs programs; knows those that it has compiled."""

    def __init__(self):
        self.compiled = {}

    def __call__(self, text, given):
        """Return what a program makes of an input, `None` where it fails or makes too much."""
        if text not in self.compiled:
            self.compiled[text] = eval(f"lambda x: {text}", dict(NAMES))
        try:
            found = self.compiled[text](given)
            return found if len(repr(found)) < 200 else None
        except (TypeError, ValueError, IndexError):
            return None


def inputs(rng, count, lengths=LONG):
    return [[rng.randint(-9, 9) for _ in range(rng.randint(*lengths))] for _ in range(count)]


def hidden_function(rng, runs, known):
    """Return a program that does something, and something new."""
    probes = inputs(random.Random(0), PROBES)
    while True:
        text = text_of(program := drawn(rng, rng.choice([LIST, NUMBER]), rng.choice([1, 2, 2, 2])))
        behaviour = tuple(repr(runs(text, one)) for one in probes)
        if "None" not in behaviour and len({*behaviour}) > PROBES // 2 and behaviour not in known and len(text) < 60:
            known.add(behaviour)
            return program


def likeness(found, wanted):
    """Return how alike two results are, from 0 to 1."""
    if found is None or type(found) is not type(wanted):
        return 0.0
    return 1.0 if found == wanted else 0.9 * SequenceMatcher(None, repr(found), repr(wanted), autojunk=False).ratio()


def answer(rng, runs, examples, kind):
    """Return where a walk ends that sees the examples and likes short programs a little."""
    known = {}

    def quality(program):
        text = text_of(program)
        if text not in known:
            fit = sum(likeness(runs(text, given), wanted) for given, wanted in examples) / len(examples)
            known[text] = fit - 0.002 * len(text)
        return known[text]

    program = drawn(rng, kind, 2)
    for _ in range(rng.randint(*STEPS)):
        other = changed(rng, program)
        if len(text_of(other)) < 80 and rng.random() < math.exp(min(0.0, (quality(other) - quality(program)) / HEAT)):
            program = other
            if all(runs(text_of(program), given) == wanted for given, wanted in examples):
                break
    return program


class Bigrams:
    """How likely a program is among those that solved earlier puzzles: a model of pairs of tokens, add-one smoothed."""

    def __init__(self, programs):
        self.pairs, self.firsts = Counter(), Counter()
        for program in programs:
            tokens = ["^", *tokens_of(program), "$"]
            self.pairs.update(pairwise(tokens))
            self.firsts.update(tokens[:-1])
        self.words = len({token for pair in self.pairs for token in pair})

    def __call__(self, program):
        tokens = ["^", *tokens_of(program), "$"]
        return sum(math.log((self.pairs[pair] + 1) / (self.firsts[pair[0]] + self.words)) for pair in pairwise(tokens))


def puzzle(number, target, rng, runs, likely):
    """Return a puzzle with its candidates, their scores, and whether they are right."""
    wanted = text_of(target)
    examples = [(one, runs(wanted, one)) for one in inputs(rng, EXAMPLES, SHORT)]
    kind = LIST if isinstance(examples[0][1], list) else NUMBER
    probes = inputs(rng, PROBES)
    tests = [(one, runs(wanted, one)) for one in inputs(rng, TESTS)]
    programs = [answer(rng, runs, rng.sample(examples, SEEN), kind) for _ in range(CANDIDATES)]
    outputs = [[runs(text_of(program), one) for one in probes] for program in programs]
    voices = Counter(map(repr, outputs))
    candidates = []
    for program, output in zip(programs, outputs, strict=True):
        text = text_of(program)
        given = [runs(text, one) for one, _ in examples]
        scores = {
            "examples": sum(a == b for a, (_, b) in zip(given, examples, strict=True)),
            "likeness": round(sum(likeness(a, b) for a, (_, b) in zip(given, examples, strict=True)) / EXAMPLES, 4),
            "runs": sum(one is not None for one in output),
            "types": sum(type(one) is type(examples[0][1]) for one in output),
            "votes": voices[repr(output)] - 1,
            "different": len({*map(repr, output)}),
            "length": len([*tokens_of(program)]),
            "bigrams": round(likely(program), 4),
        }
        right = all(runs(text, one) == expected for one, expected in tests)
        candidates.append({"text": text, "scores": scores, "correct": right})
    shown = "; ".join(f"{given} -> {expected}" for given, expected in examples)
    return {"id": f"p{number:03}", "prompt": shown, "solution": wanted, "candidates": candidates}


def main(path, count=PUZZLES):
    warnings.simplefilter("ignore", SyntaxWarning)  # some guesses are nonsense, and Python says so
    runs, known, rng = Runs(), set(), random.Random(20261122)
    likely = Bigrams([hidden_function(rng, runs, known) for _ in range(EARLIER)])
    targets = [hidden_function(rng, runs, known) for _ in range(int(count))]
    lines = []
    for number, target in enumerate(targets, 1):
        runs.compiled.clear()
        lines.append(json.dumps(puzzle(number, target, random.Random(number), runs, likely)) + "\n")
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write("".join(lines).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
