"""Numeric kernels over plain arrays that more than one method uses.

Throughout: features [M, D] C-contiguous, offsets [S + 1], costs [M] int64 with the least of every list 0. No kernel
raises, prints or allocates in an inner loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial, update_wrapper
from math import sqrt
from typing import Any, Literal

import numpy as np

from lpmert.numeric.built import built_kernel
from lpmert.numeric.rounding import EPSILON as EPSILON

INFINITE_COST = np.int64(1) << np.int64(61)
"""A cost no selection reaches: choosing such a hypothesis is forbidden. The costs of a selection with two of them
can overflow, so that sums which may hold them stop here: see `plus`.
"""

_loading = threading.RLock()


class Kernel:
    """A function that was compiled when the package was built, or that numba compiles when it is first called.

    numba keeps what it compiled for the next run, and is loaded no sooner than it is needed. options are those of njit.

    allocates: whether it makes arrays. Only these kernels count references to arrays, which for tuples of them is most
    of what there is to compile. One kind must therefore return no arrays to the other, nor to Python but if it counts.
    """

    def __init__(self, function: Callable[..., Any], *, allocates: bool = False, **options: Any) -> None:
        update_wrapper(self, function)
        self.py_func: Any = function
        self.options = {"_nrt": allocates, "no_cfunc_wrapper": True, **options}
        self._dispatcher: Any = None
        self._callee: Kernel | None = None
        self._run: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel."""
        if self._run is None:
            built = built_kernel(self.__module__, self.py_func.__qualname__, lambda *given: self.dispatcher(*given))
            self._run = built or self.dispatcher
        return self._run(*arguments)

    def __reduce__(self) -> str:
        """A kernel is pickled by its name, as a function is."""
        return str(self.py_func.__qualname__)

    @property
    def dispatcher(self) -> Any:
        """What numba makes of the function; the function itself where NUMBA_DISABLE_JIT is set."""
        if self._dispatcher is None:
            with _loading:
                if self._dispatcher is None:
                    self._dispatcher = self._made()
        return self._dispatcher

    def _made(self) -> Any:
        from numba import njit

        import lpmert.numeric.stores  # noqa: F401 - without it, numba may drop what a kernel writes
        from lpmert.numeric.kernel_cache import KernelCache
        from lpmert.system.compilation import compilation

        compilation()  # listens from now on
        while _announced:
            _announced.pop()()
        compiled: Any = njit(**_without_entry(self.options), **self.options)(self.py_func)
        if compiled is not self.py_func:
            compiled._cache = KernelCache(self)
            if not self.options.get("no_cpython_wrapper"):
                compiled._compiler._get_implementation = self._implementation
        return compiled

    def _implementation(self, arguments: tuple[Any, ...], _: object) -> Any:
        """Return what is compiled for Python: what other kernels call is called, where it gets its arguments otherwise.

        The conversion then stands in one place, and what kernels call is compiled once for them and for Python.
        """
        if self.as_callee(arguments) == arguments:
            return self.py_func
        code = self.py_func.__code__
        names = ", ".join(code.co_varnames[: code.co_argcount])
        entry = eval(f"lambda {names}: kernel({names})", {"kernel": self})
        for name in ("__module__", "__name__", "__qualname__"):
            setattr(entry, name, getattr(self.py_func, name))
        return entry

    @property
    def callee(self) -> Any:
        """What numba makes of the function for other kernels, without an entry from Python."""
        if self.options.get("no_cpython_wrapper"):
            return self.dispatcher
        if self._callee is None:
            own = {name: value for name, value in self.options.items() if name != "_nrt"}
            self._callee = Kernel(self.py_func, allocates=self.options["_nrt"], **own | _INTERNAL)
        return self._callee.dispatcher

    def as_callee(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the types as which other kernels hand over arguments of these types."""
        with suppress(ImportError):  # as in `_without_entry`
            import lpmert.numeric.unlinked  # noqa: F401 - without it, kernels are called in numba's own way
            from lpmert.numeric.handed import handed

            return tuple(handed(kind) for kind in arguments)
        return arguments

    @property
    def _numba_type_(self) -> Any:
        """What the kernel is to other kernels, whose compilation asks for this."""
        from numba.core import types

        kind: Any = types.Dispatcher
        with suppress(ImportError):  # as in `_without_entry`
            from lpmert.numeric.unlinked import Callee

            kind = Callee
        return kind(self.callee)


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel that Python calls; options are those of `Kernel`.

    Every kernel is made by this or by `internal`, so that none comes from numba's own cache, which can be stale.
    """
    return partial(kernel, **options) if function is None else Kernel(function, **options)


_INTERNAL = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def internal(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel that only other kernels call; leaving out its Python entry saves time to compile."""
    return kernel(function, **_INTERNAL, **options)


def _without_entry(options: dict[str, Any]) -> dict[str, Any]:
    """Return what has numba compile a kernel with these options for other kernels only, if it has no entry."""
    if not options.get("no_cpython_wrapper"):
        return {}
    try:
        from lpmert.numeric.unlinked import UnlinkedCompiler
    except ImportError:  # a numba whose parts are elsewhere: it takes longer
        return {}
    return {"pipeline_class": UnlinkedCompiler}


_first_ledgers: set[type] = set()
"""The first classes that `by_ledger` was given."""

_announced: list[Callable[[], None]] = []
"""What is to be told to numba when it is loaded, or before it compiles again."""


def inlined(function: Callable[..., Any]) -> Any:
    """Let kernels call a Python function, which is compiled into each of them."""

    def announce() -> None:
        from numba.extending import register_jitable

        register_jitable(**_INTERNAL, **_without_entry(_INTERNAL))(function)

    _announced.append(announce)
    return function


def by_ledger(
    first: type,
    of_first: Callable[..., Any],
    of_other: Callable[..., Any],
    inline: Literal["never", "always"] = "never",
    *,
    allocates: bool = False,
) -> Callable[..., Any]:
    """Return what kernels call to get one of two functions: `of_first` where their first argument is of this class.

    The choice is made when the caller is compiled. allocates: see `Kernel`.
    """

    def operation(ledger: Any, *others: Any) -> Any:
        return (of_first if isinstance(ledger, first) else of_other)(ledger, *others)

    def announce() -> None:
        from numba.extending import overload

        options: Any = {"_nrt": allocates, **_INTERNAL}

        @overload(operation, inline=inline, strict=False, jit_options=options | _without_entry(options))
        def choose(ledger: Any, *_: Any) -> Callable[..., Any]:
            return of_first if ledger.instance_class is first else of_other

    _announced.append(announce)
    _first_ledgers.add(first)
    operation.of_either_ledger = _first_ledgers, of_first, of_other  # type: ignore[attr-defined]
    operation.options = {"inline": inline, "_nrt": allocates}  # type: ignore[attr-defined]
    return operation


@internal
def fill(target, value):
    """Set all entries of target [n]; assigning to a slice has numba compile messages about shapes."""
    for k in range(len(target)):
        target[k] = value


@internal
def copy_entries(source, target, begin, size):
    """Copy the first entries of source to target from `begin` on."""
    for k in range(size):
        target[begin + k] = source[k]


@internal
def copy_rows(source, target, begin, size):
    """Copy the first rows of source [n, D] to target from row `begin` on."""
    for k in range(size):
        for d in range(source.shape[1]):
            target[begin + k, d] = source[k, d]


@internal
def add_rows(rows, total):
    """Write the sum of rows [n, D] into total [D]."""
    for d in range(len(total)):
        total[d] = 0.0
    for k in range(len(rows)):
        for d in range(len(total)):
            total[d] += rows[k, d]


@internal
def norm(vector):
    """Return the Euclidean norm of a vector [d]."""
    total = 0.0
    for entry in vector:
        total += entry * entry
    return sqrt(total)


@internal
def plus(cost, more):
    """Return the sum of two costs, `INFINITE_COST` where it is as much."""
    return min(cost + more, INFINITE_COST)


@kernel
def decode(features, offsets, weights, selection):
    """Write each list's best row at these weights into selection [S], the first on ties."""
    n_features = features.shape[1]
    for s in range(len(offsets) - 1):
        best = -np.inf
        chosen = offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            score = 0.0
            for d in range(n_features):
                score += features[i, d] * weights[d]
            if score > best:
                best = score
                chosen = i
        selection[s] = chosen


@kernel
def clear_cost(features, offsets, costs, weights, bound):
    """Return (cost, clear): the decoded cost, and whether every list's winner leads by more than `bound`.

    Where a winner does not lead clearly, the worst cost among those within `bound` of the best is charged.
    """
    n_features = features.shape[1]
    total = np.int64(0)
    clear = True
    for s in range(len(offsets) - 1):
        best = -np.inf
        second = -np.inf
        chosen = offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            score = 0.0
            for d in range(n_features):
                score += features[i, d] * weights[d]
            if score > best:
                second = best
                best = score
                chosen = i
            elif score > second:
                second = score
        cost = costs[chosen]
        if best - second <= bound:
            for i in range(offsets[s], offsets[s + 1]):
                score = 0.0
                for d in range(n_features):
                    score += features[i, d] * weights[d]
                if best - score <= bound and costs[i] != cost:
                    clear = False
                    cost = max(cost, costs[i])
        total += cost
    return total, clear
