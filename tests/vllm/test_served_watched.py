"""Paths watched inside a real vLLM: `.ci/vllm pytest tests/vllm/test_served_watched.py`. Skipped without one."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import sureenough as se
from sureenough.cli.doctor import examine
from sureenough.core.confidence import scan
from sureenough.core.events import Action, Ended, Fate, Summary
from sureenough.core.outcome import Snapshot
from sureenough.core.pruning import Gate
from sureenough.drivers.observers import ObservedEvent, PathReport
from sureenough.drivers.record import RecordQuestion, record
from sureenough.engines.base import WatchOptions, as_part
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.openai.logprobs import token_signals
from sureenough.engines.watch.client import fetch_monitor_info
from sureenough.engines.watch.protocol import WatchRequest, parse_summary
from sureenough.pools import Journal
from tests.vllm.test_served import bounded, now

URL = os.environ.get("SUREENOUGH_VLLM_URL")
pytestmark = pytest.mark.skipif(URL is None, reason="needs a vLLM server: see .ci/vllm")
PROMPT = se.Prompt.user("Count to ten.")
DDC = "ddc-no-width:warmup=4,trust=99,drop=10"  # the whole budget is used


def engine(**options: Any) -> OpenAI:
    """Sampling among the 20 likeliest tokens only: if another one is sampled, a chat reply lacks the 20th candidate."""
    common: dict[str, Any] = {"temperature": 2.0, "top_p": 1.0, "max_path_tokens": 200, "extra": {"top_k": 20}}
    return OpenAI(str(URL), "tiny", **(common | options))


class Fates:
    """How every path ended."""

    def __init__(self) -> None:
        self.paths: dict[int, tuple[Fate, int]] = {}
        self.summaries: dict[int, Summary | None] = {}

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        for path in snapshot.paths:
            if path.fate is not None:
                self.paths[path.number] = (path.fate, path.tokens)
        if isinstance(event, Ended):
            self.summaries[event.path] = event.summary


def run(inside: bool, strategy: str = DDC, parallel: int = 1, **options: Any) -> tuple[se.Outcome, Fates]:
    fates = Fates()
    out = bounded(
        se.aask(
            PROMPT, engine(inside=inside, **options), strategy, paths=24, window=16, parallel=parallel,
            extract=lambda text: text[:1], observers=[fates],
        )
    )  # fmt: skip
    return out, fates


def assert_same_gate(inside: se.Outcome, outside: se.Outcome) -> None:
    """Thresholds are equal up to rounding: on a GPU, vLLM's text is of float32, our kernel computes with float64."""
    assert inside.gate is not None
    assert outside.gate is not None
    assert asdict(inside.gate) == pytest.approx(asdict(outside.gate), rel=1e-6)


def test_one_path_at_a_time_decisions_equal_the_clients() -> None:
    (inside, seen), (outside, wanted) = run(True), run(False)
    assert_same_gate(inside, outside)
    assert seen.paths == wanted.paths
    assert (inside.tiers, inside.answer) == (outside.tiers, outside.answer)
    assert inside.votes == pytest.approx(outside.votes, rel=1e-6)
    assert inside.pruned > 2
    assert inside.tokens.overrun == 0  # a closed gate makes its own token the last
    assert all(summary is not None for summary in seen.summaries.values())
    assert not any(wanted.summaries.values())


@pytest.mark.parametrize("parallel", [4, 16])
def test_side_by_side_every_token_is_accounted_for(parallel: int) -> None:
    """Paths depend on the others in their batch, through rounding; the counts of their tokens must still add up."""
    before = now().generated
    out, fates = run(True, parallel=parallel)
    assert out.tokens.total == now().generated - before
    assert (out.tokens.overrun, out.tokens.overrun_known) == (0, True)
    assert out.pruned > 2
    assert sum(fate is Fate.PRUNED for fate, _ in fates.paths.values()) == out.pruned


