"""Weights for unseen lists: averages over weights, and estimates of what they will cost."""
