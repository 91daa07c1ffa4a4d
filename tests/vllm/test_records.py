"""Records: every step is read back, however late it arrives, by whoever has a path's key."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sureenough.core.confidence import scan
from sureenough.core.pruning import Tier
from sureenough.engines.watch.protocol import SOCKET_ENV, UNKNOWN_PATH, MissingRecord, PathRecord, parse_summary
from sureenough.vllm.middleware import RecordsMiddleware, monitor_info
from sureenough.vllm.records import (
    FINISHED_BYTES,
    MAX_FINISHED,
    MAX_PENDING,
    PathRecords,
    engine_number,
    request_record,
    serve_records,
)


class Arrival:
    """A device's event that happens when the test says so."""

    def __init__(self) -> None:
        self.happened = threading.Event()

    def query(self) -> bool:
        return self.happened.is_set()

    def synchronize(self) -> None:
        assert self.happened.wait(10)


def rows(*values: list[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


def add_token(records: PathRecords, slot: int, before: int, low: float, tier: float = 0.0, copied: Any = None) -> None:
    results = rows([0.5, 10.0 + before, low, low + 1, tier, 0.5 * (before + 1), 4.0 * (before + 1)])
    records.add_step(np.array([slot]), np.array([before], dtype=np.int32), results, copied)


def test_the_last_two_states_are_kept() -> None:
    records = PathRecords(4)
    records.start_path(2, "one-path", trace=False)
    for t in range(5):
        add_token(records, 2, t, 3.0 - t / 10)
    assert records.read("one-path") == PathRecord(5, 2.6, 3.6, 0, None, 0.5, 4.0)
    assert records.read("one-path", 4) == PathRecord(4, 2.7, 3.7, 0, None, 0.5, 4.0)
    assert isinstance(records.read("one-path", 3), MissingRecord)
    assert isinstance(records.read("one-path", 6, timeout=0.01), MissingRecord)
    assert isinstance(records.read("unknown-", timeout=0.01), MissingRecord)


def test_a_record_outlives_its_slot() -> None:
    records = PathRecords(1)
    records.start_path(0, "first-one", trace=True)
    add_token(records, 0, 0, 3.0)
    add_token(records, 0, 1, 2.0, tier=2.0)
    records.start_path(0, "next-one-", trace=False)
    add_token(records, 0, 0, 9.0)
    first = records.read("first-one")
    assert isinstance(first, PathRecord)
    assert (first.tokens, first.lowest, first.tier) == (2, 2.0, 2)
    assert first.signals is not None
    assert first.signals.tolist() == [[0.5, 10.0], [0.5, 11.0]]
    records.lose_path("next-one-", "it was lost")
    assert records.read("next-one-") == MissingRecord("it was lost")


def test_readers_wait_for_a_pending_copy_and_the_engine_does_not() -> None:
    records, arrival = PathRecords(1), Arrival()
    records.start_path(0, "some-path", trace=False)
    add_token(records, 0, 0, 4.0, copied=arrival)
    results: list[Any] = []
    reader = threading.Thread(target=lambda: results.append(records.read("some-path", 1)))
    reader.start()
    arrival.happened.set()
    reader.join(10)
    assert results == [PathRecord(1, 4.0, 5.0, 0, None, 0.5, 4.0)]


def test_the_engine_never_waits_while_there_is_room() -> None:
    records, slow = PathRecords(1), Arrival()
    records.start_path(0, "some-path", trace=False)
    for t in range(MAX_PENDING - 4):  # would hang if it waited
        add_token(records, 0, t, 1.0, copied=slow)
    slow.happened.set()
    assert records.read("some-path") == PathRecord(MAX_PENDING - 4, 1.0, 2.0, 0, None, 0.5, 4.0)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from(["grow", "repeat", "again"]), st.integers(0, 2)), max_size=200), st.booleans()
)
def test_any_history_reads_as_the_latest_of_each_path(history: list[tuple[str, int]], trace: bool) -> None:
    records = PathRecords(3)
    names: dict[int, str] = {}
    tokens: dict[int, int] = {}
    signals: dict[int, list[float]] = {}
    for slot in range(3):
        names[slot], tokens[slot], signals[slot] = f"path-{slot}-0", 0, []
        records.start_path(slot, names[slot], trace)
    for n, (what, slot) in enumerate(history):
        if what == "again":
            names[slot], tokens[slot], signals[slot] = f"path-{slot}-{n + 1}", 0, []
            records.start_path(slot, names[slot], trace)
        elif what == "grow" or tokens[slot] == 0:
            add_token(records, slot, tokens[slot], float(n))
            tokens[slot] += 1
            signals[slot].append(float(n))
        else:
            add_token(records, slot, tokens[slot] - 1, float(n))  # the same token again
            signals[slot][-1] = float(n)
    for slot, name in names.items():
        record = records.read(name)
        assert isinstance(record, PathRecord)
        assert record.tokens == tokens[slot]
        assert record.lowest == (signals[slot][-1] if signals[slot] else 0.0)
        assert (record.signals is not None) is trace
        assert record.signals is None or len(record.signals) == tokens[slot]


# -- memory


def finish_path(records: PathRecords, key: str, tokens: int) -> None:
    records.start_path(0, key, trace=True)
    for t in range(tokens):
        add_token(records, 0, t, 1.0)
    records.start_path(0, "other-path", trace=False)


