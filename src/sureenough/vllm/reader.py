"""The records of watched paths, read from vLLM's engines by the process that owns their client.

Many paths of a question end together: their records are fetched in one call, and so is the progress of all that grow.
With data parallelism every engine is asked; a path's record is where it ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Final

from sureenough.engines.watch.client import Watcher
from sureenough.engines.watch.protocol import UNKNOWN_PATH, MissingRecord, Progress
from sureenough.vllm.plugin import READ_RECORDS

ARRIVAL_SECONDS: Final = 10.0
"""Time in which a path's record must arrive."""
RETRY_SECONDS: Final = 0.02
MAX_RECORDS: Final = 64
"""Records in one reply: each may have 22 bytes for every token of its path."""


class RecordsReader(Watcher):
    """The client's side of `PathRecords`, over vLLM's own calls to its workers."""

    def __init__(self, client: Any) -> None:
        super().__init__(self._no_http)
        self._client = client
        self._waiting: list[tuple[str, int | None, asyncio.Future[Any]]] = []  # for their records
        self._reading: asyncio.Task[None] | None = None

    async def _no_http(self, *_: object, **__: object) -> bytes | None:
        return None

    async def _call(self, keys: Sequence[str], paths: Sequence[tuple[str, int | None]], seconds: float) -> list[Any]:
        """The replies of all workers that sample tokens; none if the engines do not respond."""
        arguments = READ_RECORDS, None, (list(keys), [list(path) for path in paths]), None
        try:
            async with asyncio.timeout(seconds):
                engines = await self._client.engine_core.call_utility_all_async("collective_rpc", *arguments)
        except Exception:  # the engine is dead, which its paths report
            return []
        return [reply for workers in engines for reply in workers if reply is not None]

    async def fetch_known(self, keys: Sequence[str], seconds: float = 5.0) -> list[Progress | None]:
        """How far these paths are now; None for one that no engine knows."""
        engines = [progress for progress, _ in await self._call(keys, [], seconds)]
        found = [next((one for one in of_path if one is not None), None) for of_path in zip(*engines, strict=True)]
        return [None if one is None else Progress(*one) for one in found or [None] * len(keys)]

    async def fetch_progress(self, keys: Sequence[str], seconds: float = 5.0) -> list[Progress | None]:
        """The same for the poller; a path that no engine knows may still wait for its turn."""
        return [one or Progress(0, None) for one in await self.fetch_known(keys, seconds)]

    async def record(self, key: str, tokens: int | None) -> dict[str, Any]:
        """A record as JSON, or {"lost": reason}."""
        loop = asyncio.get_running_loop()
        end = loop.time() + ARRIVAL_SECONDS
        while True:
            arrived: asyncio.Future[dict[str, Any] | None] = loop.create_future()
            self._waiting.append((key, tokens, arrived))
            if self._reading is None or self._reading.done():
                self._reading = loop.create_task(self._read_records())
            if (record := await arrived) is not None:
                return record
            if loop.time() > end:
                return MissingRecord(UNKNOWN_PATH).to_json()
            await asyncio.sleep(RETRY_SECONDS)

    async def _read_records(self) -> None:
        await asyncio.sleep(0)  # others may end in the same step
        while self._waiting:
            paths, self._waiting = self._waiting[:MAX_RECORDS], self._waiting[MAX_RECORDS:]
            replies = await self._call([], [path[:2] for path in paths], ARRIVAL_SECONDS)
            for at, (_, _, arrived) in enumerate(paths):
                if not arrived.done():
                    arrived.set_result(next((reply[1][at] for reply in replies if reply[1][at] is not None), None))

    async def with_progress(self, outputs: AsyncIterator[Any], key: str) -> AsyncGenerator[Any, None]:
        """The outputs, and how far the path is while there are none: a watched path has one output, at its end."""
        woken = asyncio.Event()
        latest: Progress | None = None

        def grow(progress: Progress) -> None:
            nonlocal latest
            latest = progress
            woken.set()

        output = asyncio.ensure_future(anext(outputs, None))
        output.add_done_callback(lambda _: woken.set())
        try:
            async with self.poller.following(key, grow):
                while not output.done():
                    await woken.wait()
                    woken.clear()
                    if latest is not None and not output.done():
                        yield latest
            if (last := output.result()) is not None:
                yield last
        finally:
            output.cancel()
            await asyncio.wait({output})  # vLLM aborts the request before its generator is closed
