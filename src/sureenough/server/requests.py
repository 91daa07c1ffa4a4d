"""Requests for a consensus: their fields as types, and how they are read and held to the limits. Unknown fields are
refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct, defstruct

from sureenough.answers import Judge, resolve_kind
from sureenough.answers.kinds import BUILTIN as KINDS
from sureenough.answers.kinds import Json
from sureenough.core.options import RunOptions
from sureenough.core.strategy import Strategy
from sureenough.engines.base import Message, Prompt
from sureenough.errors import UsageError
from sureenough.server.responses import ApiError, bad_request
from sureenough.server.settings import ServerLimits, ServerSettings
from sureenough.server.structured import ToolJudge, structured_judge
from sureenough.spec import is_strategy_name, parse
from sureenough.strategies import STRATEGIES
from sureenough.templates import render_prompt, template_of

LISTED_STRATEGIES: Final = tuple(name for name in STRATEGIES if not name.startswith("ddc-") and "+" not in name)
"""The strategies in lists of models. The ablations of ddc work too, but few readers want them; searches work
if the upstream continues a beginning."""
PAGE_STRATEGIES: Final = tuple(one for name, one in STRATEGIES.items() if not name.startswith("ddc-"))
"""The strategies on the page, which draws searches."""
LARGEST: Final = 2**63 - 1
TOOL_FIELDS: Final = frozenset(("tools", "tool_choice", "parallel_tool_calls"))
SAMPLING_FIELDS: Final = TOOL_FIELDS | frozenset(
    "stop presence_penalty frequency_penalty logit_bias reasoning_effort verbosity top_k min_p repetition_penalty "
    "length_penalty min_tokens stop_token_ids ignore_eos skip_special_tokens bad_words chat_template_kwargs "
    "thinking_token_budget suffix".split()
)
"""Fields of OpenAI's and of vLLM's API that say how tokens are sampled."""
REPEATED_FIELDS: Final = SAMPLING_FIELDS | frozenset(
    "response_format user metadata store service_tier safety_identifier prompt_cache_key".split()
)
"""Fields that the request of every path repeats."""
SAME_IN_RESPONSES: Final = (REPEATED_FIELDS | {"temperature", "top_p", "seed", "sureenough"}) - {
    "response_format", "reasoning_effort", "verbosity", "store",
}  # fmt: skip
"""Fields that mean the same in the Responses API as in a chat."""
TOKEN_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_OF_SERVERS: Final = sorted(SAMPLING_FIELDS | {"temperature", "top_p", "max_tokens", "max_completion_tokens"})
"""Fields that an engine of another package cannot be given."""
_ONE_PATH: Final = "the response is one path of many"
_COUNT: Final = "the strategy decides how many paths there are"
UNSUPPORTED_FIELDS: Final[dict[str, tuple[str, Any]]] = {
    "n": (_COUNT, 1), "best_of": (_COUNT, 1), "functions": ("tools replace functions", None),
    "function_call": ("tools replace functions", None), "logprobs": (_ONE_PATH, None), "top_logprobs": (_ONE_PATH, 0),
    "echo": (_ONE_PATH, None), "prediction": (_ONE_PATH, None), "audio": ("votes are over text", None),
    "modalities": ("votes are over text", ["text"]),
}  # fmt: skip
"""Fields that a vote cannot serve, why, and a value that changes nothing; nor do null, false and an empty list."""
_NOT_STORED: Final = "nothing is stored here"
UNSUPPORTED_IN_RESPONSES: Final[dict[str, tuple[str, Any]]] = {
    "n": (_COUNT, 1), "previous_response_id": (_NOT_STORED, None), "conversation": (_NOT_STORED, None),
    "prompt": (_NOT_STORED, None), "background": ("a vote is the reply to a client that waits", None),
    "include": (_ONE_PATH, None), "top_logprobs": (_ONE_PATH, 0), "truncation": ("inputs are not cut", "disabled"),
    "max_tool_calls": ("a path calls tools once", None),
}  # fmt: skip
"""The same for the Responses API."""
NAMES_IN_RESPONSES: Final = {
    "response_format.json_schema.schema": "text.format.schema", "response_format": "text.format", "messages": "input",
    "reasoning_effort": "reasoning.effort",
}  # fmt: skip
"""What the Responses API calls fields of a chat."""
RESPONSE_DEFAULTS: Final[dict[str, Any]] = {
    "instructions": None, "max_output_tokens": None, "metadata": {}, "parallel_tool_calls": True, "reasoning": None,
    "temperature": None, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": None,
    "user": None,
}  # fmt: skip
"""Fields of a request that a response repeats."""
UPSTREAM_PATH_TOKENS = 32_768
"""A limit on a path's tokens that is as large as this is left to the upstream's own."""
LONGEST_MODEL: Final = 800
"""Characters of a model's name with its strategy, which every chunk of a streamed reply repeats."""
DEEPEST_BODY = 100
"""Levels of a request's JSON. Whatever writes it again, here or at the upstream, could fail on more."""


