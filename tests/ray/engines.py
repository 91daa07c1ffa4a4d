"""Engines that fail on one node only, as `--engine tests.ray.engines:NAME`."""

from __future__ import annotations

import asyncio
import errno
import os

from sureenough.core.events import Token
from sureenough.engines.base import Engine, Prompt, TokenStream
from sureenough.errors import EngineUnavailable

FULL = "SUREENOUGH_TEST_FULL_DISK"
ABSENT = "SUREENOUGH_TEST_NO_SERVER"


class Writes(Engine):
    """Writes a file before it is used, which fails on a node whose environment says so."""

    def prepare(self) -> None:
        if os.environ.get(FULL):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/var/cache/model.bin")

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        """A path that does not end as long as the test runs."""
        await asyncio.sleep(3600)
        yield [Token("\\boxed{7}", 0.5, 1.0)]


class Absent(Engine):
    """Does not respond on a node whose environment says so."""

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        if os.environ.get(ABSENT):
            raise EngineUnavailable("no response from the server of this node")
        yield [Token("\\boxed{7}", 0.5, 1.0)]
