"""Requests join, leave, move, are preempted and come back in any order: each is watched as if it were alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sureenough.core.confidence import Monitor
from sureenough.core.pruning import Gate
from sureenough.engines.openai.logprobs import token_signals
from tests.requirements import require

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch")

from sureenough.engines.watch.protocol import K, MissingRecord, PathRecord, WatchRequest
from sureenough.vllm.monitor import BatchMonitor, DevicePaths, torch_signals
from sureenough.vllm.records import PathRecords
from tests.vllm.stored import record_of

VOCABULARY, END, ROWS, SLOTS = 32, 5, 4, 7


class Path:
    """A request, and the same path watched by core's own monitor."""

    def __init__(self, number: int, window: int, gate: Gate) -> None:
        self.request = WatchRequest(f"path-number-{number}", window, gate, trace=number % 2 == 0)
        self.output_tokens: list[int] = []
        self.alone, self.tier = Monitor(window), 0
        self.signals: list[tuple[float, float]] = []


class Batch(RuleBasedStateMachine):
    """An engine's batch, as vLLM keeps it: rows without gaps, the last one moved into a hole."""

    def __init__(self) -> None:
        super().__init__()
        self.records = PathRecords(SLOTS)
        self.monitor = BatchMonitor(SLOTS, 8, torch.device("cpu"), self.records)
        self.rng = np.random.default_rng(0)
        self.rows: list[Path] = []
        self.preempted: list[Path] = []
        self.ended: list[Path] = []
        self.number = 0

    @precondition(lambda self: len(self.rows) < ROWS)
    @rule(
        window=st.integers(1, 8),
        trust=st.sampled_from([0.05, 0.2, np.inf]),
        drop=st.sampled_from([-np.inf, 3.6, 4.0]),
        risk=st.sampled_from([np.inf, 0.2, 0.7]),
    )
    def join(self, window: int, trust: float, drop: float, risk: float) -> None:
        path = Path(self.number, window, Gate(trust, drop, risk))
        self.number += 1
        self.monitor.add(len(self.rows), path.request, END, path.output_tokens)
        self.rows.append(path)

    @precondition(lambda self: self.rows)
    @rule(at=st.integers(0, ROWS - 1), preempt=st.booleans())
    def leave(self, at: int, preempt: bool) -> None:
        at %= len(self.rows)
        path, last = self.rows[at], len(self.rows) - 1
        self.monitor.remove(at)
        if at != last:
            self.monitor.move(last, at, swap=False)
            self.rows[at] = self.rows[last]
        self.rows.pop()
        # More than the spare slots hold cannot be kept waiting.
        keep = preempt and path.output_tokens and not path.tier and len(self.preempted) < SLOTS - ROWS
        (self.preempted if keep else self.ended).append(path)

    @precondition(lambda self: self.preempted and len(self.rows) < ROWS)
    @rule()
    def come_back(self) -> None:
        path = self.preempted.pop(0)
        self.monitor.add(len(self.rows), path.request, END, path.output_tokens)
        known = len(self.rows) in self.monitor.rows
        self.rows.append(path)
        if not known:  # its slot was given away meanwhile
            assert isinstance(record_of(self.records, path.request.key), MissingRecord)
            self.ended.append(self.rows.pop())

    @precondition(lambda self: len(self.rows) > 1)
    @rule(one=st.integers(0, ROWS - 1), other=st.integers(0, ROWS - 1))
    def swap(self, one: int, other: int) -> None:
        one, other = one % len(self.rows), other % len(self.rows)
        if one != other:
            self.monitor.move(one, other, swap=True)
            self.rows[one], self.rows[other] = self.rows[other], self.rows[one]

    @precondition(lambda self: self.rows)
    @rule(discarded=st.integers(0, 15))
    def step(self, discarded: int) -> None:
        """One token per row, except for rows in the middle of their prompt, whose token is discarded."""
        logits = torch.from_numpy(self.rng.normal(size=(len(self.rows), VOCABULARY)).astype(np.float32) * 2)
        peak, conf = (part.tolist() for part in torch_signals(logits))
        before = logits.clone()
        self.monitor.step(logits)
        changed = (logits != before).nonzero().tolist()
        wanted = []
        for row, path in enumerate(self.rows):
            if discarded >> row & 1 and not path.tier:
                changed = [place for place in changed if place[0] != row]
                continue
            path.output_tokens.append(0)
            path.signals.append((peak[row], conf[row]))
            if not path.tier and path.alone.push(peak[row], conf[row]):
                path.tier = {None: 0, "drop": 1, "risk": 2}[path.request.gate.tier(path.alone)]
            if path.tier:
                wanted.append([row, END])
        assert changed == wanted

    @invariant()
    def every_path_has_a_record(self) -> None:
        for path in self.rows:
            record = record_of(self.records, path.request.key, len(path.output_tokens))
            assert isinstance(record, PathRecord)
            assert record.tier == path.tier
            if not path.tier:
                assert (record.lowest, record.tail) == (path.alone.lowest, path.alone.tail)
            assert path.request.trace is (record.signals is not None)
            if record.signals is not None:
                assert record.signals.tolist() == [list(pair) for pair in path.signals]
        assert len(self.monitor.rows) == len(self.rows)


