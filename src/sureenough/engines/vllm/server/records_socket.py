"""Where records are asked for: a Unix socket beside the engine, one line of JSON each way.

The socket's folder is the server's own. A path's key is its client's secret: records are given to whoever names one.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socketserver
import threading
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from sureenough.core.confidence.array import scan
from sureenough.core.events import Summary, Tier
from sureenough.engines.vllm.protocol import KEY, PROTOCOL, K, longest_window
from sureenough.version import __version__

TIERS: Final = (None, Tier.DROP, Tier.RISK)
WAIT: Final = 10.0


def offer() -> dict[str, Any]:
    """What a server that watches its own paths says of itself."""
    return {"sureenough": __version__, "protocol": PROTOCOL, "k": K, "window": longest_window()}


def told(board: Any, key: str, tokens: int | None) -> dict[str, Any]:
    """A record as JSON; signals as the bytes of little-endian doubles."""
    found = board.read(key, tokens)
    if not hasattr(found, "lowest"):
        return {"lost": found.why}
    said = {"tokens": found.tokens, "lowest": found.lowest, "tail": found.tail, "tier": found.tier}
    if found.signals is not None:
        said["signals"] = base64.b64encode(found.signals.astype("<f8").tobytes()).decode()
    return said


def summary(said: dict[str, Any], window: int) -> Summary:
    """A record as the core knows it."""
    windows = None
    if "signals" in said:
        signals = np.frombuffer(base64.b64decode(said["signals"]), dtype="<f8").astype(np.float64).reshape(-1, 2)
        windows = scan(np.ascontiguousarray(signals[:, 0]), np.ascontiguousarray(signals[:, 1]), window)
    return Summary(said["tokens"], said["lowest"], said["tail"], TIERS[said["tier"]], windows)


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            asked = json.loads(line)
            said = told(cast(_Server, self.server).board, str(asked["key"]), asked.get("tokens"))
            self.wfile.write(json.dumps(said).encode() + b"\n")


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024  # many paths end at once; a full queue refuses

    def __init__(self, place: str, board: Any) -> None:
        self.board = board
        super().__init__(place, _Handler)


def serve_records(board: Any, place: str) -> None:
    """Answer at this path for as long as the process lives."""
    Path(place).unlink(missing_ok=True)
    server = _Server(place, board)
    os.chmod(place, 0o600)
    threading.Thread(target=server.serve_forever, name="sureenough-desk", daemon=True).start()


async def request_record(place: str, key: str, tokens: int | None) -> dict[str, Any]:
    """Ask for a record; {"lost": why} where there is none."""
    if KEY.fullmatch(key) is None:
        return {"lost": "that is no key"}
    try:
        async with asyncio.timeout(WAIT):
            reader, writer = await asyncio.open_unix_connection(place, limit=1 << 26)
            try:
                writer.write(json.dumps({"key": key, "tokens": tokens}).encode() + b"\n")
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError) as error:
        return {"lost": f"the monitor does not answer ({type(error).__name__})"}
    found = json.loads(line) if line else {"lost": "the monitor broke off"}
    return cast("dict[str, Any]", found)
