"""Hot loops, compiled from C++.

M hypotheses in S lists have D features and K statistics; the rows of list s are offsets[s] to offsets[s + 1] - 1, with
offsets [S + 1] from 0 to M. Arrays are C-contiguous, of float64 and int64 unless another type is stated.

An array of a wrong type or number of dimensions, or a read-only one that a function writes to, raises `TypeError`; one
of a wrong size raises `ValueError`, which names the argument. Functions release the GIL. An object is for one thread at
a time; it keeps the arrays that it is made from, which must not change. Attributes are read-only.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Indices = NDArray[np.int64]
Bits = NDArray[np.uint8]
Nodes = NDArray[np.int32]

Losses = Indices | tuple[int, Reals, Reals, Reals]
"""Costs [M] that add up; or a ratio metric's kind and parameters, statistics [M, K], and their constant [K]."""

SphereRegion = tuple[Reals, Reals, Reals, float]
"""Where circles of weights [d] may go: limits [k, d] @ weights >= 0, and the cosine of basis [D, d] @ weights with a
unit vector [D], empty without such a cap, is at least this one.
"""

Ratio = tuple[int, Reals, Reals, Reals, Reals, Indices]
"""See `lpmert.methods.choices.Ratio`."""

INFINITE_COST: int
"""The cost of a forbidden hypothesis, larger than that of any selection. Sums of a few such costs overflow."""

class Lists:
    """Lists in order of cost, as `lpmert.numeric.lists.SortedLists` describes them."""

    def __init__(
        self, rows: Reals, offsets: Indices, costs: Indices, reach: Reals, spread: Reals, cap: Reals
    ) -> None: ...
    def decode_clearly(self, weights: Reals, selection: Indices) -> tuple[int, bool]:
        """Write the position of each list's winner into selection [S]; return the cost, and whether each leads by more
        than rounding.
        """

def decode(features: Reals, offsets: Indices, weights: Reals) -> Indices:
    """Return the best row [S] of each list of features [M, D] at weights [D], the first one on ties."""

def decoded_cost(
    features: Reals, offsets: Indices, costs: Indices, weights: Reals, bound: float
) -> tuple[int, int, bool]:
    """Return the cost of weights [D]; their cost by the dearest hypothesis within `bound` of each list's winner; and
    whether in every list all these hypotheses cost the same.
    """

def possible_winners(features: Reals, offsets: Indices) -> Indices:
    """Return the rows of features [M, D], ascending, that may win their list, or tie within rounding, for some weights,
    and rows identical to these. All others provably never win. With one feature or more than ten, all rows.
    """

class Corral:
    """The state of a linear program of `LeastNorm`: some rows, and the point [D] of least norm of their hull.

    Row k is the chosen hypothesis of list lists[k] less its hypothesis others[k], at length 1.
    """

    def __init__(self, n_features: int) -> None: ...
    size: int
    point: Reals
    multipliers: Reals
    lists: Indices
    others: Indices
    def restart(self, weights: Reals) -> None: ...

class LeastNorm:
    def __init__(self, lists: Lists) -> None: ...
    def separate(self, decided: Indices, chosen: Indices, start: int, corral: Corral) -> int:
        """Decide whether some weights make the choices, positions chosen [S], of the decided lists [n], beginning with
        the corral and with decided[start].

        After INFEASIBLE (0), the corral's rows with positive multipliers are a core; after FEASIBLE (1), its point
        makes all choices. UNDECIDED (2) is left to exact arithmetic.
        """

class _Search:
    @property
    def found(self) -> tuple[int, float, Reals]:
        """The cut-off of bounds, and the loss (of a ratio) and the weights [D] of the incumbent."""

    def aim(self, cost: int, loss: float) -> None:
        """Search only for a lower cost, or for a ratio metric for a lower loss."""

