"""Hot loops, compiled from C++.

Throughout, there are M hypotheses in S lists; the rows of list s are offsets[s] to offsets[s + 1] - 1, with offsets
[S + 1] from 0 to M. There are D features and K statistics. Arrays are C-contiguous; numbers are float64, and whole
numbers int64 unless another type is stated.

An array of a wrong type or number of dimensions, or a read-only array that a function writes to, raises `TypeError`,
which says what the function takes. An array of a wrong size raises `ValueError`, which names the argument. Functions
release the GIL. An object is for one thread at a time. It keeps the arrays that it is made from, which must not change.
Attributes are read-only.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray

Bits = NDArray[np.uint8]
Nodes = NDArray[np.int32]

Losses = tuple[int, FloatArray, IntArray, FloatArray, FloatArray]
"""The losses of hypotheses: see `lpmert.lines.line_search.LossInCore`. Arrays that are not needed are empty."""

SphereRegion = tuple[FloatArray, FloatArray, FloatArray, float]
"""Where circles of weights [d] may go: limits [k, d], basis [D, d], unit vector [D], cosine.

Products of weights with limits must not be negative. The cosine of basis @ weights with the unit vector must be at
least this one; without such a cap, the unit vector is empty.
"""

Ratio = tuple[int, FloatArray, FloatArray, FloatArray, FloatArray, IntArray]
"""A ratio metric and its statistics of hypotheses: see `lpmert.methods.choices.ratio.Ratio`."""

INFINITE_COST: int
"""The cost of a forbidden hypothesis, larger than that of any selection. Sums of a few such costs overflow."""

class Lists:
    """Lists for the searches of this module, each in order of cost.

    rows [M, D]: features; costs [M]; reach [D]: largest magnitude of each feature; spread [D]: largest error of each
    feature; cap [D + 1]: a unit vector and the least cosine that weights must have with it, or empty.
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
        """Write the position of each list's winner into selection [S]; return (cost, clear).

        clear: whether every winner leads by more than rounding.
        """

def decode(features: FloatArray, offsets: IntArray, weights: FloatArray) -> IntArray:
    """Return the best row [S] of each list of features [M, D] at weights [D], the first one on ties."""

def worst_cost(
    features: FloatArray, offsets: IntArray, costs: IntArray, weights: FloatArray, bound: float
) -> tuple[int, bool]:
    """Return (cost, clear) of weights [D]; in each list, the dearest hypothesis within `bound` of the winner counts.

    clear: whether in every list, all these hypotheses cost the same.
    """

def possible_winners(features: FloatArray, offsets: IntArray) -> IntArray:
    """Return the rows of features [M, D], ascending, that may win their list, or tie within rounding, for some weights.

    All other rows provably do not: in every cone of a cover of the weight space, another row is better. Rows that are
    identical to a possible winner are returned too. With one feature or more than ten, all rows are returned.
    """

class Corral:
    """The state of a linear program of `LeastNorm`: some rows, and the point [D] of least norm of their hull.

    Row k is the chosen hypothesis of list lists[k] less its hypothesis others[k], at length 1. multipliers, lists,
    others [size]: of the rows.
    """

    def __init__(self, n_features: int) -> None: ...
    size: int
    point: FloatArray
    multipliers: FloatArray
    lists: IntArray
    others: IntArray
    def restart(self, weights: FloatArray) -> None:
        """Drop all rows, and start at these weights [D]."""

class LeastNorm:
    """Decides whether some weights make given choices from lists."""

    def __init__(self, lists: Lists) -> None: ...
    def separate(self, decided: IntArray, chosen: IntArray, start: int, corral: Corral) -> int:
        """Decide whether some weights make the choices of the decided lists [n]; the program starts from the corral.

        chosen [S]: the position of the choice in each decided list; start: which of these is looked at first. After
        INFEASIBLE (0), the corral's rows with positive multipliers are a core; after FEASIBLE (1), its point makes all
        choices. UNDECIDED (2) is left to exact arithmetic.
        """

