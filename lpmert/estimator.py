"""An estimator for scikit-learn that picks one row of each group."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lpmert.api import minimize
from lpmert.comparing.tune import Tuned, tune
from lpmert.errors import FloatArray, IntArray
from lpmert.metrics.base import AdditiveMetric, Metric
from lpmert.metrics.contract import metric_of
from lpmert.model.arrays import BEYOND_DOUBLES, as_ids, frame_names, is_masked, is_missing, is_rounded
from lpmert.model.nbest import NBest
from lpmert.model.region import Region
from lpmert.quoting import quoted
from lpmert.result import Result
from lpmert.search.method import Method
from lpmert.values import whole_number

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(f"lpmert.Reranker needs scikit-learn: pip install 'lpmert[sklearn]' ({error})") from error


class Reranker(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Linear model that picks one row of each group, trained to minimise the loss of the rows it picks.

    Parameters
    ----------
    metric : str or Metric, optional
        How summed statistics become a loss, as for `minimize`.
    method : str or Method
        "tune" for unseen lists: the average of `lpmert.tune`, in about a second for 100 lists of 14 features. Or a
        method of `minimize`: "auto" for the optimum of the training lists, which can take much longer, another name, or
        an object of `lpmert.methods`.
    group_column : int or str, optional
        The column of X with the group of each row, for when no groups are passed; it is not a feature.
    region : Region, optional
        Where the weights may lie.
    time_limit : float, optional
        Maximum seconds for `fit`.
    jobs : int
        Number of threads.
    seed : int
        Random seed.

    Attributes
    ----------
    coef_ : array [D]
        The weights; their absolute values sum to 1.
    result_ : Result or Tuned
        The result of `minimize` or `tune`.
    n_features_in_ : int
        Number of columns of X in `fit`.
    feature_names_in_ : array of str
        Names of these columns; only if X is a data frame.

    Notes
    -----
    `fit`, `score` and `choose` need groups. `cross_val_score` passes them on if scikit-learn's metadata routing is
    enabled and the estimator has `set_fit_request(groups=True)` and `set_score_request(groups=True)`; otherwise use
    `group_column`. The splitter has to keep lists that share a source, such as all sentences of a speaker, on one side
    of a split.

    Examples
    --------
    >>> import lpmert
    >>> X, y, groups = [[1, 0], [0, 1], [2, 1], [1, 3]], [0, 1, 1, 0], ["a", "a", "b", "b"]
    >>> model = lpmert.Reranker(method="auto").fit(X, y, groups)
    >>> model.choose(X, groups).tolist(), model.score(X, y, groups)
    ([0, 3], 0.0)
    """

    def __init__(
        self,
        *,
        metric: str | Metric | None = None,
        method: str | Method = "tune",
        group_column: int | str | None = None,
        region: Region | None = None,
        time_limit: float | None = None,
        jobs: int = 1,
        seed: int = 0,
    ) -> None:
        self.metric = metric
        self.method = method
        self.group_column = group_column
        self.region = region
        self.time_limit = time_limit
        self.jobs = jobs
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Find the weights.

        Parameters
        ----------
        X : array [M, D] or data frame
            The features of the rows.
        y : array [M] or [M, K]
            The loss of each row, or the statistics that the metric sums; for gains, pass -y.
        groups : array [M], optional
            Rows with equal entries form a list, from which one row is picked; they need not be adjacent. Not needed
            with `group_column`.

        Returns
        -------
        Reranker
            This object.

        Raises
        ------
        ValueError
            If X, y and groups do not fit each other, X or y has entries that are not finite numbers, or groups are
            missing.
        DataError, MetricError, MethodError, RegionError
            As by `minimize`.
        """
        nbest = self._lists(X, y, groups, reset=True)
        settings: Any = {name: getattr(self, name) for name in ("metric", "region", "time_limit", "jobs", "seed")}
        self.result_: Result | Tuned
        if self.method == "tune":  # the average starts from the end of line searches: a proof would be of no use
            self.result_ = tune(nbest, quick=True, method="och", **settings)
        else:
            self.result_ = minimize(nbest, method=self.method, **settings)
        self.coef_: FloatArray = self.result_.weights
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the scores of rows, the products of features and weights; `choose` returns the rows picked.

        Parameters
        ----------
        X : array [M, D] or data frame
            The features of the rows.

        Returns
        -------
        array [M]
            The score of each row; the row with the highest score of a group is picked.

        Raises
        ------
        ValueError
            If X does not have the columns that `fit` saw.
        """
        check_is_fitted(self)
        return np.asarray(self._split(X, reset=False)[0] @ self.coef_)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the scores as `predict` does, for tools that ask for them by this name."""
        return self.predict(X)

    def choose(self, X: ArrayLike, groups: ArrayLike | None = None) -> IntArray:
        """Pick the row with the highest score in each group, the first of equal ones.

        Parameters
        ----------
        X : array [M, D] or data frame
            The features of the rows.
        groups : array [M], optional
            The group of each row, as for `fit`.

        Returns
        -------
        array [G]
            The rows picked, with groups in the order of their first occurrence.
        """
        check_is_fitted(self)
        features, numbers, _ = self._grouped(X, groups, reset=False)
        return _picked(features @ self.coef_, numbers)

    def score(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> float:
        """Return the quality of the rows picked; higher is better.

        Parameters
        ----------
        X : array [M, D] or data frame
            The features of the rows.
        y : array [M] or [M, K]
            Losses or statistics of the rows, as for `fit`.
        groups : array [M], optional
            The group of each row, as for `fit`.

        Returns
        -------
        float
            Minus the mean loss per group, or minus the loss if the metric is not additive.
        """
        check_is_fitted(self)
        nbest = self._lists(X, y, groups, reset=False)
        rows = _picked(nbest.dense_features() @ self.coef_, nbest.list_index)
        metric = metric_of(self.metric, nbest.statistic_names)
        loss = metric.loss(nbest.statistics[rows].sum(axis=0))
        return 0.0 - (loss / len(rows) if isinstance(metric, AdditiveMetric) else loss)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _lists(self, X: Any, y: Any, groups: Any, *, reset: bool) -> NBest:
        features, numbers, names = self._grouped(X, groups, y=y, reset=reset)
        statistics = _numbers(y, "y")
        check_consistent_length(features, statistics)
        order = np.argsort(numbers, kind="stable")
        return NBest(features[order], np.cumsum([0, *np.bincount(numbers).tolist()]), statistics[order], names=names)

    def _grouped(self, X: Any, groups: Any, **checks: Any) -> tuple[FloatArray, IntArray, list[str] | None]:
        """Return features [M, D], the group of each row [M], from 0 in the order of first occurrence, and names."""
        features, column, names = self._split(X, **checks)
        groups = column if groups is None else groups
        if groups is None:
            raise ValueError(
                f"{type(self).__name__} needs groups, which say which rows make a list: pass groups, or group_column, "
                "the column of X that has them; cross_val_score passes groups on with "
                "sklearn.set_config(enable_metadata_routing=True), set_fit_request(groups=True) and "
                "set_score_request(groups=True)"
            )
        ids = as_ids(groups)
        check_consistent_length(features, ids)
        if any(map(is_missing, ids.tolist())):
            raise ValueError("groups has missing entries (None or NaN); every row needs its group")
        if len({isinstance(group, str) for group in ids.tolist()}) > 1:
            raise ValueError("groups has both strings and numbers; give one kind")
        numbers: dict[Any, int] = {}
        return features, np.array([numbers.setdefault(group, len(numbers)) for group in ids.tolist()]), names

    def _split(self, X: Any, **checks: Any) -> tuple[FloatArray, Any, list[str] | None]:
        """Return features [M, D], the column of groups if any, and names; checks: arguments of `validate_data`."""
        table = _array(X, "X")
        validate_data(self, X, **checks, skip_check_array=True)
        known, width = frame_names(X), table.shape[1]
        names = None if known is None else [*known]
        if self.group_column is None:
            return _numbers(table, "X"), None, names
        _array(table, "X", ensure_min_features=2)
        if not isinstance(self.group_column, str):
            place = whole_number(self.group_column, "group_column", -width)
        elif names is None or self.group_column not in names:
            raise ValueError(f"no column {quoted(self.group_column)} in X; pass a data frame that has it")
        else:
            place = names.index(self.group_column)
        if place >= width:
            raise ValueError(f"X has {width} features, so there is no column {place} of groups")
        if names is not None:
            del names[place]
        return _numbers(np.delete(table, place, axis=1), "X"), table[:, place], names


def _picked(scores: FloatArray, numbers: IntArray) -> IntArray:
    """Return the first row [G] with the highest score [M] of each group; numbers [M]: of the groups."""
    order = np.lexsort([-scores, numbers])  # stable
    return np.asarray(order[np.unique(numbers[order], return_index=True)[1]])


def _array(values: Any, what: str, **checks: Any) -> Any:
    if is_masked(values):
        raise ValueError(f"{what} has masked entries; fill them or leave their rows out")
    return check_array(values, dtype=None, ensure_all_finite=False, input_name=what, **checks)


def _numbers(values: Any, what: str) -> FloatArray:
    """Return real numbers as float64; raises `ValueError` for other values and numbers that float64 would round."""
    table = _array(values, what, ensure_2d=False)
    if table.dtype.kind in "mM":
        raise ValueError(f"{what} must be numbers, not dates or times ({table.dtype}); make numbers of them")
    if is_rounded(table):
        raise ValueError(f"{what} has {BEYOND_DOUBLES}")
    return np.asarray(check_array(table, dtype=np.float64, ensure_2d=False, input_name=what))
