"""What is hot, compiled from C++.

Throughout, M hypotheses in S lists, whose rows begin and end at offsets [S + 1], from 0 to M; D features, K statistics.
Arrays are C-contiguous; floating-point numbers are float64, and whole ones int64 unless another type is stated.
`TypeError` says what a function takes if it is given an array of another type or number of dimensions, or one that is
written to and may only be read; `ValueError` names an argument of another size. Functions let other threads run; an
object is for one thread at a time, and keeps the arrays that it is made of, which must not change. Attributes are for
reading.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray

Bits = NDArray[np.uint8]
Nodes = NDArray[np.int32]

Losses = tuple[int, FloatArray, IntArray, FloatArray, FloatArray]
"""What hypotheses cost, as `lpmert.lines.line_search.LossInCore` has it; what is not needed is empty."""

SphereRegion = tuple[FloatArray, FloatArray, FloatArray, float]
"""Where circles may go: limits [k, d], which weights must not make negative; and a cap of this cosine around a unit
vector [D], in coordinates to which a basis [D, d] leads; no cap where it is empty: limits, basis, unit, cosine.
"""

Ratio = tuple[int, FloatArray, FloatArray, FloatArray, FloatArray, IntArray]
"""What the hypotheses of lists mean to a ratio metric, as `lpmert.methods.choices.ratio.Ratio` has it."""

ChoiceSettings = tuple[int, bool, bool]
"""As `lpmert.methods.choices.choices.ChoiceSettings` has them."""

INFINITE_COST: int
"""A cost that no selection reaches: choosing such a hypothesis is forbidden. Sums of a few of them can overflow."""

class Lists:
    """Lists for the searches of this module, list by list in order of cost.

    rows [M, D]; costs [M] int64; reach [D]: the largest magnitude of each feature; spread [D]: how far it may be from
    the exact one; cap: empty, or a unit vector and the least cosine with it [D + 1]. The arrays are kept, not copied,
    and not to be written to.
    """

    def __init__(
        self,
        rows: FloatArray,
        offsets: IntArray,
        costs: IntArray,
        reach: FloatArray,
        spread: FloatArray,
        cap: FloatArray,
    ) -> None: ...
    def decode_clearly(self, weights: FloatArray, selection: IntArray) -> tuple[int, bool]:
        """Write each list's winner, counted within the list, into selection [S]; return (cost, clear).

        clear: every winner leads by more than rounding.
        """

def decode(features: FloatArray, offsets: IntArray, weights: FloatArray) -> IntArray:
    """Return the best row of each list [S] of features [M, D] at weights [D], the first on ties."""

def worst_cost(
    features: FloatArray, offsets: IntArray, costs: IntArray, weights: FloatArray, bound: float
) -> tuple[int, bool]:
    """Return (cost, clear) of weights [D], the dearest counting of all hypotheses within `bound` of a winner.

    clear: in no list these cost differently.
    """

def possible_winners(features: FloatArray, offsets: IntArray) -> IntArray:
    """Return the rows, ascending, of features [M, D] that may win their list, or tie with a winner within rounding, for
    some weights; of all others it is proved that they do not.

    In every cone of a cover of the weight space another one is better. Rows with features identical to those of a
    possible winner are kept as well; with one feature, or more than ten, all are.
    """

class Corral:
    """Where a linear program starts and what it leaves: some rows and the least-norm point of their hull.

    point [D]; multipliers, lists, others [size] of the rows, each the chosen hypothesis of a list minus another one.
    """

    def __init__(self, n_features: int) -> None: ...
    size: int
    nbytes: int
    point: FloatArray
    multipliers: FloatArray
    lists: IntArray
    others: IntArray
    def restart(self, weights: FloatArray) -> None:
        """Start anew at these weights [D]."""

    def take(self, other: Corral) -> None:
        """Become a copy of another one."""

class LeastNorm:
    """Decides whether choices from lists go together; the `rounds` of its programs are counted."""

    def __init__(self, lists: Lists) -> None: ...
    rounds: int
    def separate(self, decided: IntArray, chosen: IntArray, start: int, corral: Corral) -> int:
        """Decide whether the choices of decided [n] can be made together; start from, and leave behind, a corral.

        chosen [S] holds the chosen position within each decided list, of which the one at `start` is looked at first.
        INFEASIBLE (0) leaves a core in the corral's rows of positive multipliers, FEASIBLE (1) a witness in its point;
        UNDECIDED (2) is left to exact arithmetic.
        """

class _Search:
    @property
    def found(self) -> tuple[int, float, FloatArray]:
        """The limit of bounds, the loss of a ratio, and the weights [D] of the incumbent."""

    def aim(self, cost: int, loss: float) -> None:
        """Look only for what costs less, for a ratio for a lower loss."""

class _Choices(_Search):
    """A search over selections that pauses; the last n_fixed lists are half-spaces, decided for good.

    work is counted in scores. question [n, 2]: choices (list, position) of which it asks whether they go together, and
    `trial` the corral that could not tell. least_open: the least bound of what is open, 2**61 if nothing is.
    """

    work: int
    nodes: int
    depth: int
    programs: int
    rounds: int
    core_programs: int
    between_nodes: bool
    least_open: int
    trial: Corral
    question: IntArray
    def search(self, budget: int) -> int:
        """Search until so much work is done (0), until it asks (1), or to the end (2)."""

    def answer(self, weights: FloatArray, core: IntArray) -> None:
        """Say at which weights [D] to go on where the choices go together, or which of them [n, 2] do not; an answer
        counts as work. Both are empty where the choices go together at no doubles.
        """

    def open_nodes(self) -> list[tuple[int, Bits]]:
        """Return bounds and bytes of what is open, the coarsest first."""

    def go_on_with(self, node: Bits) -> None:
        """Search one open node next, and nothing else."""

class SumChoices(_Choices): ...
class RatioChoices(_Choices): ...

def choices_search(
    lists: Lists, ratio: Ratio | None, n_fixed: int, weights: FloatArray, settings: ChoiceSettings
) -> _Choices:
    """Return a search over selections, for sums of costs if ratio is `None`; weights [D]: near good ones.

    Bounds are costs, or heights in units; the first minorant of a ratio is laid where the weights lead.
    """

def losses_of_totals(kind: int, parameters: FloatArray, totals: FloatArray) -> FloatArray:
    """Return the losses [n] of summed statistics [n, K]."""

def loss_of_height(kind: int, height: float) -> float:
    """Return a loss that is no more than any whose height, which `lay_minorant` bounds, is at least this one."""

def lay_minorant(
    kind: int, parameters: FloatArray, low: FloatArray, high: FloatArray, at: FloatArray
) -> tuple[float, FloatArray]:
    """Return a constant and slopes [K] so that height(x) >= constant + slopes . x for all whole x in the box.

    low, high [K]: the box of summed statistics; at [K]: where in it the bound should be good. The constant is infinite
    where every x in the box has a loss of 1; the slopes are 0 where no bound but 0 is known, as for a fraction.
    """

def height_limit(kind: int, loss: float) -> int:
    """Return a height in units from which on no loss is lower than this one."""

def best_height(
    ratio: Ratio, offsets: IntArray, at: FloatArray, tangents: int
) -> tuple[int, FloatArray, FloatArray, FloatArray, IntArray]:
    """Return the highest of some heights in units that no selection from lists undercuts, by as many minorants.

    The first is laid at `at` [K]. Returns beside it the box low, high [K] of all sums, where the best one is laid [K],
    and what each row costs [M] more under it than the cheapest of its list, 0 where no selection has a loss below 1.
    """

Node = dict[str, Any]
"""The fields of a cone or box that `each_field` of `node.hpp`, `cone.hpp` and `box.hpp` names; arrays are flat. What is
missing is 0, empty, or as the lists tell.
"""

class _CellSearch(_Search):
    """Depth-first search over open nodes of the weight space, the next one last; see `cells.hpp`."""

    def renew(self, weights: FloatArray) -> None:
        """Let go of all nodes, and of all that was found and counted; weights [D] of the incumbent."""

    def propagate_root(self, limit: int) -> None:
        """Propagate the only node, which holds all hypotheses; it is dropped if its bound exceeds the limit."""

    def begin(self, budget: int, step: int) -> None:
        """Begin a slice of so much work, in nodes with bounds of up to a step above the least; in all if negative."""

    def explore(self, room: int) -> int:
        """Search until the slice ends: 0 if nothing is open, 1 if nodes need more room than so many bytes, 2 if exact
        arithmetic has to close the node on top, 3 if the work is done.
        """

    def push(self, fields: Node) -> None:
        """Put a node on top."""

    def load(self, node: Bits) -> None:
        """Put a node on top that `nodes` of some search has returned."""

    def nodes(self) -> list[tuple[int, Bits]]:
        """Return bounds and bytes of all open nodes."""

    def top(self) -> Node:
        """Return the fields of the node on top."""

    def pop(self) -> None:
        """Take the node on top off."""

    def clear(self) -> None:
        """Let go of all nodes."""

    def survivors(self) -> tuple[NDArray[np.int32], IntArray, IntArray, int, FloatArray]:
        """Return the hypotheses that may win in the node on top: ids, costs, ends of the lists, and what all others
        cost and have as total [K].
        """

    def conflicts(self, needed: int) -> int:
        """Return by how much conflicts of lists raise the bound of the node on top; they stop beyond what is needed."""

    bounds: IntArray
    @property
    def counts(self) -> tuple[int, int, int, int, int, int]:
        """Nodes, leaves and their linear programs, nodes closed by conflicts, hypotheses looked at, and work."""

class SumBoxes(_CellSearch): ...
class RatioBoxes(_CellSearch): ...
class SumCones(_CellSearch): ...
class RatioCones(_CellSearch): ...

def cell_search(
    lists: Lists,
    ratio: Ratio | None,
    selections: ChoiceSettings,
    precision: tuple[int, float, float] | None,
    settings: tuple[int, int, int, int, int, int, int, int],
) -> _CellSearch:
    """Return a search with no node yet, for sums of costs if ratio is `None`, over cones if precision is.

    precision, settings: as `lpmert.methods.cells` has them.
    """

def box_charges(
    gains: FloatArray,
    steps: IntArray,
    centre: FloatArray,
    radius: FloatArray,
    rounding: float,
    off: float,
    needed: int,
    most_pairs: int,
) -> tuple[int, IntArray]:
    """Charge conflicts between items of a box [D] with gains [n, D] and steps [n] until that exceeds what is needed.

    Return (the sum, the pairs of items charged [P, 2]). rounding: 0.0 if sums of gains are exact, else 1.0; off: what
    features may be off.
    """

def box_normals(centre: FloatArray, radius: FloatArray) -> FloatArray:
    """Return normals [2 D - 1, D] of a box slightly wider than this one: products with its weights are positive."""

def outer_normals(rays: FloatArray) -> tuple[FloatArray, bool]:
    """Return normals [D, D] of a cone slightly wider than the one of these rays [D, D], and whether that is certain.

    Every ray then has a positive product with every normal, beyond rounding.
    """

class LineSearch:
    """Line searches on the same lists; source: Och, ACL 2003.

    A line is weights + t direction [D]; a level is a sum of costs, or the ratio metric's loss.
    """

    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D], the first hypothesis of a list on ties."""

    def along(
        self, weights: FloatArray, direction: FloatArray, low: float, high: float, scale: float
    ) -> tuple[float, float]:
        """Return the least level on a line within low..high, and the middle of the nearest interval that has it.

        The middle is taken in the angle atan(t / scale). Intervals narrower than 1e-12 radians count only if there is
        no other.
        """

    def best_coordinate(
        self, weights: FloatArray, coordinates: IntArray, ranges: FloatArray, scale: float
    ) -> tuple[int, float, float]:
        """Return which of some coordinates has the best step, the first of equals, its level, and its t.

        ranges [D, 2]: the ends of t for each feature.
        """

    def events(self, weights: FloatArray, direction: FloatArray) -> tuple[IntArray, FloatArray, IntArray, IntArray]:
        """Return the rows chosen at t = -inf [S] and the changes, list by list: t [E], from which row, to which."""

