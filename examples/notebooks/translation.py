# %% [markdown]
# # Translation: corpus BLEU with a bound
#
# A small set of made-up lists in Moses' format. Corpus BLEU is no sum over sentences, yet it is proved, too.

# %%
import lpmert

nbest = lpmert.read("examples/translation/run1.best20.gz", references="examples/translation/reference", metric="bleu")
print(nbest)

# %%
result = lpmert.minimize(nbest, time_limit=60)
print(result.status.name, "BLEU", round(result.score, 2), "loss", round(result.loss, 4))

# %% [markdown]
# Bound and best loss as the search went:

# %%
lpmert.plots.save(lpmert.plots.outcome(result), "translation-progress.png")

# %% [markdown]
# Line searches from random starts, beside it:

# %%
for seed in range(3):
    och = lpmert.minimize(nbest, method=lpmert.methods.Och(restarts=5), seed=seed)
    print("och, seed", seed, round(och.score, 2))
