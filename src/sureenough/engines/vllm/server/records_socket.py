"""Serves records at a Unix socket beside the engine, one line of JSON each way.

The socket's folder belongs to the server. A path's key is its client's secret: whoever sends it gets the record.
"""

from __future__ import annotations

import asyncio
import json
import os
import socketserver
import threading
from pathlib import Path
from typing import Any, Final, cast

from sureenough.engines.vllm.protocol import KEY_PATTERN, MissingRecord
from sureenough.engines.vllm.server.records import PathRecords

TIMEOUT: Final = 10.0


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        records = cast(_RecordsServer, self.server).records
        for line in self.rfile:
            request = json.loads(line)
            record = records.read(str(request["key"]), request.get("tokens"))
            self.wfile.write(json.dumps(record.to_json()).encode() + b"\n")


class _RecordsServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024  # many paths end at once, and a full queue refuses connections

    def __init__(self, socket_path: str, records: PathRecords) -> None:
        self.records = records
        super().__init__(socket_path, _Handler)


def serve_records(records: PathRecords, socket_path: str) -> None:
    """Serve records at this path until the process ends."""
    Path(socket_path).unlink(missing_ok=True)
    server = _RecordsServer(socket_path, records)
    os.chmod(socket_path, 0o600)
    threading.Thread(target=server.serve_forever, name="sureenough-records", daemon=True).start()


async def request_record(socket_path: str, key: str, tokens: int | None) -> dict[str, Any]:
    """A record as JSON, or {"lost": reason}."""
    if KEY_PATTERN.fullmatch(key) is None:
        return MissingRecord("that is not a key").to_json()
    try:
        async with asyncio.timeout(TIMEOUT):
            reader, writer = await asyncio.open_unix_connection(socket_path, limit=1 << 26)
            try:
                writer.write(json.dumps({"key": key, "tokens": tokens}).encode() + b"\n")
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError) as error:
        return MissingRecord(f"the monitor does not respond ({type(error).__name__})").to_json()
    if not line:
        return MissingRecord("the monitor closed the connection").to_json()
    return cast("dict[str, Any]", json.loads(line))