class SumLines(LineSearch): ...
class RatioLines(LineSearch): ...

def line_search(columns: FloatArray, offsets: IntArray, losses: Losses) -> LineSearch:
    """Return line searches on lists with columns [D, M], one row a feature."""

def combine(columns: FloatArray, weights: FloatArray, scores: FloatArray) -> None:
    """Write weights [D] times columns [D, M] into scores [M]."""

def decode_cost(scores: FloatArray, offsets: IntArray, costs: IntArray, error: float) -> tuple[int, int]:
    """Return the cost of decoding scores [M], and in how many lists a hypothesis of another cost scores within `error`
    of the chosen one.
    """

def descend(
    search: LineSearch,
    weights: FloatArray,
    near: tuple[FloatArray, float],
    draws: tuple[FloatArray, FloatArray, NDArray[np.bool_]],
    turns: IntArray,
    patience: int,
    searches: int,
) -> int:
    """Search from weights [D], which are replaced, until `patience` directions in a row do not lower the cost.

    Returns how many of the `searches` are left. Directions that were drawn alternate with those towards cheaper
    hypotheses; at equal cost, too, the weights move to the middle of the best interval. near: centre [D] and reach;
    weights stay within it, at right angles to the centre, or go anywhere if it is infinite. draws, gone through
    again and again: directions [T, D], costs of a unit of score [T], and the lists that take part in a direction
    towards cheaper hypotheses [T, S]. turns [2]: the directions gone through, and how many of the last ones failed;
    changed, so that a search goes on as if it had not ended.
    """

