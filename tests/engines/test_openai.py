"""The HTTP engine against a server that can do anything: every shape of a reply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sureenough.engines import Prompt
from sureenough.engines.openai.wire import request
from sureenough.errors import UsageError
from tests.engines.asking import PLAIN, Got, asked
from tests.engines.misbehaving import Manner, Server


def test_a_plain_reply() -> None:
    def then(server: Server, got: Got) -> None:
        assert server.paths == ["/v1/chat/completions"]
        body = server.requests[0]
        assert body["messages"] == [{"role": "user", "content": "?"}]
        assert (body["seed"], body["logprobs"], body["top_logprobs"], body["stream"]) == (5, True, 20, True)
        assert (body["temperature"], body["top_p"], "max_tokens" in body) == (0.6, 0.95, False)

    got = asked(PLAIN, then)
    assert got.text.endswith("\\boxed{7}")
    assert len(got.signals) == 15
    assert all(0 < peak <= 1 and conf > 0 for peak, conf in got.signals)
    last = got.chunks[-1]
    assert (last.finish, last.prompt_tokens, got.unread, last.estimated) == ("stop", 9, 0, False)


@pytest.mark.parametrize(
    "manner",
    [
        replace(PLAIN, per_chunk=5),
        replace(PLAIN, per_chunk=100),
        replace(PLAIN, bytes_a_write=7),
        replace(PLAIN, bytes_a_write=1, crlf=True, tokens=2),
        replace(PLAIN, merged=True),
        replace(PLAIN, merged=True, per_chunk=3),
        replace(PLAIN, comments=True),
        replace(PLAIN, comments=True, crlf=True, bytes_a_write=11),
        replace(PLAIN, role_first=False),
        replace(PLAIN, usage=False),
        replace(PLAIN, done=False),
        replace(PLAIN, keep_alive=False),
        replace(PLAIN, delay=0.002),
    ],
)
def test_the_same_path_however_it_is_sent(manner: Manner) -> None:
    usual, got = asked(replace(PLAIN, tokens=manner.tokens)), asked(manner)
    assert got.text == usual.text
    assert got.signals == usual.signals
    assert got.chunks[-1].finish == "stop"
    assert got.unread == 0


def test_the_text_is_cut_at_tokens_where_their_strings_add_up() -> None:
    got = asked(replace(PLAIN, per_chunk=5))
    assert "".join(token.text for chunk in got.chunks for token in chunk) == got.text
    assert got.chunks[-2][-1].text == "}"


def test_completions_give_the_same_signals() -> None:
    def then(server: Server, got: Got) -> None:
        assert server.paths == ["/v1/completions"]
        assert server.requests[0]["prompt"] == "?"
        assert server.requests[0]["return_tokens_as_token_ids"] is True

    usual, got = asked(PLAIN), asked(PLAIN, then, chat=False)
    assert (got.text, got.signals) == (usual.text, usual.signals)


def test_more_candidates_than_asked_for() -> None:
    got = asked(replace(PLAIN, more_candidates=1))
    assert len(got.signals) == 15


def test_values_that_are_not_json() -> None:
    got = asked(replace(PLAIN, odd_values=True))
    assert len(got.signals) == 15
    assert all(conf >= 15.0 for _, conf in got.signals)  # three of twenty count as -100


def test_an_end_token_without_an_entry_is_counted() -> None:
    assert asked(replace(PLAIN, unseen_end=True)).unread == 1


def test_separate_reasoning_is_marked() -> None:
    got = asked(replace(PLAIN, reasoning=True, tokens=3))
    assert got.text.startswith("<think>\n")
    assert got.text.endswith("\n</think>\n\n\\boxed{7}")


def test_a_path_that_the_server_ends_at_its_limit() -> None:
    got = asked(replace(PLAIN, tokens=500), max_path_tokens=40)
    last = got.chunks[-1]
    assert (last.finish, last.closed, last.prompt_tokens, len(got.signals), got.beyond) == ("length", False, 9, 40, 0)


@pytest.mark.parametrize("signals", [True, False])
@pytest.mark.parametrize("sent", [{}, {"per_chunk": 7}, {"merged": True}, {"per_chunk": 7, "merged": True}])
def test_a_path_is_cut_at_its_limit_to_the_token(sent: dict[str, Any], signals: bool) -> None:
    if not signals:
        sent = sent | {"per_chunk": 1}  # a chunk without log-probabilities counts as one
    usual = asked(replace(PLAIN, tokens=500))
    got = asked(replace(PLAIN, tokens=500, obeys=False, **sent), signals=signals, max_path_tokens=40)
    assert (got.chunks[-1].finish, got.chunks[-1].closed) == ("length", True)
    assert len(got.signals) + got.unread == 40
    assert got.signals == usual.signals[: 40 * signals]
    assert got.text == "".join([token.text for chunk in usual.chunks for token in chunk][:40])
    assert got.beyond >= (2 if "merged" in sent else 0)  # counted, not kept


def test_without_signals_no_candidates_are_asked_for() -> None:
    def then(server: Server, got: Got) -> None:
        assert "logprobs" not in server.requests[0]

    got = asked(PLAIN, then, signals=False)
    assert (got.signals, got.unread, got.chunks[-1].estimated) == ([], 15, False)
    packed = asked(replace(PLAIN, per_chunk=5), signals=False)
    assert (packed.unread, packed.chunks[-1].estimated) == (15, False)
    guess = asked(replace(PLAIN, per_chunk=5, usage=False), signals=False)
    assert (guess.unread, guess.chunks[-1].estimated) == (3, True)


def test_the_same_seed_gives_the_same_path() -> None:
    assert asked(PLAIN, seed=3).signals == asked(PLAIN, seed=3).signals != asked(PLAIN, seed=4).signals


def test_a_model_whose_name_is_not_text() -> None:
    with pytest.raises(UsageError, match="not UTF-8 text"):
        request(Prompt.user("?"), 1, model="tiny\udcff", chat=True, k=20, sampling={})
