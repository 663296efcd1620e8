"""Weights that rank judged documents best: NDCG, MRR, average precision and recall at k, found and proved."""

from lpmert.certificates.check.ranking import VerifiedRanking as VerifiedRanking
from lpmert.certificates.check.ranking import verify as verify
from lpmert.model.judged import Judged as Judged
from lpmert.model.judged import RankingMetric as RankingMetric
from lpmert.ranking.evaluation import evaluate as evaluate
from lpmert.ranking.search import Curve as Curve
from lpmert.ranking.search import RankingResult as RankingResult
from lpmert.ranking.search import certify as certify
from lpmert.ranking.search import maximize as maximize
