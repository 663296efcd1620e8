"""Weights that rank judged documents best: NDCG, MRR, average precision and recall at k, found and proved."""

from lpmert.certificates.check.ranking import VerifiedRanking as VerifiedRanking, verify as verify
from lpmert.model.judgments import Judged as Judged, RankingMetric as RankingMetric
from lpmert.ranking.evaluation import evaluate as evaluate
from lpmert.ranking.search import (
    Curve as Curve,
    RankingResult as RankingResult,
    certify as certify,
    maximize as maximize,
)
