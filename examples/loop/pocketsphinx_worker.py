"""PocketSphinx as a decoder for `lpmert loop`: reads weights, writes N-best lists from its own lattices.

Its score of a hypothesis is

    am + lw ln P(words) + ln(wip) words + ln(silprob) silences + ln(fillprob) fillers

with natural logarithms; P is the trigram model that comes with it. `am` has the weight 1, the others are settings of
the recogniser. Needs `pip install pocketsphinx`.
"""

import json
import math
import sys
import tempfile
import wave
from collections import defaultdict
from functools import cache
from pathlib import Path

import pocketsphinx

NAMES = ("am", "lm", "words", "silences", "fillers")
LINKS, TOKENS = 250, 15  # of a lattice, and of a node of it, that are looked at
LOG_BASE = math.log(1.0001)  # of the numbers in lattices
MODEL = pocketsphinx.NGramModel.readfile(f"{pocketsphinx.get_model_path()}/en-us/en-us.lm.bin")


@cache
def lm(word, history):
    return MODEL.prob([word, *history]) * LOG_BASE


def settings(weights):
    def probability(weight):
        return min(1.0, max(math.exp(weight), 1e-30))

    scale = weights["lm"]
    return pocketsphinx.Config(
        lw=scale,
        fwdflatlw=scale,
        bestpathlw=scale,
        wip=probability(weights["words"]),
        silprob=probability(weights["silences"]),
        fillprob=probability(weights["fillers"]),
        maxhmmpf=3000,  # prune more than it does by default: it is to be quick
        maxwpf=20,
        cmn="batch",
        compallsen=True,
        loglevel="FATAL",
    )


def kind(word):
    """Return which feature counts a word of a lattice, and the word as people write it."""
    plain = word.split("(")[0]
    if plain == "<sil>":
        return "silences", ""
    return ("fillers", "") if plain.startswith(("[", "++")) else ("words", plain)


def read_lattice(path):
    words, links, section = {}, [], None
    for line in Path(path).read_text().splitlines():
        cells = line.split()
        if not cells or cells[0].startswith("#"):
            continue
        if cells[0] in ("Nodes", "Edges", "Initial", "Final", "Frames", "BestSegAscr", "End"):
            section = cells[0]
            if section in ("Initial", "Final"):
                words[section] = int(cells[1])
        elif section == "Nodes":
            words[int(cells[0])] = (cells[1], int(cells[2]))
        elif section == "Edges" and words[int(cells[1])][0] != "<s>":
            links.append((int(cells[0]), int(cells[1]), int(cells[2]) * LOG_BASE))
    first, last = words.pop("Initial"), words.pop("Final")
    return words, links, first, last


def best_links(words, links, order, first, last, weights):
    """Return the links on the best paths by a bigram model, by the node that they leave."""

    def score(start, end, acoustic):
        count, word = kind(words[end][0])
        if not word:
            return acoustic + weights[count]
        before = kind(words[start][0])[1]
        return acoustic + weights["lm"] * lm(word, (before,) if before else ()) + weights["words"] * (word != "</s>")

    scored = [(start, end, acoustic, score(start, end, acoustic)) for start, end, acoustic in links]
    leaving = defaultdict(list)
    for link in scored:
        leaving[link[0]].append(link)
    ahead, behind = {first: 0.0}, {last: 0.0}
    for node in order:
        for _, end, _, value in leaving[node] if node in ahead else ():
            ahead[end] = max(ahead.get(end, -math.inf), ahead[node] + value)
    for node in reversed(order):
        for _, end, _, value in leaving[node]:
            if end in behind:
                behind[node] = max(behind.get(node, -math.inf), behind[end] + value)
    whole = [link for link in scored if link[0] in ahead and link[1] in behind]
    whole.sort(key=lambda link: -(ahead[link[0]] + link[3] + behind[link[1]]))
    found = defaultdict(list)
    for start, end, acoustic, _ in whole[:LINKS]:
        found[start].append((end, acoustic))
    return found


def n_best(path, weights, n):
    """Return the best word strings of a lattice with their features, by the trigram model."""
    words, links, first, last = read_lattice(path)
    order = sorted(words, key=lambda node: (words[node][1], node == last))
    leaving = best_links(words, links, order, first, last, weights)
    scale = [weights[name] for name in NAMES]
    tokens = defaultdict(dict)  # node -> word string -> score and features
    tokens[first][()] = (0.0, (0.0,) * len(NAMES))
    for node in order:
        best = sorted(tokens[node].items(), key=lambda token: -token[1][0])[:TOKENS]
        for end, acoustic in leaving[node]:
            count, word = kind(words[end][0])
            for history, (_, before) in best:
                added = {"am": acoustic, count: 1.0}
                if word:
                    added |= {"lm": lm(word, ("<s>", *history)[-2:][::-1]), "words": float(word != "</s>")}
                features = tuple(value + added.get(name, 0.0) for name, value in zip(NAMES, before, strict=True))
                score = sum(a * b for a, b in zip(scale, features, strict=True))
                string = (*history, word) if word and word != "</s>" else history
                if score > tokens[end].get(string, (-math.inf,))[0]:
                    tokens[end][string] = (score, features)
    ranked = sorted(tokens[last].items(), key=lambda token: -token[1][0])[:n]
    return [
        {"text": " ".join(string), "features": dict(zip(NAMES, features, strict=True))}
        for string, (_, features) in ranked
    ]


def main():
    decoder = None
    for line in sys.stdin:
        task = json.loads(line)
        weights = task["weights"]
        if decoder is None:
            decoder = pocketsphinx.Decoder(settings(weights))
        else:
            decoder.reinit(settings(weights))
        for name in task["inputs"]:
            with wave.open(name) as sound:
                speech = sound.readframes(sound.getnframes())
            decoder.start_utt()
            decoder.process_raw(speech, full_utt=True)
            decoder.end_utt()
            shown, lattice, found = decoder.hyp(), decoder.get_lattice(), []
            if lattice is not None:
                with tempfile.NamedTemporaryFile(suffix=".lat") as file:
                    lattice.write(file.name)
                    found = n_best(file.name, weights, task["n"])
            own = shown.hypstr if shown else ""
            answer = {"decoding": task["decoding"], "id": name, "own": own, "hypotheses": found}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