class ChoicesSearch(_Search):
    """A search over selections that can pause, with costs as bounds, or for a ratio metric with heights in units; see
    `choices.hpp`.

    The last n_fixed lists are half-spaces, decided everywhere. weights [D]: where programs start; the first minorant of
    a ratio is laid at the sums of what they choose.

    work: in scores; programs, rounds: linear programs, and their steps. When the search asks whether some weights make
    a set of choices, question [n, 2] has the choices (list, position), and `trial` the corral that could not decide.
    least_open: the least bound of the open nodes, 2**61 if there are none. between_nodes: whether its open nodes can be
    searched elsewhere without loss.
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
    question: Indices
    def __init__(self, lists: Lists, ratio: Ratio | None, n_fixed: int, weights: Reals, granularity: int) -> None: ...
    def search(self, budget: int) -> int:
        """Search until a budget of work is spent (0), until it asks (1), or to the end (2)."""

    def answer(self, weights: Reals, core: Indices) -> None:
        """Answer the question: weights [D] that make the choices, or a core [n, 2] of choices that no weights make;
        both are empty if some weights make the choices, but no doubles do.
        """

    def open_nodes(self) -> list[tuple[int, Bits]]:
        """Return bounds and bytes of the open nodes, from the root down; `go_on_with` drops all others."""

    def go_on_with(self, node: Bits) -> None: ...

def losses_of_totals(kind: int, parameters: Reals, totals: Reals) -> Reals:
    """Return the losses [n] of summed statistics [n, K]."""

def loss_of_height(kind: int, height: float) -> float:
    """Return a lower bound on all losses whose height is at least this one."""

def lay_minorant(kind: int, parameters: Reals, low: Reals, high: Reals, at: Reals) -> tuple[float, Reals]:
    """Return a constant and slopes [K] so that height(x) >= constant + slopes . x for all whole x in the box low, high
    [K] of sums, and well so near `at` [K]. The constant is infinite if all have a loss of 1; the slopes are 0 if no
    bound but 0 is known, as for a fraction.
    """

def height_limit(kind: int, loss: float) -> int:
    """Return a height in units such that all losses of at least this height are no lower than this loss."""

def best_height(ratio: Ratio, offsets: Indices, at: Reals, tangents: int) -> tuple[int, Reals, Reals, Reals, Indices]:
    """Return a lower bound, in units, on the heights of all selections, by minorants of which the first is laid at [K].

    Also returns the box low, high [K] of all sums; where the best minorant is laid [K]; and by how much each row [M]
    costs more under it than the cheapest of its list, 0 if every selection has a loss of 1.
    """

Node = dict[str, Any]
"""The fields of a cone or box in `each_field` of `node.hpp`, `cone.hpp` and `box.hpp`; those missing are looked up."""

class _CellSearch(_Search):
    """Depth-first search over the weight space; see `cells.hpp`. The open nodes are a stack."""

    def renew(self, weights: Reals) -> None:
        """Forget all nodes, findings and counts; weights [D] of the incumbent."""

    def propagate_root(self, limit: int) -> None:
        """Propagate the only node, which has all hypotheses; drop it if its bound exceeds the limit."""

    def begin(self, budget: int, step: int) -> None:
        """Begin a slice of work on nodes with bounds up to a step above the least one; on all if it is negative."""

    def explore(self, memory: int) -> int:
        """Search until the slice ends: no node is open (0), nodes need more than `memory` bytes (1), exact arithmetic
        has to close the node on top (2), or the work is done (3).
        """

    def push(self, fields: Node) -> None: ...
    def load(self, node: Bits) -> None: ...
    def nodes(self) -> list[tuple[int, Bits]]:
        """Return bounds and bytes of all open nodes, which `load` pushes."""

    def top(self) -> Node: ...
    def pop(self) -> None: ...
    def clear(self) -> None: ...
    def survivors(self) -> tuple[NDArray[np.int32], Indices, Indices, int, Reals]:
        """See `lpmert.methods.cells.Survivors`, for the node on top."""

    def conflicts(self, needed: int) -> int:
        """Return by how much conflicts raise the bound of the node on top; stop once that is more than needed."""

    bounds: Indices
    @property
    def counts(self) -> tuple[int, int, int, int, int, int]:
        """Nodes, leaves, linear programs of leaves, nodes closed by conflicts, hypotheses looked at, and work."""

class BoxSearch(_CellSearch): ...
class ConeSearch(_CellSearch): ...

def cell_search(
    lists: Lists,
    ratio: Ratio | None,
    precision: tuple[int, float, float] | None,
    settings: tuple[int, int, int, int, int, int, int, int],
) -> _CellSearch:
    """Return a search with no node yet: for sums of costs if ratio is `None`, over cones if precision is `None`.

    precision, settings: see `Precision` and `NodeSettings` in `lpmert.methods.cells`.
    """

def box_charges(
    gains: Reals,
    steps: Indices,
    centre: Reals,
    radius: Reals,
    rounding: float,
    off: float,
    needed: int,
    most_pairs: int,
) -> tuple[int, Indices]:
    """Charge conflicts between items with gains [n, D] and steps [n] in a box until the charges exceed what is needed.

    rounding: 0.0 if sums of gains are exact, else 1.0; off: error of a product because features are rounded. Returns
    the sum of the charges, and the pairs of items charged [P, 2], at most most_pairs.
    """

def box_normals(centre: Reals, radius: Reals) -> Reals:
    """Return normals [2 D - 1, D] of a slightly wider box: all weights of this box have positive products with them."""

def outer_normals(rays: Reals) -> tuple[Reals, bool]:
    """Return normals [D, D] of a cone slightly wider than that of rays [D, D], and whether it is certain that every ray
    has a positive product with every normal.
    """

class LineSearch:
    """Line searches along weights + t direction [D]; a level is a sum of costs, or a ratio metric's loss."""

    def at(self, weights: Reals) -> float:
        """Return the level of decoding with weights [D]; on ties, the first hypothesis of a list wins."""

    def along(self, weights: Reals, direction: Reals, low: float, high: float, scale: float) -> tuple[float, float]:
        """Return the least level for t in low .. high, and the middle, in the angle atan(t / scale), of the nearest
        interval that has it. Intervals narrower than 1e-12 radians count only if there is no other.
        """

    def best_coordinate(
        self, weights: Reals, coordinates: Indices, ranges: Reals, scale: float
    ) -> tuple[int, float, float]:
        """Return which of the coordinates [n] has the best step, the first one on ties, its level and its t.

        ranges [D, 2]: the ends of t for each feature.
        """

