"""Which server gets the next path, by counts and a clock of the test's own."""

from __future__ import annotations

import heapq
from collections import Counter

import pytest

from sureenough.engines.server_loads import FAILURES, MOST_PROMPTS, MOST_WEIGHT, SKIP_SECONDS, ServerLoads


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def two(clock: Clock | None = None) -> ServerLoads:
    return ServerLoads(["a", "b"], clock or Clock())


def begin(loads: ServerLoads, prompt: int = 0) -> int:
    index = loads.choose(prompt)
    loads.begin(index, prompt)
    return index


def simulate(capacities: list[float], paths: int, parallel: int, tokens: int = 100) -> Counter[int]:
    """Paths of equal length on servers that divide so many tokens/s among their paths, at most ten per path."""
    clock = Clock()
    loads = ServerLoads([f"{number}" for number in range(len(capacities))], clock)
    ends: list[tuple[float, int, int, float]] = []
    started: Counter[int] = Counter()
    for number in range(paths):
        if len(ends) == parallel:
            clock.now, _, server, began = heapq.heappop(ends)
            loads.end(server, tokens, clock.now - began)
        server = begin(loads)
        started[server] += 1
        speed = min(10.0, capacities[server] / loads.running[server])
        heapq.heappush(ends, (clock.now + tokens / speed, number, server, clock.now))
    return started


def test_equal_servers_get_equal_shares() -> None:
    started = simulate([100.0, 100.0, 100.0], 3000, 48)
    assert max(started.values()) - min(started.values()) < 150


def test_a_server_gets_paths_in_proportion_to_its_speed() -> None:
    started = simulate([300.0, 100.0], 4000, 64)
    assert 2.6 < started[0] / started[1] < 3.4


def test_weights_are_bounded() -> None:
    loads = two()
    for _ in range(2000):
        for server, seconds in ((0, 0.001), (1, 10.0)):
            loads.begin(server, 0)
            loads.end(server, 100, seconds)
    assert [one.weight for one in loads.counts()] == [MOST_WEIGHT, 1 / MOST_WEIGHT]


def test_paths_of_a_question_prefer_a_server_that_has_read_it() -> None:
    loads = two()
    first = begin(loads, prompt=1)
    assert begin(loads, prompt=2) != first, "an idle server is used first"
    assert begin(loads, prompt=1) == first
    loads.begin(first, 3)
    loads.begin(first, 4)
    assert begin(loads, prompt=1) != first, "not if it is much busier"
    assert sum(one.cached for one in loads.counts()) == 1


def test_many_questions_stay_together_and_no_server_idles() -> None:
    """32 questions in flight on four servers: most of their paths find the prompt read, and loads stay close."""
    loads = ServerLoads("abcd", Clock())
    running: list[tuple[int, int]] = []
    for number in range(2000):
        prompt = number // 64 * 4 + number % 4
        running.append((begin(loads, prompt), prompt))
        if len(running) > 64:
            loads.end(running.pop(0)[0], 4, 1.0)
            assert max(loads.running) - min(loads.running) <= 8
    counts = loads.counts()
    assert sum(one.cached for one in counts) > 0.9 * sum(one.started for one in counts)


def test_a_server_that_fails_is_skipped_for_a_while() -> None:
    clock = Clock()
    loads = two(clock)
    loads.begin(0, 7)
    loads.end(0, 3, 1.0, failed=True)
    loads.skip(0)
    assert [begin(loads, 7) for _ in range(3)] == [1, 1, 1]
    clock.now = SKIP_SECONDS
    assert begin(loads, 7) == 0
    first = loads.counts()[0]
    assert (first.failed, first.tokens, first.cached) == (1, 3, 0), "what it had read is forgotten"


def test_if_all_fail_the_least_loaded_is_tried() -> None:
    loads = two()
    loads.skip(0)
    loads.skip(1)
    assert [begin(loads), begin(loads)] == [0, 1]
    assert loads.choose(0, tried={0}) == 1


@pytest.mark.parametrize(("checks", "available"), [("x", True), ("xx", False), ("xox", True), ("xxo", True)])
def test_checks(checks: str, available: bool) -> None:
    """A busy server may miss one check; after two it gets no path until it responds."""
    loads = two()
    for check in checks:
        loads.add_check(0, check == "o")
    assert loads.is_available(0) == available


def test_a_server_that_is_back_is_used_at_once_but_not_one_that_only_passes_checks() -> None:
    loads = two()
    loads.skip(0)
    loads.add_check(0, True)
    assert not loads.is_available(0), "it responds to checks, and fails paths"
    loads.add_check(0, False)
    loads.add_check(0, True)
    assert loads.is_available(0)


def test_prompts_are_forgotten_in_time() -> None:
    loads = two()
    for prompt in range(2 * MOST_PROMPTS):
        loads.begin(0, prompt)
    assert len(loads._readers) == MOST_PROMPTS


def test_a_line_for_people() -> None:
    loads = two()
    loads.begin(0, 0)
    loads.end(0, 1200, 10.0)
    assert str(loads.counts()[0]) == (
        "a: 1 paths (0 failed, 0 with a prompt it had read), 1,200 tokens, 120 tokens/s per path, weight 1.00"
    )


def test_a_server_whose_paths_break_off_is_skipped_and_tried_again_with_one_path() -> None:
    clock = Clock()
    loads = two(clock)
    for _ in range(FAILURES):
        assert loads.is_available(0)
        loads.begin(0, 0)
        loads.add_failure(0, gone=False)
        loads.end(0, 1, 0.1, failed=True)
    assert (loads.is_available(0), loads.choose(0)) == (False, 1)
    clock.now += SKIP_SECONDS
    assert loads.is_available(0)
    loads.add_failure(0, gone=False)
    assert not loads.is_available(0), "one more failure is enough until a path has ended"


def test_a_server_is_not_skipped_for_single_failures_between_paths_that_end() -> None:
    loads = two()
    for _ in range(10):
        loads.add_failure(0, gone=False)
        loads.begin(0, 0)
        loads.end(0, 9, 1.0)
    assert loads.is_available(0)
