"""Losses on summed statistics."""