class SumLines(LineSearch): ...
class RatioLines(LineSearch): ...

def line_search(columns: Reals, offsets: Indices, losses: Losses) -> LineSearch:
    """Return line searches on lists with columns [D, M], one row a feature."""

def scores_of(columns: Reals, weights: Reals) -> Reals:
    """Return the scores [M] of columns [D, M] at weights [D], each added up in the order of the features."""

def descend(
    search: LineSearch,
    weights: Reals,
    centre: Reals,
    reach: float,
    directions: Reals,
    rates: Reals,
    taking_part: NDArray[np.bool_],
    turns: Indices,
    patience: int,
    searches: int,
) -> int:
    """Improve weights [D] in place by line searches, until `patience` directions in a row do not lower the cost; return
    how many of the `searches` are left.

    Random directions alternate with directions towards cheaper hypotheses. The weights move to the middle of the best
    interval, at equal cost too. reach: how far the weights may go from a centre [D] of length 1, orthogonal to it, or
    anywhere if it is infinite. Random numbers, used again and again: directions [T, D]; rates [T], the score that a
    unit of cost is worth, and the lists that take part [T, S], in directions towards cheaper hypotheses. turns [2],
    updated: the number of directions so far, and how many of the last ones failed.
    """

def find_reaches(search: LineSearch, centre: Reals) -> Reals:
    """Return how far from a centre [D] of length 1, orthogonal to it, each hypothesis [M] can win first."""

def walk(
    search: LineSearch,
    region: SphereRegion,
    temperature: float,
    weights: Reals,
    total: Reals,
    circles: Reals,
    directions: Reals,
    draws: Reals,
    counted: bool,
    path: Reals,
) -> None:
    """Take one step of hit and run along each of some random directions [n, d]; write the weights into path [n, d].

    The density is proportional to exp(-level / temperature). Updated: weights [d] of length 1, the total [d] of the
    means of the counted circles, and their number [1]. counted: whether the circles of this walk count. draws
    [n]: numbers from 0 to 1 that choose the points on the circles.
    """

class Links:
    """The links [L] of a lattice or hypergraph with nodes 0 .. nodes - 1, sorted by target; see `lattice.cpp`."""

    def __init__(self, sources: Nodes, seconds: Nodes, targets: Nodes, nodes: int) -> None: ...
    def largest_sums(self, lengths: Reals) -> Reals:
        """Return the largest sums [D] over hypotheses of the lengths [L, D] of their links; -inf if there is none."""

    def best_through(self, scores: Reals) -> Reals:
        """Return for each link [L] the largest sum of scores [L] of the links of a hypothesis that uses it."""

    def log10_paths(self) -> float: ...
    def least_edits(self, words: Nodes, reference: Nodes) -> int:
        """Return the least number of edits that turn the words [L], silent if negative, of a path of a lattice into a
        reference [R].
        """

