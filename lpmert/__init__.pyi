from . import formats as formats, methods as methods, metrics as metrics, plots as plots
from .api import (
    Reranked as Reranked,
    certify as certify,
    check as check,
    evaluate as evaluate,
    minimize as minimize,
    rerank as rerank,
    vote as vote,
)
from .budgets import Front as Front, pareto as pareto, within_budget as within_budget
from .certificates.verify import Verified as Verified, verify as verify
from .comparing.compare import compare as compare
from .comparing.comparison import Comparison as Comparison
from .comparing.cross_validation import LeftOut as LeftOut, leave_one_out as leave_one_out
from .comparing.tune import Tuned as Tuned, tune as tune
from .errors import (
    CertificateError as CertificateError,
    DataError as DataError,
    DecoderError as DecoderError,
    LimitError as LimitError,
    LpmertError as LpmertError,
    MethodError as MethodError,
    MetricError as MetricError,
    RegionError as RegionError,
)
from .estimator import Reranker as Reranker
from .formats.detect import read as read, write as write
from .formats.judged import read_judged as read_judged
from .formats.lattices import load_lattices as load_lattices, n_best as n_best
from .formats.tables import to_columns as to_columns
from .interpretable import (
    Subset as Subset,
    Subsets as Subsets,
    best_subsets as best_subsets,
    whole_weights as whole_weights,
)
from .looping.decoders import Command as Command, Decoded as Decoded, Decoder as Decoder, Worker as Worker
from .looping.loop import Iteration as Iteration, Looped as Looped, loop as loop
from .looping.pool import Consistency as Consistency, Pool as Pool
from .model.graphs import Hypergraphs as Hypergraphs, Lattices as Lattices
from .model.judgments import (
    from_choices as from_choices,
    from_classification as from_classification,
    from_groups as from_groups,
)
from .model.nbest import NBest as NBest
from .model.problem import Problem as Problem
from .model.region import Linear as Linear, Region as Region
from .rashomon import (
    NearOptimal as NearOptimal,
    RashomonSet as RashomonSet,
    WeightRange as WeightRange,
    near_optimal as near_optimal,
)
from .reporting.page import report as report
from .result import (
    Cell as Cell,
    Check as Check,
    Diagnostic as Diagnostic,
    Evaluation as Evaluation,
    Limits as Limits,
    Progress as Progress,
    Result as Result,
    Status as Status,
)

__version__: str
