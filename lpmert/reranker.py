"""A face for those who are used to scikit-learn: `fit`, `predict`, `score`; scikit-learn itself is not needed."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lpmert.errors import FloatArray, IntArray
from lpmert.model.arrays import BEYOND_DOUBLES, is_rounded
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted

if TYPE_CHECKING:
    from lpmert.metrics.base import Metric
    from lpmert.model.region import Region
    from lpmert.result import Result
    from lpmert.search.method import Method
    from lpmert.unseen.tuned import Tuned

    class BaseEstimator:
        """What scikit-learn's estimators derive from."""
else:
    try:
        from sklearn.base import BaseEstimator
    except ImportError:

        class BaseEstimator:
            """Parameters are those of `__init__`, as in scikit-learn."""

            def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  # scikit-learn's signature
                """Return the parameters by name."""
                return {name: getattr(self, name) for name in signature(type(self)).parameters}

            def set_params(self, **parameters: Any) -> Self:
                """Change parameters; raises `ValueError` for an unknown one."""
                known = self.get_params()
                for name, value in parameters.items():
                    if name not in known:
                        raise ValueError(f"no parameter {quoted(name)}; the parameters are {listed(known)}")
                    setattr(self, name, value)
                return self


TUNE = "tune"
EXACT = "exact"
"""The optimum of the lists fitted to, by the default of `minimize`."""


class Reranker(BaseEstimator):
    """A linear model that picks one row of each group, with the least loss of what it picks.

    Parameters
    ----------
    metric : str or Metric, optional
        What turns summed statistics into a loss, as for `minimize`.
    method : str or Method
        "tune" for weights that hold on unseen lists (`lpmert.tune`), "exact" for the optimum of these lists, or a
        method of `minimize`: a name such as "och", or an object of `lpmert.methods`.
    gain : bool
        Whether y says how good a row is, not what it costs.
    group_column : int or str, optional
        The column of X that tells to which group a row belongs, where no groups are passed; it is no feature.
    region : Region, optional
        Where the weights may lie.
    time_limit : float, optional
        Most seconds for `fit`.
    jobs : int
        Threads.
    seed : int
        Of all that is random.

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
    `fit`, `score` and `choose` need groups. `cross_val_score` passes them on if scikit-learn's metadata routing is
    enabled, and the estimator has `set_fit_request(groups=True)` and `set_score_request(groups=True)`; or use
    `group_column`. Lists that share a source, such as all sentences of a speaker, should stay on one side of a split:
    that is for the splitter.

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
            Equal entries make a list, of which one row is picked; they need not be next to each other. They may be left
            out with `group_column`.

        Returns
        -------
        Reranker
            This object.

        Raises
        ------
        ValueError
            Where X, y and groups do not fit each other, X and y are not finite numbers, or groups are missing.
        DataError, MetricError, MethodError, RegionError
            As by `minimize`.
        """
        from lpmert._doors import minimize
        from lpmert.unseen.tune import tune

        nbest = X if isinstance(X, NBest) else self._lists(X, y, groups)
        self.n_features_in_ = nbest.n_features + (not isinstance(X, NBest) and self.group_column is not None)
        search: Any = tune if self.method == TUNE else minimize
        settings: dict[str, Any] = {"quick": True} if self.method == TUNE else {}
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

    def predict(self, X: ArrayLike | NBest) -> FloatArray:
        """Return the score [M] of each row; the row with the largest one of its group is picked.

        Raises `ValueError` unless X has the columns that `fit` saw.
        """
        self._check_fitted()
        features = X.dense_features() if isinstance(X, NBest) else self._split(X, seen=True)[0]
        return np.asarray(features @ self.coef_)

    def choose(self, X: ArrayLike | NBest, groups: ArrayLike | None = None) -> IntArray:
        """Return the row picked in each group, in the order in which the groups first come; the first one of equals."""
        self._check_fitted()
        if isinstance(X, NBest):
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
        from lpmert.metrics.base import AdditiveMetric
        from lpmert.metrics.contract import metric_of

        self._check_fitted()
        nbest = X if isinstance(X, NBest) else self._lists(X, y, groups, seen=True)
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
        if hasattr(X, "toarray"):
            raise TypeError("sparse data was passed; use X.toarray(), or an NBest with sparse features")
        columns = getattr(X, "columns", None)
        names = None if columns is None else [str(name) for name in columns]
        table = _array(X, "X")
        if table.ndim != 2:
            raise ValueError(f"Expected 2D array, got {table.ndim}D array instead. Reshape your data: one row each")
        place, own = self._group_place(names), None
        beside = int(place is not None)
        width = table.shape[1]
        if seen and width != len(self.coef_) + beside:
            expecting = f"{type(self).__name__} is expecting {len(self.coef_) + beside} features as input"
            raise ValueError(f"X has {width} features, but {expecting}")
        for what, count, least in zip(("sample", "feature"), table.shape, (1, 1 + beside), strict=True):
            if count < least:
                raise ValueError(f"{count} {what}(s) (shape={table.shape}) while a minimum of {least} is required.")
        if place is not None:
            if not -width <= place < width:
                raise ValueError(f"X has {width} features, so there is no column {place} of groups")
            place %= width
            own, table = table[:, place], np.delete(table, place, axis=1)
        features = _numbers(table, "X")
        if seen:
            fitted = getattr(self, "feature_names_in_", names)
            if names is not None and fitted is not None and names != [*fitted]:
                raise ValueError(f"the columns of X are {listed(names)}; those seen by fit are {listed(fitted)}")
        else:
            self._names = None
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=np.object_)
                self._names = [name for number, name in enumerate(names) if number != place]
        return features, own

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

    def _group_place(self, names: list[str] | None) -> int | None:
        if not isinstance(self.group_column, str):
            return self.group_column
        if names is None or self.group_column not in names:
            raise ValueError(f"no column {quoted(self.group_column)} in X; pass a data frame that has it")
        return names.index(self.group_column)

    def _check_fitted(self) -> None:
        if hasattr(self, "coef_"):
            return
        try:
            from sklearn.exceptions import NotFittedError
        except ImportError:
            NotFittedError = ValueError
        raise NotFittedError("this Reranker is not fitted yet; call fit first")

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn's tools ask of estimators."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required = True
        return tags


def _array(values: Any, what: str) -> Any:
    table = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if np.iscomplexobj(table):
        raise ValueError(f"Complex data not supported: {what} must be real numbers")
    return table


def _numbers(values: Any, what: str) -> FloatArray:
    """Return real numbers as float64; raises `ValueError` for others, and for those that would not be the same."""
    table = _array(values, what)
    if table.dtype.kind in "mM":
        raise ValueError(f"{what} must be numbers, not dates or times ({table.dtype}); make numbers of them")
    if is_rounded(table):
        raise ValueError(f"{what} has {BEYOND_DOUBLES}")
    numbers = np.asarray(table, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{what} contains NaN or infinity")
    return numbers
