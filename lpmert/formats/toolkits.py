"""Weights as the settings of speech toolkits, and back: decoding does not see a factor, and each takes another one out.

Kaldi adds costs, acoustic / LMWT + lm + penalty * words, and keeps the least; icefall adds scores, acoustic + scale *
lm + scale * attention; ESPnet (1 - c) * decoder + c * ctc + w * lm + penalty * tokens; PocketSphinx acoustic + lw * lm
+ log(wip) * words, in natural logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.quoting import listed, quoted

_DIGITS = range(6, 18)

ByRole = Mapping[str, float]


@dataclass(frozen=True)
class Toolkit:
    """How a toolkit's settings follow from weights by role, and weights, up to a factor, from the settings.

    needed, other: roles that features must, and may, have. line: what a line of settings looks like. Both functions
    raise `ValueError` where there are no such settings.
    """

    needed: tuple[str, ...]
    other: tuple[str, ...]
    line: str
    settings: Callable[[ByRole], dict[str, float]]
    weights: Callable[[ByRole, float], dict[str, float]]

    def roles(self, names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
        """Return the role of each feature: as given, feature by role, or else its name; raises `DataError`."""
        known = (*self.needed, *self.other)
        wrong = [role for role in given if role not in known] + [name for name in given.values() if name not in names]
        if wrong:
            raise DataError(
                f"{quoted(wrong[0])} is no role or no feature; roles are {listed(known)}, features {listed(names)}"
            )
        by_feature = {feature: role for role, feature in given.items()}
        found = {name: by_feature.get(name, name) for name in names}
        lost = [name for name, role in found.items() if role not in known]
        missing = [role for role in self.needed if role not in found.values()]
        if lost or missing:
            what = f"no setting for feature {quoted(lost[0])}" if lost else f"no feature for {missing[0]}"
            raise DataError(f"{what}; say which feature is what, of {listed(known)}: --roles {known[0]}=FEATURE,...")
        return found


def _kaldi(weights: ByRole) -> dict[str, float]:
    acoustic, lm, words = weights["acoustic"], weights["lm"], weights.get("words", 0.0)
    if acoustic * lm <= 0:
        raise ValueError("acoustic and lm must have weights of the same sign, neither of them 0")
    return {"inv-acoustic-scale": lm / acoustic, "word-ins-penalty": -words / abs(lm)}


def _of_kaldi(settings: ByRole, sign: float) -> dict[str, float]:
    scale = settings["inv-acoustic-scale"]
    return {"acoustic": sign, "lm": sign * scale, "words": -settings["word-ins-penalty"] * scale}


def _icefall(weights: ByRole) -> dict[str, float]:
    if weights["acoustic"] <= 0:
        raise ValueError("the weight of acoustic must be above 0")
    scales = {"lm": "ngram_lm_scale", "attention": "attention_scale"}
    return {scales[role]: w / weights["acoustic"] for role, w in weights.items() if role in scales}


def _of_icefall(settings: ByRole, sign: float) -> dict[str, float]:
    del sign
    scales = {"ngram_lm_scale": "lm", "attention_scale": "attention"}
    return {"acoustic": 1.0, **{scales[name]: value for name, value in settings.items()}}


def _espnet(weights: ByRole) -> dict[str, float]:
    decoder, ctc = weights.get("decoder", 0.0), weights.get("ctc", 0.0)
    if decoder < 0 or ctc < 0 or decoder + ctc == 0:
        raise ValueError("the weights of decoder and ctc must be at least 0, and not both 0")
    names = {"lm": "lm_weight", "ngram": "ngram_weight", "tokens": "penalty"}
    rest = {names[role]: w / (decoder + ctc) for role, w in weights.items() if role in names}
    return {"ctc_weight": ctc / (decoder + ctc), **rest}


def _of_espnet(settings: ByRole, sign: float) -> dict[str, float]:
    del sign
    share = settings["ctc_weight"]
    names = {"lm_weight": "lm", "ngram_weight": "ngram", "penalty": "tokens"}
    return {"decoder": 1.0 - share, "ctc": share, **{names[name]: w for name, w in settings.items() if name in names}}


def _pocketsphinx(weights: ByRole) -> dict[str, float]:
    if weights["acoustic"] <= 0 or weights["lm"] <= 0:
        raise ValueError("the weights of acoustic and lm must be above 0")
    try:
        wip = math.exp(weights.get("words", 0.0) / weights["acoustic"])
    except OverflowError:
        wip = math.inf
    if not 0 < wip < math.inf:
        raise ValueError("the weight of words is too large for a probability")
    return {"lw": weights["lm"] / weights["acoustic"], "wip": wip}


def _of_pocketsphinx(settings: ByRole, sign: float) -> dict[str, float]:
    del sign
    return {"acoustic": 1.0, "lm": settings["lw"], "words": math.log(settings["wip"])}


TOOLKITS: Mapping[str, Toolkit] = {
    "kaldi": Toolkit(("acoustic", "lm"), ("words",), "--{}={}", _kaldi, _of_kaldi),
    "icefall": Toolkit(("acoustic",), ("lm", "attention"), "{}={}", _icefall, _of_icefall),
    "espnet": Toolkit((), ("decoder", "ctc", "lm", "ngram", "tokens"), "{}: {}", _espnet, _of_espnet),
    "pocketsphinx": Toolkit(("acoustic", "lm"), ("words",), "-{} {}", _pocketsphinx, _of_pocketsphinx),
}


def settings_text(
    name: str,
    names: Sequence[str],
    weights: FloatArray,
    keeps: Callable[[FloatArray], bool],
    given: Mapping[str, str],
) -> str:
    """Return lines with the settings of a toolkit that decode as weights [D] do, with as few digits as `keeps` lets.

    given: features by role, where the roles are not their names. Raises `DataError` where the toolkit has no settings
    for these features or weights, or where no digits keep what the weights do.
    """
    toolkit = TOOLKITS[name]
    roles = toolkit.roles(names, given)
    by_role = {roles[feature]: weight for feature, weight in zip(names, weights.tolist(), strict=True)}
    try:
        settings = toolkit.settings(by_role)
    except ValueError as error:
        trouble = f"{name} has no settings for these weights: {error}; search within a region, such as --bounds"
        raise DataError(trouble) from error
    sign = math.copysign(1.0, by_role.get("acoustic", 1.0))
    for digits in _DIGITS:
        texts = {setting: f"{value:z.{digits}g}" for setting, value in settings.items()}
        back = toolkit.weights({setting: float(text) for setting, text in texts.items()}, sign)
        if keeps(np.array([back[roles[feature]] for feature in names])):
            return "".join(toolkit.line.format(setting, text) + "\n" for setting, text in texts.items())
    raise DataError(f"not even 17 digits of the settings of {name} keep the loss of these weights; write them as names")
