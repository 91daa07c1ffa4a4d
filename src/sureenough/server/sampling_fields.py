"""Fields of a completion request that are carried on to every path, and those that a vote cannot serve."""

from __future__ import annotations

from typing import Any, Final

PASSED: Final = frozenset(
    "stop presence_penalty frequency_penalty logit_bias response_format reasoning_effort verbosity user metadata store "
    "service_tier safety_identifier prompt_cache_key top_k min_p repetition_penalty length_penalty min_tokens "
    "stop_token_ids ignore_eos skip_special_tokens bad_words chat_template_kwargs thinking_token_budget suffix".split()
)
"""Fields of OpenAI's and of vLLM's sampling that every path's request carries on."""
UNSUPPORTED_FIELDS: Final = {
    "n": "a strategy decides how many paths there are",
    "tools": "a vote over tool calls is not offered",
    "tool_choice": "a vote over tool calls is not offered",
    "functions": "a vote over tool calls is not offered",
    "function_call": "a vote over tool calls is not offered",
    "parallel_tool_calls": "a vote over tool calls is not offered",
    "logprobs": "the reply is one path of many",
    "top_logprobs": "the reply is one path of many",
    "echo": "the reply is one path of many",
    "best_of": "a strategy decides how many paths there are",
    "audio": "votes are over text",
    "modalities": "votes are over text",
    "prediction": "the reply is one path of many",
}
NEUTRAL: Final[dict[str, tuple[Any, ...]]] = {
    "n": (1,), "best_of": (1,), "top_logprobs": (0,), "tool_choice": ("none",), "modalities": (["text"],),
}  # fmt: skip
"""Values of those fields that ask for nothing, besides null, false and an empty list."""


def is_default(name: str, value: Any) -> bool:
    """Whether a field that a vote cannot serve is there without asking for anything. True is not 1 here."""
    if value is None or value is False or value == []:
        return True
    return any(type(value) is type(one) and value == one for one in NEUTRAL.get(name, ()))
