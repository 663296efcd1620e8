# %% [markdown]
# # Speech recognition: what are the recogniser's own weights worth?
#
# 250 utterances with the 100 best hypotheses each. The recogniser adds up an acoustic score, a language model score and
# a number of words, with weights 1, 9.5 and -0.63.

# %%
import lpmert

nbest = lpmert.read(
    "examples/asr/nbest.tsv.gz", segment="utterance", features=["am", "lm", "words"], loss="errors", text="text"
)
own = {"am": 1, "lm": 9.5, "words": -0.6296}
print(nbest.n_lists, "utterances;", lpmert.evaluate(nbest, own).loss, "errors with the recogniser's own weights")

# %% [markdown]
# The least number of errors that any weights make, proved:

# %%
result = lpmert.minimize(nbest, initial_weights=own)
print(result.status.name, result.loss, (result.weights * result.factor_to("am", 1)).round(2))

# %% [markdown]
# The loss is constant in cells. Around the optimum, over two of the weights:

# %%
scaled = result.times(result.factor_to("am", 1))
lpmert.plots.save(lpmert.plots.surface(scaled, nbest, ("lm", "words")), "speech-surface.png")

# %% [markdown]
# Along the language model's weight alone, and what changes for those who switch to the optimum:

# %%
lpmert.plots.save(lpmert.plots.profile(result, nbest, "lm"), "speech-profile.png")
