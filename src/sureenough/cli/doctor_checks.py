"""Does a server return what the strategies rely on? One check each, with the observation and a fix."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from sureenough.cli.cancel_timing import time_cancel
from sureenough.cli.doctor_samples import PROMPT, FinishedSample, client_cost, collect, continue_path, sample
from sureenough.cli.terminal import plural
from sureenough.drivers.prompt_growth import PromptGrowth
from sureenough.engines.local.engine import Local, LocalConnection
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.openai.connection import OpenAIConnection
from sureenough.engines.openai.logprobs import FIXES, enough
from sureenough.engines.openai.server_counters import settled_counters
from sureenough.engines.vllm.client import fetch_monitor_info
from sureenough.errors import CannotExtend, EngineError, EngineUnavailable

TRIED_K: Final = (128, 64, 32, 20, 10, 5, 1)
HALF: Final = 16
"""Tokens of the path that is cut and continued."""
NO_LOGPROBS: Final = "no log-probabilities to look at"
EXTEND_FIX: Final = (
    "only strategies with probes or a search need it; vLLM, SGLang and llama.cpp continue a last assistant message"
)
TEMPLATE_FIX: Final = (
    "only strategies with probes or a search need it; give the server a chat template that keeps the last message as "
    "it is (vLLM, SGLang: --chat-template FILE; llama.cpp: --chat-template-file FILE)"
)


class Check(NamedTuple):
    """The result of one check: passed, failed, or None if it cannot be decided."""

    name: str
    good: bool | None
    found: str
    fix: str = ""
    skipped_by: str | None = None  # the failed check that has the same cause


async def examine(engine: OpenAI | Local, on_check: Callable[[Check], None] | None = None) -> list[Check]:
    """Run all checks in turn. A server that cannot be reached is an error."""
    checks: list[Check] = []
    # llama.cpp's server closes a connection after a reply, perhaps when the next request is already on its way.
    if isinstance(engine, OpenAI):
        engine = replace(engine, reuse=False)
    async with engine.open(parallel=8) as ready:
        connection = ready.connection if isinstance(ready, LocalConnection) else ready
        for name, run in CHECKS.items():
            try:
                check = await run(connection)
            except EngineUnavailable:
                raise
            except EngineError as error:
                check = Check(name, False, str(error))
            check = _once(check, checks)
            checks.append(check)
            if on_check is not None:
                on_check(check)
    return checks


def _once(check: Check, earlier: list[Check]) -> Check:
    """A check that failed for the reason of an earlier one is skipped, so that every cause is named once."""
    if check.good is True:
        return check
    for other in earlier:
        same_error = other.found == check.found or (check.fix and other.fix == check.fix)
        if other.good is False and (same_error or check.found == NO_LOGPROBS):
            return Check(check.name, None, f"skipped, for the same reason as {other.name}", skipped_by=other.name)
    return check


async def check_top_k(connection: OpenAIConnection) -> Check:
    """Every token comes with k candidates, of which a few may have been merged."""
    probe = await sample(connection)
    sizes = sorted({len(values) for values in probe.columns})
    found = f"{len(probe.columns)} tokens with {' or '.join(map(str, sizes)) or 'no'} candidates each"
    whole = bool(sizes) and sizes[-1] >= 20 and enough(sizes[0], 20)
    return Check("top-k", whole, found, FIXES.format(k=20))


async def check_raw(connection: OpenAIConnection) -> Check:
    """Log-probabilities are the model's own, before temperature."""
    cold, hot = [await sample(connection, temperature=t, tokens=2) for t in (0.3, 1.5)]
    if not cold.columns or not hot.columns:
        return Check("raw", None, NO_LOGPROBS)
    pairs = zip(sorted(cold.columns[0])[-5:], sorted(hot.columns[0])[-5:], strict=False)
    difference = max(abs(a - b) for a, b in pairs)
    fix = "vLLM: --logprobs-mode raw_logprobs; SGLang: upgrade, or set SGLANG_RETURN_ORIGINAL_LOGPROB=1"
    return Check("raw", difference < 0.1, f"T = 0.3 and T = 1.5 differ by {difference:.3f} at the first token", fix)


async def check_distinct(connection: OpenAIConnection) -> Check:
    """Tokens have candidates of their own."""
    probe = await sample(connection, seed=3)
    if not probe.columns:
        return Check("distinct", None, NO_LOGPROBS)
    repeats = probe.repeats
    found = f"{repeats.repeats} of {repeats.tokens} tokens repeat the candidates of the token before"
    return Check("distinct", not repeats.repeated, found, "SGLang: upgrade, or --stream-interval 1")


async def check_seeds(connection: OpenAIConnection) -> Check:
    """The same seed gives the same path, and another seed another path."""
    one, again, other = [(await sample(connection, seed=seed)).text for seed in (11, 11, 12)]
    same = "gives the same path again" if one == again else "does not give the same path again"
    different = "another seed gives another path" if one != other else "another seed gives the same path"
    good = True if one == again and one != other else (None if one != other else False)
    fix = "voting works without seeds as long as paths differ, but runs cannot be repeated exactly"
    return Check("seeds", good, f"a seed {same}; {different}", fix)