class _Search:
    @property
    def found(self) -> tuple[int, float, FloatArray]:
        """The cut-off of bounds, and the loss (of a ratio) and the weights [D] of the incumbent."""

    def aim(self, cost: int, loss: float) -> None:
        """Search only for a lower cost, or for a ratio metric for a lower loss."""

class _Choices(_Search):
    """A search over selections that can pause; see `choices.hpp`.

    work: in scores; programs, rounds: linear programs, and their steps. When the search asks whether some weights make
    a set of choices, question [n, 2] has the choices (list, position), and `trial` the corral that could not decide.
    least_open: the least bound of the open nodes, 2**61 if there are none. between_nodes: whether the search can stop
    here, with its open nodes searched elsewhere, without losing work.
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
        """Search until a budget of work is spent (0), until it asks (1), or to the end (2)."""

    def answer(self, weights: FloatArray, core: IntArray) -> None:
        """Answer the question: weights [D] that make the choices, or a core [n, 2] of choices that no weights make.

        Both are empty if some weights make the choices, but no doubles do. An answer counts as work.
        """

    def open_nodes(self) -> list[tuple[int, Bits]]:
        """Return bounds and bytes of the open nodes, from the root down."""

    def go_on_with(self, node: Bits) -> None:
        """Drop all nodes and search this one next."""

class SumChoices(_Choices): ...
class RatioChoices(_Choices): ...

def choices_search(lists: Lists, ratio: Ratio | None, n_fixed: int, weights: FloatArray, granularity: int) -> _Choices:
    """Return a search over selections: for a sum of costs if ratio is `None`, where bounds are costs; else for a ratio
    metric, where bounds are heights in units.

    The last n_fixed lists are half-spaces, decided everywhere. weights [D]: where programs start; the first minorant of
    a ratio is laid at the sums of what they choose.
    """

def losses_of_totals(kind: int, parameters: FloatArray, totals: FloatArray) -> FloatArray:
    """Return the losses [n] of summed statistics [n, K]."""

def loss_of_height(kind: int, height: float) -> float:
    """Return a lower bound on all losses whose height is at least this one; `lay_minorant` bounds heights."""

def lay_minorant(
    kind: int, parameters: FloatArray, low: FloatArray, high: FloatArray, at: FloatArray
) -> tuple[float, FloatArray]:
    """Return a constant and slopes [K] so that height(x) >= constant + slopes . x for all whole x in the box.

    low, high [K]: the box of summed statistics; at [K]: the point where the bound should be good. The constant is
    infinite if every x in the box has a loss of 1. The slopes are 0 if no bound but 0 is known, as for a fraction.
    """

def height_limit(kind: int, loss: float) -> int:
    """Return a height in units; all losses of at least this height are no lower than this loss."""

def best_height(
    ratio: Ratio, offsets: IntArray, at: FloatArray, tangents: int
) -> tuple[int, FloatArray, FloatArray, FloatArray, IntArray]:
    """Return a lower bound, in units, on the heights of all selections from lists: the best of some minorants.

    at [K]: where the first minorant is laid; tangents: their number. Also returns the box low, high [K] of all sums;
    where the best minorant is laid [K]; and by how much each row costs more under it than the cheapest of its list
    [M], 0 if every selection has a loss of 1.
    """

Node = dict[str, Any]
"""The fields of a cone or box, as `each_field` in `node.hpp`, `cone.hpp` and `box.hpp` lists them; arrays are flat.

