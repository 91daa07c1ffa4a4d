"""How a probe is carried out: a path's text so far, a phrase that opens the answer, and a few greedy tokens."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Final

from sureenough.answers import Judge
from sureenough.core.events import Probe, Probed, path_seed
from sureenough.core.probing import LONGEST_PROBE, ProbeReply
from sureenough.drivers.judging import extract_in_run
from sureenough.drivers.prompt_growth import PromptGrowth
from sureenough.engines.base import Engine
from sureenough.engines.requests import THINK_END_TAG, Chunk, ExtendOptions, Prompt, as_chunk, is_thinking
from sureenough.errors import EngineError, EngineRejected, MissingLogprobs
from sureenough.pools import RecordedProbe

BOX: Final = "\nThe answer is \\boxed{"
LINE: Final = "\nAnswer: "
"""What opens the answer: a box, or for kinds that ask for such a line, the line."""
END_OF_THINKING: Final = f"\n{THINK_END_TAG}\n"
HEDGES: Final = re.compile(r"\b(wait|hmm|but|however|actually|hold on|not sure)\b", re.IGNORECASE)
"""Words after an answer that take it back."""
MISREAD: Final = (
    "the server read fewer tokens than probes sent: its chat template changes the beginning of a reply, so that probes "
    "are not about their paths; `sureenough doctor` checks it"
)


MOST_FAILURES: Final = 3
"""Failed probes of one path in a row, after which a run sends no more: the path waits for each until it is given up."""


class GrowingText:
    """A path's text in pieces, each with the number of tokens before it."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, str]] = []
        self._tokens = 0

    def add(self, chunk: Chunk) -> None:
        """Take the text of a chunk: token by token if it is known so, else in one piece."""
        texts = chunk.pieces or [token.text for token in chunk]
        pieces = texts if "".join(texts) == chunk.text else [chunk.text]
        self._pieces += [(self._tokens + n, piece) for n, piece in enumerate(pieces)]
        self._tokens += len(chunk) + chunk.unread

    def until(self, tokens: int) -> str:
        """The text of the first tokens; if they end inside a piece, with all of it."""
        return "".join(piece for before, piece in self._pieces if before < tokens)


class ProbeRequest:
    """One probe. What it has taken is known at any time, also if it fails or is cancelled."""

    def __init__(self, prompt: Prompt, text: str, judge: Judge) -> None:
        self._prompt = Prompt(prompt.messages, signals=False)
        self._opening = LINE if "Answer:" in getattr(judge, "ask", "") else BOX
        self._text, self._judge = text, judge
        self.tokens = 0
        self.prompt_tokens: int | None = None
        self.cached_tokens = 0
        self.may_overrun = False  # the engine closed the stream itself; the server may have generated more
        self.note: str | None = None

    def phrase_tokens(self, tokens: int) -> int:
        """About how many tokens the phrase has, if the path's text has so many."""
        return round(tokens * len(self._opening) / max(1, len(self._text)))

    async def send(self, engine: Engine, *, limit: int, seed: int) -> ProbeReply:
        """Ask the path for its answer now."""
        text, beginning = "", self._text
        if is_thinking(beginning, opened=engine.opens_thinking(self._prompt)):
            beginning += END_OF_THINKING
        options = ExtendOptions(max_tokens=limit, stop=("\n",), temperature=0.0)
        async with aclosing(engine.extend(self._prompt, beginning + self._opening, options, seed=seed)) as chunks:
            async for tokens in chunks:
                chunk = as_chunk(tokens)
                text += chunk.text
                self.tokens += len(chunk) + chunk.unread + chunk.beyond
                self.prompt_tokens = chunk.prompt_tokens or self.prompt_tokens
                self.cached_tokens = chunk.cached_tokens or self.cached_tokens
                self.may_overrun |= chunk.closed
        return await self._reply(text)

    async def _reply(self, text: str) -> ProbeReply:
        """The answer, if its box was closed, and whether what follows takes it back."""
        end = _end_of_box(text) if self._opening.endswith("{") else len(text)
        if end is None or not text[:end].strip(" }"):
            return ProbeReply(None, self.tokens)
        answer, self.note = await extract_in_run(self._judge, self._opening + text[:end])
        return ProbeReply(answer, self.tokens, HEDGES.search(text[end:]) is not None)


