"""Shared fixtures. Hypothesis runs without deadlines (machines are noisy) and repeatably."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from sureenough.data import BUILTIN_POOL
from sureenough.pools import Pool, Question
from tests.requirements import save_time

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=False
)
settings.load_profile("repeatable")

for _name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(_name, None)  # they put colours and progress into pipes, which tests compare with plain text

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's `&` leaves it, and commands inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """An idle worker takes tests from a busy one; each keeps most of a file's tests, and so its servers."""
    from xdist.scheduler.worksteal import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: tests of servers wait for timeouts, and another one's tests run meanwhile."""
    return (os.cpu_count() or 1) + 1


save_time()


@pytest.fixture
def preloaded_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of `bench` are forked from one that has imported what they need, which takes a second each."""
    if "forkserver" in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["sureenough.bench.paper", "scipy.special", "scipy.stats"])
        monkeypatch.setattr("sureenough.bench.pipeline.get_context", lambda _: context)


@pytest.fixture(scope="session")
def real_questions() -> list[Question]:
    """The built-in pool: 25 questions of GSM8K, then 25 of MATH-500."""
    return list(Pool(BUILTIN_POOL))