Missing fields are 0, empty, or looked up in the lists.
"""

class _CellSearch(_Search):
    """Depth-first search over the weight space; see `cells.hpp`. The open nodes are a stack."""

    def renew(self, weights: FloatArray) -> None:
        """Forget all nodes, findings and counts; weights [D] of the incumbent."""

    def propagate_root(self, limit: int) -> None:
        """Propagate the only node, which has all hypotheses; drop it if its bound exceeds the limit."""

    def begin(self, budget: int, step: int) -> None:
        """Begin a slice of work on nodes with bounds up to a step above the least one; on all if it is negative."""

    def explore(self, memory: int) -> int:
        """Search until the slice ends; return why.

        0: no node is open; 1: nodes need more than `memory` bytes; 2: exact arithmetic has to close the node on
        top; 3: the work is done.
        """

    def push(self, fields: Node) -> None: ...
    def load(self, node: Bits) -> None:
        """Push a node that `nodes` of a search has returned."""

    def nodes(self) -> list[tuple[int, Bits]]:
        """Return bounds and bytes of all open nodes."""

    def top(self) -> Node:
        """Return the fields of the node on top."""

    def pop(self) -> None: ...
    def clear(self) -> None: ...
    def survivors(self) -> tuple[NDArray[np.int32], IntArray, IntArray, int, FloatArray]:
        """Return the hypotheses that may win in the node on top: ids, costs, ends of their lists; and the cost and the
        summed statistics [K] of the settled lists.
        """

    def conflicts(self, needed: int) -> int:
        """Return by how much conflicts raise the own bound of the node on top; stop once that is more than needed."""

    bounds: IntArray
    @property
    def counts(self) -> tuple[int, int, int, int, int, int]:
        """Nodes, leaves, linear programs of leaves, nodes closed by conflicts, hypotheses looked at, and work."""

class SumBoxes(_CellSearch): ...
class RatioBoxes(_CellSearch): ...
class SumCones(_CellSearch): ...
class RatioCones(_CellSearch): ...

def cell_search(
    lists: Lists,
    ratio: Ratio | None,
    precision: tuple[int, float, float] | None,
    settings: tuple[int, int, int, int, int, int, int, int],
) -> _CellSearch:
    """Return a search with no node yet: for sums of costs if ratio is `None`, over cones if precision is `None`.

    precision, settings: see `Precision` and `NodeSettings` in `lpmert.methods.cells.nodes`.
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
    """Charge conflicts between items with gains [n, D] and steps [n] in a box until the charges exceed what is needed.

    centre, radius [D]: the box; rounding: 0.0 if sums of gains are exact, else 1.0; off: error of a product because
    features are rounded. Returns the sum of the charges, and the pairs of items charged [P, 2], at most most_pairs.
    """

def box_normals(centre: FloatArray, radius: FloatArray) -> FloatArray:
    """Return normals [2 D - 1, D] of a slightly wider box: all weights of this box have positive products with them."""

def outer_normals(rays: FloatArray) -> tuple[FloatArray, bool]:
    """Return normals [D, D] of a cone slightly wider than that of rays [D, D], and whether this is certain.

    If so, every ray has a positive product with every normal, beyond rounding.
    """

class LineSearch:
    """Line searches on the same lists; source: Och, ACL 2003.

    A line is weights + t direction [D]; a level is a sum of costs, or the ratio metric's loss.
    """

    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D]; on ties, the first hypothesis of a list wins."""

    def along(
        self, weights: FloatArray, direction: FloatArray, low: float, high: float, scale: float
    ) -> tuple[float, float]:
        """Return the least level on a line for t in low .. high, and the middle of the nearest interval that has it.

        The middle is taken in the angle atan(t / scale). Intervals narrower than 1e-12 radians count only if there is
        no other.
        """

    def best_coordinate(
        self, weights: FloatArray, coordinates: IntArray, ranges: FloatArray, scale: float
    ) -> tuple[int, float, float]:
        """Return the coordinate with the best step (the first one on ties), its level and its t.

        coordinates [n]: the features to try; ranges [D, 2]: the ends of t for each feature.
        """

    def events(self, weights: FloatArray, direction: FloatArray) -> tuple[IntArray, FloatArray, IntArray, IntArray]:
        """Return the rows chosen at t = -inf [S] and the events [E], list by list: t, losing row, winning row."""

class SumLines(LineSearch): ...
class RatioLines(LineSearch): ...

def line_search(columns: FloatArray, offsets: IntArray, losses: Losses) -> LineSearch:
    """Return line searches on lists with columns [D, M], one row a feature."""

def combine(columns: FloatArray, weights: FloatArray, scores: FloatArray) -> None:
    """Write the scores [M] of columns [D, M] at weights [D]."""

def decode_cost(scores: FloatArray, offsets: IntArray, costs: IntArray, error: float) -> tuple[int, int]:
    """Return the cost of decoding scores [M], and the number of doubtful lists: those in which a hypothesis of another
    cost scores within `error` of the chosen one.
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
    """Improve weights [D] in place by line searches, until `patience` directions in a row do not lower the cost.

    Random directions alternate with directions towards cheaper hypotheses. The weights move to the middle of the best
    interval, at equal cost too. Returns how many of the `searches` are left.

    near: a centre [D] of length 1 and a reach; the weights stay within this reach, orthogonal to the centre, or go
    anywhere if it is infinite. draws, used again and again: random directions [T, D]; the score that a unit of cost is
    worth [T], and the lists that take part [T, S], in directions towards cheaper hypotheses. turns [2]: the number of
    directions so far, and how many of the last ones failed; updated, so that a descent can be continued.
    """

