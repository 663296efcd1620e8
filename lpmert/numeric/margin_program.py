"""The linear program of the largest margin on HiGHS, in floating point: its answers are guesses."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpmert.errors import FloatArray, LpmertError
from lpmert.numeric.quiet_highs import highspy
from lpmert.system.deadline import time_left

TOLERANCE = 1e-10
"""To which the program is solved."""

_HIGHS_SECONDS = 0.1
"""What a program may take beyond the time limit: most take a hundredth of that."""


class SolverError(LpmertError):
    """HiGHS refused or warned about a model."""


class MarginProgram:
    """The program "maximise t with normal.w >= t for all held normals, w in [-1, 1]^D" inside one HiGHS object."""

    def __init__(self, width: int) -> None:
        options: dict[str, Any] = {
            "output_flag": False,
            "threads": 1,
            "presolve": "off",
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        }
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in options.items():
            _expect_ok(self._highs.setOptionValue(name, value), f"the option {name}")
        self._columns = np.arange(width + 1, dtype=np.int32)
        self._cost = np.append(np.zeros(width), -1.0)
        self._upper = np.append(np.ones(width), highspy.kHighsInf)

    def clear(self) -> None:
        """Start again without rows."""
        layout, sense = int(highspy.MatrixFormat.kRowwise), int(highspy.ObjSense.kMinimize)
        columns = (self._cost, -self._upper, self._upper)
        empty, index = np.empty(0), np.empty(0, dtype=np.int32)
        matrix = (empty, empty, np.zeros(1, dtype=np.int32), index, empty, np.zeros_like(self._columns))
        status = self._highs.passModel(len(self._cost), 0, 0, layout, sense, 0.0, *columns, *matrix)
        _expect_ok(status, "the empty model")

    def add(self, normals: FloatArray) -> None:
        """Add rows normal.w - t >= 0 for normals [R, D]; the basis of the last run is kept."""
        count = len(normals)
        filled = np.hstack([normals, np.full((count, 1), -1.0)])
        present = filled != 0
        starts = np.concatenate([[0], np.cumsum(present.sum(axis=1))[:-1]]).astype(np.int32)
        indices = np.broadcast_to(self._columns, filled.shape)[present]
        lower, upper = np.zeros(count), np.full(count, highspy.kHighsInf)
        status = self._highs.addRows(count, lower, upper, len(indices), starts, indices, filled[present])
        _expect_ok(status, "the rows")

    def run(self) -> tuple[FloatArray, float, FloatArray, int] | None:
        """Return the optimal weights [D], margin, row duals [R] and iterations; `None` if HiGHS ends without them."""
        left = time_left()
        if left is not None:
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + left + _HIGHS_SECONDS)
        status = self._highs.run()
        if status != highspy.HighsStatus.kOk or self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        values = np.array(solution.col_value)
        return (
            values[:-1],
            float(values[-1]),
            np.array(solution.row_dual),
            self._highs.getInfo().simplex_iteration_count,
        )


def _expect_ok(status: highspy.HighsStatus, what: str) -> None:
    if status != highspy.HighsStatus.kOk:
        raise SolverError(f"HiGHS did not accept {what} without complaint ({status.name})")
