"""A path of vLLM in this process as it grows: its tokens, texts and signals from vLLM's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sureenough.core.events import Token
from sureenough.engines.openai.logprobs import floored, token_signals
from sureenough.engines.openai.wire import FINISH_REASONS
from sureenough.engines.requests import Chunk
from sureenough.engines.vllm.path_record import Progress
from sureenough.engines.vllm.sampled_tokens import TokenSequence
from sureenough.errors import EngineError


class GrowingPath:
    """What has come of one path."""

    def __init__(self, sequence: TokenSequence | None = None) -> None:
        self.ids: list[int] = []
        self._sequence = sequence  # grows with the path and has the texts of its tokens; None: vLLM decodes the text
        self.finish = "stop"
        self._stop_text = ""  # at which it ended
        self.tokens = self.length = 0  # passed on, and the characters of their text
        self.cached_tokens: int | None = None

    def add(self, output: Any, k: int | None) -> Chunk | None:
        """An output of vLLM, with the log-probabilities of k candidates or none, or the progress of a watched path."""
        if isinstance(output, Progress):
            return self._count(output.tokens - 1, tail=output.tail)  # a token may be sampled after the last one
        delta = output.outputs[0]
        self.cached_tokens = getattr(output, "num_cached_tokens", None)
        self.ids += delta.token_ids
        self.finish = delta.finish_reason or self.finish
        reason = getattr(delta, "stop_reason", None)
        self._stop_text = reason if isinstance(reason, str) else ""  # a number is a token that ends replies
        text = delta.text or ""  # empty unless text is decoded as it grows
        texts = [""] * len(delta.token_ids) if self._sequence is None else self._sequence.add(delta.token_ids)
        if self._sequence is not None:
            text = "".join(texts)
        self.length += len(text)
        if k is not None and delta.token_ids:
            logprobs = _sampled_logprobs(delta.logprobs)
            return Chunk(_tokens(delta.logprobs, texts, k), text=text, logprobs=logprobs)
        return self._count(len(self.ids), text)

    def last(self, prompt_tokens: int) -> Chunk:
        """Its end, with text that is still missing; an error if vLLM gave it up."""
        if self.finish not in FINISH_REASONS:
            raise EngineError(f"vLLM ended the path with the finish reason {str(self.finish)[:40]!r}")
        finish = FINISH_REASONS[self.finish]
        text = "" if self._sequence is None else self._sequence.rest()
        end = Chunk(text=text, finish=finish, stop_text=self._stop_text, prompt_tokens=prompt_tokens)
        end.cached_tokens = self.cached_tokens
        return end

    def _count(self, tokens: int, text: str = "", tail: float | None = None) -> Chunk | None:
        new, self.tokens = tokens - self.tokens, max(tokens, self.tokens)
        return Chunk(unread=new, text=text, tail=tail) if new > 0 or text else None


def _tokens(flat: Any, texts: Sequence[str], k: int) -> list[Token]:
    """Signals of the tokens of one output, from k candidates; with none, what the sampled token alone tells.

    The sampled token's own entry comes first, apart from the candidates; but if vLLM has joined several outputs into
    one, a token that is among its candidates comes once. The last entries are the candidates in both cases.
    """
    k = k or 1
    bounds = zip(texts, flat.start_indices, flat.end_indices, strict=True)
    return [Token(text, *token_signals(flat.logprobs[start:end][-k:], k)) for text, start, end in bounds]


def _sampled_logprobs(flat: Any) -> list[float]:
    """The log-probability of each sampled token, whose entry comes first."""
    return [floored(flat.logprobs[start]) for start in flat.start_indices]
