"""Laws of probes: a path is probed before its end and not at it, whatever arrives together, live and in a replay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, cycle, islice, pairwise
from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from sureenough.core.events import Ended, Event, Fate, Probe, Probed, Token, Tokens
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.probing import ProbeReply, ProbeRule
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.drivers import replay
from sureenough.drivers.fast_replay import fast_replay
from sureenough.drivers.lockstep import lockstep
from sureenough.drivers.probes import BOX
from sureenough.engines import Chunk, Fake
from sureenough.engines.fake import Step
from sureenough.pools import RecordedPath, RecordedProbe
from sureenough.strategies import STRATEGIES
from tests.drivers.test_live import NUMBER, go
from tests.requirements import examples

COST = 2  # tokens of a probe: its answer and the end of the box


def letters(text: str) -> list[Token]:
    return [Token(letter, 0.5, 10.0) for letter in text]


class GrowingPath(NamedTuple):
    """A path whose tokens are all its answer, and what it would answer after each of them."""

    answer: str
    replies: str
    sizes: list[int]  # of the chunks in which its tokens arrive, over and over

    def chunks(self) -> list[list[Token]]:
        ends = [0, *accumulate(islice(cycle(self.sizes), len(self.replies)))]
        parts = [self.replies[start:end] for start, end in pairwise(ends)]
        return [letters(self.answer * len(part)) for part in parts if part]

    def recorded(self, every: int) -> RecordedPath:
        tokens = len(self.replies)
        probes = [RecordedProbe(at, ProbeReply(self.replies[at - 1], COST)) for at in range(every, tokens, every)]
        return RecordedPath(self.answer, [0.5] * tokens, [10.0] * tokens, probes=tuple(probes))

    def literal(self, every: int, agree: int) -> tuple[str, int, int]:
        """Its vote, its tokens and its probes, by the rule's words."""
        given = ""
        for at in range(1, len(self.replies)):  # after each token that another one follows
            if at % every == 0:
                given += self.replies[at - 1]
                if len(given) >= agree and len(set(given[-agree:])) == 1:
                    return given[-1], at, len(given)
        return self.answer, len(self.replies), len(given)


def growing_path(random: Random, every: int) -> GrowingPath:
    """Of a length around a multiple of `every`."""
    length = max(1, every * random.randint(1, 6) + random.randint(-1, 1))
    sizes = [random.choice([1, 2, every, 40]) for _ in range(random.randint(1, 3))]
    return GrowingPath(random.choice("abc"), "".join(random.choices("aab", k=length)), sizes)


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[GrowingPath], ProbeRule]:
    rule, random = ProbeRule(draw(st.integers(1, 9)), draw(st.integers(1, 4))), Random(draw(st.integers(0, 2**32 - 1)))
    return [growing_path(random, rule.every) for _ in range(draw(st.integers(1, 6)))], rule


@examples(400)
@given(questions(), st.booleans(), st.booleans())
def test_where_a_path_is_probed(question: tuple[list[GrowingPath], ProbeRule], at_once: bool, with_end: bool) -> None:
    """Replies may come at once or after everything else, and the last tokens with the end or before it."""
    (path, *_), rule = question
    run = Session(replace(STRATEGIES["sc+probe"], probe=rule), RunOptions(paths=1, window=4))
    run.begin()
    *chunks, last = path.chunks()
    events: list[Event] = [Tokens(0, chunk) for chunk in chunks]
    if with_end:
        events.append(Ended(0, Fate.KEPT, path.answer, tokens=last))
    else:
        events += [Tokens(0, last), Ended(0, Fate.KEPT, path.answer)]
    probes = list[Probe]()
    while events or probes:
        if probes and (at_once or not events):
            probe = probes.pop()
            actions = run.receive(Probed(0, ProbeReply(path.replies[probe.tokens - 1], COST)))
        else:
            actions = run.receive(events.pop(0))
        probes += [action for action in actions if isinstance(action, Probe)]
    out, (vote, tokens, asked) = run.outcome(), path.literal(rule.every, rule.agree)
    assert (out.votes, out.tokens.kept, out.tokens.probe) == ({vote: 1.0}, tokens, COST * asked)
    assert out.tokens.kept + out.tokens.overrun == len(path.replies)


def live(paths: list[GrowingPath], strategy: Strategy, parallel: int, end_token: bool) -> Outcome:
    """A run on these paths; the end token, if there is one, has no signals."""
    ends = [Chunk(unread=1, finish="stop")] if end_token else []

    def continuations(beginning: str, seed: int) -> Iterable[Step]:
        path = paths[NUMBER[seed]]
        return [letters(path.replies[len(beginning.removesuffix(BOX)) - 1] + "}")]

    engine = Fake(lambda seed: [*paths[NUMBER[seed]].chunks(), *ends], continuations)
    return go(engine, strategy, paths=len(paths), parallel=parallel, extract=lambda text: text.removeprefix(BOX)[0])


@examples(200)
@given(questions(), st.sampled_from(["sc", "ac", "sure", "ddc"]), st.sampled_from([1, 4]), st.booleans())
def test_a_live_run_is_its_replay(
    question: tuple[list[GrowingPath], ProbeRule], name: str, parallel: int, end_token: bool
) -> None:
    paths, rule = question
    strategy = replace(STRATEGIES[f"{name}+probe"], probe=rule)
    strategy = replace(strategy, warmup=1) if strategy.warmup else strategy
    end_token = end_token and strategy.reads_confidence  # tokens without signals cannot be told from an end token
    out = live(paths, strategy, parallel, end_token)
    recorded, options = [path.recorded(rule.every) for path in paths], RunOptions(window=4, parallel=parallel)
    again = replay(recorded, strategy, options, driver=fast_replay)
    assert again == replay(recorded, strategy, options, driver=lockstep)
    assert (out.answer, out.reason, out.votes) == (again.answer, again.reason, again.votes)
    assert out.ended_by_probe == again.ended_by_probe
    if parallel == 1 or name == "sc":  # else paths may run when the run ends
        assert out.tokens.probe == again.tokens.probe
    if not end_token:
        assert (out.tokens.init, out.tokens.kept) == (again.tokens.init, again.tokens.kept)
