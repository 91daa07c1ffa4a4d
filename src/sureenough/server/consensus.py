"""What all requests of a server share, and its runs, from a request to an outcome.

A run for a client is cancelled if the client disconnects. One that pages watch ends when no page watches it any more.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import structs
from starlette.types import ASGIApp

from sureenough import answers
from sureenough.answers import Judge, for_question, resolve_kind
from sureenough.api import aask
from sureenough.core.events import Action, Ended
from sureenough.core.outcome import Outcome, Snapshot
from sureenough.core.stop_rules import betainc
from sureenough.drivers.judging import classes_or_own
from sureenough.drivers.observers import ObservedEvent, Observer, Transcript, WinnerTranscript
from sureenough.drivers.run_log import INTERVAL, PathTokens, RunLogWriter
from sureenough.engines.base import Engine
from sureenough.engines.load_balancer import ServerLoad
from sureenough.errors import EngineError, UsageError
from sureenough.json_text import mend
from sureenough.pools.learner import LearnerStates
from sureenough.server.kept_runs import KeptRun, KeptRuns
from sureenough.server.metrics import ServerMetrics
from sureenough.server.requests import Api, ConsensusRequest, RequestReader, split_model_name
from sureenough.server.responses import (
    ApiError,
    api_error,
    bad_request,
    cancel_once,
    shutting_down,
    sse_comment,
    sse_event,
    unknown_model,
)
from sureenough.server.settings import ServerSettings
from sureenough.server.structured import ToolJudge
from sureenough.spec import parse, render

KEEP_ALIVE: Final = 15.0
"""Seconds after which a line is sent even if nothing has changed, so that proxies keep the connection."""
RECONNECT: Final = 15.0
"""Seconds that a run waits for its page to come back, as after a reload."""
LOGGED_QUESTION: Final = 2_000
"""Characters of a question that are logged."""
MOST_WINDOWS: Final = 1_000
"""Models whose windows are remembered: clients choose the names."""
COMPLETE: Final = ("settled", "budget")
"""Reasons of runs that chose their window from all the paths that should."""
log: Final = logging.getLogger("sureenough.server")


class Backend:
    """Where a server's paths come from: an engine for each request, and the models that are offered.

    The upstream of `sureenough serve` is one; a server that samples by itself, such as vLLM with the plug-in, another.
    """

    template = ""  # around questions, unless a request has its own
    offered: Sequence[str] = ()  # the models, if they are known without asking anybody
    loads: Sequence[ServerLoad] = ()  # of the servers behind it, if there are several

    def engine(self, model: str, sampling: dict[str, Any]) -> Engine:
        """The engine for one request; `sampling` has the fields of `OpenAI`."""
        raise NotImplementedError

    def notes(self, model: str, question: str) -> tuple[str, ...]:
        """What a reader of the answer should know before there is one."""
        return ()

    def redact(self, text: str) -> str:
        """Text for clients, without secrets of the operator."""
        return text

    async def models(self) -> list[str]:
        return list(self.offered)

    async def ready(self) -> bool:
        """Whether paths could be sampled now."""
        return True

    async def problem(self) -> str | None:
        """What is wrong with it, for the operator; None if nothing is known to be."""
        return None

    def passthrough(self, endpoint: str, content: bytes, slot: ExitStack) -> ASGIApp:
        """The backend's own response to a request without a strategy, which holds the slot until it is complete."""
        raise bad_request("choose a strategy: its name follows the model's, as in NAME@sure.", "model")

    async def check_model(self, model: str) -> None:
        """Refuse a model that is not offered, as far as that is known, and a model with an unknown strategy."""
        base, at, spec = model.rpartition("@")
        listed = list[str]()
        if at:
            with suppress(EngineError):
                listed = await self.models()
        if at and base in listed and model not in listed:
            try:
                parse(spec)
            except UsageError as error:
                raise bad_request(f"{error}.", "model") from None
        if self.offered and model not in self.offered:
            raise unknown_model(model, f"; this server offers {', '.join(self.offered)}")


class RunResult(NamedTuple):
    """The outcome of a run, and the path whose text is the response."""

    outcome: Outcome
    transcript: Transcript | None


