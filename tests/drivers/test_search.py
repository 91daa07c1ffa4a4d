"""Searches in live runs: what is sent, what is voted on, and what becomes of searches that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from threading import get_ident
from typing import Any

import pytest

from sureenough.api import replay
from sureenough.core.events import Action, Adopt, Extend, Token
from sureenough.core.outcome import BUCKETS, Outcome, Snapshot
from sureenough.core.search import Mur, Phi, Predictive, SearchMethod
from sureenough.drivers.observers import ObservedEvent, WinnerTranscript
from sureenough.drivers.run_log import RunLogWriter
from sureenough.drivers.search import Branch
from sureenough.engines import Engine, Fake, Prompt
from sureenough.engines.base import End, ExtendOptions, Piece, Report, SharedEngine
from sureenough.engines.fake import Step
from sureenough.engines.load_balancer import LoadBalancer
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, UsageError
from sureenough.pools import RecordedPath
from sureenough.spec import resolve
from tests.drivers.test_live import LONG, go

SPEC = "predictive+sc:rollouts=3,runs=2"
LIMITED: dict[str, SearchMethod] = {
    "phi": Phi(runs=2, beams=2, rollouts=1, cluster=lambda texts, most, seed: [0] * len(texts)),
    "mur": Mur(runs=2),
    "predictive": Predictive(runs=2, rollouts=2),
}


def letters(text: str, peak: float = 0.5) -> list[Token]:
    return [Token(letter, peak, 10.0) for letter in text]


def words(beginning: str, seed: int) -> Iterable[Step]:
    """Two lines, of which a beginning may have the first, and an answer; one rollout in three is likelier."""
    peak = 0.9 if seed % 3 == 0 else 0.5
    lines = ("first\n", rf"\boxed{{{seed % 3}}}")
    return [letters(text, peak) for text in lines[beginning.count("\n") :]]


def searching(continuations: Callable[[str, int], Iterable[Step]] = words) -> Fake:
    return Fake(lambda seed: [], continuations)


def adds_up(out: Outcome) -> bool:
    return out.tokens.total == sum(int(getattr(out.tokens, name)) for name in BUCKETS)


@pytest.mark.parametrize("parallel", [1, 2, 16])
def test_a_search_is_one_path_of_the_vote(parallel: int) -> None:
    engine = searching()
    out = go(engine, SPEC, parallel=parallel, paths=64)
    assert (out.reason, out.started, out.options.paths, out.abstained) == ("budget", 2, 2, 0)
    assert sum(out.votes.values()) == 2
    assert out.tokens.kept == 2 * len("first\n\\boxed{0}")
    assert out.tokens.search == 2 * 3 * (len("first\n\\boxed{0}") + len(r"\boxed{0}")) - out.tokens.kept
    assert adds_up(out)
    assert (engine.started, engine.running) == (0, 0)
    assert sorted(engine.beginnings) == [""] * 6 + ["first\n"] * 6
    assert go(searching(), SPEC, parallel=1).votes == out.votes


@pytest.mark.parametrize(("spec", "confidence"), [("predictive+sc", False), ("predictive+sure", True)])
def test_engines_learn_whether_the_vote_reads_confidence(spec: str, confidence: bool) -> None:
    """Twenty candidates per token are most of what a server writes."""

    received = []

    class Recording(Fake):
        def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> Any:
            received.append(options.confidence)
            return super().extend(prompt, beginning, options, seed=seed)

    go(Recording(lambda seed: [], words), f"{spec}:rollouts=3,runs=2", parallel=4, paths=64)
    assert set(received) == {confidence}


def test_a_vote_that_is_settled_ends_the_other_searches() -> None:
    def slow_later(beginning: str, seed: int) -> Iterable[Step]:
        return [letters(r"\boxed{7}")] if seed in first else [letters("so"), LONG]

    strategy = "predictive+ac:rollouts=1,runs=8"
    recorded: list[Extend] = []

    def observe(event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        recorded.extend(action for action in actions if isinstance(action, Extend))

    go(searching(lambda *_: [letters(r"\boxed{7}")]), strategy, observers=[observe])
    first = {action.seed for action in recorded if action.path < 4}
    engine = searching(slow_later)
    out = go(engine, strategy, parallel=8)
    assert (out.answer, out.reason, out.votes, engine.running) == ("7", "settled", {"7": 4.0}, 0)
    assert out.tokens.search == 2 * (out.started - 4)
    assert adds_up(out)


def test_observers_see_branches_and_the_text_of_the_path() -> None:
    transcript, log = WinnerTranscript(), RunLogWriter({})
    actions: list[Action] = []
    out = go(searching(), SPEC, observers=[transcript, log, lambda event, more, snapshot: actions.extend(more)])
    assert out.answer is not None
    winner = transcript.of(out.answer)
    assert winner is not None
    assert (winner.text, winner.tokens) == (rf"first{chr(10)}\boxed{{{out.answer}}}", 15)
    assert "".join((log.text(winner.path) or {"texts": []})["texts"]) == winner.text
    assert [action.ends for action in actions if isinstance(action, Adopt) and action.path == 0] == [False, True]


def test_a_deadline_closes_all_branches_and_counts_what_they_took() -> None:
    engine = searching(lambda beginning, seed: [letters("ab"), LONG])
    out = go(engine, SPEC, deadline=0.2, parallel=16)
    assert (out.reason, out.answer, engine.running) == ("deadline", None, 0)
    assert (out.tokens.search, out.tokens.total) == (2 * 3 * 2, 2 * 3 * 2)


def test_the_cap_ends_the_run() -> None:
    engine = searching(lambda beginning, seed: [letters("abc\n"), 0.001, letters("d")])
    out = go(engine, SPEC, max_tokens=50, parallel=3)
    assert (out.reason, engine.running) == ("max_tokens", 0)
    assert 50 <= out.tokens.total <= 50 + 3
    assert adds_up(out)


@pytest.mark.parametrize("error", [EngineRejected("no such model"), ZeroDivisionError("no such model")])
def test_an_error_that_ends_the_run_closes_the_other_branches(error: Exception) -> None:
    errors = iter([error])

    def once(beginning: str, seed: int) -> Iterable[Step]:
        raised = next(errors, None)
        return [0.01, raised] if raised else [letters("x"), LONG]

    engine = searching(once)
    with pytest.raises(type(error), match="no such model"):
        go(engine, SPEC, parallel=6)
    assert engine.running == 0


def test_an_engine_that_fails_in_the_middle_of_a_search() -> None:
    failures = iter([EngineError("out of breath")])

    def sometimes(beginning: str, seed: int) -> Iterable[Step]:
        failure = next(failures, None) if beginning else None
        return [letters("ab"), failure] if failure else words(beginning, seed)

    engine = searching(sometimes)
    out = go(engine, "predictive+sc:rollouts=3,runs=3", parallel=3)
    assert (out.failed, out.started, sum(out.votes.values()), engine.running) == (1, 3, 2, 0)
    assert out.tokens.failed == len("first\n")
    assert out.tokens.search > 0
    assert adds_up(out)
    assert any("paths were lost to the engine; the latest: out of breath" in note for note in out.notes)


def test_the_error_of_an_engine_that_fails_in_all_searches_says_what_they_took() -> None:
    def after_the_first_line(beginning: str, seed: int) -> Iterable[Step]:
        return [letters("ab"), EngineError("out of breath")] if beginning else [letters("first\n")]

    with pytest.raises(EngineError, match="out of breath") as caught:
        go(searching(after_the_first_line), "mur+sc:runs=2", paths=2, parallel=1)
    assert caught.value.tokens == 2 * len("first\naab")  # a line, one token after it, the next


def test_an_engine_that_is_gone_ends_the_run() -> None:
    engine = searching(lambda beginning, seed: [EngineUnavailable("gone")])
    with pytest.raises(EngineUnavailable, match="gone"):
        go(engine, "predictive+sc:runs=64", paths=64)
    assert engine.running == 0
    assert len(engine.beginnings) <= 64


def test_empty_rollouts_end_a_path_without_an_answer() -> None:
    out = go(searching(lambda beginning, seed: []), SPEC)
    assert (out.answer, out.abstained, out.tokens.total, out.reason) == (None, 2, 0, "budget")


def test_a_line_feed_that_never_comes() -> None:
    """Every rollout is cut by its limit: what there is of the line is adopted, then the rest, up to its limit too."""
    spec = "predictive+sc:rollouts=2,runs=1,rollout_tokens=5,max_steps=2"
    out = go(searching(lambda beginning, seed: [letters("x" * 4000)]), spec)
    assert (out.answer, out.tokens.kept, out.tokens.search) == (None, 5 + 5 + 3000, 5 + 5)
    assert any("1 of 1 paths were cut at their limit of tokens" in note for note in out.notes)


class Limited(Fake):
    """Has a limit of tokens per path, and keeps how long its continuations and its paths may have become."""

    def __init__(self, text: str, most: int | None) -> None:
        super().__init__(lambda seed: [], lambda beginning, seed: [letters(text)])
        self.max_path_tokens = most
        self.limits: list[int] = []
        self.longest = 0

    def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> Any:
        self.limits.append(options.max_tokens)
        self.longest = max(self.longest, len(beginning) + options.max_tokens)
        return super().extend(prompt, beginning, options, seed=seed)


@pytest.mark.parametrize(("most", "expected"), [(None, [5, 3000]), (100, [5, 95]), (4, [4])])
@pytest.mark.parametrize("wrap", [lambda engine: engine, SharedEngine, lambda engine: LoadBalancer([engine])])
def test_the_engines_limit_holds_for_the_whole_path(
    most: int | None, expected: list[int], wrap: Callable[[Engine], Engine]
) -> None:
    engine = Limited("x" * 4000, most)
    out = go(wrap(engine), "predictive+sc:rollouts=1,runs=1,rollout_tokens=5,max_steps=1")
    assert engine.limits == expected
    assert out.tokens.kept == sum(expected)


@pytest.mark.parametrize("method", ["phi", "mur", "predictive"])
def test_no_path_is_longer_than_the_engines_limit(method: str) -> None:
    """A line of eight tokens, again and again: steps, foresights and the rest stay within what the path has left."""
    engine = Limited("abcdefg\n" * 500, 30)
    out = go(engine, replace(resolve(f"{method}+sc"), search=LIMITED[method]))
    assert out.tokens.kept == 2 * 30
    assert engine.longest <= 30 + 4, "line feeds between the steps of a search may have no token of their own"
    assert any("2 of 2 paths were cut at their limit of tokens" in note for note in out.notes)


def test_clusters_are_computed_off_the_event_loop() -> None:
    threads = set[int]()

    def cluster(texts: Sequence[str], most: int, seed: int) -> list[int]:
        threads.add(get_ident())
        return [0] * len(texts)

    strategy = replace(resolve("phi+sc"), search=Phi(runs=2, beams=2, rollouts=1, max_steps=1, cluster=cluster))
    out = go(searching(), strategy)
    assert out.answer is not None
    assert threads
    assert get_ident() not in threads

    def broken(texts: Sequence[str], most: int, seed: int) -> list[int]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go(searching(), replace(strategy, search=Phi(cluster=broken)))


def test_prompts_are_counted_apart_and_a_template_that_drops_the_beginning_is_noted() -> None:
    class Reporting(Fake):
        drops = False

        async def extend(self, prompt: Prompt, beginning: str, options: Any, *, seed: int) -> Any:
            async for chunk in super().extend(prompt, beginning, options, seed=seed):
                if isinstance(chunk, End):
                    chunk = replace(chunk, prompt_tokens=10 + len(beginning) * (not self.drops), cached_tokens=4)
                yield chunk

    engine = Reporting(lambda seed: [], words)
    out = go(engine, SPEC)
    assert (out.tokens.prompt, out.tokens.reread, out.tokens.cached) == (6 * 10, 6 * 16, 12 * 4)
    assert out.tokens.reread_cached == 6 * 4
    assert not any("chat template" in note for note in out.notes)
    engine.drops = True
    assert any("chat template" in note for note in go(engine, SPEC).notes)


def test_recorded_paths_are_refused() -> None:
    with pytest.raises(UsageError, match=r"predictive\+sc samples as it searches.*run it live"):
        replay([RecordedPath("1", [0.5], [10.0])], "predictive+sc")


def test_text_that_belongs_to_no_token_stays_in_its_place() -> None:
    branch = Branch()
    cost = [
        branch.add(Report(text="<")),
        branch.add(Piece([Token("a", 0.5, 9.0), Token("b", 0.5, 9.0)], [-1.0, -2.0])),
        branch.add(Report(text="!")),
        branch.add(End("length", unread=1, beyond=2)),
    ]
    reply = branch.continuation()
    assert (cost, reply.text, len(reply.tokens), reply.complete, reply.unread) == ([0, 2, 0, 3], "<ab!", 2, False, 1)
    assert reply.score == pytest.approx(-1.5)
