"""Which messages of vLLM's engine reach its API server: outputs and statistics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sureenough.engines.watch.protocol import WatchRequest
from sureenough.vllm.scheduler import STATISTICS_SECONDS, WholeReplies, needs_only_its_end


def params(**changes: Any) -> Any:
    """Of a watched path, or of a request that differs from it."""
    common: dict[str, Any] = {
        "stop": [], "logprobs": None, "prompt_logprobs": None, "kind": "FINAL_ONLY",
        "extra_args": WatchRequest("key-of-a-path", 64).to_arguments(),
    }  # fmt: skip
    given = common | changes
    return SimpleNamespace(**given, output_kind=SimpleNamespace(name=given["kind"]))


class Engine:
    """A scheduler that makes one token per request and step: the request's letter and the number of the token."""

    def __init__(self) -> None:
        self.requests: dict[str, Any] = {}
        self.cached = 0  # tokens found in the cache since the last statistics
        self.rows: dict[str, Any] = {"routed_experts": None}  # further fields of every output

    def add(self, name: str, **changes: Any) -> None:
        self.cached += 7
        self.requests[name] = SimpleNamespace(sampling_params=params(**changes), output_token_ids=[], resumable=False)

    def get_request_counts(self) -> tuple[int, int]:
        return len(self.requests), 0

    def make_stats(self, speculation: Any = None, *, transfers: Any = None) -> Any:
        cached, self.cached = self.cached, 0
        return SimpleNamespace(running=len(self.requests), cached=cached, of_the_step=(speculation, transfers))

    def update_from_output(
        self, ending: tuple[str, ...] = (), preempted: tuple[str, ...] = (), transfers: Any = None
    ) -> Any:
        outputs = []
        for name, request in list(self.requests.items()):
            request.output_token_ids.append(len(request.output_token_ids))
            outputs.append(
                SimpleNamespace(
                    request_id=name,
                    new_token_ids=[request.output_token_ids[-1]],
                    finish_reason="stop" if name in ending else None,
                    events=["preempted"] if name in preempted else None,
                    **self.rows,
                )
            )
            if name in ending:
                del self.requests[name]
        stats = self.make_stats(None, transfers=transfers)
        if not outputs and stats is None:
            return {}
        return {0: SimpleNamespace(outputs=outputs, scheduler_stats=stats, finished_requests=None)}

    def finish_requests(self, names: list[str]) -> None:
        for name in names:
            self.requests.pop(name)


class Scheduler(WholeReplies, Engine):
    def step(self, **events: Any) -> dict[str, list[int]]:
        messages = self.update_from_output(**events).values()
        return {output.request_id: output.new_token_ids for message in messages for output in message.outputs}


@pytest.fixture
def scheduler() -> Scheduler:
    """With one watched path."""
    scheduler = Scheduler()
    scheduler.add("watched")
    return scheduler


def test_an_ordinary_request_sends_every_token_and_a_watched_path_its_first_and_its_end(scheduler: Scheduler) -> None:
    scheduler.add("ordinary", extra_args=None)
    assert scheduler.step() == {"watched": [0], "ordinary": [0]}
    assert scheduler.step() == {"ordinary": [1]}
    assert scheduler.step() == {"ordinary": [2]}
    assert scheduler.step(ending=("watched", "ordinary")) == {"watched": [1, 2, 3], "ordinary": [3]}
    assert not scheduler._quiet


def test_a_path_that_ends_with_its_first_token_is_sent_once(scheduler: Scheduler) -> None:
    assert scheduler.step(ending=("watched",)) == {"watched": [0]}
    assert not scheduler._quiet


def test_what_a_preempted_path_made_is_sent_with_the_event_and_not_again(scheduler: Scheduler) -> None:
    scheduler.step()
    scheduler.step()
    assert scheduler.step(preempted=("watched",)) == {"watched": [1, 2]}
    assert scheduler.step() == {}
    assert scheduler.step(ending=("watched",)) == {"watched": [3, 4]}


def test_a_path_that_its_client_gave_up_is_forgotten(scheduler: Scheduler) -> None:
    scheduler.add("other")
    scheduler.step()
    scheduler.finish_requests(["watched"])
    assert list(scheduler._quiet) == ["other"]
    assert scheduler.step(ending=("other",)) == {"other": [1]}


