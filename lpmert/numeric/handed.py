"""Named tuples that kernels hand to each other by their address.

numba hands each number of a tuple over by itself: of one with thirty arrays, some two hundred, which every call takes
apart and every kernel puts together again, and that was most of what LLVM had to read. Here a kernel gets the address
of the tuple, which lies in the frame of its caller until it returns. Tuples do not change, and no kernel returns one
that it was handed. This rests on numba's data models, and on how it resolves calls.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils as _cgutils
from numba.core import types as _types
from numba.core.datamodel import models as _models
from numba.core.datamodel.registry import register_default as _register_default
from numba.core.imputils import impl_ret_borrowed as _borrowed
from numba.core.imputils import lower_builtin as _lower_builtin
from numba.core.imputils import lower_cast as _lower_cast
from numba.core.imputils import lower_getattr_generic as _lower_getattr

types: Any = _types
models: Any = _models
cgutils: Any = _cgutils
_borrow: Any = _borrowed
_register: Any = _register_default
_cast: Any = _lower_cast
_builtin: Any = _lower_builtin
_getattr: Any = _lower_getattr


class Handed(types.NamedTuple):  # type: ignore[misc]
    """The type of a named tuple that is elsewhere; plain: its type there."""

    def __init__(self, plain: Any) -> None:
        super().__init__([handed(kind) for kind in plain.types], plain.instance_class)
        self.name = f"handed {plain}"
        self.plain = plain


def handed(kind: Any) -> Any:
    """Return the type as which a kernel gets an argument of a type."""
    if isinstance(kind, types.BaseNamedTuple) and not isinstance(kind, Handed):
        return Handed(kind)
    return kind


@_register(Handed)
class _Address(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, dmm.lookup(fe_type.plain).get_value_type().as_pointer())

    def from_argument(self, _builder: Any, value: Any) -> Any:
        for attribute in ("noalias", "nonnull"):
            value.add_attribute(attribute)
        return value

    def get_return_type(self) -> Any:
        raise NotImplementedError(f"a kernel returns the tuple that it was handed: {self._fe_type}")


def _hand(_context: Any, builder: Any, given: Any, taken: Any, value: Any) -> Any:
    if isinstance(given, Handed) or given != taken.plain:
        raise NotImplementedError(f"{given} handed over as {taken}")
    return cgutils.alloca_once_value(builder, value)


def _field(context: Any, builder: Any, kind: Any, address: Any, index: int) -> Any:
    place = cgutils.gep_inbounds(builder, address, 0, index)
    if isinstance(kind.types[index], Handed):
        return place
    return _borrow(context, builder, kind.types[index], builder.load(place))


def _attribute(context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:
    return _field(context, builder, kind, address, kind.fields.index(name))


def _item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _field(context, builder, sig.args[0], args[0], range(len(sig.args[0]))[args[1]])


_cast(types.BaseNamedTuple, Handed)(_hand)
_getattr(Handed)(_attribute)
_builtin("static_getitem", Handed, types.IntegerLiteral)(_item)
