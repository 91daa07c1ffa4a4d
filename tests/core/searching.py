"""A toy model for tests of searches, and loops that carry out what a method or a session asks of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import log
from random import Random

import numpy as np

from sureenough.core.events import (
    Action,
    Adopt,
    Cancel,
    Compute,
    Computed,
    Ended,
    Event,
    Extend,
    Extended,
    Fate,
    Sampled,
    Token,
)
from sureenough.core.search import Computation, Continuation, Draws, SampleLimits, SearchMethod
from sureenough.core.session import Session
from tests.core.journal import say

Sampler = Callable[[str, SampleLimits, int], Continuation]
Samples = Callable[[str, SampleLimits, int], list[Continuation]]  # so many continuations of a beginning

PIECES = ("ab ", "cd", "efg ", "\n", "\n", "h\n", "i\nj", "", " 7")
"""Texts of the toy model's tokens; line feeds may be alone, at the end of a token, or within one."""


def toy(beginning: str, limits: SampleLimits, seed: int, *, told: bool = False) -> Continuation:
    """A continuation that depends on nothing but its arguments; it ends by itself with one token in twelve.

    `told`: it says which stop text ended it, every other time with one more line feed.
    """
    random = Random(f"{seed} {beginning} {limits.temperature}")
    tokens: list[Token] = []
    while len(tokens) < limits.max_tokens:
        if random.random() < 1 / 12:
            return _continuation(tokens, unread=1, stop_text="" if told else None)
        tokens.append(Token(random.choice(PIECES), random.uniform(0.1, 0.99), random.uniform(2, 9)))
        text = "".join(token.text for token in tokens)
        if limits.stop is not None and limits.stop in text:
            beyond = len(text) - text.index(limits.stop)
            kept = tokens.pop()
            tokens.append(kept._replace(text=kept.text[: len(kept.text) - beyond]))
            return _continuation(tokens, stop_text=text[-beyond:] + "\n" * (seed % 2) if told else None)
    return _continuation(tokens, complete=False)


def _continuation(
    tokens: Sequence[Token], *, complete: bool = True, unread: int = 0, stop_text: str | None = None
) -> Continuation:
    return Continuation(tuple(tokens), tuple(log(token.peak) for token in tokens), complete, unread, stop_text)


def line_feeds(reply: Continuation) -> str:
    """What a line that ended at a line feed is followed by, as far as it is known."""
    known = reply.stop_text or "\n"
    return "\n" if known.strip() else known


def line(text: str, peak: float = 0.5, *, complete: bool = True, stop_text: str | None = None) -> Continuation:
    """A continuation whose tokens are the letters of a text, all equally likely."""
    return _continuation([Token(letter, peak, 5.0) for letter in text], complete=complete, stop_text=stop_text)


def clusters(texts: Sequence[str], most: int, seed: int) -> list[int] | None:
    """A stand-in for k-means: by the number of line feeds, and by the seed."""
    return None if not any(text.strip() for text in texts) else [(text.count("\n") + seed) % most for text in texts]


def searched(method: SearchMethod, samples: Samples, uniform: Callable[[], float]) -> tuple[str, int]:
    """The path that a method finds, and how many of its tokens were sampled for it."""
    search = method.search(Draws(uniform))
    text, tokens = "", 0
    try:
        following = next(search)
        while True:
            if isinstance(following, Computation):
                following = search.send(following.result())
                continue
            text += following.adopted.text
            tokens += len(following.adopted.tokens)
            replies = [samples(beginning, limits, 1)[0] for beginning, limits, _ in following.samples]
            following = search.send(replies)
    except StopIteration as end:
        return text + end.value.text, tokens + len(end.value.tokens)


def sampling(seed: int, *, told: bool = False) -> Samples:
    """The toy model; the n-th continuation of a run has the n-th seed. `told`: it says which stop text ended it."""
    numbers = iter(range(seed * 10_000, 10**9))
    return lambda beginning, limits, count: [toy(beginning, limits, next(numbers), told=told) for _ in range(count)]


def pick(weights: Iterable[float], u: float) -> int:
    """Inverse of the cumulative distribution."""
    edges = np.cumsum(list(weights))
    return int(np.searchsorted(edges, u * edges[-1], side="right"))


def carried_out(session: Session, sample: Sampler, answer: Callable[[str], str | None]) -> tuple[list[str], list[str]]:
    """The journal of a run with this model, and the texts of its paths in the order of their ends."""
    journal: list[str] = []
    texts: dict[int, str] = {}
    ended: list[str] = []
    events: deque[Event] = deque()

    def take(cause: str, actions: Sequence[Action]) -> None:
        journal.append(f"{cause} -> {', '.join(map(say, actions)) or 'nothing'}")
        for action in actions:
            match action:
                case Extend(path, branch, beginning, limits, seed):
                    reply = sample(beginning, limits, seed)
                    events.append(Sampled(path, branch, len(reply.tokens) + reply.unread))
                    events.append(Extended(path, branch, reply))
                case Compute(path, computation):
                    events.append(Computed(path, computation.result()))
                case Adopt(path, growth, ends):
                    texts[path] = texts.get(path, "") + growth.text
                    if ends:
                        ended.append(texts[path])
                        events.append(Ended(path, Fate.KEPT, answer(texts[path])))
                case Cancel(path):
                    for event in [event for event in events if getattr(event, "path", None) == path]:
                        events.remove(event)

    take("begin", session.begin())
    while events:
        event = events.popleft()
        take(say(event), session.receive(event))
    return journal, ended
