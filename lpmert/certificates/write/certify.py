"""Write the certificate of a result: a second pass that knows the optimum and records why nothing undercuts it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lpmert.certificates.format import BOXES, Header, Record, certificate_writer
from lpmert.certificates.lattices import lists_of, lost_on_paths
from lpmert.certificates.lists import ROW_BYTES, ProofLists, basis_of, rounded, rows_with_limits
from lpmert.certificates.verify import claim_of, root_node, with_zeros, zeros_of
from lpmert.certificates.write.tree import Anywhere, Undercut, grow_boxes, grow_selections
from lpmert.errors import CertificateError, DataError, MethodError
from lpmert.limits import room_for
from lpmert.metrics.base import Metric
from lpmert.metrics.contract import metric_of
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.nbest import NBest
from lpmert.model.presolve import column_scales, independent_columns
from lpmert.model.region import Region, limits_of
from lpmert.numeric import rational
from lpmert.numeric.lists import first_best, varying_columns
from lpmert.quoting import quoted
from lpmert.result import Result, Status

OnStage = Callable[[str, int, int | None], object]  # gets a stage, how much of it is done, and of how much if known
logger = logging.getLogger(__name__)

SELECTIONS = "selections"  # a tree that divides no weights but selections; the other kind is a tree over boxes
_FEW_LISTS = 12  # problems with no more open lists get a tree over selections

_MOST_BOX_FEATURES = 7
_MOST_PAIR_FEATURES = 4
"""So do problems with more features than the first number or, if no list has more than two hypotheses, the second."""


def write_certificate(
    path: str | Path,
    nbest: NBest,
    result: Result,
    *,
    metric: str | Metric | None = None,
    ties: str = "first",
    region: Region | None = None,
    kind: str | None = None,
    at_most: int = 0,
    budget: Mapping[str, Fraction] | None = None,
    second: Any = None,
    on_stage: OnStage = lambda *_: None,
) -> None:
    """Write a certificate of the optimum that an exact method found on these lists.

    The arguments are those of the run. kind of tree: BOXES or SELECTIONS, by default what suits the shape of the
    problem. at_most: how many weights may be other than 0; 0 if that is not limited. budget: the name of a second sum,
    and the most that it may be; second: its numbers. If the run rounded losses, or if the best weights are too fine for
    doubles, the certificate states a bound below the loss.

    Raises `MethodError` unless the result is an optimum of these lists, and `DataError` if the file cannot be written.
    """
    limits, equations = certified_limits(region, nbest.names)
    measure = metric_of(metric, nbest.statistic_names)
    try:
        claim = claim_of(measure, nbest, ties, dict(budget or {}), second)
    except CertificateError as error:
        raise MethodError(str(error)) from error
    _check_result(result, nbest.fingerprint)
    if kind not in (None, BOXES, SELECTIONS):
        raise MethodError(f"no kind of tree {quoted(kind)}; choose {BOXES} or {SELECTIONS}")
    room_for(ROW_BYTES * nbest.n_hypotheses, "a certificate, which goes by all hypotheses in exact arithmetic,")
    header = Header(
        fingerprint=nbest.fingerprint,
        metric=measure.signature,
        ties=ties,
        found_by=result.signature,
        loss=Fraction(0),
        bound=Fraction(0),
        weights=dict(zip(nbest.names, result.weights.tolist(), strict=True)),
        exponents={},
        limits=limits,
        equations=equations,
        at_most=at_most,
        budget=dict(budget or {}),
    )

    def spanned(zero: Sequence[str] = ()) -> tuple[dict[str, int], ProofLists]:
        """Return the exponents and the lists of a proof in which the weights of these features are 0."""
        region = with_zeros(header, zero)
        exponents = _exponents(nbest, *region)
        return exponents, ProofLists(nbest, claim, ties, exponents, *region)

    try:
        n_sets, zeros = zeros_of(header, nbest) if at_most else (0, iter(()))
        exponents, lists = spanned([name for name, weight in header.weights.items() if at_most and not weight])
        sums = lists.attained(result.weights.tolist())
    except CertificateError as error:
        raise MethodError(f"there are no weights to certify: {error}") from error
    loss = claim.loss(sums)
    header = replace(header, loss=loss, bound=loss, exponents=exponents, sums=sums if claim.stated else [])
    on_record = partial(on_stage, "records of the certificate")
    while True:
        claim.set_bound(header.sums, header.bound)
        lists.weigh()
        kind = (kind or _suitable_kind(lists)) if exponents else SELECTIONS
        try:
            with certificate_writer(path, header, (lambda *_: None) if at_most else on_record) as write:
                for number, zero in enumerate(zeros, 1):
                    on_stage("sets of features certified", number, n_sets)
                    exponents, lists = spanned(zero)
                    lists.weigh()
                    write({"exponents": exponents})
                    _grow(lists, _suitable_kind(lists), write)
                if not at_most:
                    _grow(lists, kind, write)
            return
        except Undercut as found:
            if at_most or budget:
                raise MethodError("nothing to certify: in exact arithmetic, other weights lose less") from found
            header = replace(header, **_restated(lists, found))
            logger.info("the bound is %s, below the loss %s", float(header.bound), float(loss))


def _restated(lists: ProofLists, found: Undercut) -> dict[str, Any]:
    """Return the header's bound and sums for a selection that undercuts the claim."""
    if not lists.claim.stated:
        return {"bound": lists.claim.loss(lists.sums([found.cost]))}
    weights = rational.to_integers([found.weights])[0] if isinstance(found.weights[0], float) else found.weights
    best = first_best(lists.whole @ np.array(weights, dtype=object), lists.offsets[:-1])[: lists.n_lists]
    sums = [sum(column) for column in zip(*(lists.values[row] for row in best.tolist()), strict=True)]
    return {"bound": lists.claim.loss(sums), "sums": sums}


