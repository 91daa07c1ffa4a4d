"""vLLM in this process as an engine: `VLLM("Qwen/Qwen3-4B")`. Closing a path's generator aborts its request.

The monitor watches the paths of a run, which come back as a count, a text and a summary; a path outside a run comes
with the signals of its tokens. Text is decoded once, at a path's end.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from copy import copy, deepcopy
from itertools import count
from pathlib import Path
from typing import Any, Self

from sureenough.core.events import Summary, Token
from sureenough.engines.base import End, Engine, ExtendOptions, Part, Piece, Prompt, Report, TokenStream
from sureenough.engines.openai.logprobs import floored, token_signals
from sureenough.engines.openai.reply import to_end_of_token
from sureenough.engines.openai.wire import FINISH_REASONS
from sureenough.engines.watch.client import settled_counts
from sureenough.engines.watch.protocol import (
    GROUP_ARGUMENT,
    LOGITS_PROCESSOR,
    SCHEDULER,
    K,
    Progress,
    WatchRequest,
    is_countable,
    parse_summary,
    server_environment,
)
from sureenough.errors import EngineError, EngineRejected, UsageError
from sureenough.vllm import check_version
from sureenough.vllm.records import MonitorReader
from sureenough.vllm.sampled_tokens import SampledTokens, TokenSequence, TokenTexts


class GrowingPath:
    """What has come of one path."""

    def __init__(self, k: int | None, sequence: TokenSequence | None = None) -> None:
        self.ids: list[int] = []
        self.k = k  # candidates whose log-probabilities come with a token; None: not even its own does
        self._sequence = sequence  # grows with the path and has the texts of its tokens; None: vLLM decodes the text
        self.finish = "stop"
        self.stop_text = ""  # at which it ended
        self.tokens = self.length = 0  # passed on, and the characters of their text
        self.cached_tokens: int | None = None

    def add(self, output: Any) -> Part | None:
        """An output of vLLM, or the progress of a watched path."""
        if isinstance(output, Progress):
            return self._count(output.tokens - 1, tail=output.tail)  # a token may be sampled after the last one
        delta = output.outputs[0]
        self.cached_tokens = output.num_cached_tokens
        self.ids += delta.token_ids
        self.finish = delta.finish_reason or self.finish
        self.stop_text = delta.stop_reason if isinstance(delta.stop_reason, str) else ""  # or a token that ends replies
        if self._sequence is not None:
            texts = self._sequence.add(delta.token_ids)
        else:  # vLLM's text is empty unless it decodes the path as it grows
            texts = [delta.text or "", *[""] * (len(delta.token_ids) - 1)]
        text = "".join(texts)
        self.length += len(text)
        if self.k is None or not delta.token_ids:
            return self._count(len(self.ids), text)
        return _piece(texts, delta.logprobs, self.k or 1)

    def end(self, prompt_tokens: int, text: str, stop_text: str, summary: Summary | None = None) -> End:
        """Its end, with text that is still missing."""
        finish, cached = FINISH_REASONS[self.finish], self.cached_tokens
        return End(
            finish, text, stop_text=stop_text, prompt_tokens=prompt_tokens, cached_tokens=cached, summary=summary
        )

    def _count(self, tokens: int, text: str = "", tail: float | None = None) -> Report | None:
        new, self.tokens = tokens - self.tokens, max(tokens, self.tokens)
        return Report(new, text, tail=tail) if new > 0 or text else None


def _piece(texts: Sequence[str], flat: Any, k: int) -> Piece:
    """The tokens of one output with their signals, from k candidates or from the sampled token alone.

    The sampled token's own entry comes first, apart from the candidates; but if vLLM has joined several outputs into
    one, a token that is among its candidates comes once. The last entries are the candidates in both cases.
    """
    bounds = zip(texts, flat.start_indices, flat.end_indices, strict=True)
    tokens = [Token(text, *token_signals(flat.logprobs[start:end][-k:], k)) for text, start, end in bounds]
    return Piece(tokens, [floored(flat.logprobs[start]) for start in flat.start_indices])


# A model that vLLM has loaded into this process, and the records of the monitor that watches its paths.


class LoadedModel:
    """Loaded for its first user, shut down after its last; engines with other sampling parameters share it."""

    engine: Any = None
    tokenizer: Any = None
    token_texts: TokenTexts
    sampled: SampledTokens
    _monitor: MonitorReader

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
            variables = server_environment(socket_path, self._longest_window)
            resources.callback(os.environ.update, {name: os.environ[name] for name in variables if name in os.environ})
            for name in variables:
                resources.callback(os.environ.pop, name, None)
            os.environ.update(variables)
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            watching = {"logits_processors": [LOGITS_PROCESSOR], "scheduler_cls": SCHEDULER}
            arguments = {"max_logprobs": K, **watching, **self._arguments}
            engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=self._model, **arguments))
            resources.callback(engine.shutdown)
            self.tokenizer = engine.get_tokenizer()
            self._monitor = MonitorReader(socket_path)
            self.token_texts = TokenTexts(self.tokenizer)
            self.sampled = SampledTokens(self.token_texts)
            self.engine, self._resources = engine, resources.pop_all()
            del engine  # an import error that vLLM remembers keeps this frame, and what is in it

    # -- the monitor's records

    async def with_progress(self, outputs: AsyncIterator[Any], key: str) -> AsyncGenerator[Any, None]:
        """The outputs, and how far the path is while there are none: a watched path has one output, at its end."""
        with self._monitor.following(key):
            output = asyncio.ensure_future(anext(outputs, None))
            try:
                while not (await asyncio.wait({output}, timeout=self._monitor.interval))[0]:
                    progress = await self._monitor.progress(key)
                    if progress is not None:
                        yield progress
                if (last := await output) is not None:
                    yield last
            finally:
                output.cancel()
                await asyncio.wait({output})  # vLLM aborts the request before its generator is closed

    async def report_cancelled(self, key: str, counted: int, report: Callable[[int], None]) -> None:
        """Report how many more tokens than `counted` a cancelled path has, once that is known."""
        total = (await settled_counts(self._monitor.request_progress, [key]))[key]
        if total is not None:
            report(max(0, total - counted))

    async def summary(self, request: WatchRequest | None, tokens: int) -> Summary | None:
        """What the monitor has seen of a path that ended with so many tokens; None if it was to count them only."""
        if request is None or not request.record:
            return None
        record = await self._monitor.record(request.key, tokens)
        if "lost" in record:
            raise EngineError(f"the monitor watched a path, but has no record of it: {record['lost']}")
        return parse_summary(record, request.window)


class VLLM(Engine):
    """A model inside this process. A run loads it when it starts; `async with` keeps it loaded for several runs."""

    def __init__(
        self,
        model: str,
        *,
        temperature: float = 0.6,
        top_p: float = 0.95,
        max_path_tokens: int | None = None,
        window: int | None = None,
        longest_window: int = 2048,
        extra: Mapping[str, Any] | None = None,  # further sampling parameters
        **arguments: Any,  # of vLLM's AsyncEngineArgs
    ) -> None:
        check_version()
        if not model:
            raise UsageError("model is empty; give the name or the folder of a model")
        self.model, self.window = model, window
        self._sampling = {"temperature": temperature, "top_p": top_p, **(extra or {})}
        self.max_path_tokens, self.longest_window = max_path_tokens, longest_window
        self.stream_interval = int(arguments.get("stream_interval", 1))  # tokens per output of unwatched paths
        self._loaded = LoadedModel(model, longest_window, arguments)
        self._request_numbers = count()
        self._encoded: tuple[Any, list[int]] | None = None  # the latest prompt and its tokens

    def sampled(self, *, max_path_tokens: int | None = None, **sampling: Any) -> VLLM:
        """The same model, loaded once, with other sampling parameters."""
        other = copy(self)
        other._sampling = self._sampling | sampling
        other.max_path_tokens = max_path_tokens or self.max_path_tokens
        return other

    # -- loading

    def model_name(self) -> str:
        """The name or folder of the model."""
        return self.model

    async def __aenter__(self) -> Self:
        self._loaded.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loaded.release()

    def open(self, *, parallel: int) -> Self:
        """Load the model for a run, unless `async with` or another run did."""
        return self

    # -- paths

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        """Grow one path."""
        async with self:
            request_id = f"path-{next(self._request_numbers):08}-{seed}"
            watch = prompt.watch if prompt.signals or is_countable(self._sampling) else None
            request = None if watch is None else WatchRequest.of(request_id, watch, signals=prompt.signals)
            ids, decoded = self._prompt_ids(prompt), {"detokenize": bool(self._sampling.get("stop"))}
            path = GrowingPath(K if prompt.signals and request is None else None)
            try:
                async with aclosing(self._grow(path, ids, request_id, seed, decoded, request)) as parts:
                    async for part in parts:
                        yield part
            except (GeneratorExit, asyncio.CancelledError):
                if watch is not None and watch.report_unheard is not None:
                    await self._loaded.report_cancelled(request_id, path.tokens, watch.report_unheard)
                raise
            text = "" if decoded["detokenize"] else self._loaded.token_texts.decoded(path.ids)
            summary = await self._loaded.summary(request, len(path.ids))
            yield path.end(len(ids), text, path.stop_text, summary)

    async def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        """Continue a beginning, of which what was sampled here keeps its ids."""
        async with self:
            prompt_ids = self._prompt_ids(prompt)
            sequence = self._loaded.sampled.begin(prompt_ids, beginning)
            ids = [*prompt_ids, *sequence.ids]
            if sequence.ids and len(ids) >= self._context:  # a path at its limit is one that was cut
                yield End("length")
                return
            changes = options.sampling(self._sampling)
            # Here each token is decoded once, and then known; vLLM decodes every token, and each of its candidates. But
            # only vLLM looks for a stop text.
            decodes = not (self._sampling | changes).get("stop") and self._loaded.token_texts.exact
            changes["detokenize"] = not decodes
            k = None if not prompt.signals else K if options.confidence else 0
            path = GrowingPath(k, sequence if decodes else None)
            name = f"rest-{next(self._request_numbers):08}"
            async with aclosing(self._grow(path, ids, name, seed, changes)) as parts:
                async for part in parts:
                    yield part
            stop_text = path.stop_text
            if not decodes:
                texts = sequence.add(path.ids)
                stop_text = stop_text and to_end_of_token(stop_text, path.length, texts)
            rest = sequence.rest() if decodes else ""
            self._loaded.sampled.keep(prompt_ids, sequence)
            yield path.end(len(ids), rest, stop_text)

    async def _grow(
        self,
        path: GrowingPath,
        ids: list[int],
        name: str,
        seed: int,
        changes: Mapping[str, Any],
        request: WatchRequest | None = None,
    ) -> AsyncGenerator[Part, None]:
        """The parts of a request as they come; an error if vLLM does not accept it or gives it up."""
        params = self._params(path, len(ids), seed, changes, request)
        try:
            generated = self._loaded.engine.generate({"prompt_token_ids": ids}, params, name)
            outputs = generated if request is None else self._loaded.with_progress(generated, name)
            async with aclosing(generated), aclosing(outputs):
                async for output in outputs:
                    part = path.add(output)
                    if part is not None:
                        yield part
        except ValueError as error:  # what vLLM raises for a request that it does not accept
            raise EngineRejected(f"vLLM refused the request: {error}") from None
        if path.finish not in FINISH_REASONS:
            raise EngineError(f"vLLM ended the path with the finish reason {str(path.finish)[:40]!r}")

    @property
    def _context(self) -> int:
        return int(self._loaded.engine.model_config.max_model_len)

    def _prompt_ids(self, prompt: Prompt) -> list[int]:
        if self._encoded is None or self._encoded[0] != prompt.messages:  # the paths of a run share their prompt
            messages = [dict(message) for message in prompt.messages]
            ids = self._loaded.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
            # A copy: the caller may change a message and ask again.
            self._encoded = deepcopy(prompt.messages), list(ids)
        return self._encoded[1].copy()

    def _params(
        self, path: GrowingPath, prompt_tokens: int, seed: int, changes: Mapping[str, Any], request: WatchRequest | None
    ) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        remaining = self._context - prompt_tokens
        if remaining < 1:
            raise EngineRejected(
                f"the prompt has {prompt_tokens} tokens, but the model takes at most {self._context} in all"
            )
        sampling = {"max_tokens": self.max_path_tokens or remaining, "seed": seed, **self._sampling, **changes}
        group = {GROUP_ARGUMENT: self.stream_interval} if self.stream_interval > 1 else None
        try:
            return SamplingParams(
                **sampling | {"max_tokens": min(remaining, sampling["max_tokens"])},
                logprobs=path.k,
                flat_logprobs=True,
                output_kind=RequestOutputKind.DELTA if request is None else RequestOutputKind.FINAL_ONLY,
                extra_args=group if request is None else request.to_arguments(),
            )
        except (ValueError, TypeError) as error:  # a value or a name that vLLM does not know
            raise EngineRejected(f"vLLM refused the sampling parameters: {error}") from None
