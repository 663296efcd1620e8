"""What pyproject.toml cannot say: with LPMERT_KERNELS=1 the kernels are compiled when a wheel is built.

Without it, the package is pure Python, and numba compiles the kernels when they are first called: an installation from
source then needs no compiler and takes no minutes.
"""

import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

AHEAD = os.environ.get("LPMERT_KERNELS", "0") == "1"


class BuildKernels(build_ext):
    """Builds the one extension module from the Python sources of the kernels."""

    def build_extension(self, ext: Extension) -> None:
        """Build it."""
        target = Path(self.get_ext_fullpath(ext.name))
        os.environ.setdefault("NUMBA_CPU_NAME", "generic")
        sys.path.insert(0, str(Path(__file__).resolve().parent))
        from lpmert.numeric.ahead import build

        scratch = Path(self.build_temp)
        scratch.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(build(scratch), target)


setup(
    cmdclass={"build_ext": BuildKernels},
    ext_modules=[Extension("lpmert._kernels", sources=[])] if AHEAD else [],
    setup_requires=["numba", "numpy", "scipy"] if AHEAD else [],
)
