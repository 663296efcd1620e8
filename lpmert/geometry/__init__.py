"""Envelopes, linear programs and cones."""
