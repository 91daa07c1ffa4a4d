"""Several engines as one: the least loaded gets the next path, a dead one none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

import sureenough as se
from sureenough.answers.kinds import Math
from sureenough.core.events import Token
from sureenough.core.options import RunOptions
from sureenough.core.session import Session
from sureenough.drivers.live import run
from sureenough.drivers.record import RecordQuestion, record
from sureenough.engines import Fake, Prompt, load_balancer
from sureenough.engines.base import Engine, ExtendOptions, as_part
from sureenough.engines.fake import Step
from sureenough.engines.load_balancer import (
    FAILURES,
    MOST_PROMPTS,
    SKIP_SECONDS,
    Fate,
    LoadBalancer,
    ServerLoad,
    choose,
)
from sureenough.engines.openai.client import OpenAI
from sureenough.errors import EngineError, EngineUnavailable, UsageError
from sureenough.pools.path import RecordedPath
from sureenough.spec import parse
from tests.engines.misbehaving import Manner, Server, serving

PROMPT = Prompt.user("?")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that health is judged by; tests set it."""
    now = [0.0]
    monkeypatch.setattr(load_balancer, "monotonic", lambda: now[0])
    return now


def two() -> list[ServerLoad]:
    return [ServerLoad("a"), ServerLoad("b")]


def begin(loads: list[ServerLoad], prompt: int | None = None) -> int:
    index = choose(loads, prompt)
    loads[index].begin(prompt)
    return index


def fails(load: ServerLoad, fate: Fate = "gone") -> None:
    load.begin()
    load.end(fate)


def test_paths_of_a_question_prefer_a_server_that_has_read_it() -> None:
    loads = two()
    first = begin(loads, 1)
    assert begin(loads, 2) != first, "an idle server is used first"
    assert begin(loads, 1) == first
    loads[first].begin(3)
    loads[first].begin(4)
    assert begin(loads, 1) != first, "not if it is much busier"


def test_prompts_are_forgotten_in_time_and_by_a_server_that_has_died() -> None:
    load = ServerLoad("a")
    for prompt in range(2 * MOST_PROMPTS):
        load.begin(prompt)
    assert 0 < len(load.prompts) <= MOST_PROMPTS
    fails(load)
    assert not load.prompts


def test_a_server_that_is_gone_is_skipped_for_a_while(clock: list[float]) -> None:
    loads = two()
    fails(loads[0])
    assert [begin(loads) for _ in range(3)] == [1, 1, 1]
    clock[0] = SKIP_SECONDS
    assert begin(loads) == 0


def test_if_all_fail_the_least_loaded_is_tried(clock: list[float]) -> None:
    loads = two()
    for load in loads:
        fails(load)
    assert [begin(loads), begin(loads)] == [0, 1]
    assert choose(loads, tried={0}) == 1


def test_a_server_whose_paths_break_off_is_skipped_and_tried_again_with_one_path(clock: list[float]) -> None:
    loads = two()
    for _ in range(FAILURES):
        assert begin(loads) == 0
        loads[0].end("failed")
    assert choose(loads) == 1
    clock[0] += SKIP_SECONDS
    assert choose(loads) == 0
    fails(loads[0], "failed")
    assert choose(loads) == 1, "one more failure is enough until a path has ended"


def test_a_server_is_not_skipped_for_single_failures_between_paths_that_end() -> None:
    load = ServerLoad("a")
    for _ in range(10):
        fails(load, "failed")
        fails(load, "refused")
        fails(load, "finished")
    assert load.available


@pytest.mark.parametrize(("checks", "available"), [("x", True), ("xx", False), ("xox", True), ("xxo", True)])
def test_checks(checks: str, available: bool) -> None:
    """A busy server may miss one check; after two it gets no path until it responds."""
    load = ServerLoad("a")
    for check in checks:
        load.add_check(check == "o")
    assert load.available == available


def test_a_server_that_is_back_is_used_at_once_but_not_one_that_only_passes_checks() -> None:
    loads = two()
    fails(loads[0])
    loads[0].add_check(True)
    assert choose(loads) == 1, "it responds to checks, and fails paths"
    loads[0].add_check(False)
    loads[0].add_check(True)
    assert choose(loads) == 0


def test_a_line_for_people() -> None:
    load = ServerLoad("a", finished=1, tokens=1200)
    assert str(load) == "a: 1 paths (0 failed), 1,200 tokens"
    fails(load)
    assert str(load) == "a: 2 paths (1 failed), 1,200 tokens, does not respond"


def answering(pause: float = 0.0) -> Fake:
    def script(seed: int) -> Iterable[Step]:
        yield [Token("a", 0.5, 10.0)]
        yield pause
        yield [Token(r"\boxed{7}", 0.5, 10.0)]

    return Fake(script)


def dead(seed: int) -> Iterable[Step]:
    yield EngineUnavailable("nobody there")


class Memory(dict[tuple[str, int], RecordedPath]):
    """A journal that is not on disk."""

    def add(self, question: str, path: RecordedPath) -> None:
        assert path.number is not None
        self[question, path.number] = path