@pytest.mark.parametrize("strategy", ["deepconf-low:warmup=4", "sure", "ddc-no-trend:warmup=4"])
def test_other_strategies(strategy: str) -> None:
    (inside, _), (outside, _) = run(True, strategy), run(False, strategy)
    assert (inside.answer, inside.pruned) == (outside.answer, outside.pruned)
    assert inside.votes == pytest.approx(outside.votes, rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"chat": False}, {"extra": {"top_k": 20, "stop": ["1"]}}], ids=str)
@pytest.mark.parametrize("strategy", ["sc", "ac"])
def test_paths_without_signals_are_the_same_with_nothing_sent_before_their_end(
    strategy: str, options: dict[str, Any]
) -> None:
    events: list[ObservedEvent] = []
    common: dict[str, Any] = {"paths": 8, "parallel": 1, "extract": lambda text: text[:2]}
    observers = [lambda event, *_: events.append(event)]
    inside = bounded(se.aask(PROMPT, engine(**options), strategy, observers=observers, **common))
    outside = bounded(se.aask(PROMPT, engine(inside=False, **options), strategy, **common))
    assert replace(inside, tokens=outside.tokens) == outside
    assert replace(inside.tokens, cached=0) == replace(outside.tokens, cached=0)  # the later run has more cached
    reports = [event for event in events if isinstance(event, PathReport)]
    assert sum(bool(report.text) for report in reports) <= inside.started  # all text comes at once
    assert not any(report.confidence is not None for report in reports)
    assert not any(event.summary for event in events if isinstance(event, Ended))


@pytest.mark.parametrize("limit", [{"deadline": 1.5}, {"max_tokens": 900}, {}], ids=str)
def test_cancelled_paths_without_signals_are_counted_no_lower_than_by_the_server(limit: dict[str, Any]) -> None:
    """Without a limit, the vote is settled while other paths run."""
    before, strategy = now().generated, "sc" if limit else "ac"
    long = engine(max_path_tokens=1800, extra={"top_k": 20, "ignore_eos": bool(limit)})
    out = bounded(se.aask(PROMPT, long, strategy, paths=24, parallel=12, extract=lambda _: "7", hurry=None, **limit))
    # Its own counters lack the last tokens of paths that it aborted.
    assert out.tokens.total >= now().generated - before
    if "max_tokens" in limit:  # in the other cases, some paths may not have begun
        assert out.tokens.overrun_known
    assert not any("estimated" in note for note in out.notes)
    assert out.reason == next(iter(limit), "settled")


def test_a_recording_inside_is_that_of_the_client(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", {}) as journal:
        bounded(record([RecordQuestion("q", PROMPT)], engine(), journal, paths=3, parallel=1, seed=0))
        inside = [journal["q", number] for number in range(3)]
    with Journal(tmp_path / "plain", {}) as journal:
        bounded(record([RecordQuestion("q", PROMPT)], engine(inside=False), journal, paths=3, parallel=1, seed=0))
        outside = [journal["q", number] for number in range(3)]
    for one, other in zip(inside, outside, strict=True):
        assert (one.text, one.finish, one.tokens) == (other.text, other.finish, other.tokens)
        assert np.allclose(one.conf, other.conf, rtol=2e-3)  # float16


def test_completions_too() -> None:
    (inside, seen), (outside, wanted) = run(True, chat=False), run(False, chat=False)
    # Plain completions send the sampled token beside the k candidates: none is missing.
    assert_same_gate(inside, outside)
    assert seen.paths == wanted.paths


def test_if_the_twentieth_candidate_is_missing_the_servers_numbers_are_the_better_ones() -> None:
    """The one known difference: chat replies have 20 entries, the sampled token among them."""
    free: dict[str, Any] = {"extra": {}}
    (inside, _), (outside, _) = run(True, **free), run(False, **free)
    assert inside.gate is not None
    assert outside.gate is not None
    assert inside.gate.drop <= outside.gate.drop  # a missing candidate is replaced by a smaller one
    assert inside.gate.trust == outside.gate.trust  # the largest is never missing
    assert_same_gate(run(True, **free, chat=False)[0], run(False, **free, chat=False)[0])


async def sent(**arguments: Any) -> httpx.Response:
    body: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "?"}], "max_tokens": 4}
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{URL}/chat/completions", json=body | arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"vllm_xargs": {"sure_windwo": 3}}, "known: sure_key"),
        (
            {"vllm_xargs": {"sure_key": "12345678", "sure_window": 4}, "logit_bias": {"5": 1.0}},
            "cannot have logit_b",
        ),
        ({"vllm_xargs": {"sure_key": "12345678", "sure_window": 4}, "n": 2}, "n must be 1"),
        (
            {"vllm_xargs": {"sure_key": "12345678", "sure_window": 4, "sure_drop": 1.0}, "ignore_eos": True},
            "leave out ignore_eos",
        ),
    ],
)
def test_bad_arguments_are_refused_when_the_request_arrives(arguments: dict[str, Any], words: str) -> None:
    reply = bounded(sent(**arguments))
    assert reply.status_code == 400
    assert words in reply.text


