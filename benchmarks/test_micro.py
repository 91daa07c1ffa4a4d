"""Small parts, timed by pytest-benchmark: `pytest benchmarks --benchmark-enable`. For looking, not for judging."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
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
from sureenough.vllm.sampled_tokens import SampledTokens, TokenTexts

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


def test_a_beginning_among_512_sampled_sequences(benchmark: Benchmark) -> None:
    """Sequences of 1,000 tokens, of which the first 900 are the same, and a few letters more."""
    rng, memory = np.random.default_rng(0), SampledTokens(TokenTexts(Letters()))
    common = rng.integers(97, 123, 900).tolist()
    sampled = [common + rng.integers(97, 123, 100).tolist() for _ in range(512)]
    for ids in sampled:
        sequence = memory.begin([1], "")
        sequence.add(ids)
        memory.keep([1], sequence)
    beginnings = cycle([("".join(map(chr, ids[:950])) + "\n\\boxed{", ids[:950]) for ids in sampled])

    def begin() -> bool:
        text, ids = next(beginnings)
        return bool(memory.begin([1], text).ids[:950].tolist() == ids)

    assert benchmark(begin)


class Letters:
    """A tokenizer with a token per character."""

    def encode(self, text: str, **_: object) -> list[int]:
        return list(map(ord, text))

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(map(chr, ids))
