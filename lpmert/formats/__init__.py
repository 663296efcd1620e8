"""Readers and writers of N-best lists."""

from lpmert.formats.format import Format as Format
