"""Recorded paths as an engine, with which the live driver and its displays can be tried without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from sureenough.core.events import Token, path_seed
from sureenough.engines.base import End, Engine, Part, Piece, Prompt, TokenStream
from sureenough.errors import EngineRejected, MissingLogprobs
from sureenough.pools import RecordedPath


class Recorded(Engine):
    """Path n of a run with this seed is the n-th recorded path."""

    stops_at_once = True

    def __init__(
        self, paths: Sequence[RecordedPath], *, seed: int = 0, chunk: int = 1, window: int | None = None
    ) -> None:
        self._number = {path_seed(seed, n): n for n in range(len(paths))}
        self._paths, self._chunk = paths, chunk
        self.window = window
        self.running = 0

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        """Stream one recorded path; if its text was not recorded, the text is its answer in a box."""
        if seed not in self._number:
            raise EngineRejected(
                f"seed {seed} belongs to none of the {len(self._paths)} recorded paths: "
                "run with the seed of the engine, and with at most that many paths",
                seed=seed,
            )
        path = self._paths[self._number[seed]]
        if prompt.signals and not path.tokens and path.text:
            raise MissingLogprobs("this path was recorded without signals; use sc, ac or esc", seed=seed)
        self.running += 1
        try:
            for chunk in chunks_of(path, self._chunk):
                await asyncio.sleep(0)
                yield chunk
        finally:
            self.running -= 1


def chunks_of(path: RecordedPath, size: int) -> Iterator[Part]:
    """A path as an engine streams it, `size` tokens at a time."""
    texts = token_texts(path)
    signals = zip(texts or [""] * path.tokens, path.peak, path.conf, strict=True)
    tokens = [Token(text, float(peak), float(conf)) for text, peak, conf in signals]
    for start in range(0, len(tokens), size):
        yield Piece(tokens[start : start + size])
    yield End(path.finish, "" if texts else path_text(path))


def token_texts(path: RecordedPath) -> str | None:
    """The text of every token, if each is one character, as the built-in model's are; pools keep only whole texts."""
    return path.text if path.text is not None and len(path.text) == path.tokens else None


def path_text(path: RecordedPath) -> str:
    if path.text is not None:
        return path.text
    return "" if path.answer is None else f"\\boxed{{{path.answer}}}"
