"""What a cone of weights costs is kept in a ledger: of sums for additive losses, of ratios for metrics like BLEU.

The search over cones is written once; it is compiled for the ledger that it is given. Both ledgers have these
operations, see exact/ledger_of_sums.py and exact/ledger_of_ratios.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from numba.extending import overload

from lpmert.exact import ledger_of_ratios as ratios
from lpmert.exact import ledger_of_sums as sums
from lpmert.exact.ledger_of_sums import Sums

_INTERNAL = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Only kernels call these: leaving out their Python entry saves time to compile."""


def _by_ledger(
    of_sums: Callable[..., Any], of_ratios: Callable[..., Any], inline: Literal["never", "always"] = "never"
) -> Callable[..., Any]:
    """Return what kernels call to get one of two functions, by the ledger that comes first among their arguments."""

    def operation(ledger: Any, *others: Any) -> Any:
        return (of_sums if isinstance(ledger, Sums) else of_ratios)(ledger, *others)

    @overload(operation, inline=inline, strict=False, jit_options=_INTERNAL)  # type: ignore[arg-type]
    def choose(ledger: Any, *_: Any) -> Callable[..., Any]:
        return of_sums if ledger.instance_class is Sums else of_ratios

    return operation


open_account = _by_ledger(sums.open_account, ratios.open_account, inline="always")
"""(ledger): begin with a cone; what its parent's settled lists cost is in its child's numbers and total."""

settle = _by_ledger(sums.settle, ratios.settle, inline="always")
"""(ledger, numbers, ids, costs, total, start, end, winner): how the list with the child's rows start .. end stands, and
what it adds to the child's total if it is settled. winner: hypothesis that wins at the child's centre. Called once a
list: compiled into the caller, and with single arrays, as numba counts references for each array of a tuple.
"""

close_account = _by_ledger(sums.close_account, ratios.close_account, inline="always")
"""(ledger, child, bound, limit): price the child's hypotheses anew if it is time, and return its bound."""

look_at_centre = _by_ledger(sums.look_at_centre, ratios.look_at_centre, inline="always")
"""(ledger, lists, stack, child, clear): take the child's centre if it is better than all before."""

look_inside = _by_ledger(sums.look_inside, ratios.look_inside)
"""(ledger, lists, stack, t, x): the same with the point x [D] of cone t."""

search_leaf = _by_ledger(sums.search_leaf, ratios.search_leaf)
"""(ledger, lists, stack, child): search a small cone selection by selection; DONE, ASKING for exact arithmetic, or
WORKING where that is too much work.
"""
