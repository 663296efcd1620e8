"""A linear model that picks one row of each group, as scikit-learn's tools take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from lpmert.api import minimize
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.metrics.base import AdditiveMetric
from lpmert.metrics.contract import metric_of
from lpmert.model.arrays import BEYOND_DOUBLES, is_rounded
from lpmert.model.graphs import WordGraphs
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted
from lpmert.unseen.tune import Tuned, tune

if TYPE_CHECKING:
    from lpmert.metrics.base import Metric
    from lpmert.model.region import Region
    from lpmert.result import Result
    from lpmert.search.method import Method

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise MethodError(f"Reranker needs scikit-learn 1.6 ({error}); pip install 'lpmert[sklearn]'") from error

TUNE = "tune"
EXACT = "exact"
"""The optimum of the lists fitted to, by the default of `minimize`."""


class Reranker(BaseEstimator):  # type: ignore[misc]  # of a package without types
    """A linear model that picks one row of each group, with the least loss of what it picks.

    Parameters
    ----------
    metric : str or Metric, optional
        What turns summed statistics into a loss, as for `minimize`.
    method : str or Method
        "tune" for unseen lists: the average of `lpmert.tune`, in about a second for 100 lists of 14 features. "exact"
        for the optimum of these lists, which can take much longer, or a method of `minimize`: a name such as "och", or
        an object of `lpmert.methods`.
    gain : bool
        Whether y says how good a row is, not what it costs.
    group_column : int or str, optional
        The column of X with the group of each row, where no groups are passed; it is no feature.
    region : Region, optional
        Where the weights may lie.
    time_limit : float, optional
        Most seconds for `fit`.
    jobs : int
        Threads.
    seed : int
        Seed for everything random.

    Attributes
    ----------
    coef_ : array [D]
        The weights; their absolute values sum to 1.
    result_ : Result or Tuned
        What `minimize` or `tune` found.
    n_features_in_ : int
        How many columns X has.
    feature_names_in_ : array of str
        Their names, where X is a data frame.

    Notes
    -----
    It needs scikit-learn (`pip install 'lpmert[sklearn]'`). `fit`, `score` and `choose` need groups. `cross_val_score`
    passes them on if scikit-learn's metadata routing is enabled, and the estimator has `set_fit_request(groups=True)`
    and `set_score_request(groups=True)`; or use `group_column`. Lists that share a source, such as all sentences of a
    speaker, should stay on one side of a split: that is the splitter's task.

    Examples
    --------
    >>> import lpmert
    >>> X, y, groups = [[1, 0], [0, 1], [2, 1], [1, 3]], [0, 1, 1, 0], ["a", "a", "b", "b"]
    >>> model = lpmert.Reranker(method="exact").fit(X, y, groups)
    >>> model.choose(X, groups).tolist(), model.score(X, y, groups)
    ([0, 3], 0.0)
    """

    def __init__(
        self,
        *,
        metric: str | Metric | None = None,
        method: str | Method = TUNE,
        gain: bool = False,
        group_column: int | str | None = None,
        region: Region | None = None,
        time_limit: float | None = None,
        jobs: int = 1,
        seed: int = 0,
    ) -> None:
        self.metric = metric
        self.method = method
        self.gain = gain
        self.group_column = group_column
        self.region = region
        self.time_limit = time_limit
        self.jobs = jobs
        self.seed = seed

    def fit(self, X: ArrayLike | NBest, y: ArrayLike | None = None, groups: ArrayLike | None = None) -> Self:
        """Find the weights.

        Parameters
        ----------
        X : array [M, D] or NBest
            The features of the rows, or lists, which have all that follows.
        y : array [M] or [M, K]
            What each row costs, or is worth with `gain`; or the statistics that the metric sums.
        groups : array [M], optional
            Equal entries make a list, from which one row is picked; they need not be adjacent. Not needed with
            `group_column`.

        Returns
        -------
        Reranker
            This object.

        Raises
        ------
        ValueError
            Where X, y and groups do not fit each other, X and y are not finite numbers, groups are missing, or X holds
            lattices.
        DataError, MetricError, MethodError, RegionError
            As by `minimize`.
        """
        nbest = X if self._list_like(X) else self._lists(X, y, groups)
        self.n_features_in_ = nbest.n_features + (nbest is not X and self.group_column is not None)
        search: Any = tune if self.method == TUNE else minimize
        # the average starts from where line searches end: a proof of the optimum would be thrown away
        settings: dict[str, Any] = {"quick": True, "method": "och"} if self.method == TUNE else {}
        if self.method not in (TUNE, EXACT):
            settings = {"method": self.method}
        self.result_: Result | Tuned = search(
            nbest,
            metric=self.metric,
            region=self.region,
            time_limit=self.time_limit,
            jobs=self.jobs,
            seed=self.seed,
            **settings,
        )
        self.coef_: FloatArray = self.result_.weights
        return self

    def decision_function(self, X: ArrayLike | NBest) -> FloatArray:
        """Return the score [M] of each row; the row with the largest one of its group is picked.

        Raises `ValueError` unless X has the columns that `fit` saw.
        """
        check_is_fitted(self, "coef_")
        features = X.dense_features() if self._list_like(X) else self._split(X, seen=True)[0]
        return np.asarray(features @ self.coef_)

    def predict(self, X: ArrayLike | NBest) -> FloatArray:
        """Return the score [M] of each row, as rankers do; `choose` returns the rows picked."""
        return self.decision_function(X)

    def choose(self, X: ArrayLike | NBest, groups: ArrayLike | None = None) -> IntArray:
        """Return the row picked in each group, in the order in which the groups first come; the first one of equals."""
        check_is_fitted(self, "coef_")
        if self._list_like(X):
            scores, numbers = self.predict(X), X.list_index
        else:
            features, numbers = self._grouped(X, groups, seen=True)
            scores = features @ self.coef_
        order = np.lexsort([-scores, numbers])  # stable: the first one of equals
        return np.asarray(order[np.unique(numbers[order], return_index=True)[1]])

    def score(self, X: ArrayLike | NBest, y: ArrayLike | None = None, groups: ArrayLike | None = None) -> float:
        """Return how good the rows picked are: the mean gain or the negative mean loss of a group; the negative loss
        of a metric that is not additive.
        """
        check_is_fitted(self, "coef_")
        nbest = X if self._list_like(X) else self._lists(X, y, groups, seen=True)
        metric = metric_of(self.metric, nbest.statistic_names)
        rows = self.choose(nbest)
        loss = metric.loss(nbest.statistics[rows].sum(axis=0))
        return 0.0 - (loss / len(rows) if isinstance(metric, AdditiveMetric) else loss)

    def _lists(self, X: Any, y: Any, groups: Any, *, seen: bool = False) -> NBest:
        features, numbers = self._grouped(X, groups, seen=seen)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: what does each row cost?")
        statistics = _numbers(y, "y")
        if statistics.ndim not in (1, 2) or len(statistics) != len(features):
            raise ValueError(
                f"y must have an entry for each of the {len(features)} rows; its shape is {statistics.shape}"
            )
        order = np.argsort(numbers, kind="stable")
        return NBest(
            features[order],
            np.cumsum([0, *np.bincount(numbers).tolist()]),
            (-statistics if self.gain else statistics)[order],
            names=getattr(self, "_names", None),
        )

    def _split(self, X: Any, *, seen: bool) -> tuple[FloatArray, Any]:
        """Return features [M, D], and the column of the groups, if X has it."""
        place, own = self.group_column, None
        if isinstance(place, str):
            names = [*getattr(X, "columns", ())]
            if place not in names:
                raise ValueError(f"no column {quoted(place)} in X; pass a data frame that has it")
            place = names.index(place)
        least = 1 if place is None or seen else 2
        table = validate_data(
            self, X, reset=not seen, dtype=None, ensure_all_finite=False, ensure_min_features=least
        )  # numbers are checked without the groups
        if place is not None:
            width = table.shape[1]
            if not -width <= place < width:
                raise ValueError(f"X has {width} features, so there is no column {place} of groups")
            own, table = table[:, place], np.delete(table, place, axis=1)
        if not seen:
            every = getattr(self, "feature_names_in_", None)
            self._names = None if every is None else [*(every if place is None else np.delete(every, place))]
        return _numbers(table, "X"), own

    def _grouped(self, X: Any, groups: Any, *, seen: bool) -> tuple[FloatArray, IntArray]:
        """Return features [M, D], and the number of each row's group [M], from 0 in the order in which they come."""
        features, own = self._split(X, seen=seen)
        groups = own if groups is None else groups
        if groups is None:
            raise ValueError(
                f"{type(self).__name__} needs groups, which say which rows make a list: pass groups, or group_column, "
                "the column of X that has them; cross_val_score passes groups on with "
                "sklearn.set_config(enable_metadata_routing=True), set_fit_request(groups=True) and "
                "set_score_request(groups=True)"
            )
        given = np.asarray(groups, dtype=getattr(groups, "dtype", object))  # numbers beside strings stay such
        if given.shape != (len(features),):
            raise ValueError(
                f"groups must have an entry for each of the {len(features)} rows; its shape is {given.shape}"
            )
        if any(group is None or group != group for group in given.tolist()):
            raise ValueError("groups has missing entries (None or NaN); every row needs its group")
        if len({isinstance(group, str) for group in given.tolist()}) > 1:
            raise ValueError("groups has both strings and numbers; give one kind")
        numbers: dict[Any, int] = {}
        try:
            return features, np.array([numbers.setdefault(group, len(numbers)) for group in given.tolist()])
        except TypeError:
            raise TypeError("each group of the groups argument must be a string or a number") from None

    def _list_like(self, X: Any) -> TypeGuard[NBest]:
        """Whether these are lists, rather than rows; raises `ValueError` for lattices."""
        if isinstance(X, WordGraphs):
            raise ValueError(
                f"{type(X).__name__.lower()} hold too many paths for rows: pass lists of the best ones, "
                "lpmert.n_best(lattices, weights), or tune on all paths by lpmert.tune(lattices)"
            )
        return isinstance(X, NBest)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _numbers(values: Any, what: str) -> FloatArray:
    """Return real numbers as float64; raises `ValueError` for others, and for those that would not be the same."""
    table = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if np.iscomplexobj(table):
        raise ValueError(f"Complex data not supported: {what} must be real numbers")
    if table.dtype.kind in "mM":
        raise ValueError(f"{what} must be numbers, not dates or times ({table.dtype}); make numbers of them")
    if is_rounded(table):
        raise ValueError(f"{what} has {BEYOND_DOUBLES}")
    numbers = np.asarray(table, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{what} contains NaN or infinity")
    return numbers
