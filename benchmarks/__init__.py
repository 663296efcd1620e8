"""Measurements of lpmert, alone and beside others: `python -m benchmarks list | run NAME | report`."""

import os

# One thread in every library, or solvers that use one would be compared with those that use all cores. Here, because it
# counts only before numpy is imported.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