Batch.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestBatch = Batch.TestCase


def test_steps_without_watched_requests_touch_nothing() -> None:
    monitor = BatchMonitor(4, 8, torch.device("cpu"))
    nothing: Any = object()  # not even looked at
    assert monitor.step(nothing) is nothing


@pytest.mark.parametrize("temperature", [0.01, 0.6, 5.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_closed_row_can_only_draw_its_end(temperature: float, dtype: torch.dtype) -> None:
    monitor = BatchMonitor(4, 8, torch.device("cpu"))
    monitor.add(1, WatchRequest("some-path", 1, Gate(drop=1e9)), END, [])
    logits = (torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(1)) * 30).to(dtype)
    logits[:, END] = 0  # not the likeliest of any row
    chances = torch.softmax(monitor.step(logits).float() / temperature, dim=-1)
    assert chances[1].tolist() == [float(token == END) for token in range(VOCABULARY)]
    assert bool((chances[[0, 2], END] < 1).all())


def test_a_path_without_an_end_token_is_not_watched() -> None:
    records = PathRecords(4)
    BatchMonitor(4, 8, torch.device("cpu"), records).add(0, WatchRequest("some-path", 1, Gate(drop=1.0)), None, [])
    assert record_of(records, "some-path") == MissingRecord("the model has no end token")


def test_signals_equal_the_clients() -> None:
    """The same two numbers as a client makes of the same log-probabilities sent as text."""
    logits = torch.randn(50, 259) * 4
    logits[3, 10:] = -torch.inf
    peak, conf = torch_signals(logits)
    top = torch.log_softmax(logits, dim=-1).topk(K).values
    for row, values in enumerate(top.tolist()):
        wanted = token_signals(values, K)
        assert (float(peak[row]), float(conf[row])) == pytest.approx(wanted, rel=1e-15)


def test_two_paths_with_one_key_have_no_record() -> None:
    """Either would get the other's numbers; the first goes on, without being read."""
    records = PathRecords(SLOTS)
    monitor = BatchMonitor(SLOTS, 8, torch.device("cpu"), records)
    for row in range(2):
        monitor.add(row, WatchRequest("the-same-key", 4, Gate()), END, [])
    assert list(monitor.rows) == [0]
    assert record_of(records, "the-same-key") == MissingRecord("two paths have the same key")


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="TRITON_INTERPRET=1 runs kernels without a GPU")
def test_a_device_takes_the_steps_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is not pinned here, and its events have always happened."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch.cuda, "Event", Mock)
    records = PathRecords(SLOTS), PathRecords(SLOTS)
    monitors = [BatchMonitor(SLOTS, 8, torch.device("cpu"), one) for one in records]
    monitors[1].paths = DevicePaths(SLOTS, 8, torch.device("cpu"))
    made: dict[str, list[int]] = {f"path-number-{row}": [] for row in range(3)}
    for monitor in monitors:
        for row, (key, tokens) in enumerate(made.items()):
            monitor.add(row, WatchRequest(key, 3 + row, Gate(drop=3.2 * row), trace=row == 1), END, tokens)
    rng = np.random.default_rng(1)
    for step in range(24):
        logits = torch.from_numpy(rng.normal(size=(4, VOCABULARY)).astype(np.float32) * 2)
        host, device = (monitor.step(logits.clone()) for monitor in monitors)
        assert torch.equal(host, device)
        if step == 5:
            for monitor in monitors:
                monitor.move(2, 3, swap=False)
        for tokens in made.values():
            tokens.extend([0] if step % 4 else [])  # the first of four tokens is discarded
    for key, tokens in made.items():
        host, device = (record_of(one, key, len(tokens)) for one in records)
        assert isinstance(host, PathRecord)
        assert isinstance(device, PathRecord)
        assert (host.tokens, host.tier) == (device.tokens, device.tier)
        assert device[1:3] + device[5:] == pytest.approx(host[1:3] + host[5:], rel=1e-6)
    assert {record.tier for key in made if isinstance(record := record_of(records[1], key), PathRecord)} == {0, 1}
