"""A decoder to loop with, as an object and as a program: it knows all hypotheses, and gives the best ones.

As a program: `toy.py worker [TROUBLE]` is a worker; `toy.py command WEIGHTS LISTS N [TROUBLE]` runs for each decoding.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

NAMES = ("am", "lm", "words")
WORDS = ["the", "a", "train", "house", "river", "door", "tree", "window", "letter", "bridge"]

Hypotheses = dict[str, list[tuple[str, tuple[float, ...]]]]


@cache
def universe(seed: int = 0, n_lists: int = 12, size: int = 30) -> tuple[Hypotheses, dict[str, str]]:
    """Return all hypotheses with their features, by list, and the references."""
    rng = np.random.default_rng(seed)
    found: Hypotheses = {}
    references = {}
    for number in range(n_lists):
        reference = rng.choice(WORDS, 5).tolist()
        hypotheses = {}
        while len(hypotheses) < size:
            words = list(reference)
            for place in rng.permutation(5)[: rng.integers(0, 5)]:
                words[place] = str(rng.choice(WORDS))
            errors = errors_of(" ".join(words), " ".join(reference))
            am, lm = rng.normal(size=2) * 2 - (0.3 * errors, 1.2 * errors)
            # features with few digits, so that programs can print all of them
            features = round(float(am), 4), round(float(lm), 4), float(rng.integers(3, 8))
            hypotheses[" ".join(words)] = features
        found[f"u{number}"] = list(hypotheses.items())
        references[f"u{number}"] = " ".join(reference)
    return found, references


def errors_of(text: str, reference: str) -> int:
    """Return in how many places two texts of as many words differ."""
    return sum(map(str.__ne__, text.split(), reference.split()))


def decoded(all_of_them: Hypotheses, weights: Mapping[str, float], n: int) -> Hypotheses:
    """Return the best hypotheses of each list, the first one of equals before."""
    vector = [weights[name] for name in NAMES]

    def score(one: tuple[str, tuple[float, ...]]) -> float:
        return sum(weight * value for weight, value in zip(vector, one[1], strict=True))

    return {name: sorted(some, key=score, reverse=True)[:n] for name, some in all_of_them.items()}


def _work(trouble: str) -> None:
    for line in sys.stdin:
        task = json.loads(line)
        for name, some in decoded(universe()[0], task["weights"], task["n"]).items():
            hypotheses = [
                {"text": text, "features": dict(zip(NAMES, features, strict=True))} for text, features in some
            ]
            answer = {"decoding": task["decoding"], "id": name, "own": some[0][0], "hypotheses": hypotheses}
            if name == "u3" and trouble:
                print("reading models", "cannot find model x", sep="\n", file=sys.stderr)
                if trouble == "exit":
                    sys.exit(7)
                if trouble == "hang":
                    time.sleep(600)
                if trouble == "kill":
                    os.kill(os.getpid(), 9)
                if trouble == "bytes":
                    sys.stdout.buffer.write(b"\xff\xfe\n")
                if trouble == "half":
                    print('{"id": "u3", "own"', flush=True)
                    sys.exit(0)
                if trouble == "endless":
                    while True:
                        sys.stdout.write("x" * 65536)
                answer |= {
                    "stranger": {"id": "u99"},
                    "twice": {"id": "u2"},
                    "nan": {"hypotheses": [{"text": "x", "features": {"am": 1, "lm": 2, "words": "x"}}]},
                    "list": {"hypotheses": [{"text": "x", "features": [1, 2, 3]}]},
                    "names": {"hypotheses": [{"text": "x", "features": {"am": 1, "lm": 2, "wrds": 3}}]},
                    "empty": {"own": "", "hypotheses": []},
                    "late": {"decoding": task["decoding"] - 1},
                }.get(trouble, {})
            line = json.dumps(answer) + "\n"
            if trouble == "surplus" and name == task["inputs"][-1]:
                line += line  # in one piece, so that both have come when the first one is read
            sys.stdout.write(line)
            sys.stdout.flush()


def _run(weights: str, lists: str, n: str, trouble: str) -> None:
    given = {name: float(value) for name, value in (line.split() for line in Path(weights).read_text().splitlines())}
    found = decoded(universe()[0], given, int(n))
    if trouble == "exit":
        print("cannot find model x", file=sys.stderr)
        sys.exit(7)
    if trouble == "hang":
        time.sleep(600)
    if trouble == "missing":
        del found["u5"]
    if trouble != "nothing":
        rows = [
            " ||| ".join([name, text, " ".join(f"{a}={b}" for a, b in zip(NAMES, features, strict=True)), "0"])
            for name, some in found.items()
            for text, features in some
        ]
        Path(lists).write_text("".join(f"{row}\n" for row in rows))


def main(arguments: Sequence[str]) -> None:
    if arguments[0] == "worker":
        _work("".join(arguments[1:]))
    else:
        _run(arguments[1], arguments[2], arguments[3], "".join(arguments[4:]))


if __name__ == "__main__":
    main(sys.argv[1:])
