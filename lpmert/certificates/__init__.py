"""Certificates: their format, the checker and the writers."""
