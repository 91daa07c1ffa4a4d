"""Requests join, leave, move, are preempted and come back in any order: each is watched as if it were alone."""

from __future__ import annotations

import os
from types import SimpleNamespace
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
from sureenough.vllm.processor import V1Processor, WatchProcessor
from sureenough.vllm.records import PathRecords
from tests.vllm.stored import record_of

VOCABULARY, END, ROWS, SLOTS = 32, 5, 4, 7


CONFIG: Any = SimpleNamespace(
    speculative_config=None, parallel_config=SimpleNamespace(), scheduler_config=SimpleNamespace(max_num_seqs=ROWS),
    model_config=SimpleNamespace(get_vocab_size=lambda: VOCABULARY),
)  # fmt: skip
CPU = torch.device("cpu")
PROMPT = 3
"""Tokens of every prompt."""


class Path:
    """A request, and the same path watched by core's own monitor."""

    def __init__(self, number: int, window: int, gate: Gate) -> None:
        self.request = WatchRequest(f"path-number-{number}", window, gate, trace=number % 2 == 0)
        arguments = self.request.to_arguments()
        self.params = SimpleNamespace(extra_args=arguments, eos_token_id=END, stop_token_ids=None)
        self.output_tokens: list[int] = []
        self.alone, self.tier = Monitor(window), 0
        self.signals: list[tuple[float, float]] = []
        self.place = self.prefilled = 0


class Batch(RuleBasedStateMachine):
    """An engine's batch of rows, as a model runner keeps it."""

    processor: Any

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)
        self.rows: list[Path] = []
        self.preempted: list[Path] = []
        self.number = 0
        self.begin()

    def begin(self) -> None:
        raise NotImplementedError

    def joined(self, path: Path) -> None:
        raise NotImplementedError

    def left(self, at: int) -> None:
        raise NotImplementedError

    def apply(self, logits: torch.Tensor, unread: list[bool]) -> None:
        """One step; the prompts of some rows are not read to their end."""
        raise NotImplementedError

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
        self.joined(path)

    @precondition(lambda self: self.rows)
    @rule(at=st.integers(0, ROWS - 1), preempt=st.booleans())
    def leave(self, at: int, preempt: bool) -> None:
        path = self.rows[at % len(self.rows)]
        self.left(at % len(self.rows))
        if preempt and path.output_tokens and not path.tier:
            self.preempted.append(path)

    @precondition(lambda self: self.preempted and len(self.rows) < ROWS)
    @rule()
    def come_back(self) -> None:
        path = self.preempted.pop(0)
        self.joined(path)
        if isinstance(self.record(path), MissingRecord):  # its slot was given away meanwhile
            self.left(self.rows.index(path))

    @precondition(lambda self: self.rows)
    @rule(unread=st.integers(0, 15))
    def step(self, unread: int) -> None:
        """One token per row, except for rows in the middle of their prompt, whose token is discarded."""
        logits = torch.from_numpy(self.rng.normal(size=(len(self.rows), VOCABULARY)).astype(np.float32) * 2)
        peak, conf = (part.tolist() for part in torch_signals(logits))
        before = logits.clone()
        skipped = [bool(unread >> row & 1) and not path.tier for row, path in enumerate(self.rows)]
        self.apply(logits, skipped)
        changed = [place for place in (logits != before).nonzero().tolist() if not skipped[place[0]]]
        wanted = []
        for row, path in enumerate(self.rows):
            if skipped[row]:
                continue
            path.output_tokens.append(0)
            path.signals.append((peak[row], conf[row]))
            if not path.tier and path.alone.push(peak[row], conf[row]):
                path.tier = {None: 0, "drop": 1, "risk": 2}[path.request.gate.tier(path.alone)]
            if path.tier:
                wanted.append([row, END])
        assert changed == wanted

    def record(self, path: Path) -> PathRecord | MissingRecord | None:
        return record_of(self.processor.monitor.records, path.request.key, len(path.output_tokens))

    @invariant()
    def every_path_has_a_record(self) -> None:
        for path in self.rows:
            record = self.record(path)
            assert isinstance(record, PathRecord)
            assert record.tier == path.tier
            if not path.tier:
                assert (record.lowest, record.tail) == (path.alone.lowest, path.alone.tail)
            assert path.request.trace is (record.signals is not None)
            if record.signals is not None:
                assert record.signals.tolist() == [list(pair) for pair in path.signals]


