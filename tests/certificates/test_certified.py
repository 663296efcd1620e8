"""Certificates prove what enumeration in fractions finds: kinds of lists and graphs, metrics, regions and trees.

The problems are those of `problems.py` and `graph_problems.py`, whose oracles share no code with engines and checker.
"""

import gzip
import json
import time
from collections import Counter
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from certificates import assert_refused, base, document, layout
from commands import COLUMNS, json_of, python, refusal, succeeded
from graph_problems import METRICS as GRAPH_METRICS
from graph_problems import Drawn, graph_problem, with_ties
from oracle import best_loss
from problems import FEATURES, REGIONS, WORTHS, Case, problem, random_lists
from searches import many_more, peak_of
from shared import librispeech, needs_shared, swahili, train_choices

import lpmert
from lpmert import CertificateError, Linear, MethodError, NBest, Region, RegionError, verify
from lpmert.certificates.format import CertificateReader, Header, Record
from lpmert.certificates.write.certify import certificate_writer, write_certificate

pytestmark = pytest.mark.usefixtures("poor_start")

TREES = ("boxes", "selections", None)
WHERE = ["", *(region for region in REGIONS if region != "many")]  # whose cones take exact arithmetic minutes
TIES = ("first", "best", "worst")
REFUSALS = (
    "fewer digits",
    "no weights to certify",
    "tie",
    "too large for a certificate",
    "no proof is known for a loss above 1",
)
"""What is refused: regions in decimals, weights that doubles do not have, graphs, and some fractions."""


def certified(case: Case, path: Path, tree: str | None = None, ties: str = "first") -> str:
    """Hold the certificate of the optimum to the least loss; return how it ended."""
    settings = {"metric": case.metric, "region": case.region, "ties": ties}
    try:
        result = lpmert.minimize(case.data, **settings)
    except RegionError:
        return "nothing inside, or digits that doubles do not hold"
    if tree and lpmert.Problem(case.nbest, case.metric, region=case.region).canonical.n_features == 0:
        tree = None
    try:
        if tree:
            write_certificate(path, case.nbest, result, **settings, kind=tree)
        else:
            lpmert.certify(case.data, result, path, **settings)
    except (MethodError, CertificateError) as error:
        assert any(words in str(error) for words in REFUSALS), case.name  # noqa: PT017
        return "refused"
    found = verify(path, case.data, metric=case.metric, ties=ties)
    least, attained = case.least, case.attained(result.weights.tolist())[0]
    slack = 0 if case.loss is None or case.exact else Fraction(1, 10**12)
    assert abs(found.bound - Fraction(least)) <= slack, case.name
    assert abs(found.loss - Fraction(attained)) <= slack or case.equations, case.name
    assert found.proved == (found.loss == found.bound)
    return "proved" if found.proved else "a gap"


@pytest.mark.parametrize("seeds", [range(1), many_more(range(1, 12))])
@pytest.mark.parametrize("kind", FEATURES)
def test_certificates_of_lists_prove_the_least_loss(kind: str, seeds: range, tmp_path: Path) -> None:
    """Losses, metrics, trees and rules for ties take turns."""
    ended: Counter[str] = Counter()
    place = list(FEATURES).index(kind)
    for seed in seeds:
        for k, region in enumerate(WHERE):
            turn = place + k + 10 * seed
            case = problem(kind, WORTHS[turn % len(WORTHS)], 200 + seed, kind=region)
            ties = TIES[turn % 3] if case.loss is None and isinstance(case.metric, str) else "first"
            case = case if ties == "first" else with_ties(case, ties)
            ended[certified(case, tmp_path / f"{turn}.json", TREES[(place + 2 * k + seed) % len(TREES)], ties)] += 1
    assert ended["proved"] > 3 * len(seeds), ended


