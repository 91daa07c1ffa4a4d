"""A request for a consensus, read and held to the limits. Fields that are not known are refused by their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import Formatter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from sureenough.api import render_prompt
from sureenough.core.options import Count
from sureenough.core.strategy import Strategy
from sureenough.engines.base import Message, Prompt
from sureenough.errors import UsageError
from sureenough.server.errors import ApiError, refused
from sureenough.server.model_names import ModelName
from sureenough.server.sampling_fields import PASSED, UNSUPPORTED_FIELDS, is_default
from sureenough.server.settings import ServerSettings
from sureenough.spec import parse

Whole = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number = Annotated[float, Meta(ge=0, le=1e9)]
Progress = Literal["comments", "reasoning", "none"]


class ConsensusOptions(Struct, forbid_unknown_fields=True):
    """The `sureenough` object of a request."""

    strategy: str | None = None
    paths: Whole | None = None
    parallel: Whole | None = None
    window: Whole | None = None
    seed: Seed | None = None
    max_tokens: Whole | None = None  # of all paths together
    deadline: Number | None = None
    count: Count = "start"
    planned: bool = False
    kind: Literal["math", "choice"] = "math"
    template: str | None = None
    progress: Progress = "comments"


class StreamOptions(Struct):
    """OpenAI's own."""

    include_usage: bool | None = None


class CompletionBody(Struct):
    """What is read of a request; the rest is carried on or refused by name."""

    model: str
    messages: list[dict[str, Any]] | None = None
    prompt: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    max_tokens: Whole | None = None
    max_completion_tokens: Whole | None = None
    seed: Seed | None = None
    sureenough: ConsensusOptions | None = None


@dataclass(frozen=True, slots=True)
class ConsensusRequest:
    """A question, and how it is to be asked."""

    model: str  # as the upstream knows it
    name: str  # as the client wrote it
    strategy: Strategy
    prompt: Prompt
    options: dict[str, Any]  # of `aask`
    sampling: dict[str, Any] = field(default_factory=dict)  # of the engine
    chat: bool = True
    stream: bool = False
    usage: bool = False
    progress: Progress = "comments"

    @property
    def longest(self) -> int | None:
        """Tokens at which a path is cut."""
        found = self.sampling.get("max_path_tokens")
        return found if isinstance(found, int) else None


def parse_body(raw: bytes) -> dict[str, Any]:
    """The body as JSON, with the model's name in it."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise refused("We could not parse the JSON body of your request.", code=None) from None
    if not isinstance(body, dict):
        raise refused("The body of a request is a JSON object.", code=None)
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise refused("you must provide a model parameter", "model", None)
    return body


def read_consensus_request(
    body: dict[str, Any], named: ModelName, settings: ServerSettings, *, chat: bool, template: str
) -> ConsensusRequest:
    """A request for a consensus."""
    _refuse_unknown(body)
    try:
        request = msgspec.convert(body, CompletionBody)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    own = request.sureenough or ConsensusOptions()
    try:
        strategy = parse(_strategy(named, own, settings))
    except UsageError as error:
        raise refused(str(error), "model" if named.strategy else "sureenough.strategy") from None
    sampling = {
        "temperature": settings.temperature if request.temperature is None else request.temperature,
        "top_p": settings.top_p if request.top_p is None else request.top_p,
        "max_path_tokens": _path_tokens(request, settings),
        "extra": {name: body[name] for name in PASSED & body.keys() if body[name] is not None},
        "chat": chat,
    }
    return ConsensusRequest(
        model=named.model,
        name=request.model,
        strategy=strategy,
        prompt=_prompt(request, chat, template if own.template is None else own.template),
        options=_sizes(own, request, settings),
        sampling=sampling,
        chat=chat,
        stream=bool(request.stream),
        usage=bool(request.stream_options and request.stream_options.include_usage),
        progress=own.progress,
    )


def _refuse_unknown(body: dict[str, Any]) -> None:
    for name, why in UNSUPPORTED_FIELDS.items():
        if name in body and not is_default(name, body[name]):
            plain = "ask with the plain model name to pass it through"
            raise refused(f"{name} cannot be used with a strategy: {why}; {plain}.", name, "unsupported_parameter")
    known = {*CompletionBody.__struct_fields__, *PASSED, *UNSUPPORTED_FIELDS}
    strange = next((name for name in body if name not in known), None)
    if strange is not None:
        shown = ", ".join(sorted(known))
        raise refused(
            f"Unrecognized request argument supplied: {strange[:80]}; known with a strategy: {shown}.",
            strange[:80],
            "unknown_parameter",
        )


def _invalid(error: msgspec.ValidationError) -> ApiError:
    words, _, where = str(error).partition(" - at `$.")
    param = where.rstrip("`") or None
    if "unknown field" in words:
        words += f"; known: {', '.join(ConsensusOptions.__struct_fields__)}"
    return refused(f"{words}{f' (at {param})' if param else ''}.", param)


def _strategy(named: ModelName, own: ConsensusOptions, settings: ServerSettings) -> str:
    if named.strategy is not None and own.strategy not in (None, named.strategy):
        raise UsageError(
            f"the model's name asks for {named.strategy}, the sureenough object for {own.strategy}: name one strategy"
        )
    return named.strategy or own.strategy or settings.strategy


def _path_tokens(read_consensus_request: CompletionBody, settings: ServerSettings) -> int | None:
    """The limit of a path; none where the caller has none and the upstream's own will do."""
    wanted = read_consensus_request.max_completion_tokens or read_consensus_request.max_tokens
    most = settings.limits.path_tokens
    if wanted is not None and wanted > most:
        name = "max_completion_tokens" if read_consensus_request.max_completion_tokens else "max_tokens"
        raise refused(f"{name} is {wanted}; this server allows {most} a path.", name)
    return wanted if wanted is not None else (most if most < 32_768 else None)


