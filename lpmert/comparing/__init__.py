"""Comparisons of methods, with the defaults that the command line shows."""

DEFAULT_METHODS = ("och", "average", "annealing", "msr", "grid")
DEFAULT_ON_LATTICES = ("och", "average", "nelder-mead")
SEEDS = 10
OPTIMUM_SECONDS = 60.0
REPLICATIONS = 1000
REPETITIONS = 10
