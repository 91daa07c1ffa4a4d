"""One fuzz target per parser: whatever arrives, only our own errors are raised.

`SUREENOUGH_FULL=1 pytest tests/adversarial/test_fuzz.py` tries more examples of each.
"""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, get_args
from zlib import crc32

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from yarl import URL

from sureenough.bench.plan import read_plan
from sureenough.drivers.run_log import RunView, read_log
from sureenough.engines.base import End, Part
from sureenough.engines.openai import sse
from sureenough.engines.openai.errors import ServerErrors, StreamError
from sureenough.engines.openai.reply import ReplyParser
from sureenough.engines.openai.sse import SSEParser
from sureenough.engines.openai.wire import decode
from sureenough.engines.watch.protocol import (
    ARGUMENTS,
    WatchRequest,
    is_watchable,
    parse_summary,
    parse_watch_arguments,
)
from sureenough.errors import EngineError, TraceError, UsageError
from sureenough.json_text import encode
from sureenough.pools.journal import Journal
from sureenough.pools.path import RecordedPath
from sureenough.redact import printable_command, printable_url, redact
from sureenough.server.kept_runs import KeptRuns
from sureenough.server.requests import Api, RequestReader, parse_body
from sureenough.server.responses import ApiError
from sureenough.server.settings import ServerSettings
from sureenough.spec import parse, render
from sureenough.strategies import STRATEGIES
from tests.requirements import FULL

EXAMPLES = 1000 if FULL else 100
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
fuzzed = settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
TEXT = st.text(st.characters(exclude_categories=()), max_size=30)  # surrogate halves included
NUMBERS = st.integers() | st.floats() | st.sampled_from([-1, 0, 1, 2**63, 10**400, float("nan"), float("inf"), True])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT


def values(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Any JSON value whose objects have these names, mostly."""
    return st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | TEXT, inner, max_size=5)
    )


def objects(names: list[str], **known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have these fields or not, some with values of the right shape."""
    wild = values(st.sampled_from(names))
    return st.fixed_dictionaries({}, optional={name: known.get(name, wild) | wild for name in [*names, *known]})


def dumped(value: Any) -> bytes:
    """JSON as a careless server writes it: NaN, Infinity and surrogate halves included."""
    return json.dumps(value).encode()


# -- replies of upstreams

WIRE = ["choices", "delta", "content", "text", "logprobs", "top_logprobs", "logprob", "token", "finish_reason", "index"]
CANDIDATES = st.lists(objects(["logprob"], logprob=NUMBERS), max_size=25)
LOGPROBS = objects(
    WIRE,
    content=st.lists(objects(["token"], token=TEXT, top_logprobs=CANDIDATES), max_size=3),
    top_logprobs=st.lists(st.dictionaries(TEXT, NUMBERS, max_size=25), max_size=3),
    tokens=st.lists(TEXT, max_size=3),
)
CHOICES = objects(
    WIRE,
    delta=objects(["content", "reasoning", "reasoning_content"], content=TEXT, reasoning=TEXT),
    text=TEXT,
    logprobs=LOGPROBS,
    finish_reason=st.sampled_from(["stop", "length", "abort", "", None]),
    index=st.just(0),
)
EVENTS = objects(
    ["error", "usage"],
    choices=st.lists(CHOICES, max_size=3),
    usage=objects(["total"], prompt_tokens=NUMBERS, completion_tokens=NUMBERS),
)
DATA = EVENTS.map(dumped) | st.binary(max_size=60) | st.sampled_from([b"[DONE]", b"[" * 100_000, b'{"error":' * 400])


@fuzzed
@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"data: x\n", b"\n", b"\r", b"\r\n", b"data:"]), max_size=20))
def test_sse_does_not_depend_on_where_bytes_are_split(pieces: list[bytes]) -> None:
    split, whole, single = SSEParser(), SSEParser(), SSEParser()
    raw = b"".join(pieces)
    events = [event for piece in pieces for event in split.feed(piece)] + split.end()
    assert events == whole.feed(raw) + whole.end()
    assert events == [event for at in range(len(raw)) for event in single.feed(raw[at : at + 1])] + single.end()


