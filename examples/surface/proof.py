"""Draw how a search closes the gap between its best weights and its bound, and where line searches end.

Usage: python proof.py NBEST PICTURE
"""

from __future__ import annotations

import sys
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

import lpmert

FEATURES = ["am", "lm", "words", "silences", "fillers"]
STARTS = 100
"""Line searches, each from one random start."""

BLUE, RED, GREY = "#0f766e", "#c2410c", "#94a3b8"


def ends_of_line_searches(nbest: lpmert.NBest) -> np.ndarray:
    """Return the losses [STARTS] at which MERT's line searches stop, without restarts."""
    method, rng = lpmert.methods.Och(restarts=0), np.random.default_rng(0)
    lists = (nbest.features[begin:end] for begin, end in pairwise(nbest.offsets))
    spread = np.mean([rows.std(axis=0) for rows in lists], axis=0)
    starts = rng.normal(size=(STARTS, nbest.n_features)) / spread
    return np.array([lpmert.minimize(nbest, method=method, initial_weights=start).loss for start in starts])


def main() -> None:
    """Draw the picture."""
    source, picture = sys.argv[1:]
    nbest = lpmert.read(source, segment="utterance", features=FEATURES, loss="errors")
    lpmert.minimize(nbest.restrict(slice(0, 20)))  # nothing is loaded in the search that is drawn
    result = lpmert.minimize(nbest)
    times, bounds, losses = np.array(result.trace).T
    times = 100 * np.append(times, result.seconds["total"]) / result.seconds["total"]
    bounds, losses = np.append(bounds, result.lower_bound), np.append(losses, result.loss)
    ends = ends_of_line_searches(nbest)

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(3, 2), layout="constrained")
    left.fill_between(times, bounds, losses, step="post", color=GREY, alpha=0.25, linewidth=0)
    left.step(times, losses, where="post", color=RED, linewidth=2, label="best weights so far")
    left.step(times, bounds, where="post", color=BLUE, linewidth=2, label="no weights make fewer errors")
    left.plot(times[-1], result.loss, "o", color=BLUE, markersize=8)
    place, aside = (times[-1], result.loss), {"textcoords": "offset points", "ha": "right", "va": "top"}
    left.annotate(f"proved: {result.loss:g}", place, (-10, -16), **aside)
    left.set_xlabel("time of the search, in percent")
    left.set_ylabel("word errors")
    left.set_title("The bound meets the best weights", loc="left", fontweight="bold")
    left.legend(frameon=False, loc="lower right")

    values, counts = np.unique(ends - result.loss, return_counts=True)
    right.axhline(0, color=BLUE, linewidth=2)
    for value, count in zip(values, counts, strict=True):
        across = np.arange(count) - (count - 1) / 2
        right.plot(across, np.full(count, value), "o", color=RED, markersize=4, alpha=0.8)
    missed = int((ends > result.loss).sum())
    right.set_title(f"{missed} of {STARTS} line searches miss it", loc="left", fontweight="bold")
    right.set_yscale("symlog", linthresh=2)
    right.set_yticks([0, 1, 2, 5, 10, 20, 50, 100, 200], ["optimum", "1", "2", "5", "10", "20", "50", "100", "200"])
    right.set_ylim(-0.4, 400)
    right.set_ylabel("word errors above the proved optimum")
    right.set_xticks([])
    right.set_xlabel("one dot a line search, from a random start")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=130)
    print(f"{result.loss:g} errors, {result.status.name}; {missed} of {STARTS} line searches stop above")


if __name__ == "__main__":
    main()