def find_reaches(search: LineSearch, centre: FloatArray) -> FloatArray:
    """Return how far from a centre [D] of length 1, orthogonal to it, each hypothesis [M] can win first."""

def walk(
    search: LineSearch,
    region: SphereRegion,
    temperature: float,
    chain: tuple[FloatArray, FloatArray, FloatArray],
    directions: FloatArray,
    draws: FloatArray,
    counted: bool,
    path: FloatArray,
) -> None:
    """Take one step of hit and run along each of some random directions [n, d]; write the weights into path [n, d].

    temperature: of a density proportional to exp(-level / temperature). chain, updated: its weights [d] of length 1,
    the sum [d] of the means of the counted circles, and their number [1]. counted: whether the circles of this walk
    count. draws [n]: numbers from 0 to 1 that choose the points on the circles.
    """

class Links:
    """The links of a lattice or hypergraph with nodes 0 .. nodes - 1, sorted by target.

    A link leaves the node sources [L], and another one if seconds [L] is not 0; it leads to a larger node, targets [L].
    A hypothesis is a path, or a tree of links, from node 0 to the last node.
    """

    def __init__(self, sources: Nodes, seconds: Nodes, targets: Nodes, nodes: int) -> None: ...
    def largest_sums(self, lengths: FloatArray) -> FloatArray:
        """Return the largest sums [D] over hypotheses of the lengths [L, D] of their links; -inf if there is none."""

    def best_through(self, scores: FloatArray) -> FloatArray:
        """Return for each link [L] the largest sum of scores [L] of the links of a hypothesis that uses it."""

    def log10_paths(self) -> float:
        """Return the decimal logarithm of the number of hypotheses, up to rounding."""

    def least_edits(self, words: Nodes, reference: Nodes) -> int:
        """Return the least number of edits that turn the words [L] of some path into a reference [R].

        Negative words are silent. For lattices only. Source: Myers and Miller, Approximate matching of regular
        expressions, 1989.
        """

class PathFinder:
    """Finds, lattice by lattice, the hypotheses that may win in a cone, and the links that these use.

    labels: the most partial paths to keep. In all methods, rays [R, D] are those of the cone: linearly independent,
    with errors of at most half a unit in the last place; reach [R]: the largest magnitude of a hypothesis' score at
    each of them.
    """

    def __init__(self, labels: int) -> None: ...
    def look_through(
        self,
        lattice: tuple[Links, FloatArray, int],
        marks: Bits,
        rays: FloatArray,
        reach: FloatArray,
        mixes: FloatArray,
        known: FloatArray,
    ) -> tuple[int, Nodes, Nodes, FloatArray, FloatArray]:
        """Find the best hypotheses at some weights of a cone, and the links of hypotheses that may be as good.

        lattice: links, their features [L, D], whose sums are exact, and the most links of a hypothesis. marks: a bit
        for each link, set if it is looked at; these links must form whole hypotheses. mixes [m, R]: the weights, as
        mixtures of the rays. known [P, D]: features of hypotheses that rule out others too.

        Returns the number of links looked at; the links that are left [n]; the links [k] of the best hypothesis at the
        first mixture, in the order of a walk from its root; the features [m, D] of the best hypothesis at each mixture;
        and the scores [q, R] of those of them, and of the known ones, that no others beat.
        """

    def list(self, most_work: int) -> tuple[bool, int, int, FloatArray, Nodes, IntArray]:
        """List the hypotheses that may win among those of the links that `look_through` has left.

        Returns whether this took neither too many labels nor too much work; the work; and the number of links done. If
        so, also the features [n, D] of the hypotheses, and their links, one hypothesis after the other, with ends
        [n + 1]. Of hypotheses with the same features, only the first one is listed.
        """

