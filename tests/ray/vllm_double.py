"""A package that looks like vLLM and serves prepared paths: `serve-vllm` itself runs, and starts this instead."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

from tests.cli.recording import CLEAN
from tests.engines.misbehaving import Manner, Server, gone
from tests.ray.cluster import ROOT

FOLDER = "SUREENOUGH_TEST_VLLM"
MANNER = Manner(tokens=30, by_prompt=True)


def install(folder: Path) -> dict[str, str]:
    """Write the package; the environment in which Python takes it for vLLM."""
    package = folder / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for one in (package, package.parent, package.parent.parent):
        (one / "__init__.py").touch()
    (package / "api_server.py").write_text("from tests.ray.vllm_double import main\nmain()\n")
    (folder / "vllm-0.32.0.dist-info").mkdir()
    (folder / "vllm-0.32.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n")
    return {"PYTHONPATH": f"{folder}:{ROOT}:{CLEAN.get('PYTHONPATH', '')}", FOLDER: str(folder)}


class Double(Server):
    """Sends nothing until there is a file named `go`; a file with the process's number shows that it has requests."""

    healthy = True

    async def _reply(
        self, body: dict[str, Any], manner: Manner, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        folder = Path(os.environ[FOLDER])
        (folder / f"{os.getpid()}.busy").touch()
        while not (folder / "go").exists():
            if gone(reader):
                return False
            await asyncio.sleep(0.01)
        return await super()._reply(body, manner, reader, writer)


def main() -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--model")
    parser.add_argument("--fails", action="store_true")
    options, _ = parser.parse_known_args()
    if options.fails:
        raise SystemExit("ValueError: the model does not fit")

    async def serve() -> None:
        server = Double(lambda seed, nth: MANNER)
        await asyncio.start_server(server.talk, "127.0.0.1", options.port, limit=1 << 20)
        await asyncio.Event().wait()

    asyncio.run(serve())