def sample(engine: LoadBalancer, paths: int, parallel: int) -> Memory:
    kept = Memory()
    asked = [RecordQuestion("q", PROMPT)]
    work = record(asked, engine, kept, paths=paths, parallel=parallel, seed=0)  # type: ignore[arg-type]
    asyncio.run(asyncio.wait_for(work, 30))
    return kept


def test_a_path_goes_where_the_fewest_run() -> None:
    quick, slow = answering(), answering(0.05)
    balancer = LoadBalancer([quick, slow])
    assert len(sample(balancer, 40, 4)) == 40
    assert quick.started + slow.started == 40
    assert quick.started > 3 * slow.started > 0
    assert [load.running for load in balancer.loads] == [0, 0]


def test_a_dead_engine_is_passed_over_and_no_path_is_lost() -> None:
    gone, well = Fake(dead), answering()
    assert len(sample(LoadBalancer([gone, well]), 20, 4)) == 20
    assert gone.started <= 4  # once by each that was under way, then it rests
    assert well.started == 20


def test_if_all_engines_are_dead_the_error_is_theirs() -> None:
    with pytest.raises(EngineUnavailable, match="nobody there"):
        sample(LoadBalancer([Fake(dead), Fake(dead)]), 4, 2)
    with pytest.raises(UsageError):
        LoadBalancer([])


def test_a_path_that_has_begun_is_not_moved() -> None:
    def script(seed: int) -> Iterable[Step]:
        yield [Token("a", 0.5, 10.0)]
        yield EngineUnavailable("gone in the middle")

    breaking, well = Fake(script), answering()

    async def use() -> None:
        async with LoadBalancer([breaking, well]).open(parallel=1) as ready:
            async for _ in ready.stream(PROMPT, seed=1):
                pass

    with pytest.raises(EngineError, match="in the middle"):
        asyncio.run(use())
    assert well.started == 0


BAD = {
    "302": Manner(status=302, headers={"Location": "http://elsewhere/v1"}),
    **{str(status): Manner(status=status) for status in (400, 401, 404)},
    "HTML": Manner(kind="text/html"),
    "an error event": Manner(error_after=0),
    "an error event of a client": Manner(error_after=0, error_code=400),
    "garbage": Manner(garbage_after=0),
    "no log-probabilities": Manner(logprobs=False),
    "too few candidates": Manner(more_candidates=-19, tokens=200),
}


def asked_of(*manners: Manner) -> tuple[se.Outcome | EngineError, list[ServerLoad], list[int]]:
    """A vote over servers with these manners, their loads, and their requests."""

    async def use() -> tuple[se.Outcome | EngineError, list[ServerLoad], list[int]]:
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(serving(manner)) for manner in manners]
            balancer = LoadBalancer([OpenAI(one.url, "tiny", retries=1) for one in servers])
            try:
                out: se.Outcome | EngineError = await se.aask(
                    "?", balancer, "ddc:warmup=12", paths=24, parallel=4, window=4
                )
            except EngineError as error:
                out = error
            return out, list(balancer.loads), [len(one.requests) for one in servers]

    return asyncio.run(asyncio.wait_for(use(), 30))


@pytest.mark.parametrize("bad", BAD)
def test_a_server_that_refuses_what_another_accepts_is_skipped(bad: str) -> None:
    out, loads, requests = asked_of(BAD[bad], Manner(tokens=9, answer="7", delay=0.001))
    assert isinstance(out, se.Outcome), out
    assert out.answer == "7"
    assert [load.available for load in loads] == [False, True]
    assert requests[0] <= 8


@pytest.mark.parametrize(
    ("bad", "says"),
    [("401", "401"), ("HTML", "text/html"), ("no log-probabilities", "logprobs"), ("too few candidates", "only 1")],
)
def test_if_all_servers_refuse_a_path_the_run_ends_with_the_reason(bad: str, says: str) -> None:
    out, _, requests = asked_of(BAD[bad], BAD[bad])
    assert isinstance(out, EngineError)
    assert says in str(out)
    assert sum(requests) <= 16


def test_a_request_that_all_servers_refuse_does_not_count_against_them() -> None:
    _, loads, _ = asked_of(BAD["400"], BAD["400"])
    assert all(load.available for load in loads)


def test_a_server_that_wants_a_pause_does_not_hold_up_the_paths_that_another_can_take() -> None:
    async def use() -> None:
        busy = Manner(status=429, headers={"Retry-After": "60"})
        async with serving(busy) as one, serving(Manner(tokens=9, answer="7")) as other:
            balancer = LoadBalancer([OpenAI(url, "tiny") for url in (one.url, other.url)])
            session = Session(parse("sc"), RunOptions(paths=8, window=4, parallel=4))
            outcome = await run(PROMPT, balancer, session, judge=Math())
            assert (outcome.votes, outcome.failed) == ({"7": 8.0}, 0)
            assert len(one.requests) == balancer.loads[0].started <= 4
            assert len(other.requests) == 8

    asyncio.run(asyncio.wait_for(use(), 30))


