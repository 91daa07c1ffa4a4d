"""The doctor distinguishes servers that return what strategies need from those that do not, and names the fix."""

from __future__ import annotations

import asyncio

import pytest
from typer.testing import CliRunner

from sureenough.cli import app
from sureenough.cli.doctor import Check, FinishedSample, examine, judge_continuation, summary
from sureenough.engines.openai.client import OpenAI
from sureenough.errors import EngineUnavailable
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread
from tests.processes import sureenough


def examined(manner: Manner) -> dict[str, Check]:
    async def look() -> list[Check]:
        async with serving(manner) as server:
            return await examine(OpenAI(server.url, "tiny"))

    return {check.name: check for check in asyncio.run(asyncio.wait_for(look(), timeout=60))}


@pytest.mark.parametrize("reused", [True, False])  # llama.cpp's server closes a connection that is used again
def test_a_healthy_server(reused: bool) -> None:
    found = examined(Manner(tokens=10, reused=reused))
    assert {name: check.good for name, check in found.items()} == {
        "top-k": True, "raw": True, "distinct": True, "seeds": True, "closing": None, "counting": True, "chunks": True,
        "highest k": True, "inside": True, "prompts": True, "extend": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("manner", "name", "good", "fix"),
    [
        (Manner(logprobs=False), "top-k", False, "--max-logprobs 20"),
        (Manner(more_candidates=-15), "top-k", False, "--max-logprobs 20"),
        (Manner(repeated=True, per_chunk=4), "distinct", False, "--stream-interval 1"),
        (Manner(usage=False), "counting", None, "only received tokens are counted"),
        (Manner(tokens=40, extends="no"), "extend", None, "vLLM, SGLang and llama.cpp"),
        (Manner(tokens=40, extends="drops"), "extend", False, "--chat-template FILE"),
        (Manner(tokens=40, extends="drops", usage=False), "extend", False, "--chat-template FILE"),  # starts over
        (Manner(scaled=True), "raw", False, "SGLANG_RETURN_ORIGINAL_LOGPROB"),
    ],
)
def test_defects_of_a_server_and_their_fixes(manner: Manner, name: str, good: bool | None, fix: str) -> None:
    check = examined(manner)[name]
    assert check.good is good
    assert fix in check.fix


@pytest.mark.parametrize(
    ("text", "rest", "prompts", "good"),
    [
        ("so then x", "then x", (9, 25), True),
        ("so then x", "then x", (9, 24), True),  # one token less for the same text
        ("so then x", "then x", (None, None), True),
        ("so then x", "then x", (9, 9), None),  # some servers do not count tokens that they had cached
        ("so then x", "hence", (9, 25), None),
        ("so then x", "hence", (None, None), None),
        ("so then x", "hence", (9, 10), False),
        ("so then x", "so then", (None, None), False),  # it starts over
        ("so then x", "so then", (9, 25), None),  # it may, after a beginning that was read
    ],
)
def test_what_a_continuation_shows(
    text: str, rest: str, prompts: tuple[int | None, int | None], good: bool | None
) -> None:
    halves = FinishedSample("so ", 16, prompts[0], None), FinishedSample(text, 32, prompts[0], None)
    check = judge_continuation(*halves, FinishedSample(rest, 16, prompts[1], None))
    assert (check.good, bool(check.fix)) == (good, good is not True)


def test_a_server_that_drops_beginnings_fails() -> None:
    with in_thread(serving(Manner(tokens=40, extends="drops"))) as server:
        done = CliRunner().invoke(app, ["doctor", "--url", server.url, "--model", "tiny"])
    assert done.exit_code == 1, done.output
    assert "✗ extend     at T = 0, a beginning is not continued" in done.output
    assert "16 of its tokens were sent, 0 more were read: the chat template drops it" in done.output
    assert "Some strategies will not work correctly; see the failed checks." in done.output


@pytest.mark.parametrize(
    ("manner", "skipped"),
    [
        (Manner(logprobs=False), ["raw", "distinct", "chunks", "highest k"]),
        (
            Manner(status=400),
            ["raw", "distinct", "seeds", "closing", "counting", "chunks", "highest k", "prompts", "extend"],
        ),
    ],
)
def test_a_cause_is_named_once(manner: Manner, skipped: list[str]) -> None:
    checks = examined(manner)
    assert checks["top-k"].good is False
    assert [name for name, check in checks.items() if check.skipped_by == "top-k"] == skipped
    assert [line for line in summary(list(checks.values())) if "skipped" in line] == [
        f"- skipped    {', '.join(skipped)}: see top-k"
    ]


@pytest.mark.parametrize(
    ("results", "last"),
    [
        ((True, True), "All checks passed."),
        ((True, None), "1 of 2 checks passed, none failed; undecided: check 1."),
        ((False, None), "Some strategies will not work correctly; see the failed checks."),
    ],
)
def test_all_checks_passed_only_if_none_was_skipped(results: tuple[bool | None, ...], last: str) -> None:
    assert list(summary([Check(good, "", name=f"check {n}") for n, good in enumerate(results)])) == [last]


def test_a_server_that_cannot_be_reached() -> None:
    with pytest.raises(EngineUnavailable):
        asyncio.run(examine(OpenAI("http://127.0.0.1:9/v1", "tiny", retries=0)))


def test_several_servers_are_checked_one_at_a_time() -> None:
    done = sureenough("doctor", "--url", "http://a/v1", "--url", "http://b/v1", "--model", "m")
    assert (done.returncode, "one server at a time; give one --url" in done.stderr) == (2, True)
