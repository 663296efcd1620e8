from ..search.method import (
    Comparator as Comparator,
    Found as Found,
    Incumbent as Incumbent,
    Method as Method,
    Run as Run,
    Search as Search,
    Task as Task,
)
from ..unseen.averaging import Averaging as Averaging
from .auto import Auto as Auto
from .cells.cells import Cells as Cells
from .choices.choices import Choices as Choices
from .exhaustive import Exhaustive as Exhaustive
from .groups import Groups as Groups
from .heuristic.derivative_free import (
    CmaEs as CmaEs,
    Grid as Grid,
    NelderMead as NelderMead,
    RandomSearch as RandomSearch,
    Tpe as Tpe,
)
from .heuristic.likelihood import Likelihood as Likelihood
from .heuristic.och import Och as Och, Stabilised as Stabilised
from .heuristic.ranking import Mira as Mira, Pro as Pro
from .heuristic.risk import Annealing as Annealing
from .heuristic.sparse import Boosting as Boosting, MinimumSampleRisk as MinimumSampleRisk, Perceptron as Perceptron
from .lp_mert.beam import Beam as Beam
from .lp_mert.method import LpMert as LpMert
from .mip import Mip as Mip
from .sweep import Sweep as Sweep
