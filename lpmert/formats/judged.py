"""Judged documents from runs with qrels (TREC, JSON), LETOR files or tables; scores normalised, gaps filled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.files import STDIN, buffered_pipes, head_of, json_document, read_text
from lpmert.formats.columns import ALL, ColumnError, Names
from lpmert.formats.detect import read
from lpmert.formats.format import Place, Pool, placed_lines, unpacked, words_of
from lpmert.formats.tables import format_of_name
from lpmert.model.judgments import Judged, rows_by_query
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted, repeated

RULES = ("minimum", "zero")
RRF_CONSTANT = 60  # added to ranks, as by Cormack, Clarke and Buettcher, Reciprocal Rank Fusion, SIGIR 2009

_RUN, _QRELS = "query Q0 document rank score tag", "query 0 document grade"
_LOOKED_AT = 1 << 12
_OF_LETOR = re.compile(r"qid:.*|\d+:\S*")
"""The second word of a line of LETOR: the query or, where that is missing, a feature."""

Scores = Mapping[str, Mapping[str, float]]  # numbers by query and document: scores of a run, or grades


@buffered_pipes()
def read_judged(
    source: Any,
    *,
    qrels: str | Path | Scores | None = None,
    query: str | None = None,
    relevance: str | None = None,
    features: Names = None,
    normalise: str | None = None,
    missing: str | None = None,
) -> Judged:
    """Read judged documents with the scores to be weighted.

    Each run is a feature, named by its file. The documents of a query are those of all runs, in descending order of
    their names, as in trec_eval. Documents that are not in the qrels, or have a negative grade, are not relevant.

    Parameters
    ----------
    source : str, Path, data frame, or several runs
        With `qrels`, the runs: files, as a sequence or by name, in TREC's format (`query Q0 document rank score tag`)
        or in JSON (`{query: {document: score}}`, as ranx writes); or such mappings. Without `qrels`, a file of LETOR
        or svmlight (`grade qid:query index:value ...`; missing values are 0), or any table that `lpmert.read` reads,
        with one document a row.
    qrels : str, Path or mapping, optional
        Grades: in TREC's format (`query 0 document grade`), as BEIR's table of three columns, or in JSON.
    query, relevance : str, optional
        The columns of a table with the query and the grade, by default "query" and "relevance".
    features : sequence of str, or str, optional
        The columns, or in LETOR the indices, to use; all by default.
    normalise : {"minmax", "z", "rank"}, optional
        How the scores of each query and feature are normalised: (score - least) / (greatest - least), or 1 where all
        are equal; (score - mean) / standard deviation; or 1 / (60 + rank), where equal scores share the first rank.
    missing : {"minimum", "zero"}, optional
        The normalised score of a document that a run lacks: the least one of the query in the run, or 0. By default
        "zero" with "minmax" and "rank", otherwise "minimum"; the `notes` of the result count these documents.

    Returns
    -------
    Judged
        The documents of all queries with grades.

    Raises
    ------
    DataError
        With path and line, for data that cannot be used.

    Examples
    --------
    >>> import lpmert
    >>> runs = {"bm25": {"q": {"a": 9.5, "b": 7.0}}, "dense": {"q": {"b": 0.8, "c": 0.2}}}
    >>> lists = lpmert.read_judged(runs, qrels={"q": {"b": 1}}, normalise="minmax")
    >>> lists.features.tolist(), lists.notes
    ([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]], ('missing scores: 2 of 6; zero takes their place',))
    """
    if normalise not in (None, *NORMALISATIONS):
        known = listed(NORMALISATIONS)
        raise DataError(f"no normalisation {quoted(normalise)} keeps the problem linear here; there are {known}")
    if missing not in (None, *RULES):
        raise DataError(f"missing must be one of {listed(RULES)}, not {quoted(missing)}")
    zero = (missing or rule_of(normalise)) == "zero"
    if qrels is not None:
        if (query, relevance, features) != (None, None, None):
            remedy = "leave out query, relevance and features; give the runs that are wanted"
            raise DataError(f"runs have no columns: {remedy}")
        return _joined(named_runs(source), qrels, normalise, zero)
    lists = _read_one(source, query, relevance, features)
    filled, _ = _filled(lists.dense_features(), lists.offsets, normalise, zero)
    return Judged(filled, lists.offsets, lists.statistics[:, 0], lists.names, lists.list_ids)


def rule_of(normalise: str | None) -> str:
    """Return the default rule for missing scores: zero, as in search engines, where no score is below 0."""
    return "zero" if normalise in ("minmax", "rank") else "minimum"


def named_runs(runs: Any) -> dict[str, Any]:
    """Return runs by name; a file without a name is called like the file without its endings."""
    if isinstance(runs, Mapping):
        return _by_text(runs, "runs", None)
    paths = [runs] if isinstance(runs, str | Path) else runs
    if not isinstance(paths, Sequence) or not all(isinstance(path, str | Path) for path in paths):
        raise DataError(f"runs are files, or mappings by the name of the run; got {quoted(runs)}")
    names = [unpacked(path).stem for path in paths]
    if (twice := repeated(names)) is not None:
        remedy = "name them: NAME=FILE, in Python a mapping by name"
        raise DataError(f"two runs are called {quoted(twice)}; {remedy}", path=paths[names.index(twice)])
    return dict(zip(names, paths, strict=True))


# Runs and qrels


def _joined(runs: Mapping[str, Any], qrels: str | Path | Scores, normalise: str | None, zero: bool) -> Judged:
    if not runs:
        raise DataError("no runs; give at least one")
    grades = _scores(qrels, "qrels", run=False)
    ranked = {name: _scores(run, f"run {quoted(name)}", run=True) for name, run in runs.items()}
    run_queries = dict.fromkeys(query for run in ranked.values() for query in run)
    queries = [query for query in grades if query in run_queries]
    if not queries:
        ids = [quoted(next(iter(known))) for known in (grades, run_queries)]
        raise DataError(f"no query of the runs has grades: those of the qrels are like {ids[0]}, of runs like {ids[1]}")
    offsets, relevance, unretrieved, blocks = [0], list[float](), list[list[float]](), list[list[float]]()
    for query in queries:
        by_run = [run.get(query, {}) for run in ranked.values()]
        documents = sorted({document for scores in by_run for document in scores}, reverse=True)
        judged = grades[query]
        relevance += [max(0.0, judged.get(document, 0.0)) for document in documents]
        unretrieved.append([grade for document, grade in judged.items() if grade > 0 and document not in documents])
        blocks += [[scores.get(document, np.nan) for scores in by_run] for document in documents]
        offsets.append(len(relevance))
    features, n_missing = _filled(np.array(blocks), np.array(offsets), normalise, zero)
    rule = "zero" if zero else "the least score of the query in the run, or 0 without one,"
    counts = {
        f"missing scores: {{:,}} of {features.size:,}; {rule} takes their place": n_missing,
        "relevant documents in no run, which no weights reach: {:,}": sum(map(len, unretrieved)),
        "queries of the qrels in no run, left out: {:,}": len(grades) - len(queries),
        "queries of the runs without grades, left out: {:,}": len(run_queries) - len(queries),
    }
    return Judged(
        features,
        np.array(offsets),
        np.array(relevance),
        tuple(ranked),
        tuple(queries),
        tuple(map(np.array, unretrieved)),
        tuple(note.format(count) for note, count in counts.items() if count),
    )


def _scores(source: str | Path | Scores, what: str, *, run: bool) -> Scores:
    if isinstance(source, Mapping):
        found, path = _checked(source, what), None
    elif head_of(source, _LOOKED_AT).lstrip().startswith(b"{"):
        found, path = _checked(json_document(read_text(source), source), source), source
    else:
        found, path = _of_lines(source, run=run), source
    if not any(found.values()):
        raise DataError(f"no documents; write lines '{_RUN if run else _QRELS}'", path=path or what)
    return found


def _checked(document: Mapping[Any, Any], path: str | Path) -> Scores:
    found = {}
    for query, scores in _by_text(document, "queries", path).items():
        if not isinstance(scores, Mapping):
            form = "{query: {document: number}}"
            raise DataError(f"query {quoted(query)} has {quoted(scores)}, not numbers by document: {form}", path=path)
        place, of_query = Place(path), f"of query {quoted(query)}"
        found[query] = {
            document: place.number(value, f"document {quoted(document)} {of_query}", textual=False)
            for document, value in _by_text(scores, f"documents {of_query}", path).items()
        }
    return found


def _by_text(values: Mapping[Any, Any], what: str, path: str | Path | None) -> dict[str, Any]:
    """Return a mapping with its keys as text; raises `DataError` where two become equal, such as 1 and "1"."""
    if (twice := repeated(map(str, values))) is not None:
        raise DataError(f"two {what} are called {quoted(twice)}; keep one, or rename one", path=path)
    return {str(key): value for key, value in values.items()}


def _of_lines(path: str | Path, *, run: bool) -> Scores:
    found: dict[str, dict[str, float]] = {}
    columns = {6: (0, 2, 4)} if run else {4: (0, 2, 3), 3: (0, 1, 2)}  # of query, document and number, by width
    for place, line in placed_lines(path):
        words = words_of(line)
        if not words or (len(words) == 3 and not run and place.line == 1 and words[2] == "score"):  # BEIR's header
            continue
        if len(words) not in columns:
            other = "grades go to --qrels (qrels)" if run else "runs are DATA (source)"
            swapped = f"; {other}" if len(words) in ((3, 4) if run else (6,)) else ""
            raise place.error(f"{len(words)} words; write '{_RUN if run else _QRELS}'{swapped}")
        query, document, value = (words[at] for at in columns[len(words)])
        documents = found.setdefault(query, {})
        if document in documents:
            raise place.error(f"document {quoted(document)} of query {quoted(query)} comes a second time; keep one")
        documents[document] = place.number(value, "the score" if run else "the grade")
    return found


# One file with features and grades


def _read_one(source: Any, query: str | None, relevance: str | None, features: Names) -> NBest:
    """Return the documents of a file of LETOR or of a table, a list for each query; the statistic is the grade."""
    if isinstance(source, str | Path) and format_of_name(source) is None and str(source) != STDIN:
        beginning = head_of(source, _LOOKED_AT).decode("utf-8", "replace").lstrip("\ufeff")
        words = next((found for line in beginning.split("\n") if (found := words_of(line.partition("#")[0]))), [])
        if not words:
            raise DataError("no documents; write lines 'grade qid:query index:value ...', or a table", path=source)
        if len(words) == 6 and words[1] == "Q0":
            raise DataError("is a run of TREC; give the file of its grades, too: --qrels (qrels)", path=source)
        if len(words) > 1 and _OF_LETOR.fullmatch(words[1]):
            if query is not None or relevance is not None:
                raise DataError("LETOR and svmlight have no columns: leave out query and relevance", path=source)
            lists = _read_letor(source)
            wanted = features.split(",") if isinstance(features, str) else features
            return lists if wanted is None or wanted == [ALL] else lists.select_features(wanted)
    try:
        grades = [relevance or "relevance"]
        return read(source, segment=query or "query", statistics=grades, features=features or ALL, group=True)
    except ColumnError as error:
        message = f"{error.reason}; which columns are what, --query, --relevance and --features (features) say"
        raise DataError(message, path=error.path, line=error.line) from error


def _read_letor(path: str | Path) -> NBest:
    """Return the documents in lines `grade qid:query index:value ... # comment`, which must be sorted by query."""
    pool, last, found = Pool(), "", set[int]()
    for place, line in placed_lines(path):
        words = words_of(line.partition("#")[0])
        if not words:
            continue
        query = words[1].removeprefix("qid:") if len(words) > 1 and words[1].startswith("qid:") else ""
        if not query:
            raise place.error("the second word must be qid:QUERY")
        pairs = [word.partition(":") for word in words[2:]]
        row = {place.whole(key, "an index"): place.number(value, f"feature {key}") for key, _, value in pairs}
        if len(row) < len(pairs) or 0 in row:
            raise place.error("indices must be 1 or more, each once a line")
        if query in pool.numbers and query != last:
            raise place.error(f"query {quoted(query)} comes again; sort by query")
        last = query
        found.update(row)
        grade = place.number(words[0], "the grade")
        pool.add_row(query, tuple(map(str, row)), [*row.values()], [grade])
    if not found:
        raise DataError("there are no documents with features", path=path)
    return pool.nbest().select_features([*map(str, sorted(found))])


# Normalisations


NORMALISATIONS = ("minmax", "z", "rank")


def _normalised(scores: FloatArray, how: str | None) -> FloatArray:
    """Return the scores [n] of one query and feature, of which equal ones stay equal."""
    low, high = scores.min(), scores.max()
    if how == "minmax":
        return np.ones_like(scores) if low == high else (scores - low) / (high - low)
    if how == "z":
        return np.zeros_like(scores) if low == high else (scores - scores.mean()) / scores.std()
    if how == "rank":
        return 1.0 / (RRF_CONSTANT + 1 + np.searchsorted(np.sort(-scores), -scores))
    return scores


@np.errstate(over="ignore", invalid="ignore")
def _filled(features: FloatArray, offsets: IntArray, normalise: str | None, zero: bool) -> tuple[FloatArray, int]:
    """Return scores [M, D] normalised by query, with missing ones filled in, and the number of the latter."""
    gaps = np.isnan(features)
    if normalise is None and not gaps.any():
        return features, 0
    filled = np.zeros_like(features)
    for rows in rows_by_query(offsets):
        for column in range(features.shape[1]):
            present = ~gaps[rows, column]
            scores = features[rows, column][present]
            if len(scores):
                scores = _normalised(scores, normalise)
                filled[rows, column] = np.where(present, 0.0, 0.0 if zero else scores.min())
                filled[rows, column][present] = scores
    return filled, int(np.count_nonzero(gaps))
