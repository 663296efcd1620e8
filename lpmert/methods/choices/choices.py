"""The search over selections as a method: search.py of this folder, or ratio_search.py for ratio metrics."""

from __future__ import annotations

from dataclasses import dataclass

from lpmert.configurable import option
from lpmert.methods.choices.search import ChoiceSettings
from lpmert.methods.choices.shared import SharedChoices
from lpmert.search.method import Method, Task


@dataclass(frozen=True)
class Choices(Method):
    """Branch and bound over the choices of hypotheses, with learnt conflicts; no option changes the optimum."""

    sharpness: float = option(2.0, "how steeply excess cost counts when the next list is chosen", least=0)
    look_ahead: bool = option(True, "test each undecided list at every node, not only at the root")
    use_cores: bool | None = option(
        None, "raise bounds by disjoint cores; none: for sums of losses, as they do not pay for ratio metrics"
    )
    use_witnesses: bool = option(True, "save linear programs by remembered weights")
    lanes: int = option(
        8, "parts searched side by side once a search is long; so many workers find something to do", least=1
    )
    kept_cores: int = option(400, "cores that a node remembers", least=1)

    name = "choices"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True
    takes_caps = True
    keeps_checkpoints = True

    def core_settings(self, granularity: int, *, cores: bool, pool_size: int) -> ChoiceSettings:
        """Return what the core needs to know; cores: whether these are used where nothing is said."""
        use_cores = cores if self.use_cores is None else self.use_cores
        own = self.sharpness, self.look_ahead, use_cores, self.use_witnesses
        return ChoiceSettings(granularity, *own, pool_size, self.kept_cores)

    def start(self, task: Task) -> SharedChoices:
        """Return a search over the whole weight space that begins with this incumbent."""
        return self.begun(task)

    def begun(self, task: Task, least: int | None = None) -> SharedChoices:
        """Return the same search; least: a cost that nothing undercuts, where another search has looked for it."""
        return SharedChoices(self, task.canonical, task.incumbent, least)