def narrow(
    features: FloatArray, numbers: IntArray, ends: IntArray, ids: IntArray, rays: FloatArray, reach: FloatArray
) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Drop the hypotheses that others of their list, or mixtures of these, beat in a cone of rays [R, D].

    The list of lattice numbers[a] is ids[ends[a]:ends[a + 1]], rows of features [M, D], which are exact. reach [S, R]:
    the largest magnitude of the scores of each lattice's hypotheses at the rays. Returns ends, ids and scores [k, R] at
    the rays of the remaining hypotheses, and the best hypothesis of each list in the middle of the cone.
    """

def find_graph_envelope(
    links: Links, intercepts: FloatArray, slopes: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray]:
    """Return the upper envelope of all hypotheses of a graph on the line intercept + t slope.

    intercepts, slopes [L]: of the links. Returns intercepts, slopes and starts [n] of the lines of the envelope; a
    start is the t from which a line is the envelope, and the first one is -inf. Also returns the links of all lines,
    one line after the other, with ends [n + 1]. Sources: Macherey and others, EMNLP 2008; Kumar and others, ACL 2009.
    """

class Ranking:
    """The value of weights as rankings of judged documents, and a search over cones for the best weights.

    features [M, D]: at most 1 in magnitude; offsets [Q + 1]: of the queries' documents; gains [M]; discounts [k]: of
    positions; merits [k]: of the first, second, ... document with a gain; scales [Q]: a factor for each query, 0 if it
    does not count; least: every cell has weights, with absolute values that sum to 1, at which the scores of any two
    documents with different features differ by at least this; 0 if that is not known.

    Values are in units of 2**-40, rounded up. Only documents of a query with different gains are compared.
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
    """Rows [R] of the relevant documents, those with a gain in queries that count: query by query, by falling gain."""

    def worth(self, query: int, ahead: IntArray) -> int:
        """Return the largest value of a query if at least ahead [R] documents of other gains lead each relevant one."""

    def value(self, weights: FloatArray) -> int:
        """Return the value of weights [D]; leads that rounding may hide count as ties in the worst order."""

    def compared(self) -> IntArray:
        """Return the pairs [P, 2] of documents that are compared: one with a gain, and its rival."""

    def sweep(self, x: FloatArray, y: FloatArray) -> tuple[IntArray, IntArray]:
        """Return, exactly, the directions x, y > 0 at which the value changes, and the values between them [C].

        Each of x, y [M] is 0, or its magnitude is between 2**-440 and 1. A direction is given as two documents
        [C - 1, 2] that tie there; the second one has the larger x and the smaller y.
        """

    def open(self, signs: FloatArray) -> None:
        """Open the cone of the axes with these signs [D]."""

    def raise_to(self, units: int) -> None:
        """Set the incumbent's value; nodes with a bound of at most 4 units a query above it are closed."""

    def advance(self, budget: int, bytes: int) -> FloatArray:
        """Branch on nodes with about `budget` pairs in all; stop early if a node needs exact arithmetic, or if weights
        [D] look better than all before, and return these.

        Nodes with the largest bound come first; those with the least while open nodes take more than `bytes`.
        """

    def take_leaf(self) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray, int, int]:
        """Return the node that needs exact arithmetic.

        Returns rays as parents and axis [n, 3], and the share [n] of the first parent; which of these are the cone's
        [D]; undecided pairs [u, 4] as query, the document's number in `relevant`, document, rival; ahead [R]; the sum
        of the bounds of queries without such pairs; and the node's number. A ray without parents (-1) is the axis j,
        or its opposite if the axis is -1 - j.
        """

    def recorded(self) -> tuple[IntArray, FloatArray]:
        """Return all splits: [n, 4] the number of a node, that of its first part, the rays above and below; shares [n].

        The new ray mixes the two rays, whose absolute values sum to 1, with this share of the ray above. It replaces
        the ray below in the first part, and the ray above in the second part, whose number is the next one.
        """

    needs_exact: bool
    open_nodes: int
    open_bound: int
    closed: int
    nodes: int

