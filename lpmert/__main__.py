"""Runs the command line as `python -m lpmert`."""

from lpmert.cli import main

main(prog_name="lpmert")
