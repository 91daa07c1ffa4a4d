"""Paths that their server watches: the header of a request, the counts while a path grows, and the record at its end.

vLLM with the monitor inside (docs/vllm.md) reads the header; every other server ignores it and sends the
log-probabilities that the same request asks for, or every token if it asks for none. No request is made to find out
which it is.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from sureenough.core.events import Summary
from sureenough.engines.base import Prompt, Report
from sureenough.engines.watch.protocol import (
    MAX_KEYS,
    MAX_REPORTS_PER_SECOND,
    PROGRESS_SECONDS,
    PROTOCOL_VERSION,
    UNKNOWN_PATH,
    WATCHED_HEADER,
    K,
    Progress,
    WatchRequest,
    confidence,
    is_countable,
    parse_summary,
    possible_count,
)

MAX_FAILURES: Final = 3
"""Requests in a row that may fail; after that, paths are counted at their ends."""
CANCEL_SECONDS: Final = 0.03
"""Time that a server gets to stop cancelled paths before their tokens are counted, and between two counts."""

Fetch = Callable[..., Awaitable[bytes | None]]
"""Takes an endpoint of a server, the body of the request if it has one, and the seconds to wait; None if it fails."""


class InterruptibleBody:
    """The body of a response, whose reader can also be woken by something else."""

    def __init__(self, content: Any) -> None:
        self._content = content  # an asyncio.StreamReader or the like
        self._reading: asyncio.Task[bytes] | None = None
        self._woken = asyncio.Event()

    def wake(self, _: object = None) -> None:
        self._woken.set()

    async def read(self, n: int) -> bytes | None:
        """The next bytes, none at the end; None if the reader was woken."""
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._content.read(n))
            self._reading.add_done_callback(self.wake)
        await self._woken.wait()
        self._woken.clear()
        if not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        return reading.result()

    async def aclose(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)  # its reader has left


class WatchedPath:
    """One path that its server is asked to watch, and what the server reports of it."""

    pieces = 0  # of text that count as tokens: none, since the server counts them

    def __init__(
        self, client: Watcher, request: WatchRequest, report_unheard: Callable[[int], None] | None = None
    ) -> None:
        self.request, self.headers = request, request.to_header()
        self.tokens = 0
        self._client, self._report_unheard = client, report_unheard
        self._texts: list[str] = []
        self._passed_on = 0  # tokens
        self._tail: float | None = None
        self._alive = False  # the server says that the path goes on
        self._record: Mapping[str, Any] | None = None

    def accepted(self, headers: Mapping[str, str]) -> bool:
        """Whether a response's headers say that the path is watched."""
        watched = headers.get(WATCHED_HEADER) == str(PROTOCOL_VERSION)
        self._client.present |= watched
        return watched

    @asynccontextmanager
    async def reading(self, content: Any) -> AsyncIterator[Any]:
        """What to read the response with: it also wakes its reader if the path is known to have grown."""
        body = InterruptibleBody(content)

        def grow(progress: Progress) -> None:
            self.grow(progress)
            body.wake()

        async with self._client.poller.following(self.request.key, grow), aclosing(body):
            yield body

    def grow(self, progress: Progress) -> None:
        """The server's count, less one: it may have sampled a token after the last."""
        if progress.tokens - 1 > self.tokens:
            self.tokens, self._tail = progress.tokens - 1, progress.tail

    # -- as the counter of its reply's tokens

    def add(self, _: object, text: str) -> None:
        """The server sends all text at the end, and no log-probabilities."""
        if text:
            self._texts.append(text)

    def receive(self, report: object) -> None:
        if not isinstance(report, dict):
            return
        if isinstance(record := report.get("record"), dict):
            self._record = record
        self._alive = bool(report.get("alive"))

    def cut(self, over: int, _: str) -> None:
        self.tokens -= over

    def take(self) -> Report | None:
        new, text = self.tokens - self._passed_on, "".join(self._texts)
        if not (new or text or self._alive):
            return None
        report = Report(new, text, tail=self._tail)
        self._passed_on, self._tail, self._alive = self.tokens, None, False
        self._texts.clear()
        return report

    # -- its end

    def summary(self) -> Summary | None:
        """The path as the server saw it, from the record that came with its last event; None if it is only counted.

        If the server watched a path but has no record of it, later paths are not watched there.

        Raises:
            ValueError: the record is missing or malformed.
        """
        record = self._record
        if not self.request.record:
            return None
        if record is None or record.get("lost") == UNKNOWN_PATH:
            self._client.unreadable = True
        if record is None or "lost" in record:
            raise ValueError("the reply came without it" if record is None else str(record["lost"]))
        return parse_summary(record, self.request)

    async def cancelled(self) -> None:
        """Count the tokens that the server generated after the last that we heard of."""
        if self._report_unheard is None or not self._client.present or self._client.unreadable:
            return
        total = await self._client.count_cancelled(self.request.key)
        if total is not None:
            self._report_unheard(max(0, total - self.tokens))


