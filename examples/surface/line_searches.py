"""Draw the loss over two weights of the speech lists, the proved optimum, and the ways of Och's line searches to it.

Usage: python line_searches.py NBEST PICTURE
"""

from __future__ import annotations

import sys

import lpmert

STARTS = ({"lm": 1, "words": 30}, {"lm": 19, "words": 45}, {"lm": 20, "words": 5}, {"lm": -4, "words": -60})
"""Where the searches begin, for am = 1."""


def descend(nbest: lpmert.NBest, weights: dict[str, float]) -> list[dict[str, float]]:
    """Return all weights that a search passes which moves one weight at a time to where the loss is least."""
    path, loss = [weights], lpmert.evaluate(nbest, weights).loss
    while True:
        found = []
        for name in STARTS[0]:
            others = {other: weight for other, weight in weights.items() if other != name}
            best = lpmert.minimize(nbest, region=lpmert.Region(fixed=others))
            scaled = best.times(best.factor_to("am", 1.0))
            found.append((best.loss, scaled.by_name))
        least, there = min(found, key=lambda one: one[0])
        if not least < loss:
            return path
        weights, loss = there, least
        path.append(weights)


def main() -> None:
    """Draw the picture."""
    source, picture = sys.argv[1:]
    nbest = lpmert.read(source, segment="utterance", features=["am", "lm", "words"], loss="errors")
    optimum = lpmert.minimize(nbest)
    paths = [descend(nbest, {"am": 1.0, **start}) for start in STARTS]
    losses = [lpmert.evaluate(nbest, path[-1]).loss for path in paths]
    named = {f"line searches {name}: {loss:g}": path for name, loss, path in zip("ABCD", losses, paths, strict=True)}
    scaled = optimum.times(optimum.factor_to("am", 1.0))
    figure = lpmert.plots.surface(scaled, nbest, ("lm", "words"), paths=named)
    figure.axes[0].set_title("Word errors of 250 utterances, for am = 1")
    lpmert.plots.save(figure, picture)


if __name__ == "__main__":
    main()
