"""A decoder for `lpmert loop` that only looks into lists: python lists_worker.py NBEST.tsv.gz

It gives the best hypotheses of ready-made lists, as if it had found them, and shows what such a program has to do: read
a line of JSON with weights, write a line of JSON for each input.
"""

import csv
import gzip
import json
import sys
from collections import defaultdict


def main(path):
    lists = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            lists[row["utterance"]].append((row["text"], {name: float(row[name]) for name in ("am", "lm", "words")}))
    for line in sys.stdin:
        task = json.loads(line)
        weights = task["weights"]
        for name in task["inputs"]:
            hypotheses = [
                {"text": text, "features": features, "score": sum(weights[x] * features[x] for x in weights)}
                for text, features in lists[name]
            ]
            hypotheses.sort(key=lambda one: one["score"], reverse=True)
            own, best = hypotheses[0]["text"], hypotheses[: task["n"]]
            print(json.dumps({"decoding": task["decoding"], "id": name, "own": own, "hypotheses": best}))
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