def write_certificate_of_graphs(
    path: str | Path,
    problem: LatticeProblem,
    result: Result,
    *,
    on_stage: OnStage = lambda *_: None,
) -> None:
    """Write a certificate of the optimum over all paths: that of the N-best lists of all paths that may win.

    Raises `CertificateError` if paths are too many for exact arithmetic, and otherwise as `write_certificate`.
    """
    graphs = problem.lattices
    _check_result(result, graphs.fingerprint)
    limits, equations = certified_limits(problem.region, graphs.names)
    try:
        lost_on_paths(problem, equations, result.weights.tolist())
    except CertificateError as error:
        raise MethodError(f"there are no weights to certify: {error}") from error
    on_links = partial(on_stage, "links of lattices looked through for paths that may win")
    lists = lists_of(graphs, problem.given_metric, limits, equations, on_links)
    result = replace(result, fingerprint=lists.fingerprint)
    write_certificate(path, lists, result, metric=problem.metric, region=problem.region, on_stage=on_stage)


def _check_result(result: Result, fingerprint: str) -> None:
    """Raise `DataError` unless this is a result, and `MethodError` unless it is an optimum of the data."""
    if not isinstance(result, Result):
        raise DataError(f"the second argument must be a Result, not {type(result).__name__}; find one with minimize")
    if result.status not in (Status.OPTIMAL, Status.OPTIMAL_TO_TOLERANCE):
        raise MethodError(f"there is no optimum to certify ({result.message})")
    if result.fingerprint != fingerprint:
        raise MethodError("the result is that of other lists")


def refuse_cosine(region: Region | None) -> None:
    """Raise `MethodError` for a region with a cosine other than 0, which is a linear limit."""
    if region is not None and region.cosine:
        raise MethodError("certificates cover no cosine; search a region of bounds or linear limits instead")


def certified_limits(region: Region | None, names: Sequence[str]) -> tuple[list[list[float]], list[list[Fraction]]]:
    """Return the limits [k, D] and equations [e, D] of a region; raises `MethodError` if none can be certified."""
    if region is None:
        return [], []
    refuse_cosine(region)
    limits = limits_of(region, names)
    basis, _ = basis_of(limits.exact_equations, len(names))
    used = [k for k, row in enumerate(limits.exact_rows) if (np.array(row, dtype=object) @ basis).any()]
    rows: list[list[float]] = limits.rows[used].tolist()
    exact = [limits.exact_rows[k] for k in used]
    if any(tuple(map(Fraction, row)) != exact_row for row, exact_row in zip(rows, exact, strict=True)):
        raise MethodError(
            "certificates hold limits in double precision, and these need more, relative to the weight or sum that is "
            "fixed; give numbers with fewer digits, such as 0.25 for 0.3"
        )
    return rows, [list(row) for row in limits.exact_equations]


def _grow(lists: ProofLists, kind: str, add: Callable[[Record], None]) -> None:
    """Add the records of a whole tree; raises `Undercut` if an attainable selection undercuts the claim."""
    if kind == SELECTIONS:
        grow_selections(lists, root_node(lists), Anywhere(lists), add)
    else:
        grow_boxes(lists, add)


def _exponents(nbest: NBest, limits: list[list[float]], equations: list[list[Fraction]]) -> dict[str, int]:
    """Return the features that span all others, each with the power of two that scales it to about 1 within lists."""
    try:
        whole, offsets, free = rows_with_limits(nbest, limits, equations)
    except CertificateError as error:
        raise MethodError(f"these equations cannot be certified: {error}") from error
    rows, _ = rounded(whole)
    columns = varying_columns(rows, offsets)
    if not equations:  # with equations, rows are rounded
        columns = columns[independent_columns(rows[:, columns], offsets)]
    scales = column_scales(rows[:, columns], offsets)
    exponents = (np.frexp(scales)[1] - 1).tolist()
    return {nbest.names[free[d]]: exponent for d, exponent in zip(columns.tolist(), exponents, strict=True)}


def _suitable_kind(lists: ProofLists) -> str:
    n_features = lists.features.shape[1]
    sizes = np.diff(lists.offsets)
    open_lists = int(np.sum(np.maximum.reduceat(lists.worth, lists.offsets[:-1], axis=1).any(axis=0)))
    if n_features <= 2:
        return BOXES if n_features else SELECTIONS
    most = _MOST_PAIR_FEATURES if (sizes <= 2).all() else _MOST_BOX_FEATURES
    return SELECTIONS if n_features > most or open_lists <= _FEW_LISTS else BOXES
