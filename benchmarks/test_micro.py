"""Small parts, timed by pytest-benchmark: `pytest benchmarks --benchmark-enable`. For looking, not for judging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sureenough.answers import classes
from sureenough.core.confidence import Monitor, scan
from sureenough.core.options import RunOptions
from sureenough.core.pruning import Stratified
from sureenough.data import BUILTIN_POOL
from sureenough.drivers import replay
from sureenough.pools import Pool, Question
from sureenough.spec import parse
from sureenough.vllm.kernels.steps import RESULT_COLUMNS
from sureenough.vllm.records import PathRecords

Benchmark = Callable[..., Any]


@pytest.fixture(scope="module")
def question() -> Question:
    """A real question of the built-in pool."""
    return list(Pool(BUILTIN_POOL))[30]


def test_monitor_1000_tokens(benchmark: Benchmark) -> None:
    signals = list(zip(np.random.default_rng(0).random(1000).tolist(), range(1000), strict=True))

    def push() -> Monitor:
        monitor = Monitor(64)
        for peak, conf in signals:
            monitor.push(peak, conf)
        return monitor

    assert benchmark(push).tokens == 1000


def test_scan_of_one_path(benchmark: Benchmark, question: Question) -> None:
    path = question.paths[0]
    assert benchmark(scan, np.asarray(path.peak), np.asarray(path.conf), 64).tokens == path.tokens


def test_calibration_on_sixteen_paths(benchmark: Benchmark, question: Question) -> None:
    windows = [path.windows(64) for path in question.paths[:16]]
    assert benchmark(Stratified(), windows).drop > 0


@pytest.mark.parametrize("name", ["sc", "ac", "ddc", "sure"])
def test_replay_of_one_question(benchmark: Benchmark, question: Question, name: str) -> None:
    options = RunOptions(paths=64, window=64)
    assert benchmark(replay, question.paths, parse(name), options).started > 0


def test_classes_of_one_question(benchmark: Benchmark, question: Question) -> None:
    assert len(benchmark(classes, [path.answer for path in question.paths])) == 64


def test_512_steps_of_512_traced_paths(benchmark: Benchmark) -> None:
    slots, results = np.arange(512), np.random.default_rng(0).random((512, RESULT_COLUMNS))
    counts = [np.full(512, tokens, dtype=np.int32) for tokens in range(512)]

    def write() -> PathRecords:
        records = PathRecords(512)
        for slot in range(512):
            records.start_path(slot, f"path-{slot:04}", trace=True)
        for tokens_before in counts:
            records.add_step(slots, tokens_before, results)
        return records

    (record,) = benchmark(write).read([("path-0511", None)])
    assert record.signals.tolist() == [results[511, :2].tolist()] * 512
