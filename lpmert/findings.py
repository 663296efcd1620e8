"""What a result says beyond its loss: the cell around its weights, and what is odd about the question."""

from __future__ import annotations

from dataclasses import dataclass

from lpmert.errors import FloatArray


@dataclass(frozen=True)
class Doubt:
    """What is odd about a question, which makes its answer worth less than it looks.

    Parameters
    ----------
    code : str
        `nothing-to-choose`, `leak`, `orientation`, `too-good`, `digits` or `all-zero`.
    message : str
        What was seen, and what to do about it.
    """

    code: str
    message: str


ALL_ZERO = Doubt(
    "all-zero",
    "all these weights are 0, so that all hypotheses of a list tie and whichever comes first counts; "
    "give one of them another value",
)
"""Of weights that choose nothing."""


@dataclass(frozen=True)
class Cell:
    """The optimal cell around the returned weights.

    ranges [D, 2]: for each weight, the open interval in which it may move with all others fixed (infinite ends allowed)
    without any list changing its choice. centre [D]: the Chebyshev centre of the cell cut with the unit box, in
    canonical feature scaling, mapped back and L1-normalised. margin: the least normalised margin at the centre.
    """

    ranges: FloatArray
    centre: FloatArray
    margin: float
