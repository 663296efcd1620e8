"""Which weights of verifiers choose right answers on puzzles that they were not fitted to?

    rerank.py FILE [--folds 5] [--repeat 5] [--puzzles N] [--seconds 60] [--table FILE]

Compares exact weights, averaged ones, equal ones, logistic regression, a grid and single verifiers by repeated
cross-validation; needs lpmert and scikit-learn. Everything that is chosen is chosen on the puzzles fitted to: the
scale of scores, the strength of the prior, by cross-validation within.
"""

import argparse

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lpmert

FEWER_IS_BETTER = ("length",)
STRENGTHS = np.logspace(-3, 3, 7)


def deviations(lists):
    """Return how much each score varies within lists [D], 1 where it does not."""
    starts = lists.offsets[:-1]
    means = np.add.reduceat(lists.features, starts, axis=0) / np.diff(lists.offsets)[:, None]
    found = (lists.features - means[lists.list_index]).std(axis=0)
    return np.where(found > 0.0, found, 1.0)


def equal(lists, _seed):
    """Return weights that add all scores, brought to the same spread."""
    signs = [-1.0 if name in FEWER_IS_BETTER else 1.0 for name in lists.names]
    return signs / deviations(lists)


def alone(name):
    """Return what chooses by one score alone."""
    return lambda lists, _seed: [float(one == name) for one in lists.names]


def logistic(lists, _seed):
    """Return the weights of a logistic regression that tells right candidates from wrong ones."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    inner = GridSearchCV(model, {"logisticregression__C": STRENGTHS}, cv=GroupKFold(5), scoring="neg_log_loss")
    inner.fit(lists.features, lists.statistics[:, 0] == 0.0, groups=lists.list_index)
    scaler, fitted = (step for _, step in inner.best_estimator_.steps)
    return fitted.coef_[0] / scaler.scale_


def compared(lists, folds, repeat, seconds):
    """Return the comparison."""
    return lpmert.compare(
        lists,
        {
            "averaged": "average",
            "line searches": "och",
            "grid": "grid",
            "listwise logistic": lpmert.methods.Likelihood(folds=5),
        },
        callables={
            "logistic": logistic,
            "equal": equal,
            "examples alone": alone("examples"),
            "majority vote": alone("votes"),
        },
        optimum="choices",
        seeds=1,
        cv=folds,
        repeat=repeat,
        optimum_limits=lpmert.Limits(time_limit=seconds),
    )


def table(found, lists):
    """Return the rows of a Markdown table: right answers, in percent of those puzzles that have one."""
    starts, losses = lists.offsets[:-1], lists.statistics[:, 0]
    beyond = np.minimum.reduceat(losses, starts).sum()
    rest = lists.n_lists - beyond
    rows = [
        "| weights | right here | right on unseen puzzles | difference | 95 % | p |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]

    def share(loss):
        return f"{100.0 * (lists.n_lists - loss) / rest:.1f} %"

    for entry in found.cross_validation.methods:
        here = "-" if entry.here is None else share(entry.here)
        cells = ["-", "-", "-"]
        if entry.difference is not None:
            change, least, most = (
                "-" if end is None else f"{-100.0 * end / rest:+.1f}"
                for end in (entry.difference.value, entry.difference.high, entry.difference.low)
            )
            cells = [change, f"{least} to {most}", "-" if entry.p_value is None else f"{entry.p_value:.3f}"]
        rows.append(f"| {' | '.join([entry.name, here, share(entry.loss.value), *cells])} |")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--puzzles", type=int)
    parser.add_argument("--seconds", type=float, default=60.0, help="for the optima of all parts together")
    parser.add_argument("--table")
    asked = parser.parse_args()
    lists = lpmert.read(asked.file)
    if asked.puzzles:
        lists = lists.restrict(slice(0, asked.puzzles))
    found = compared(lists, asked.folds, asked.repeat, asked.seconds)
    rows = table(found, lists)
    print(*rows, sep="\n")
    print(f"optimum: {found.optimum.loss:g} wrong, {found.optimum.status.value}")
    print(*found.cross_validation.notes, sep="\n")
    if asked.table:
        with open(asked.table, "w", encoding="utf-8") as file:
            file.writelines(f"{row}\n" for row in rows)


if __name__ == "__main__":
    main()
