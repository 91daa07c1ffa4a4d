"""Replies that programs read: JSON under `response_format`, and calls of tools.

The response format selects the judge, which reads only what a client can use. The winning path's JSON, or its tool
calls, are the response.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Hashable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from sureenough.answers import Judge
from sureenough.answers.json_values import prepared_schema
from sureenough.answers.kinds import Json, KeyedKind
from sureenough.engines.openai.wire import TOOL_CALL
from sureenough.errors import UsageError
from sureenough.server.responses import bad_request

FORMATS: Final = ("text", "json_object", "json_schema")
PLAIN: Final = "use the plain model name to pass the request through"


def structured_judge(body: dict[str, Any], judge: Judge, *, chat: bool, explicit: bool) -> Json | ToolJudge | None:
    """The judge that the tools or the response format of a request select; None for plain text.

    `judge` is that of the kind of answer, which the request names if it is explicit.
    """
    response_format, tools = body.get("response_format"), body.get("tools")
    kind = None if response_format is None else _format_type(response_format)
    if tools not in (None, []) and body.get("tool_choice") != "none":
        if explicit or kind not in (None, "text"):
            raise bad_request("tools cannot be combined with a kind of answer or a response format.", "tools")
        return _tool_judge(tools, chat)
    if kind in (None, "text"):
        return None
    if explicit and not isinstance(judge, Json):
        raise bad_request(
            f"response_format asks for {kind} and the sureenough object for another kind of answer: leave one out.",
            "sureenough.kind",
        )
    schema = _schema(response_format) if kind == "json_schema" else {"type": "object"}
    return replace(judge if isinstance(judge, Json) else Json(), schema=schema)


def _format_type(response_format: Any) -> str:
    kind = response_format.get("type") if isinstance(response_format, dict) else None
    if kind not in FORMATS:
        raise bad_request(
            f"response_format.type is {str(kind)[:40]!r}; known: {', '.join(FORMATS)}.", "response_format"
        )
    return str(kind)


def _schema(response_format: Any) -> Any:
    named = response_format.get("json_schema")
    schema = named.get("schema") if isinstance(named, dict) else None
    if not isinstance(schema, dict):
        raise bad_request("response_format.json_schema.schema must be an object.", "response_format.json_schema")
    try:
        return prepared_schema(schema)
    except UsageError as error:
        raise bad_request(f"{error}; {PLAIN}.", "response_format.json_schema") from None


_OBJECT: Final = Json(schema={"type": "object"})


class ToolCall(NamedTuple):
    """A call that a path makes; the arguments as it wrote them."""

    name: str
    arguments: str


def tool_calls(text: str) -> list[ToolCall]:
    parts = (part.partition("\n") for part in text.split(TOOL_CALL)[1:])
    return [ToolCall(name.strip(), arguments.strip() or "{}") for name, _, arguments in parts]


class ToolJudge(KeyedKind):
    """Reads the calls of a path as JSON, and keeps which tools the paths of one request call."""

    looks_for = "a call of one of the tools, with JSON arguments"

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)
        self.called: set[tuple[str, ...]] = set()

    def extract(self, text: str) -> str | None:
        """The calls; None if there are none, or one that cannot be carried out."""
        calls = tool_calls(text)
        self.called.add(tuple(call.name for call in calls))
        objects = [f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}' for call in calls]
        answer = objects[0] if len(objects) == 1 else f"[{', '.join(objects)}]"
        usable = calls and all(call.name in self.names and _OBJECT.key(call.arguments) is not None for call in calls)
        return answer if usable and self.key(answer) is not None else None

    def key(self, answer: str) -> Hashable | None:
        """Calls are the same if their arguments are, whatever the order of keys."""
        return Json().key(answer)

    @property
    def disagreement(self) -> bool:
        """Whether some path calls no tool, or another one."""
        return len(self.called) > 1 or () in self.called

    def refuse_disagreement(self) -> None:
        if self.disagreement:
            names = sorted(" and ".join(names) or "no tool" for names in self.called)
            raise bad_request(
                f"The paths do not agree on a tool: they call {', '.join(names)[:200]}. Calls are voted on only if "
                f"every path calls the same tool; {PLAIN}.",
                "tools",
                "unsupported_parameter",
            )


def _tool_judge(tools: Any, chat: bool) -> ToolJudge:
    try:
        names = [one["function"]["name"] for one in tools] if chat else []
    except (TypeError, KeyError):
        names = []
    if not isinstance(tools, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise bad_request(
            f"tools must be a list of functions with names, in a chat; other tools cannot be voted on: {PLAIN}.",
            "tools",
            "unsupported_parameter",
        )
    return ToolJudge(names)


def tool_call_objects(text: str) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{secrets.token_urlsafe(18)}", "type": "function", "function": call._asdict()}
        for call in tool_calls(text)
    ]
