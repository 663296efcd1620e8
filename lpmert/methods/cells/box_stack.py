"""The state of the search over boxes: open boxes on a stack, and the children of the box at hand.

A box is a part of a face of the cube: weights w with w_f = +1 or -1 for one feature f, and |w_d - c_d| <= r_d for all
others; it stands for the cone of these weights. Centre and radii are dyadic numbers that doubles hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells.stack import AGE, BOUND, LEVEL, N_LISTS, N_ROWS, TOP, with_more_room
from lpmert.numeric import dyadic
from lpmert.numeric.kernels import EPSILON, copy_entries, internal, kernel
from lpmert.numeric.leastnorm import SortedLists
from lpmert.numeric.rows import sizes_of_rows

# Positions in BoxChild.numbers, besides those that a Child has too.
OWN, N_PAIRS = 2, 5

_PIECE = 1 << 16
"""Hypotheses that are looked at together: what is made of them needs little room."""

TINY = 2.0**-1060
"""More than what underflow takes from a sum of products."""

_EXACT_BITS = 49
_MOST_HALVINGS = 30
LEAST_RADIUS = 2.0**-_MOST_HALVINGS

MOST_FEATURES_OF_CONES = 6
"""Features up to which a box is divided into cones: there are (D - 1)! of them."""

FEATURES_OF_FEW_CONES = 4
"""Features up to which these are so few that boxes of ratio metrics become cones as soon as they stall: with five
features this takes longer than to go on with boxes.
"""

FEW_LISTS = 10
"""Open lists up to which exact arithmetic closes a stalled box, rather than cones."""

WIDE = 1.0 + 1e-5
"""What an entry of weights of a box, or of a slightly wider one, is at most, and room for rounding."""


class Boxes(NamedTuple):
    """Boxes, or one: what is left of their lists. Lists of two survivors are pairs; all others have rows.

    gains [D, P]: dearer - cheaper hypothesis of each pair; reaches [P]: bounds on the rounding errors of their
    products with weights of the cube; steps [P]: costs; cheap, dear [P]: hypotheses. features [D, R], row_reaches,
    costs, ids [R]: the survivors of the other lists in order of cost; ends: of each list among the rows of its box.
    What the cheaper hypothesis of a pair costs is not kept.
    """

    gains: FloatArray
    reaches: FloatArray
    steps: IntArray
    cheap: NDArray[np.int32]
    dear: NDArray[np.int32]
    features: FloatArray
    row_reaches: FloatArray
    costs: IntArray
    ids: NDArray[np.int32]
    ends: IntArray


class Precision(NamedTuple):
    """places: how often an axis may be halved so that all sums of a box are still exact, see `binary_places`; off: how
    far the difference of two products with weights of a box may be from the one meant, as features are rounded;
    least: smallest radius of a box that has stalled.
    """

    places: int
    off: float
    least: float


class BoxStack(NamedTuple):
    """Open boxes, the next one last.

    numbers: as in `stack.Stack`. kept: of all boxes, of which box t has n_pairs[t] pairs from first_pair[t] on, and so
    on; n_lists[t] + 1 ends. own: what the box costs at least by its cheapest survivors; bound: that, raised by
    conflicts here or in what it is a part of; stalled: splits since a tenth of the lists was last settled. totals
    [T, K], age: for the ledger, see ledger.py. centres, radii [T, D].
    """

    numbers: IntArray
    kept: Boxes
    first_pair: IntArray
    n_pairs: IntArray
    first_row: IntArray
    n_rows: IntArray
    first_end: IntArray
    n_lists: IntArray
    own: IntArray
    bound: IntArray
    stalled: IntArray
    totals: FloatArray
    age: IntArray
    centres: FloatArray
    radii: FloatArray
    best_weights: FloatArray
    precision: Precision


class BoxChild(NamedTuple):
    """What pruning a box leaves, like one box of a stack, with its total [K]. numbers: see the positions above.

    CENTRE: what its centre costs, at most, where rounding does not hide a winner.
    """

    numbers: IntArray
    total: FloatArray
    kept: Boxes
    centre: FloatArray
    radius: FloatArray


class OpenBox(NamedTuple):
    """One box off the stack, with all that cannot be looked up in the lists: hypotheses of pairs, as in `Boxes`, and
    those of other lists in order, which are packed to a bit for each hypothesis where that is much less. prices: what
    the rows cost, and the steps of the pairs, where the ledger gave them others than the lists.
    """

    cheap: NDArray[np.int32]
    dear: NDArray[np.int32]
    packed: NDArray[Any]
    ends: NDArray[np.int32]
    prices: IntArray
    own: int
    bound: int
    stalled: int
    total: FloatArray
    age: int
    centre: FloatArray
    radius: FloatArray

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> OpenBox:
        """Return the box of values by name."""
        return cls(**named)

    @property
    def n_rows(self) -> int:
        """Hypotheses of lists that are no pairs."""
        return int(self.ends[-1])

    @property
    def ids(self) -> NDArray[Any]:
        """The hypotheses of lists that are no pairs [n_rows]."""
        if self.packed.dtype != np.uint8:
            return self.packed
        return np.flatnonzero(np.unpackbits(self.packed))

    @property
    def n_lists(self) -> int:
        """Open lists."""
        return len(self.ends) - 1 + len(self.cheap)

    @property
    def nbytes(self) -> int:
        return self.cheap.nbytes + self.dear.nbytes + self.packed.nbytes + self.ends.nbytes + self.prices.nbytes + 800


def new_boxes(n_pairs: int, n_rows: int, n_ends: int, n_features: int) -> Boxes:
    """Return room for so many pairs, rows and ends."""
    return Boxes(
        np.empty((n_features, n_pairs)),
        np.empty(n_pairs),
        np.empty(n_pairs, dtype=np.int64),
        np.empty(n_pairs, dtype=np.int32),
        np.empty(n_pairs, dtype=np.int32),
        np.empty((n_features, n_rows)),
        np.empty(n_rows),
        np.empty(n_rows, dtype=np.int64),
        np.empty(n_rows, dtype=np.int32),
        np.empty(n_ends, dtype=np.int64),
    )


def new_box_stack(
    n_pairs: int, n_rows: int, n_ends: int, n_boxes: int, n_features: int, n_columns: int, precision: Precision
) -> BoxStack:
    numbers = np.zeros(LEVEL + 1, dtype=np.int64)
    numbers[TOP] = -1
    names = ("first_pair", "n_pairs", "first_row", "n_rows", "first_end", "n_lists", "own", "bound", "stalled", "age")
    return BoxStack(
        numbers,
        new_boxes(n_pairs, n_rows, n_ends, n_features),
        **{name: np.zeros(n_boxes, dtype=np.int64) for name in names},
        totals=np.zeros((n_boxes, n_columns)),
        centres=np.empty((n_boxes, n_features)),
        radii=np.empty((n_boxes, n_features)),
        best_weights=np.zeros(n_features),
        precision=precision,
    )


def new_box_child(n_rows: int, n_lists: int, n_features: int, n_columns: int) -> BoxChild:
    kept = new_boxes(n_lists, n_rows, n_lists + 1, n_features)
    return BoxChild(np.zeros(7, dtype=np.int64), np.zeros(n_columns), kept, np.empty(n_features), np.empty(n_features))


def binary_places(lists: SortedLists) -> int:
    """Return how often an axis may be halved so that all sums of a box are still exact, -1 if they never are.

    They are where the features are multiples of a power of two, and not too large for that.
    """
    if lists.spread.any():
        return -1
    with np.errstate(over="ignore"):  # an infinite one proves nothing
        largest = float(sizes_of_rows(lists.rows).max(initial=0.0))
    places = dyadic.binary_places(lists.rows) if largest < 2.0**_EXACT_BITS else None
    return -1 if places is None else max(-1, _EXACT_BITS - places - max(0, int(np.frexp(largest)[1])))


def precision_of(lists: SortedLists) -> Precision:
    """Return how exact the products of features with weights of boxes are.

    Boxes that become cones are not halved further than that these can begin with exact products.
    """
    places = binary_places(lists)
    exact = 0 <= places < _MOST_HALVINGS and lists.rows.shape[1] <= MOST_FEATURES_OF_CONES
    least = 2.0 ** -(places + 1) if exact else LEAST_RADIUS
    return Precision(places, 2.0 * WIDE * float(lists.spread.sum()), least)


def whole_box(lists: SortedLists, face: int, total: FloatArray) -> OpenBox:
    """Return one of the 2 D faces of the cube, with all hypotheses; total [K] of the lists settled for good."""
    n_features = lists.rows.shape[1]
    centre, radius = np.zeros(n_features), np.ones(n_features)
    centre[face // 2], radius[face // 2] = 1.0 - 2.0 * (face % 2), 0.0
    return box_with_all(lists, centre, radius, total)


def box_with_all(lists: SortedLists, centre: FloatArray, radius: FloatArray, total: FloatArray) -> OpenBox:
    """Return a box [D], [D] with all hypotheses; total [K] of the lists settled for good."""
    none = np.empty(0, dtype=np.int32)
    ids = np.arange(len(lists.rows), dtype=np.int32)
    least = int(lists.costs[lists.offsets[:-1]].sum())
    ends, prices = lists.offsets.astype(np.int32), np.empty(0, dtype=np.int64)
    return OpenBox(none, none, ids, ends, prices, least, 0, 0, total, 0, centre, radius)


def enlarge_boxes(arrays: dict[str, Any], pairs: int = 0, rows: int = 0, ends: int = 0) -> None:
    """Give arrays of a stack, those of `kept` by place, more room; see `lpmert.methods.cells.stack.enlarge`."""
    stack = BoxStack(**arrays)
    top = int(stack.numbers[TOP])
    free = _first_free(stack._replace(kept=Boxes(*arrays["kept"])))
    lists = int(stack.n_lists[top]) if top >= 0 else 0  # each may become a pair
    sizes = [(free[0], pairs + lists)] * 5 + [(free[1], rows)] * 4 + [(free[2], ends)]
    del stack
    for place, size in enumerate(sizes):
        arrays["kept"][place] = with_more_room(arrays["kept"][place], *size, axis=-1)
    for name in arrays:
        if name not in ("numbers", "best_weights", "kept", "precision"):
            arrays[name] = with_more_room(arrays[name], top + 1, 1)


def _place(stack: BoxStack, t: int) -> tuple[slice, slice, slice]:
    pairs = slice(int(stack.first_pair[t]), int(stack.first_pair[t] + stack.n_pairs[t]))
    rows = slice(int(stack.first_row[t]), int(stack.first_row[t] + stack.n_rows[t]))
    return pairs, rows, slice(int(stack.first_end[t]), int(stack.first_end[t] + stack.n_lists[t]) + 1)


def _parts(stack: BoxStack, t: int) -> list[Any]:
    """Return the arrays of box t, in the order of `Boxes`."""
    pairs, rows, ends = _place(stack, t)
    places = [pairs] * 5 + [rows] * 4 + [ends]
    kept: list[Any] = list(stack.kept)
    return [array[..., place] for array, place in zip(kept, places, strict=True)]


def box_at(stack: BoxStack, t: int) -> OpenBox:
    kept = Boxes(*_parts(stack, t))
    own, bound, stalled = int(stack.own[t]), int(stack.bound[t]), int(stack.stalled[t])
    pairs = kept.cheap.copy(), kept.dear.copy()
    priced = len(stack.totals[t]) > 0  # the ledger's prices differ from box to box, and so does the order
    rows = kept.ids.copy() if priced else _packed(kept.ids)
    prices = np.concatenate([kept.costs, kept.steps]) if priced else np.empty(0, dtype=np.int64)
    of_ledger = stack.totals[t].copy(), int(stack.age[t])
    place = stack.centres[t].copy(), stack.radii[t].copy()
    return OpenBox(*pairs, rows, kept.ends.astype(np.int32), prices, own, bound, stalled, *of_ledger, *place)


def _packed(ids: NDArray[np.int32]) -> NDArray[Any]:
    """Return numbers in order, or a bit for each up to the last where that is much less."""
    if not len(ids) or 8 * len(ids) < ids[-1]:
        return ids.copy()
    chosen = np.zeros(ids[-1] + 1, dtype=np.uint8)
    chosen[ids] = 1
    return np.packbits(chosen)


def put_box(stack: BoxStack, box: OpenBox, lists: SortedLists) -> None:
    """Put a box on top of the stack, which has room for it."""
    top = int(stack.numbers[TOP]) + 1
    stack.first_pair[top], stack.first_row[top], stack.first_end[top] = _first_free(stack)
    stack.n_pairs[top], stack.n_rows[top] = len(box.cheap), len(box.ids)
    stack.n_lists[top] = len(box.ends) - 1
    named = box.cheap, box.dear, box.ids, box.ends
    kept = Boxes(*_parts(stack, top))
    targets: tuple[NDArray[Any], ...] = kept.cheap, kept.dear, kept.ids, kept.ends
    for target, array in zip(targets, named, strict=True):
        target[...] = array
    stack.own[top], stack.bound[top], stack.stalled[top] = box.own, box.bound, box.stalled
    stack.totals[top], stack.age[top] = box.total, box.age
    stack.centres[top], stack.radii[top] = box.centre, box.radius
    stack.numbers[TOP] = top
    look_up(lists, stack)
    if len(box.prices):
        kept.costs[...], kept.steps[...] = np.split(box.prices, [box.n_rows])


@internal
def set_pair(kept, p, features, costs, cheap, dear, share, off):
    """Fill gains, reach and step of pair p from those two of the hypotheses with features [D, n] and costs [n]."""
    reach = 0.0
    for d in range(len(features)):
        gain = features[d, dear] - features[d, cheap]
        kept.gains[d, p] = gain
        reach += abs(gain)
    kept.reaches[p] = share * reach + TINY + off
    kept.steps[p] = costs[dear] - costs[cheap]


@kernel(nogil=True)
def look_up(lists, stack):
    """Fill what the lists tell of the hypotheses of the box on top."""
    t, kept, off = stack.numbers[TOP], stack.kept, stack.precision.off
    columns = lists.rows.T
    share = (len(lists.spread) + 4) * EPSILON
    doubt = 0.0
    for d in range(len(lists.spread)):
        doubt += lists.spread[d]
    for p in range(stack.first_pair[t], stack.first_pair[t] + stack.n_pairs[t]):
        set_pair(kept, p, columns, lists.costs, kept.cheap[p], kept.dear[p], share, off)
    for i in range(stack.first_row[t], stack.first_row[t] + stack.n_rows[t]):
        row = kept.ids[i]
        kept.costs[i] = lists.costs[row]
        size = 0.0
        for d in range(len(lists.spread)):
            value = lists.rows[row, d]
            kept.features[d, i] = value
            size += abs(value)
        kept.row_reaches[i] = share * size + TINY + WIDE * doubt


def room_for_box(stack: BoxStack, box: OpenBox) -> bool:
    """Whether a box fits on top of the stack."""
    pair, row, end = _first_free(stack)
    fits = pair + len(box.cheap) <= len(stack.kept.steps) and row + box.n_rows <= len(stack.kept.ids)
    return fits and end + len(box.ends) <= len(stack.kept.ends) and int(stack.numbers[TOP]) + 1 < len(stack.own)


def _first_free(stack: BoxStack) -> tuple[int, int, int]:
    """Return the first pair, row and end beyond those of the boxes."""
    t = int(stack.numbers[TOP])
    if t < 0:
        return 0, 0, 0
    pairs, rows, ends = _place(stack, t)
    return pairs.stop, rows.stop, ends.stop


@internal
def push_box(stack, child, stalled):
    """Put a child on top of the stack, which has room for it."""
    top = stack.numbers[TOP] + 1
    pairs, rows, ends = np.int64(0), np.int64(0), np.int64(0)
    if top > 0:
        pairs = stack.first_pair[top - 1] + stack.n_pairs[top - 1]
        rows = stack.first_row[top - 1] + stack.n_rows[top - 1]
        ends = stack.first_end[top - 1] + stack.n_lists[top - 1] + 1
    n_pairs, n_rows, n_lists = child.numbers[N_PAIRS], child.numbers[N_ROWS], child.numbers[N_LISTS]
    stack.first_pair[top], stack.n_pairs[top] = pairs, n_pairs
    stack.first_row[top], stack.n_rows[top] = rows, n_rows
    stack.first_end[top], stack.n_lists[top] = ends, n_lists
    stack.own[top], stack.bound[top], stack.stalled[top] = child.numbers[OWN], child.numbers[BOUND], stalled
    stack.age[top] = child.numbers[AGE]
    for k in range(len(child.total)):
        stack.totals[top, k] = child.total[k]
    kept, own = stack.kept, child.kept
    for d in range(len(child.centre)):
        copy_entries(own.gains[d], kept.gains[d], pairs, n_pairs)
        copy_entries(own.features[d], kept.features[d], rows, n_rows)
        stack.centres[top, d] = child.centre[d]
        stack.radii[top, d] = child.radius[d]
    copy_entries(own.reaches, kept.reaches, pairs, n_pairs)
    copy_entries(own.steps, kept.steps, pairs, n_pairs)
    copy_entries(own.cheap, kept.cheap, pairs, n_pairs)
    copy_entries(own.dear, kept.dear, pairs, n_pairs)
    copy_entries(own.row_reaches, kept.row_reaches, rows, n_rows)
    copy_entries(own.costs, kept.costs, rows, n_rows)
    copy_entries(own.ids, kept.ids, rows, n_rows)
    copy_entries(own.ends, kept.ends, ends, n_lists + 1)
    stack.numbers[TOP] = top


@internal
def room_for_children(stack):
    """Whether two children of the top box fit on the stack in its place."""
    top = stack.numbers[TOP]
    pairs = stack.first_pair[top] + 2 * (stack.n_pairs[top] + stack.n_lists[top])
    rows = stack.first_row[top] + 2 * stack.n_rows[top]
    ends = stack.first_end[top] + 2 * (stack.n_lists[top] + 1)
    fits = pairs <= len(stack.kept.steps) and rows <= len(stack.kept.ids) and ends <= len(stack.kept.ends)
    return fits and top + 2 < len(stack.own)
