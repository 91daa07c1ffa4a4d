"""What a request gets that says nothing: the strategy, planned width, a window; and what its reply tells about them."""

from __future__ import annotations

import httpx
import pytest

from sureenough import reasoner
from sureenough.strategies import DEFAULT_STRATEGY
from tests.engines.misbehaving import Manner
from tests.server.sending import post, vote
from tests.server.upstream import an_upstream, before


def test_width_is_planned_and_the_reply_says_what_was_discarded(served: str) -> None:
    consensus = vote(served)["sureenough"]
    assert (consensus["hurry"], consensus["parallel"]) == (0.6, 16)
    assert "discarded" in consensus["tokens"]
    at_once = vote(served, hurry=1000)["sureenough"]
    assert at_once["hurry"] == 1000
    assert at_once["started"] > consensus["started"]
    assert at_once["answer"] == consensus["answer"]


def test_a_request_without_a_strategy_uses_the_default_one(served: str) -> None:
    assert vote(served, "tiny", paths=20)["sureenough"]["strategy"] == DEFAULT_STRATEGY == "sure"
    assert httpx.get(f"{served}/api/options").json()["strategy"] == DEFAULT_STRATEGY


def test_the_form_and_the_schema_have_hurry(served: str) -> None:
    fields = {field["name"]: field for field in httpx.get(f"{served}/api/options").json()["options"]}
    assert (fields["hurry"]["default"], fields["hurry"]["minimum"], fields["hurry"]["fractional"]) == (0.6, 0, True)
    assert '"hurry"' in httpx.get(f"{served}/openapi.json").text


def test_the_posterior_by_weights_and_the_one_by_counts_are_two_fields(served: str) -> None:
    consensus = vote(served, "tiny@ddc")["sureenough"]
    assert consensus["weighted_posterior"] > consensus["posterior"] > 0.5
    assert "By the paper's weights" in consensus["why"]
    assert f"with every path counted as one vote, {consensus['posterior']:.4f}" in consensus["why"]
    unweighted = vote(served, "tiny@ddc-unweighted")["sureenough"]
    assert unweighted["weighted_posterior"] is None
    assert unweighted["posterior"] > 0.5


def test_a_server_has_one_window_per_model() -> None:
    """The paths have about 200 tokens; a request with a limit on them chooses for itself only."""
    with an_upstream(Manner(tokens=200)) as upstream, before(upstream) as (url, _):
        cut = post(url, model="tiny@sure", max_tokens=60).json()
        assert cut["sureenough"]["window"] == 16
        first, second, other = vote(url)["sureenough"], vote(url)["sureenough"], vote(url, window=64)["sureenough"]
        assert (first["window"], first["window_paths"]) == (32, 3)
        assert (second["window"], second["window_paths"]) == (32, 0)
        assert other["window"] == 64


def test_a_server_may_run_all_at_once_with_a_window_and_a_request_may_still_plan() -> None:
    with an_upstream(Manner(tokens=200)) as upstream, before(upstream, hurry=None, window=8) as (url, _):
        consensus = vote(url)["sureenough"]
        assert (consensus["hurry"], consensus["window"]) == (None, 8)
        assert vote(url, hurry=0.5)["sureenough"]["hurry"] == 0.5


@pytest.mark.parametrize("listed", [["built-in"], ["built-in", "tiny"]])
def test_the_built_in_model_of_the_upstream_has_its_notes(listed: list[str]) -> None:
    with an_upstream(Manner()) as upstream, before(upstream, window=4) as (url, _):
        upstream.models = listed
        assert vote(url, "built-in@sure")["sureenough"]["notes"] == [reasoner.LIMITS]
        page = httpx.get(f"{url}/api/options", timeout=60).json()
        assert page["notes"] == ([reasoner.LIMITS] if listed == ["built-in"] else [])
        if "tiny" in listed:
            assert reasoner.LIMITS not in vote(url, "tiny@sure")["sureenough"]["notes"]


def test_a_question_that_no_path_answers_ends_early_with_a_reason(served: str) -> None:
    reply = vote(served, kind="choice")
    consensus, message = reply["sureenough"], reply["choices"][0]["message"]
    assert (consensus["reason"], consensus["answer"]) == ("no_answer", None)
    assert consensus["started"] < 24
    assert any("one of the letters" in note for note in consensus["notes"])
    assert "one of the letters" in message["refusal"]
    assert vote(served)["choices"][0]["message"]["refusal"] is None
    streamed = post(served, stream=True, sureenough={"kind": "choice"}).text
    assert '"refusal":' in streamed
    assert "one of the letters" in streamed


def test_a_search_is_a_strategy_of_a_model_too(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    consensus = vote(served, "tiny@predictive+sc:runs=2,rollouts=2")["sureenough"]
    assert (consensus["paths"], consensus["started"]) == (2, 2)
    assert consensus["tokens"]["search"] > 0
    monkeypatch.setattr("sureenough.core.search.find_spec", lambda name: None)
    refusal = post(served, model="tiny@phi+sc")
    assert refusal.status_code == 400
    assert "pip install 'sureenough[search]'" in refusal.json()["error"]["message"]