class Run:
    """A run in progress, of which pages can read what its log holds so far."""

    task: asyncio.Task[RunResult]
    _forgetting: asyncio.TimerHandle

    def __init__(self, request: ConsensusRequest, state: ServerState) -> None:
        self.id = secrets.token_urlsafe(24)
        self.model, self._state = request.model, state
        self.judge: Judge = request.options["kind"]
        notes = state.backend.notes(request.model, request.question)
        self.log = RunLogWriter(
            {"id": self.id, "question": request.question, "model": request.model,
             "strategy": render(request.strategy), "begun": time.time(), "notes": list(notes)}
        )  # fmt: skip
        self._watchers = 0

    def stop(self) -> None:
        cancel_once(self.task)

    async def answer(self) -> str | None:
        return (self.log.view.result or {}).get("answer")

    async def text(self, number: int) -> PathTokens | None:
        """The text of one path so far; None if it has none."""
        return self.log.text(number)

    async def events(self) -> AsyncGenerator[bytes]:
        """The log so far, then each new line; it is not forgotten meanwhile, though the run may have ended."""
        sent, at = 0, time.monotonic()
        self._watchers += 1
        self._forgetting.cancel()
        try:
            while not self._state.shutting_down and self.id in self._state.watched:
                self.log.update()
                lines = self.log.lines[sent:]
                if lines or time.monotonic() - at > KEEP_ALIVE:
                    yield b"".join(map(sse_event, lines)) or sse_comment("keep-alive")
                    sent, at = sent + len(lines), time.monotonic()
                await asyncio.sleep(INTERVAL)
        finally:
            self._watchers -= 1
            if not self._watchers:
                self.forget_later()

    def forget_later(self) -> None:
        """Stop and forget it unless a page watches it soon."""
        self._forgetting = asyncio.get_running_loop().call_later(RECONNECT, self.forget)

    def forget(self) -> None:
        self._forgetting.cancel()
        self._state.watched.pop(self.id, None)
        self.stop()

    def end_log(self) -> None:
        """Log the result or the error of a run that has ended: pages must see an end in every case."""
        try:
            self.log.end(self.task.result().outcome)
        except (Exception, asyncio.CancelledError) as error:
            self.log.end(None, structs.asdict(self._state.error_response(error, self.model).body().error))
        if self._state.kept.folder is not None and self.log.view.result is not None:
            asyncio.get_running_loop().run_in_executor(None, self._state.kept.save, self.id, self.log)