def critical_directions(
    x: FloatArray, y: FloatArray, offsets: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return, exactly, the directions of the plane at which choices change, for points x, y [M].

    Each coordinate is 0, or its magnitude is between 2**-440 and 1. The weights turn counter-clockwise once. Returns
    the rows chosen before the first change [S]; the rows that lose and that win [E] at each change; and the ends [G] of
    the groups of changes at the same direction.
    """

def read_alike(
    data: bytes, literals: list[str], cells: list[int], loose: bool, refused: str, numbers: FloatArray
) -> tuple[list[str], list[str]] | None:
    """Fill numbers [n, k] from the n lines, all alike, of a text in UTF-8; return words and texts.

    A line is literals[0], a cell, literals[1], ..., a cell, literals[-1]. cells: the kind of each cell. k cells are a
    number (0), a count in digits (1) or a word (2); for a word, `numbers` has its index among the returned words. Text
    cells (3) are returned for every line; others (4) are skipped. A cell ends where the following literal's first run
    of equal characters begins; it must not contain `refused`, unless that is empty.

    loose: whether a blank in a literal matches any blanks.

    Returns `None` if some line differs, a number is not written in digits or not below 2**53, or a word is empty. At
    most one column has words. This function does not release the GIL.
    """

class SparseRows:
    """Sparse rows: starts [n + 1] of the rows; columns and values of the entries, row by row."""

    def __init__(self, starts: IntArray, columns: IntArray, values: FloatArray, n_columns: int) -> None: ...

class FeatureLines:
    """Line searches along one sparse feature; source: Gao, Yu, Yuan and Xu, HLT/EMNLP 2005.

    The feature has values in some rows, which ascend, and is 0 in all others. Only lists with such a row are visited.
    """

    def __init__(self, offsets: IntArray) -> None: ...
    def events(
        self, rows: IntArray, values: FloatArray, weight: float, scores: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray, IntArray, IntArray]:
        """Return the events as the feature's weight runs from -inf to inf; in scores [M] it is `weight`.

        Returns the visited lists and their choices at -inf [n]; and, list by list, the thresholds at which a choice
        changes, the row that loses and the row that wins [E].
        """

    def choices(self, rows: IntArray, values: FloatArray, step: float, scores: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the visited lists, and the rows that they choose after the feature's weight grows by step."""

def perceptron_pass(
    features: SparseRows, order: IntArray, offsets: IntArray, base: FloatArray, gold: NDArray[np.bool_],
    weights: FloatArray, weighted: FloatArray, visits: int,
) -> int:  # fmt: skip
    """Visit lists in order; move weights from a wrong best row to the best gold row; return the number of updates.

    base [M]: the part of the scores that stays; gold [M]: whether a row has the least loss of its list. Updates weights
    [D], and weighted [D]: the sum of every update times the number of visits before it, beginning with `visits`.
    """

class Boosting:
    """Steps along the feature of the largest gain, for the exponential loss of pairs of hypotheses.

    by_feature, by_pair: the same differences, of a gold row less another row; pair_weights [P]: importance times
    exp(-margin).
    """

    def __init__(self, by_feature: SparseRows, by_pair: SparseRows, pair_weights: FloatArray) -> None: ...
    def run(self, n_rounds: int, smoothing: float, tolerance: float, least: float, weights: FloatArray) -> int:
        """Take up to n_rounds steps, which are added to weights [D]; return how many were taken.

        Stops early if no gain is above tolerance times the sum of the pairs' weights, or if this sum is at most least.
        """
