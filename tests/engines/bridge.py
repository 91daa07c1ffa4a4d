"""An engine that lives on a loop of its own, for tests that each have theirs: vLLM is loaded once for all of them."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from sureenough.engines.base import ForwardingEngine, Prompt, StartRequest, TokenStream


class Bridge(ForwardingEngine):
    """Hands every call to the loop where the engine is."""

    def __init__(self, engine: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._engine, self._loop = engine, loop

    def sampled(self, **changes: Any) -> Bridge:
        return Bridge(self._engine.sampled(**changes), self._loop)

    @property
    def running(self) -> int:
        return int(self._engine._loaded.served.client.output_processor.get_num_unfinished_requests())

    async def forward(self, prompt: Prompt, start: StartRequest) -> TokenStream:
        chunks = start(self._engine)
        steps: list[asyncio.Task[Any] | None] = []
        try:
            while True:
                try:
                    yield await self._there(_step(chunks, steps))
                except StopAsyncIteration:
                    return
        finally:
            await asyncio.shield(self._there(_close(chunks, steps)))

    def _there(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


async def _step(chunks: AsyncGenerator[Any, None], steps: list[asyncio.Task[Any] | None]) -> Any:
    steps[:] = [asyncio.current_task()]
    return await anext(chunks)


async def _close(chunks: AsyncGenerator[Any, None], steps: list[asyncio.Task[Any] | None]) -> None:
    """Close the path once its last step is over: a cancel takes its own time to unwind on the other loop."""
    if waiting := [step for step in steps if step is not None]:
        await asyncio.wait(waiting)
    await chunks.aclose()


def bridged() -> Bridge:
    """The tiny model of `.ci/vllm`, loaded in this process."""
    from sureenough.vllm.engine import VLLM

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    engine = VLLM(
        os.environ["SUREENOUGH_VLLM_MODEL"], temperature=1.0, top_p=1.0, max_model_len=2048,
        max_num_seqs=64, enforce_eager=True, distributed_executor_backend="uni",
    )  # fmt: skip

    def wait(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(300)

    wait(engine.__aenter__())
    atexit.register(lambda: wait(engine.__aexit__()))
    return Bridge(engine, loop)
