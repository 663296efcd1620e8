"""What holds for all tests."""

import atexit
import gc
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from searches import short_descent, two_processes

from lpmert import limits

# The same examples every time, however long the machine takes for them. `--hypothesis-profile=default` draws others.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
LONG = ("test_methods", "test_faults", "test_workers", "test_documents", "test_limits", "test_rashomon")
"""Files that take long, the longest first: no worker of `-n --dist loadfile --no-loadscope-reorder` ends with one."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The lists of `commands.py` in a file."""
    from commands import TABLE

    path = tmp_path / "lists.tsv"
    path.write_text(TABLE)
    return path


@pytest.fixture(scope="module")
def poor_start() -> Iterator[None]:
    """Let the searches of a module start from weights that leave them much to do."""
    with short_descent():
        yield


@pytest.fixture(scope="module")
def poorest_start() -> Iterator[None]:
    """The same, also for ratios."""
    with short_descent(one=True):
        yield


@pytest.fixture(scope="module")
def distributed() -> Any:
    """The library, which takes long to import."""
    return pytest.importorskip("distributed", reason="needs lpmert[dask]")


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    """A Dask cluster of two processes, which take a while to start."""
    with two_processes() as found:
        yield found


@pytest.fixture
def mortal() -> Iterator[Any]:
    """The same for one test that kills workers: the cluster gives up on those that die while they start."""
    with two_processes() as found:
        yield found


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Handle Ctrl-C as in a terminal; a process in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def fresh_memory(monkeypatch: pytest.MonkeyPatch) -> int:
    """Count the memory of the process from 100 MiB on, whatever earlier tests left; return this base.

    A share of the limit is kept free: near what a large process holds, nothing would be left.
    """
    resident, before = limits.resident, limits.resident()
    base = 100 << 20
    monkeypatch.setattr(limits, "resident", lambda: max(0, base + resident() - before))
    return base


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Switch garbage collection off while tests are collected: these are thousands of objects, and no garbage."""
    gc.disable()
    found = yield
    gc.freeze()
    atexit.register(gc.unfreeze)  # or what is left at the end counts as leaked
    gc.enable()
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long; give slow tests half an hour. The limit of all others is in pyproject.toml."""
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1800))
