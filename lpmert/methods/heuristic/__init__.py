"""Heuristics that lpmert is compared with; they prove nothing."""