def test_other_requests_are_unchanged() -> None:
    """Requests that are not watched, and watched ones beside them."""

    async def use() -> list[httpx.Response]:
        watched = {"vllm_xargs": {"sure_key": "some-key-here", "sure_window": 4, "sure_drop": 1e9}}
        same = {"seed": 5, "max_tokens": 40, "ignore_eos": True}
        alone = await sent(**same)
        beside = await asyncio.gather(sent(**same), sent(**watched, max_tokens=100), sent(**same))
        return [alone, *beside]

    alone, one, pruned, other = [reply.json() for reply in bounded(use())]
    assert alone["usage"]["completion_tokens"] == one["usage"]["completion_tokens"] == 40
    assert {reply["choices"][0]["finish_reason"] for reply in (alone, one, other)} == {"length"}
    assert pruned["usage"]["completion_tokens"] == 4  # the fourth token is the end
    assert pruned["choices"][0]["finish_reason"] == "stop"


def test_a_path_that_is_closed_early_leaves_nothing_behind() -> None:
    async def use() -> int:
        guard = WatchOptions(16, Gate())
        async with engine(max_path_tokens=1500).open(parallel=1) as ready:
            chunks = ready.stream(replace(PROMPT, watch=guard), seed=3)
            seen = 0
            async for chunk in chunks:
                seen += as_part(chunk).unread
                if seen > 10:
                    break
            await chunks.aclose()
        return seen

    assert bounded(use()) > 10


def test_doctor_reports_who_watches() -> None:
    checks = {check.name: check for check in bounded(examine(engine()))}
    assert checks["inside"].good
    assert "the server watches its own paths" in checks["inside"].found
    assert "up to 2048 tokens" in checks["inside"].found


def test_a_window_too_long_falls_back_to_log_probabilities() -> None:
    fates = Fates()
    bounded(se.aask(PROMPT, engine(max_path_tokens=20), DDC, paths=6, window=4096, observers=[fates]))
    assert not any(fates.summaries.values())


@pytest.mark.parametrize("prompt", ["?", "Count to ten. " * 60], ids=["short", "long"])
def test_signals_equal_those_of_the_requests_own_log_probabilities(prompt: str) -> None:
    """The server reads long prompts in pieces: tokens sampled between pieces do not count."""

    async def use() -> tuple[Any, Any]:
        watched = {"vllm_xargs": {"sure_key": f"greedy-{len(prompt)}-path", "sure_window": 8, "sure_trace": 1}}
        asked = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": 60}
        reply = await sent(**watched, **asked, logprobs=True, top_logprobs=20)
        async with httpx.AsyncClient(timeout=60) as client:
            record = await client.get(f"{URL}/sureenough/paths/greedy-{len(prompt)}-path")
        return reply.json(), record.json()

    reply, record = bounded(use())
    assert (reply["usage"]["prompt_tokens"] > 512) is (prompt != "?")
    made = [
        token_signals([one["logprob"] for one in entry["top_logprobs"]], 20)
        for entry in reply["choices"][0]["logprobs"]["content"]
    ]
    found = parse_summary(record, WatchRequest("any-path", 8, trace=True))
    assert found.tokens == len(made)
    assert found.windows is not None
    wanted = scan(np.array([peak for peak, _ in made]), np.array([conf for _, conf in made]), 8)
    # The vectorised exponential of torch differs from Python's in the last bit on some processors.
    np.testing.assert_allclose(found.windows.peak, wanted.peak, rtol=1e-14)
    assert np.array_equal(found.windows.conf, wanted.conf)


