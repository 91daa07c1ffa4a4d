"""Votes of running paths: the rule by its numbers, and a run by brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from sureenough.core.events import Classify, Expired, Regrouped, Stop
from sureenough.core.learning import LearnerState
from sureenough.core.options import RunOptions
from sureenough.core.probing import ProbeReply
from sureenough.core.session import Session
from sureenough.core.votes import Lead, Poll
from sureenough.core.weights import Ballot, ByLowest, by_count
from sureenough.drivers import replay
from sureenough.pools import RecordedPath
from tests.core.making import ended, grew, probed
from tests.core.probing import EVERY, known, path, voting

# -- the poll


def test_an_uncounted_vote_gives_its_doubt_to_the_runner_up() -> None:
    poll = Poll(by_count, 9)
    poll.expect({3: ("a", 0.75)})
    assert poll.lead_by_count() == poll.lead_by_weight() == Lead(0.75, 0.25, 1.0)
    poll.expect({3: ("a", 0.75), 1: ("b", 0.5)})
    assert poll.lead_by_count() == Lead(0.75, 0.75, 2.0), "0.5 + 0.25 + 0.5 would be more than the leader has"
    poll.add(0, Ballot(0, "a", 1.0, 1.0))
    assert poll.lead_by_count() == Lead(1.75, 1.25, 3.0)
    assert poll.votes() == {"a": 1.75, "b": 0.5}
    assert (poll.counted, poll.considered, poll.voting) == (1, 3, 3)
    poll.add(3, None)  # it ended without an answer
    assert (poll.votes(), poll.considered, poll.voting) == ({"a": 1.0, "b": 0.5}, 3, 2)
    poll.expect({})
    assert poll.lead_by_count() == Lead(1.0, 0.0, 1.0)


def test_an_uncounted_vote_weighs_as_much_as_others_do_on_average() -> None:
    poll = Poll(ByLowest(), 9)
    poll.expect({2: ("b", 0.8)})
    assert poll.lead_by_weight() == pytest.approx((0.8, 0.2, 1.0)), "1 before the first vote"
    poll.add(0, Ballot(0, "a", 12.0, 0.0))
    poll.add(1, Ballot(1, "a", 8.0, 0.0))
    assert poll.lead_by_weight() == pytest.approx((20.0, 8.0 + 2.0, 30.0))
    assert poll.votes() == {"a": 20.0, "b": 8.0}


def test_a_candidate_is_named_by_its_lowest_path_whether_it_was_counted_or_not() -> None:
    poll = Poll(by_count, 9)
    poll.regroup({"1/2": 0, "0.5": 0, "7": 1})
    poll.add(4, Ballot(4, "0.5", 1.0, 1.0))
    poll.expect({1: ("1/2", 0.9), 2: ("x", 0.9)})
    assert poll.votes() == {"1/2": 1.9}, "the class of x is not known"
    assert (poll.winner(), poll.groups()) == ("1/2", (("0.5", "1/2"),))
    assert poll.same("0.5", "1/2")
    assert not poll.same(None, None)


# -- runs


def test_a_run_ends_while_all_paths_run() -> None:
    out = replay([path("a", 99, "a")] * 16, voting(state=known(0.99)), RunOptions(window=4, parallel=16))
    assert (out.answer, out.reason, out.started, out.counted) == ("a", "settled", 16, 0)
    assert out.votes == {"a": pytest.approx(4 * 0.99)}
    assert out.uncounted_votes == pytest.approx(3.96)
    assert out.tokens.kept == 0
    assert out.tokens.discarded == 4 * 4 + 12 * 3, "in the fourth tick, four paths were probed"
    assert out.tokens.probe == 4 * 3
    assert "have 3.96 of the votes" in out.explain()


def test_before_anything_is_known_probes_settle_nothing() -> None:
    """The depth of a probe is not known before a path has ended; then the prior believes it as little as a coin."""
    out = replay([path("a", 40, "b")] * 8, voting(state=LearnerState()), RunOptions(window=4, parallel=8))
    assert (out.answer, out.reason, out.steps) == ("a", "settled", 40)


def test_probes_that_are_wrong_too_often_do_not_vote() -> None:
    """However many there are: the paths of a question may all be wrong together."""
    paths = [path("b", 40, "a")] * 64
    out = replay(paths, voting(state=known(0.89)), RunOptions(window=4, parallel=64))
    assert (out.answer, out.steps) == ("b", 40)
    out = replay(paths, voting(state=known(0.91)), RunOptions(window=4, parallel=64))
    assert (out.answer, out.steps) == ("a", 4)


def test_some_questions_are_for_learning_only() -> None:
    out = replay([path("b", 40, "a")] * 8, voting(state=replace(known(0.99), questions=16)), RunOptions(window=4))
    assert (out.answer, out.probes is not None) == ("b", True)
    out = replay([path("a", 40, "a")] * 8, voting(state=known(0.99)), RunOptions(window=4, parallel=8))
    assert (out.answer, out.probes) == ("a", None), "probes voted: what paths would have answered is not known"


@pytest.mark.parametrize("name", ["ac", "sure", "ddc"])
def test_votes_of_probes_in_every_strategy(name: str) -> None:
    strategy = voting(name, known(0.99))
    strategy = replace(strategy, warmup=2) if name == "ddc" else strategy
    lengths, first = [12, 14] + [80] * 14, "ab" if name == "ddc" else "aa"
    paths = [path(answer, n, "a") for answer, n in zip(first + "a" * 14, lengths, strict=True)]
    out = replay(paths, strategy, RunOptions(window=4, parallel=16))
    assert (out.answer, out.reason) == ("a", "settled")
    assert out.steps < 40
    assert out.tokens.discarded > 0


def test_a_running_path_without_a_vote_holds_back_later_ones() -> None:
    paths = [path("a", 40, None), *[path("b", 3)] * 9]
    for order, expected in (("start", 40), ("finish", 3)):
        options = RunOptions(window=4, parallel=10, count=order)  # type: ignore[arg-type]
        out = replay(paths, voting(), options)
        assert (out.answer, out.steps) == ("b", expected)


def test_a_deadline_counts_what_running_paths_would_answer() -> None:
    run = Session(voting(), RunOptions(paths=4, window=4, parallel=4))
    run.begin()
    for number, answer in enumerate("abb"):
        run.receive(grew(number, 5, 5, 5, 5, 5))
        run.receive(probed(number, answer))
    assert run.receive(Expired())[-1] == Stop("b", "deadline")


def test_classes_of_probes_are_requested_once_and_count_when_they_come() -> None:
    run = Session(voting(state=known(0.999)), RunOptions(paths=9, window=4, parallel=6))
    run.receive(Regrouped({}))
    run.begin()
    actions = []
    for number, answer in enumerate(["1/2", "0.5", "1/2", "0.5"]):
        run.receive(grew(number, 5, 5, 5, 5, 5))
        actions.append(run.receive(probed(number, answer)))
    assert actions == [[Classify(("1/2",))], [], [], []], "one request at a time"
    actions.append(run.receive(Regrouped({"1/2": 0})))
    assert actions[-1] == [Classify(("1/2", "0.5"))]
    assert run.receive(Regrouped({"1/2": 0, "0.5": 0}))[-1] == Stop("1/2", "settled")


def test_the_first_paths_need_no_window_to_vote() -> None:
    run = Session(voting("sure", known(0.999)), RunOptions(paths=9, parallel=8))
    run.begin()
    run.receive(grew(0, 5, 5, 5))
    run.receive(ended(0))
    stops = []
    for number in range(1, 8):
        run.receive(grew(number, 5, 5, 5, 5, 5))
        stops += run.receive(probed(number))
    assert stops[-1] == Stop("a", "settled")
    out = run.outcome()
    assert out.counted == 1
    assert out.votes == {"a": pytest.approx(1 + out.uncounted_votes)}


# -- brute force


class Reference:
    """Adaptive-consistency with voting probes, by loops over everything that is known at each moment."""

    def __init__(self, paths: list[RecordedPath], parallel: int, state: LearnerState) -> None:
        self.paths, self.parallel, self.state = paths, parallel, state
        self.grown: dict[int, int] = {}
        self.probes = 0

    def run(self) -> tuple[str | None, str, int, int]:
        """The answer, the reason, the tokens of all paths and those of probes."""
        self.grown = dict.fromkeys(range(min(self.parallel, len(self.paths))), 0)
        while any(not self.over(n) for n in self.grown):
            for n in sorted(self.grown):
                if self.over(n) or n not in self.grown:
                    continue
                self.grown[n] += 1
                if self.over(n):
                    if self.settled():
                        return self.result("settled")
                    if len(self.grown) < len(self.paths):
                        self.grown[len(self.grown)] = 0
                elif self.grown[n] % EVERY == 0:
                    self.probes += self.reply(n).tokens
                    if self.settled():
                        return self.result("settled")
        return self.result("budget")

    def over(self, n: int) -> bool:
        return self.grown[n] == self.paths[n].tokens

    def reply(self, n: int) -> ProbeReply:
        return self.paths[n].replies(EVERY)[self.grown[n] // EVERY - 1]

    def tally(self) -> tuple[dict[str, float], float]:
        """Votes by answer, and the doubt in them."""
        state, votes, doubt = self.state, dict[str, float](), 0.0
        for n in sorted(self.grown):
            share, answer = 1.0, self.paths[n].answer
            if not self.over(n):
                asked = self.grown[n] // EVERY
                answer = self.reply(n).answer if asked and state.questions % 8 else None
                depth = min(9, int(10 * EVERY * asked / (state.probes.lengths / state.questions))) if answer else 0
                share = (2 + state.probes.sums[depth]) / (4 + state.probes.counts[depth])
                if answer is None or share < 0.9:
                    break  # later paths wait for it
            if answer is not None:
                votes[answer] = votes.get(answer, 0.0) + share
                doubt += 1 - share
        return votes, doubt

    def settled(self) -> bool:
        votes, doubt = self.tally()
        ranked = [*sorted(votes.values(), reverse=True), 0.0]
        if not votes:
            return False
        return bool(beta(1 + ranked[0], 1 + min(ranked[0], ranked[1] + doubt)).sf(0.5) >= 0.95 - 1e-12)

    def result(self, reason: str) -> tuple[str | None, str, int, int]:
        votes, _ = self.tally()
        best = next((answer for answer in votes if votes[answer] >= max(votes.values()) - 1e-12), None)
        return best, reason, sum(self.grown.values()), self.probes


RATES = (0.6, 0.91, 0.95, 0.98)
answers = st.sampled_from(["a", "a", "b", None])


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[RecordedPath], int, LearnerState]:
    count = draw(st.integers(1, 9))
    made = [path(draw(answers), draw(st.integers(1, 24)), *draw(st.lists(answers, max_size=5))) for _ in range(count)]
    depths = [known(rate).probes.sums[0] for rate in draw(st.lists(st.sampled_from(RATES), min_size=10, max_size=10))]
    state = known(0.9, draw(st.sampled_from([5.0, 20.0])))
    state = replace(state, probes=replace(state.probes, sums=tuple(depths)))
    return made, draw(st.integers(1, 6)), draw(st.sampled_from([state, state, replace(state, questions=8)]))


@given(questions())
def test_runs_equal_the_rule_by_brute_force(question: tuple[list[RecordedPath], int, LearnerState]) -> None:
    paths, parallel, state = question
    out = replay(paths, voting(state=state), RunOptions(window=4, parallel=parallel))
    tokens = out.tokens
    expected = Reference(paths, parallel, state).run()
    assert (out.answer, out.reason, tokens.kept + tokens.discarded, tokens.probe) == expected
    assert tokens.total == tokens.kept + tokens.discarded + tokens.probe
