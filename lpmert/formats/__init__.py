"""Readers and writers of N-best lists."""
