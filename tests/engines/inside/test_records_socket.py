"""Several engines, some of which do not respond: the records of the others arrive all the same."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sureenough.engines.vllm.path_record import Progress
from sureenough.engines.vllm.server import records_socket
from sureenough.engines.vllm.server.records import PathRecords
from sureenough.engines.vllm.server.records_socket import request_progress, request_record, serve_records
from tests.engines.inside.test_records import add_token

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
    monkeypatch.setattr(records_socket, "SHARED_TIMEOUT", 1e9)  # all paths are known without it
    assert check(hung) == [Progress(1, 4.0)] * ENGINES
    monkeypatch.setattr(records_socket, "SHARED_TIMEOUT", 0.5)
    monkeypatch.setattr(records_socket, "TIMEOUT", 1e9)
    assert check(hung, "path-of-the-hung-one") == [Progress(1, 4.0)] * ENGINES + [None]


def test_a_reader_that_has_gone_leaves_no_traceback() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b'{"keys": ["a-path-of-old"]}\n')
    theirs.close()
    with ours:
        records_socket._Handler(ours, None, SimpleNamespace(records=PathRecords(1)))  # type: ignore[arg-type]


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
