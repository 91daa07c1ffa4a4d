"""What a live run has cost beside the tokens that its session counts, and what a reader of its outcome should know."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sureenough.answers import Judge
from sureenough.core.outcome import Outcome, Spent
from sureenough.drivers.judging import no_answer_note
from sureenough.drivers.path_stream import PathStream
from sureenough.drivers.search import LiveSearch
from sureenough.engines.base import Engine
from sureenough.engines.requests import Chunk
from sureenough.errors import EngineError


@dataclass(slots=True)
class LiveAccount:
    """Prompt tokens, tokens that were generated after cancels, and notes."""

    accepted: int = 0  # paths that the server began
    ended: bool = False  # a path was read to its end, where engines that count prompt tokens report them
    prompt_tokens: int = 0  # of one path
    cached_tokens: int = 0
    server_count: int | None = None  # tokens by the server's own counters
    cut: bool = False  # something was cancelled whose tokens are not all known
    estimated: bool = False
    unanswered: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    """Paths without an answer, by whether their limit of tokens cut them."""
    lost: EngineError | None = None  # the latest path that failed
    _notes: dict[str, None] = field(default_factory=dict)

    def note(self, text: str | None) -> None:
        """Tell the reader of the outcome, once."""
        if text is not None:
            self._notes[text] = None

    def read(self, stream: PathStream, chunk: Chunk) -> None:
        """A chunk of this path has been read."""
        self.cut |= stream.may_overrun
        self.prompt_tokens = stream.prompt_tokens or self.prompt_tokens
        self.cached_tokens += chunk.cached_tokens or 0  # in a path's last chunk

    def close(self, stream: PathStream) -> None:
        """The stream of a path is over."""
        self.cut |= stream.closed and stream.requested and not stream.counted
        self.ended |= stream.begun and not stream.closed
        # An engine that watches its paths may have sent nothing of one that it generated.
        self.accepted += stream.counted and stream.beyond > 0 and not stream.begun
        self.estimated |= stream.estimated

    def complete(self, out: Outcome, engine: Engine, judge: Judge, search: LiveSearch | None) -> Outcome:
        """The session's outcome with the rest of its cost, and with all notes.

        Raises:
            EngineError: nothing is left to vote with.
        """
        voted = out.votes or out.abstained
        if self.lost is not None and not voted and out.reason in ("engine", "budget"):
            raise self.lost
        known = not self.cut or engine.stops_at_once or self.server_count is not None
        overrun = out.tokens.overrun + max(0, (self.server_count or 0) - out.tokens.total)
        tokens = replace(self._with_prompts(out.tokens, search), overrun=overrun, overrun_known=known)
        self._notes |= dict.fromkeys(search.final_notes() if search is not None else ())
        self._add_final_notes(out, judge)
        return replace(out, tokens=tokens, notes=(*out.notes, *self._notes))

    def _with_prompts(self, tokens: Spent, search: LiveSearch | None) -> Spent:
        """With the prompts of all requests; a path that was closed early does not tell how long its own was."""
        if search is None:
            known = self.prompt_tokens > 0 or self.ended or not self.accepted
            prompt = self.accepted * self.prompt_tokens
            return replace(tokens, prompt=prompt, prompt_known=known, cached=self.cached_tokens)
        return replace(
            tokens,
            prompt=search.begun * search.growth.question_tokens,
            prompt_known=search.growth.question_known or search.ended or not search.begun,
            cached=search.cached + search.reread_cached,
            reread=search.reread,
            reread_cached=search.reread_cached,
        )

    def _add_final_notes(self, out: Outcome, judge: Judge) -> None:
        if out.answer is None and any(self.unanswered.values()):
            self.note(no_answer_note(judge, self.unanswered[True], self.unanswered[False]))
        if self.estimated:
            self.note("the engine did not count its tokens; the numbers here are estimated from its chunks")
        if self.lost is not None:
            self.note(f"paths were lost to the engine; the latest: {self.lost}")
