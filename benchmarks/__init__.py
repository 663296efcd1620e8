"""Measurements of lpmert, alone and beside others: `python -m benchmarks list | run NAME | report`."""

import os

# Every library gets one thread, so that solvers with one are not compared with solvers that use all cores. This must
# happen before numpy is imported.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
