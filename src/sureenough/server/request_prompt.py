"""The prompt of a request for a consensus: its messages, with the template around the last one."""

from __future__ import annotations

from string import Formatter
from typing import Any

from sureenough.engines.requests import Message, Prompt
from sureenough.errors import UsageError
from sureenough.server.errors import bad_request
from sureenough.server.request_schema import CompletionFields
from sureenough.templates import render_prompt


def prompt_of(request: CompletionFields, chat: bool, template: str | None) -> Prompt:
    """The prompt of every path, or a 400 response that names the field."""
    if not chat:
        if not isinstance(request.prompt, str) or not request.prompt:
            raise bad_request("with a strategy the prompt must be one string that is not empty.", "prompt")
        return Prompt.user(request.prompt)
    if not request.messages:
        raise bad_request("messages must hold at least one message.", "messages")
    for index, message in enumerate(request.messages):
        if not isinstance(message.get("role"), str):
            raise bad_request("every message must have a role.", f"messages[{index}].role")
    return Prompt(tuple(request.messages if template is None else _with_template(request.messages, template)))


def _has_only_question(template: str) -> bool:
    """Whether a template's only field is {question}: a format could ask for a billion spaces."""
    try:
        fields = [parts[1:] for parts in Formatter().parse(template)]
    except ValueError:
        return False
    fields = [parts for parts in fields if parts != (None, None, None)]
    return len(fields) <= 1 and all(parts == ("question", "", None) for parts in fields)


def _with_template(messages: list[dict[str, Any]], template: str) -> list[Message]:
    """The messages with the template around the last one, if it is the user's and does not ask for a box already."""
    last = messages[-1]
    content = last.get("content")
    if last["role"] != "user" or ("\\boxed" in template and "\\boxed" in str(content)):
        return list(messages)
    if content is None:
        raise bad_request("the last message has no content.", f"messages[{len(messages) - 1}].content")
    if not _has_only_question(template):
        raise bad_request("the template must hold {question} once, and no other braces.", "sureenough.template")
    try:
        if isinstance(content, str):
            return [*messages[:-1], {**last, "content": render_prompt(content, template).text}]
        if isinstance(content, list) and content and isinstance(content[-1], dict) and "text" in content[-1]:
            part = {**content[-1], "text": render_prompt(str(content[-1]["text"]), template).text}
            return [*messages[:-1], {**last, "content": [*content[:-1], part]}]
    except UsageError as error:
        raise bad_request(f"{error}.", "messages") from None
    return list(messages)