def _sizes(own: ConsensusOptions, read_consensus_request: CompletionBody, settings: ServerSettings) -> dict[str, Any]:
    limits = settings.limits
    caps = {"paths": limits.paths, "parallel": limits.parallel, "max_tokens": limits.tokens, "deadline": limits.seconds}
    for name, most in caps.items():
        wanted = getattr(own, name)
        if wanted is not None and wanted > most:
            raise refused(f"{name} is {wanted:g}; this server allows {most:g}.", f"sureenough.{name}")
    paths = own.paths or min(settings.paths, limits.paths)
    return {
        "paths": paths,
        "parallel": own.parallel or min(settings.parallel, limits.parallel),
        "window": own.window or settings.window,
        "seed": own.seed if own.seed is not None else read_consensus_request.seed or 0,
        "max_tokens": own.max_tokens or limits.tokens,
        "deadline": limits.seconds if own.deadline is None else own.deadline,
        "count": own.count,
        "planned": own.planned,
        "kind": own.kind,
    }


def _prompt(read_consensus_request: CompletionBody, chat: bool, template: str) -> Prompt:
    if not chat:
        if not isinstance(read_consensus_request.prompt, str) or not read_consensus_request.prompt:
            raise refused("with a strategy the prompt is one string that is not empty.", "prompt")
        return Prompt.user(read_consensus_request.prompt)
    if not read_consensus_request.messages:
        raise refused("messages must hold at least one message.", "messages")
    for place, message in enumerate(read_consensus_request.messages):
        if not isinstance(message.get("role"), str):
            raise refused("every message has a role.", f"messages[{place}].role")
    return Prompt(tuple(_put(read_consensus_request.messages, template)))


def _plain(template: str) -> bool:
    """Whether a template has places for the question only: a format could ask for a line of a billion blanks."""
    try:
        fields = [field[1:] for field in Formatter().parse(template)]
    except ValueError:
        return False
    places = [field for field in fields if field != (None, None, None)]
    return len(places) <= 1 and all(field == ("question", "", None) for field in places)


def _put(messages: list[dict[str, Any]], template: str) -> list[Message]:
    """The last turn, where it is the user's, is put as `ask` puts a question, unless it speaks of a box already."""
    last = messages[-1]
    content = last.get("content")
    if last["role"] != "user" or "\\boxed" in str(content):
        return list(messages)
    if not _plain(template):
        raise refused("a template has a place for the {question}, and no other braces.", "sureenough.template")
    try:
        if isinstance(content, str):
            return [*messages[:-1], {**last, "content": render_prompt(content, template).text}]
        if isinstance(content, list) and content and isinstance(content[-1], dict) and "text" in content[-1]:
            part = {**content[-1], "text": render_prompt(str(content[-1]["text"]), template).text}
            return [*messages[:-1], {**last, "content": [*content[:-1], part]}]
    except UsageError as error:
        raise refused(f"{error}.", "messages") from None
    return list(messages)