async def check_closing(connection: OpenAIConnection) -> Check:
    """Closing the stream stops generation."""
    fix = "tokens are saved only if closing stops them: connect without a buffering proxy, or upgrade the server"
    before = await settled_counters(connection.transport, connection.address)
    if before is not None:
        probe = await sample(connection, tokens=1000, stop=8)
        after = await settled_counters(connection.transport, connection.address)
        if after is not None:
            more = after.generated - before.generated - max(len(probe.columns), probe.tokens)
            generated = f"{plural(more, 'more token')} {'was' if more == 1 else 'were'} generated"
            return Check("closing", more < 500, f"{generated} after the stream was closed", fix)
    timings = await time_cancel(partial(_timed_path, connection))
    return Check("closing", timings.good, str(timings), fix)


async def _timed_path(connection: OpenAIConnection, tokens: int, seed: int, on_first_token: Callable[[], None]) -> None:
    await sample(connection, seed=seed, tokens=tokens, on_tokens=on_first_token)


async def check_counting(connection: OpenAIConnection) -> Check:
    """Every token has its entry, or the server reports usage."""
    probe = await sample(connection, tokens=16)
    received = len(probe.columns)
    if probe.completion_tokens is None:
        return Check("counting", None, f"{received} tokens received; no usage", "only received tokens are counted")
    return Check("counting", True, f"{received} tokens received, {probe.completion_tokens} by the server's own count")


async def check_chunks(connection: OpenAIConnection) -> Check:
    """How many tokens come per chunk, and what they cost this client."""
    probe = await sample(connection, tokens=64)
    if not probe.columns:
        return Check("chunks", None, NO_LOGPROBS)
    mean = len(probe.columns) / len(probe.sizes)
    found = f"{mean:.1f} tokens per chunk; {client_cost(probe):.0f} us of CPU per token here, from bytes to decisions"
    return Check("chunks", True, found)


async def check_highest_k(connection: OpenAIConnection) -> Check:
    """The largest number of candidates that the server sends."""
    failure, replies = None, 0
    for k in TRIED_K:
        try:
            probe = await sample(connection, k=k, tokens=2)
        except EngineUnavailable:
            raise
        except EngineError as error:
            failure = error
            continue
        replies += 1
        if probe.columns and min(map(len, probe.columns)) >= k:
            return Check("highest k", k >= 20, f"{k} of those tried", FIXES.format(k=20))
    if failure is not None and not replies:
        raise failure
    return Check("highest k", False, "no log-probabilities at all", FIXES.format(k=20))


async def check_inside(connection: OpenAIConnection) -> Check:
    """Whether the server watches its own paths."""
    info = await fetch_monitor_info(connection.transport, connection.address)
    if info is None:
        return Check("inside", True, "the client watches the paths; vLLM can do so itself (docs/vllm.md)")
    found = f"the server watches its own paths (sureenough {info.version}, windows up to {info.window} tokens)"
    return Check("inside", True, found)


async def check_prompts(connection: OpenAIConnection) -> Check:
    """Whether paths of one question share the reading of its prompt."""
    prompt = replace(PROMPT, signals=False)
    short = connection.with_engine(replace(connection.engine, max_path_tokens=2))
    _, last = [await collect(short.stream(prompt, seed=seed)) for seed in (1, 2)]
    if last.cached_tokens is None:
        found = "the server does not say how much of a prompt it had cached; vLLM: --enable-prompt-tokens-details"
        return Check("prompts", True, found)
    shared = f"{last.cached_tokens} of {last.prompt_tokens} prompt tokens were cached for the second path"
    return Check("prompts", True, shared)


async def check_extend(connection: OpenAIConnection) -> Check:
    """The rest of a beginning is that of the unbroken path, and the whole beginning is read."""
    prompt = replace(PROMPT, signals=False)
    try:
        half = await continue_path(connection, prompt, "", HALF)
        if not half.text:
            return Check("extend", None, "the path is empty, so there is nothing to continue", EXTEND_FIX)
        whole = await continue_path(connection, prompt, "", 2 * HALF)
        if whole.tokens <= half.tokens:  # it has ended by itself
            half = await continue_path(connection, prompt, "", max(1, half.tokens // 2))
        rest = await continue_path(connection, prompt, half.text, 2 * HALF - half.tokens)
    except CannotExtend as error:  # a run that needs it ends with the same message
        return Check("extend", None, str(error), EXTEND_FIX)
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
        found = f"at T = 0, a beginning is not continued as the unbroken path{counts}"
        if growth.too_small or (read <= 0 and rest.text.startswith(half.text)):
            return Check("extend", False, f"{found}: the chat template drops it, or a part of it", TEMPLATE_FIX)
        return Check("extend", None, f"{found}; the chat template may change it", TEMPLATE_FIX)
    found = f"a beginning is continued as the unbroken path{counts}"
    if growth.too_small:
        return Check("extend", None, f"{found}: the chat template may drop a part of it", TEMPLATE_FIX)
    cached = "does not say how many tokens it had cached"
    if rest.cached_tokens is not None:
        cached = f"had {rest.cached_tokens} of {rest.prompt_tokens} cached"
    return Check("extend", True, f"{found}; the server {cached}")


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
