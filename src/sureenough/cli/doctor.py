"""`sureenough doctor`: does a server return what strategies need? Exit codes: 0 yes, 1 a check failed, 3 no server.

Every check samples a few short paths, says what it observed, and names a fix if it fails.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, NamedTuple

import typer

from sureenough.cli.engine import EngineOptions
from sureenough.cli.options import AsJson, option_group, with_options
from sureenough.cli.terminal import echo, echo_json, plural
from sureenough.drivers.search import PromptGrowth
from sureenough.engines.base import End, ExtendOptions, Prompt, TokenStream, as_part
from sureenough.engines.local.engine import Local, LocalConnection
from sureenough.engines.openai.client import OpenAI, OpenAIConnection
from sureenough.engines.openai.logprobs import FIXES, RepeatCounter, enough
from sureenough.engines.openai.reply import ReplyParser
from sureenough.engines.openai.wire import DONE, candidates, decode, request
from sureenough.engines.watch.client import fetch_monitor_info
from sureenough.errors import CannotExtend, EngineError, EngineUnavailable, UsageError

PROMPT: Final = Prompt.user("Name a colour, then count from one to one hundred in words, slowly.")
TRIED_K: Final = (128, 64, 32, 20, 10, 5, 1)
HALF: Final = 16
"""Tokens of the path that is cut and continued."""
NO_LOGPROBS: Final = "no log-probabilities to look at"
EXTEND_FIX: Final = (
    "only strategies with a search need it; vLLM, SGLang and llama.cpp continue a last assistant message"
)
TEMPLATE_FIX: Final = (
    "only strategies with a search need it; give the server a chat template that keeps the last message as "
    "it is (vLLM, SGLang: --chat-template FILE; llama.cpp: --chat-template-file FILE)"
)
MARKS: Final = {True: "✓", False: "✗", None: "?"}


@with_options(
    server=option_group(
        EngineOptions,
        leave_out=("temperature", "top_p", "max_path_tokens", "metrics", "plugin"),
        first_token=60.0,
        stall=30.0,
    )
)
def command(*, server: EngineOptions, as_json: AsJson = False) -> None:
    """Check a server or a local model: candidates, raw log-probabilities, seeds, closing, counting, chunks."""
    if len(server.each_server()) > 1:
        raise UsageError("doctor checks one server at a time; give one --url")
    engine = replace(server, temperature=1.0, top_p=1.0).engine()
    checks = asyncio.run(examine(engine, print_results=not as_json))
    well = all(check.good is not False for check in checks)
    if as_json:
        echo_json(json.dumps({"well": well, "checks": [check._asdict() for check in checks]}))
    else:
        echo("\n".join(summary(checks)))
    raise typer.Exit(0 if well else 1)


def summary(checks: Sequence[Check]) -> Iterator[str]:
    """Which checks were skipped and why, and what all of them together say."""
    for cause in dict.fromkeys(check.skipped_by for check in checks if check.skipped_by):
        names = ", ".join(check.name for check in checks if check.skipped_by == cause)
        yield f"- skipped    {names}: see {cause}"
    undecided = [check.name for check in checks if check.good is None and not check.skipped_by]
    if any(check.good is False for check in checks):
        yield "Some strategies will not work correctly; see the failed checks."
    elif undecided:
        passed = sum(check.good is True for check in checks)
        yield f"{passed} of {len(checks)} checks passed, none failed; undecided: {', '.join(undecided)}."
    else:
        yield "All checks passed."


class Check(NamedTuple):
    """The result of one check: passed, failed, or None if it cannot be decided."""

    good: bool | None
    found: str
    fix: str = ""
    name: str = ""
    skipped_by: str | None = None  # the failed check that has the same cause

    def __str__(self) -> str:
        fix = f"\n  {'':10} fix: {self.fix}" if self.good is not True and self.fix else ""
        return f"{MARKS[self.good]} {self.name:10} {self.found}{fix}"


async def examine(engine: OpenAI | Local, *, print_results: bool = False) -> list[Check]:
    """Run all checks in turn. A server that cannot be reached is an error."""
    checks: list[Check] = []
    # llama.cpp's server closes a connection after a reply, perhaps when the next request is already on its way.
    if isinstance(engine, OpenAI):
        engine = replace(engine, reuse=False, retries=1)
    async with engine.open(parallel=8) as ready:
        connection = ready.connection if isinstance(ready, LocalConnection) else ready
        for name, run in CHECKS.items():
            try:
                check = await run(connection)
            except EngineUnavailable:
                raise
            except EngineError as error:
                check = Check(False, str(error))
            check = _once(check, checks)._replace(name=name)
            checks.append(check)
            if print_results and check.skipped_by is None:
                echo(str(check))
    return checks


def _once(check: Check, earlier: list[Check]) -> Check:
    """A check that failed for the reason of an earlier one is skipped, so that every cause is named once."""
    if check.good is True:
        return check
    for other in earlier:
        same_error = other.found == check.found or (check.fix and other.fix == check.fix)
        if other.good is False and (same_error or check.found == NO_LOGPROBS):
            return Check(None, f"skipped, for the same reason as {other.name}", skipped_by=other.name)
    return check


async def check_top_k(connection: OpenAIConnection) -> Check:
    """Every token comes with k candidates, of which a few may have been merged."""
    probe = await sample(connection)
    sizes = sorted({len(values) for values in probe.columns})
    found = f"{len(probe.columns)} tokens with {' or '.join(map(str, sizes)) or 'no'} candidates each"
    return Check(bool(sizes) and sizes[-1] >= 20 and enough(sizes[0], 20), found, FIXES.format(k=20))


async def check_raw(connection: OpenAIConnection) -> Check:
    """Log-probabilities are the model's own, before temperature."""
    cold, hot = [await sample(connection, temperature=t, tokens=2) for t in (0.3, 1.5)]
    if not cold.columns or not hot.columns:
        return Check(None, NO_LOGPROBS)
    pairs = zip(sorted(cold.columns[0])[-5:], sorted(hot.columns[0])[-5:], strict=False)
    difference = max(abs(a - b) for a, b in pairs)
    fix = "vLLM: --logprobs-mode raw_logprobs; SGLang: upgrade, or set SGLANG_RETURN_ORIGINAL_LOGPROB=1"
    return Check(difference < 0.1, f"T = 0.3 and T = 1.5 differ by {difference:.3f} at the first token", fix)


