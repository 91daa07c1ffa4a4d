"""The Responses API through the official client: the votes of chat completions in other shapes, and its events."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.engines.misbehaving import Manner
from tests.server.openai_client import chat, client, extra
from tests.server.test_structured import FORMAT, PRICES, SCHEMA, TOOLS, Price, serving
from tests.server.upstream import Upstream, an_upstream, before

TEXT_EVENTS = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]
PATHS = {"paths": 4, "seed": 3}
LOOK: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}}


def create(own: openai.OpenAI, sureenough: Any = None, **fields: Any) -> Any:
    given = {"model": "tiny@sc", "input": "What is 3 + 4?", "extra_body": {"sureenough": sureenough or PATHS}}
    return own.responses.create(**given | fields)


def kinds(events: list[Any]) -> list[str]:
    """The types of events, of several in a row once; their sequence numbers must count up."""
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return [event.type for at, event in enumerate(events) if not at or events[at - 1].type != event.type]


def test_a_vote_is_that_of_chat_completions(served: str) -> None:
    reply, told = create(client(served), PATHS), chat(served, sureenough=PATHS)
    assert extra(reply)["votes"] == extra(told)["votes"]
    assert reply.output_text == told.choices[0].message.content
    assert (reply.status, reply.model, reply.object) == ("completed", "tiny@sc", "response")
    usage = reply.usage
    assert (usage.input_tokens, usage.output_tokens) == (told.usage.prompt_tokens, told.usage.completion_tokens)


@pytest.mark.parametrize("progress", ["comments", "reasoning", "none"])
def test_a_stream_is_the_response_in_events(served: str, progress: str) -> None:
    asked = PATHS | {"progress": progress}
    whole = create(client(served), asked)
    events = list(create(client(served), asked, stream=True))
    assert kinds(events) == TEXT_EVENTS
    last = events[-1].response
    assert "".join(event.delta for event in events if event.type.endswith("delta")) == last.output_text
    assert last.output_text == whole.output_text
    assert (last.usage, extra(last)["votes"]) == (whole.usage, extra(whole)["votes"])
    assert len({event.response.id for event in events if hasattr(event, "response")}) == 1
    assert events[0].response.status == "in_progress"


def test_the_clients_own_helper_reads_the_stream(served: str) -> None:
    with client(served).responses.stream(model="tiny@sc", input="3 + 4?") as stream:
        assert stream.get_final_response().output_text.endswith("}")


def test_reasoning_is_an_item_of_its_own_and_its_tokens_are_summed() -> None:
    with an_upstream(Manner(reasoning=True, answer="7", reasoned=5, cached=2)) as up, before(up) as (url, _):
        reply = create(client(url))
        events = list(create(client(url), stream=True))
    assert [item.type for item in reply.output] == ["reasoning", "message"]
    assert reply.output_text == "\\boxed{7}"
    assert reply.usage.output_tokens_details.reasoning_tokens == 4 * 5
    assert reply.usage.input_tokens_details.cached_tokens == 4 * 2
    assert kinds(events)[2:7] == [kind.replace("output_text", "reasoning_text") for kind in TEXT_EVENTS[2:7]]


def test_messages_instructions_and_limits_reach_the_paths(served: str, upstream: Upstream) -> None:
    turn = create(client(served), instructions="Be brief.", max_output_tokens=20_000, temperature=0.3, top_p=0.5)
    assert (turn.instructions, turn.temperature, turn.max_output_tokens) == ("Be brief.", 0.3, 20_000)
    first = json.loads(upstream.bodies[-1])
    assert first["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (first["max_tokens"], first["temperature"], first["top_p"]) == (20_000, 0.3, 0.5)
    parts = [{"type": "input_text", "text": "And"}, {"type": "input_text", "text": "5 + 6?"}]
    create(
        client(served), input=[{"role": "user", "content": "3 + 4?"}, *turn.output, {"role": "user", "content": parts}]
    )
    roles = [message["role"] for message in json.loads(upstream.bodies[-1])["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_a_path_that_was_cut_is_incomplete() -> None:
    with an_upstream(Manner(finish="length")) as up, before(up) as (url, _):
        reply, events = create(client(url)), list(create(client(url), stream=True))
    assert (reply.status, reply.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert kinds(events)[-1] == "response.incomplete"


def test_json_is_voted_on_and_parsed_by_the_client() -> None:
    with serving(PRICES) as (own, script):
        reply = own.responses.parse(
            model="tiny@sc", input="?", text_format=Price, extra_body={"sureenough": {"paths": 3}}
        )
        assert reply.output_parsed == Price(total=5, currency="EUR")
        format = {"type": "json_schema", "name": "price", "schema": SCHEMA, "strict": True}
        assert create(own, text={"format": format}).output_text == '{"total": 5, "currency": "EUR"}'
        assert script.bodies[-1]["response_format"] == FORMAT


def test_tool_calls_are_voted_on_and_their_outputs_can_be_sent_back() -> None:
    with serving([[("look", '{"city": "Rome"}')], "It rains."]) as (own, script):
        call = create(own, {"paths": 1}, tools=[LOOK]).output[0]
        assert (call.type, call.name, call.arguments) == ("function_call", "look", '{"city": "Rome"}')
        assert script.bodies[-1]["tools"] == [TOOLS[0]]
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        create(own, {"paths": 1}, input=[{"role": "user", "content": "?"}, call, output])
        said = script.bodies[-1]["messages"]
        assert [message["role"] for message in said] == ["user", "assistant", "tool"]
        assert said[1]["tool_calls"][0]["id"] == said[2]["tool_call_id"] == call.call_id
        events = list(create(own, {"paths": 1}, tools=[LOOK], stream=True))
        assert "response.function_call_arguments.done" in kinds(events)


def test_without_an_answer_there_is_a_refusal() -> None:
    with serving(["no"]) as (own, _):
        reply = create(own, text={"format": {"type": "json_object"}})
        (part,) = reply.output[0].content
        assert "none of 4 paths gave JSON" in part.refusal
        events = list(create(own, text={"format": {"type": "json_object"}}, stream=True))
        assert "response.refusal.done" in kinds(events)


def test_a_run_that_fails_ends_its_stream_with_an_event() -> None:
    with an_upstream(Manner(cut_after=4)) as up, before(up) as (url, _):
        events = list(create(client(url), stream=True))
    assert kinds(events)[-1] == "response.failed"
    assert events[-1].response.error.code == "upstream_error"


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"extra_body": {"n": 2}}, "unsupported_parameter", "the strategy decides how many paths"),
        ({"previous_response_id": "resp_1"}, "unsupported_parameter", "nothing is stored here"),
        ({"conversation": "conv_1"}, "unsupported_parameter", "nothing is stored here"),
        ({"background": True}, "unsupported_parameter", "a client that waits"),
        ({"truncation": "auto"}, "unsupported_parameter", "inputs are not cut"),
        ({"tools": [{"type": "web_search"}]}, "unsupported_parameter", "other tools cannot be voted on"),
        ({"include": ["reasoning.encrypted_content"]}, "unsupported_parameter", "one path of many"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "unsupported_parameter", "not 'item_reference'"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "unsupported_parameter", "input_text"),
        ({"extra_body": {"messages": []}}, "unknown_parameter", "known with a strategy: "),
        ({"reasoning": {"summary": "auto"}}, "invalid_value", "unknown field"),
        ({"max_output_tokens": 40_000}, "invalid_value", "<= 32768 (at max_output_tokens)"),
        ({"input": []}, "invalid_value", "input must hold at least one message"),
        ({"text": {"format": {"type": "json_schema", "schema": 5}}}, "invalid_value", "text.format.schema must be an"),
        ({"text": {"format": {"type": "xml"}}}, "invalid_value", "text.format.type is 'xml'"),
        ({"input": 5}, "invalid_value", "(at input)"),
        ({"model": "tiny@dcc"}, "invalid_value", "did you mean 'ddc'"),
    ],
)  # fmt: skip
def test_bad_requests(served: str, fields: dict[str, Any], code: str, says: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        create(client(served), **fields)
    assert says in caught.value.message
    assert (caught.value.code, caught.value.type) == (code, "invalid_request_error")


def test_a_plain_name_passes_through_and_is_held_to_the_limits(served: str, upstream: Upstream) -> None:
    sent: Any = {"model": "tiny", "input": "?", "previous_response_id": "r", "extra_body": {}}
    assert create(client(served), **sent).output_text == "of the upstream"
    assert json.loads(upstream.bodies[-1])["previous_response_id"] == "r"
    with pytest.raises(openai.BadRequestError, match="at max_output_tokens"):
        create(client(served), **sent, max_output_tokens=40_000)
