"""Heuristics from the literature and today's optimisers, to be judged by their distance to the proved optimum."""
