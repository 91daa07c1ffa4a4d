"""Probes in live runs: what is sent, which paths they end, and what becomes of probes that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import cycle
from typing import Any

import pytest

from sureenough.answers import extract
from sureenough.answers.kinds import resolve_kind
from sureenough.api import replay
from sureenough.core.events import Token
from sureenough.core.outcome import Outcome
from sureenough.core.probing import ProbeReply
from sureenough.drivers.probes import BOX, END_OF_THINKING, LINE, GrowingText, ProbeRequest
from sureenough.engines import Chunk, Engine, Fake, Prompt
from sureenough.engines.fake import Step
from sureenough.errors import CannotExtend, EngineError, EngineUnavailable
from sureenough.pools import RecordedPath, RecordedProbe
from tests.drivers.test_live import LONG, NUMBER, go

SPEC = "ac+probe:every=8,agree=2"


def letters(text: str) -> list[Token]:
    return [Token(letter, 0.5, 10.0) for letter in text]


def thinking(n: int, length: int = 40) -> str:
    """Path n: thought of this length, one letter per token, then its answer."""
    return "abcdefghij"[n % 10] * length + r"\boxed{7}"


class Thinker(Fake):
    """Paths of letters, which answer 7 to probes after 16 letters, and 5 before."""

    def __init__(self, *, chunk: int = 1, probe: Iterable[Step] | None = None, **more: Any) -> None:
        def script(seed: int) -> Iterable[Step]:
            text = thinking(NUMBER[seed], **more)
            return [letters(text[at : at + chunk]) for at in range(0, len(text), chunk)]

        def continuations(beginning: str, seed: int) -> Iterable[Step]:
            if probe is not None:
                return probe
            late = len(beginning.removesuffix(BOX)) >= 16
            return [letters("7}." if late else "5}.")]

        super().__init__(script, continuations)


@pytest.mark.parametrize(("parallel", "chunk"), [(1, 1), (1, 5), (4, 1), (4, 64)])
def test_paths_end_when_their_probes_agree(parallel: int, chunk: int) -> None:
    engine = Thinker(chunk=chunk)
    out = go(engine, SPEC, parallel=parallel)
    assert (out.answer, out.reason, out.votes) == ("7", "settled", {"7": 4.0})
    assert out.ended_by_probe == 4
    assert out.tokens.kept == 4 * 24  # 5 after 8 letters, 7 after 16 and 24
    assert out.tokens.probe >= 4 * 3 * 3
    assert engine.running == 0
    assert engine.beginnings[0] == "a" * 8 + BOX
    assert out.tokens.total == sum(getattr(out.tokens, name) for name in ("kept", "discarded", "overrun", "probe"))


@pytest.mark.parametrize("strategy", ["ac", "sure", "ddc"])
@pytest.mark.parametrize(("parallel", "chunk"), [(1, 1), (4, 5), (1, 99)])
@pytest.mark.parametrize("length", [14, 15, 16, 40])  # with the answer, 24 tokens or one less or more, and many
def test_a_live_run_gives_the_answer_of_a_replay(strategy: str, parallel: int, chunk: int, length: int) -> None:
    spec = f"{strategy}+probe:every=8,agree=2" + (",warmup=3" if strategy == "ddc" else "")
    paths = []
    for n in range(8):
        tokens = len(thinking(n, length))
        probes = tuple(RecordedProbe(at, ProbeReply("7" if at >= 16 else "5", 3)) for at in range(8, tokens, 8))
        paths.append(RecordedPath("7", [0.5] * tokens, [10.0] * tokens, probes=probes))
    again = replay(paths, spec, window=4)
    live = go(Thinker(chunk=chunk, length=length), spec, parallel=parallel)
    assert (live.answer, live.reason, live.votes) == (again.answer, again.reason, again.votes)
    assert (live.ended_by_probe, live.tokens.kept, live.tokens.init) == (
        again.ended_by_probe,
        again.tokens.kept,
        again.tokens.init,
    )
    if parallel == 1:
        assert live.tokens.probe == again.tokens.probe


def test_probes_that_give_nothing_cost_tokens_and_no_votes() -> None:
    for steps in ([], [letters("}")], [letters("1" * 99)]):  # nothing, an empty box, a box that is never closed
        out = go(Thinker(probe=steps), SPEC, paths=4)
        assert (out.answer, out.votes, out.ended_by_probe) == ("7", {"7": 4.0}, 0)
        assert out.tokens.kept == 4 * 49
        assert out.tokens.probe == 4 * 6 * min(24, sum(map(len, steps)))


def test_an_engine_that_fails_in_the_middle_of_a_probe() -> None:
    """Its path goes on; after three failures in a row no more probes are sent, since paths wait for each of them."""
    out = go(Thinker(probe=[letters("7"), EngineError("out of breath")]), SPEC, paths=4, parallel=1)
    assert (out.votes, out.failed, out.ended_by_probe) == ({"7": 4.0}, 0, 0)
    assert out.tokens.probe == 3
    (note,) = out.notes
    assert "their paths went on; after 3 of one path in a row, no more were sent; the latest: out of breath" in note


def test_a_burst_of_failures_does_not_end_all_probes() -> None:
    """Eight paths at once, whose first probes all fail."""
    engine = Thinker()
    usual, failures = engine.continuations, iter([EngineError("restarting")] * 8)
    assert usual is not None
    engine.continuations = lambda beginning, seed: (
        [failure] if (failure := next(failures, None)) else usual(beginning, seed)
    )
    assert go(engine, SPEC, parallel=8, paths=8).ended_by_probe == 4


def test_a_run_goes_on_with_probes_after_one_that_failed() -> None:
    steps: list[list[Step]] = [[letters("7"), EngineError("out of breath")], [letters("5}.")]]
    replies = cycle(steps)

    class Moody(Thinker):
        def __init__(self) -> None:
            super().__init__()
            self.continuations = lambda beginning, seed: next(replies)

    out = go(Moody(), SPEC, paths=4, parallel=1)
    assert out.tokens.probe > 12
    assert [note for note in out.notes if "probes failed, and their paths went on; the latest: out of breath" in note]


def test_an_engine_without_the_ability_ends_the_run_by_name() -> None:
    engine = Fake(lambda seed: [letters(thinking(0))])
    with pytest.raises(CannotExtend, match="Fake cannot be extended"):
        go(engine, SPEC)
    assert engine.running == 0

    class Mine(Engine):
        stream = engine.stream

    with pytest.raises(CannotExtend, match="Mine cannot be extended"):
        go(Mine(), SPEC)


def test_any_other_error_of_a_probe_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        go(Thinker(probe=[ZeroDivisionError()]), SPEC)


def test_a_path_that_ended_waits_for_its_probe() -> None:
    """The probe is slow, and the path has ended; it is counted by the probe all the same, as in a slow path."""
    out = go(Thinker(chunk=64, probe=[0.02, letters("5}")]), SPEC, paths=4)
    assert (out.votes, out.ended_by_probe, out.tokens.kept) == ({"5": 4.0}, 4, 4 * 16)
    assert out.tokens.overrun == 4 * (49 - 16)


def test_a_deadline_closes_probes_and_counts_what_they_took() -> None:
    engine = Thinker(probe=[letters("7"), LONG])
    out = go(engine, SPEC, deadline=0.2)
    assert (out.reason, engine.running) == ("deadline", 0)
    assert out.tokens.probe == 4
    assert out.tokens.discarded + out.tokens.overrun == 4 * 49


def test_a_lost_path_while_its_probe_is_on_its_way() -> None:
    engine = Thinker(probe=[0.02, letters("7}")])
    engine.script = lambda seed: [letters("a" * 12), EngineUnavailable("gone")]
    out = go(engine, "ac+probe:every=8,agree=1", paths=4)
    assert (out.votes, out.ended_by_probe, out.failed) == ({"7": 4.0}, 4, 0)
    with pytest.raises(EngineUnavailable, match="gone"):
        go(engine, SPEC, paths=4)


def test_a_template_that_changes_the_beginning_is_noted() -> None:
    class Forgetful(Thinker):
        async def stream(self, prompt: Prompt, *, seed: int) -> Any:
            async for chunk in super().stream(prompt, seed=seed):
                yield chunk
            yield Chunk(prompt_tokens=10, cached_tokens=3)

        async def extend(self, prompt: Prompt, beginning: str, options: Any, *, seed: int) -> Any:
            async for chunk in super().extend(prompt, beginning, options, seed=seed):
                yield chunk
            yield Chunk(prompt_tokens=self.read, cached_tokens=5)

        read = 11

    def noted(out: Outcome) -> bool:
        return any("its chat template changes the beginning" in note for note in out.notes)

    engine = Forgetful(probe=[letters("1}")], length=4)
    out = go(engine, "ac+probe:every=8,agree=9", paths=4)
    assert noted(out)
    assert (out.tokens.reread, out.tokens.reread_cached, out.tokens.cached) == (4 * 11, 4 * 5, 4 * (5 + 3))
    engine.read = 10 + 8 + len(BOX)
    assert not noted(go(engine, "ac+probe:every=8,agree=9", paths=4))


def ask(text: str, steps: str, kind: str = "math", *, opened: bool = False) -> tuple[str, ProbeReply]:
    """The beginning that a probe sends, and what it makes of the continuation; the prompt may open the thinking."""
    engine = Fake(lambda seed: (), lambda beginning, seed: [letters(steps)])
    engine.opens_thinking = lambda prompt: opened  # type: ignore[method-assign]
    request = ProbeRequest(Prompt.user("?"), text, resolve_kind(kind))
    reply = asyncio.run(request.send(engine, limit=24, seed=1))
    return engine.beginnings[0], reply


@pytest.mark.parametrize(
    ("steps", "answer", "hedged"),
    [
        ("18}", "18", False),
        ("18}.\nWait", "18", False),  # a line feed ends the probe
        ("18}. Wait, no", "18", True),
        (r"\frac{1}{2}} but", r"\frac{1}{2}", True),
        ("18}. Butter", "18", False),
        (r"\frac{1}{2", None, False),
        ("}", None, False),
        ("", None, False),
    ],
)
def test_what_a_probe_reads(steps: str, answer: str | None, hedged: bool) -> None:
    reply = ask("so far", steps)[1]
    assert (reply.answer, reply.hedged) == (answer, hedged)
    assert reply.tokens == min(len(steps.partition("\n")[0]) + ("\n" in steps), 24)


@pytest.mark.parametrize(
    ("text", "opened", "closed"),
    [
        ("so", False, False),
        ("so", True, True),
        ("<think>\nso", False, True),
        ("<think>\nso</think>", False, False),
        ("<think>a</think> b <think>so", False, True),
        ("a</think> so", True, False),
        ("a</think> b <think>so", True, True),
    ],
)
def test_the_phrase_closes_the_thinking(text: str, opened: bool, closed: bool) -> None:
    beginning, reply = ask(text, "1}", opened=opened)
    assert (beginning, reply.answer) == (text + (END_OF_THINKING if closed else "") + BOX, "1")


def test_the_phrase_suits_the_kind() -> None:
    beginning, reply = ask("so", "12.5", "number")
    assert beginning == "so" + LINE
    assert reply.answer == "12.5"


def test_the_text_of_the_first_tokens() -> None:
    text = GrowingText()
    text.add(Chunk(letters("ab")))
    text.add(Chunk(letters("cd")))
    text.add(Chunk(unread=3, text="efg"))
    text.add(Chunk(letters("h"), text="<think>h"))
    assert [text.until(n) for n in (1, 3, 4, 5, 7, 8)] == ["a", "abc", "abcd", "abcdefg", "abcdefg", "abcdefg<think>h"]


def test_a_judge_that_fails_on_a_probe_is_noted() -> None:
    def broken(text: str) -> str | None:
        if text.startswith(BOX):
            raise RuntimeError("no idea")
        return extract(text)

    out = go(Thinker(), SPEC, paths=4, extract=broken)
    assert (out.votes, out.ended_by_probe) == ({"7": 4.0}, 0)
    assert any("no idea" in note for note in out.notes)