@fuzzed
@given(st.lists(st.binary(max_size=40), max_size=20))
def test_sse_keeps_no_more_than_its_limit(pieces: list[bytes]) -> None:
    parser = SSEParser()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sse, "LARGEST_EVENT", 50)
        try:
            for piece in pieces:
                parser.feed(piece)
        except EngineError:
            return
    assert parser._partial_size + parser._data_size <= 50


@fuzzed
@given(DATA)
@example(b'{"error": ' + b"[" * 900 + b"]" * 900 + b"}")
def test_wire_types(data: bytes) -> None:
    try:
        message = decode(data)
    except EngineError:
        return
    if message.error is not None:
        str(StreamError(message.error)).encode("utf-8", "replace")


@fuzzed
@given(st.lists(DATA, max_size=6), st.booleans(), st.sampled_from([1, 3, 100]), st.integers(1, 200))
def test_replies(events: list[bytes], signals: bool, limit: int, size: int) -> None:
    parser = ReplyParser(20, signals, limit)
    raw = b"".join(b"data: %s\n\n" % event for event in events)
    chunks: list[Part] = []
    try:
        for start in range(0, len(raw), size):
            if (new := parser.feed(raw[start : start + size])) is not None:
                chunks.append(new)
            if parser.error is not None or parser.full or parser.done:
                break
        if parser.error is None:
            parser.end_of_stream()
            chunks.append(parser.last())
    except (EngineError, StreamError):
        pass
    for chunk in chunks:
        assert chunk.unread >= 0
        assert not isinstance(chunk, End) or min(chunk.beyond, chunk.prompt_tokens or 0) >= 0
        chunk.text.encode()
        for token in chunk.tokens:
            assert isfinite(token.peak + token.conf)


@fuzzed
@given(st.integers(100, 999), st.binary(max_size=200) | EVENTS.map(dumped), st.dictionaries(TEXT, TEXT, max_size=3))
@example(400, b"[" * 900 + b"]" * 900, {"location": "http://[", "x-request-id": "\x1b[2J\ud83d"})
def test_error_responses(status: int, body: bytes, headers: dict[str, str]) -> None:
    errors = ServerErrors(URL("http://user:planted@host/v1?token=planted-query"), "planted-key")
    error = errors.refusal(status, body, headers, model="m", k=20)
    assert str(error).isprintable()
    assert "planted" not in str(error)


# -- clients

APIS: tuple[Api, ...] = get_args(Api)
READER = RequestReader(ServerSettings(upstream="http://127.0.0.1:9/v1"))
MESSAGE = objects(["role", "content"], role=st.just("user"), content=TEXT)
BODY = objects(
    ["model", "messages", "prompt", "n", "best_of", "max_tokens", "temperature", "top_p", "seed", "stop", "tools"],
    model=st.sampled_from(["m", "m@sc", "m@ddc:warmup=4", "m@sc:", "@", "m@"]),
    messages=st.lists(MESSAGE, max_size=3),
    prompt=TEXT,
    stream=st.booleans(),
    sureenough=objects(["paths", "strategy", "template", "deadline"], template=TEXT, strategy=TEXT),
)
ITEM = objects(
    ["type", "role", "content", "call_id", "name", "arguments", "output", "text"],
    type=st.sampled_from(["message", "function_call", "function_call_output", "reasoning", "input_text"]),
    role=st.just("user"),
    content=TEXT | st.lists(objects(["type", "text"], type=st.just("input_text"), text=TEXT), max_size=3),
)
RESPONSE = objects(
    ["model", "input", "instructions", "text", "reasoning", "tools", "tool_choice", "max_output_tokens", "include"],
    model=st.just("m@sc"),
    input=TEXT | st.lists(ITEM, max_size=4),
    instructions=TEXT,
    text=objects(["format"], format=objects(["type", "schema"], type=st.just("json_schema"))),
    tools=st.lists(objects(["type", "name"], type=st.just("function"), name=TEXT), max_size=2),
)