class ServerState:
    """What the requests of one server share: the backend, slots, metrics, what is learned, and the runs."""

    def __init__(self, settings: ServerSettings, backend: Backend | None = None) -> None:
        self.settings, self.reader = settings, RequestReader(settings)
        self.backend = backend or Backend()
        self.requests = 0  # that hold a slot
        self.runs: set[asyncio.Task[RunResult]] = set()  # in progress
        self.watched: dict[str, Run] = {}  # by ids that cannot be guessed
        self.kept = KeptRuns(settings.keep_runs)
        self.shutting_down = False
        self.learned = LearnerStates(None if settings.state is None else settings.state / "learned.json")
        self._saving = asyncio.Lock()
        self.metrics = ServerMetrics(self)
        self.windows = {key.model: key.window for key in self.learned.known}  # once a run has chosen one

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """For as long as the server runs. Without a backend of its own it opens the upstream of the settings."""
        if self.settings.view_only:
            yield
            return
        await asyncio.to_thread(self.kept.remove_parts)
        await asyncio.to_thread(_preload)
        async with AsyncExitStack() as stack:
            if type(self.backend) is Backend:
                from sureenough.server.upstream import open_upstream  # other backends need none of it

                self.backend = await stack.enter_async_context(open_upstream(self.settings))
            yield
            self.stop_runs()

    def error_response(self, error: BaseException, model: str = "") -> ApiError:
        """The response for an error, without the upstream's address and secrets."""
        response = api_error(error, model)
        if response.status == 500 and not isinstance(error, ApiError):
            log.error("a request failed", exc_info=error)
        response.message = self.backend.redact(response.message)
        return response

    async def read(self, body: dict[str, Any], api: Api = "chat/completions") -> ConsensusRequest:
        """A parsed body as a request for a consensus, or an ApiError."""
        await self.backend.check_model(split_model_name(body["model"]).model)
        read = partial(self.reader.read, body, api=api, template=self.backend.template)
        has_schema = not body.keys().isdisjoint(("response_format", "text"))  # preparing one takes a while
        return await asyncio.to_thread(read) if has_schema else read()

    def slot(self) -> ExitStack:
        """One of the slots for requests, held until the context ends or it is closed, whichever comes first."""
        if self.shutting_down:
            raise shutting_down()
        if self.requests >= self.settings.limits.requests:
            self.metrics.rejected.inc()
            message = f"The server is already handling {self.requests} requests, its limit; try again later."
            raise ApiError(429, message, code="rate_limit_exceeded", headers={"Retry-After": "1"})
        self.requests += 1
        slot = ExitStack()

        @slot.callback
        def release() -> None:
            self.requests -= 1

        return slot

    def start(self, request: ConsensusRequest, slot: ExitStack, *observers: Observer, watched: bool = False) -> Run:
        """Start a run. Cancelling its task closes every path and gives the vote so far.

        The slot is free as soon as the run ends: a client that has its response must find one for the next request. The
        log is written if the run is watched or kept.
        """
        if self.settings.log_requests:
            log.info("question: %r", request.question[:LOGGED_QUESTION])
        run = Run(request, self)
        logged = watched or self.kept.folder is not None
        run.task = asyncio.create_task(self._run(request, (*observers, run.log) if logged else observers), name="run")
        self.runs.add(run.task)
        run.task.add_done_callback(self.runs.discard)
        run.task.add_done_callback(lambda _: slot.close())
        if logged:
            run.task.add_done_callback(lambda _: run.end_log())
        if watched:
            self._watch(run)
        return run

    def _watch(self, run: Run) -> None:
        """Keep a run for its page; of those that ended, the oldest makes room, though a page may still show it."""
        ended = [known for known in self.watched.values() if known.task.done()]
        for oldest in ended[: max(0, len(ended) + 1 - self.settings.limits.requests)]:
            oldest.forget()
        self.watched[run.id] = run
        run.forget_later()

    async def _run(self, request: ConsensusRequest, observers: Sequence[Observer]) -> RunResult:
        backend, spec, judge = self.backend, render(request.strategy), request.structured
        window = request.options["window"] or self.windows.get(request.model)
        transcript, run = WinnerTranscript(), asyncio.current_task()
        latest: Snapshot | None = None

        def observe(event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
            """Keep what the run has cost, and end it as soon as its paths call different tools."""
            nonlocal latest
            latest = snapshot
            if isinstance(event, Ended) and isinstance(judge, ToolJudge) and judge.disagreement and run is not None:
                cancel_once(run)

        try:
            out = await aask(
                request.prompt, backend.engine(request.model, request.sampling), request.strategy,
                observers=(transcript, *observers, observe),
                learn=self.learned.state(request.model, window, spec), **request.options | {"window": window},
            )  # fmt: skip
        except BaseException:
            if latest is not None:
                self.metrics.count_failed_run(latest)
            raise
        self.metrics.count_run(out)
        notes = [*backend.notes(request.model, request.question), *map(backend.redact, out.notes)]
        if request.strategy.reads_confidence:
            self.learned.receive(request.model, spec, out)
            async with self._saving:
                notes += await asyncio.to_thread(self.learned.save)
            self._keep_window(request, out)
        if isinstance(judge, ToolJudge):
            judge.refuse_disagreement()
        winner = transcript.of(out.answer)
        winner = None if winner is None else winner._replace(text=mend(winner.text))
        return RunResult(replace(out, notes=tuple(notes)), winner)

    def _keep_window(self, request: ConsensusRequest, out: Outcome) -> None:
        """One window per model, so that its runs can be compared: the first that paths of full length have chosen."""
        full_length = request.sampling.get("max_path_tokens") in (None, self.settings.limits.path_tokens)
        if out.window_paths and full_length and out.reason in COMPLETE:
            if len(self.windows) >= MOST_WINDOWS:
                self.windows.clear()
            self.windows.setdefault(request.model, out.window)

    def stop_runs(self) -> None:
        for task in list(self.runs):
            cancel_once(task)

    async def find(self, name: str) -> Run | KeptRun:
        """A run that pages watch, or one that was kept."""
        return self.watched[name] if name in self.watched else await asyncio.to_thread(self.kept.find, name)

    async def agree(self, first: str, second: str) -> bool | None:
        """Whether two runs have the same answer, by the judge of the first; None if one of them has none (yet)."""
        runs = [await self.find(name) for name in (first, second)]
        one, other = [await run.answer() for run in runs]
        if one is None or other is None:
            return None
        judge = for_question(runs[0].judge or resolve_kind(self.settings.kind))
        classes, _ = await asyncio.to_thread(classes_or_own, judge, [one, other])
        return classes[one] == classes[other]


def _preload() -> None:
    """Import scipy and the judge now: at the first stop test they would hold up the event loop."""
    betainc(1.0, 1.0, 0.5)
    answers.same("1/2", "0.5")
