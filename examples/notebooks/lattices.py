# %% [markdown]
# # Lattices: all paths instead of the N best
#
# Twelve lattices with up to 10^14 paths each. Weights tuned on their N best paths, judged on all of them.

# %%
from matplotlib.figure import Figure

import lpmert

lattices = lpmert.load_lattices("examples/speech/lattices", references="examples/speech/text")
region = lpmert.Region(fixed={"acoustic": 1}, bounds={"lm": (1, 30), "words": (-20, 20)})
proved = lpmert.minimize(lattices, region=region)
print(proved.status.name, proved.loss, "errors over all paths")

# %%
before = {"acoustic": 1, "lm": 9.5, "words": 0}
counts = [1, 3, 10, 30, 100]
fitted, judged = [], []
for count in counts:
    found = lpmert.minimize(lpmert.n_best(lattices, before, n=count), region=region)
    fitted.append(found.loss)
    judged.append(lpmert.evaluate(lattices, found.weights).loss)
print(list(zip(counts, fitted, judged, strict=True)))

# %%
figure = Figure(figsize=(5, 3.4), layout="constrained")
axes = figure.subplots()
axes.plot(counts, fitted, marker="o", label="on the lists")
axes.plot(counts, judged, marker="s", label="over all paths")
axes.axhline(proved.loss, linestyle="--", color="grey", label="proved over all paths")
axes.set(xscale="log", xlabel="paths a list", ylabel="word errors")
axes.legend(frameon=False)
lpmert.plots.save(figure, "lattices.png")
