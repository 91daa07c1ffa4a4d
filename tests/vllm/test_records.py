"""Records: every step is read back, however late it arrives, by whoever has a path's key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sureenough.core.confidence import scan
from sureenough.core.pruning import Gate, Tier
from sureenough.engines.watch import client as client_module
from sureenough.engines.watch.protocol import (
    UNKNOWN_PATH,
    MissingRecord,
    PathRecord,
    Progress,
    WatchRequest,
    parse_summary,
)
from sureenough.vllm import reader as reader_module
from sureenough.vllm import records as module
from sureenough.vllm.reader import RecordsReader
from sureenough.vllm.records import FINISHED_BYTES, MAX_PENDING, PathRecords, Traces
from tests.vllm.stored import Client, add_token, record_of, started


class Arrival:
    """A device's event that happens when the test says so."""

    def __init__(self) -> None:
        self.happened = threading.Event()

    def query(self) -> bool:
        return self.happened.is_set()

    def synchronize(self) -> None:
        assert self.happened.wait(10)


def test_the_last_two_states_are_kept() -> None:
    records = PathRecords(4)
    records.start_path(2, "one-path", trace=False)
    for t in range(5):
        add_token(records, 2, t, 3.0 - t / 10)
    assert record_of(records, "one-path") == PathRecord(5, 2.6, 3.6, 0, None, 0.5, 4.0)
    assert record_of(records, "one-path", 4) == PathRecord(4, 2.7, 3.7, 0, None, 0.5, 4.0)
    assert isinstance(record_of(records, "one-path", 3), MissingRecord)
    assert record_of(records, "one-path", 6) is None
    assert record_of(records, "unknown-") is None


def test_a_record_outlives_its_slot() -> None:
    records = PathRecords(1)
    records.start_path(0, "first-one", trace=True)
    add_token(records, 0, 0, 3.0)
    add_token(records, 0, 1, 2.0, tier=2.0)
    records.start_path(0, "next-one-", trace=False)
    add_token(records, 0, 0, 9.0)
    first = record_of(records, "first-one")
    assert isinstance(first, PathRecord)
    assert (first.tokens, first.lowest, first.tier) == (2, 2.0, 2)
    assert first.signals is not None
    assert first.signals.tolist() == [[0.5, 3.0], [0.5, 2.0]]
    records.lose_path("next-one-", "it was lost")
    assert record_of(records, "next-one-") == MissingRecord("it was lost")


def test_readers_leave_a_pending_copy_to_later() -> None:
    records, arrival = PathRecords(1), Arrival()
    records.start_path(0, "some-path", trace=False)
    add_token(records, 0, 0, 4.0, copied=arrival)
    assert record_of(records, "some-path", 1) is None
    arrival.happened.set()
    assert record_of(records, "some-path", 1) == PathRecord(1, 4.0, 5.0, 0, None, 0.5, 4.0)


def test_the_engine_never_waits_while_there_is_room() -> None:
    records, slow = PathRecords(1), Arrival()
    records.start_path(0, "some-path", trace=False)
    for t in range(MAX_PENDING - 4):  # would hang if it waited
        add_token(records, 0, t, 1.0, copied=slow)
    slow.happened.set()
    assert record_of(records, "some-path") == PathRecord(MAX_PENDING - 4, 1.0, 2.0, 0, None, 0.5, 4.0)


OPERATIONS = st.tuples(st.sampled_from(["grow", "repeat", "trace", "start"]), st.integers(0, 2))


@settings(max_examples=100)
@given(st.lists(OPERATIONS, max_size=200))
def test_any_history_reads_as_the_latest_of_each_path(history: list[tuple[str, int]]) -> None:
    """Slots are used again by paths that are traced or not; what was read before stays as it was."""
    records = PathRecords(3)
    running: dict[int, tuple[str, bool, list[float]]] = {}
    read: list[tuple[PathRecord, str]] = []
    for number, (operation, slot) in enumerate([*(("start", slot) for slot in range(3)), *history]):
        if operation in ("trace", "start"):
            running[slot] = f"path-{slot}-{number}", operation == "trace", []
            records.start_path(slot, running[slot][0], operation == "trace")
            continue
        key, traced, lows = running[slot]
        if operation == "repeat" and lows:
            lows.pop()  # the same token again
        lows.append(float(number))
        add_token(records, slot, len(lows) - 1, float(number))
        record = record_of(records, key)
        assert isinstance(record, PathRecord)
        assert (record.tokens, record.lowest) == (len(lows), lows[-1])
        assert (None if record.signals is None else record.signals.tolist()) == (
            [[0.5, low] for low in lows] if traced else None
        )
        read.append((record, repr(record)))
    assert all(repr(record) == before for record, before in read)


# -- memory


def finish_path(records: PathRecords, key: str, tokens: int) -> None:
    records.start_path(0, key, trace=True)
    for t in range(tokens):
        add_token(records, 0, t, 1.0)
    records.start_path(0, "other-path", trace=False)


