"""A model that vLLM has loaded into this process, and the records of the monitor that watches its paths."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sureenough.core.events import Summary
from sureenough.engines.vllm.client import settled_counts
from sureenough.engines.vllm.path_record import parse_summary
from sureenough.engines.vllm.protocol import LOGITS_PROCESSOR, SCHEDULER, K, WatchRequest, server_environment
from sureenough.engines.vllm.sampled_tokens import SampledTokens
from sureenough.engines.vllm.server.records_socket import ProgressReader, RecordReader, request_progress
from sureenough.engines.vllm.token_texts import TokenTexts
from sureenough.errors import EngineError


class LoadedModel:
    """Loaded for its first user, shut down after its last; engines with other sampling parameters share it."""

    engine: Any = None
    tokenizer: Any = None
    token_texts: TokenTexts
    sampled: SampledTokens
    _socket_path = ""
    _progress: ProgressReader
    _records: RecordReader

    def __init__(self, model: str, longest_window: int, arguments: Mapping[str, Any]) -> None:
        self._model, self._longest_window, self._arguments = model, longest_window, arguments
        self._users = 0
        self._resources = ExitStack()

    def acquire(self) -> None:
        """Load the model, unless it is."""
        if self.engine is None:
            self._load()
        self._users += 1

    def release(self) -> None:
        """Shut it down if this was its last user."""
        self._users -= 1
        if self._users:
            return
        self.engine = None
        self._resources.close()
        gc.collect()  # vLLM's engine has a finaliser, which fails with a message if it runs when the interpreter ends

    def _load(self) -> None:
        with ExitStack() as resources:  # a failed start leaves neither its folder nor its environment behind
            folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="sureenough-"))
            socket_path = str(Path(folder) / "records.sock")
            resources.enter_context(_environment(server_environment(socket_path, self._longest_window)))
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            watching = {"logits_processors": [LOGITS_PROCESSOR], "scheduler_cls": SCHEDULER}
            arguments = {"max_logprobs": K, **watching, **self._arguments}
            engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=self._model, **arguments))
            resources.callback(engine.shutdown)
            self.tokenizer = engine.get_tokenizer()
            self._progress, self._records = ProgressReader(socket_path), RecordReader(socket_path)
            self.token_texts = TokenTexts(self.tokenizer)
            self.sampled = SampledTokens(self.token_texts)
            self.engine, self._socket_path, self._resources = engine, socket_path, resources.pop_all()
            del engine  # an import error that vLLM remembers keeps this frame, and what is in it

    # -- the monitor's records

    async def with_progress(self, outputs: AsyncIterator[Any], key: str) -> AsyncGenerator[Any, None]:
        """The outputs, and how far the path is while there are none: a watched path has one output, at its end."""
        with self._progress.following(key):
            output = asyncio.ensure_future(anext(outputs, None))
            try:
                while not (await asyncio.wait({output}, timeout=self._progress.interval))[0]:
                    progress = await self._progress.progress(key)
                    if progress is not None:
                        yield progress
                if (last := await output) is not None:
                    yield last
            finally:
                output.cancel()
                await asyncio.wait({output})  # vLLM aborts the request before its generator is closed

    async def report_cancelled(self, key: str, counted: int, report: Callable[[int], None]) -> None:
        """Report how many more tokens than `counted` a cancelled path has, once that is known."""

        async def fetch(keys: Sequence[str]) -> list[int | None]:
            paths = await request_progress(self._socket_path, keys)
            return [None if path is None else path.tokens for path in paths]

        total = (await settled_counts(fetch, [key]))[key]
        if total is not None:
            report(max(0, total - counted))

    async def summary(self, request: WatchRequest, tokens: int) -> Summary:
        """What the monitor has seen of a path that ended with so many tokens."""
        record = await self._records.read(request.key, tokens)
        if "lost" in record:
            raise EngineError(f"the monitor watched a path, but has no record of it: {record['lost']}")
        return parse_summary(record, request.window)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables, and restore what they were."""
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
