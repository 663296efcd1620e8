# %% [markdown]
# # Unseen lists: the optimum and the average
#
# Few lists and five features: the optimum of 60 utterances, and the average of `lpmert.tune`, on the other 190.

# %%
import numpy as np
from matplotlib.figure import Figure

import lpmert

nbest = lpmert.read(
    "examples/asr/nbest.tsv.gz",
    segment="utterance",
    features=["am", "lm", "words", "silences", "fillers"],
    loss="errors",
)
order = np.random.default_rng(1).permutation(nbest.n_lists)
seen, unseen = nbest.restrict(np.sort(order[:60])), nbest.restrict(np.sort(order[60:]))

# %%
tuned = lpmert.tune(seen, held_out=unseen, time_limit=60)
losses = {
    "optimum": [tuned.optimum.loss, lpmert.evaluate(unseen, tuned.optimum.weights).loss],
    "average": [lpmert.evaluate(one, tuned.averaged.weights).loss for one in (seen, unseen)],
}
print(losses)

# %%
figure = Figure(figsize=(5, 3.4), layout="constrained")
axes = figure.subplots()
for name, (here, there) in losses.items():
    axes.plot(["60 seen", "190 unseen"], [here / 60, there / 190], marker="o", label=name)
axes.set(ylabel="word errors an utterance")
axes.legend(frameon=False)
lpmert.plots.save(figure, "unseen.png")
