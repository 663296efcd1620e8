"""What files of each format mean: features, statistics, texts and lists, told by hand or by the papers of the data."""

from __future__ import annotations

import gzip
import json
import lzma
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from shared import SHARED_DATA, needs_shared
from written_lists import FEATURES, SCORES

from lpmert import DataError, NBest, read
from lpmert.formats.detect import detect
from lpmert.formats.json_lists import read_best_of_n
from lpmert.formats.mert_data import load_mert_data, merge_sparse, read_mert_data
from lpmert.formats.moses import read_moses
from lpmert.formats.references import read_transcripts, utterance_files
from lpmert.formats.speech_lists import read_espnet, read_list, read_scores, read_srilm
from lpmert.metrics.ratio import BLEU_COLUMNS, Bleu
from lpmert.metrics.text import BleuTexts, SentenceBleuTexts
from lpmert.system.files import read_text

SWAHILI = (SHARED_DATA or Path()) / "swahili-mert-100best"
MOSES = """0 ||| the house ||| LM0= -1.5 TM0= -2 0.25 ||| -3.1 ||| 0
0 ||| house ||| LM0= -1 TM0= 1e-3 7 ||| -3.2 ||| 1
1 ||| small ||| LM0= -3 TM0= 4 5 ||| -1 ||| 2
"""


