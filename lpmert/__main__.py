"""Runs the command line as `python -m lpmert`."""

from lpmert.cli.main import main

main(prog_name="lpmert")