def deep(levels: int) -> bytes:
    """A request whose content is nested."""
    return b'{"model": "m@sc", "messages": [{"role": "user", "content": %s1%s}]}' % (b"[" * levels, b"]" * levels)


@fuzzed
@given((BODY | RESPONSE).map(dumped) | st.binary(max_size=80), st.sampled_from(APIS))
@example(deep(50), APIS[0])
@example(deep(200), APIS[0])
@example(deep(100_000), APIS[0])
def test_request_bodies(raw: bytes, api: Api) -> None:
    try:
        body = parse_body(raw)
        READER.check_plain(body)
        request = READER.read(body, api=api, template="{question}?")
    except ApiError as error:
        refusal = error
    else:
        assert raw != deep(200)
        repr(request.question)
        return
    assert 400 <= refusal.status < 500
    encode(refusal.body())


@fuzzed
@given(TEXT)
def test_templates(template: str) -> None:
    body = {"model": "m@sc", "messages": [{"role": "user", "content": "1?"}], "sureenough": {"template": template}}
    with suppress(ApiError):
        READER.read(body, api="chat/completions", template="{question}")


NAMES = list(STRATEGIES)
PARTS = st.sampled_from(
    [*NAMES, "warmup", "tau", "weight", "delta", "alpha", "eta", ":", ",", "=", "1e999", "-0", "9" * 5000]
)


@fuzzed
@given(TEXT | st.lists(PARTS | TEXT, max_size=8).map("".join))
def test_spec_strings(text: str) -> None:
    try:
        strategy = parse(text)
    except UsageError as error:
        message = str(error)
    else:
        assert parse(render(strategy)) == strategy
        return
    assert len(message) < 2_000


@fuzzed
@given(
    st.dictionaries(st.sampled_from(ARGUMENTS) | TEXT, SCALARS | values(TEXT), max_size=6) | objects(list(ARGUMENTS))
)
@example({"sure_key": "abcdefgh", "sure_window": 4, "sure_drop": 10**400})
@example({"sure_key": "abcdefgh", "sure_window": 10**400})
@example({"sure_key": "abcdefgh", "sure_window": 4, "sure_trace": []})
def test_watch_arguments(arguments: dict[str, Any]) -> None:
    try:
        watch = parse_watch_arguments(arguments)
    except UsageError:
        return
    if watch is not None:
        assert parse_watch_arguments(watch.to_arguments()) == watch
        watch.to_header()


@fuzzed
@given(objects(["n", "response_format", "logit_bias", "ignore_eos", "min_tokens", "guided_json"]))
def test_watchable_bodies(body: dict[str, Any]) -> None:
    assert is_watchable(body, {"sure_drop": 1.0}) in (True, False)


SIGNALS = st.binary(max_size=64).map(lambda raw: base64.b64encode(raw).decode())


@fuzzed
@given(
    objects(
        ["tokens", "lowest", "tail", "tier", "mean_peak", "mean_conf", "signals"],
        tokens=st.integers(0, 4),
        signals=SIGNALS,
    ),
    st.integers(1, 4),
)
@example({"tokens": 0, "lowest": 0, "tail": 0, "tier": 0, "mean_peak": 0, "mean_conf": 0, "signals": 5}, 4)
def test_records_of_a_server(record: dict[str, Any], window: int) -> None:
    with suppress(ValueError):
        parse_summary(record, WatchRequest("a-long-key", window, trace=True))


# -- files


def journal_line(line: Any) -> bytes:
    """A line with a right checksum, so that its content is looked at."""
    body = dumped(line)
    return b'%s, "crc32": "%08x"}\n' % (body[:-1], crc32(body))


PATH_FIELDS = ["question", "path", "answer", "finish", "seed", "text", "peak", "conf"]
PATHS = objects(
    PATH_FIELDS,
    question=st.just("q"),
    path=st.integers(0, 3),
    answer=TEXT,
    finish=st.just("stop"),
    seed=st.integers(0, 5),
    text=TEXT,
    peak=SIGNALS,
    conf=SIGNALS,
)
TERMS: dict[str, Any] = {"model": "m"}
LINES = PATHS.filter(bool).map(journal_line) | PATHS.map(dumped) | st.binary(max_size=80)