class ProgressPoller:
    """Asks one server for the progress of all paths whose replies are read."""

    def __init__(self, fetch: Callable[[Sequence[str]], Awaitable[Sequence[Progress | None] | None]]) -> None:
        self._fetch = fetch
        self.failed = False
        self._paths: dict[str, Callable[[Progress], None]] = {}
        self._polling: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def following(self, key: str, grow: Callable[[Progress], None]) -> AsyncIterator[None]:
        self._paths[key] = grow
        if self._polling is None and not self.failed:
            self._polling = asyncio.get_running_loop().create_task(self._poll(), name="progress")
        try:
            yield
        finally:
            del self._paths[key]
            if not self._paths and self._polling is not None:
                self._polling.cancel()
                self._polling = None

    async def _poll(self) -> None:
        failures = 0
        while failures < MAX_FAILURES:
            await asyncio.sleep(max(PROGRESS_SECONDS, len(self._paths) / MAX_REPORTS_PER_SECOND))
            keys = list(self._paths)
            for start in range(0, len(keys), MAX_KEYS):
                reports = await self._fetch(keys[start : start + MAX_KEYS]) or ()
                failures = 0 if any(reports) else failures + 1  # a server that knows none of them is another one
                for key, progress in zip(keys[start:], reports, strict=False):
                    if progress is not None and key in self._paths:
                        self._paths[key](progress)
        self.failed = True


class Watcher:
    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self.present = False  # it has watched a path
        self.unreadable = False  # its records do not reach us
        self.poller = ProgressPoller(self.fetch_progress)
        self._cancelled: list[str] = []  # keys of paths whose tokens are to be counted
        self._counting: asyncio.Future[dict[str, int | None]] | None = None

    def path(self, prompt: Prompt, k: int, sampling: Mapping[str, Any]) -> WatchedPath | None:
        """One path, under a key that cannot be guessed; None if it cannot be watched."""
        watch = prompt.watch
        if self.unreadable or watch is None or not (k == K if prompt.signals else is_countable(sampling)):
            return None
        request = WatchRequest.of(secrets.token_urlsafe(18), watch, signals=prompt.signals)
        return WatchedPath(self, request, watch.report_unheard)

    async def count_cancelled(self, key: str) -> int | None:
        """All tokens of a cancelled path. Many paths are cancelled at once: one request for all."""
        self._cancelled.append(key)
        if self._counting is None:
            self._counting = asyncio.ensure_future(self._count_cancelled())
        return (await asyncio.shield(self._counting))[key]

    async def _count_cancelled(self) -> dict[str, int | None]:
        await asyncio.sleep(CANCEL_SECONDS)
        keys, self._cancelled, self._counting = self._cancelled, [], None
        return await settled_counts(partial(self.fetch_progress, seconds=1.0), keys)

    async def fetch_progress(self, keys: Sequence[str], seconds: float = 5.0) -> list[Progress | None] | None:
        """How far these paths are; None for one that the server does not know, or for all if they cannot be read."""
        body = await self._fetch("sureenough/paths", json.dumps({"keys": keys}).encode(), seconds=seconds)
        try:
            counts = json.loads(body or b"")
            paths = [_progress(*path) for path in zip(counts["tokens"], counts["tails"], strict=True)]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return paths if len(paths) == len(keys) else None


def _progress(tokens: object, tail: object) -> Progress | None:
    counted = possible_count(tokens)
    return None if counted is None else Progress(counted, confidence(tail))


async def settled_counts(
    fetch: Callable[[Sequence[str]], Awaitable[Sequence[Progress | None] | None]], keys: Sequence[str]
) -> dict[str, int | None]:
    """Token counts of cancelled paths, once they no longer grow."""
    counts: list[int | None] = []
    for _ in range(10):
        paths = await fetch(keys) or [None] * len(keys)
        previous, counts = counts, [None if path is None else path.tokens for path in paths]
        if counts == previous:
            break
        await asyncio.sleep(CANCEL_SECONDS)
    return dict(zip(keys, counts, strict=True))


class MonitorInfo(NamedTuple):
    version: str  # of sureenough on the server
    window: int  # the longest that it can watch


async def fetch_monitor_info(fetch: Fetch) -> MonitorInfo | None:
    try:
        info = json.loads(await fetch("sureenough/monitor") or b"")
        if info["protocol"] == PROTOCOL_VERSION:
            return MonitorInfo(str(info["sureenough"]), int(info["window"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        pass
    return None