def _end_of_box(text: str) -> int | None:
    """Where the box that was opened before this text is closed; None if it is not."""
    depth = 1
    for brace in re.finditer(r"[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return None


class PathProbes:
    """The probes of a path that is recorded, sent one after the other when it has ended."""

    def __init__(self, prompt: Prompt, judge: Judge, seed: int) -> None:
        self._prompt, self._judge, self._seed = prompt, judge, seed
        self.prompt_tokens = 0
        self.growth = PromptGrowth()

    async def send(self, engine: Engine, text: GrowingText, places: Iterable[int]) -> tuple[RecordedProbe, ...]:
        """Ask the path for its answers after these numbers of tokens."""
        probes = []
        for at in places:
            request = ProbeRequest(self._prompt, text.until(at), self._judge)
            probes.append(RecordedProbe(at, await request.send(engine, limit=LONGEST_PROBE, seed=self._seed)))
            if request.prompt_tokens is not None:
                self.prompt_tokens += request.prompt_tokens
                self.growth.add(at, request.prompt_tokens)
        return tuple(probes)


class LiveProbes:
    """The probes of a live run, and what they cost."""

    def __init__(
        self,
        prompt: Prompt,
        judge: Judge,
        seed: int,
        receive: Callable[[Probed], None],
        begin: Callable[..., asyncio.Task[None]],
    ) -> None:
        """`begin` is that of the live run."""
        self._prompt, self._judge, self._seed, self._receive, self._begin = prompt, judge, seed, receive, begin
        self._texts: dict[int, GrowingText] = {}
        self._ended: set[int] = set()  # paths whose streams are over
        self._pending: dict[int, asyncio.Task[None]] = {}
        self.reread = self.reread_cached = 0  # prompt tokens
        self.growth = PromptGrowth()
        self._lost: EngineError | None = None  # the latest probe that failed
        self._failures: Counter[int] = Counter()  # by path, since a probe of any of them succeeded
        self._notes: dict[str, None] = {}
        self.may_overrun = False  # as that of a request

    def read(self, path: int, chunk: Chunk) -> None:
        """A path grew."""
        self._texts.setdefault(path, GrowingText()).add(chunk)

    def path_ended(self, path: int) -> None:
        """The stream of a path is over; its text is needed until all that it sent has been probed."""
        self._ended.add(path)
        if path not in self._pending:
            self._texts.pop(path, None)

    def cancel(self, path: int) -> None:
        """Close the probe of a path, if one is running."""
        if path in self._pending:
            self._pending[path].cancel()

    def carry_out(self, action: Probe, engine: Engine) -> None:
        seed = path_seed(self._seed, action.path)
        work = partial(self._ask, action, engine, seed)
        self._pending[action.path] = self._begin(work, action.path, seed, "probe", counted=False)

    async def _ask(self, action: Probe, engine: Engine, seed: int) -> None:
        """Send a probe, unless too many have failed. Whatever happens to it, the session receives what it took.

        If it fails, the path goes on.

        Raises:
            EngineRejected: no probe will succeed.
        """
        number, reply = action.path, None
        request = ProbeRequest(self._prompt, self._texts[number].until(action.tokens), self._judge)
        try:
            if self._gave_up:
                await asyncio.sleep(0)  # an eager task must not end before it is in _pending
            else:
                reply = await request.send(engine, limit=action.limit, seed=seed)
                self._failures.clear()
        except (EngineRejected, MissingLogprobs):
            raise
        except EngineError as error:
            self._lost = error.located(number, seed)
            self._failures[number] += 1
        finally:
            self._account(request, action)
            del self._pending[number]
            self._receive(Probed(number, reply or ProbeReply(None, request.tokens)))
            if number in self._ended:
                self.path_ended(number)

    @property
    def _gave_up(self) -> bool:
        return max(self._failures.values(), default=0) >= MOST_FAILURES

    def _account(self, request: ProbeRequest, action: Probe) -> None:
        self.may_overrun |= request.may_overrun
        if request.note is not None:
            self._notes[request.note] = None
        if request.prompt_tokens is not None:
            self.reread += request.prompt_tokens
            self.reread_cached += request.cached_tokens
            self.growth.add(action.tokens, request.prompt_tokens, phrase=request.phrase_tokens(action.tokens))

    def final_notes(self) -> Iterator[str]:
        """What a reader of the outcome should know."""
        yield from self._notes
        if self._lost is not None:
            gave_up = f"; after {MOST_FAILURES} of one path in a row, no more were sent" if self._gave_up else ""
            yield f"probes failed, and their paths went on{gave_up}; the latest: {self._lost}"
        if self.growth.too_small:
            yield MISREAD