def find_reaches(search: LineSearch, centre: FloatArray) -> FloatArray:
    """Return how far [M] from a centre [D] of length 1, at right angles to it, each hypothesis wins first."""

def arc_within(region: SphereRegion, w: FloatArray, v: FloatArray) -> tuple[float, float]:
    """Return the ends, around t = 0, of the part of the circle cos(t) w + sin(t) v within a region.

    w, v [d] at right angles. Where w itself breaks a limit, 0 is an end.
    """

def find_pieces(search: LineSearch, weights: FloatArray, direction: FloatArray, low: float, high: float) -> FloatArray:
    """Return begin, end and level of the pieces [n, 3] of a circle cos(t) weights + sin(t) direction within low..high.

    -pi <= low <= 0 <= high <= pi. Neighbours may have the same level; their order is not that of the angles.
    """

def walk(
    search: LineSearch,
    region: SphereRegion,
    law: tuple[float, float],
    chain: tuple[FloatArray, FloatArray, FloatArray],
    directions: FloatArray,
    draws: FloatArray,
    counted: bool,
    path: FloatArray,
) -> None:
    """Let a chain go one step along each of directions [n, d], drawn at random, and write its weights into path [n, d].

    Hit and run under a law (temperature, highest): a density in proportion to exp(-level / temperature) where the level
    is at most `highest`. The chain, which is changed, has weights [d], of length 1, the sum [d] of the means of those
    circles that are counted, and their number [1]. draws [n], between 0 and 1, choose the points on the circles.
    """

