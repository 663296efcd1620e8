from ..comparing.averaging import Averaging as Averaging
from ..search.method import (
    Comparator as Comparator,
    Found as Found,
    Incumbent as Incumbent,
    Method as Method,
    Run as Run,
    Search as Search,
    Task as Task,
)
from .auto import Auto as Auto
from .cells import Cells as Cells
from .choices import Choices as Choices
from .direct_search import (
    CmaEs as CmaEs,
    Grid as Grid,
    NelderMead as NelderMead,
    Och as Och,
    RandomSearch as RandomSearch,
    Stabilised as Stabilised,
    Tpe as Tpe,
)
from .enumeration import Exhaustive as Exhaustive, Sweep as Sweep
from .groups import Groups as Groups
from .lp_mert import Beam as Beam, LpMert as LpMert
from .mip import Mip as Mip
from .sparse import Boosting as Boosting, MinimumSampleRisk as MinimumSampleRisk, Perceptron as Perceptron
from .surrogate_losses import Annealing as Annealing, Likelihood as Likelihood, Mira as Mira, Pro as Pro
