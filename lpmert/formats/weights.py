"""Weights that users give in files or as text, files of weights in the form of others, and settings of decoders.

Files have one of three forms. Words: numbers, `name= v v ...` as Moses shows weights, `name=v`, or `name v` of cdec and
Joshua. moses.ini has such lines in its section [weight]. JSON: an object of numbers by name, an array of numbers, or a
result of lpmert.

A positive factor does not change how weights decode, and each speech toolkit sets it in its own way. Kaldi adds costs,
acoustic / LMWT + lm + penalty * words, and takes the least; icefall adds scores, acoustic + scale * lm + scale *
attention; ESPnet (1 - c) * decoder + c * ctc + w * lm + penalty * tokens.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray, RegionError
from lpmert.files import json_document, read_text
from lpmert.formats.format import WORD, Place, spells_plainly
from lpmert.formats.moses import names_of, number_spans
from lpmert.quoting import listed, quoted, repeated
from lpmert.values import in_order

if TYPE_CHECKING:
    from lpmert.model.lattice_problem import LatticeProblem
    from lpmert.model.problem import Problem
    from lpmert.model.region import Region


class Slot(NamedTuple):
    """The place of a weight in a text: start and end, line, and the name of the weight, empty for mere numbers."""

    start: int
    end: int
    line: int
    name: str


_WEIGHT = re.compile(r"^\[weight\][ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"\[(.+)\][ \t]*")


def _slots(content: str, path: str | Path, *, ini: bool) -> Iterator[Slot]:
    """Yield the places of weights in a text, in moses.ini those of its section [weight]."""
    start, section = 0, ""
    for number, line in enumerate(content.split("\n"), start=1):
        heading = _HEADING.fullmatch(line) if ini else None
        if heading:
            section = heading[1]
        elif not line.lstrip().startswith("#") and (not ini or section == "weight"):
            yield from _slots_of_line(line, start, path, number)
        start += len(line) + 1


def _slots_of_line(line: str, start: int, path: str | Path, number: int) -> Iterator[Slot]:
    matches = list(WORD.finditer(line))
    name, tab, rest = line.partition("\t")
    if not tab or len(rest.split()) != 1:
        name = matches[0].group() if len(matches) == 2 else ""
    if _is_name(name.strip()):
        yield Slot(start + matches[-1].start(), start + matches[-1].end(), number, name.strip())
        return
    labels, spans = number_spans(line)
    named = names_of(labels, Place(path, number)) if any(labels) else (("", False) for _ in spans)
    for (begin, end), (found, _) in zip(spans, named, strict=True):
        yield Slot(start + begin, start + end, number, found)


def _is_name(word: str) -> bool:
    """Whether a word can be a name before its number, rather than a number or a label."""
    try:
        float(word.rpartition("=")[2] or word)
    except ValueError:
        return word[-1:] not in ("", "=", ":")
    return False


DECIMALS = 6  # fewest decimals of written weights, as many as Moses' scripts pass to the decoder
Keeps = Callable[[FloatArray], bool]  # whether weights [D] decode as well as those that are being written

_FULL_DIGITS = 17
_ENDINGS = (".json", ".ini", ".txt", ".opt", ".config", ".weights")
"""Endings that mark a text as the name of a file even if the file does not exist."""


@dataclass(frozen=True)
class WeightsFile:
    """The weights in a file: `names`, empty where it has only numbers, and `values` [n], in the order of the file.

    slots: where they stand; none in JSON. ini: whether this is moses.ini, which may have weights of other features.
    """

    path: str | Path
    content: str
    names: tuple[str, ...]
    values: FloatArray
    slots: tuple[Slot, ...] = ()
    ini: bool = False

    @staticmethod
    def of_lines(names: Sequence[str]) -> WeightsFile:
        """Return a file with a line `name 0` for each feature, in the form of cdec and Joshua."""
        return _parse("".join(f"{name} 0\n" for name in names), "weights")

    @property
    def by_name(self) -> Mapping[str, float]:
        """The weights by name; raises `DataError` if the file has only numbers."""
        if not self.names:
            raise DataError("numbers without names; write lines `name value`", path=self.path)
        return dict(zip(self.names, self.values.tolist(), strict=True))

    def of_features(self, names: Sequence[str]) -> FloatArray:
        """Return the weights [D] of these features, in their order.

        Of three lines with a number for each feature, as in init.opt, the first counts. Weights of other features are
        refused, except in moses.ini.
        """
        if not self.names:
            n_lines = len({slot.line for slot in self.slots})
            if len(self.values) not in (len(names), 3 * len(names) if n_lines == 3 else 0):
                count = "1 number" if len(self.values) == 1 else f"{len(self.values)} numbers"
                raise DataError(f"{count} for {len(names)} features ({listed(names)})", path=self.path)
            return self.values[: len(names)].copy()
        try:
            return np.array(in_order(self.by_name, names, "the weights", more=self.ini), dtype=np.float64)
        except DataError as error:
            raise DataError(str(error), path=self.path) from error

    def with_weights(self, names: Sequence[str], texts: Sequence[str]) -> str:
        """Return the content with new weights, as texts, of these features."""
        new: dict[Any, str] = dict(zip(names, texts, strict=True))
        if not self.slots:
            document = json.loads(self.content)
            inner = isinstance(document, dict) and isinstance(document.get("weights"), dict | list)
            weights = document["weights"] if inner else document
            if isinstance(weights, dict):
                weights |= {name: float(text) for name, text in new.items()}
            else:
                weights[: len(texts)] = map(float, texts)
            return json.dumps({"weights": weights} if inner else weights, indent=2) + "\n"
        new |= dict(enumerate(texts))
        parts, end = [], 0
        for number, slot in enumerate(self.slots):
            text = new.get(slot.name if self.names else number)
            if text is not None:
                parts += [self.content[end : slot.start], text]
                end = slot.end
        return "".join(parts) + self.content[end:]


def read_weights(path: str | Path) -> WeightsFile:
    """Read a file of weights, in a form detected from its content; raises `DataError` with file and line."""
    return _parse(read_text(path), path)


def given_weights(weights: Any, what: str = "weights") -> Any:
    """Return weights as searches take them: a text or path is replaced by its weights, other values stay as they are.

    A text is a file, numbers or `name=value` pairs separated by commas, or JSON; `what` names it in errors.
    """
    if not isinstance(weights, str | os.PathLike):
        return weights
    text = os.fspath(weights)
    if isinstance(weights, str):
        parts = [part.strip() for part in text.split(",")]
        if all(map(_is_number, parts)):
            return _parse(" ".join(parts), what)
        if not os.path.exists(text):
            if text.lstrip().startswith(("{", "[")):
                return _parse_json(text, what)
            pairs = [part.rpartition("=") for part in parts]
            if all(name.strip() and _is_number(number.strip()) for name, _, number in pairs):
                return _parse("\n".join(f"{name.strip()}\t{number.strip()}" for name, _, number in pairs), what)
            if not text.endswith(_ENDINGS):
                forms = 'finite numbers (1,0.5), nor name=value pairs (am=1,lm=0.5), nor JSON ({"am": 1, "lm": 0.5})'
                raise DataError(f"{quoted(text)} is neither a file that is there, nor {forms}", path=what)
    return read_weights(text)


def checked_region(region: Region | None) -> Region | None:
    """Return a region as searches take it; a text around which it lies is replaced, see `given_weights`."""
    from lpmert.model.region import Region

    if region is not None and not isinstance(region, Region):
        raise RegionError(f"region must be a Region or None, not {type(region).__name__}; build one with lpmert.Region")
    if region is None or not isinstance(region.around, str | os.PathLike):
        return region
    return replace(region, around=given_weights(region.around, "around"))


def weights_text(
    names: Sequence[str],
    weights: FloatArray,
    keeps: Keeps,
    *,
    like: WeightsFile | None = None,
    scaled: bool = False,
    path: str | Path | None = None,
) -> tuple[str, FloatArray]:
    """Return a text with weights [D] of the features `names`, with as few digits as `keeps` allows, and its weights.

    The form is that of `like`, whose other content stays, or numbers on one line, as Moses writes weights.txt. With
    `scaled`, the weights first get the L1 norm of those in `like`. The text has six decimals or, where `keeps` does not
    accept the weights read back from it, the fewest digits that do.
    """
    place = path if path is not None else "weights" if like is None else like.path
    template = _parse(" ".join(["0"] * len(names)) + " \n", place) if like is None else like
    old = template.of_features(names)
    norm = np.abs(old).sum()
    factor = norm / np.abs(weights).sum() if scaled and norm else 1.0
    for form in (f"z.{DECIMALS}f", *(f"z.{digits}g" for digits in range(DECIMALS + 1, _FULL_DIGITS + 1))):
        texts = [format(weight, form) for weight in (weights * factor).tolist()]
        content = template.with_weights(names, texts)
        written = _parse(content, place).of_features(names)
        if written.any() and keeps(written):
            return content, written
    raise DataError("not even 17 digits keep the loss of these weights; write them without scaling", path=place)


def keeps_loss(problem: Problem | LatticeProblem, weights: FloatArray) -> Keeps:
    """Return a function that tells whether weights [D] have the same loss, tie no more lists, and are in the region."""
    exact = problem.evaluate(weights)
    inside = problem.inside(problem.checked_weights(weights))

    def keeps(others: FloatArray) -> bool:
        found = problem.evaluate(others)
        stay = not inside or problem.inside(problem.checked_weights(others))
        return stay and found.loss == exact.loss and found.tied_lists <= exact.tied_lists

    return keeps


def _is_number(text: str) -> bool:
    try:
        return spells_plainly(text) and math.isfinite(float(text))
    except ValueError:
        return False


def _parse(content: str, path: str | Path) -> WeightsFile:
    ini = _WEIGHT.search(content) is not None
    if not ini and content.lstrip().startswith(("{", "[")):
        return _parse_json(content, path)
    found = tuple(_slots(content, path, ini=ini))
    if not found:
        raise DataError("no weights; write a line NAME VALUE for each feature, or name another file", path=path)
    names = tuple(slot.name for slot in found)
    nameless = [slot for slot in found if not slot.name]
    if nameless and (ini or len(nameless) < len(found)):
        raise DataError("a weight without the name of its feature", path=path, line=nameless[0].line)
    if not nameless and (twice := repeated(names)) is not None:
        line = [slot.line for slot in found if slot.name == twice][1]
        raise DataError(f"a second weight for {quoted(twice)}", path=path, line=line)
    values = [Place(path, slot.line).number(content[slot.start : slot.end], "a weight") for slot in found]
    return WeightsFile(path, content, () if nameless else names, np.array(values), found, ini)


def _parse_json(content: str, path: str | Path) -> WeightsFile:
    document = json_document(content, path)
    inner = isinstance(document, dict) and not isinstance(document.get("weights", 0), int | float)
    weights = document["weights"] if inner else document
    if not isinstance(weights, dict | list) or not weights:
        raise DataError("weights must be an object of numbers by name, or an array of numbers", path=path)
    named = isinstance(weights, dict)
    by_key: Any = weights if named else dict(enumerate(weights, 1))
    values = [
        Place(path, 1).number(value, f"the weight of {quoted(key)}" if named else f"weight {key}", textual=False)
        for key, value in by_key.items()
    ]
    return WeightsFile(path, content, tuple(weights) if named else (), np.array(values))


ByRole = Mapping[str, float]


@dataclass(frozen=True)
class Toolkit:
    """The settings of a speech toolkit, and their relation to weights by role.

    needed, other: roles that features must have, and may have. line: the form of a line of settings. settings(weights)
    raises `ValueError` where no settings decode like the weights; weights(settings, sign) is its inverse up to a
    positive factor, and sign is that of the acoustic weight.
    """

    needed: tuple[str, ...]
    other: tuple[str, ...]
    line: str
    settings: Callable[[ByRole], dict[str, float]]
    weights: Callable[[ByRole, float], dict[str, float]]

    def roles(self, names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
        known = (*self.needed, *self.other)
        wrong = [role for role in given if role not in known] + [name for name in given.values() if name not in names]
        if wrong:
            known_names = f"roles are {listed(known)}, features {listed(names)}"
            raise DataError(f"{quoted(wrong[0])} is no role or no feature; {known_names}")
        by_feature = {feature: role for role, feature in given.items()}
        found = {name: by_feature.get(name, name) for name in names}
        trouble = [f"no setting for feature {quoted(name)}" for name, role in found.items() if role not in known]
        trouble += [f"no feature for {role}" for role in self.needed if role not in found.values()]
        if trouble:
            remedy = f"say which feature is what, of {listed(known)}: --roles {known[0]}=FEATURE,..."
            raise DataError(f"{trouble[0]}; {remedy}")
        return found


def _kaldi(weights: ByRole) -> dict[str, float]:
    acoustic, lm, words = weights["acoustic"], weights["lm"], weights.get("words", 0.0)
    if acoustic * lm <= 0:
        raise ValueError("acoustic and lm must have weights of the same sign, neither of them 0")
    return {"inv-acoustic-scale": lm / acoustic, "word-ins-penalty": -words / abs(lm)}


def _of_kaldi(settings: ByRole, sign: float) -> dict[str, float]:
    scale = settings["inv-acoustic-scale"]
    return {"acoustic": sign, "lm": sign * scale, "words": -settings["word-ins-penalty"] * scale}


_ICEFALL = {"lm": "ngram_lm_scale", "attention": "attention_scale"}
_ESPNET = {"ctc": "ctc_weight", "lm": "lm_weight", "ngram": "ngram_weight", "tokens": "penalty"}
"""Names of settings by role."""


def _icefall(weights: ByRole) -> dict[str, float]:
    if weights["acoustic"] <= 0:
        raise ValueError("the weight of acoustic must be above 0")
    return {_ICEFALL[role]: w / weights["acoustic"] for role, w in weights.items() if role in _ICEFALL}


def _of_icefall(settings: ByRole, _: float) -> dict[str, float]:
    return {"acoustic": 1.0, **{role: settings[name] for role, name in _ICEFALL.items() if name in settings}}


def _espnet(weights: ByRole) -> dict[str, float]:
    decoder, ctc = weights.get("decoder", 0.0), weights.get("ctc", 0.0)
    if decoder < 0 or ctc < 0 or decoder + ctc == 0:
        raise ValueError("the weights of decoder and ctc must be at least 0, and not both 0")
    return {_ESPNET[role]: w / (decoder + ctc) for role, w in {"ctc": 0.0, **weights}.items() if role in _ESPNET}


def _of_espnet(settings: ByRole, _: float) -> dict[str, float]:
    rest = {role: settings[name] for role, name in _ESPNET.items() if name in settings}
    return {"decoder": 1.0 - settings["ctc_weight"], **rest}


TOOLKITS: Mapping[str, Toolkit] = {
    "kaldi": Toolkit(("acoustic", "lm"), ("words",), "--{}={}", _kaldi, _of_kaldi),
    "icefall": Toolkit(("acoustic",), ("lm", "attention"), "{}={}", _icefall, _of_icefall),
    "espnet": Toolkit((), ("decoder", "ctc", "lm", "ngram", "tokens"), "{}: {}", _espnet, _of_espnet),
}


def settings_text(
    name: str,
    names: Sequence[str],
    weights: FloatArray,
    keeps: Callable[[FloatArray], bool],
    given: Mapping[str, str],
) -> str:
    """Return lines with settings that decode like weights [D]; given: features by role, if not named like these."""
    toolkit = TOOLKITS[name]
    roles = toolkit.roles(names, given)
    by_role = {roles[feature]: weight for feature, weight in zip(names, weights.tolist(), strict=True)}
    try:
        settings = toolkit.settings(by_role)
    except ValueError as error:
        trouble = f"{name} has no settings for these weights: {error}; search within a region, such as --bounds"
        raise DataError(trouble) from error
    sign = math.copysign(1.0, by_role.get("acoustic", 1.0))
    for digits in range(DECIMALS, _FULL_DIGITS + 1):
        texts = {setting: f"{value:z.{digits}g}" for setting, value in settings.items()}
        back = toolkit.weights({setting: float(text) for setting, text in texts.items()}, sign)
        if keeps(np.array([back[roles[feature]] for feature in names])):
            return "".join(toolkit.line.format(setting, text) + "\n" for setting, text in texts.items())
    raise DataError(f"not even 17 digits of the settings of {name} keep the loss of these weights; write them as names")


ENGINES: Mapping[str, Mapping[str | None, str | None]] = {
    "opensearch": {"minmax": "min_max", "z": "z_score"},
    "elasticsearch": {None: "none", "minmax": "minmax"},
    "weaviate": {"minmax": "relativeScoreFusion"},  # its rankedFusion counts ranks from 0
    "ranx": {None: None, "minmax": "min-max", "z": "zmuv"},
}
"""Names of the normalisations of `lpmert.read_judged` in search engines and ranx."""


def engine_text(name: str, names: Sequence[str], weights: FloatArray, normalise: str | None) -> str:
    """Return settings of a search engine, or a call of ranx, that fuse scores with weights [D], whose sum is 1."""
    if (weights < 0).any():
        raise DataError(f"{name} takes no weights below 0; search without --signed (nonnegative)")
    shares, how = weights.tolist(), ENGINES[name][normalise]
    if name == "weaviate":
        if len(names) != 2:
            raise DataError(f"weaviate fuses two scores, keywords and vectors, not {len(names)}")
        return json.dumps({"alpha": shares[1], "fusionType": how}, indent=2)  # alpha is the share of vectors
    if name == "ranx":
        return f"fuse(runs=[{', '.join(names)}], norm={how!r}, method='wsum', params={{'weights': {tuple(shares)}}})"
    if name == "elasticsearch":
        parts = [
            {"retriever": {"standard": {"_name": name}}, "weight": share, "normalizer": how}
            for name, share in zip(names, shares, strict=True)
        ]
        return json.dumps({"retriever": {"linear": {"retrievers": parts}}}, indent=2)
    combination = {"technique": "arithmetic_mean", "parameters": {"weights": shares}}
    processor = {"normalization": {"technique": how}, "combination": combination}
    return json.dumps({"phase_results_processors": [{"normalization-processor": processor}]}, indent=2)