class Links:
    """The links of a lattice or hypergraph, sorted by target: each leaves a smaller node, or two, and leads to a node.

    sources, seconds, targets [L], of `nodes` nodes from 0; a second of 0 stands for none. Hypotheses, over which all
    methods go, lead from node 0 to the last node: paths, or trees of links.
    """

    def __init__(self, sources: Nodes, seconds: Nodes, targets: Nodes, nodes: int) -> None: ...
    def largest_sums(self, lengths: FloatArray) -> FloatArray:
        """Return the largest sums [D] of lengths [L, D] of links; -inf where there is no hypothesis."""

    def best_through(self, scores: FloatArray) -> FloatArray:
        """Return for each link [L] the largest sum of scores [L] of a hypothesis that uses it."""

    def log10_paths(self) -> float:
        """Return the decimal logarithm of the number of hypotheses, but for rounding."""

    def least_edits(self, words: Nodes, reference: Nodes) -> int:
        """Return the least edits that turn the words [L] of a path into a reference [R]; words below 0 are silent.

        For lattices. Source: Myers and Miller, Approximate matching of regular expressions, 1989.
        """

class PathFinder:
    """Finds, lattice by lattice, the hypotheses that may win in a cone, and the links that these use.

    labels: how many partial paths are kept at most. rays [R, D]: of the cone, linearly independent, whose numbers are
    off by half a unit in the last place at most; reach [R]: what scores of hypotheses may be there.
    """

    def __init__(self, labels: int) -> None: ...
    def lead(self, rays: FloatArray, reach: FloatArray, known: FloatArray) -> FloatArray:
        """Return the scores [n, R] of those known hypotheses, of features [P, D], that no others beat in the cone."""

    def look_through(
        self,
        lattice: tuple[Links, FloatArray, int],
        marks: Bits,
        rays: FloatArray,
        reach: FloatArray,
        mixes: FloatArray,
        known: FloatArray,
    ) -> tuple[int, Nodes, Nodes, FloatArray, FloatArray]:
        """Find best hypotheses at some weights of a cone, and through which links others may be as good.

        lattice: links, features [L, D], sums of which are exact, and the most links of a hypothesis; marks: bits of the
        links that are looked at, which make up whole hypotheses. mixes [m, R]: the weights, as mixtures of the rays;
        known [P, D]: features of hypotheses that rule out others, too. Returns how many links were looked at, which are
        left [n], the links of the best hypothesis at the first mix [k], in the order of a walk from its root, the
        features of the best one at each mix [m, D], and the scores [q, R] of those, and of those known, that no others
        beat.
        """

    def list(self, most_work: int) -> tuple[bool, int, int, FloatArray, Nodes, IntArray]:
        """List the hypotheses that may win through the links that `look_through` left.

        Returns whether they found room and were not too much work, the work, and how many links were done; and if so
        the features [n, D] of the hypotheses, and their links, one after the other, with ends [n + 1]. Of hypotheses
        with the same features there is the first one.
        """

