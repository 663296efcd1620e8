from ..model.judgments import measure_texts as measure_texts
from .base import (
    AdditiveMetric as AdditiveMetric,
    Cer as Cer,
    Metric as Metric,
    SumOfLosses as SumOfLosses,
    Wer as Wer,
    ZeroOne as ZeroOne,
)
from .ratio import (
    Bleu as Bleu,
    Chrf as Chrf,
    LinearFraction as LinearFraction,
    error_rate as error_rate,
    f_beta as f_beta,
    precision as precision,
    recall as recall,
)
from .text import TextMetric as TextMetric