@pytest.mark.parametrize("seeds", [range(6), many_more(range(6, 60))])
@pytest.mark.parametrize("kind", ["integers", "dyadic", "ternary", "duplicates"])
def test_certificates_of_lattices_and_hypergraphs_prove_the_least_loss_of_all_paths(
    kind: str, seeds: range, tmp_path: Path
) -> None:
    """With at most three features: a certificate has a cone for each orthant."""
    ended: Counter[str] = Counter()
    for seed in seeds:
        for k, metric in enumerate(GRAPH_METRICS):
            case = graph_problem(kind, metric, seed, kind=WHERE[(seed + 2 * k) % len(WHERE)])
            if case.features.shape[1] <= 3:
                ended[certified(case, tmp_path / f"{seed}-{k}.json")] += 1
    assert ended["proved"] > len(seeds), ended


@pytest.mark.parametrize("method", ["sweep", "cells", "choices", "lp-mert", "exhaustive", "mip", "auto"])
def test_the_optimum_of_every_engine_can_be_certified(path: Path, method: str) -> None:
    lists = random_lists("floats", 3, most_features=2)
    result = lpmert.minimize(lists.nbest, method=method)
    write_certificate(path, lists.nbest, result)
    found = verify(path, lists.nbest)
    assert found.loss == found.bound == best_loss(lists)
    assert f"method:{method}" in found.found_by
    assert list(found.weights.values()) == result.weights.tolist()


class TestShared:
    @needs_shared
    def test_two_features_of_librispeech(self, path: Path) -> None:
        assert proved(path, librispeech().select_features(["decoder", "lm"])) == 1779

    @needs_shared
    @pytest.mark.slow
    @pytest.mark.parametrize(("first", "optimum"), [(0, 4.948169), (8, 4.641196), (16, 5.091451), (24, 5.890797)])
    def test_eight_lists_of_swahili(self, path: Path, first: int, optimum: float) -> None:
        assert float(proved(path, swahili().restrict(slice(first, first + 8)))) == pytest.approx(optimum, abs=1e-6)

    @needs_shared
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["boxes", "selections"])
    def test_train_choices(self, path: Path, kind: str) -> None:
        assert proved(path, train_choices(), kind) == 858


def proved(path: Path, nbest: NBest, kind: str | None = None) -> Fraction:
    """Certify, check within a minute of processor time, and return the least loss."""
    write_certificate(path, nbest, lpmert.minimize(nbest), kind=kind)
    started = time.process_time()
    found = verify(path, nbest)
    assert time.process_time() - started < 60
    assert found.proved
    return found.loss


class TestWriting:
    def test_a_result_without_a_proof_is_not_certified(self, path: Path) -> None:
        nbest, _ = base("selections")
        with pytest.raises(MethodError, match="no optimum to certify"):
            write_certificate(path, nbest, lpmert.minimize(nbest, node_limit=0))
        assert not path.exists()

    def test_the_result_of_other_lists_or_lattices_is_not_certified(self, path: Path) -> None:
        lists, (lattices, others) = base("selections")[0], (Drawn(k, "integers", 2, 2).lattices() for k in (3, 4))
        for data, other in ((lists, lists.restrict(slice(1, None))), (lattices, others)):
            with pytest.raises(MethodError, match="other lists"):
                lpmert.certify(other, lpmert.minimize(data), path)
            assert not path.exists()

    def test_limits_that_doubles_do_not_hold_are_not_certified_as_others(self, path: Path) -> None:
        """3 times 0.3 needs more than 53 bits, 2 times 0.3 does not."""
        nbest, _ = base("selections")
        few, many = (
            Region(fixed={"feature1": value}, linear=[Linear({"feature2": 0.3}, lower=-0.1)]) for value in (2.0, 3.0)
        )
        with pytest.raises(MethodError, match="fewer digits"):
            write_certificate(path, nbest, lpmert.minimize(nbest, region=many), region=many)
        write_certificate(path, nbest, lpmert.minimize(nbest, region=few), region=few)
        (limit,) = (limit for limit in verify(path, nbest).limits if limit[1])
        assert Fraction(limit[0]) / Fraction(limit[1]) == Fraction(0.1) / (2 * Fraction(0.3))


