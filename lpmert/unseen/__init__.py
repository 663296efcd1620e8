"""Weights for unseen lists: averages over weights, and estimates of their loss."""
