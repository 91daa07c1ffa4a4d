"""Every token in its bucket: chunks, caps, overrun, and engines that watch their own paths."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.core.confidence import scan
from sureenough.core.events import (
    Cancel,
    Ended,
    Fate,
    Regrouped,
    Stop,
    Summary,
    Token,
    Tokens,
)
from sureenough.core.pruning import Tier
from sureenough.errors import ProtocolError
from sureenough.strategies import STRATEGIES
from tests.core.making import NEVER, ddc, ended, grew, session, watching, whole

# -- tokens


@given(
    cuts=st.lists(st.integers(1, 12), min_size=0, max_size=6), confs=st.lists(st.floats(0, 12), min_size=2, max_size=24)
)
def test_chunks_never_move_a_decision(cuts: list[int], confs: list[float]) -> None:
    def pruned_at(chunks: list[list[float]]) -> tuple[int, int, int]:
        run = session(ddc(2, stop=NEVER), paths=3, window=2)
        for path in (0, 1):
            whole(run, path, "a", 6, 7, 5, 6)
        for chunk in chunks:
            run.receive(grew(2, *chunk))
        run.receive(ended(2))
        spent = run.outcome().tokens
        return spent.pruned, spent.kept, spent.total

    chunks: list[list[float]] = []
    rest = confs
    for cut in cuts:
        chunks, rest = [*chunks, rest[:cut]], rest[cut:]
    assert pruned_at([*chunks, rest]) == pruned_at([[conf] for conf in confs])


def test_what_comes_after_a_decision_is_overrun() -> None:
    run = watching()
    assert run.receive(grew(1, 1, 1, 1, 1))[0] == Cancel(1, Fate.PRUNED)
    run.receive(grew(1, 1))
    out = run.outcome()
    assert (out.tokens.init, out.tokens.pruned, out.tokens.overrun, out.tokens.total) == (2, 2, 3, 7)
    assert out.tiers == {Tier.DROP: 1, Tier.RISK: 0}


def test_a_gate_may_close_at_the_last_token() -> None:
    run = session(ddc(1, stop=NEVER), paths=2, window=2)
    whole(run, 0, "a", 6, 6)
    run.receive(grew(1, 1))
    run.receive(Ended(1, Fate.KEPT, "b", tokens=[Token("", 0.5, 1.0)]))
    assert run.outcome().votes == {"a": 6.0}
    assert run.outcome().tokens.pruned == 2


def test_the_cap_falls_inside_a_chunk() -> None:
    run = session(STRATEGIES["sc"], max_tokens=5, parallel=2)
    run.receive(grew(0, 1, 1, 1))
    assert run.receive(grew(1, 1, 1, 1))[-1] == Stop(None, "max_tokens")
    spent = run.outcome().tokens
    assert (spent.discarded, spent.overrun, spent.total) == (5, 1, 6)


def test_a_path_that_ends_with_the_token_that_reaches_the_cap_still_votes() -> None:
    run = session(STRATEGIES["sc"], max_tokens=2)
    run.receive(grew(0, 1))
    assert run.receive(Ended(0, Fate.KEPT, "a", tokens=[Token("", 1, 1)])) == [Stop("a", "max_tokens")]
    assert run.outcome().tokens.kept == 2


def test_a_path_whose_end_lies_beyond_the_cap_does_not_vote() -> None:
    run = session(STRATEGIES["sc"], max_tokens=2)
    last = Ended(0, Fate.KEPT, "a", tokens=[Token("", 1, 1)] * 3)
    assert run.receive(last) == [Cancel(0, Fate.DISCARDED), Stop(None, "max_tokens")]
    assert (run.outcome().tokens.discarded, run.outcome().tokens.overrun) == (2, 1)


def test_tokens_made_after_a_cancel_count_towards_the_cap() -> None:
    run = watching(paths=4, max_tokens=9)
    run.receive(grew(1, 1, 1))
    assert run.receive(grew(1, 1, 1, 1, 1, 1))[-1] == Stop(None, "max_tokens")


def test_a_cap_in_the_warm_up_takes_the_vote_so_far_in_order() -> None:
    run = session(ddc(3), window=2, parallel=3, max_tokens=7)
    whole(run, 0, "a", 4, 4)
    whole(run, 2, "b", 9, 9)
    assert run.receive(grew(1, 5, 5, 5))[-1] == Stop("a", "max_tokens")
    out = run.outcome()
    assert out.votes == {"a": 4.0}, "path 2 ended out of turn"
    assert (out.tokens.init, out.tokens.discarded) == (2, 5)


def test_steps_are_the_longest_chain() -> None:
    run = session(STRATEGIES["sc"], paths=3, parallel=2)
    run.receive(grew(0, 1, 1, 1, 1, 1))
    whole(run, 1, "a", 1, 1)
    whole(run, 2, "a", 1, 1, 1)
    run.receive(ended(0))
    assert run.outcome().steps == 8, "path 2 was started when the chain was 5 long"


# -- engines that watch their own paths


def test_a_summary_stands_in_for_signals() -> None:
    seen = session(ddc(1, stop=NEVER), paths=3, window=2)
    blind = session(ddc(1, stop=NEVER), paths=3, window=2)
    for path, confs in ((0, (6, 7, 6)), (1, (6, 8, 7)), (2, (7, 7, 7))):
        whole(seen, path, "ab"[path % 2], *confs)
        blind.receive(Tokens(path, unread=2))
        windows = scan(np.full(3, 0.5), np.array(confs, dtype=float), 2)
        summary = Summary(3, windows.lowest, windows.tail, windows=windows)
        blind.receive(Ended(path, Fate.KEPT, "ab"[path % 2], summary))
    assert seen.outcome() == blind.outcome()


@pytest.mark.parametrize(
    ("sent", "summary", "tier", "pruned", "overrun"),
    [
        (0, Summary(9, tier=Tier.RISK), Tier.RISK, 9, 0),
        (0, None, Tier.DROP, 0, 0),  # an engine that does not name the tier is taken to mean the first
        (30, Summary(10, tier=Tier.DROP), Tier.DROP, 10, 20),  # it decided before the last tokens that it sent
    ],
)
def test_a_path_pruned_inside_the_engine(
    sent: int, summary: Summary | None, tier: Tier, pruned: int, overrun: int
) -> None:
    run = watching()
    run.receive(Tokens(1, unread=sent))
    run.receive(Ended(1, Fate.PRUNED, None, summary))
    out = run.outcome()
    assert out.tiers == {Tier.DROP: 0, Tier.RISK: 0} | {tier: 1}
    assert (out.tokens.pruned, out.tokens.overrun) == (pruned, overrun)


def test_a_path_that_ran_when_the_vote_was_settled_is_discarded_and_its_bill_may_come_late() -> None:
    run = session(STRATEGIES["ac"], paths=8, parallel=5)
    run.receive(grew(4, 1, 1, 1))
    for path in range(4):
        run.receive(ended(path))
    assert run.outcome().tokens.discarded == 3
    assert run.receive(Ended(4, Fate.DISCARDED, None, Summary(17))) == []
    assert run.outcome().tokens.discarded == 17


def test_a_summary_may_tell_of_a_path_beyond_the_cap() -> None:
    run = session(STRATEGIES["sc"], max_tokens=10)
    assert run.receive(Ended(0, Fate.KEPT, "a", Summary(50)))[-1] == Stop(None, "max_tokens")
    assert (run.outcome().tokens.discarded, run.outcome().tokens.overrun) == (10, 40)


def test_regrouping_after_the_end_changes_nothing() -> None:
    run = session(STRATEGIES["sc"], paths=3)
    for path, answer in enumerate(("1", "1", "0.5")):
        run.receive(ended(path, answer))
    before = run.outcome()
    assert run.receive(Regrouped({"1": 0, "0.5": 0})) == []
    assert run.outcome() == before


def test_tokens_without_signals_need_a_summary() -> None:
    for run, path in ((session(ddc(1)), 0), (watching(), 1)):
        run.receive(grew(path, nan))
        with pytest.raises(ProtocolError, match="neither signals nor a summary"):
            run.receive(ended(path))


def test_a_warm_up_summary_needs_its_windows() -> None:
    run = session(ddc(1), paths=3, window=2)
    with pytest.raises(ProtocolError, match="without its windows"):
        run.receive(Ended(0, Fate.KEPT, "a", Summary(4, 5.0, 5.0)))


def test_strategies_that_read_no_confidence_need_no_signals() -> None:
    run = session(STRATEGIES["sc"], paths=1)
    assert whole(run, 0, "a", nan)[-1] == Stop("a", "budget")