class TestIndependence:
    def test_checking_loads_no_search_engine_and_no_solver(self, path: Path) -> None:
        nbest, text = base("few boxes")
        path.write_text(text)
        np.savez(path.with_suffix(".npz"), features=nbest.features, offsets=nbest.offsets, losses=nbest.statistics)
        program = (
            "import sys, lpmert\n"
            "at_import = set(sys.modules)  # what importing the package loads; they load nothing more by themselves\n"
            "import numpy\n"
            f"data = numpy.load({str(path.with_suffix('.npz'))!r})\n"
            "nbest = lpmert.NBest(data['features'], data['offsets'], data['losses'])\n"
            f"assert lpmert.verify({str(path)!r}, nbest).proved\n"
            "print(*at_import)\n"
            "print(*sys.modules)"
        )
        at_import, loaded = map(str.split, python("-c", program).stdout.splitlines())
        assert not {name.split(".")[0] for name in loaded} & {"highspy", "scipy", "pulp", "networkx"}
        assert "numpy" not in at_import
        own = {name for name in loaded if name.startswith("lpmert.")}
        allowed = """
            certificates certificates.check certificates.check.lists certificates.check.regions certificates.check.tree
            certificates.check.verify certificates.format errors formats formats.text metrics metrics.base
            metrics.contract model model.arrays model.nbest numeric numeric.lists numeric.rational numeric.rounding
            system system.deadline system.files system.interrupts system.memory system.streams
        """
        assert own - set(at_import) == {f"lpmert.{name}" for name in allowed.split()}

    def test_checking_lattices_loads_no_search(self, path: Path) -> None:
        made = 'lpmert.Lattices([[1.0, 0.0], [0.0, 1.0]], [0, 2], [0, 0], [1, 1], ["b", "a"], ["a"])'
        lattices = eval(made)
        lpmert.certify(lattices, lpmert.minimize(lattices), path)
        program = f"import sys, lpmert; assert lpmert.verify({str(path)!r}, {made}).proved; print(*sys.modules)"
        loaded = {name.split(".")[1] for name in python("-c", program).stdout.split() if name.startswith("lpmert.")}
        assert {"certificates", "model"} <= loaded
        assert not loaded & {"search", "methods", "lines", "api", "ranking"}


class TestPlaces:
    """A refusal names the file once, and a line only if there is one."""

    @pytest.mark.parametrize(
        ("content", "place"),
        [
            (b"", ": the file is cut short"),
            (b"\x1f\x8b\x08\x00abc", ": the compressed file is damaged"),
            (b"\xff\xfe", ": is UTF-16"),
            (b"{}", ":1: no record in the layout of a certificate: Extra data, character 3"),
            *((own, ":1: no record") for own in (b"\n", b"[]\n", b'{"tree": [\n]}\n', b"\x00\x01\x02")),
            (b'{"lpmert certificate": ' + b"[" * 100_000 + b', "tree": [\n]}\n', ":1: no record"),
            (b'{"lpmert certificate": 1, "tree": [\n]}\n', ":1: schema 2 needs a header with"),
            (layout(document("few boxes") | {"lpmert certificate": 3}).encode(), ":1: schema 2 needs a header with"),
            (layout(document("few boxes")).encode() + b"{}\n", ":27: the tree is closed, but something follows"),
            (layout(document("few boxes")).encode().replace(b"\n]}", b"\n\xff]}"), ":27: byte 0xff is not UTF-8"),
        ],
    )
    def test_what_cannot_be_read(self, path: Path, content: bytes, place: str) -> None:
        said = assert_refused(path, base("few boxes")[0], content=content)
        assert said.startswith(f"{path}{place}")
        assert said.count(path.name) - ("iconv" in said) == 1


