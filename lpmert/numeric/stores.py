"""Keeps numba from dropping what kernels write to arrays.

Where numba puts a function into its caller, it removes what it takes for dead afterwards, writes to arrays among it: it
follows an array back to the arguments only through some of the ways in which a kernel can get at it, and not, for one,
through the tuple in `a, b, c, d = x.a, y.b, ...`, nor always through an attribute of an attribute (numba's issues 7135
and 10041). Here every value may be part of an argument, so that no write is dead. LLVM knows better what is.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir as _ir
from numba.core import ir_utils as _ir_utils

ir: Any = _ir
_extensions: dict[Any, Any] = _ir_utils.alias_analysis_extensions
_before = _extensions.get(ir.Assign)


def _may_be_of_an_argument(
    assigned: Any, arguments: Any, typemap: Any, func_ir: Any, aliases: Any, of_arguments: set[str]
) -> None:
    of_arguments.add(assigned.target.name)
    if _before is not None:
        _before(assigned, arguments, typemap, func_ir, aliases, of_arguments)


_extensions[ir.Assign] = _may_be_of_an_argument
