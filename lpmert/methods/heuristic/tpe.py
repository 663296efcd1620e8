"""The tree-structured Parzen estimator of Optuna, as people tune weights with it today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, MethodError
from lpmert.lines.clock import Clock
from lpmert.lines.line_search import space_of
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.search.run import Comparator, Found

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial


@dataclass(frozen=True)
class Tpe(Comparator):
    """`trials` suggestions of Optuna's sampler, each weight in -1..1 for features brought to the same spread.

    The start, if there is one, is the first trial. Needs the extra `tpe`.
    """

    trials: int = option(300, "suggestions", least=1)

    name: ClassVar[str] = "tpe"
    takes_lattices: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the best of the trials."""
        try:
            import optuna
        except ImportError as error:
            raise MethodError("optuna is not installed; pip install 'lpmert[tpe]'") from error
        spread = space_of(problem).spread
        names = [str(d) for d in range(len(spread))]

        def loss(trial: Trial) -> float:
            scaled = np.array([trial.suggest_float(name, -1.0, 1.0) for name in names])
            return clock.keep(scaled / spread)

        def watch(study: Study, _: FrozenTrial) -> None:
            if clock.expired():
                study.stop()

        shown = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
            if start is not None:
                scaled = start * spread / np.abs(start * spread).max()
                study.enqueue_trial(dict(zip(names, scaled.tolist(), strict=True)))
            study.optimize(loss, n_trials=self.trials, callbacks=[watch])
        finally:
            optuna.logging.set_verbosity(shown)
        return Found(1.0 / spread if clock.best is None else clock.best, {"trials": len(study.trials)})