async def check_distinct(connection: OpenAIConnection) -> Check:
    """Tokens have candidates of their own."""
    probe = await sample(connection, seed=3)
    if not probe.columns:
        return Check(None, NO_LOGPROBS)
    repeats = RepeatCounter()
    repeats.add(probe.columns)
    found = f"{repeats.repeats} of {repeats.tokens} tokens repeat the candidates of the token before"
    return Check(not repeats.repeated, found, "SGLang: upgrade, or --stream-interval 1")


async def check_seeds(connection: OpenAIConnection) -> Check:
    """The same seed gives the same path, and another seed another path."""
    one, again, other = [(await sample(connection, seed=seed)).text for seed in (11, 11, 12)]
    same = "gives the same path again" if one == again else "does not give the same path again"
    different = "another seed gives another path" if one != other else "another seed gives the same path"
    good = False if one == other else (True if one == again else None)
    fix = "voting works without seeds as long as paths differ, but runs cannot be repeated exactly"
    return Check(good, f"a seed {same}; {different}", fix)


async def check_closing(connection: OpenAIConnection) -> Check:
    """Closing the stream stops generation."""
    fix = "tokens are saved only if closing stops them: connect without a buffering proxy, or upgrade the server"
    before = await connection.settled_counters()
    probe = await sample(connection, tokens=1000, stop=8)
    after = None if before is None else await connection.settled_counters()
    if before is None or after is None:
        unknown = "the server has no counters that we know, so tokens generated after a close cannot be counted"
        return Check(None, unknown, fix)
    more = after.generated - before.generated - max(len(probe.columns), probe.tokens)
    generated = f"{plural(more, 'more token')} {'was' if more == 1 else 'were'} generated"
    return Check(more < 500, f"{generated} after the stream was closed", fix)


async def check_counting(connection: OpenAIConnection) -> Check:
    """Every token has its entry, or the server reports usage."""
    probe = await sample(connection, tokens=16)
    received = len(probe.columns)
    if probe.completion_tokens is None:
        return Check(None, f"{received} tokens received; no usage", "only received tokens are counted")
    return Check(True, f"{received} tokens received, {probe.completion_tokens} by the server's own count")


async def check_chunks(connection: OpenAIConnection) -> Check:
    """How many tokens come per chunk."""
    probe = await sample(connection, tokens=64)
    if not probe.columns:
        return Check(None, NO_LOGPROBS)
    return Check(True, f"{len(probe.columns) / probe.chunks:.1f} tokens per chunk")


async def check_highest_k(connection: OpenAIConnection) -> Check:
    """The largest number of candidates that the server sends."""
    for k in TRIED_K:
        try:
            probe = await sample(connection, k=k, tokens=2)
        except EngineUnavailable:
            raise
        except EngineError:  # too many for this server
            continue
        if probe.columns and min(map(len, probe.columns)) >= k:
            return Check(k >= 20, f"{k} of those tried", FIXES.format(k=20))
    return Check(False, NO_LOGPROBS, FIXES.format(k=20))


async def check_inside(connection: OpenAIConnection) -> Check:
    """Whether the server watches its own paths."""
    info = await fetch_monitor_info(connection.fetch)
    if info is None:
        return Check(True, "the client watches the paths; vLLM can do so itself (docs/vllm.md)")
    found = f"the server watches its own paths (sureenough {info.version}, windows up to {info.window} tokens)"
    return Check(True, found)


async def check_prompts(connection: OpenAIConnection) -> Check:
    """Whether paths of one question share the reading of its prompt."""
    prompt = replace(PROMPT, signals=False)
    short = connection.with_engine(replace(connection.engine, max_path_tokens=2))
    _, last = [await collect(short.stream(prompt, seed=seed)) for seed in (1, 2)]
    found = "the server does not say how much of a prompt it had cached; vLLM: --enable-prompt-tokens-details"
    if last.cached_tokens is not None:
        found = f"{last.cached_tokens} of {last.prompt_tokens} prompt tokens were cached for the second path"
    return Check(True, found)


