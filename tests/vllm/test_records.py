"""Records: every step is read back, however late it arrives, by whoever has a path's key."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.responses import JSONResponse

import sureenough
from sureenough.core.confidence import scan
from sureenough.core.pruning import Tier
from sureenough.engines.watch.protocol import (
    PROTOCOL_VERSION,
    SOCKET_ENV,
    UNKNOWN_PATH,
    K,
    MissingRecord,
    PathRecord,
    Progress,
    parse_summary,
)
from sureenough.vllm import records as module
from sureenough.vllm.middleware import RecordsMiddleware
from sureenough.vllm.records import (
    FINISHED_BYTES,
    MAX_PENDING,
    MonitorReader,
    PathRecords,
    Traces,
    serve_records,
)
from tests.vllm.stored import add_token, record_of


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


def test_readers_wait_for_a_pending_copy_and_the_engine_does_not() -> None:
    records, arrival = PathRecords(1), Arrival()
    records.start_path(0, "some-path", trace=False)
    add_token(records, 0, 0, 4.0, copied=arrival)
    results: list[Any] = []
    reader = threading.Thread(target=lambda: results.append(record_of(records, "some-path", 1)))
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


# -- over the socket and over HTTP


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
    summary = parse_summary(json_of("warm-up-path"), 64)
    wanted = scan(np.array([1 / (t + 3) for t in range(300)]), np.array([t / 7 for t in range(300)]), 64)
    assert (summary.tokens, summary.lowest, summary.tail, summary.tier) == (300, 1 / 3, 2 / 3, None)
    assert summary.windows is not None
    assert (summary.mean_peak, summary.mean_conf) == (wanted.mean_peak, wanted.mean_conf)
    for name in ("peak", "conf", "noise", "fall"):
        assert np.array_equal(getattr(summary.windows, name), getattr(wanted, name))
    pruned = parse_summary(json_of("pruned-path-"), 64)
    assert (pruned.tier, pruned.windows) == (Tier.DROP, None)
    assert (pruned.mean_peak, pruned.mean_conf) == (0.5, 9.0)


async def get(path: str) -> tuple[int, Any]:
    async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse("elsewhere", 418)(scope, receive, send)

    transport = httpx.ASGITransport(app=RecordsMiddleware(elsewhere))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        response = await client.get(path)
    return response.status_code, response.json()


def test_records_over_socket_and_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket_path = str(tmp_path / "records.sock")
    monkeypatch.setattr(module, "ARRIVAL_SECONDS", 0.1)

    unknown = (404, {"lost": UNKNOWN_PATH})
    info = {"sureenough": sureenough.__version__, "protocol": PROTOCOL_VERSION, "k": K, "window": 2048}

    async def use() -> None:
        assert await get("/v1/sureenough") == (418, "elsewhere")  # there is no monitor
        monkeypatch.setenv(SOCKET_ENV, socket_path)
        assert await get("/v1/sureenough/paths/warm-up-path") == unknown  # the socket is not served yet
        serve_records(recorded(), socket_path)
        assert await get("/v1/sureenough") == await get("/sureenough") == (200, info)
        assert await get("/v1/sureenough/paths/warm-up-path") == (200, {**json_of("warm-up-path"), "engine": 0})
        assert (await get("/v1/sureenough/paths/pruned-path-"))[1]["tier"] == 1
        assert await get("/v1/sureenough/paths/path-of-others") == unknown
        assert "error" in (await get("/v1/sureenough/paths/%2e%2e"))[1], "that is not a key"
        assert (await get("/v1/sureenough/else"))[0] == 404
        assert await get("/v1/models") == (418, "elsewhere")
        assert (Path(socket_path).stat().st_mode & 0o777) == 0o600

    asyncio.run(asyncio.wait_for(use(), 60))


# -- many engines and paths, some of which do not respond

ENGINES = 20
KEYS = [f"path-of-engine-{number}" for number in range(ENGINES)]


@pytest.fixture
def engines(tmp_path: Path) -> str:
    """The address of engines, each of which has run one path."""
    address = str(tmp_path / "records.sock")
    for number, key in enumerate(KEYS):
        records = PathRecords(1)
        records.start_path(0, key, trace=False)
        add_token(records, 0, 0, 3.0)
        serve_records(records, address, number)
    return address


def check(address: str, *more: str) -> list[Progress | None]:
    """Every record is read; returns the progress of all paths and of `more`."""

    async def use() -> list[Progress | None]:
        reader = MonitorReader(address)
        found = await asyncio.gather(*(reader.record(key, 1) for key in KEYS))
        assert [(one["tokens"], one["engine"]) for one in found] == [(1, number) for number in range(ENGINES)]
        return await reader.request_progress([*KEYS, *more])

    return asyncio.run(asyncio.wait_for(use(), 60))


def test_what_is_left_of_engines_that_have_gone_is_no_obstacle(engines: str) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(f"{engines}.30")
    Path(f"{engines}.31").write_text("not a socket")
    Path(f"{engines}.32").mkdir()
    os.symlink("nowhere", f"{engines}.33")
    assert check(engines, "unknown-path") == [Progress(1, 4.0)] * ENGINES + [None]


def test_an_engine_that_hangs_costs_no_record_of_another(engines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as hung:  # sorts before most others, takes connections and never replies
        hung.bind(f"{engines}.100")
        hung.listen(1_000)
        monkeypatch.setattr(module, "TIMEOUT", 1e9)  # all paths are known without it
        assert check(engines) == [Progress(1, 4.0)] * ENGINES
        monkeypatch.setattr(module, "TIMEOUT", 0.5)
        assert check(engines, "path-of-the-hung-one") == [Progress(1, 4.0)] * ENGINES + [None]


def test_a_reader_that_has_gone_leaves_no_traceback() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b'{"keys": ["a-path-of-old"]}\n')
    theirs.close()
    with ours:
        module._Handler(ours, None, SimpleNamespace(records=PathRecords(1)))  # type: ignore[arg-type]


@pytest.mark.parametrize("reply", [b"nonsense\n", b""])
def test_an_engine_that_ends_within_its_reply_knows_no_path(engines: str, reply: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(reply)
        writer.close()

    async def use() -> list[Progress | None]:
        async with await asyncio.start_unix_server(answer, f"{engines}.40"):
            return await MonitorReader(engines).request_progress([KEYS[3]])

    assert asyncio.run(asyncio.wait_for(use(), 60)) == [Progress(1, 4.0)]


@pytest.fixture
def engine(tmp_path: Path) -> tuple[str, PathRecords]:
    """The address of one engine with 200 paths of a token each."""
    records, address = PathRecords(200), str(tmp_path / "records.sock")
    for slot in range(200):
        records.start_path(slot, f"path-{slot:08}", trace=slot < 8)
        add_token(records, slot, 0, 3.0)
    serve_records(records, address)
    return address, records


def test_paths_that_end_together_share_requests(
    engine: tuple[str, PathRecords], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _ = engine
    requests, ask = [], module._ask

    async def counted(socket_path: str, request: dict[str, Any]) -> Any:
        requests.append(request)
        return await ask(socket_path, request)

    monkeypatch.setattr(module, "_ask", counted)

    async def use() -> None:
        reader = MonitorReader(address)
        shared = await asyncio.gather(*(reader.record(f"path-{slot:08}", 1) for slot in range(200)))
        assert len(requests) == 4, "64 in each but the last"
        assert [record["tokens"] for record in shared] == [1] * 200
        assert ["signals" in record for record in shared] == [True] * 8 + [False] * 192
        assert await reader.record("path-00000003", 1) == shared[3]

    asyncio.run(asyncio.wait_for(use(), 60))


def test_a_path_without_a_record_delays_no_other(
    engine: tuple[str, PathRecords], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last token arrives late, or never; the others are complete."""
    address, records = engine

    async def use() -> None:
        reader = MonitorReader(address)
        late = asyncio.create_task(reader.record("path-00000007", 2))
        others = await asyncio.gather(*(reader.record(f"path-{slot:08}", 1) for slot in range(100, 150)))
        assert [record["tokens"] for record in others] == [1] * 50
        assert not late.done()
        threading.Timer(0.1, add_token, (records, 7, 1, 3.0)).start()
        assert (await late)["tokens"] == 2
        monkeypatch.setattr(module, "ARRIVAL_SECONDS", 0.1)
        assert await reader.record("path-00000007", 9) == {"lost": "its last tokens did not arrive"}
        assert await reader.record("no-such-path", 1) == {"lost": UNKNOWN_PATH}

    asyncio.run(asyncio.wait_for(use(), 60))


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
