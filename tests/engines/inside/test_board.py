"""Records: what was posted is read, however late it arrives, for whoever knows a path's key."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sureenough.core.confidence.array import scan
from sureenough.core.events import Tier
from sureenough.engines.vllm.protocol import SOCKET
from sureenough.engines.vllm.server.middleware import RecordsMiddleware
from sureenough.engines.vllm.server.records import BEHIND, MissingRecord, PathRecord, PathRecords
from sureenough.engines.vllm.server.records_socket import offer, request_record, serve_records, summary, told


class Arrival:
    """An event of a device: has not happened until it has."""

    def __init__(self) -> None:
        self.happened = threading.Event()

    def query(self) -> bool:
        return self.happened.is_set()

    def synchronize(self) -> None:
        assert self.happened.wait(10)


def rows(*found: list[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(found, dtype=np.float64)


def posted(board: PathRecords, slot: int, before: int, low: float, tier: float = 0.0, done: Any = None) -> None:
    found = rows([0.5, 10.0 + before, low, low + 1, tier])
    board.post(np.array([slot]), np.array([before], dtype=np.int32), found, done)


def test_the_last_two_states_are_kept() -> None:
    board = PathRecords(4)
    board.admit(2, "one-path", trace=False)
    for t in range(5):
        posted(board, 2, t, 3.0 - t / 10)
    assert board.read("one-path") == PathRecord(5, 2.6, 3.6, 0, None)
    assert board.read("one-path", 4) == PathRecord(4, 2.7, 3.7, 0, None)
    assert isinstance(board.read("one-path", 3), MissingRecord)
    assert isinstance(board.read("one-path", 6, patience=0.01), MissingRecord)
    assert isinstance(board.read("nobodys", patience=0.01), MissingRecord)


def test_a_record_outlives_its_slot_and_a_preempted_path_goes_on() -> None:
    board = PathRecords(1)
    board.admit(0, "first-one", trace=True)
    posted(board, 0, 0, 3.0)
    posted(board, 0, 1, 2.0, tier=2.0)
    board.admit(0, "next-one-", trace=False)
    posted(board, 0, 0, 9.0)
    first = board.read("first-one")
    assert isinstance(first, PathRecord)
    assert (first.tokens, first.lowest, first.tier) == (2, 2.0, 2)
    assert first.signals is not None
    assert first.signals.tolist() == [[0.5, 10.0], [0.5, 11.0]]
    board.lose("next-one-", "it was lost")
    assert board.read("next-one-") == MissingRecord("it was lost")


def test_reading_waits_for_what_is_on_its_way_and_posting_does_not() -> None:
    board, arrival = PathRecords(1), Arrival()
    board.admit(0, "some-path", trace=False)
    posted(board, 0, 0, 4.0, done=arrival)
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.append(board.read("some-path", 1)))
    reader.start()
    arrival.happened.set()
    reader.join(10)
    assert found == [PathRecord(1, 4.0, 5.0, 0, None)]


def test_the_engine_never_waits_while_there_is_room() -> None:
    board, slow = PathRecords(1), Arrival()
    board.admit(0, "some-path", trace=False)
    for t in range(BEHIND - 4):  # would hang if it waited
        posted(board, 0, t, 1.0, done=slow)
    slow.happened.set()
    assert board.read("some-path") == PathRecord(BEHIND - 4, 1.0, 2.0, 0, None)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from(["grow", "repeat", "again"]), st.integers(0, 2)), max_size=200), st.booleans()
)
def test_any_history_reads_as_the_latest_of_each_path(history: list[tuple[str, int]], trace: bool) -> None:
    board = PathRecords(3)
    names: dict[int, str] = {}
    tokens: dict[int, int] = {}
    signals: dict[int, list[float]] = {}
    for slot in range(3):
        names[slot], tokens[slot], signals[slot] = f"path-{slot}-0", 0, []
        board.admit(slot, names[slot], trace)
    for n, (what, slot) in enumerate(history):
        if what == "again":
            names[slot], tokens[slot], signals[slot] = f"path-{slot}-{n + 1}", 0, []
            board.admit(slot, names[slot], trace)
        elif what == "grow" or tokens[slot] == 0:
            posted(board, slot, tokens[slot], float(n))
            tokens[slot] += 1
            signals[slot].append(float(n))
        else:
            posted(board, slot, tokens[slot] - 1, float(n))  # the same token told anew
            signals[slot][-1] = float(n)
    for slot, name in names.items():
        found = board.read(name)
        assert isinstance(found, PathRecord)
        assert found.tokens == tokens[slot]
        assert found.lowest == (signals[slot][-1] if signals[slot] else 0.0)
        assert (found.signals is not None) is trace
        assert found.signals is None or len(found.signals) == tokens[slot]


# -- over the socket and over HTTP


def recorded() -> PathRecords:
    board = PathRecords(2)
    board.admit(0, "warm-up-path", trace=True)
    board.admit(1, "pruned-path-", trace=False)
    for t in range(300):
        found = rows([1 / (t + 3), t / 7, 1 / 3, 2 / 3, 0.0], [0.5, 9.0, 0.1, 0.2, float(t == 299)])
        board.post(np.array([0, 1]), np.array([t, t], dtype=np.int32), found)
    return board


def test_a_summary_is_exact() -> None:
    made = summary(told(recorded(), "warm-up-path", 300), 64)
    wanted = scan(np.array([1 / (t + 3) for t in range(300)]), np.array([t / 7 for t in range(300)]), 64)
    assert (made.tokens, made.lowest, made.tail, made.tier) == (300, 1 / 3, 2 / 3, None)
    assert made.windows is not None
    for name in ("peak", "conf", "noise", "fall"):
        assert np.array_equal(getattr(made.windows, name), getattr(wanted, name))
    pruned = summary(told(recorded(), "pruned-path-", 300), 64)
    assert (pruned.tier, pruned.windows) == (Tier.DROP, None)


async def nothing() -> Any:
    raise AssertionError("a question has no body")


async def got(path: str, query: str = "") -> tuple[int, Any]:
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
    place = str(tmp_path / "desk")

    async def use() -> None:
        assert (await got("/v1/sureenough"))[0] == 503
        monkeypatch.setenv(SOCKET, place)
        assert "lost" in (await got("/v1/sureenough/paths/warm-up-path"))[1]  # nobody there yet
        serve_records(recorded(), place)
        assert await got("/v1/sureenough") == (200, offer())
        assert await got("/sureenough") == (200, offer())
        status, said = await got("/v1/sureenough/paths/warm-up-path", "tokens=300")
        assert (status, said) == (200, told(recorded(), "warm-up-path", 300))
        assert (await got("/v1/sureenough/paths/pruned-path-"))[1]["tier"] == 1
        assert (await got("/v1/sureenough/paths/pruned-path-", "tokens=1"))[0] == 404
        assert (await got("/v1/sureenough/paths/%2e%2e"))[0] == 404
        assert (await got("/v1/sureenough/else"))[0] == 404
        assert await got("/v1/models") == (418, "elsewhere")
        many = await asyncio.gather(*(request_record(place, "warm-up-path", 300) for _ in range(300)))
        assert all(one["tokens"] == 300 for one in many)
        assert (Path(place).stat().st_mode & 0o777) == 0o600

    asyncio.run(asyncio.wait_for(use(), 60))