Api = Literal["chat/completions", "completions", "responses"]
"""OpenAI's endpoints that a consensus can answer, below /v1/."""
Fields = TypeVar("Fields", bound=Struct)


class ModelName(NamedTuple):
    """The upstream's name of a model, and the strategy that followed it."""

    model: str
    strategy: str | None


def split_model_name(name: str) -> ModelName:
    """Model and strategy. What follows an `@` without naming a strategy is part of the model's name."""
    model, at, spec = name.rpartition("@")
    if at and is_strategy_name(spec.strip().partition(":")[0]):
        return ModelName(model, spec)
    return ModelName(name, None)


def names_with_strategies(models: Sequence[str]) -> list[str]:
    """Every model, plain and with each strategy."""
    return [name for model in models for name in (model, *(f"{model}@{strategy}" for strategy in LISTED_STRATEGIES))]


Progress = Literal["comments", "reasoning", "none"]
Messages = Annotated[
    list[dict[str, Any]],
    Meta(
        extra_json_schema={
            "minItems": 1,
            "items": {"type": "object", "required": ["role"], "properties": {"role": {"type": "string"}}},
        }
    ),
]


class StreamOptions(Struct):
    """OpenAI's `stream_options`."""

    include_usage: bool | None = None


class VoteOptions(Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of the `sureenough` object that are not run options."""

    strategy: Annotated[str, Meta(examples=["ddc:tau=0.99", "sure"])] | None = None
    kind: Annotated[str, Meta(description="kind of answer", examples=list(KINDS))] | None = None
    template: str | None = None
    progress: Progress = "comments"


class CompletionFields(Struct, kw_only=True):
    """The fields of a completion request that the server reads."""

    model: Annotated[str, Meta(min_length=1, max_length=LONGEST_MODEL)]
    messages: Messages | None = None
    prompt: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    seed: Annotated[int, Meta(ge=0, le=LARGEST)] | None = None
    sureenough: Any = None


class ResponseText(Struct, forbid_unknown_fields=True):
    """`text` of the Responses API."""

    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponseReasoning(Struct, forbid_unknown_fields=True):
    """`reasoning` of the Responses API."""

    effort: str | None = None


class ResponseFields(Struct, kw_only=True):
    """The fields of a request of the Responses API that the server reads."""

    model: Annotated[str, Meta(min_length=1, max_length=LONGEST_MODEL)]
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    text: ResponseText | None = None
    reasoning: ResponseReasoning | None = None
    max_output_tokens: int | None = None
    stream: bool | None = None
    store: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None


class PlainFields(Struct, kw_only=True):
    """The fields of a request to be passed through that are held to the limits."""

    n: int | None = None
    best_of: int | None = None
    prompt: Any = None


class RequestTypes(NamedTuple):
    """The types of one server's requests, with its limits. None in a request stands for the server's default."""

    options: type[VoteOptions]
    chat: type[CompletionFields]
    completion: type[CompletionFields]
    response: type[ResponseFields]
    plain: type[PlainFields]

    @classmethod
    def within(cls, limits: ServerLimits) -> RequestTypes:
        longest = min(limits.path_tokens, LARGEST)
        run_options = [(name, _option_type(name, limits), None) for name in RunOptions.fields()]
        options: Any = defstruct("SureenoughOptions", run_options, bases=(VoteOptions,), kw_only=True)
        others = [(name, Any, None) for name in sorted(REPEATED_FIELDS | UNSUPPORTED_FIELDS.keys())]
        others += [("sureenough", options | None, None), *_token_limits(Meta(ge=1, le=longest), *TOKEN_LIMITS)]
        chat: Any = defstruct(
            "ChatCompletionRequest", [("messages", Messages), *others], bases=(CompletionFields,), kw_only=True
        )
        completion: Any = defstruct(
            "CompletionRequest", [("prompt", str | list[str]), *others], bases=(CompletionFields,), kw_only=True
        )
        names = sorted((SAME_IN_RESPONSES | UNSUPPORTED_IN_RESPONSES.keys()) - set(ResponseFields.__struct_fields__))
        others = [(name, Any, None) for name in names]
        others += [("sureenough", options | None, None), *_token_limits(Meta(ge=1, le=longest), "max_output_tokens")]
        response: Any = defstruct("ResponseRequest", others, bases=(ResponseFields,), kw_only=True)
        limits_of_plain = _token_limits(Meta(le=longest), *TOKEN_LIMITS, "max_output_tokens")
        plain: Any = defstruct("PlainRequest", limits_of_plain, bases=(PlainFields,), kw_only=True)
        return cls(options, chat, completion, response, plain)


def _option_type(name: str, limits: ServerLimits) -> Any:
    """The type of a run option. One that has no cap may be a billion, and a seed may be any number of 63 bits."""
    option, cap = RunOptions.fields()[name].metadata, limits.caps().get(name, 1_000_000_000)
    largest = LARGEST if name == "seed" else min(cap, LARGEST)
    number = option["number"]
    return Annotated[number, Meta(description=option["help"], ge=option["minimum"], le=largest)] | None


def _token_limits(bounds: Meta, *names: str) -> list[tuple[str, Any, None]]:
    """The most tokens of a path, by these names."""
    return [(name, Annotated[int, bounds] | None, None) for name in names]


@dataclass(frozen=True, slots=True)
class ConsensusRequest:
    model: str  # the upstream's name of it
    name: str  # as the client wrote it, with the strategy
    strategy: Strategy
    question: str  # the content of the last message as the client wrote it, for pages and the log
    prompt: Prompt
    options: dict[str, Any]  # of `aask`
    sampling: dict[str, Any] = field(default_factory=dict)  # of the engine
    api: Api = "chat/completions"
    stream: bool = False
    usage: bool = False
    progress: Progress = "comments"
    structured: Json | ToolJudge | None = None  # the judge of a reply that programs read
    repeated: dict[str, Any] = field(default_factory=dict)  # fields that a response of the Responses API repeats

    @property
    def chat(self) -> bool:
        return self.api != "completions"


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
    if len(body["model"]) > LONGEST_MODEL:
        raise bad_request(f"the model's name is longer than {LONGEST_MODEL} characters", "model")
    if _is_nested_deeper(body, DEEPEST_BODY):
        raise bad_request(f"The body of a request may be nested {DEEPEST_BODY} levels deep.", code=None)
    return body


def asks_for_consensus(body: dict[str, Any]) -> bool:
    """Whether a parsed body asks for a vote: by its model's name, or by an object with options."""
    return split_model_name(body["model"]).strategy is not None or body.get("sureenough") is not None


def _is_nested_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than this; level by level, since recursion itself has a limit."""
    level = [value]
    while level and levels:
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        levels -= 1
    return bool(level)


class RequestReader:
    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.types = RequestTypes.within(settings.limits)
        limit = settings.limits.path_tokens
        self._path_tokens = limit if limit < UPSTREAM_PATH_TOKENS else None  # of requests that set none

    def check_plain(self, body: dict[str, Any]) -> None:
        """Hold a request that is passed through to the caps: as many replies as paths, as long as a path."""
        limits = self.settings.limits
        if not limits.plain:
            return
        request = self._convert(body, self.types.plain)
        prompts = request.prompt if isinstance(request.prompt, list) else []
        several = any(isinstance(prompt, str | list) for prompt in prompts)  # else one prompt of token numbers
        replies = max(request.n or 1, request.best_of or 1) * (len(prompts) if several else 1)
        if replies > limits.paths:
            raise bad_request(f"the request asks for {replies} completions; this server allows {limits.paths}.", "n")

    def read(self, body: dict[str, Any], *, api: Api, template: str) -> ConsensusRequest:
        if api != "responses":
            return self._read(body, body, api, template)
        chat = self._as_chat(body)
        try:
            return self._read(chat, body, api, template)
        except ApiError as error:
            for name, own in NAMES_IN_RESPONSES.items():
                error.message = error.message.replace(name, own)
                error.param = own if (error.param or "").startswith(name) else error.param
            raise

    def _read(self, body: dict[str, Any], sent: dict[str, Any], api: Api, template: str) -> ConsensusRequest:
        chat = api != "completions"
        self._refuse_unsupported(body)
        request = self._convert(body, self.types.chat if chat else self.types.completion)
        name, options = split_model_name(request.model), request.sureenough or self.types.options()
        settings, judge = self.settings, self._judge(options.kind)
        structured = structured_judge(body, judge, chat=chat, explicit=options.kind is not None)
        if options.kind is not None and options.kind != settings.kind:
            template = template_of(judge)
        own_template = options.template or (None if structured else template)
        repeated = REPEATED_FIELDS if body.get("tools") else REPEATED_FIELDS - TOOL_FIELDS
        sampling = {
            "temperature": settings.temperature if request.temperature is None else request.temperature,
            "top_p": settings.top_p if request.top_p is None else request.top_p,
            "max_path_tokens": request.max_completion_tokens or request.max_tokens or self._path_tokens,
            "extra": {name: body[name] for name in repeated & body.keys() if body[name] is not None},
            "chat": chat,
        }
        question, prompt = _question_and_prompt(request, chat, own_template)
        return ConsensusRequest(
            model=name.model,
            name=request.model,
            strategy=self._strategy(name, options),
            question=question,
            prompt=prompt,
            options=self._run_options(options, request.seed) | {"kind": structured or judge},
            structured=structured,
            repeated=RESPONSE_DEFAULTS | {name: sent[name] for name in RESPONSE_DEFAULTS if sent.get(name) is not None},
            sampling=sampling,
            api=api,
            stream=bool(request.stream),
            usage=bool(request.stream_options and request.stream_options.include_usage),
            progress=options.progress,
        )

    def _as_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """A request of the Responses API as one of a chat."""
        _check_fields(body, UNSUPPORTED_IN_RESPONSES, self.types.response.__struct_fields__)
        request = self._convert(body, self.types.response)
        instructions = [{"role": "system", "content": request.instructions}] if request.instructions else []
        chat = {name: body[name] for name in SAME_IN_RESPONSES & body.keys()}
        chat |= {
            "model": request.model,
            "messages": instructions + _messages(request.input),
            "stream": request.stream,
            "max_completion_tokens": request.max_output_tokens,
        }
        if request.reasoning is not None:
            chat["reasoning_effort"] = request.reasoning.effort
        if request.text is not None:
            chat |= {"verbosity": request.text.verbosity, "response_format": _response_format(request.text.format)}
        if request.tools:
            chat["tools"] = [_nested_function(tool) for tool in request.tools]
        if isinstance(request.tool_choice, dict):
            chat["tool_choice"] = _nested_function(request.tool_choice)
        return chat

    def _refuse_unsupported(self, body: dict[str, Any]) -> None:
        engine, own = self.settings.engine, next((name for name in _OF_SERVERS if body.get(name) is not None), None)
        known = {*self.types.chat.__struct_fields__, *self.types.completion.__struct_fields__}
        _check_fields(body, UNSUPPORTED_FIELDS, known)
        if engine is not None and own is not None:
            message = f"{own} cannot be set: the engine {self.settings.models[0]} decides how its tokens are sampled."
            raise bad_request(message, own, "unsupported_parameter")

    def _convert(self, body: dict[str, Any], fields: type[Fields]) -> Fields:
        try:
            return msgspec.convert(body, fields)
        except msgspec.ValidationError as error:
            message, _, location = str(error).partition(" - at `$.")
        param = location.rstrip("`") or None
        if "unknown field" in message:
            message += f"; known: {', '.join(self.types.options.__struct_fields__)}"
        raise bad_request(f"{message}{f' (at {param})' if param else ''}.", param)

    def _judge(self, kind: str | None) -> Judge:
        """The judge of a kind that a client names. Only the operator's own kind may be one that imports code."""
        own = self.settings.kind
        try:
            return resolve_kind(own if kind is None else kind, registered_only=kind not in (None, own))
        except UsageError as error:
            raise bad_request(f"{error}.", "sureenough.kind") from None

    def _strategy(self, name: ModelName, options: VoteOptions) -> Strategy:
        own, chosen = self.settings.strategy, name.strategy or options.strategy
        if name.strategy is not None and options.strategy not in (None, name.strategy):
            raise bad_request(
                f"the model's name selects {name.strategy} and the sureenough object {options.strategy:.80}: "
                "name one strategy",
                "model",
            )
        try:
            strategy = parse(own if chosen is None else chosen, registered_only=chosen not in (None, own))
            if strategy.search is not None:
                strategy.search.check()
            return strategy
        except UsageError as error:
            raise bad_request(str(error), "model" if name.strategy else "sureenough.strategy") from None

    def _run_options(self, options: VoteOptions, seed: int | None) -> dict[str, Any]:
        given = {name: value for name in RunOptions.fields() if (value := getattr(options, name)) is not None}
        return asdict(self.settings.run_options()) | ({} if seed is None else {"seed": seed}) | given


def _check_fields(body: dict[str, Any], unsupported: Mapping[str, tuple[str, Any]], known: Collection[str]) -> None:
    for name, (why, default) in unsupported.items():
        if not _changes_nothing(body.get(name), default):
            message = f"{name} cannot be used with a strategy: {why}; use the plain model name to pass it through."
            raise bad_request(message, name, "unsupported_parameter")
    unknown = next((name[:80] for name in body if name not in known), None)
    if unknown is not None:
        names = ", ".join(sorted(known))
        message = f"Unrecognized request argument supplied: {unknown}; known with a strategy: {names}."
        raise bad_request(message, unknown, "unknown_parameter")


def _messages(items: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The input of the Responses API as messages of a chat."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    messages: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        match item:
            case {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}:
                call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                if messages and "tool_calls" in messages[-1]:
                    messages[-1]["tool_calls"].append(call)
                else:
                    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            case {"type": "function_call_output", "call_id": call_id, "output": output}:
                messages.append({"role": "tool", "tool_call_id": call_id, "content": output})
            case {"type": "reasoning"}:  # of an earlier turn, which chat templates leave out, too
                pass
            case {"role": str(role), "content": content} if item.get("type", "message") == "message":
                messages.append({"role": role, "content": _content(content, f"input[{number}].content")})
            case _:
                message = f"votes take messages, function calls and their outputs, not {str(item.get('type'))[:40]!r}."
                raise bad_request(message, f"input[{number}]", "unsupported_parameter")
    return messages


def _content(content: Any, param: str) -> Any:
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else [content]:
        match part:
            case {"type": "input_text" | "output_text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
                texts.append({"type": "text", "text": text})
            case _:
                raise bad_request("votes take text: parts of type input_text.", param, "unsupported_parameter")
    return texts[0]["text"] if len(texts) == 1 else texts


def _response_format(format: dict[str, Any] | None) -> dict[str, Any] | None:
    """The format of a text of the Responses API as the response format of a chat."""
    if format is None or format.get("type") != "json_schema":
        return format
    return {"type": "json_schema", "json_schema": {name: format[name] for name in format if name != "type"}}


def _nested_function(tool: dict[str, Any]) -> dict[str, Any]:
    """A function, or the choice of one, as a chat has it; tools of other types stay as they are."""
    if tool.get("type") != "function":
        return tool
    return {"type": "function", "function": {name: tool[name] for name in tool if name != "type"}}


def _changes_nothing(value: Any, default: Any) -> bool:
    """Whether an unsupported field may be given. True is not 1 here."""
    return value is None or value is False or value == [] or (type(value) is type(default) and value == default)


def _question_and_prompt(request: CompletionFields, chat: bool, template: str | None) -> tuple[str, Prompt]:
    """The question, and the prompt of every path, or a 400 response that names the field."""
    if not chat:
        if not isinstance(request.prompt, str) or not request.prompt:
            raise bad_request("with a strategy the prompt must be one string that is not empty.", "prompt")
        return request.prompt, Prompt.user(request.prompt)
    messages = request.messages
    if not messages:
        raise bad_request("messages must hold at least one message.", "messages")
    for index, message in enumerate(messages):
        if not isinstance(message.get("role"), str):
            raise bad_request("every message must have a role.", f"messages[{index}].role")
    content = messages[-1].get("content")
    return "" if content is None else str(content), Prompt(tuple(_with_template(messages, template)))


def _with_template(messages: Sequence[Message], template: str | None) -> Sequence[Message]:
    """The messages with the template around the last one, if it is the user's and does not ask for a box already."""
    last = messages[-1]
    content = last.get("content")
    if template is None or last["role"] != "user" or ("\\boxed" in template and "\\boxed" in str(content)):
        return messages
    if content is None:
        raise bad_request("the last message has no content.", f"messages[{len(messages) - 1}].content")
    fields = template.replace("{{", "").replace("}}", "").replace("{question}", "", 1)
    if "{" in fields or "}" in fields:  # a format could ask for a billion spaces
        raise bad_request("the template must hold {question} once, and no other braces.", "sureenough.template")
    # Of a content in parts, such as images and texts, the last one if it is a text.
    parts = content if isinstance(content, list) else [{"text": content}] if isinstance(content, str) else []
    if not parts or not isinstance(parts[-1], dict) or "text" not in parts[-1]:
        return messages
    try:
        text = render_prompt(str(parts[-1]["text"]), template).text
    except UsageError as error:
        param = "sureenough.template" if error.argument == "template" else "messages"
        raise bad_request(f"{error}.", param) from None
    parts = [*parts[:-1], {**parts[-1], "text": text}]
    return [*messages[:-1], {**last, "content": text if isinstance(content, str) else parts}]
