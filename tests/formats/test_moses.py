"""N-best lists of Moses and its kin are read whole, written back exactly, and refused where something is wrong."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused
from scipy import sparse
from shared import SHARED_DATA, needs_shared

from lpmert.errors import DataError
from lpmert.formats.moses import read_moses, write_moses
from lpmert.metrics.ratio import Bleu
from lpmert.metrics.text import BleuTexts, SentenceBleuTexts
from lpmert.model.nbest import NBest
from lpmert.system.files import read_text

SWAHILI = (SHARED_DATA or Path()) / "swahili-mert-100best"
MOSES = """0 ||| the house ||| LM0= -1.5 TM0= -2 0.25 ||| -3.1 ||| 0
0 ||| house ||| LM0= -1 TM0= 1e-3 7 ||| -3.2 ||| 1
1 ||| small ||| LM0= -3 TM0= 4 5 ||| -1 ||| 2
"""
LEGACY = """0||| the house  ||| LM0: -1.5 TM0: -2 0.25 ||| -3.1 ||| 0
0||| house  ||| LM0: -1 TM0: 1e-3 7 ||| -3.2 ||| 1
1||| small  ||| LM0: -3 TM0: 4 5 ||| -1 ||| 2
"""
PAIRS = """0 ||| the house ||| LM0_0=-1.5 TM0_0=-2 TM0_1=0.25 ||| -3.1 ||| 0
0 ||| house ||| TM0_1=7 LM0_0=-1 TM0_0=1e-3 ||| -3.2 ||| 1
1 ||| small ||| LM0_0=-3 TM0_0=4 TM0_1=5 ||| -1 ||| 2
"""
TRAVATAR = """0 ||| the house ||| -3.1 ||| LM0_0=-1.5 TM0_0=-2 TM0_1=0.25 ||| 0
0 ||| house ||| -3.2 ||| LM0_0=-1 TM0_0=1e-3 TM0_1=7 ||| 1
1 ||| small ||| -1 ||| LM0_0=-3 TM0_0=4 TM0_1=5 ||| 2
"""


def put(folder: Path, content: str | bytes, name: str = "lists.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def assert_is_the_small_list(nbest: NBest) -> None:
    assert nbest.names == ("LM0_0", "TM0_0", "TM0_1")
    assert nbest.list_ids == ("0", "1")
    assert nbest.offsets.tolist() == [0, 2, 3]
    assert isinstance(nbest.features, np.ndarray)
    assert nbest.features.tolist() == [[-1.5, -2, 0.25], [-1, 0.001, 7], [-3, 4, 5]]
    assert nbest.texts == ("the house", "house", "small")


@pytest.mark.parametrize("content", [MOSES, LEGACY, PAIRS, TRAVATAR, MOSES.replace("\n", "\r\n"), "\ufeff" + MOSES])
def test_every_dialect_gives_the_same_lists(tmp_path: Path, content: str) -> None:
    nbest = read_moses(put(tmp_path, content), last_field=True)
    assert_is_the_small_list(nbest)
    assert nbest.statistic_names == ("loss",)
    assert nbest.statistics.tolist() == [[0], [1], [2]]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_compressed_lists_are_told_by_their_content(tmp_path: Path, pack: object) -> None:
    assert_is_the_small_list(read_moses(put(tmp_path, pack(MOSES.encode())), last_field=True))  # type: ignore[operator]


def test_sparse_features_are_zero_where_a_line_lacks_them(tmp_path: Path) -> None:
    content = (
        "0 ||| a ||| LM= -1 WT_a~b= 2 lex=1 ||| 0\n0 ||| b ||| LM= -2 ||| 3\n0 ||| c ||| lex=4 LM= 1 x=1=2 ||| 0\n"
    )
    nbest = read_moses(put(tmp_path, content), last_field=True)
    assert sparse.issparse(nbest.features)
    assert nbest.names == ("LM_0", "WT_a~b", "lex", "x=1")
    assert nbest.dense_features().tolist() == [[-1, 2, 1, 0], [-2, 0, 0, 0], [1, 0, 4, 2]]


def test_numbers_without_names_are_numbered_features(tmp_path: Path) -> None:
    nbest = read_moses(put(tmp_path, "u-1 ||| a ||| 1 2 ||| 3\nu-1 ||| b ||| 4 5 ||| 6\n"), last_field=True)
    assert nbest.names == ("feature1", "feature2")
    assert nbest.list_ids == ("u-1",)
    assert nbest.statistics.tolist() == [[3], [6]]


def test_one_number_is_the_feature_and_not_a_score_where_no_names_follow(tmp_path: Path) -> None:
    nbest = read_moses(put(tmp_path, "0 ||| a ||| 1 ||| 3\n"), last_field=True)
    assert (nbest.names, nbest.statistics.tolist()) == (("feature1",), [[3]])


def test_runs_are_pooled_by_list_and_repeats_dropped_on_request(tmp_path: Path) -> None:
    first = put(tmp_path, "0 ||| a ||| L= 1 ||| 3\n2 ||| b ||| L= 1 ||| 3\n", "one")
    second = put(tmp_path, "2 ||| b ||| L= 1 ||| 3\n0 ||| c ||| L= 1 ||| 3\n1 ||| d ||| L= 1 ||| 3\n", "two")
    pooled = read_moses([first, second], last_field=True)
    assert pooled.list_ids == ("0", "2", "1")
    assert pooled.texts == ("a", "c", "b", "b", "d")
    assert read_moses([first, second], last_field=True).deduplicate().texts == ("a", "c", "b", "d")
    without = read_moses([first, second], last_field=True, texts=False).deduplicate()
    assert (without.texts, without.offsets.tolist()) == (None, [0, 1, 2, 3])


def test_groups_in_another_order_are_told_by_their_names(tmp_path: Path) -> None:
    first = put(tmp_path, "0 ||| a ||| d: 1 2 lm: 3 ||| 0\n", "one")
    second = put(tmp_path, "0 ||| b ||| lm= 6 d= 4 5 ||| 0\n", "two")
    nbest = read_moses([first, second], last_field=True)
    assert nbest.names == ("d_0", "d_1", "lm_0")
    assert nbest.dense_features().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_statistics_beside_the_list_are_matched_line_by_line(tmp_path: Path) -> None:
    lists = put(tmp_path, MOSES)
    beside = put(tmp_path, "0 1 2\n0 3 4\n1 5 6\n", "statistics")
    nbest = read_moses(lists, statistics=beside, statistic_names=["match", "total"])
    assert nbest.statistic_names == ("match", "total")
    assert nbest.statistics.tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0 1\n0 3\n", r"statistics: ends before line 3 of .*lists.txt"),
        ("0 1\n0 3\n1 4\n1 4\n", r"statistics:4: more lines than .*lists.txt"),
        ("0 1\n1 3\n1 4\n", r"statistics:2: a line must begin with the id of the list, here '0', not '1'"),
        ("0 1\n0 3 4\n1 4\n", r"lists.txt:2: 2 statistics, but the first line has 1 numbers"),
        ("0 1\n0 x\n1 4\n", r"statistics:2: a statistic is 'x', not a number"),
        ("0\n0\n1\n", r"lists.txt:1: 0 statistics"),
        ("0 1\n\n1 4\n", r"statistics:2: a line must begin with the id"),
    ],
)
def test_statistics_that_do_not_fit_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_moses(put(tmp_path, MOSES), statistics=put(tmp_path, content, "statistics"))


def test_references_give_the_statistics_of_the_metric(tmp_path: Path) -> None:
    one = put(tmp_path, "the house\na small one\n", "one")
    two = put(tmp_path, "the big house\nsmall\n", "two")
    errors = read_moses(put(tmp_path, MOSES), references=one, metric="wer")
    assert errors.statistics.tolist() == [[0], [1], [2]]
    errors = read_moses(put(tmp_path, MOSES), references=[one, two], metric="wer")
    assert errors.statistics.tolist() == [[0], [1], [0]]
    bleu = read_moses(put(tmp_path, MOSES), references=one)
    assert bleu.statistics.tolist() == [
        [2, 2, 1, 1, 0, 0, 0, 0, 2],
        [1, 1, 0, 0, 0, 0, 0, 0, 2],
        [1, 1, 0, 0, 0, 0, 0, 0, 3],
    ]


def test_references_and_lists_must_be_of_the_same_sentences(tmp_path: Path) -> None:
    lists = put(tmp_path, MOSES)
    with pytest.raises(DataError, match=r"short: 1 lines, too few for list 1"):
        read_moses(lists, references=put(tmp_path, "a\n", "short"))
    long = put(tmp_path, "a\nb\nc\n", "long")
    with pytest.raises(DataError, match=r"long:3: no list for this line"):
        read_moses(lists, references=long)
    assert read_moses(lists, references=long, partial=True).n_lists == 2
    with pytest.raises(DataError, match=r"two: 2 lines, but .*long has 3"):
        read_moses(lists, references=[long, put(tmp_path, "a\nb\n", "two")])
    with pytest.raises(DataError, match=r"long:1: no reference for utterance 'u1', but one for 'a'"):
        read_moses(put(tmp_path, "u1 ||| a ||| 1\n"), references=long)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"lists.txt: empty file"),
        ("0 ||| a ||| L= 1 ||| 3", r"lists.txt:1: no line end here, so the file may be cut off"),
        ("0 ||| a ||| L= 1 ||| 3\n\n", r"lists.txt:2: empty line"),
        ("0 ||| a\n", r"lists.txt:1: 2 fields between \|\|\|, but a line needs id, text and features"),
        ("0 ||| a ||| L= 1 ||| 3\n0 ||| a ||| b ||| L= 1 ||| 3\n", r"lists.txt:2: 5 fields .* but line 1 has 4"),
        (" ||| a ||| L= 1 ||| 3\n", r"lists.txt:1: the first field must say"),
        ("0 ||| a ||| ||| 3\n", r"lists.txt:1: no features"),
        ("0 ||| a ||| L= ||| 3\n", r"lists.txt:1: no number after 'L='"),
        ("0 ||| a ||| 1 L= 2 ||| 3\n", r"lists.txt:1: a number without the name"),
        ("0 ||| a ||| = 2 ||| 3\n", r"lists.txt:1: a number without the name"),
        ("0 ||| a ||| L=1 2 ||| 3\n", r"lists.txt:1: two numbers for feature 'L'"),
        ("0 ||| a ||| L= 1 L= 2 ||| 3\n", r"lists.txt:1: feature 'L_0' comes twice"),
        ("0 ||| a ||| L= 1 ||| 3\n0 ||| a ||| L= 1 2 ||| 3\n", r"lists.txt:2: feature 'L_1' is new here"),
        ("0 ||| a ||| 1 2 ||| 3\n0 ||| a ||| 1 ||| 3\n", r"lists.txt:2: feature 'feature2' is missing"),
        ("0 ||| a ||| L= 1e400 ||| 3\n", r"lists.txt:1: a feature is '1e400', not a finite number"),
        ("0 ||| a ||| L= 1e200 ||| 3\n", r"lists.txt:1: a feature is '1e200', beyond 1e\+150"),
        ("0 ||| a ||| L= nan ||| 3\n", r"lists.txt:1: a feature is 'nan', not a finite number"),
        ("0 ||| a ||| L= -inf ||| 3\n", r"lists.txt:1: a feature is '-inf', not a finite number"),
        ("0 ||| a ||| L= 1_0 ||| 3\n", r"lists.txt:1: a feature is '1_0', not a number"),
        ("0 ||| a ||| L= １ ||| 3\n", r"lists.txt:1: a feature is '１', not a number"),
        ("0 ||| a ||| L= 1 ||| x\n", r"lists.txt:1: a statistic is 'x', not a number"),
        ("0 ||| a ||| L= 1\n", r"lists.txt:1: 0 statistics"),
        (
            "0 ||| a ||| L= 1 ||| 3\n1 ||| a ||| L= 1 ||| 3\n0 ||| a ||| L= 1 ||| 3\n",
            r"lists.txt:3: list '0' comes back",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_moses(put(tmp_path, content), last_field=True)


def test_lines_of_a_list_that_lie_apart_are_gathered_on_request(tmp_path: Path) -> None:
    lists = put(tmp_path, "0 ||| a ||| L= 1 ||| 3\n1 ||| b ||| L= 1 ||| 4\n0 ||| c ||| L= 1 ||| 5\n")
    assert read_moses(lists, last_field=True, group=True).texts == ("a", "c", "b")


def test_a_byte_that_is_no_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lists.txt:2: byte 0xe9 is not UTF-8"):
        read_moses(put(tmp_path, b"0 ||| a ||| L= 1 ||| 3\n0 ||| th\xe9 ||| L= 1 ||| 3\n"), last_field=True)


def test_exactly_one_source_of_statistics_is_needed(tmp_path: Path) -> None:
    lists = put(tmp_path, MOSES)
    with pytest.raises(DataError, match=r"lists.txt:1: no statistics; give references"):
        read_moses(lists)
    with pytest.raises(DataError, match="give one source of statistics"):
        read_moses(lists, last_field=True, references=lists)
    with pytest.raises(DataError, match="1 files of lists and 2 of statistics"):
        read_moses(lists, statistics=[lists, lists])
    with pytest.raises(DataError, match="at least one file"):
        read_moses([])


finite = st.floats(-1e150, 1e150) | st.integers(-(2**53), 2**53).map(float) | st.sampled_from([0.0, 0.1, 5e-324, -0.0])
word = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f|"), min_size=1, max_size=4)
name = word | st.sampled_from(
    ["LM_0", "LM_1", "LM_2", "TM0_0", "a_b", "a=", "b:", "a_00", "=_0", "1", "a_1", "_0", "LM"]
)
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=8).filter(
    lambda value: "|||" not in value and value.strip(" \t\n\r\v\f") == value
)


@examples(100)
@given(data=st.data())
def test_written_lists_read_back_exactly(tmp_path: Path, data: st.DataObject) -> None:
    list_ids = data.draw(st.lists(text.filter(bool), min_size=1, max_size=3, unique=True))
    offsets = np.cumsum([0, *(data.draw(st.integers(1, 3)) for _ in list_ids)])
    size = int(offsets[-1])
    names = data.draw(st.lists(name, min_size=1, max_size=5, unique=True))
    row = st.lists(finite, min_size=len(names), max_size=len(names))
    rows = np.array(data.draw(st.lists(row, min_size=size, max_size=size)))
    statistic_names = data.draw(st.lists(word, min_size=1, max_size=3, unique=True))
    width = len(statistic_names)
    nbest = NBest(
        sparse.csr_array(rows) if data.draw(st.booleans()) else rows,
        offsets,
        data.draw(st.lists(st.lists(finite, min_size=width, max_size=width), min_size=size, max_size=size)),
        names=names,
        list_ids=list_ids,
        statistic_names=statistic_names,
        texts=data.draw(st.none() | st.lists(text, min_size=size, max_size=size)),
    )
    path = tmp_path / "lists.txt"
    write_moses(nbest, path)
    again = read_moses(path)
    assert again.names == nbest.names
    assert again.list_ids == nbest.list_ids
    assert again.statistic_names == nbest.statistic_names
    assert (again.offsets == nbest.offsets).all()
    assert (again.dense_features() == nbest.dense_features()).all()
    assert (again.statistics == nbest.statistics).all()
    assert again.texts == (nbest.texts if any(nbest.texts or ()) else None)


def test_groups_are_written_as_moses_writes_them(tmp_path: Path) -> None:
    nbest = NBest([[1, 2, 3, 0.5, 7]], [0, 1], [4], names=["TM0_0", "TM0_1", "LM0_0", "WT_a~b", "lex"], texts=["a b"])
    write_moses(nbest, tmp_path / "lists.txt")
    line = "0 ||| a b ||| TM0= 1 2 LM0= 3 WT_a~b= 0.5 lex=7 ||| 0 ||| statistics: loss=4\n"
    assert (tmp_path / "lists.txt").read_text() == line


@pytest.mark.parametrize(
    "changes",
    [
        {"texts": ["a ||| b"]},
        {"texts": ["a\nb"]},
        {"texts": [" a"]},
        {"list_ids": ["a|||"]},
        {"names": ["a b"]},
        {"statistic_names": ["a|||b"]},
    ],
)
def test_what_the_format_cannot_hold_is_refused(tmp_path: Path, changes: dict[str, list[str]]) -> None:
    with pytest.raises(DataError, match=r"x.txt: .*(white space|\|\|\|)"):
        write_moses(NBest([[1.0]], [0, 1], [0], **changes), tmp_path / "x.txt")
    assert list(tmp_path.iterdir()) == []


PIECES = [b"|||", b"\n", b"\r", b"\0", b" ", b"=", b"1e400", b"nan", b"inf", b"_", b"\xff", b"\xef\xbb\xbf", b"9" * 400]


@pytest.mark.parametrize("statistics", ["", "3", "=3", "a=1 a=1", "a=x", "a=", "a=1 b=2 3"])
def test_written_statistics_that_were_changed_are_refused(tmp_path: Path, statistics: str) -> None:
    with pytest.raises(DataError, match=r"lists.txt:1: .*statistic"):
        read_moses(put(tmp_path, f"0 ||| a ||| L= 1 ||| 0 ||| statistics: {statistics}\n"))


def test_a_new_line_of_sparse_features_for_each_hypothesis_is_read(tmp_path: Path) -> None:
    lines = [f"{number // 10} ||| a ||| L= 1 f{number}={number + 1} ||| {number}\n" for number in range(3000)]
    nbest = read_moses(put(tmp_path, "".join(lines)), last_field=True)
    assert nbest.features.sum() == 3000 + 3000 * 3001 / 2


@examples(250)
@given(data=st.data())
def test_mutated_lists_are_read_whole_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    content = data.draw(st.sampled_from([MOSES, LEGACY, PAIRS, TRAVATAR])).encode()
    packing = data.draw(st.sampled_from([bytes, gzip.compress]))
    packed = data.draw(st.booleans())
    mutated = damaged(data, packing(content) if packed else content, PIECES, longest=3, cut=True)
    content = mutated if packed else packing(mutated)
    path = put(tmp_path, content)
    nbest = read_or_refused(path, lambda: read_moses(path, last_field=True))
    if nbest is not None:
        whole = mutated if not packed or packing is bytes else gzip.decompress(content)
        assert nbest.n_hypotheses == whole.count(b"\n")
        assert np.isfinite(nbest.dense_features()).all()


@needs_shared
def test_swahili_runs_have_the_counts_of_their_readme() -> None:
    runs = [SWAHILI / f"run{run}.nbest.txt.xz" for run in (3, 5, 7)]
    statistics = [SWAHILI / f"run{run}.bleustats.txt.xz" for run in (3, 5, 7)]
    pooled = read_moses(runs, statistics=statistics, texts=False).deduplicate()
    assert (pooled.n_lists, pooled.n_hypotheses, pooled.n_features) == (500, 61_961, 14)
    assert pooled.names[6:9] == ("Distortion0_0", "LM0_0", "WordPenalty0_0")


@needs_shared
@pytest.mark.parametrize(("pool", "references", "hypotheses"), [("news5", 3, 11_223), ("europarl10", 0, 4_912)])
def test_pools_of_runs_have_the_counts_of_their_readme(
    tmp_path: Path, pool: str, references: int, hypotheses: int
) -> None:
    assert SHARED_DATA is not None
    folder = SHARED_DATA / "moses-mert-pools"
    runs: dict[str, list[str]] = {}
    with lzma.open(folder / f"{pool}.nbest-by-run.txt.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            run, _, rest = line.partition(" ||| ")
            runs.setdefault(run, []).append(rest)
    files = [put(tmp_path, "".join(rest), f"run{run}") for run, rest in runs.items()]
    names = [f"{pool}.reference.{number}.xz" for number in range(references)] or [f"{pool}.reference.xz"]
    nbest = read_moses(files, references=[folder / name for name in names]).deduplicate()
    assert (nbest.n_hypotheses, nbest.n_features) == (hypotheses, 14)


@needs_shared
@pytest.mark.parametrize(
    ("data", "lists", "hypotheses", "features", "units", "first", "oracle"),
    [("asr-pocketsphinx", 250, 100, 5, "words", 0.287, 0.159), ("ime-kkc", 700, 20, 7, "characters", 0.0430, 0.0164)],
)
def test_lists_with_edits_have_the_figures_of_their_readme(
    data: str, lists: int, hypotheses: int, features: int, units: str, first: float, oracle: float
) -> None:
    assert SHARED_DATA is not None
    nbest = read_moses(SHARED_DATA / data / "nbest.txt.gz", last_field=True)
    assert (nbest.n_lists, nbest.n_hypotheses, nbest.n_features) == (lists, lists * hypotheses, features)
    references = read_text(SHARED_DATA / data / "refs.txt.gz").splitlines()
    length = sum(len(line.split()) if units == "words" else len(line) for line in references)
    errors = nbest.statistics.reshape(lists, hypotheses)
    assert errors[:, 0].sum() / length == pytest.approx(first, abs=5e-4 if units == "words" else 5e-5)
    assert errors.min(axis=1).sum() / length == pytest.approx(oracle, abs=5e-4 if units == "words" else 5e-5)


@needs_shared
def test_swahili_references_give_the_recorded_statistics(tmp_path: Path) -> None:
    keyed = read_text(SWAHILI / "reference.txt.xz").split("\n")
    references = put(tmp_path, "".join(line.partition("\t")[2] + "\n" for line in keyed[:-1]), "references")
    lists = SWAHILI / "run7.nbest.txt.xz"
    measured = read_moses(lists, references=references, metric=BleuTexts(tokenize="none"))
    recorded = read_moses(lists, statistics=SWAHILI / "run7.bleustats.txt.xz", texts=False)
    assert (measured.statistics == recorded.statistics).all()
    assert recorded.deduplicate().n_hypotheses == 48_343


@needs_shared
def test_europarl_lists_have_the_scores_of_their_readme() -> None:
    assert SHARED_DATA is not None
    folder = SHARED_DATA / "moses-europarl-100best"
    lists, references = folder / "nbest.out.xz", folder / "reference.txt.xz"
    nbest = read_moses(lists, references=references, metric=BleuTexts(tokenize="none", lowercase=True))
    assert (nbest.n_lists, nbest.n_hypotheses, nbest.n_features) == (100, 10_000, 15)
    first = nbest.statistics[nbest.offsets[:-1]].sum(axis=0)
    assert Bleu().score(first) == pytest.approx(11.10, abs=5e-3)
    plus_one = SentenceBleuTexts(tokenize="none", lowercase=True, smooth_value=1)
    losses = read_moses(lists, references=references, metric=plus_one).statistics.reshape(100, 100)
    best = nbest.statistics.reshape(100, 100, 9)[np.arange(100), losses.argmin(axis=1)].sum(axis=0)
    assert Bleu().score(best) == pytest.approx(16.52, abs=5e-3)