def narrow(
    features: FloatArray, numbers: IntArray, ends: IntArray, ids: IntArray, rays: FloatArray, reach: FloatArray
) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Drop the hypotheses of lists that others of their list, or mixtures of these, beat in a cone of rays [R, D].

    The list of lattice numbers[a] holds ids[ends[a]:ends[a + 1]], rows of features [M, D], which are exact; reach
    [S, R]: what scores of hypotheses of each lattice may be at the rays. Returns ends, ids, and scores [k, R] at the
    rays of what is left, and which hypothesis of each list is the best in the middle of the cone.
    """

def find_graph_envelope(
    links: Links, intercepts: FloatArray, slopes: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray]:
    """Return the upper envelope of all hypotheses of a graph, on the line intercept + t slope of their links.

    Sources: Macherey and others, EMNLP 2008; Kumar and others, ACL 2009. Returns intercepts, slopes and starts [n], the
    t from which on each line is the envelope, -inf first; and the links of all lines, one after the other, with
    ends [n + 1].
    """

class Ranking:
    """What weights make of the ranking of judged documents, and a search over cones for the best weights.

    features [M, D] of size at most 1, offsets [Q + 1], gains [M], discounts [k], merits [k] of the first, second, ...
    document with a gain, a factor for each query [Q], 0 where it does not count. Values are in units of 2**-40, rounded
    up. Only documents of different gains in a query are compared. All cells hold weights, absolute values
    summing to 1, at which any two documents of different features differ by at least `least`; 0 if that is not known.
    """

    def __init__(
        self,
        features: FloatArray,
        offsets: IntArray,
        gains: FloatArray,
        discounts: FloatArray,
        merits: FloatArray,
        scales: FloatArray,
        least: float,
    ) -> None: ...
    relevant: IntArray
    """Rows [R] of the documents with a gain in queries that count, query by query, by falling gain."""

    def worth(self, query: int, ahead: IntArray) -> int:
        """Return the most that a query is worth where at least ahead [R] documents with other gains lead each one."""

    def value(self, weights: FloatArray) -> int:
        """Return the sum over the queries; leads that rounding may hide count as ties, in the worst order."""

    def compared(self) -> IntArray:
        """Return pairs [P, 2] of documents that are compared: one with a gain, and its rival."""

    def sweep(self, x: FloatArray, y: FloatArray) -> tuple[IntArray, IntArray]:
        """Return where the sum changes among the directions x, y > 0, exactly, and the sums between [C].

        x, y [M] are at most 1, and 0 or at least 2**-440. A change is given by two documents [C - 1, 2] that tie there,
        of which the second has the larger x and the smaller y.
        """

    def open(self, signs: FloatArray) -> None:
        """Open the cone of axes with these signs [D]."""

    def raise_to(self, units: int) -> None:
        """Close what reaches no more than 4 units a query beyond this."""

    def advance(self, budget: int, bytes: int) -> FloatArray:
        """Branch on so many nodes, less where one needs exact arithmetic or weights [D] look better; return these.

        Nodes with the largest bound come first, and those with the least one while open nodes take more bytes.
        """

    def take_leaf(self) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray, int, int]:
        """Return a node that needs exact arithmetic.

        Rays as parents and axis [n, 3], and shares [n] of the first parent; which of them are the cone's [D];
        undecided pairs as query, the document's number in `relevant`, document, rival [u, 4]; ahead [R]; the sum of the
        queries without such pairs; its number. A ray without parents (-1) is that of an axis j, or against it where the
        axis is -1 - j.
        """

    def recorded(self) -> tuple[IntArray, FloatArray]:
        """Return the number of a node, that of its first part, and the rays above and below [n, 4]; shares [n].

        The new ray is the mixture with this share of the ray above, for rays whose absolute values sum to 1. It takes
        the place of the ray below in the first part, and of the ray above in the other one, whose number comes next.
        """

    needs_exact: bool
    open_nodes: int
    open_bound: int
    closed: int
    nodes: int

def critical_directions(
    x: FloatArray, y: FloatArray, offsets: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return where choices change among the directions of the plane, exactly, for points x, y [M].

    Coordinates are at most 1, and 0 or at least 2**-440. Returns the rows chosen before the first change [S]; from
    which row and to which [E] a choice changes, as the weights turn counter-clockwise once; and where each group of
    changes at the same direction ends [G].
    """

