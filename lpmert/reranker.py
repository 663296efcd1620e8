"""Use of weights: pick the best hypothesis or answer of each list, in functions or by an estimator for scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.findings import Outcome
from lpmert.model.arrays import BEYOND_DOUBLES, as_ids, checked_sequence, frame_names, is_masked, is_missing, is_rounded
from lpmert.model.graphs import WordGraphs
from lpmert.model.nbest import NBest, checked_lists
from lpmert.quoting import listed, quoted
from lpmert.values import weights_array, whole_number

if TYPE_CHECKING:
    from lpmert.metrics.base import Metric
    from lpmert.model.region import Region
    from lpmert.result import Result
    from lpmert.search.method import Method
    from lpmert.unseen.tune import Tuned
    from lpmert.values import Weights

TUNE = "tune"
EXACT = "exact"
"""The method of `Reranker` that finds the optimum of the training lists by the default of `minimize`."""


@dataclass(frozen=True, eq=False)
class Reranked(Outcome):
    """The hypotheses that weights pick.

    Parameters
    ----------
    list_ids : tuple of str
        The lists.
    hypotheses : array [S]
        The hypothesis picked from each list, counted from 0 within the list; with votes, the first hypothesis that
        gives the answer picked.
    texts : tuple of str or None
        Their texts; `None` for lists without texts.
    tied : int
        Number of lists in which another hypothesis comes within rounding of the best score; the first of equal ones is
        picked.
    """

    list_ids: tuple[str, ...]
    hypotheses: IntArray
    texts: tuple[str, ...] | None
    tied: int

    def to_dict(self) -> dict[str, Any]:
        """Return the picks as plain numbers and strings, ready for JSON."""
        texts = [None] * len(self.list_ids) if self.texts is None else self.texts
        picks = zip(self.list_ids, self.hypotheses.tolist(), texts, strict=True)
        return {
            "picks": [
                {"id": name, "hypothesis": number} | ({} if text is None else {"text": text})
                for name, number, text in picks
            ],
            "tied": self.tied,
        }

    def to_json(self) -> str:
        """Return `to_dict` as one JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=2)

    def __str__(self) -> str:
        """Return a line for each list: its id, a tab, and the text picked, or its number if there are no texts."""
        picked = map(str, self.hypotheses.tolist()) if self.texts is None else self.texts
        return "\n".join(f"{name}\t{' '.join(one.split())}" for name, one in zip(self.list_ids, picked, strict=True))


def rerank(nbest: NBest, weights: Weights | str | Path, *, vote: bool | Sequence[Hashable] = False) -> Reranked:
    """Pick the best hypothesis of each list by its score. No losses are needed.

    Parameters
    ----------
    nbest : NBest
        The lists; `lpmert.read(..., references=False)` reads lists without losses.
    weights : mapping or sequence of numbers, Result, Tuned, str or Path
        One number per feature, by name or in order, or a file of weights.
    vote : bool or sequence [M]
        Whether hypotheses of a list with the same text, or with the same entry of this sequence, are one answer: their
        features are summed, as by `lpmert.vote`.

    Returns
    -------
    Reranked
        The picks. Scores are compared exactly, and the first of equal hypotheses is picked. Weights that are all 0 log
        a warning, as in `check`.

    Raises
    ------
    DataError
        If weights or answers do not fit the lists, or `nbest` is not an `NBest`.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 3], [1, 2], [1, 2]], [0, 3], [0, 0, 0], ["count", "logit"], texts=["4", "5", "5"])
    >>> lpmert.rerank(lists, {"count": 0, "logit": 1}).texts
    ('4',)
    >>> lpmert.rerank(lists, {"count": 0, "logit": 1}, vote=True).texts
    ('5',)
    """
    from lpmert.api import evaluated
    from lpmert.formats.weights import given_weights
    from lpmert.metrics.base import SumOfLosses
    from lpmert.model.problem import Problem

    checked_lists(nbest)
    answers = None if isinstance(vote, bool) else vote
    lists, firsts = (nbest, np.arange(nbest.n_hypotheses)) if vote is False else _voted(nbest, answers)
    nothing = np.zeros(lists.n_hypotheses)
    blank = NBest(lists.features, lists.offsets, nothing, lists.names, lists.list_ids, texts=lists.texts)
    found = evaluated(Problem(blank, SumOfLosses()), given_weights(weights))
    rows = blank.rows_of(found.selection)
    texts = None if blank.texts is None else tuple(blank.texts[row] for row in rows.tolist())
    return Reranked(blank.list_ids, firsts[rows] - nbest.offsets[:-1], texts, found.tied_lists)