def test_finished_records_are_limited_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 records of 100 tokens fit, without the space that their traces had to grow; the oldest are dropped first."""
    monkeypatch.setattr(module, "MAX_FINISHED_BYTES", limit := 20 * (100 * 16 + FINISHED_BYTES) + FINISHED_BYTES)
    records = PathRecords(1)
    for number in range(40):
        finish_path(records, f"path-{number:04}", 100)
    kept = [record_of(records, f"path-{number:04}") is not None for number in range(40)]
    assert kept == [False] * 20 + [True] * 20
    assert records._finished_bytes <= limit


def test_the_latest_record_is_kept_even_if_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FINISHED_BYTES", 1000)
    records = PathRecords(1)
    finish_path(records, "small-path", 3)
    finish_path(records, "large-path", 1000)
    assert isinstance(record_of(records, "large-path"), PathRecord)
    assert record_of(records, "small-path") is None


def recorded() -> PathRecords:
    records, totals = PathRecords(2), np.zeros(2)
    records.start_path(0, "warm-up-path", trace=True)
    records.start_path(1, "pruned-path-", trace=False)
    for t in range(300):
        signals = [1 / (t + 3), t / 7]
        totals += signals
        pruned = [0.5, 9.0, 0.1, 0.2, float(t == 299), 0.5 * (t + 1), 9.0 * (t + 1)]
        results = np.array([[*signals, 1 / 3, 2 / 3, 0.0, *totals], pruned])
        records.add_step(np.array([0, 1]), np.array([t, t], dtype=np.int32), results)
    return records


def json_of(key: str) -> dict[str, Any]:
    record = record_of(recorded(), key, 300)
    assert isinstance(record, PathRecord)
    return record.to_json()


def test_a_summary_is_exact() -> None:
    summary = parse_summary(json_of("warm-up-path"), WatchRequest("warm-up-path", 64, trace=True))
    wanted = scan(np.array([1 / (t + 3) for t in range(300)]), np.array([t / 7 for t in range(300)]), 64)
    assert (summary.tokens, summary.lowest, summary.tail, summary.tier) == (300, 1 / 3, 2 / 3, None)
    assert summary.windows is not None
    assert (summary.mean_peak, summary.mean_conf) == (wanted.mean_peak, wanted.mean_conf)
    for name in ("peak", "conf", "noise", "fall"):
        assert np.array_equal(getattr(summary.windows, name), getattr(wanted, name))
    pruned = parse_summary(json_of("pruned-path-"), WatchRequest("pruned-path-", 64, Gate(drop=1.0)))
    assert (pruned.tier, pruned.windows) == (Tier.DROP, None)
    assert (pruned.mean_peak, pruned.mean_conf) == (0.5, 9.0)


# -- by the client of the engines

KEYS = [f"path-of-engine-{number}" for number in range(20)]


def read_all(reader: RecordsReader, keys: Sequence[str], tokens: int = 1) -> list[dict[str, Any]]:
    async def use() -> list[dict[str, Any]]:
        return await asyncio.gather(*(reader.record(key, tokens) for key in keys))

    return asyncio.run(asyncio.wait_for(use(), 60))


def test_a_record_is_found_whichever_engine_ran_the_path() -> None:
    client = Client(*(started(PathRecords(1), [key]) for key in KEYS))
    reader = RecordsReader(client)
    assert [record["tokens"] for record in read_all(reader, KEYS)] == [1] * len(KEYS)
    progress = asyncio.run(reader.fetch_known([*KEYS, "unknown-path"]))
    assert progress == [Progress(1, 4.0)] * len(KEYS) + [None]


def test_paths_that_end_together_share_calls() -> None:
    keys = [f"path-{slot:08}" for slot in range(200)]
    client = Client(started(PathRecords(200), keys))
    assert [record["tokens"] for record in read_all(RecordsReader(client), keys)] == [1] * 200
    assert [len(paths) for _, paths in client.calls] == [64, 64, 64, 8]


def test_a_record_that_arrives_late_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    records = started(PathRecords(200), [f"path-{slot:08}" for slot in range(200)])

    async def use() -> None:
        reader = RecordsReader(Client(records))
        late = asyncio.create_task(reader.record("path-00000007", 2))
        others = await asyncio.gather(*(reader.record(f"path-{slot:08}", 1) for slot in range(100, 150)))
        assert [record["tokens"] for record in others] == [1] * 50
        assert not late.done()
        add_token(records, 7, 1, 3.0)
        assert (await late)["tokens"] == 2
        monkeypatch.setattr(reader_module, "ARRIVAL_SECONDS", 0.1)
        assert await reader.record("no-such-path", 1) == {"lost": UNKNOWN_PATH}

    asyncio.run(asyncio.wait_for(use(), 60))


def test_without_an_engine_a_path_has_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "ARRIVAL_SECONDS", 0.1)
    client = Client()
    client.broken = True
    assert read_all(RecordsReader(client), KEYS[:2]) == [{"lost": UNKNOWN_PATH}] * 2


@pytest.mark.parametrize("closed", [False, True])
def test_a_path_grows_until_its_output_comes(closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is closed meanwhile closes the generator of its outputs."""
    monkeypatch.setattr(client_module, "PROGRESS_SECONDS", 0.01)
    records, ends = started(PathRecords(1), ["some-path"]), list[str]()

    async def outputs(done: asyncio.Event) -> AsyncIterator[str]:
        try:
            await done.wait()
            yield "the output"
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async def use() -> list[Any]:
        done, seen = asyncio.Event(), list[Any]()
        async with aclosing(RecordsReader(Client(records)).with_progress(outputs(done), "some-path")) as parts:
            async for part in parts:
                seen.append(part)
                if len(seen) == 2:
                    if closed:
                        break
                    done.set()
        return seen

    seen = asyncio.run(asyncio.wait_for(use(), 60))
    assert seen[:2] == [Progress(1, 4.0)] * 2
    assert ends == (["cancelled"] if closed else [])
    assert closed or seen[-1] == "the output"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 4)


def test_memory_is_given_back_when_no_path_is_traced() -> None:
    traced = Traces(20)
    traced.start(3)
    traced.add(np.array([3]), np.array([1000]), np.ones((1, 2)))
    assert len(traced._blocks) == 251
    traced.stop(3)
    assert not traced._blocks