@pytest.mark.parametrize("field", ["routed_experts", "new_sampling_mask", "resumable"])
def test_a_request_that_needs_all_its_outputs_sends_them(field: str) -> None:
    """Rows of another kind would be missing from the reply. With the next piece of an input that is streamed, vLLM
    clears the tokens before it sends the last output of the piece before."""
    scheduler = Scheduler()
    scheduler.add("path")
    if field == "resumable":
        scheduler.requests["path"].resumable = True
    else:
        scheduler.rows[field] = np.ones((1, 2))
    assert [scheduler.step() for _ in range(3)] == [{"path": [0]}, {"path": [1]}, {"path": [2]}]


@pytest.mark.parametrize(
    "changes",
    [{"kind": "DELTA"}, {"logprobs": 1}, {"stop": ["###"]}, {"prompt_logprobs": 1}, {"extra_args": None}],
    ids=str,
)
def test_only_a_watched_path_whose_reply_is_whole_needs_only_its_end(changes: dict[str, Any]) -> None:
    assert needs_only_its_end(params())
    assert not needs_only_its_end(params(**changes))
    assert not needs_only_its_end(None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time of the scheduler."""
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("sureenough.vllm.scheduler.time", clock)
    return clock


def statistics(scheduler: Scheduler, **events: Any) -> Any:
    """What a step reports; None if it sends no statistics."""
    message = scheduler.update_from_output(**events).get(0)
    return None if message is None else message.scheduler_stats


def test_a_step_of_watched_paths_alone_sends_no_message_until_statistics_are_due(
    scheduler: Scheduler, clock: SimpleNamespace
) -> None:
    assert scheduler.update_from_output()[0].scheduler_stats.running == 1
    assert [scheduler.update_from_output() for _ in range(3)] == [{}] * 3
    clock.now += STATISTICS_SECONDS
    assert scheduler.update_from_output()[0].scheduler_stats.running == 1
    assert scheduler.update_from_output() == {}


def test_statistics_report_every_change_of_the_number_of_requests(
    clock: SimpleNamespace,
) -> None:
    scheduler = Scheduler()
    scheduler.add("first")
    assert statistics(scheduler).running == 1
    scheduler.add("second")
    assert statistics(scheduler).running == 2
    assert statistics(scheduler) is None
    assert statistics(scheduler, ending=("first",)).running == 1
    assert statistics(scheduler, ending=("second",)).running == 0
    scheduler.add("third")
    assert statistics(scheduler, ending=("third",)).running == 0  # no step may follow, so this one cannot wait


def test_counts_in_statistics_add_up_to_all_of_them(clock: SimpleNamespace) -> None:
    scheduler, cached = Scheduler(), 0
    for number in range(40):
        scheduler.add(f"path-{number}")
        clock.now += 0.02
        ending = (f"path-{number - 3}",) if number > 2 else ()
        cached += getattr(statistics(scheduler, ending=ending), "cached", 0)
    cached += statistics(scheduler, ending=tuple(scheduler.requests)).cached
    assert cached == 40 * 7


def test_what_belongs_to_one_step_is_sent_with_it(scheduler: Scheduler, clock: SimpleNamespace) -> None:
    assert statistics(scheduler).of_the_step == (None, None)
    assert statistics(scheduler) is None
    assert statistics(scheduler, transfers="moved").of_the_step == (None, "moved")


def test_those_who_ask_for_statistics_get_them(scheduler: Scheduler, clock: SimpleNamespace) -> None:
    """For the details of an iteration vLLM's engine asks, and would send zeros if it got none."""
    assert [scheduler.make_stats().running for _ in range(2)] == [1, 1]


def test_a_message_that_says_which_requests_finished_is_sent(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several engines, an API server counts the requests of each by it."""
    message = SimpleNamespace(outputs=[], scheduler_stats=None, finished_requests={"aborted"})
    monkeypatch.setattr(Engine, "update_from_output", lambda *_: {1: message})
    assert scheduler.update_from_output() == {1: message}
