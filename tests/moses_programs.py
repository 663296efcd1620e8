"""What `mert-moses.pl` calls, standing in for Moses: decoder and extractor, in plain Python.

None of it uses the package. The model is a file of sentences, each with hypotheses of words and features, which
moses.ini names. Run as `python moses_programs.py decoder|extractor ...` with the options that the script
gives to Moses' programs.
"""

import gzip
import json
import math
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

NAMES = ("Distortion0", "LM0", "TM0", "TM0")
UNTUNABLE = "UnknownWordPenalty0"


def option(words: list[str], name: str, count: int = 1) -> list[str]:
    place = words.index(name)
    return words[place + 1 : place + 1 + count]


def decoded(model: list[Any], weights: list[float], size: int) -> list[list[Any]]:
    """Return the best hypotheses of every sentence, the best first."""

    def score(hypothesis: Any) -> float:
        return sum(w * f for w, f in zip(weights, hypothesis["features"], strict=True))

    return [sorted(sentence, key=score, reverse=True)[:size] for sentence in model]


def weights_of(text: str) -> list[float]:
    found: dict[str, list[float]] = {}
    for word in text.split():
        if word.endswith("="):
            name = word[:-1]
            found[name] = []
        else:
            found[name].append(float(word))
    return [found[name][NAMES[:place].count(name)] for place, name in enumerate(NAMES)]


def by_name(weights: list[float]) -> dict[str, str]:
    """Return the weights of each name as text."""
    pairs = list(zip(NAMES, weights, strict=True))
    return {name: " ".join(str(weight) for other, weight in pairs if other == name) for name in NAMES}


def write_ini(path: Path, model: Path, weights: list[float]) -> None:
    lines = [f"{name}= {values}" for name, values in by_name(weights).items()]
    path.write_text("\n".join(["# a model", "[model]", str(model), "", "[weight]", f"{UNTUNABLE}= 1", *lines, ""]))


def read_ini(path: Path) -> tuple[list[Any], list[float]]:
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith("["):
            lines = sections.setdefault(line.strip("[]"), [])
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    assert f"{UNTUNABLE}= 1" in sections["weight"]
    return json.loads(Path(sections["model"][0]).read_text()), weights_of(" ".join(sections["weight"]))


def decoder(words: list[str]) -> None:
    """moses: -config FILE, -weight-overwrite WEIGHTS, -n-best-list FILE SIZE; the best to stdout."""
    model, weights = read_ini(Path(option(words, "-config")[0]))
    if "-weight-overwrite" in words:
        weights = weights_of(option(words, "-weight-overwrite")[0])
    path, size = option(words, "-n-best-list", 2)
    with Path(path).open("w") as file:
        for number, best in enumerate(decoded(model, weights, int(size))):
            sys.stdout.write(f"{best[0]['words']}\n")
            for one in best:
                labels = [f"{name}= {value}" for name, value in zip(NAMES[:3], one["features"][:3], strict=True)]
                scores = f"{' '.join(labels)} {one['features'][3]}"
                total = sum(w * f for w, f in zip(weights, one["features"], strict=True))
                file.write(f"{number} ||| {one['words']} ||| {scores} ||| {total}\n")


def bleu_counts(words: str, reference: str) -> list[int]:
    """Return matches and n-grams of the orders 1 to 4, and the length of the reference."""
    counts = []
    guess, truth = words.split(), reference.split()
    for order in range(1, 5):
        grams, known = (
            Counter(tuple(text[i : i + order]) for i in range(len(text) - order + 1)) for text in (guess, truth)
        )
        counts += [sum((grams & known).values()), sum(grams.values())]
    return [*counts, len(truth)]


def bleu(outputs: list[str], references: list[str]) -> float:
    total = [sum(column) for column in zip(*map(bleu_counts, outputs, references), strict=True)]
    precision = sum(math.log(m / t) for m, t in zip(total[0:8:2], total[1:8:2], strict=True)) / 4
    return math.exp(precision + min(0.0, 1.0 - total[8] / total[1]))


def extractor(words: list[str]) -> None:
    """extractor: --scfile FILE --ffile FILE -r REFERENCE -n N-BEST, whose files are like Moses'."""
    references = Path(option(words, "-r")[0]).read_text().splitlines()
    lists: dict[int, list[list[str]]] = {}
    with gzip.open(option(words, "-n")[0], "rt") as lines:
        for line in lines:
            lists.setdefault(int(line.split(" ||| ")[0]), []).append(line.split(" ||| "))
    names = " ".join(f"{name}_{NAMES[:place].count(name)}" for place, name in enumerate(NAMES))
    with (
        Path(option(words, "--ffile")[0]).open("w") as features,
        Path(option(words, "--scfile")[0]).open("w") as scores,
    ):
        for number, best in lists.items():
            features.write(f"FEATURES_TXT_BEGIN_0 {number} {len(best)} {len(NAMES)} {names} \n")
            scores.write(f"SCORES_TXT_BEGIN_0 {number} {len(best)} 9 BLEU\n")
            for one in best:
                values = [word for word in one[2].split() if not word.endswith("=")]
                features.write(" ".join(values) + " \n")
                scores.write(" ".join(map(str, bleu_counts(one[1], references[number]))) + " \n")
            features.write("FEATURES_TXT_END_0\n")
            scores.write("SCORES_TXT_END_0\n")


def install(folder: Path) -> None:
    """Write executables: Moses' programs, and `mert`, which is ours."""
    python, here = shlex.quote(sys.executable), shlex.quote(__file__)
    folder.mkdir()
    for name, command in (
        ("moses", f"{python} {here} decoder"),
        ("extractor", f"{python} {here} extractor"),
        ("mert", f"{python} -m lpmert mert"),
    ):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)


if __name__ == "__main__":
    {"decoder": decoder, "extractor": extractor}[sys.argv[1]](sys.argv[2:])