class TestCommand:
    COUNTS = (  # 2 * (1 + 3) / (2 + 3 + 5) = 0.8 is the best F1
        "list\tam\tlm\tmatch\tpredicted\tgold\na\t1\t0\t1\t2\t2\na\t0\t1\t0\t2\t2\nb\t1\t0\t3\t3\t3\nb\t0\t1\t2\t3\t3\n"
    )

    @pytest.fixture
    def files(self, table: Path, path: Path) -> tuple[Path, Path]:
        """A table, and the certificate that `lpmert solve` writes about it."""
        succeeded("solve", table, *COLUMNS, "--certificate", path, "--quiet")
        return table, path

    def test_a_certificate_that_holds(self, files: tuple[Path, Path]) -> None:
        table, certificate = files
        outcome = succeeded("verify", certificate, table, *COLUMNS)
        assert outcome.stdout.splitlines()[-1].startswith("certificate holds: loss 2 is the least")
        found = json_of("verify", certificate, table, *COLUMNS)
        assert (found["loss"], found["bound"], found["proved"]) == (2.0, 2.0, True)

    def test_a_ratio_is_certified_and_checked(self, table: Path, path: Path) -> None:
        table.write_text(self.COUNTS)
        columns = ("--segment", "list", "--features", "am,lm", "--statistics", "match,predicted,gold", "--metric", "f1")
        succeeded("solve", table, *columns, "--certificate", path, "--quiet")
        outcome = succeeded("verify", path, table, *columns)
        assert outcome.stdout.splitlines()[-1].startswith("certificate holds: loss 0.2 is the least (metric:f1")

    def test_a_changed_certificate_is_refused_with_a_code_of_its_own(self, files: tuple[Path, Path]) -> None:
        table, certificate = files
        certificate.write_text(certificate.read_text().replace('"2"', '"1"'))
        assert f"certificate refused: {certificate}:1: the weights lose 2, not 1" in refusal(
            "verify", certificate, table, *COLUMNS, code=5
        )

    def test_a_search_that_was_stopped_leaves_no_certificate(self, table: Path, path: Path) -> None:
        outcome = succeeded("solve", table, *COLUMNS, "--target", "100", "--certificate", path)
        assert "no certificate written" in outcome.stderr
        assert not path.exists()

    @pytest.mark.parametrize(
        ("region", "said"),
        [
            (["--bounds", "am:..0"], ["where -1 am > 0", "within 1 limit "]),
            (["--fix", "am=1", "--bounds", "lm:-0.3333..7"], ["where +0.3333 am +1 lm > 0", "where +1 am -1/7 lm > 0"]),
            (["--linear", "am=1,lm=-0.3:0..0"], ["where +1 am -0.3 lm = 0", "within 1 equation "]),
            (["--bounds", "am:0..", "--at-most", "1"], ["where +1 am >= 0", "with at most 1 feature within 1 limit "]),
        ],
    )
    def test_limits_are_named_in_full(self, table: Path, path: Path, region: list[str], said: list[str]) -> None:
        succeeded("solve", table, *COLUMNS, *region, "--certificate", path, "--quiet")
        shown = succeeded("verify", path, table, *COLUMNS).stdout
        assert [one for one in said if one not in shown] == []

    def test_control_characters_in_names_are_shown_as_such(self, table: Path, path: Path) -> None:
        """A terminal would obey them."""
        name = "\x1b[31mam"
        table.write_text(table.read_text().replace("am", name, 1))
        columns = [*COLUMNS[:2], "--features", f"{name},lm", *COLUMNS[-2:]]
        solved = succeeded(
            "solve", table, *columns, "--bounds", f"{name}:0..", "--budget", f"{name}=9", "--certificate", path, "-q"
        )
        assert "\n\\x1b[31mam    0\n" in solved.stdout
        shown = succeeded("verify", path, table, *columns).stdout
        assert "where +1 \\x1b[31mam > 0" in shown
        assert "within 1 limit and \\x1b[31mam of at most 9 (" in shown