class FirstRunner(Batch):
    """Rows without gaps: the last one moves into a hole, and two may exchange their places."""

    def begin(self) -> None:
        self.processor = V1Processor(CONFIG, CPU, ROWS, check=lambda: None)

    def changed(self, **changes: Any) -> None:
        self.processor.update_state(SimpleNamespace(**{"removed": [], "added": [], "moved": []} | changes))

    def joined(self, path: Path) -> None:
        self.changed(added=[(len(self.rows), path.params, None, path.output_tokens)])
        self.rows.append(path)

    def left(self, at: int) -> None:
        last = len(self.rows) - 1
        self.changed(removed=[at], moved=[(last, at, SimpleNamespace(name="UNIDIRECTIONAL"))] if at != last else [])
        self.rows[at] = self.rows[last]
        self.rows.pop()

    @precondition(lambda self: len(self.rows) > 1)
    @rule(one=st.integers(0, ROWS - 1), other=st.integers(0, ROWS - 1))
    def swap(self, one: int, other: int) -> None:
        one, other = one % len(self.rows), other % len(self.rows)
        if one != other:
            self.changed(moved=[(one, other, SimpleNamespace(name="SWAP"))])
            self.rows[one], self.rows[other] = self.rows[other], self.rows[one]

    def apply(self, logits: torch.Tensor, unread: list[bool]) -> None:
        self.processor.apply(logits)


class SecondRunner(Batch):
    """Rows in any order, known by places that are taken again without a word when a request has left."""

    def begin(self) -> None:
        self.prompts, self.prefills = (SimpleNamespace(np=np.full(ROWS, PROMPT, np.int32)) for _ in range(2))
        states = SimpleNamespace(device=CPU, max_num_reqs=ROWS, prompt_len=self.prompts, prefill_len=self.prefills)
        self.processor = WatchProcessor(CONFIG, states)
        self.processor.monitor._check = lambda: None  # of itself, which needs vLLM
        self.free = list(range(ROWS))

    def joined(self, path: Path) -> None:
        path.place = self.free.pop()
        self.prefills.np[path.place] = PROMPT + len(path.output_tokens)
        self.processor.add_request(path.place, path.params)
        self.rows.append(path)

    def left(self, at: int) -> None:
        self.free.append(self.rows.pop(at).place)

    @precondition(lambda self: self.rows)
    @rule(by=st.integers(1, ROWS - 1))
    def turn(self, by: int) -> None:
        self.rows = self.rows[by:] + self.rows[:by]

    def apply(self, logits: torch.Tensor, unread: list[bool]) -> None:
        places = np.array([path.place for path in self.rows])
        lengths = [
            self.prefills.np[path.place] - 1 if skipped else PROMPT + len(path.output_tokens)
            for path, skipped in zip(self.rows, unread, strict=True)
        ]
        context = SimpleNamespace(idx_mapping_np=places, seq_lens_upper_bound_np=np.array(lengths, np.int32))
        self.processor.apply(logits, context)


FEW = settings(max_examples=60, stateful_step_count=60, deadline=None)
FirstRunner.TestCase.settings = SecondRunner.TestCase.settings = FEW
TestFirstRunner, TestSecondRunner = FirstRunner.TestCase, SecondRunner.TestCase


def test_requests_that_are_not_watched_cost_nothing() -> None:
    """Neither memory nor a look at the logits, in both runners."""
    nothing: Any = object()
    first, plain = V1Processor(CONFIG, CPU, ROWS), SimpleNamespace(extra_args=None)
    first.update_state(SimpleNamespace(removed=[], added=[(0, plain, None, [])], moved=[]))
    assert first.apply(nothing) is nothing
    second = SecondRunner()
    assert not second.processor.add_request(0, plain)
    assert first.monitor._batch is second.processor.monitor._batch is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"speculative_config": object()}, "speculative decoding"),
        ({"parallel_config": SimpleNamespace(enable_batch_sharded_sampling=True)}, "batch-sharded"),
        ({"model_config": SimpleNamespace(get_vocab_size=lambda: 7)}, "vocabulary has 7 tokens"),
    ],
)
def test_what_cannot_be_watched_is_said_in_the_record(change: dict[str, Any], words: str) -> None:
    processor, path = V1Processor(SimpleNamespace(**vars(CONFIG) | change), CPU, ROWS), Path(1, 4, Gate())
    processor.update_state(SimpleNamespace(removed=[], added=[(0, path.params, None, [])], moved=[]))
    record = record_of(processor.monitor.records, path.request.key)
    assert isinstance(record, MissingRecord)
    assert words in record.reason