def vote(nbest: NBest, answers: Sequence[Hashable] | None = None) -> NBest:
    """Merge the hypotheses of each list that give the same answer, and sum their features.

    A feature that is 1 everywhere then counts votes. Tuning weights on such lists is weighted self-consistency.

    Parameters
    ----------
    nbest : NBest
        The lists.
    answers : sequence [M], optional
        The answer of each hypothesis; by default its text.

    Returns
    -------
    NBest
        Lists with one hypothesis per answer, in the order of their first occurrence; statistics and texts are those of
        the first hypothesis with the answer.

    Raises
    ------
    DataError
        If there are neither texts nor answers, or hypotheses with the same answer have different statistics.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 3], [1, 2], [1, 2]], [0, 3], [1, 0, 0], ["count", "logit"], texts=["4", "5", "5"])
    >>> lpmert.vote(lists).dense_features().tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    voted, _ = _voted(nbest, answers)
    return voted


def _voted(nbest: NBest, answers: Sequence[Hashable] | None) -> tuple[NBest, IntArray]:
    """Return the lists of `vote`, and the first hypothesis [m] with each answer."""
    entries = checked_lists(nbest).texts if answers is None else checked_sequence(answers, "answers")
    if entries is None:
        raise DataError("the lists have no texts that could be answers; read them with a text column, or pass answers")
    if len(entries) != nbest.n_hypotheses:
        raise DataError(
            f"answers must have one entry for each of the {nbest.n_hypotheses} hypotheses, not {len(entries)}"
        )
    lists = nbest.list_index
    if not all(isinstance(one, Hashable) for one in entries) or any(map(is_missing, entries)):
        raise DataError("answers must be strings, numbers or the like, none of them missing (None or NaN)")
    numbers: dict[tuple[int, Hashable], int] = {}
    answer = np.array([numbers.setdefault(key, len(numbers)) for key in zip(lists.tolist(), entries, strict=True)])
    firsts = np.unique(answer, return_index=True)[1]
    different = np.flatnonzero((nbest.statistics != nbest.statistics[firsts][answer]).any(axis=1))
    if len(different):
        row = int(different[0])
        raise DataError(
            f"list {quoted(nbest.list_ids[lists[row]])}: hypotheses with the answer {quoted(entries[row])} have "
            "different statistics; the same answer must cost the same"
        )
    features = np.zeros((len(firsts), nbest.n_features))
    np.add.at(features, answer, nbest.dense_features())
    voted = NBest(
        features,
        np.concatenate([[0], np.cumsum(np.bincount(lists[firsts]))]),
        nbest.statistics[firsts],
        nbest.names,
        nbest.list_ids,
        nbest.statistic_names,
        None if nbest.texts is None else [nbest.texts[row] for row in firsts.tolist()],
    )
    return voted, firsts


class Reranker:
    """Linear model that picks one row of each group, trained to minimise the loss of the rows it picks.

    Parameters
    ----------
    metric : str or Metric, optional
        How summed statistics become a loss, as for `minimize`.
    method : str or Method
        "tune" for unseen lists: the average of `lpmert.tune`, in about a second for 100 lists of 14 features. "exact"
        for the optimum of the training lists, which can take much longer. Or a method of `minimize`: a name such as
        "och", or an object of `lpmert.methods`.
    gain : bool
        Whether y is a gain, so that higher is better, rather than a loss.
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
    The class has the interface of a scikit-learn estimator, but derives from none of its classes, so that importing it
    is quick. `fit`, `score` and `choose` need groups. `cross_val_score` passes them on if scikit-learn's metadata
    routing is enabled and the estimator has `set_fit_request(groups=True)` and `set_score_request(groups=True)`;
    otherwise use `group_column`. The splitter has to keep lists that share a source, such as all sentences of a
    speaker, on one side of a split.

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
            The features of the rows; or lists, which replace y and groups as well.
        y : array [M] or [M, K]
            The loss of each row, its gain if `gain` is set, or the statistics that the metric sums.
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
            If X, y and groups do not fit each other, X or y has entries that are not finite numbers, groups are
            missing, or X holds lattices.
        DataError, MetricError, MethodError, RegionError
            As by `minimize`.
        """
        from lpmert.api import minimize
        from lpmert.unseen.tune import tune

        self._names: list[str] | None = None
        vars(self).pop("feature_names_in_", None)
        if self._list_like(X) and (y is not None or groups is not None):
            raise ValueError("lists have their own losses and groups; leave out y and groups")
        nbest = X if self._list_like(X) else self._lists(X, y, groups)
        self.n_features_in_ = nbest.n_features + (nbest is not X and self.group_column is not None)
        search: Any = tune if self.method == TUNE else minimize
        # the average starts from the end of line searches, so a proof of the optimum would be of no use
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
        """Return the scores of rows, the products of features and weights.

        Parameters
        ----------
        X : array [M, D] or NBest
            The features of the rows, or lists.

        Returns
        -------
        array [M]
            The score of each row; the row with the highest score of a group is picked.

        Raises
        ------
        ValueError
            If X does not have the columns that `fit` saw.
        DataError
            If lists do not have the features that `fit` saw, in any order.
        """
        self._check_fitted()
        if self._list_like(X):
            return np.asarray(X.dense_features() @ weights_array(self.result_.by_name, X.names))
        return np.asarray(self._split(X, seen=True)[0] @ self.coef_)

    def predict(self, X: ArrayLike | NBest) -> FloatArray:
        """Return what `decision_function` does, as rankers of scikit-learn do; `choose` returns the rows picked."""
        return self.decision_function(X)

    def choose(self, X: ArrayLike | NBest, groups: ArrayLike | None = None) -> IntArray:
        """Pick the row with the highest score in each group, the first of equal ones.

        Parameters
        ----------
        X : array [M, D] or NBest
            The features of the rows, or lists.
        groups : array [M], optional
            The group of each row, as for `fit`.

        Returns
        -------
        array [G]
            The rows picked, with groups in the order of their first occurrence.
        """
        self._check_fitted()
        if self._list_like(X):
            scores, numbers = self.predict(X), X.list_index
        else:
            features, numbers = self._grouped(X, groups, seen=True)
            scores = features @ self.coef_
        order = np.lexsort([-scores, numbers])  # stable, so the first of equal rows is picked
        return np.asarray(order[np.unique(numbers[order], return_index=True)[1]])

    def score(self, X: ArrayLike | NBest, y: ArrayLike | None = None, groups: ArrayLike | None = None) -> float:
        """Return the quality of the rows picked; higher is better.

        Parameters
        ----------
        X : array [M, D] or NBest
            The features of the rows; or lists, which replace y and groups as well.
        y : array [M] or [M, K]
            Losses, gains or statistics of the rows, as for `fit`.
        groups : array [M], optional
            The group of each row, as for `fit`.

        Returns
        -------
        float
            The mean gain per group, or the negative mean loss; the negative loss if the metric is not additive.
        """
        from lpmert.metrics.base import AdditiveMetric
        from lpmert.metrics.contract import metric_of

        self._check_fitted()
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
            names=self.result_.names if seen else self._names,
            statistic_names=["-gain"] if self.gain and statistics.ndim == 1 else None,
        )

    def _split(self, X: Any, *, seen: bool) -> tuple[FloatArray, Any]:
        """Split X into features [M, D] and the column of groups, `None` without `group_column`; seen: after `fit`."""
        if hasattr(X, "toarray"):
            raise TypeError("sparse data was passed; use X.toarray(), or an NBest with sparse features")
        names = frame_names(X)
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
            if whole_number(place, "group_column", -width) >= width:
                raise ValueError(f"X has {width} features, so there is no column {place} of groups")
            place %= width
            own, table = table[:, place], np.delete(table, place, axis=1)
        features = _numbers(table, "X")
        if seen:
            fitted = getattr(self, "feature_names_in_", names)
            if names is not None and fitted is not None and names != [*fitted]:
                raise ValueError(f"the columns of X are {listed(names)}; those seen by fit are {listed(fitted)}")
        elif names is not None:
            self.feature_names_in_ = np.array(names, dtype=np.object_)
            self._names = [name for number, name in enumerate(names) if number != place]
        return features, own

    def _grouped(self, X: Any, groups: Any, *, seen: bool) -> tuple[FloatArray, IntArray]:
        """Return features [M, D] and the group of each row [M], numbered from 0 in the order of first occurrence."""
        features, column = self._split(X, seen=seen)
        groups = column if groups is None else groups
        if groups is None:
            raise ValueError(
                f"{type(self).__name__} needs groups, which say which rows make a list: pass groups, or group_column, "
                "the column of X that has them; cross_val_score passes groups on with "
                "sklearn.set_config(enable_metadata_routing=True), set_fit_request(groups=True) and "
                "set_score_request(groups=True)"
            )
        ids = as_ids(groups)
        if ids.shape != (len(features),):
            raise ValueError(
                f"groups must have an entry for each of the {len(features)} rows; its shape is {ids.shape}"
            )
        if any(map(is_missing, ids.tolist())):
            raise ValueError("groups has missing entries (None or NaN); every row needs its group")
        if len({isinstance(group, str) for group in ids.tolist()}) > 1:
            raise ValueError("groups has both strings and numbers; give one kind")
        numbers: dict[Any, int] = {}
        try:
            return features, np.array([numbers.setdefault(group, len(numbers)) for group in ids.tolist()])
        except TypeError:
            raise TypeError("each group of the groups argument must be a string or a number") from None

    def _group_place(self, names: Sequence[str] | None) -> int | None:
        if not isinstance(self.group_column, str):
            return self.group_column
        if names is None or self.group_column not in names:
            raise ValueError(f"no column {quoted(self.group_column)} in X; pass a data frame that has it")
        return names.index(self.group_column)

    def _list_like(self, X: Any) -> TypeGuard[NBest]:
        """Whether X holds lists rather than rows; raises `ValueError` for lattices."""
        if isinstance(X, WordGraphs):
            raise ValueError(
                f"{type(X).__name__.lower()} hold too many paths for rows: pass lists of the best ones, "
                "lpmert.n_best(lattices, weights), or tune on all paths by lpmert.tune(lattices)"
            )
        return isinstance(X, NBest)

    def _check_fitted(self) -> None:
        if hasattr(self, "coef_"):
            return
        try:
            from sklearn.exceptions import NotFittedError
        except ImportError:
            NotFittedError = ValueError
        raise NotFittedError("this Reranker is not fitted yet; call fit first")

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  # scikit-learn's signature
        """Return the parameters by name, as scikit-learn expects."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; raises `ValueError` for an unknown one."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(f"no parameter {quoted(name)}; the parameters are {listed(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the constructor call with the parameters that differ from their defaults."""
        known = signature(type(self)).parameters
        changed = (f"{name}={value!r}" for name, value in self.get_params().items() if value is not known[name].default)
        return f"{type(self).__name__}({', '.join(changed)})"

    def set_fit_request(self, *, groups: bool | str | None) -> Self:
        """Say whether scikit-learn's metadata routing passes groups to `fit`."""
        return self._request("fit", groups)

    def set_score_request(self, *, groups: bool | str | None) -> Self:
        """Say whether scikit-learn's metadata routing passes groups to `score`."""
        return self._request("score", groups)

    def get_metadata_routing(self) -> Any:
        """Return the requests for scikit-learn's metadata routing: which methods take groups."""
        from sklearn.utils.metadata_routing import MetadataRequest

        requests = getattr(self, "_metadata_request", None)
        if requests is None:
            requests = MetadataRequest(owner=type(self).__name__)
            for method in (requests.fit, requests.score):
                method.add_request(param="groups", alias=None)
        return requests

    def _request(self, method: str, groups: bool | str | None) -> Self:
        requests = self.get_metadata_routing()
        getattr(requests, method).add_request(param="groups", alias=groups)
        self._metadata_request = requests  # scikit-learn's `clone` copies the attribute of this name
        return self

    def __sklearn_tags__(self) -> Any:
        """Return the estimator tags of scikit-learn."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=True), input_tags=InputTags())


def _array(values: Any, what: str) -> Any:
    if is_masked(values):
        raise ValueError(f"{what} has masked entries; fill them or leave their rows out")
    table = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if np.iscomplexobj(table):
        raise ValueError(f"Complex data not supported: {what} must be real numbers")
    return table


def _numbers(values: Any, what: str) -> FloatArray:
    """Return real numbers as float64; raises `ValueError` for other values and numbers that float64 would round."""
    table = _array(values, what)
    if table.dtype.kind in "mM":
        raise ValueError(f"{what} must be numbers, not dates or times ({table.dtype}); make numbers of them")
    if is_rounded(table):
        raise ValueError(f"{what} has {BEYOND_DOUBLES}")
    numbers = np.asarray(table, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{what} contains NaN or infinity")
    return numbers
