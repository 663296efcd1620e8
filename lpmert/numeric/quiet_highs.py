"""HiGHS without the words with which it greets.

The first object of HiGHS 1.16 in a process prints a notice to standard output before any option can be set; there it
would stand in front of the JSON that a command writes. The first object is therefore made here, with that stream
closed: when this module is imported, so in no thread of a search, and once in a process.
"""

import os

import highspy

__all__ = ["highspy"]


def _greet_in_silence() -> None:
    try:
        kept = os.dup(1)
    except OSError:  # standard output is closed: nothing can be printed
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 1)
        finally:
            os.close(nowhere)
        highspy.Highs()  # type: ignore[no-untyped-call]
    finally:
        os.dup2(kept, 1)
        os.close(kept)


_greet_in_silence()
