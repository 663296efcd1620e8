"""Tests of what is refused, a case for each row: the error, its message, and the call that leads to it."""

from collections.abc import Callable, Iterable

import pytest


def refused(rows: Iterable[tuple[type[Exception], str, Callable[[], object]]]) -> Callable[..., None]:
    table = list(rows)

    @pytest.mark.parametrize(("error", "message", "call"), table, ids=[message for _, message, _ in table])
    def test(error: type[Exception], message: str, call: Callable[[], object]) -> None:
        with pytest.raises(error, match=message):
            call()

    return test