async def check_extend(connection: OpenAIConnection) -> Check:
    """The rest of a beginning is that of the unbroken path, and the whole beginning is read."""

    def path(beginning: str, tokens: int) -> Awaitable[FinishedSample]:
        options = ExtendOptions(max_tokens=tokens, temperature=0.0)
        return collect(connection.extend(replace(PROMPT, signals=False), beginning, options, seed=1))

    try:
        half = await path("", HALF)
        if not half.text:
            return Check(None, "the path is empty, so there is nothing to continue", EXTEND_FIX)
        whole = await path("", 2 * HALF)
        if whole.tokens <= half.tokens:  # it has ended by itself
            half = await path("", max(1, half.tokens // 2))
        rest = await path(half.text, 2 * HALF - half.tokens)
    except CannotExtend as error:  # a run that needs it ends with the same message
        return Check(None, str(error), EXTEND_FIX)
    return judge_continuation(half, whole, rest)


def judge_continuation(half: FinishedSample, whole: FinishedSample, rest: FinishedSample) -> Check:
    """What the first half of a path, all of it, and the continuation of its half show."""
    growth, read, counts = PromptGrowth(), 0, ""
    if whole.prompt_tokens is not None and rest.prompt_tokens is not None:
        growth.add(0, whole.prompt_tokens)
        growth.add(half.tokens, rest.prompt_tokens)
        read = rest.prompt_tokens - whole.prompt_tokens
        counts = f"; {half.tokens} of its tokens were sent, {read} more were read"
    if whole.text != half.text + rest.text:
        dropped = growth.too_small or (read <= 0 and rest.text.startswith(half.text))
        why = ": the chat template drops it, or a part of it" if dropped else "; the chat template may change it"
        found = f"at T = 0, a beginning is not continued as the unbroken path{counts}{why}"
        return Check(False if dropped else None, found, TEMPLATE_FIX)
    found = f"a beginning is continued as the unbroken path{counts}"
    if growth.too_small:
        return Check(None, f"{found}: the chat template may drop a part of it", TEMPLATE_FIX)
    cached = "does not say how many tokens it had cached"
    if rest.cached_tokens is not None:
        cached = f"had {rest.cached_tokens} of {rest.prompt_tokens} cached"
    return Check(True, f"{found}; the server {cached}")


CHECKS: Final[dict[str, Callable[[OpenAIConnection], Awaitable[Check]]]] = {
    "top-k": check_top_k,
    "raw": check_raw,
    "distinct": check_distinct,
    "seeds": check_seeds,
    "closing": check_closing,
    "counting": check_counting,
    "chunks": check_chunks,
    "highest k": check_highest_k,
    "inside": check_inside,
    "prompts": check_prompts,
    "extend": check_extend,
}


class CandidateParser(ReplyParser):
    """Parses a reply with any kind of candidates, and keeps them for the checks."""

    def __init__(self, k: int, limit: int) -> None:
        super().__init__(k, signals=False, limit=limit)
        self.columns: list[list[float]] = []  # log-probabilities of each token's candidates
        self.chunks = 0  # with candidates
        self.text = ""

    def receive(self, data: bytes) -> None:
        """Parse one event and keep its candidates."""
        if data != DONE and not self.done:
            for choice in decode(data).choices:
                columns = candidates(choice.logprobs)[1] if choice.logprobs is not None else []
                self.columns += columns
                self.chunks += bool(columns)
        super().receive(data)


async def sample(
    connection: OpenAIConnection,
    *,
    k: int = 20,
    seed: int = 1,
    temperature: float = 1.0,
    tokens: int = 48,
    stop: int | None = None,
) -> CandidateParser:
    """One path, or its first few tokens."""
    engine = replace(connection.engine, k=k, temperature=temperature, top_p=1.0, max_path_tokens=tokens)
    body = request(PROMPT, seed, model=engine.model, chat=engine.chat, k=k, sampling=engine.sampling())
    probe = CandidateParser(k, tokens)
    async with aclosing(connection.with_engine(engine).generate(PROMPT, body, tokens, lambda **_: probe)) as chunks:
        async for chunk in chunks:
            probe.text += chunk.text
            if stop is not None and probe.tokens >= stop:
                break
    return probe


class FinishedSample(NamedTuple):
    """A path that was read to its end."""

    text: str
    tokens: int
    prompt_tokens: int | None
    cached_tokens: int | None


async def collect(path: TokenStream) -> FinishedSample:
    """Read a path to its end."""
    text, generated, end = "", 0, End()
    async with aclosing(path) as chunks:
        async for chunk in chunks:
            part = as_part(chunk)
            text += part.text
            generated += len(part.tokens) + part.unread
            end = part if isinstance(part, End) else end
    return FinishedSample(text, generated, end.prompt_tokens, end.cached_tokens)
