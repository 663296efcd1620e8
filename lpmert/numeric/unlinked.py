"""How numba compiles kernels that only other kernels call: they become machine code in their callers only.

numba links all callees into every function that it compiles, optimises the whole and makes machine code of it; of a
chain of n kernels, the last one passes through this n times. Here, kernels without an entry from Python are handed to
their callers as they were lowered, so that LLVM sees each once for each kernel that Python calls. This rests on
numba's way of adding passes, and on the class of its libraries, which is not documented.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as _llvm
import numba
from numba.core.codegen import JITCodeLibrary as _JITCodeLibrary
from numba.core.compiler import CompilerBase as _CompilerBase
from numba.core.compiler import DefaultPassBuilder as _DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass as _FunctionPass
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import models as _models
from numba.core.datamodel.registry import register_default as _register_default
from numba.core.imputils import lower_constant as _lower_constant
from numba.core.typed_passes import NopythonTypeInference
from numba.core.types import Dispatcher as _Dispatcher

from lpmert.numeric.handed import handed

if numba.version_info.short < (0, 63):
    raise ImportError("its libraries are made otherwise before numba 0.63")

llvm: Any = _llvm
JITCodeLibrary: Any = _JITCodeLibrary
CompilerBase: Any = _CompilerBase
DefaultPassBuilder: Any = _DefaultPassBuilder
FunctionPass: Any = _FunctionPass
Dispatcher: Any = _Dispatcher
models: Any = _models
_register: Any = register_pass
_register_model: Any = _register_default
_constant: Any = _lower_constant

_ENVIRONMENT = "_ZN08NumbaEnv"


class Callee(Dispatcher):  # type: ignore[misc]
    """The type of a kernel within another one that calls it.

    numba has its callers hold the address of each function that they call, for which they have no use. Where nothing
    is optimised, it stays, and with an address of this process in it no kernel can be kept.
    """

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call; named tuples are handed over by their address."""
        return super().get_call_type(context, tuple(handed(kind) for kind in args), kws)


_register_model(Callee)(models.OpaqueModel)


_constant(Callee)(lambda context, *_: context.get_dummy_value())


class Unlinked(JITCodeLibrary):  # type: ignore[misc]
    """The library of a kernel for its callers; of its own, it holds only what numba looks for in memory."""

    _final_module: Any

    def _optimize_functions(self, ll_module: Any) -> None:
        """Put variables into registers: all that reads the module from here on then has half as much to read."""
        ll_module.data_layout = self._codegen._data_layout
        passes = llvm.create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        options = llvm.create_pass_builder(self._codegen._tm, llvm.create_pipeline_tuning_options())
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, options)

    def finalize(self) -> None:
        """Make the module that callers link in, of this kernel and of all that it calls, without optimising it."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        whole = self._final_module
        for function in whole.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        self._shared_module = whole
        environments = [one for one in whole.global_variables if one.name.startswith(_ENVIRONMENT)]
        empty = str(self._codegen._create_empty_module(self.name))
        self._final_module = llvm.parse_assembly("\n".join([empty, *map(str, environments)]))
        self._final_module.name = whole.name
        self._finalize_final_module()


@_register(mutates_CFG=False, analysis_only=False)
class _LeaveUnlinked(FunctionPass):  # type: ignore[misc]
    _name = "lpmert_leave_unlinked"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = Unlinked(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return False


class UnlinkedCompiler(CompilerBase):  # type: ignore[misc]
    """numba's compiler, for kernels that only other kernels call."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_LeaveUnlinked, NopythonTypeInference)
        passes.finalize()
        return [passes]
