"""A model that vLLM runs in this process, as an engine: inside vLLM's own server, and for notebooks as `VLLM(...)`.

vLLM's own server layer makes the prompt and the sampling parameters of a request, and reads its reply: chat template,
generation_config, LoRA names, tools and reasoning are its own. The monitor watches the paths of a run, which come back
as a count, their tokens and a summary. Text is decoded once, at a path's end. Closing a path aborts its request.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from copy import copy, deepcopy
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

from sureenough.core.events import Summary, Token
from sureenough.engines.base import End, Engine, ExtendOptions, Part, Piece, Prompt, Report, TokenStream
from sureenough.engines.openai.logprobs import floored, token_signals
from sureenough.engines.openai.reply import MessageText, ReasoningFields, to_end_of_token
from sureenough.engines.openai.wire import FINISH_REASONS, Choice, Delta, FunctionDelta, ToolCallDelta
from sureenough.engines.watch.protocol import (
    LONGEST_WINDOW,
    K,
    Progress,
    WatchRequest,
    is_countable,
    is_watchable,
    parse_summary,
)
from sureenough.errors import EngineError, EngineRejected, UsageError
from sureenough.vllm import check_version
from sureenough.vllm.processor import configuration_problem
from sureenough.vllm.reader import RecordsReader

_numbers: Final = count()  # of requests: their names must differ


class GrowingPath:
    """What has come of one path."""

    def __init__(self, k: int | None, *, withheld: bool = False) -> None:
        self.ids: list[int] = []
        self.k = k  # candidates whose log-probabilities come with a token; None: not even its own does
        self._withheld = withheld  # the text is not passed on: it is read at the end
        self.finish, self.text = "stop", ""
        self.stop_text = ""  # at which it ended
        self.tokens = 0  # passed on
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
        self.text += delta.text or ""
        text = "" if self._withheld else delta.text or ""
        if self.k is None or not delta.token_ids:
            return self._count(len(self.ids), text)
        return _piece([text, *[""] * (len(delta.token_ids) - 1)], delta.logprobs, self.k or 1)

    def end(self, prompt_tokens: int, text: str, summary: Summary | None = None, *, stop_text: str = "") -> End:
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


class ContextFull(EngineRejected):
    """The prompt leaves no room for a token."""


class ServedModel:
    """What all requests of one vLLM share: its engine, and the layer of its server that reads and writes messages."""

    def __init__(self, client: Any, state: Any) -> None:
        """Take the client of an engine, and what vLLM's `init_app_state` has set for it."""
        self.client, self.chat, self.completion = client, state.openai_serving_chat, state.openai_serving_completion
        self.names = state.openai_serving_models
        self.records = RecordsReader(client)
        self.tokenizer = self.chat.renderer.tokenizer
        self.not_watched = configuration_problem(client.vllm_config)
        # The latest prompt of each engine, which the paths of a run share.
        self.prompts: MutableMapping[ServedEngine, tuple[Any, asyncio.Task[RenderedRequest]]] = WeakKeyDictionary()

    @property
    def context(self) -> int:
        return int(self.client.model_config.max_model_len)


@dataclass(frozen=True)
class RenderedRequest:
    """A request as vLLM's server would hand it to the engine, but for the seed."""

    serving: Any
    request: Any
    inputs: Any
    params: Any
    arguments: dict[str, Any]  # of `generate`

    @property
    def ids(self) -> list[int]:
        return list(self.inputs["prompt_token_ids"])

    def parser(self, tokenizer: Any) -> Any:
        """VLLM's parser of this model's reasoning and tool calls; None if its server has none."""
        if getattr(self.serving, "parser_cls", None) is None:
            return None
        kwargs = self.serving._effective_chat_template_kwargs(self.request)
        return self.serving._make_parser(self.request, tokenizer, kwargs)


