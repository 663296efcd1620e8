"""Make the example: judged documents with the scores of retrievers, in the formats of LETOR and TREC."""

from __future__ import annotations

from pathlib import Path
from random import Random

_RETURNED = 8
"""Documents that a retriever returns."""


def files(queries: int = 40, documents: int = 12) -> dict[str, list[str]]:
    """Return the lines of each file; each retriever sees the relevance through noise of its own."""
    random = Random(41)
    made: dict[str, list[str]] = {"judged.txt": [], "keyword.run": [], "dense.run": [], "qrels.txt": []}
    for query in range(1, queries + 1):
        scores: dict[str, list[tuple[float, str]]] = {"keyword": [], "dense": []}
        for document in range(1, documents + 1):
            worth = random.random()
            grade = 2 if worth > 0.93 else 1 if worth > 0.75 else 0
            keyword = max(0.0, 12 * worth + random.gauss(0, 6))
            dense = 0.5 + 0.3 * worth + random.gauss(0, 0.15)
            clicks = random.randint(0, 3) + (random.random() < worth)
            made["judged.txt"].append(f"{grade} qid:q{query:02d} 1:{keyword:.1f} 2:{dense:.2f} 3:{clicks}")
            name = f"d{query:02d}{document:02d}"
            if grade or document % 2:
                made["qrels.txt"].append(f"q{query:02d} 0 {name} {grade}")
            scores["keyword"].append((round(keyword, 1), name))
            scores["dense"].append((round(dense, 2), name))
        for retriever, found in scores.items():
            for rank, (score, name) in enumerate(sorted(found, reverse=True)[:_RETURNED], start=1):
                made[f"{retriever}.run"].append(f"q{query:02d} Q0 {name} {rank} {score} {retriever}")
    return made


if __name__ == "__main__":
    for file, lines in files().items():
        Path(__file__).with_name(file).write_text("\n".join(lines) + "\n", encoding="utf-8")
