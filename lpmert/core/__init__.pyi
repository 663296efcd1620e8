"""What is hot, compiled from C++.

Throughout, M hypotheses in S lists, whose rows begin and end at offsets [S + 1], from 0 to M; D features, K statistics.
Arrays are C-contiguous; floating-point numbers are float64, and whole ones int64 unless another type is stated.
`ValueError` names an argument of another type or shape, `TypeError` one that is no array, or that is written to and may
only be read. Functions let other threads run; an object is for one thread at a time.
"""

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray

class LineSearch:
    """Line searches on the same lists, for sums of costs or a ratio metric; source: Och, ACL 2003.

    A line is weights + t direction [D]; a level is a sum of costs, or the ratio metric's loss.
    """

    def __init__(
        self,
        columns: FloatArray,
        offsets: IntArray,
        kind: int,
        parameters: FloatArray,
        costs: IntArray,
        statistics: FloatArray,
        constant: FloatArray,
    ) -> None:
        """Keep the arrays, which must not change.

        Parameters
        ----------
        columns [D, M]
            The features, one row a feature.
        offsets [S + 1]
            Where lists begin and end; none is empty.
        kind
            -1 for a sum of costs [M], or the formula of a ratio metric (`lpmert.metrics.ratio_kernels`) with its
            parameters, of statistics [M, K] and a constant [K] that is added to their sums. What is not needed is
            empty.
        """

    @property
    def n_hypotheses(self) -> int:
        """M."""

    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D], the first hypothesis of a list on ties."""

    def along(
        self,
        weights: FloatArray,
        direction: FloatArray,
        low: float,
        high: float,
        scale: float,
        interval: int,
        smoothing: float,
    ) -> tuple[float, float]:
        """Return the level of the best interval of a line within low..high, and the middle of it.

        scale: the unit of t. interval: of those with the least level, 0 for the one nearest to 0 or 1 for the widest in
        the angle atan(t / scale), in which the middle is taken; 2 for that around whose middle the mean level over
        `smoothing` units on each side is least. Intervals narrower than 1e-12 radians count only if there is no other.
        """

    def best_coordinate(
        self,
        weights: FloatArray,
        coordinates: IntArray,
        ranges: FloatArray,
        scale: float,
        interval: int,
        smoothing: float,
    ) -> tuple[int, float, float]:
        """Return which of some coordinates has the best step from weights [D], its level, and its t.

        ranges [D, 2]: the ends of t for each feature. The first of equals wins. The first call sorts all lists by each
        feature.
        """

    def events(self, weights: FloatArray, direction: FloatArray) -> tuple[IntArray, FloatArray, IntArray, IntArray]:
        """Return the rows chosen at t = -inf [S] and the changes: their t [E], ascending, from which row, to which."""

def combine(columns: FloatArray, weights: FloatArray, scores: FloatArray) -> None:
    """Write weights [D] times columns [D, M] into scores [M]."""

def decode_cost(scores: FloatArray, offsets: IntArray, costs: IntArray, error: float) -> tuple[int, int]:
    """Return the cost of decoding scores [M], and how many lists are in doubt.

    A list is in doubt where a hypothesis of another cost than the chosen one scores within `error` of it.
    """

def descend(
    search: LineSearch,
    weights: FloatArray,
    centre: FloatArray,
    reach: float,
    directions: FloatArray,
    rates: FloatArray,
    taking_part: NDArray[np.bool_],
    turns: IntArray,
    patience: int,
    searches: int,
) -> int:
    """Search from weights [D], which are replaced, until `patience` directions in a row do not lower the cost.

    Directions that were drawn alternate with those towards cheaper hypotheses; at equal cost, too, the weights move to
    the middle of the best interval.

    Parameters
    ----------
    search
        Lists whose costs add up.
    centre [D], reach
        The weights stay within reach of the centre, at right angles to it; where that is infinite, they go anywhere.
    directions [T, D], rates [T], taking_part [T, S]
        What is drawn, gone through again and again: directions, costs of a unit of score, and the lists that take part
        in a direction towards cheaper hypotheses.
    turns [2]
        The directions gone through, and how many of the last ones failed; changed, so that a search that used up its
        `searches` goes on as if it had not ended.

    Returns
    -------
    int
        How many line searches are left.
    """

def find_reaches(search: LineSearch, centre: FloatArray, reaches: FloatArray) -> None:
    """Write how far from a centre [D] of length 1, at right angles to it, each hypothesis wins first: reaches [M]."""

def arc_within(
    limits: FloatArray, basis: FloatArray, unit: FloatArray, cosine: float, w: FloatArray, v: FloatArray
) -> tuple[float, float]:
    """Return the ends, around t = 0, of the part of the circle cos(t) w + sin(t) v within limits and a cap.

    w, v [d] at right angles; limits [k, d] must be at least 0 there. The cap is around `unit` [D], in coordinates to
    which basis [D, d] leads; there is none where unit is empty. Where w itself breaks a limit, 0 is an end.
    """

def find_pieces(
    search: LineSearch, weights: FloatArray, direction: FloatArray, low: float, high: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the pieces of the circle cos(t) weights + sin(t) direction within low..high: begins, ends, levels [n].

    -pi <= low <= 0 <= high <= pi. Neighbours may have the same level; their order is not that of the angles.
    """