HEADER = Header(
    fingerprint="0" * 64,
    metric="metric:loss|columns:1",
    ties="first",
    found_by="nobody",
    loss=Fraction(7, 2),
    bound=Fraction(-3),
    weights={"am": 0.1, "lm": -(2.0**-40)},
    limits=[[1.0, 0.3]],
    exponents={"lm": -3},
)
RECORDS: list[Record] = [{"split": [0, 1]}, {}, {"out": [[0, 1, 0, 2, 255]], "branch": 3}]


def write(path: Path, header: Header = HEADER, records: list[Record] = RECORDS) -> Path:
    with certificate_writer(path, header) as add:
        for record in records:
            add(record)
    return path


@pytest.mark.parametrize("name", ["c.json", "c.json.gz", "c.json.xz"])
@pytest.mark.parametrize("records", [RECORDS, RECORDS[:1], []])
def test_what_is_written_is_read_again(tmp_path: Path, name: str, records: list[Record]) -> None:
    reader = CertificateReader(write(tmp_path / name, records=records))
    assert reader.header() == HEADER
    assert [reader.record() for _ in records] == records
    reader.end()
    assert reader.line == len(records) + 2


def test_a_certificate_is_one_json_document_whose_numbers_can_be_read(tmp_path: Path) -> None:
    found = json.loads(write(tmp_path / "c.json").read_text())
    assert found["tree"] == RECORDS
    assert (found["loss"], found["bound"]) == ("7/2", "-3")
    assert {name: float.fromhex(text) for name, text in found["weights"].items()} == HEADER.weights


def test_a_second_run_writes_the_same_bytes(tmp_path: Path) -> None:
    nbest, _ = base("selections")
    for name in ("first.json.gz", "second.json.gz"):
        write_certificate(tmp_path / name, nbest, lpmert.minimize(nbest), kind="selections")
    assert (tmp_path / "first.json.gz").read_bytes() == (tmp_path / "second.json.gz").read_bytes()


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write(tmp_path / "c.json", records=[{}, {"branch": object()}])
    assert not list(tmp_path.iterdir())


def test_neither_writing_nor_reading_holds_the_tree_in_memory(tmp_path: Path) -> None:
    count = 24_000
    record: Record = {"out": [[0, 1, 0, 2, 10**500]]}

    def write_and_read() -> None:
        reader = CertificateReader(write(tmp_path / "c.json", records=[record] * count))
        reader.header()
        for _ in range(count):
            reader.record()
        reader.end()

    assert peak_of(write_and_read) < 7_000_000  # lines are read by the megabyte
    assert (tmp_path / "c.json").stat().st_size > 12_000_000


def test_a_compressed_file_that_is_cut_short_or_has_a_wrong_byte_is_refused(path: Path) -> None:
    nbest, text = base("few boxes")
    data = gzip.compress(text.encode())
    half = len(data) // 2
    changed = bytearray(data)
    changed[half] ^= 0x10
    for content in (bytes(changed), *(data[:end] for end in (5, 40, half, -9, -1))):
        assert_refused(path, nbest, content=content)


KEYS = ["lpmert certificate", *(field.name for field in fields(Header))]
VALUES = [None, True, -1, 2.5, "7/0", "1e9", "nan", [], {}, ["1"], {"am": 1}, {"am": "inf"}]
MAY_BE = {"found_by": [value for value in VALUES if isinstance(value, str)], "limits": [[]], "equations": [[]]}


@pytest.mark.parametrize("key", KEYS)
def test_a_header_with_a_value_of_another_type_is_refused(path: Path, key: str) -> None:
    for value in VALUES:
        if value not in MAY_BE.get(key, []):
            assert_refused(path, base("few boxes")[0], content=document("few boxes") | {key: value})