class PathFinder:
    """Finds, lattice by lattice, the hypotheses that may win in a cone, and the links that these use.

    labels: the most partial paths to keep. rays [R, D]: of the cone, linearly independent, with errors of at most half
    a unit in the last place; reach [R]: the largest magnitude of a hypothesis' score at each of them.
    """

    def __init__(self, labels: int) -> None: ...
    def look_through(
        self,
        links: Links,
        features: Reals,
        most_links: int,
        marks: Bits,
        rays: Reals,
        reach: Reals,
        mixes: Reals,
        known: Reals,
    ) -> tuple[int, Nodes, Nodes, Reals, Reals]:
        """Find the best hypotheses at some weights of a cone, and the links of hypotheses that may be as good.

        features [L, D]: of the links; their sums are exact. most_links: of a hypothesis. marks: a bit for each link,
        set if it is looked at; these links must form whole hypotheses. mixes [m, R]: the weights, as mixtures of the
        rays. known [P, D]: features of hypotheses that rule out others too. Returns the number of links
        looked at; those that are left [n]; those [k] of the best hypothesis at the first mixture, as a walk from its
        root; the features [m, D] of the best hypothesis at each mixture; and the scores [q, R] of those of them, and of
        the known ones, that no others beat.
        """

    def list(self, most_work: int) -> tuple[bool, int, int, Reals, Nodes, Indices]:
        """List the hypotheses that may win among those of the links that `look_through` has left, of those with the
        same features the first one.

        Returns whether this took neither too many labels nor too much work; the work; the number of links done; and if
        so, the features [n, D] of the hypotheses, and their links, one hypothesis after the other, with ends [n + 1].
        """

def narrow(
    features: Reals, numbers: Indices, ends: Indices, ids: Indices, rays: Reals, reach: Reals
) -> tuple[Indices, Indices, Reals, Indices]:
    """Drop the hypotheses that others of their list, or mixtures of these, beat in a cone of rays [R, D].

    The list of lattice numbers[a] is ids[ends[a]:ends[a + 1]], rows of features [M, D], which are exact. reach [S, R]:
    the largest magnitude of the scores of each lattice's hypotheses at the rays. Returns ends, ids and scores [k, R] at
    the rays of the remaining hypotheses, and the best hypothesis of each list in the middle of the cone.
    """

def find_graph_envelope(links: Links, intercepts: Reals, slopes: Reals) -> tuple[Reals, Reals, Reals, Indices, Indices]:
    """Return the upper envelope of all hypotheses of a graph on the line intercept + t slope, of links [L].

    Returns intercepts, slopes and starts [n] of the lines of the envelope, each the t from which a line is the
    envelope, the first one -inf; and the links of all lines, one line after the other, with ends [n + 1].
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
        features: Reals,
        offsets: Indices,
        gains: Reals,
        discounts: Reals,
        merits: Reals,
        scales: Reals,
        least: float,
    ) -> None: ...
    relevant: Indices
    """Rows [R] of the relevant documents, those with a gain in queries that count: query by query, by falling gain."""

    def worth(self, query: int, ahead: Indices) -> int:
        """Return the largest value of a query if at least ahead [R] documents of other gains lead each relevant one."""

    def value(self, weights: Reals) -> int:
        """Return the value of weights [D]; leads that rounding may hide count as ties in the worst order."""

    def compared(self) -> Indices:
        """Return the pairs [P, 2] of documents that are compared: one with a gain, and its rival."""

    def sweep(self, x: Reals, y: Reals) -> tuple[Indices, Indices]:
        """Return, exactly, the directions x, y > 0 at which the value changes, and the values between them [C].

        x, y [M]: as in `critical_directions`. A direction is given as two documents [C - 1, 2] that tie there; the
        second one has the larger x and the smaller y.
        """

    def open(self, signs: Reals) -> None:
        """Open the cone of the axes with these signs [D]."""

    def raise_to(self, units: int) -> None:
        """Set the incumbent's value; nodes with a bound of at most 4 units a query above it are closed."""

    def advance(self, budget: int, bytes: int) -> Reals:
        """Branch on nodes with about `budget` pairs in all; stop early if a node needs exact arithmetic, or if weights
        [D] look better than all before, and return these.

        Nodes with the largest bound come first; those with the least while open nodes take more than `bytes`.
        """

    def take_leaf(self) -> tuple[int, Indices, Reals, Indices, Indices, int, int]:
        """Return the node that needs exact arithmetic.

        Returns the number of its root; the splits on the path to it, the last one first: the rays above and below and
        the one replaced [n, 3], and the share [n] of the ray above in the new ray; undecided pairs [u, 4] as query, the
        document's number in `relevant`, document, rival; ahead [R]; the sum of the bounds of queries without such
        pairs; and its number.
        """

    def recorded(self) -> tuple[Indices, Reals]:
        """Return all splits: [n, 4] the number of a node, that of its first part, the rays above and below; shares [n].

        The new ray, with this share of the ray above, replaces the ray below in the first part, and the ray above in
        the second part, whose number is the next one. Absolute values of a ray sum to 1.
        """

    needs_exact: bool
    open_nodes: int
    open_bound: int
    closed: int
    nodes: int

