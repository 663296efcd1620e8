"""Kana-kanji conversion by MeCab, as a decoder for `lpmert loop`: IPADIC, turned round, from readings to words.

    kana_kanji.py prepare FOLDER [N]    N sentences to tune and N more, with readings, from Japanese manual pages
    kana_kanji.py worker                reads weights, builds a dictionary of them, converts the readings

MeCab looks for the path of least cost, exactly. Here the cost of a word is a weighted sum: its own cost in IPADIC, 1
for each word, and its kanji, katakana and hiragana; connections have a weight of their own. Needs numpy, and Debian's
mecab, mecab-utils, mecab-ipadic and, to prepare, manpages-ja.
"""

import csv
import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

IPADIC, INDEXER = Path("/usr/share/mecab/dic/ipadic"), "/usr/lib/mecab/mecab-dict-index"
PAGES = Path("/usr/share/man/ja")
NAMES = ("word_cost", "connection", "words", "kanji", "katakana", "hiragana")
UNIT = 1000.0  # of IPADIC's costs, so that all weights are about 1
LARGEST = 30000  # of a cost in a dictionary of MeCab, which has 16 bits
UNKNOWN = np.array([15.0, 1.0, 0.0, 0.0, 0.0])  # costs of a word that is not in the dictionary, in the units of weights
SENTENCES = 240
TO_HIRAGANA = {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ") + 1)}
KINDS = ("[一-龠々]", "[ァ-ヶー]", "[ぁ-ん]")


def counts(surface):
    return [len(re.findall(kind, surface)) for kind in KINDS]


def charset_of_dictionary():
    """The encoding of MeCab's own dictionary: Debian has one in EUC-JP, and one in UTF-8."""
    told = subprocess.run(["mecab", "-D"], capture_output=True, check=False)  # it ends with 1 when it has told
    return re.search(rb"charset:\s*(\S+)", told.stdout)[1].decode()


def read_aloud(sentences):
    """The readings of sentences; characters that MeCab's dictionary cannot hold become question marks."""
    charset = charset_of_dictionary()
    text = "\n".join(sentences).encode(charset, "replace")
    return subprocess.run(["mecab", "-Oyomi"], input=text, capture_output=True, check=True).stdout.decode(charset)


def prepare(folder, most=SENTENCES):
    found = {}
    for page in sorted(PAGES.glob("man[1-8]/*.gz")):
        with gzip.open(page, "rt", encoding="utf-8", errors="ignore") as file:
            text = "".join(line.strip() for line in file if not line.startswith((".", "'")))
        for sentence in re.split("[。．]", text):
            if re.fullmatch("[ぁ-んァ-ヶー一-龠々、]{10,40}", sentence):
                found[sentence] = None
    rng = np.random.default_rng(7)
    sentences = [[*found][k] for k in rng.permutation(len(found))]
    rows = {}
    for sentence, reading in zip(sentences, read_aloud(sentences).splitlines(), strict=True):
        kana = reading.translate(TO_HIRAGANA)
        if re.fullmatch("[ぁ-んー、]+", kana):
            rows.setdefault(kana, sentence)
    folder.mkdir(parents=True, exist_ok=True)
    kept = [*rows.items()][: 2 * most]
    for part, some in (("tune", kept[:most]), ("held-out", kept[most:])):
        (folder / f"{part}.tsv").write_text("".join(f"{kana}\t{sentence}\n" for kana, sentence in some))


class Converter:
    """The words of IPADIC by their readings, and MeCab with a dictionary of the weights at hand."""

    def __init__(self, scratch):
        self.folder = Path(scratch)
        self.words = []
        for path in sorted(IPADIC.glob("*.csv")):
            with open(path, encoding="euc-jp", newline="") as file:
                for row in csv.reader(file):
                    reading = row[11].translate(TO_HIRAGANA) if len(row) > 11 else ""
                    if reading and "," not in row[0] and '"' not in row[0]:
                        self.words.append((reading, row[1], row[2], int(row[3]), row[0]))
        own = [(cost, 1, *counts(surface)) for _, _, _, cost, surface in self.words]
        self.own = np.array(own, dtype=float) / (UNIT, 1, 1, 1, 1)
        size, *_ = (int(cell) for cell in (IPADIC / "matrix.def").open().readline().split())
        cells = np.loadtxt(IPADIC / "matrix.def", skiprows=1, dtype=np.int64)
        self.matrix = np.zeros((size, size))
        self.matrix[cells[:, 0], cells[:, 1]] = cells[:, 2] / UNIT
        for name in ("dicrc", "char.def", "feature.def", "left-id.def", "right-id.def", "pos-id.def", "rewrite.def"):
            text = (IPADIC / name).read_bytes().decode("euc-jp")
            (self.folder / name).write_text(text.replace("EUC-JP", "utf-8"))
        self.unknown = (IPADIC / "unk.def").read_bytes().decode("euc-jp")

    def build(self, weights):
        """Compile the dictionary of these weights; features are minus costs, and MeCab's costs are whole numbers."""
        vector = np.array([weights[name] for name in NAMES])
        of_words = vector[[0, 2, 3, 4, 5]]
        costs, matrix, unknown = self.own @ of_words, self.matrix * vector[1], UNKNOWN @ of_words
        scale = LARGEST / max(np.abs(costs).max(), np.abs(matrix).max(), abs(unknown))
        line = rf"\1,{round(unknown * scale)},*"
        (self.folder / "unk.def").write_text(re.sub(r"(?m)^(\w+,\d+,\d+),\d+,.*$", line, self.unknown))
        with open(self.folder / "words.csv", "w", encoding="utf-8") as file:
            for (reading, left, right, cost, surface), own in zip(
                self.words, np.rint(costs * scale).astype(int), strict=True
            ):
                file.write(f"{reading},{left},{right},{own},{surface},{cost}\n")
        with open(self.folder / "matrix.def", "w", encoding="utf-8") as file:
            file.write(f"{len(matrix)} {len(matrix)}\n")
            rows = np.rint(matrix * scale).astype(int)
            for left, row in enumerate(rows.tolist()):
                file.writelines(f"{left} {right} {cost}\n" for right, cost in enumerate(row))
        command = [INDEXER, "-d", self.folder, "-o", self.folder, "-f", "utf-8", "-t", "utf-8"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def convert(self, readings, n):
        """Return for each reading the best texts with their features, the best one first."""
        command = ["mecab", "-d", self.folder, "-r", "/dev/null", f"-N{n}", "-F%m\t%phl\t%phr\t%H\n", "-EEOS\n"]
        command.append("-U%m\t%phl\t%phr\t%m,\n")
        done = subprocess.run(command, input="\n".join(readings) + "\n", capture_output=True, text=True, check=True)
        found, path = {}, []
        paths = {reading: found.setdefault(reading, {}) for reading in readings}
        for line in done.stdout.splitlines():
            if line != "EOS":
                path.append(line.split("\t"))
                continue
            if path:
                text, features = self.described(path)
                paths["".join(cells[0] for cells in path)].setdefault(text, features)  # equal texts: the best path
            path = []
        return {reading: [*some.items()] for reading, some in paths.items()}

    def described(self, path):
        features, last, text = np.zeros(len(NAMES)), 0, ""
        for _, left, right, word in path:
            surface, _, cost = word.partition(",")
            text += surface
            own = (float(cost) / UNIT, 1, *counts(surface)) if cost else UNKNOWN
            features[[0, 2, 3, 4, 5]] -= own
            features[1] -= self.matrix[last, int(left)]
            last = int(right)
        features[1] -= self.matrix[last, 0]
        return text, [round(value, 6) + 0.0 for value in features.tolist()]


def work():
    with tempfile.TemporaryDirectory() as scratch:
        converter, built = Converter(scratch), None
        for line in sys.stdin:
            task = json.loads(line)
            if task["weights"] != built:
                converter.build(task["weights"])
                built = task["weights"]
            lists = converter.convert(task["inputs"], task["n"])
            for name in task["inputs"]:
                named = [(text, dict(zip(NAMES, features, strict=True))) for text, features in lists[name]]
                hypotheses = [{"text": text, "features": features} for text, features in named]
                own = hypotheses[0]["text"] if hypotheses else ""
                print(json.dumps({"decoding": task["decoding"], "id": name, "own": own, "hypotheses": hypotheses}))
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(Path(sys.argv[2]), *map(int, sys.argv[3:]))
    else:
        work()