def test_finished_records_are_limited_by_their_bytes() -> None:
    """20 records of 100 tokens fit, without the space that their traces had to grow; the oldest are dropped first."""
    records = PathRecords(1, max_bytes=20 * (100 * 16 + FINISHED_BYTES) + FINISHED_BYTES)  # and "other-path"
    for number in range(40):
        finish_path(records, f"path-{number:04}", 100)
    kept = [isinstance(records.read(f"path-{number:04}", timeout=0), PathRecord) for number in range(40)]
    assert kept == [False] * 20 + [True] * 20
    assert records.read("path-0000", timeout=0) == MissingRecord(UNKNOWN_PATH)
    assert records._finished_bytes <= records._max_bytes


def test_the_latest_record_is_kept_even_if_it_is_too_large() -> None:
    records = PathRecords(1, max_bytes=1000)
    finish_path(records, "small-path", 3)
    finish_path(records, "large-path", 1000)
    assert isinstance(records.read("large-path", timeout=0), PathRecord)
    assert isinstance(records.read("small-path", timeout=0), MissingRecord)


def test_finished_records_are_limited_by_their_number() -> None:
    records = PathRecords(1)
    for number in range(MAX_FINISHED + 10):
        records.lose_path(f"path-{number:05}", "lost")
    assert records.read("path-00009", timeout=0) == MissingRecord(UNKNOWN_PATH)
    assert records.read("path-00010", timeout=0) == MissingRecord("lost")
    assert records._finished_bytes == MAX_FINISHED * FINISHED_BYTES


# -- over the socket and over HTTP


def recorded() -> PathRecords:
    records = PathRecords(2)
    records.start_path(0, "warm-up-path", trace=True)
    records.start_path(1, "pruned-path-", trace=False)
    totals = [0.0, 0.0]
    for t in range(300):
        peak, conf = 1 / (t + 3), t / 7
        totals = [totals[0] + peak, totals[1] + conf]
        pruned = [0.5, 9.0, 0.1, 0.2, float(t == 299), 0.5 * (t + 1), 9.0 * (t + 1)]
        results = rows([peak, conf, 1 / 3, 2 / 3, 0.0, *totals], pruned)
        records.add_step(np.array([0, 1]), np.array([t, t], dtype=np.int32), results)
    return records


def test_a_summary_is_exact() -> None:
    summary = parse_summary(recorded().read("warm-up-path", 300).to_json(), 64)
    wanted = scan(np.array([1 / (t + 3) for t in range(300)]), np.array([t / 7 for t in range(300)]), 64)
    assert (summary.tokens, summary.lowest, summary.tail, summary.tier) == (300, 1 / 3, 2 / 3, None)
    assert summary.windows is not None
    assert (summary.mean_peak, summary.mean_conf) == (wanted.mean_peak, wanted.mean_conf)
    for name in ("peak", "conf", "noise", "fall"):
        assert np.array_equal(getattr(summary.windows, name), getattr(wanted, name))
    pruned = parse_summary(recorded().read("pruned-path-", 300).to_json(), 64)
    assert (pruned.tier, pruned.windows) == (Tier.DROP, None)
    assert (pruned.mean_peak, pruned.mean_conf) == (0.5, 9.0)


def test_a_record_of_an_older_server_has_no_means() -> None:
    record = recorded().read("pruned-path-", 300).to_json()
    del record["mean_peak"], record["mean_conf"]
    summary = parse_summary(record, 64)
    assert np.isnan([summary.mean_peak, summary.mean_conf]).all()
    assert summary.tail == 0.2


async def nothing() -> Any:
    raise AssertionError("a GET request has no body")


async def get(path: str, query: str = "") -> tuple[int, Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 418})
        await send({"type": "http.response.body", "body": b'"elsewhere"'})

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": query.encode()}
    await RecordsMiddleware(elsewhere)(scope, nothing, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_records_over_socket_and_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket_path = str(tmp_path / "records.sock")

    async def use() -> None:
        assert (await get("/v1/sureenough"))[0] == 503
        monkeypatch.setenv(SOCKET_ENV, socket_path)
        assert "lost" in (await get("/v1/sureenough/paths/warm-up-path"))[1]  # the socket is not served yet
        serve_records(recorded(), socket_path)
        assert await get("/v1/sureenough") == (200, monitor_info())
        assert await get("/sureenough") == (200, monitor_info())
        status, record = await get("/v1/sureenough/paths/warm-up-path", "tokens=300")
        assert (status, record) == (200, {**recorded().read("warm-up-path", 300).to_json(), "engine": 0})
        assert (await get("/v1/sureenough/paths/pruned-path-"))[1]["tier"] == 1
        assert (await get("/v1/sureenough/paths/pruned-path-", "tokens=1"))[0] == 404
        assert (await get("/v1/sureenough/paths/%2e%2e"))[0] == 404
        assert (await get("/v1/sureenough/else"))[0] == 404
        assert await get("/v1/models") == (418, "elsewhere")
        many = await asyncio.gather(*(request_record(socket_path, "warm-up-path", 300) for _ in range(300)))
        assert all(one["tokens"] == 300 for one in many)
        assert (Path(socket_path).stat().st_mode & 0o777) == 0o600

    asyncio.run(asyncio.wait_for(use(), 60))


@pytest.mark.parametrize(
    ("told", "number"),
    [
        (
            {"data_parallel_index": 1, "data_parallel_rank": 0},
            1,
        ),  # a model without experts: all have rank 0
        ({"data_parallel_index": 3, "data_parallel_rank": 3}, 3),
        ({"data_parallel_rank": 2}, 2),
        ({"data_parallel_index": 0, "data_parallel_rank": None}, 0),
    ],
)
def test_engines_that_share_requests_have_numbers_of_their_own(told: dict[str, int | None], number: int) -> None:
    assert engine_number(SimpleNamespace(**told)) == number