def critical_directions(x: Reals, y: Reals, offsets: Indices) -> tuple[Indices, Indices, Indices, Indices]:
    """Return, exactly, the directions of the plane at which choices change, for points x, y [M], each coordinate 0 or
    of a magnitude between 2**-440 and 1.

    The weights turn counter-clockwise once. Returns the rows chosen before the first change [S]; the rows that lose and
    that win [E] at each change; and the ends [G] of the groups of changes at the same direction.
    """

def read_alike(
    data: bytes, literals: list[str], cells: list[int], loose: bool, refused: str, numbers: Reals
) -> tuple[list[str], list[str]] | None:
    """Fill numbers [n, k] from the n lines, all alike, of a text in UTF-8; return words and texts.

    A line is literals[0], a cell, literals[1], ..., a cell, literals[-1]. cells: the kind of each cell. k cells are a
    number (0), a count in digits (1) or a word (2); for a word, `numbers` has its index among the returned words; at
    most one column has words. Text cells (3) are returned for every line; others (4) are skipped. A cell ends where the
    following literal's first run of equal characters begins; it must not contain `refused`, unless that is empty.
    loose: whether a blank in a literal matches any blanks. Returns `None` if some line differs, a number is not written
    in digits or not below 2**53, or a word is empty. Does not release the GIL.
    """

class SparseRows:
    """Rows with starts [n + 1]; columns and values of the entries, row by row."""

    def __init__(self, starts: Indices, columns: Indices, values: Reals, n_columns: int) -> None: ...

class FeatureLines:
    """The choices along one sparse feature: it has values in some rows, which ascend, and is 0 in all others. Only
    lists with such a row are visited.
    """

    def __init__(self, offsets: Indices) -> None: ...
    def events(
        self, rows: Indices, values: Reals, weight: float, scores: Reals
    ) -> tuple[Indices, Indices, Reals, Indices, Indices]:
        """Return the visited lists and their choices [n] at a feature's weight of -inf; and, list by list, the
        thresholds at which a choice changes, the row that loses and the row that wins [E]. In scores [M], the feature
        has this weight.
        """

    def choices(self, rows: Indices, values: Reals, step: float, scores: Reals) -> tuple[Indices, Indices]:
        """Return the visited lists, and the rows that they choose after the feature's weight grows by a step."""

def perceptron_pass(
    features: SparseRows, order: Indices, offsets: Indices, base: Reals, gold: NDArray[np.bool_],
    weights: Reals, weighted: Reals, visits: int
) -> int:  # fmt: skip
    """Visit lists in order; move weights from a wrong best row to the best gold row; return the number of updates.

    base [M]: the part of the scores that stays; gold [M]: whether a row has the least loss of its list. Updates weights
    [D], and weighted [D]: the sum of every update times the number of visits before it, beginning with `visits`.
    """

class Boosting:
    """Steps along the feature of the largest gain, for the exponential loss of pairs of hypotheses: their differences
    by feature and by pair, of a gold row less another row, and pair_weights [P], importance times exp(-margin).
    """

    def __init__(self, by_feature: SparseRows, by_pair: SparseRows, pair_weights: Reals) -> None: ...
    def run(self, n_rounds: int, smoothing: float, tolerance: float, least: float, weights: Reals) -> int:
        """Take up to n_rounds steps, which are added to weights [D]; return how many were taken: fewer if no gain is
        above tolerance times the sum of the pairs' weights, or if this sum is at most least.
        """