def test_a_step_that_fails_ends_the_watching_and_not_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = FirstRunner()
    batch.join(4, 0.2, 4.0, 0.7)
    monkeypatch.setattr(BatchMonitor, "step", lambda *_: 1 / 0)
    batch.processor.apply(torch.zeros(1, VOCABULARY))
    path = Path(9, 4, Gate())
    batch.joined(path)
    assert batch.record(path) == MissingRecord("ZeroDivisionError: division by zero")


def started(monitor: BatchMonitor, request: WatchRequest, end_token: int | None = END) -> Any:
    """The slot of a request, and the arrays of a step in which it is row 1."""
    slot = monitor.start(request, end_token)
    return slot, (np.array([1]), np.array([slot]), np.zeros(1, np.int32))


@pytest.mark.parametrize("temperature", [0.01, 0.6, 5.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_closed_row_can_only_draw_its_end(temperature: float, dtype: torch.dtype) -> None:
    monitor = BatchMonitor(4, 8, CPU, PathRecords(4))
    _, row = started(monitor, WatchRequest("some-path", 1, Gate(drop=1e9)))
    logits = (torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(1)) * 30).to(dtype)
    logits[:, END] = 0  # not the likeliest of any row
    monitor.step(logits, *row)
    chances = torch.softmax(logits.float() / temperature, dim=-1)
    assert chances[1].tolist() == [float(token == END) for token in range(VOCABULARY)]
    assert bool((chances[[0, 2], END] < 1).all())


def test_a_path_without_an_end_token_is_not_watched() -> None:
    records = PathRecords(4)
    assert BatchMonitor(4, 8, CPU, records).start(WatchRequest("some-path", 1, Gate(drop=1.0)), None) is None
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
    monitor = BatchMonitor(SLOTS, 8, CPU, records)
    slots = [monitor.start(WatchRequest("the-same-key", 4, Gate()), END) for _ in range(2)]
    assert slots == [0, None]
    assert record_of(records, "the-same-key") == MissingRecord("two paths have the same key")


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="TRITON_INTERPRET=1 runs kernels without a GPU")
def test_a_device_takes_the_steps_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is not pinned here, and its events have always happened."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch.cuda, "Event", Mock)
    records = PathRecords(SLOTS), PathRecords(SLOTS)
    monitors = [BatchMonitor(SLOTS, 8, CPU, one) for one in records]
    monitors[1].paths = DevicePaths(SLOTS, 8, CPU)
    made: dict[str, list[int]] = {f"path-number-{row}": [] for row in range(3)}
    slots = np.arange(3)
    for monitor in monitors:
        for row, key in enumerate(made):
            assert monitor.start(WatchRequest(key, 3 + row, Gate(drop=3.2 * row), trace=row == 1), END) == row
    rng = np.random.default_rng(1)
    for step in range(24):
        logits = torch.from_numpy(rng.normal(size=(4, VOCABULARY)).astype(np.float32) * 2)
        host, device = logits.clone(), logits.clone()
        rows, counts = np.array([0, 1, 2 if step < 6 else 3]), np.array(list(map(len, made.values())), np.int32)
        monitors[0].step(host, rows, slots, counts)
        monitors[1].step(device, rows, slots, counts)
        assert torch.equal(host, device)
        for tokens in made.values():
            tokens.extend([0] if step % 4 else [])  # the first of four tokens is discarded
    for key, tokens in made.items():
        host, device = (record_of(one, key, len(tokens)) for one in records)
        assert isinstance(host, PathRecord)
        assert isinstance(device, PathRecord)
        assert (host.tokens, host.tier) == (device.tokens, device.tier)
        assert device[1:3] + device[5:] == pytest.approx(host[1:3] + host[5:], rel=1e-6)
    assert {record.tier for key in made if isinstance(record := record_of(records[1], key), PathRecord)} == {0, 1}