@fuzzed
@given(
    st.sampled_from([b"", journal_line({"terms": TERMS}), dumped({"terms": TERMS}) + b"\n"]),
    st.lists(LINES, max_size=4),
)
def test_journals(tmp_path: Path, first: bytes, lines: list[bytes]) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_bytes(first + b"".join(lines))
    with suppress(TraceError), Journal(file, TERMS) as journal:
        for key in journal:
            assert isinstance(journal[key], RecordedPath)


TOML_NAMES = "datasets engines pools strategies sweeps sweep paths limit parallel live url model".split()
TOML_VALUES = st.sampled_from(
    [
        *["3", "-1", "1e400", "[]", "[1]", '"sc"', '["sc"]', "{}", "[{}]", '[{model = "m"}]', "nan", "true", "[[1]]"],
        *["{warmup = [1]}", "2020-01-01", "9" * 400, "[" * 5000, '"\\u0000"'],
    ]
)
TOML = st.lists(st.tuples(st.sampled_from(TOML_NAMES), TOML_VALUES), max_size=4, unique_by=lambda pair: pair[0]).map(
    lambda pairs: "".join(f"{name} = {value}\n" for name, value in pairs).encode()
)


@fuzzed
@given(TOML | st.binary(max_size=60))
def test_plans(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "plan.toml"
    file.write_bytes(raw)
    with suppress(UsageError):
        read_plan(file, {})


LOGGED_PATH = ["path", "tokens", "fate", "answer", "counted", "vote", "points", "confidence"]
LOG_LINE = objects(
    ["schema", "steps", "text", "at"],
    paths=st.lists(objects(LOGGED_PATH, path=st.integers(), points=st.lists(NUMBERS)), max_size=3),
    summary=objects(["votes", "stop", "gate", "measure"]),
    result=objects(["notes"], answer=TEXT),
)


@fuzzed
@given(
    st.binary(max_size=80) | LOG_LINE.map(dumped),
    st.lists(st.binary(max_size=80) | LOG_LINE.map(dumped) | st.sampled_from([b"", b"\r", b"[" * 100_000]), max_size=4),
)
def test_kept_runs(tmp_path: Path, other: bytes, lines: list[bytes]) -> None:
    (tmp_path / "other.jsonl").write_bytes(other)
    (tmp_path / "bad.jsonl").write_bytes(b"\n".join([b'{"schema":2,"run":{"question":"q"}}', *lines]))
    (tmp_path / "good.jsonl").write_text('{"schema": 2, "run": {"question": "q"}}')
    runs = KeptRuns(tmp_path)
    assert {"good", "bad"} <= {run["id"] for run in runs.listed()}
    encode(runs.listed())
    for name in ("bad", "other"):
        view = RunView()
        with suppress(ApiError):
            for raw, line in read_log(runs.find(name).file):
                assert json.loads(raw).keys() >= line.keys()
                assert b"\n" not in raw
                assert b"\r" not in raw
                view.apply(line)
            assert view.result is not None or view.error is not None, "every log has an end"


# -- text that is printed

SECRET = "planted-secret-0123456789"
FORMS = st.sampled_from(
    ["http://user:{}@host/v1", "?token={}", "--api-key={} ", '"api_key": "{}"', "Bearer {}", "x=1&key={}"]
)


@fuzzed
@given(TEXT, FORMS, TEXT)
def test_redacted_text(before: str, form: str, after: str) -> None:
    text = redact(f"{before} {form.replace('{}', SECRET)} {after}")
    assert SECRET not in text
    assert text.isprintable()
    assert redact(text) == text, "what is redacted already does not change"


@fuzzed
@given(TEXT, TEXT)
def test_printable_urls_and_commands(user: str, query: str) -> None:
    assume(not re.search(r"[@?#]", user + query) and "://" not in user + query)
    url = f"http://{user}:{SECRET}@host/v1?{query}={SECRET}"
    assert SECRET not in printable_url(url)
    assert SECRET not in printable_command(["bench", "--url", url, f"--url={url}", "--api-key", SECRET])