def test_a_server_without_a_monitor_has_no_monitor_info() -> None:
    async def use() -> None:
        for url, known in ((str(URL), True), (f"{URL}/elsewhere", False), ("http://127.0.0.1:9/v1", False)):
            async with se.OpenAI(url, "tiny").open(parallel=1) as connection:
                assert (await fetch_monitor_info(connection.fetch) is not None) is known

    bounded(use())


@pytest.mark.skipif(os.environ.get("SUREENOUGH_VLLM_ENGINES", "1") == "1", reason="one engine; .ci/run has two as well")
def test_records_are_found_whichever_engine_ran_the_path() -> None:
    before = by_engine("generation_tokens_total")
    out, fates = run(inside=True, parallel=12)
    assert (out.failed, list(out.notes), out.tokens.overrun_known) == (0, [], True)
    assert None not in fates.summaries.values()
    after = by_engine("generation_tokens_total")
    assert len(after) == 2
    assert all(after[number] > before.get(number, 0.0) for number in after), "each engine ran some paths"


def by_engine(name: str) -> dict[str, float]:
    """One of the server's own counters, for each of its engines."""
    text = httpx.get(str(URL).removesuffix("/v1") + "/metrics").text
    found = re.findall(rf'^vllm:{name}\{{[^}}]*engine="(\d+)"[^}}]*\}} (\S+)$', text, re.MULTILINE)
    return {number: float(value) for number, value in found}


def test_vllms_own_statistics_are_right_though_most_steps_send_none() -> None:
    now()  # waits until nothing runs
    before = sum(by_engine("prefix_cache_queries_total").values())
    out, _ = run(True, "sc:weigh=learned", parallel=24)
    now()
    assert sum(by_engine("prefix_cache_queries_total").values()) - before == out.tokens.prompt
    assert set(by_engine("num_requests_running").values()) == {0.0}
    assert set(by_engine("kv_cache_usage_perc").values()) == {0.0}


@pytest.mark.parametrize("special", [True, False], ids=["without special tokens", "with special tokens"])
def test_the_text_of_a_whole_reply_is_that_of_an_ordinary_one(special: bool) -> None:
    """It is decoded at once, the ordinary one token by token."""
    for seed in range(8):
        sampling: dict[str, Any] = {"seed": seed, "temperature": 1.0 + seed % 2, "max_tokens": 120, "ignore_eos": True}
        sampling |= {"skip_special_tokens": special, "spaces_between_special_tokens": seed < 4}
        watched = {"vllm_xargs": {"sure_key": f"key-of-text-{seed}-{special}", "sure_window": 16}}
        whole, ordinary = (bounded(sent(**sampling, **extra)).json()["choices"][0] for extra in (watched, {}))
        assert len(ordinary["message"]["content"]) > 20
        assert whole["message"]["content"] == ordinary["message"]["content"]


@pytest.mark.parametrize("strategy", ["sc", "sc:weigh=learned"])
def test_paths_of_one_question_read_its_prompt_once(strategy: str) -> None:
    """Also if all of them start at the same moment; only whole blocks of a prompt are shared.

    The prompt is read in one piece: vLLM for CPUs fails if it discards a token that it sampled with a seed.
    """
    question = "Compute 12 + 30. " + "Write every step on a line of its own. " * 3
    out = bounded(se.aask(question, engine(), strategy, paths=16, parallel=16, window=16, hurry=None, seed=7))
    assert 128 < out.tokens.prompt // 16 < 256
    assert out.tokens.cached >= 15 * (out.tokens.prompt // 16 - 128)
