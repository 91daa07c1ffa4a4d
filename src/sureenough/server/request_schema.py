"""The fields of a request, as msgspec types, which validate requests and from which the OpenAPI document derives.

The `sureenough` object's run options are those of `RunOptions`, with the caps of this server.
"""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_type_hints

from msgspec import Meta, Struct, defstruct

from sureenough.answers.kinds import BUILTIN as KINDS
from sureenough.core.options import RunOptions
from sureenough.server.settings import ServerLimits

Progress = Literal["comments", "reasoning", "none"]
LARGEST: Final = {"seed": 2**63 - 1}
"""Options without a cap whose largest value is not a billion."""
Whole = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Seed = Annotated[int, Meta(ge=0, le=LARGEST["seed"])]
Messages = Annotated[
    list[dict[str, Any]],
    Meta(
        extra_json_schema={
            "minItems": 1,
            "items": {"type": "object", "required": ["role"], "properties": {"role": {"type": "string"}}},
        }
    ),
]

TOOL_FIELDS: Final = frozenset(("tools", "tool_choice", "parallel_tool_calls"))
SAMPLING_FIELDS: Final = TOOL_FIELDS | frozenset(
    "stop presence_penalty frequency_penalty logit_bias response_format reasoning_effort verbosity user metadata store "
    "service_tier safety_identifier prompt_cache_key top_k min_p repetition_penalty length_penalty min_tokens "
    "stop_token_ids ignore_eos skip_special_tokens bad_words chat_template_kwargs thinking_token_budget suffix".split()
)
"""Fields of OpenAI's and of vLLM's API that the request of every path repeats."""
_TOOLS: Final = "tools replace functions"
_ONE_PATH: Final = "the response is one path of many"
_COUNT: Final = "the strategy decides how many paths there are"
UNSUPPORTED_FIELDS: Final = {
    "n": _COUNT, "best_of": _COUNT, "functions": _TOOLS, "function_call": _TOOLS, "logprobs": _ONE_PATH,
    "top_logprobs": _ONE_PATH,
    "echo": _ONE_PATH, "prediction": _ONE_PATH, "audio": "votes are over text", "modalities": "votes are over text",
}  # fmt: skip
"""Fields that a vote cannot serve, and why."""
_DEFAULTS: Final[dict[str, tuple[Any, ...]]] = {
    "n": (1,), "best_of": (1,), "top_logprobs": (0,), "modalities": (["text"],),
}  # fmt: skip


def is_default(name: str, value: Any) -> bool:
    """Whether an unsupported field has a value that changes nothing. True is not 1 here."""
    if value is None or value is False or value == []:
        return True
    return any(type(value) is type(default) and value == default for default in _DEFAULTS.get(name, ()))


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

    model: Annotated[str, Meta(min_length=1)]
    messages: Messages | None = None
    prompt: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    max_tokens: Whole | None = None
    max_completion_tokens: Whole | None = None
    seed: Seed | None = None
    sureenough: Any = None


class RequestTypes(NamedTuple):
    """The types of one server's requests."""

    options: type[VoteOptions]
    chat: type[CompletionFields]
    completion: type[CompletionFields]

    @classmethod
    def within(cls, limits: ServerLimits) -> RequestTypes:
        run_options = [(name, _option_type(name, limits), None) for name in RunOptions.fields()]
        options = defstruct("SureenoughOptions", run_options, bases=(VoteOptions,), kw_only=True)
        fields = [
            ("sureenough", options | None, None),
            *((name, Any, None) for name in sorted(SAMPLING_FIELDS | UNSUPPORTED_FIELDS.keys())),
        ]
        bases = (CompletionFields,)
        return cls(
            options,  # type: ignore[arg-type]
            defstruct("ChatCompletionRequest", [("messages", Messages), *fields], bases=bases, kw_only=True),  # type: ignore[arg-type]
            defstruct("CompletionRequest", [("prompt", str | list[str]), *fields], bases=bases, kw_only=True),  # type: ignore[arg-type]
        )


def _option_type(name: str, limits: ServerLimits) -> Any:
    """The type of a run option; None in a request stands for the server's default.

    A cap is part of the schema only: the reader refuses what is above it with a message that names it.
    """
    option = RunOptions.fields()[name]
    kind = _without_none(get_type_hints(RunOptions)[name])
    details: dict[str, Any] = {"description": option.metadata["help"]}
    if kind in (int, float):
        details["ge"] = option.metadata["schema"].get("minimum", 0)
        cap = limits.caps().get(name)
        if cap is None:
            details["le"] = LARGEST.get(name, 1_000_000_000)
        else:
            details["extra_json_schema"] = {"maximum": cap}
    return Annotated[kind, Meta(**details)] | None


def _without_none(hint: Any) -> Any:
    parts = [part for part in get_args(hint) if part is not NoneType]
    return parts[0] if NoneType in get_args(hint) else hint
