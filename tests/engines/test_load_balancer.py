"""Several engines as one: the least loaded gets the next path, a dead one none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

import pytest

from sureenough.core.events import Token
from sureenough.drivers.record import RecordQuestion, record
from sureenough.engines import Fake, Prompt
from sureenough.engines.base import opened
from sureenough.engines.fake import Step
from sureenough.engines.load_balancer import LoadBalancer
from sureenough.engines.openai.client import OpenAI
from sureenough.errors import EngineError, EngineUnavailable, UsageError
from sureenough.pools.path import RecordedPath
from tests.engines.misbehaving import Manner, serving

PROMPT = Prompt.user("?")


def answering(pause: float = 0.0) -> Fake:
    def script(seed: int) -> Iterable[Step]:
        yield [Token("a", 0.5, 10.0)]
        yield pause
        yield [Token(r"\boxed{7}", 0.5, 10.0)]

    return Fake(script)


def dead(seed: int) -> Iterable[Step]:
    yield EngineUnavailable("nobody there")


class Memory:
    """A journal that forgets everything but how much there was."""

    def __init__(self) -> None:
        self.paths: dict[tuple[str, int], RecordedPath] = {}

    def add(self, question: str, path: RecordedPath) -> None:
        assert path.number is not None
        self.paths[question, path.number] = path


def sample(engine: LoadBalancer, paths: int, parallel: int) -> Memory:
    kept = Memory()
    asked = [RecordQuestion("q", PROMPT)]
    work = record(asked, engine, kept, paths=paths, parallel=parallel, seed=0)  # type: ignore[arg-type]
    asyncio.run(asyncio.wait_for(work, 30))
    return kept


def test_a_path_goes_where_the_fewest_run() -> None:
    quick, slow = answering(), answering(0.05)
    assert len(sample(LoadBalancer([quick, slow]), 40, 4).paths) == 40
    assert quick.started + slow.started == 40
    assert quick.started > 3 * slow.started > 0


def test_equal_engines_share_equally() -> None:
    engines = [answering(0.01) for _ in range(3)]
    balancer = LoadBalancer(engines)
    sample(balancer, 30, 6)
    assert Counter(one.most for one in engines) == {2: 3}
    assert balancer.running == [0, 0, 0]


def test_a_dead_engine_is_passed_over_and_no_path_is_lost() -> None:
    gone, well = Fake(dead), answering()
    assert len(sample(LoadBalancer([gone, well]), 20, 4).paths) == 20
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
        async with opened(LoadBalancer([breaking, well]), 1) as ready:
            async for _ in ready.stream(PROMPT, seed=1):
                pass

    with pytest.raises(EngineError, match="in the middle"):
        asyncio.run(use())
    assert well.started == 0


def test_real_servers_one_of_them_gone() -> None:
    async def use() -> int:
        kept = Memory()
        async with serving(Manner(tokens=5)) as one, serving(Manner(tokens=5)) as other:
            engines = [OpenAI(url, "tiny", retries=0) for url in (one.url, other.url, "http://127.0.0.1:9/v1")]
            asked = [RecordQuestion("q", PROMPT)]
            await record(asked, LoadBalancer(engines), kept, paths=24, parallel=6, seed=0)  # type: ignore[arg-type]
            assert min(len(one.requests), len(other.requests)) >= 8
        return len(kept.paths)

    assert asyncio.run(asyncio.wait_for(use(), 30)) == 24