def test_if_all_servers_want_a_pause_one_of_them_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    def manner(seed: int, number: int) -> Manner:
        return Manner(status=429, headers={"Retry-After": "3"}) if number < 2 else Manner(tokens=9, answer="7")

    async def use() -> None:
        async with serving(manner) as one, serving(manner) as other:
            async with LoadBalancer([OpenAI(url, "tiny") for url in (one.url, other.url)]).open(parallel=1) as ready:
                monkeypatch.setattr("sureenough.engines.openai.client.asyncio.sleep", pause)
                texts = [as_part(chunk).text async for chunk in ready.stream(PROMPT, seed=1)]
                monkeypatch.undo()
            assert "boxed" in "".join(texts)
            assert sorted([len(one.requests), len(other.requests)]) == [1, 3]

    asyncio.run(asyncio.wait_for(use(), 30))
    assert any(3.0 <= seconds <= 3.3 for seconds in pauses)


async def continued(engine: Engine, seed: int) -> str:
    chunks = engine.extend(PROMPT, "", ExtendOptions(max_tokens=50), seed=seed)
    return "".join([as_part(chunk).text async for chunk in chunks])


def test_continuations_are_shared_and_counted_and_pass_over_a_server_that_is_gone() -> None:
    async def use() -> None:
        async with serving(Manner(tokens=9)) as one, serving(Manner(tokens=9)) as other:
            urls = ("http://127.0.0.1:9/v1", one.url, other.url)
            balancer = LoadBalancer([OpenAI(url, "tiny", retries=0) for url in urls])
            async with balancer.open(parallel=12) as ready:
                texts = await asyncio.gather(*(continued(ready, seed) for seed in range(12)))
                assert all("boxed" in text for text in texts)
                assert min(len(one.requests), len(other.requests)) >= 4
                dead, *alive = balancer.loads
                assert (dead.failed, dead.finished, dead.available) == (4, 0, False)
                assert [count.started for count in alive] == [len(one.requests), len(other.requests)]
                assert sum(count.finished for count in alive) == 12
                assert sum(count.tokens for count in alive) == 12 * 12
                assert [load.running for load in balancer.loads] == [0, 0, 0]

    asyncio.run(asyncio.wait_for(use(), 30))


async def becomes(load: ServerLoad, available: bool) -> None:
    while load.available != available:
        await asyncio.sleep(0.001)


def test_a_check_that_raises_counts_as_no_response_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_balancer, "CHECK_SECONDS", 0.001)

    class Raising(Fake):
        async def responds(self) -> bool:
            raise RuntimeError("a check of another package")

    async def use() -> None:
        well = answering()
        balancer = LoadBalancer([Raising(dead), well])
        async with balancer.open(parallel=1) as ready:
            await becomes(balancer.loads[0], False)
            assert [chunk async for chunk in ready.stream(PROMPT, seed=1)]
        assert well.started == 1

    asyncio.run(asyncio.wait_for(use(), 30))


@asynccontextmanager
async def restartable(server: Server, port: int = 0) -> AsyncIterator[None]:
    """The server on a port of its own choice, or on this one again; leaving it kills every connection."""
    connections: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await server.talk(reader, writer)

    listening = await asyncio.start_server(talk, "127.0.0.1", port)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield
    finally:
        listening.close()
        for writer in connections:
            writer.transport.abort()


def test_a_server_that_dies_loses_its_running_paths_only_and_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_balancer, "CHECK_SECONDS", 0.01)

    async def use() -> None:
        mortal, other = Server(lambda seed, nth: Manner(tokens=30)), Server(lambda seed, nth: Manner(tokens=30))
        async with AsyncExitStack() as lives, restartable(other):
            await lives.enter_async_context(restartable(mortal))
            port = int(mortal.url.split(":")[2].removesuffix("/v1"))
            balancer = LoadBalancer([OpenAI(one.url, "tiny", retries=0) for one in (mortal, other)])
            async with balancer.open(parallel=8) as ready:
                kept = Memory()

                async def recorded(first: int) -> None:
                    questions = [RecordQuestion(f"q{first}", PROMPT)]
                    await record(questions, ready, kept, paths=24, parallel=8, seed=first)  # type: ignore[arg-type]

                before = asyncio.create_task(recorded(0))
                while mortal.running < 2:
                    await asyncio.sleep(0.001)
                await lives.aclose()  # killed with paths running
                await before
                assert len(kept) == 24, "the paths that it lost were sampled again"
                lost = balancer.loads[0].failed
                assert lost >= 2
                await becomes(balancer.loads[0], False)
                asked = len(mortal.requests)
                await recorded(1)
                assert (len(kept), len(mortal.requests)) == (48, asked), "the dead get no path"
                await lives.enter_async_context(restartable(mortal, port))
                await becomes(balancer.loads[0], True)
                await recorded(2)
                assert len(kept) == 72
                assert len(mortal.requests) > asked, "it is used again"

    asyncio.run(asyncio.wait_for(use(), 60))
