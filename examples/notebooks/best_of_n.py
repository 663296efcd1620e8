# %% [markdown]
# # Best of N: how to weight verifiers
#
# 240 programming puzzles with 16 candidate programs each, scored by eight verifiers that really ran. Which weighted sum
# of their scores picks the most right answers?

# %%
import numpy as np

import lpmert

nbest = lpmert.read("examples/best_of_n/puzzles.jsonl.gz")
within_reach = sum(
    bool(nbest.statistics[begin:end].min() == 0)
    for begin, end in zip(nbest.offsets[:-1], nbest.offsets[1:], strict=True)
)
print(nbest.n_lists, "puzzles,", within_reach, "of them with a right answer")

# %%
equal = np.ones(nbest.n_features) / np.maximum(nbest.dense_features().std(axis=0), 1e-12)
optimum = lpmert.minimize(nbest, method="choices")
for name, weights in {"equal weights": equal, "optimum": optimum.weights}.items():
    print(name, nbest.n_lists - int(lpmert.evaluate(nbest, weights).loss), "right")

# %% [markdown]
# How many answers change between both:

# %%
lpmert.plots.save(lpmert.plots.changes(nbest, equal, optimum.weights), "best-of-n-changes.png")

# %% [markdown]
# The optimum is fitted to these puzzles. `examples/best_of_n/rerank.py` measures what is left of it on unseen ones.
