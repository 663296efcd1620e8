"""Make judged.txt: queries with judged documents and the scores of three retrievers, in LETOR's format."""

from __future__ import annotations

from pathlib import Path
from random import Random


def lines(queries: int = 40, documents: int = 12) -> list[str]:
    """Return one line a document; each retriever sees the relevance through noise of its own."""
    random = Random(41)
    made = []
    for query in range(1, queries + 1):
        for _ in range(documents):
            worth = random.random()
            grade = 2 if worth > 0.93 else 1 if worth > 0.75 else 0
            keyword = max(0.0, 12 * worth + random.gauss(0, 6))
            dense = 0.5 + 0.3 * worth + random.gauss(0, 0.15)
            clicks = random.randint(0, 3) + (random.random() < worth)
            made.append(f"{grade} qid:q{query:02d} 1:{keyword:.1f} 2:{dense:.2f} 3:{clicks}")
    return made


if __name__ == "__main__":
    Path(__file__).with_name("judged.txt").write_text("\n".join(lines()) + "\n", encoding="utf-8")
