"""A request for a consensus, validated and held to the limits. Unknown fields are refused by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from sureenough.answers import Judge, resolve_kind
from sureenough.answers.json_kind import Json
from sureenough.core.options import RunOptions
from sureenough.core.strategy import Strategy
from sureenough.engines.requests import Prompt
from sureenough.errors import UsageError
from sureenough.server.errors import ApiError, bad_request
from sureenough.server.model_names import ModelName, split_model_name
from sureenough.server.request_prompt import prompt_of
from sureenough.server.request_schema import (
    SAMPLING_FIELDS,
    TOOL_FIELDS,
    UNSUPPORTED_FIELDS,
    CompletionFields,
    Progress,
    RequestTypes,
    VoteOptions,
    is_default,
)
from sureenough.server.settings import ServerLimits, ServerSettings
from sureenough.server.structured import ToolJudge, json_judge, tool_judge
from sureenough.spec import parse
from sureenough.templates import template_of

UPSTREAM_PATH_TOKENS = 32_768
"""A limit on a path's tokens that is as large as this is left to the upstream's own."""
DEEPEST_BODY = 100
"""Levels of a request's JSON. Whatever writes it again, here or at the upstream, could fail on more."""


@dataclass(frozen=True, slots=True)
class ConsensusRequest:
    """A question, and how its paths are sampled."""

    model: str  # the upstream's name of it
    name: str  # as the client wrote it, with the strategy
    strategy: Strategy
    prompt: Prompt
    options: dict[str, Any]  # of `aask`
    sampling: dict[str, Any] = field(default_factory=dict)  # of the engine
    chat: bool = True
    stream: bool = False
    usage: bool = False
    progress: Progress = "comments"
    structured: Json | ToolJudge | None = None  # the judge of a reply that programs read

    @property
    def path_tokens(self) -> int | None:
        """The most tokens of a path."""
        limit = self.sampling.get("max_path_tokens")
        return limit if isinstance(limit, int) else None

    @property
    def question(self) -> str:
        """The content of the last message, for the page and the log; empty if it has none."""
        content = self.prompt.messages[-1].get("content")
        return "" if content is None else str(content)


def parse_body(raw: bytes) -> dict[str, Any]:
    """The body as a JSON object that names a model."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request("We could not parse the JSON body of your request.", code=None) from None
    if not isinstance(body, dict):
        raise bad_request("The body of a request must be a JSON object.", code=None)
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise bad_request("you must provide a model parameter", "model", None)
    if _is_nested_deeper(body, DEEPEST_BODY):
        raise bad_request(f"The body of a request may be nested {DEEPEST_BODY} levels deep.", code=None)
    return body


def _is_nested_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than this; level by level, since recursion itself has a limit."""
    level = [value]
    while level and levels:
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        levels -= 1
    return bool(level)