def read_alike(
    data: bytes, literals: list[str], cells: list[int], style: int, refused: str, numbers: FloatArray
) -> tuple[list[str], list[str]] | None:
    """Fill numbers [n, k] from the n lines of a text in UTF-8 that are all alike; return words and texts.

    A line is literals[0], a cell, literals[1], ..., a cell, literals[-1]. cells: what each is. Those that are a number
    (0), a number in digits (1), or a word (2) are k in all: numbers gets the number, or the place of the word among
    those that are returned. Of each text (3) one is returned for every line; others (4) are not needed. A cell ends at
    the first characters of the literal after it that are equal, and does not hold `refused` unless that is empty.
    style: literals are as they are (0), with blanks for any blanks (1), or JSON (2), in which a cell before a quote is
    a string, and is returned as it is written. `None` unless every line is so, every number is written in digits and
    below 2**53, and no word is empty. At most one column has words. Other threads do not run meanwhile.
    """

class SparseRows:
    """Rows of entries, one after the other: starts [n + 1] of the rows, columns and values of the entries."""

    def __init__(self, starts: IntArray, columns: IntArray, values: FloatArray, n_columns: int) -> None: ...

class FeatureLines:
    """Lists with sparse features, of which one feature's weight changes; see Gao, Yu, Yuan and Xu, HLT/EMNLP 2005.

    A feature's entries are rows, ascending, and values; a row without an entry has the value 0. Only lists with an
    entry are visited.
    """

    def __init__(self, offsets: IntArray) -> None: ...
    def events(
        self, rows: IntArray, values: FloatArray, weight: float, scores: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray, IntArray, IntArray]:
        """Return where choices change as the feature's weight, now `weight` within scores [M], runs from -inf to inf.

        Returns the lists with an entry and their choices at -inf [n]; and, list by list, the thresholds [E] at which a
        choice changes, from which row and to which.
        """

    def choices(self, rows: IntArray, values: FloatArray, step: float, scores: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the lists with an entry, and the rows that they choose once the feature's weight grows by step."""

def perceptron_pass(
    features: SparseRows, order: IntArray, offsets: IntArray, base: FloatArray, gold: NDArray[np.bool_],
    weights: FloatArray, weighted: FloatArray, visits: int,
) -> int:  # fmt: skip
    """Visit lists in order; move weights from a wrong best row to the best gold row; return the number of updates.

    base [M], gold [M]: the score that stays, and whether a row's loss is the least of its list. Changed are weights [D]
    and weighted [D], the sum of every update times the visits before it, of which there were `visits`.
    """

class Boosting:
    """Steps along the feature of the largest gain, for the exponential loss of pairs of hypotheses.

    by_feature, by_pair: the same differences, gold row less other row; pair_weights [P]: importance times exp(-margin).
    """

    def __init__(self, by_feature: SparseRows, by_pair: SparseRows, pair_weights: FloatArray) -> None: ...
    def run(self, n_rounds: int, smoothing: float, tolerance: float, least: float, weights: FloatArray) -> int:
        """Take up to so many steps, which are added to weights [D]; return how many were taken.

        It ends early where no gain is more than tolerance times the sum of the pairs' weights, or that is not above
        least.
        """