async def rendered(served: ServedModel, body: dict[str, Any], *, chat: bool) -> RenderedRequest:
    """VLLM's own reading of a request with these fields; an error if it refuses them."""
    from pydantic import ValidationError
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest
    from vllm.entrypoints.serve.engine.protocol import ErrorResponse
    from vllm.entrypoints.serve.utils.api_utils import get_max_tokens
    from vllm.exceptions import VLLMClientError

    serving = served.chat if chat else served.completion
    try:
        request = (ChatCompletionRequest if chat else CompletionRequest).model_validate(body)
        reply = await (serving.render_chat_request(request) if chat else serving.render_completion_request(request))
        if isinstance(reply, ErrorResponse):
            raise EngineRejected(f"vLLM refused the request: {reply.error.message}")
        (inputs,) = reply[1] if chat else reply
        wanted = request.max_tokens
        if chat and request.max_completion_tokens is not None:
            wanted = request.max_completion_tokens
        length, limit = serving._extract_prompt_len(inputs), serving.override_max_tokens
        most = get_max_tokens(served.context, wanted, length, serving.default_sampling_params, limit)
        params = request.to_sampling_params(most, serving.default_sampling_params)
    except ValidationError as error:
        first = error.errors()[0]
        raise EngineRejected(f"vLLM refused the request: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, TypeError, VLLMClientError) as error:
        raise EngineRejected(f"vLLM refused the request: {error}") from None
    if most < 1:
        raise ContextFull(f"the prompt has {length} tokens, but the model takes at most {served.context} in all")
    arguments: dict[str, Any] = {"lora_request": serving._maybe_get_adapters(request)}
    made = RenderedRequest(serving, request, inputs, params, arguments)
    if chat:
        parser, kwargs = made.parser(served.tokenizer), serving._effective_chat_template_kwargs(request)
        arguments |= serving._engine_reasoning_kwargs(request, parser, kwargs, made.ids)
    return made


class ServedEngine(Engine):
    """Paths of a served model, with these sampling parameters: fields of a request to vLLM's server."""

    longest_window = LONGEST_WINDOW

    def __init__(
        self, served: ServedModel | None, model: str, sampling: Mapping[str, Any], *,
        max_path_tokens: int | None = None, chat: bool = True, window: int | None = None,
    ) -> None:  # fmt: skip
        self.served, self.model, self._sampling = served, model, dict(sampling)
        self.max_path_tokens, self.chat, self.window = max_path_tokens, chat, window

    def model_name(self) -> str:
        return self.model

    def sampling(self) -> dict[str, Any]:
        return self._sampling

    @property
    def _model(self) -> ServedModel:
        assert self.served is not None  # the engine is open
        return self.served

    def _rendered(self, prompt: Prompt) -> asyncio.Task[RenderedRequest]:
        latest = self._model.prompts.get(self)
        if latest is None or latest[0] != prompt.messages:
            rendering = asyncio.ensure_future(rendered(self._model, self._body(prompt), chat=self.chat))
            rendering.add_done_callback(lambda task: task.cancelled() or task.exception())  # all of its paths may leave
            latest = deepcopy(prompt.messages), rendering  # the caller may change a message and ask again
            self._model.prompts[self] = latest
        return latest[1]

    def _body(self, prompt: Prompt, beginning: str = "", **more: Any) -> dict[str, Any]:
        """A request to vLLM's server for a path, or for the rest of one that begins so."""
        limit = {} if self.max_path_tokens is None else {"max_tokens": self.max_path_tokens}
        body: dict[str, Any] = {"model": self.model, **limit, **self._sampling, **more}
        if "max_tokens" in body:
            body["max_tokens"] = min(body["max_tokens"], self._model.context)  # vLLM refuses more
        if not self.chat:
            return body | {"prompt": prompt.text + beginning}
        body["messages"] = [dict(message) for message in prompt.messages]
        if beginning:
            body["messages"].append({"role": "assistant", "content": beginning})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        return body

    def _watch_request(self, prompt: Prompt, name: str) -> WatchRequest | None:
        """How the monitor is to watch a path; None if it must not, or cannot."""
        if prompt.watch is None or self._model.not_watched is not None:
            return None
        if not prompt.signals and not is_countable(self._sampling):
            return None
        request = WatchRequest.of(name, prompt.watch, signals=prompt.signals)
        watchable = request.window <= LONGEST_WINDOW and is_watchable(self._sampling, request.to_arguments())
        return request if watchable else None

    # -- paths

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        """Grow one path."""
        name = f"path-{next(_numbers):08}-{seed}"
        request = self._watch_request(prompt, name)
        path = GrowingPath(K if prompt.signals and request is None else None, withheld=True)
        try:
            made = await asyncio.shield(self._rendered(prompt))
            changes = {"seed": seed, "detokenize": bool(made.params.stop)}
            async with aclosing(self._grow(path, made, name, changes, request)) as parts:
                async for part in parts:
                    yield part
            summary = await self._summary(request, len(path.ids))
        except (GeneratorExit, asyncio.CancelledError):
            await self._report_cancelled(prompt, request, path)
            raise
        yield path.end(len(made.ids), self._text(path, made), summary)

    async def _report_cancelled(self, prompt: Prompt, request: WatchRequest | None, path: GrowingPath) -> None:
        """How many more tokens than those passed on a path has that is cancelled, once that is known."""
        report = None if prompt.watch is None else prompt.watch.report_unheard
        if request is not None and report is not None:
            total = await self._model.records.count_cancelled(request.key)
            if total is not None:
                report(max(0, total - path.tokens))

    async def _summary(self, request: WatchRequest | None, tokens: int) -> Summary | None:
        """What the monitor has seen of a path that ended with so many tokens; None if it was to count them only."""
        if request is None or not request.record:
            return None
        record = await self._model.records.record(request.key, tokens)
        if "lost" in record:
            raise EngineError(f"the monitor watched a path, but has no record of it: {record['lost']}")
        return parse_summary(record, request)

    def _text(self, path: GrowingPath, made: RenderedRequest) -> str:
        """The text of a complete path; reasoning and tool calls are put in as `ReplyParser` does from a reply."""
        text = path.text
        if not made.params.stop:
            ended = path.finish == "stop" and not path.stop_text
            ids = path.ids[:-1] if ended else path.ids  # the end token, which need not be a special one
            text = str(self._model.tokenizer.decode(ids, skip_special_tokens=made.params.skip_special_tokens))
        parser = made.parser(self._model.tokenizer)
        if parser is None:
            return text
        parser.set_prompt_token_ids(made.ids)
        enabled = made.serving.enable_auto_tools
        reasoning, content, calls = parser.parse(
            text, made.request, enable_auto_tools=enabled, model_output_token_ids=path.ids
        )
        functions = [FunctionDelta(call.name, call.arguments) for call in calls or ()]
        deltas = [ToolCallDelta(index, function) for index, function in enumerate(functions)]
        message = MessageText("", ReasoningFields())
        read = message.add(Choice(Delta(content=content, reasoning=reasoning, tool_calls=deltas or None)))
        return read + message.end(complete=path.finish == "stop")

    # -- continuations

    async def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        """Continue a beginning, which the chat template gets as the start of the last message."""
        body = self._body(prompt, beginning, **options.sampling(self._sampling))
        try:
            made = await rendered(self._model, body, chat=self.chat)
        except ContextFull:
            if not beginning:
                raise
            yield End("length")  # a path at its limit is one that was cut
            return
        path = GrowingPath(None if not prompt.signals else K if options.confidence else 0)
        name = f"rest-{next(_numbers):08}"
        async with aclosing(self._grow(path, made, name, {"seed": seed})) as parts:
            async for part in parts:
                yield part
        decode = self._model.tokenizer.decode
        texts = [str(decode([token])) for token in path.ids] if path.stop_text else []
        stop_text = path.stop_text and to_end_of_token(path.stop_text, len(path.text), texts)
        yield path.end(len(made.ids), "", stop_text=stop_text)

    async def _grow(
        self, path: GrowingPath, made: RenderedRequest, name: str, changes: Mapping[str, Any],
        request: WatchRequest | None = None,
    ) -> AsyncGenerator[Part, None]:  # fmt: skip
        """The parts of a request as they come; an error if vLLM does not accept it or gives it up."""
        from vllm.exceptions import VLLMClientError, VLLMError

        served = self._model
        try:
            params = self._params(made.params, path, changes, request)
            generated = served.client.generate(made.inputs, params, name, **made.arguments)
            outputs = generated if request is None else served.records.with_progress(generated, name)
            async with aclosing(generated), aclosing(outputs):
                async for output in outputs:
                    part = path.add(output)
                    if part is not None:
                        yield part
        except (ValueError, TypeError, VLLMClientError) as error:  # what it does not accept
            raise EngineRejected(f"vLLM refused the request: {error}") from None
        except VLLMError as error:
            raise EngineError(f"vLLM's engine failed: {type(error).__name__}: {error}") from None
        if path.finish not in FINISH_REASONS:
            raise EngineError(f"vLLM ended the path with the finish reason {str(path.finish)[:40]!r}")

    def _params(self, shared: Any, path: GrowingPath, changes: Mapping[str, Any], request: WatchRequest | None) -> Any:
        from vllm.sampling_params import RequestOutputKind

        params = copy(shared)
        kind = RequestOutputKind.DELTA if request is None else RequestOutputKind.FINAL_ONLY
        arguments = None if request is None else request.to_arguments()
        for field, value in {
            **changes, "logprobs": path.k, "flat_logprobs": True, "output_kind": kind, "extra_args": arguments,
        }.items():  # fmt: skip
            setattr(params, field, value)
        params.__post_init__()  # checks the changes
        return params


# -- vLLM in this process, without its server


class LoadedModel:
    """Loaded for its first user, shut down after its last; engines with other sampling parameters share it."""

    def __init__(self, model: str, arguments: Mapping[str, Any]) -> None:
        self._model, self._arguments = model, arguments
        self.served: ServedModel | None = None
        self._users = 0
        self._loading: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        """Load the model, unless it is."""
        self._users += 1
        try:
            if self.served is None:
                self._loading = self._loading or asyncio.ensure_future(self._load())
                await asyncio.shield(self._loading)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Shut it down if this was its last user."""
        self._users -= 1
        if self._users:
            return
        if self.served is not None:
            self.served.client.shutdown()
        self.served = self._loading = None
        gc.collect()  # vLLM's engine has a finaliser, which fails with a message if it runs when the interpreter ends

    async def _load(self) -> None:
        from starlette.datastructures import State
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.entrypoints.launchers.api_server.app_state import init_app_state
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
        from vllm.utils.argparse_utils import FlexibleArgumentParser
        from vllm.v1.engine.async_llm import AsyncLLM

        engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=self._model, **self._arguments))
        try:
            options = make_arg_parser(FlexibleArgumentParser()).parse_args(["--model", self._model])
            options.structured_outputs_config = engine.vllm_config.structured_outputs_config
            state = State()
            await init_app_state(engine, state, options, ("generate",))
            self.served = ServedModel(engine, state)
        except BaseException:
            engine.shutdown()
            raise
        del engine, state  # an import error that vLLM remembers keeps this frame, and what is in it


class VLLM(ServedEngine):
    """A model inside this process. A run loads it when it starts; `async with` keeps it loaded for several runs."""

    def __init__(
        self,
        model: str,
        *,
        temperature: float = 0.6,
        top_p: float = 0.95,
        max_path_tokens: int | None = None,
        window: int | None = None,
        extra: Mapping[str, Any] | None = None,  # further fields of a request
        **arguments: Any,  # of vLLM's AsyncEngineArgs
    ) -> None:
        check_version()
        if not model:
            raise UsageError("model is empty; give the name or the folder of a model")
        sampling = {"temperature": temperature, "top_p": top_p, **(extra or {})}
        super().__init__(None, model, sampling, max_path_tokens=max_path_tokens, window=window)
        self._loaded = LoadedModel(model, arguments)

    def sampled(self, *, max_path_tokens: int | None = None, **sampling: Any) -> VLLM:
        """The same model, loaded once, with other sampling parameters."""
        other = copy(self)
        other._sampling = self._sampling | sampling
        other.max_path_tokens = max_path_tokens or self.max_path_tokens
        return other

    @property
    def _model(self) -> ServedModel:
        assert self._loaded.served is not None  # the engine is open
        return self._loaded.served

    async def __aenter__(self) -> Self:
        await self._loaded.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loaded.release()

    def open(self, *, parallel: int) -> Self:
        """Load the model for a run, unless `async with` or another run did."""
        return self
