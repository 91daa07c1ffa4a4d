"""Which outputs of vLLM's engine reach its API server: all of an ordinary request, first and last of a watched path.

The tokens of a request in groups reach it in groups, with their log-probabilities.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from sureenough.engines.vllm.protocol import GROUP_ARGUMENT, WatchRequest
from sureenough.engines.vllm.server.whole_replies import WholeReplies, needs_only_the_end, tokens_per_output


class Logprobs(NamedTuple):
    """As vLLM's: a row per token."""

    token_ids: np.ndarray
    logprobs: np.ndarray
    counts: list[int] | None = None


def params(**changes: Any) -> Any:
    watched = WatchRequest("key-of-a-path", 64).to_arguments()
    common: dict[str, Any] = {
        "stop": [],
        "logprobs": None,
        "prompt_logprobs": None,
        "extra_args": watched,
        "kind": "FINAL_ONLY",
    }
    given = common | changes
    return SimpleNamespace(**given, output_kind=SimpleNamespace(name=given["kind"]))


class Engine:
    """A scheduler that makes one token per request and step: the request's letter and the number of the token."""

    def __init__(self) -> None:
        self.requests: dict[str, Any] = {}

    def add(self, name: str, **changes: Any) -> None:
        self.requests[name] = SimpleNamespace(sampling_params=params(**changes), output_token_ids=[])

    def update_from_output(self, ending: tuple[str, ...] = (), preempted: tuple[str, ...] = ()) -> Any:
        outputs = []
        for name, request in list(self.requests.items()):
            request.output_token_ids.append(len(request.output_token_ids))
            outputs.append(
                SimpleNamespace(
                    request_id=name,
                    new_token_ids=[request.output_token_ids[-1]],
                    finish_reason="stop" if name in ending else None,
                    events=["preempted"] if name in preempted else None,
                    new_logprobs=self.logprobs(request),
                )
            )
            if name in ending:
                del self.requests[name]
        return {0: SimpleNamespace(outputs=outputs)}

    def logprobs(self, request: Any) -> Logprobs | None:
        if request.sampling_params.logprobs is None:
            return None
        token = request.output_token_ids[-1]
        return Logprobs(np.array([[token, 99]]), np.array([[-float(token), -50.0]]))

    def finish_requests(self, names: list[str]) -> None:
        for name in names:
            self.requests.pop(name)


class Scheduler(WholeReplies, Engine):
    def step(self, **events: Any) -> dict[str, list[int]]:
        outputs = self.update_from_output(**events)[0].outputs
        return {output.request_id: output.new_token_ids for output in outputs}


def test_an_ordinary_request_sends_every_token_and_a_watched_path_its_first_and_its_end() -> None:
    scheduler = Scheduler()
    scheduler.add("watched")
    scheduler.add("ordinary", extra_args=None)
    assert scheduler.step() == {"watched": [0], "ordinary": [0]}
    assert scheduler.step() == {"ordinary": [1]}
    assert scheduler.step() == {"ordinary": [2]}
    assert scheduler.step(ending=("watched", "ordinary")) == {"watched": [1, 2, 3], "ordinary": [3]}
    assert not scheduler._quiet


def test_a_path_that_ends_with_its_first_token_is_sent_once() -> None:
    scheduler = Scheduler()
    scheduler.add("watched")
    assert scheduler.step(ending=("watched",)) == {"watched": [0]}
    assert not scheduler._quiet


def test_what_a_preempted_path_made_is_sent_with_the_event_and_not_again() -> None:
    scheduler = Scheduler()
    scheduler.add("watched")
    scheduler.step()
    scheduler.step()
    assert scheduler.step(preempted=("watched",)) == {"watched": [1, 2]}
    assert scheduler.step() == {}
    assert scheduler.step(ending=("watched",)) == {"watched": [3, 4]}


def test_a_path_that_its_client_gave_up_is_forgotten() -> None:
    scheduler = Scheduler()
    scheduler.add("watched")
    scheduler.add("other")
    scheduler.step()
    scheduler.finish_requests(["watched"])
    assert list(scheduler._quiet) == ["other"]
    assert scheduler.step(ending=("other",)) == {"other": [1]}


def test_tokens_in_groups_come_with_all_their_log_probabilities() -> None:
    scheduler = Scheduler()
    scheduler.add("search", kind="DELTA", logprobs=1, extra_args={GROUP_ARGUMENT: 3})
    outputs = [scheduler.update_from_output(ending=("search",) if step == 5 else ())[0].outputs for step in range(6)]
    sent = [output for step in outputs for output in step]
    assert [output.new_token_ids for output in sent] == [[0], [1, 2, 3], [4, 5]]
    assert [output.new_logprobs.token_ids[:, 0].tolist() for output in sent] == [[0], [1, 2, 3], [4, 5]]
    assert [output.new_logprobs.logprobs[:, 0].tolist() for output in sent] == [[0.0], [-1.0, -2.0, -3.0], [-4.0, -5.0]]
    assert not scheduler._quiet


def test_tokens_in_groups_without_log_probabilities() -> None:
    scheduler = Scheduler()
    scheduler.add("search", kind="DELTA", extra_args={GROUP_ARGUMENT: 2})
    assert [scheduler.step() for _ in range(4)] == [{"search": [0]}, {}, {"search": [1, 2]}, {}]
    assert scheduler.step(preempted=("search",)) == {"search": [3, 4]}


@pytest.mark.parametrize("change", [{"stop": ["\n"]}, {"prompt_logprobs": 1}, {"extra_args": None}])
def test_tokens_that_must_be_seen_at_once_are_not_grouped(change: dict[str, Any]) -> None:
    grouped = {"kind": "DELTA", "extra_args": {GROUP_ARGUMENT: 64}}
    assert tokens_per_output(params(**grouped)) == 64
    assert tokens_per_output(params(**grouped | change)) is None


@pytest.mark.parametrize("size", [1, 0, -5, "64", 2.5, None])
def test_a_size_that_makes_no_groups_is_ignored(size: Any) -> None:
    assert tokens_per_output(params(kind="DELTA", extra_args={GROUP_ARGUMENT: size})) is None


@pytest.mark.parametrize(
    "change",
    [{"kind": "DELTA"}, {"stop": ["###"]}, {"logprobs": 1}, {"prompt_logprobs": 1}, {"extra_args": None}],
)
def test_a_request_whose_tokens_the_server_must_see_sends_them(change: dict[str, Any]) -> None:
    assert needs_only_the_end(params())
    assert not needs_only_the_end(params(**change))
    assert not needs_only_the_end(None)