def put(folder: Path, content: str | bytes, name: str = "lists.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


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


def test_lines_of_a_list_that_lie_apart_are_gathered_on_request(tmp_path: Path) -> None:
    lists = put(tmp_path, "0 ||| a ||| L= 1 ||| 3\n1 ||| b ||| L= 1 ||| 4\n0 ||| c ||| L= 1 ||| 5\n")
    assert read_moses(lists, last_field=True, group=True).texts == ("a", "c", "b")


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


def test_a_new_line_of_sparse_features_for_each_hypothesis_is_read(tmp_path: Path) -> None:
    lines = [f"{number // 10} ||| a ||| L= 1 f{number}={number + 1} ||| {number}\n" for number in range(3000)]
    nbest = read_moses(put(tmp_path, "".join(lines)), last_field=True)
    assert nbest.features.sum() == 3000 + 3000 * 3001 / 2


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


SPARSE = FEATURES.replace("-1.5 2", "-1.5 2 a_b=3 c=d=0.5").replace("5 6", "5 6 e:7")


def read_mert(folder: Path, features: str | bytes = FEATURES, scores: str | bytes = SCORES) -> NBest:
    return read_mert_data(put(folder, features, "features"), scores=put(folder, scores, "scores"))


@pytest.mark.parametrize(
    "change",
    [
        str,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", " \n"),
    ],
)
def test_blocks_become_lists(tmp_path: Path, change: type[str]) -> None:
    nbest = read_mert(tmp_path, change(FEATURES), change(SCORES))
    assert nbest.names == ("lm_0", "w_0")
    assert nbest.list_ids == ("3", "0")
    assert nbest.offsets.tolist() == [0, 2, 3]
    assert nbest.dense_features().tolist() == [[-1.5, 2], [-0.001, 4], [5, 6]]
    assert nbest.statistic_names == ("errors", "reference_length")
    assert nbest.statistics.tolist() == [[0, 7], [3, 7], [1, 4]]


def test_type_and_number_of_dense_features_are_told(tmp_path: Path) -> None:
    data = load_mert_data(put(tmp_path, SPARSE, "features"), put(tmp_path, SCORES, "scores"))
    assert (data.score_type, data.n_dense) == ("WER", 2)
    assert data.nbest.names == ("lm_0", "w_0", "a_b", "c=d", "e")


def test_statistics_of_bleu_have_the_names_of_the_metric(tmp_path: Path) -> None:
    row = " ".join(map(str, range(9)))
    scores = SCORES.replace("2 WER", "9 BLEU").replace("0 7", row).replace("3 7", row).replace("1 4", row)
    assert read_mert(tmp_path, scores=scores).statistic_names == BLEU_COLUMNS


def test_runs_of_mert_data_are_pooled_by_list(tmp_path: Path) -> None:
    features, scores = put(tmp_path, FEATURES, "features"), put(tmp_path, SCORES, "scores")
    nbest = read_mert_data([features, features], scores=[scores, scores])
    assert nbest.list_ids == ("3", "0")
    assert nbest.dense_features()[:, 0].tolist() == [-1.5, -0.001, -1.5, -0.001, 5, 5]
    assert nbest.deduplicate().fingerprint == read_mert(tmp_path).fingerprint
    with pytest.raises(DataError, match="2 files of features and 1 of scores"):
        read_mert_data([features, features], scores=scores)


def test_sparse_features_of_mert_data_are_zero_where_a_line_lacks_them(tmp_path: Path) -> None:
    nbest = read_mert(tmp_path, SPARSE)
    assert sparse.issparse(nbest.features)
    assert nbest.dense_features().tolist() == [[-1.5, 2, 3, 0.5, 0], [-0.001, 4, 0, 0, 0], [5, 6, 0, 0, 7]]


def test_sparse_features_are_merged_by_their_weights(tmp_path: Path) -> None:
    data = load_mert_data(put(tmp_path, SPARSE, "features"), put(tmp_path, SCORES, "scores"))
    merged = merge_sparse(data, {"a_b": 2, "e": -1, "unseen": 9})
    assert merged.names == ("lm_0", "w_0", "sparse")
    assert merged.dense_features().tolist() == [[-1.5, 2, 6], [-0.001, 4, 0], [5, 6, -7]]


SET = """{"id": "p1", "prompt": "1 + 1?", "candidates": [\
{"text": "2", "scores": {"logprob": -1.5, "judge": 7}, "correct": true},\
 {"text": "11", "scores": {"judge": 3, "logprob": -0.5}, "correct": false, "tokens": 3}]}
{"id": 2, "candidates": [{"text": "", "scores": {"logprob": -2, "judge": 1e-3}, "correct": 0.75}]}
"""


def read_sets(tmp_path: Path, content: str | bytes) -> NBest:
    path = tmp_path / "set.jsonl"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_best_of_n(path)


def test_a_line_is_a_list(tmp_path: Path) -> None:
    nbest = read_sets(tmp_path, SET)
    assert nbest.list_ids == ("p1", "2")
    assert nbest.names == ("logprob", "judge")
    assert nbest.offsets.tolist() == [0, 2, 3]
    assert nbest.dense_features().tolist() == [[-1.5, 7], [-0.5, 3], [-2, 0.001]]
    assert nbest.statistic_names == ("loss",)
    assert nbest.statistics[:, 0].tolist() == [0, 1, 0.25]
    assert nbest.texts == ("2", "11", "")


def test_loss_and_statistics_are_taken_as_they_are(tmp_path: Path) -> None:
    nbest = read_sets(
        tmp_path, SET.replace('"correct": true', '"loss": 3').replace('"correct"', '"loss"').replace("false", "4")
    )
    assert nbest.statistics[:, 0].tolist() == [3, 4, 0.75]
    line = '{"id": "x", "candidates": [{"scores": {"a": 1}, "statistics": {"match": 2, "total": 5}}]}\n'
    nbest = read_sets(tmp_path, line)
    assert nbest.statistic_names == ("match", "total")
    assert nbest.statistics.tolist() == [[2, 5]]
    assert nbest.texts is None


AM = "one-1 -10.5\none-2 -11\ntwo-x-1 -3e0\n"
LM = "two-x-1\t-1\none-1   -2 \none-2 -4\n"
TEXT = "one-2 the cut\none-1 the cat\ntwo-x-1\n"
REFERENCES = {"one": "the cat", "two-x": "a dog"}


def files(tmp_path: Path, **contents: str | bytes) -> dict[str, Path]:
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return {name: tmp_path / name for name in contents}


def read_keyed(tmp_path: Path, am: str | bytes = AM, lm: str = LM, text: str = TEXT) -> NBest:
    paths = files(tmp_path, am=am, lm=lm, text=text)
    return read_scores({"am": paths["am"], "lm": paths["lm"]}, texts=paths["text"], references=REFERENCES)


def test_files_are_joined_by_key_in_the_order_of_the_first(tmp_path: Path) -> None:
    nbest = read_keyed(tmp_path)
    assert nbest.names == ("am", "lm")
    assert nbest.list_ids == ("one", "two-x")
    assert nbest.dense_features().tolist() == [[-10.5, -2], [-11, -4], [-3, -1]]
    assert nbest.texts == ("the cat", "the cut", "")
    assert nbest.statistics[:, 0].tolist() == [0, 1, 2]


def test_lists_may_lie_apart(tmp_path: Path) -> None:
    paths = files(tmp_path, am="b-1 1\na-1 2\nb-0 3\n", errors="a-1 4\nb-0 5\nb-1 6\n")
    nbest = read_scores({"am": paths["am"]}, losses={"errors": paths["errors"]})
    assert nbest.list_ids == ("b", "a")
    assert nbest.dense_features()[:, 0].tolist() == [1, 3, 2]
    assert nbest.statistics[:, 0].tolist() == [6, 5, 4]
    assert nbest.statistic_names == ("errors",)
    assert nbest.texts is None


def test_separator_may_be_another(tmp_path: Path) -> None:
    paths = files(tmp_path, am="a-b_nbest3 1\na-b_nbest4 2\n", errors="a-b_nbest4 4\na-b_nbest3 5\n")
    nbest = read_scores({"am": paths["am"]}, losses={"errors": paths["errors"]}, separator="_nbest")
    assert nbest.list_ids == ("a-b",)


def test_marks_and_line_ends_of_windows_are_accepted_in_scores(tmp_path: Path) -> None:
    plain = read_keyed(tmp_path)
    windows = gzip.compress(b"\xef\xbb\xbf" + AM.replace("\n", "\r\n").encode())
    assert read_keyed(tmp_path, am=windows).fingerprint == plain.fingerprint


def test_arguments_of_scores_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    am = {"am": files(tmp_path, am=AM)["am"]}
    with pytest.raises(DataError, match=r"either references .* or losses"):
        read_scores(am)
    with pytest.raises(DataError, match=r"either references .* or losses"):
        read_scores(am, texts=tmp_path / "am", references=REFERENCES, losses=am)
    with pytest.raises(DataError, match="word errors need texts"):
        read_scores(am, references=REFERENCES)
    with pytest.raises(DataError, match="scores names no file"):
        read_scores({}, losses=am)
    with pytest.raises(DataError, match="losses names no file"):
        read_scores(am, losses={})


def test_keys_and_references_must_be_of_the_same_utterances(tmp_path: Path) -> None:
    paths = files(tmp_path, am="one-1 1\n", text="one-1 a\n")
    scores = {"am": paths["am"]}
    with pytest.raises(DataError, match="no list for the reference of 'two-x'"):
        read_scores(scores, texts=paths["text"], references=REFERENCES)
    assert read_scores(scores, texts=paths["text"], references=REFERENCES, partial=True).n_lists == 1
    with pytest.raises(DataError, match="no reference for utterance 'one'"):
        read_scores(scores, texts=paths["text"], references={"x": "a"}, partial=True)


def espnet(folder: Path, ranks: dict[int, tuple[str, str]]) -> None:
    for rank, (score, text) in ranks.items():
        place = folder / f"{rank}best_recog"
        place.mkdir(parents=True)
        (place / "score").write_text(score)
        (place / "text").write_text(text)
        (place / "token").write_text("not looked at")


def test_espnet_folders_become_lists(tmp_path: Path) -> None:
    espnet(
        tmp_path,
        {
            1: ("one tensor(-1.5)\ntwo-x -3\n", "one the cat\ntwo-x dog\n"),
            2: ("one tensor(-2.5, device='cuda:0')\n", "one the cut\n"),
        },
    )
    nbest = read_espnet(tmp_path, REFERENCES)
    assert nbest.names == ("score", "words")
    assert nbest.list_ids == ("one", "two-x")
    assert nbest.offsets.tolist() == [0, 2, 3]
    assert nbest.dense_features().tolist() == [[-1.5, 2], [-2.5, 2], [-3, 1]]
    assert nbest.statistics[:, 0].tolist() == [0, 1, 1]
    assert nbest.texts == ("the cat", "the cut", "dog")


def test_ten_espnet_hypotheses_are_ranked_by_number(tmp_path: Path) -> None:
    espnet(tmp_path, {rank: (f"one -{rank}\n", "one a\n") for rank in range(1, 12)})
    nbest = read_espnet(tmp_path, {"one": "a"})
    assert nbest.dense_features()[:, 0].tolist() == [-float(rank) for rank in range(1, 12)]


def test_jobs_of_espnet_are_joined(tmp_path: Path) -> None:
    espnet(tmp_path / "output.1", {1: ("one -1\n", "one a\n")})
    espnet(tmp_path / "output.2", {1: ("two-x -1\n", "two-x a\n"), 2: ("two-x -2\n", "two-x a\n")})
    nbest = read_espnet(tmp_path, REFERENCES)
    assert nbest.list_ids == ("one", "two-x")
    assert nbest.offsets.tolist() == [0, 1, 3]


@pytest.mark.parametrize("scores", ["score", ()])
def test_names_of_espnet_scores_must_be_a_sequence(tmp_path: Path, scores: str | tuple[str, ...]) -> None:
    with pytest.raises(DataError, match=r"scores must be a sequence|scores names no file"):
        read_espnet(tmp_path, REFERENCES, scores=scores)


FORM_1 = "NBestList1.0\n(-2500) the cat\n(-3000)\n"
FORM_2 = (
    "NBestList2.0\n"
    "(-30) the ( st: 0.0 et: 0.2 g: -3 a: -10 ) dh ( st: 0.0 et: 0.1 g: 0 a: -5 ) ax ( st: 0.1 et: 0.2 g: 0 a: -5 )"
    " cat ( st: 0.21 et: 0.5 g: -4 a: -13 )\n"
    "(-7) a ( st: 0.0 et: 0.5 g: -2 a: -5 )\n"
)
FORM_3 = "# made by hand\n-10.5 -3.25 2 the cat\n-12 -2e0 1 the <pause>\n-30 -1 0\n"
FORMS = {1: FORM_1, 2: FORM_2, 3: FORM_3}
UTTERANCES = {"one": "the cat", "two": "a dog"}


def folder_with(tmp_path: Path, **contents: str | bytes) -> Path:
    folder = tmp_path / "lists"
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def log10_of_bytelog(bytelog: int) -> float:
    """What the manual says: a logarithm to base 1.0001, divided by 1024. SRILM takes 10000.5 for 1 / ln 1.0001."""
    return bytelog * 1024 * math.log10(1.0001)


def test_form_3_has_the_numbers_of_the_file(tmp_path: Path) -> None:
    nbest = read_srilm(folder_with(tmp_path, one=FORM_3), {"one": "the cat"})
    assert nbest.names == ("acoustic", "lm", "words")
    assert nbest.dense_features().tolist() == [[-10.5, -3.25, 2], [-12, -2, 1], [-30, -1, 0]]
    assert nbest.texts == ("the cat", "the <pause>", "")
    assert nbest.statistics[:, 0].tolist() == [0, 1, 2]
    assert nbest.list_ids == ("one",)


def test_bytelogs_become_logarithms_to_base_10(tmp_path: Path) -> None:
    nbest = read_srilm(folder_with(tmp_path, one=FORM_1), {"one": "the cat"})
    assert nbest.names == ("score", "words")
    expected = [[log10_of_bytelog(-2500), 2], [log10_of_bytelog(-3000), 0]]
    assert nbest.dense_features() == pytest.approx(np.array(expected), rel=1e-7)
    assert nbest.texts == ("the cat", "")


def test_phones_within_a_word_are_left_out_of_form_2(tmp_path: Path) -> None:
    nbest = read_srilm(folder_with(tmp_path, one=FORM_2), {"one": "a cat"})
    assert nbest.names == ("acoustic", "lm", "words")
    expected = [[log10_of_bytelog(-23), log10_of_bytelog(-7), 2], [log10_of_bytelog(-5), log10_of_bytelog(-2), 1]]
    assert nbest.dense_features() == pytest.approx(np.array(expected), rel=1e-7)
    assert nbest.texts == ("the cat", "a")
    assert nbest.statistics[:, 0].tolist() == [1, 1]


def test_scores_in_parentheses_are_form_1_without_its_header(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(FORM_1.partition("\n")[2])
    (tmp_path / "y").write_text(FORM_1)
    assert read_list(tmp_path / "x") == read_list(tmp_path / "y")


def test_folder_is_read_by_name_and_endings_are_not_part_of_the_utterance(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, **{"two.nbest.gz": gzip.compress(FORM_3.encode()), "one.score": FORM_3})
    (folder / ".hidden").write_text("x")
    assert [utterance for utterance, _ in utterance_files(folder)] == ["one", "two"]
    nbest = read_srilm(folder, UTTERANCES)
    assert nbest.list_ids == ("one", "two")
    assert nbest.offsets.tolist() == [0, 3, 6]


def test_manifest_gives_order_and_names_with_paths_from_its_own_folder(tmp_path: Path) -> None:
    folder_with(tmp_path, **{"x.nbest": FORM_3, "one.nbest": FORM_3})
    manifest = tmp_path / "files.scp"
    manifest.write_text("two lists/x.nbest\nlists/one.nbest\n")
    assert read_srilm(manifest, UTTERANCES).list_ids == ("two", "one")


def test_references_are_kaldi_text_or_trn(tmp_path: Path) -> None:
    kaldi, trn = tmp_path / "text", tmp_path / "ref.trn"
    kaldi.write_text("one the cat\ntwo\nthree a\tb \n")
    trn.write_text("the cat (one)\n(two)\na\tb (three)\n")
    for path in (kaldi, trn):
        words = {utterance: text.split() for utterance, text in read_transcripts(path).items()}
        assert words == {"one": ["the", "cat"], "two": [], "three": ["a", "b"]}


def test_trn_lines_may_begin_with_the_same_word(tmp_path: Path) -> None:
    (tmp_path / "trn").write_text("the (one)\nthe (two)\n")
    assert list(read_transcripts(tmp_path / "trn")) == ["one", "two"]


def test_lists_and_references_must_be_of_the_same_utterances(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, one=FORM_3)
    with pytest.raises(DataError, match="no reference for utterance 'one'"):
        read_srilm(folder, {"two": "a dog"}, partial=True)
    with pytest.raises(DataError, match=r"no list for the reference of 'two'.*partial=True"):
        read_srilm(folder, UTTERANCES)
    assert read_srilm(folder, UTTERANCES, partial=True).list_ids == ("one",)


def test_metric_may_be_another_than_word_errors(tmp_path: Path) -> None:
    nbest = read_srilm(folder_with(tmp_path, one="-1 -2 1 cat\n"), {"one": "cut"}, metric="cer")
    assert nbest.statistics.tolist() == [[1]]


def test_files_of_other_features_are_refused_by_name(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, one=FORM_3, two=FORM_1)
    with pytest.raises(DataError, match="two: form 1, but the files before have the features acoustic, lm, words"):
        read_srilm(folder, UTTERANCES)


def test_multiwords_may_count_as_their_parts(tmp_path: Path) -> None:
    nbest = read_srilm(folder_with(tmp_path, one="-1 -2 3 going_to go\n"), {"one": "x"})
    assert nbest.dense_features().tolist() == [[-1, -2, 3]]


@pytest.mark.parametrize("form", [1, 2, 3])
def test_marks_and_line_ends_of_windows_are_accepted_in_srilm_lists(tmp_path: Path, form: int) -> None:
    plain = read_srilm(folder_with(tmp_path, one=FORMS[form]), {"one": "x"})
    windows = b"\xef\xbb\xbf" + FORMS[form].replace("\n", "\r\n").encode()
    nbest = read_srilm(folder_with(tmp_path, one=windows), {"one": "x"})
    assert nbest.fingerprint == plain.fingerprint
    assert nbest.texts == plain.texts


def test_lists_by_name_need_no_options(tmp_path: Path) -> None:
    rows = [{"am": 1, "loss": 0}, {"am": 2, "loss": 1}]
    (tmp_path / "x.json").write_text(json.dumps({"a": rows, "b": rows[:1]}))
    assert read(tmp_path / "x.json").list_ids == ("a", "b")
    for other in ({"a": rows}, {"a": rows, "b": [{"am": 1}]}, {"a": rows, "b": []}, {"a": [1, 2], "b": [3]}):
        (tmp_path / "x.json").write_text(json.dumps(other))
        with pytest.raises(DataError, match="say which columns"):
            read(tmp_path / "x.json")


def test_best_of_n_may_be_an_array(tmp_path: Path) -> None:
    sets = [{"id": "q", "candidates": [{"scores": {"a": 1}, "loss": 0}, {"scores": {"a": 2}, "loss": 1}]}]
    for content in (json.dumps(sets), json.dumps(sets, indent=2), json.dumps(sets[0])):
        (tmp_path / "x").write_text(content)
        assert detect(tmp_path / "x") == "best-of-n"
        assert read(tmp_path / "x").statistics.tolist() == [[0], [1]]
