"""Several engines, some of which do not respond, and many paths at once: every record that there is arrives."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sureenough.engines.watch.protocol import Progress
from sureenough.vllm import records as records_module
from sureenough.vllm.records import (
    PathRecords,
    ProgressReader,
    RecordReader,
    request_progress,
    request_record,
    serve_records,
)
from tests.vllm.test_records import add_token

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


@pytest.fixture
def hung(engines: str) -> Iterator[str]:
    """One more engine, which sorts before most others, takes connections and never replies."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{engines}.100")
        listening.listen(1_000)
        yield engines


def check(address: str, *more: str) -> list[Progress | None]:
    """Every record is read; returns the progress of all paths and of `more`."""

    async def use() -> list[Progress | None]:
        records = await asyncio.gather(*(request_record(address, key, 1) for key in KEYS))
        found = [(record.get("tokens"), record.get("engine")) for record in records]
        assert found == [(1, number) for number in range(ENGINES)]
        return await request_progress(address, [*KEYS, *more])

    return asyncio.run(asyncio.wait_for(use(), 60))


def test_each_of_many_engines_is_found(engines: str) -> None:
    assert check(engines) == [Progress(1, 4.0)] * ENGINES


def test_what_is_left_of_engines_that_have_gone_is_no_obstacle(engines: str) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(f"{engines}.30")
    Path(f"{engines}.31").write_text("not a socket")
    Path(f"{engines}.32").mkdir()
    os.symlink("nowhere", f"{engines}.33")
    assert check(engines, "unknown-path") == [Progress(1, 4.0)] * ENGINES + [None]


def test_an_engine_that_hangs_costs_no_record_of_another(hung: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureenough.vllm.records.SHARED_TIMEOUT", 1e9)  # all paths are known without it
    assert check(hung) == [Progress(1, 4.0)] * ENGINES
    monkeypatch.setattr("sureenough.vllm.records.SHARED_TIMEOUT", 0.5)
    monkeypatch.setattr("sureenough.vllm.records.TIMEOUT", 1e9)
    assert check(hung, "path-of-the-hung-one") == [Progress(1, 4.0)] * ENGINES + [None]


def test_a_reader_that_has_gone_leaves_no_traceback() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b'{"keys": ["a-path-of-old"]}\n')
    theirs.close()
    with ours:
        records_module._Handler(ours, None, SimpleNamespace(records=PathRecords(1)))  # type: ignore[arg-type]


@pytest.mark.parametrize("reply", [b"null\n", b"[1]\n", b"[]\n", b"{}\n", b"nonsense\n", b""])
def test_an_engine_that_replies_nonsense_knows_no_path(engines: str, reply: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(reply)
        writer.close()

    async def use() -> list[Progress | None]:
        async with await asyncio.start_unix_server(answer, f"{engines}.40"):
            return await request_progress(engines, [KEYS[3]])

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
    requests, exchange = [], records_module._exchange

    async def counted(socket_path: str, request: dict[str, Any]) -> Any:
        requests.append(request)
        return await exchange(socket_path, request)

    monkeypatch.setattr("sureenough.vllm.records._exchange", counted)
    keys = [f"path-{slot:08}" for slot in range(200)]

    async def use() -> tuple[list[Any], list[Any]]:
        reader = RecordReader(address)
        shared = await asyncio.gather(*(reader.read(key, 1) for key in keys))
        assert len(requests) == 4, "64 in each but the last"
        again = await asyncio.gather(*(reader.read(key, 1) for key in keys[:3]))
        assert again == shared[:3]
        return shared, await asyncio.gather(*(request_record(address, key, 1) for key in keys))

    shared, alone = asyncio.run(asyncio.wait_for(use(), 60))
    assert shared == alone
    assert [record["tokens"] for record in shared] == [1] * 200


def test_a_path_without_a_record_delays_no_other(engine: tuple[str, PathRecords]) -> None:
    """Its last token arrives late; the others are complete."""
    address, records = engine

    async def use() -> None:
        reader = RecordReader(address)
        late = asyncio.create_task(reader.read("path-00000007", 2))
        others = await asyncio.gather(*(reader.read(f"path-{slot:08}", 1) for slot in range(100, 150)))
        assert [record["tokens"] for record in others] == [1] * 50
        assert not late.done()
        threading.Timer(0.1, add_token, (records, 7, 1, 3.0)).start()
        assert (await late)["tokens"] == 2
        assert "lost" in await reader.read("../path", 1)

    asyncio.run(asyncio.wait_for(use(), 60))


def test_with_several_engines_each_record_is_found(engines: str) -> None:
    async def use() -> list[Any]:
        reader = RecordReader(engines)
        return list(await asyncio.gather(*(reader.read(key, 1) for key in KEYS)))

    found = asyncio.run(asyncio.wait_for(use(), 60))
    assert [record["engine"] for record in found] == list(range(ENGINES))


async def read(reader: RecordReader | ProgressReader) -> int:
    """The tokens of a path, by its record or its progress."""
    if isinstance(reader, RecordReader):
        return int((await asyncio.wait_for(reader.read("path-00000009", 1), 5))["tokens"])
    with reader.following("path-00000009"):
        progress = await asyncio.wait_for(reader.progress("path-00000009"), 5)
    return -1 if progress is None else progress.tokens


@pytest.mark.parametrize("reader", [RecordReader, ProgressReader])
def test_an_event_loop_that_ended_before_its_request_started(
    engine: tuple[str, PathRecords], reader: type[RecordReader] | type[ProgressReader]
) -> None:
    shared = reader(engine[0])

    async def interrupted() -> None:
        task = asyncio.create_task(read(shared))
        while shared._reading is None:
            await asyncio.sleep(0)
        raise SystemExit(str(task))

    with pytest.raises(SystemExit):
        asyncio.run(interrupted())
    assert asyncio.run(read(shared)) == 1


@pytest.mark.parametrize("reader", [RecordReader, ProgressReader])
def test_an_event_loop_that_was_left_in_the_middle_of_a_request(
    engine: tuple[str, PathRecords], reader: type[RecordReader] | type[ProgressReader]
) -> None:
    shared = reader(engine[0])
    left = asyncio.new_event_loop()
    waiting = left.create_task(read(shared))
    while shared._reading is None:
        left.run_until_complete(asyncio.sleep(0))
    try:
        assert asyncio.run(read(shared)) == 1
        assert not waiting.done()
    finally:
        tasks = asyncio.all_tasks(left)
        for task in tasks:
            task.cancel()
        left.run_until_complete(asyncio.wait(tasks))
        left.close()


@pytest.mark.parametrize("reply", [b"null\n", b"[]\n", b"nonsense\n", b"", None])
def test_if_records_do_not_come_together_each_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: bytes | None
) -> None:
    """None: the engine does not respond at all to requests for several."""
    monkeypatch.setattr("sureenough.vllm.records.SHARED_TIMEOUT", 0.1)
    address = str(tmp_path / "records.sock")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        several = b'"paths"' in await reader.readline()
        if not several:
            writer.write(b'{"tokens": 5}\n')
        elif reply is None:
            await reader.read()  # until the reader gives up
        else:
            writer.write(reply)
        writer.close()

    async def use() -> list[Any]:
        async with await asyncio.start_unix_server(answer, address):
            reader = RecordReader(address)
            return list(await asyncio.gather(*(reader.read(f"path-{number:08}", 5) for number in range(3))))

    assert asyncio.run(asyncio.wait_for(use(), 60)) == [{"tokens": 5}] * 3
