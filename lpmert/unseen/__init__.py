"""Weights for lists that nobody has seen yet: averages over weights, and what to expect of them."""