class RequestReader:
    """Reads requests for a consensus under one server's settings."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.types = RequestTypes.within(settings.limits)

    def read(self, body: dict[str, Any], *, chat: bool, template: str) -> ConsensusRequest:
        """The request, or a 400 response that names the field."""
        self._refuse_unsupported(body)
        try:
            request = msgspec.convert(body, self.types.chat if chat else self.types.completion)
        except msgspec.ValidationError as error:
            raise self._invalid(error) from None
        name, options = split_model_name(request.model), request.sureenough or self.types.options()
        settings, judge = self.settings, self._judge(options.kind)
        structured = _structured_judge(body, judge, chat, explicit=options.kind is not None)
        if options.kind is not None and options.kind != settings.kind:
            template = template_of(judge)
        own_template = options.template or (None if structured else template)
        repeated = SAMPLING_FIELDS if body.get("tools") else SAMPLING_FIELDS - TOOL_FIELDS
        sampling = {
            "temperature": settings.temperature if request.temperature is None else request.temperature,
            "top_p": settings.top_p if request.top_p is None else request.top_p,
            "max_path_tokens": _path_tokens(request, settings.limits),
            "extra": {name: body[name] for name in repeated & body.keys() if body[name] is not None},
            "chat": chat,
        }
        return ConsensusRequest(
            model=name.model,
            name=request.model,
            strategy=self._strategy(name, options),
            prompt=prompt_of(request, chat, own_template),
            options=self._run_options(options, request.seed) | {"kind": structured or judge},
            structured=structured,
            sampling=sampling,
            chat=chat,
            stream=bool(request.stream),
            usage=bool(request.stream_options and request.stream_options.include_usage),
            progress=options.progress,
        )

    def _refuse_unsupported(self, body: dict[str, Any]) -> None:
        for name, reason in UNSUPPORTED_FIELDS.items():
            if name in body and not is_default(name, body[name]):
                raise bad_request(
                    f"{name} cannot be used with a strategy: {reason}; use the plain model name to pass it through.",
                    name,
                    "unsupported_parameter",
                )
        known = self.types.chat.__struct_fields__ + self.types.completion.__struct_fields__
        unknown = next((name[:80] for name in body if name not in known), None)
        if unknown is not None:
            names = ", ".join(sorted(set(known)))
            message = f"Unrecognized request argument supplied: {unknown}; known with a strategy: {names}."
            raise bad_request(message, unknown, "unknown_parameter")

    def _invalid(self, error: msgspec.ValidationError) -> ApiError:
        message, _, location = str(error).partition(" - at `$.")
        param = location.rstrip("`") or None
        if "unknown field" in message:
            message += f"; known: {', '.join(self.types.options.__struct_fields__)}"
        return bad_request(f"{message}{f' (at {param})' if param else ''}.", param)

    def _judge(self, kind: str | None) -> Judge:
        """The judge of a kind that a client names. Only the operator's own kind may be one that imports code."""
        try:
            own = kind is None or kind == self.settings.kind
            return resolve_kind(self.settings.kind) if own else resolve_kind(kind, registered_only=True)
        except UsageError as error:
            raise bad_request(f"{error}.", "sureenough.kind") from None

    def _strategy(self, name: ModelName, options: VoteOptions) -> Strategy:
        if name.strategy is not None and options.strategy not in (None, name.strategy):
            raise bad_request(
                f"the model's name selects {name.strategy} and the sureenough object {options.strategy}: "
                "name one strategy",
                "model",
            )
        try:
            chosen = name.strategy or options.strategy
            own = chosen in (None, self.settings.strategy)
            strategy = parse(self.settings.strategy) if own else parse(str(chosen), registered_only=True)
            if strategy.search is not None:
                strategy.search.check()
            return strategy
        except UsageError as error:
            raise bad_request(str(error), "model" if name.strategy else "sureenough.strategy") from None

    def _run_options(self, options: VoteOptions, seed: int | None) -> dict[str, Any]:
        for name, cap in self.settings.limits.caps().items():
            value = getattr(options, name)
            if value is not None and value > cap:
                raise bad_request(f"{name} is {value:g}; this server allows {cap:g}.", f"sureenough.{name}")
        defaults = self.settings.run_options()
        given = {name: value for name in RunOptions.fields() if (value := getattr(options, name)) is not None}
        if seed is not None:
            given.setdefault("seed", seed)
        return {name: getattr(defaults, name) for name in RunOptions.fields()} | given


def _structured_judge(body: dict[str, Any], judge: Judge, chat: bool, *, explicit: bool) -> Json | ToolJudge | None:
    """The judge that the response format or the tools of a request select."""
    tools = body.get("tools")
    if tools not in (None, []) and body.get("tool_choice") != "none":
        if explicit or json_judge(body.get("response_format"), judge, explicit=False):
            raise bad_request("tools cannot be combined with a kind of answer or a response format.", "tools")
        return tool_judge(tools, chat)
    return json_judge(body.get("response_format"), judge, explicit)


def _path_tokens(request: CompletionFields, limits: ServerLimits) -> int | None:
    """The most tokens of a path; None leaves it to the upstream."""
    for name in ("max_completion_tokens", "max_tokens"):
        value = getattr(request, name)
        if value is not None:
            _check_path_tokens(name, value, limits)
            return int(value)
    return limits.path_tokens if limits.path_tokens < UPSTREAM_PATH_TOKENS else None


def _check_path_tokens(name: str, value: int, limits: ServerLimits) -> None:
    if value > limits.path_tokens:
        raise bad_request(f"{name} is {value}; this server allows {limits.path_tokens} per path.", name)


def check_plain_request(body: dict[str, Any], limits: ServerLimits) -> None:
    """Hold a request that is passed through to the caps: as many replies as paths, as long as a path."""
    numbers = {name: body.get(name) for name in ("n", "best_of", "max_tokens", "max_completion_tokens")}
    for name, value in numbers.items():
        if value is not None and type(value) is not int:
            raise bad_request(f"{name} must be a whole number.", name)
        if value is not None and name.startswith("max_"):
            _check_path_tokens(name, value, limits)
    prompts = body.get("prompt")
    several = isinstance(prompts, list) and any(isinstance(prompt, str | list) for prompt in prompts)
    replies = max(numbers["n"] or 1, numbers["best_of"] or 1) * (len(prompts) if several and prompts else 1)
    if replies > limits.paths:
        raise bad_request(f"the request asks for {replies} completions; this server allows {limits.paths}.", "n")
