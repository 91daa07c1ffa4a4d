"""Probes in the scheduler: which replies end a path, and where every token of a probe goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sureenough.core.events import Cancel, Fate, Probe, Stop, Tokens
from sureenough.core.probing import ProbeReply, ProbeRule
from sureenough.core.session import Session
from sureenough.errors import UsageError
from sureenough.spec import render, resolve
from sureenough.strategies import STRATEGIES
from tests.core.making import ended, grew, probed, session

WAVERING = ProbeReply("a", hedged=True)
A, B, NOTHING = ProbeReply("a"), ProbeReply("b"), ProbeReply()


def probing(every: int = 4, agree: int = 2, **sizes: Any) -> Session:
    strategy = replace(STRATEGIES["ac+probe"], probe=ProbeRule(every, agree))
    return session(strategy, **({"paths": 3, "parallel": 3} | sizes))


@pytest.mark.parametrize(
    ("agree", "replies", "after"),
    [
        (1, [], None),
        (1, [A], 1),
        (1, [NOTHING, A], 2),
        (2, [A], None),
        (2, [A, A], 2),
        (2, [A, B, A, A, B], 4),
        (2, [A, WAVERING, A], None),
        (2, [WAVERING, WAVERING], None),
        (2, [NOTHING, NOTHING], None),
        (3, [A, A, NOTHING, A, A, A], 6),
    ],
)
def test_which_replies_end_a_path(agree: int, replies: list[ProbeReply], after: int | None) -> None:
    assert ProbeRule(agree=agree).settled_after(replies) == after


def test_the_options_are_part_of_the_strategy_string() -> None:
    strategy = resolve("sure+probe:every=32,agree=2,delta=0.02")
    assert strategy.probe == ProbeRule(32, 2)
    assert render(strategy) == "sure+probe:every=32,agree=2,delta=0.02"
    assert render(STRATEGIES["ddc+probe"]) == "ddc+probe"
    assert resolve("ac") != replace(resolve("ac+probe"), name="ac")
    for text in ("ac+probe:every=0", "ac+probe:agree=0"):
        with pytest.raises(UsageError, match="a whole number of at least 1"):
            resolve(text)
    with pytest.raises(UsageError, match="ac has no option 'every'"):
        resolve("ac:every=64")


def test_a_path_that_has_ended_is_not_probed_about_tokens_that_its_server_counted_afterwards() -> None:
    run = probing()
    assert run.receive(Tokens(0, unread=2_000_000_000, last=True)) == []
    run.receive(ended(0, "a"))
    assert run.snapshot().paths[0].answer == "a"


def test_tokens_without_signals_reach_a_probe_as_well() -> None:
    run = probing()
    assert run.receive(Tokens(0, unread=9)) == [Probe(0, 4, 24)]
    assert run.receive(probed(0, "b")) == [Probe(0, 8, 24)]
    assert run.receive(probed(0, "a")) == []
    assert run.snapshot().paths[0].tokens == 9


def test_an_end_token_without_signals_does_not_show_that_a_path_goes_on() -> None:
    run = session(replace(STRATEGIES["sure+probe"], probe=ProbeRule(4, 1)), paths=2)
    run.receive(grew(0, 5, 5, 5, 5))
    assert run.receive(Tokens(0, unread=1)) == []
    run.receive(ended(0, "own"))
    assert (run.snapshot().paths[0].answer, run.snapshot().paths[0].tokens) == ("own", 5)


def test_a_vote_by_probe_counts_what_the_path_had_when_it_was_probed() -> None:
    run = probing(agree=1)
    run.receive(grew(0, 5, 5, 5, 5, 5, 5))
    assert run.receive(ended(0, "own")) == []
    assert run.receive(probed(0, "early"))[0] == Cancel(0, Fate.KEPT)
    path = run.snapshot().paths[0]
    assert (path.answer, path.tokens, path.overrun, path.probe_tokens) == ("early", 4, 2, 3)


def test_a_path_that_fails_while_it_is_probed() -> None:
    run = probing(agree=1)
    run.receive(grew(0, 5, 5, 5, 5, 5))
    run.receive(ended(0, None, Fate.FAILED))
    run.receive(probed(0, None))
    assert (run.snapshot().paths[0].fate, run.snapshot().paths[0].tokens) == (Fate.FAILED, 5)


def test_the_cap_limits_a_probe_and_is_reached_by_it() -> None:
    run = probing(max_tokens=10)
    assert run.receive(grew(0, 5, 5, 5, 5, 5)) == [Probe(0, 4, 6)]
    assert run.receive(probed(0, None, 6))[-1] == Stop(None, "max_tokens")
    spent = run.outcome().tokens
    assert (spent.probe, spent.discarded, spent.overrun, spent.total) == (6, 4, 1, 11)


def test_no_probe_starts_at_the_cap() -> None:
    run = probing(max_tokens=4)
    assert run.receive(grew(0, 5, 5, 5, 5))[-1] == Stop(None, "max_tokens")


def test_a_reply_after_the_end_of_the_run_is_only_counted() -> None:
    run = probing(agree=1)
    run.receive(grew(2, 5, 5, 5, 5, 5))
    for path in (0, 1):
        run.receive(grew(path, 5, 5, 5, 5, 5))
        run.receive(probed(path))
    assert not run.done
    run.receive(probed(2, None, 2))
    run.receive(ended(2))
    assert run.receive(probed(2, "b", 7)) == []
    out = run.outcome()
    assert (out.tokens.probe, out.ended_by_probe, out.votes) == (15, 2, {"a": 3.0})


def test_a_reply_that_was_cut_has_no_answer() -> None:
    assert ProbeReply("a", 9).within(9) == ProbeReply("a", 9)
    assert ProbeReply("a", 9).within(8) == ProbeReply(None, 8)