def walk(
    search: LineSearch,
    limits: FloatArray,
    basis: FloatArray,
    unit: FloatArray,
    cosine: float,
    temperature: float,
    highest: float,
    weights: FloatArray,
    total: FloatArray,
    circles: FloatArray,
    directions: FloatArray,
    draws: FloatArray,
    counted: bool,
    path: FloatArray,
) -> None:
    """Let a chain go one step along each of directions [n, d], drawn at random, and write its weights into path [n, d].

    Hit and run under a density in proportion to exp(-level / temperature) where the level is at most `highest`, within
    the region of `arc_within`.

    Parameters
    ----------
    weights [d], total [d], circles [1]
        The chain: its weights, of length 1, the sum of the means of its circles, and how many these are. Changed.
    draws [n]
        Between 0 and 1: they choose the point on each circle.
    counted
        Whether the circles count for the mean.
    """

def find_graph_envelope(
    sources: NDArray[np.int32],
    seconds: NDArray[np.int32],
    targets: NDArray[np.int32],
    nodes: int,
    intercepts: FloatArray,
    slopes: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray]:
    """Return the upper envelope of all hypotheses of a graph, on the line intercept + t slope of their links.

    sources, seconds, targets [L]: the nodes that a link leaves, second 0 for none, and where it leads; sorted by
    target, each to a larger node. intercepts, slopes [L]: of the links. Sources: Macherey and others, EMNLP 2008; Kumar
    and others, ACL 2009.

    Returns
    -------
    intercepts, slopes, starts [n]
        The lines, and the t from which on each is the envelope, -inf first.
    links, ends [n + 1]
        The links of all lines, one line after the other, and where those of each end, 0 first.
    """

def critical_directions(
    x: FloatArray, y: FloatArray, offsets: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return where choices change among the directions of the plane, exactly, for points x, y [M].

    Coordinates are at most 1, and 0 or at least 2**-440. Returns the rows chosen before the first change [S]; from
    which row and to which [E] a choice changes, as the weights turn counter-clockwise once; and where each group of
    changes at the same direction ends [G].
    """

def decodes_clearly(features: FloatArray, offsets: IntArray, costs: IntArray, weights: FloatArray, cost: int) -> bool:
    """Return whether weights [D] decode features [M, D] to a cost in any order of summation.

    False where a hypothesis of another cost than the winner's comes within the rounding error of it.
    """

def turn(points: FloatArray) -> int:
    """Return the sign of the cross product (q - p) x (s - r) of points [4, 2], exactly.

    Coordinates as for `critical_directions`.
    """
