"""Makes the texts of the frozen files. `python -m tests.frozen.make` writes them all, or those that are named."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import httpx

import sureenough as se
from sureenough.bench.paper import EXPERIMENTS, single_paths
from sureenough.bench.pipeline import Source
from sureenough.bench.tables import Measure
from sureenough.data import BUILTIN_POOL, PROBLEMS_POOL
from sureenough.engines.base import End, as_part
from sureenough.pools import Pool, write_pool
from sureenough.server import ServerSettings
from tests.bench.making import inputs
from tests.engines.misbehaving import Manner
from tests.engines.raw_server import CHUNKED_HEAD, RawServer, chunked, raw_server
from tests.server.sending import BODY
from tests.server.serving import ours
from tests.server.upstream import KEY, an_upstream

HERE: Final = Path(__file__).parent
STRATEGIES: Final = (
    "sc ac esc cisc reasc deepconf-low deepconf-high ddc ddc-unweighted ddc-no-width ddc-no-trend ddc-no-depth "
    "ddc:weight=mean ddc:weight=unit ddc:warmup=8,risk=p90 sure sure:weigh=count sure:weigh=tail"
).split()
WIDTHS: Final = ((1, None), (4, None), (4, 0.6), (16, None), (16, 0.6))
"""How many paths run at once, and the hurry: None is all that may run."""
COUNTS: Final = ("total", "init", "kept", "pruned", "discarded", "failed", "overrun")
PAPER: Final = (
    "main", "ablation", "width", "latency", "init-size", "window", "fence", "scaling", "calibration", "theorem",
)  # fmt: skip


def run_options(parallel: int, hurry: float | None) -> dict[str, Any]:
    """The options of a run of this width."""
    return {"parallel": parallel} if hurry is None else {"parallel": parallel, "hurry": hurry}


def digest(value: object) -> str:
    """A few characters that stand for a value."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:8]


def outcome_values(out: se.Outcome) -> tuple[object, ...]:
    """What a run decided and what it cost."""
    spent = tuple(getattr(out.tokens, name) for name in COUNTS)
    return out.answer, out.reason, tuple(out.votes.items()), spent, out.started, out.pruned, out.steps


def replay() -> Iterator[str]:
    """Every strategy at every width on every question: totals, then a digest per question."""
    for pool in (BUILTIN_POOL, PROBLEMS_POOL):
        questions = list(Pool(pool))
        for strategy in STRATEGIES:
            for parallel, hurry in WIDTHS:
                outs = [
                    se.replay(question.paths, strategy, window=64, **run_options(parallel, hurry))
                    for question in questions
                ]
                totals = [sum(getattr(out.tokens, name) for out in outs) for name in COUNTS]
                steps, started = sum(out.steps for out in outs), sum(out.started for out in outs)
                yield f"{pool.stem} {strategy} parallel={parallel} hurry={hurry} tokens={totals} {steps=} {started=}"
                yield "  " + " ".join(digest(outcome_values(out)) for out in outs)


def compare() -> Iterator[str]:
    """The rows of comparisons: learning from question to question, intervals, repeats."""
    fields = ("strategy", "accuracy", "interval", "difference", "difference_interval", "tokens", "steps", "reasons")
    for parallel, hurry in ((1, None), (16, None), (16, 0.6)):
        rows = se.compare(BUILTIN_POOL, STRATEGIES, repeats=1, window=64, **run_options(parallel, hurry))
        for row in rows:
            yield f"parallel={parallel} hurry={hurry} " + " ".join(f"{f}={getattr(row, f)!r}" for f in fields)
    for row in se.compare(PROBLEMS_POOL, ["sc", "ac", "ddc", "sure"], paths=24, repeats=3, seed=5):
        yield "problems " + " ".join(f"{name}={getattr(row, name)!r}" for name in fields)


def bench() -> Iterator[str]:
    """Tables and figures of the experiments, on every fifth question of the built-in pool and on the other pool."""
    with patch.object(single_paths, "LONG", 64), tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part.parquet"
        pool = Pool(BUILTIN_POOL)
        write_pool(part, list(pool)[::5], pool.info)
        for name in PAPER:
            yield from _experiment(name, Source.of(part), Source.of(PROBLEMS_POOL))


def _experiment(name: str, *sources: Source) -> Iterator[str]:
    live = EXPERIMENTS[name].live != "no"
    result = EXPERIMENTS[name].run(inputs(*sources, live=live, repeats=1))
    for table in result.tables:
        yield f"{name} table {table.name}: {[column.title for column in table.columns]}"
        yield from (f"  {_cells(row)}" for row in table.rows)
    for figure in result.figures:
        yield f"{name} figure {figure.name} ({figure.kind}): {figure.x.title}, {figure.y.title}"
        yield from (f"  {line.name}: {len(line.y)} points {digest((line.x, line.y))}" for line in figure.series)


def _cells(row: list[Any]) -> list[Any]:
    return [(cell.value, cell.low, cell.high) if isinstance(cell, Measure) else cell for cell in row]


def streams() -> Iterator[str]:
    """What the client makes of servers' streams, whole and cut into pieces of seven bytes."""
    for recording in sorted((HERE / "streams").glob("*.sse")):
        for options in _STREAM_OPTIONS:
            for size in (1 << 20, 7):
                yield f"{recording.stem} {options} in pieces of {size}"
                yield from (f"  {line}" for line in asyncio.run(_received(recording.read_bytes(), size, options)))


_STREAM_OPTIONS: Final[tuple[dict[str, Any], ...]] = ({"signals": True}, {"signals": False})


async def _received(body: bytes, size: int, options: Mapping[str, Any]) -> list[str]:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
        writer.write(CHUNKED_HEAD + b"".join(chunked(body[at : at + size]) for at in range(0, len(body), size)))
        writer.write(chunked(b""))
        await writer.drain()

    async with raw_server(answer) as server:
        engine = se.OpenAI(server.url, "m", retries=0)
        text, tokens, unread, lines = "", [], 0, []
        try:
            async with (
                engine.open(parallel=1) as ready,
                aclosing(ready.stream(se.Prompt.user("?", signals=options["signals"]), seed=1)) as chunks,
            ):
                async for chunk in chunks:
                    part = as_part(chunk)
                    text += part.text
                    tokens += [tuple(token) for token in part.tokens]
                    unread += part.unread
                    if isinstance(part, End):
                        lines.append(f"finish={part.finish} prompt={part.prompt_tokens} cached={part.cached_tokens}")
        except se.SureEnoughError as error:
            lines.append(f"{type(error).__name__}: {error}".replace(server.url, "URL"))
    return [f"{text=}", f"{tokens=}", f"{unread=}", *lines]


REQUESTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("/v1/chat/completions", {}),
    *(("/v1/chat/completions", {"model": f"tiny@{name}", "sureenough": {"paths": 20}})
      for name in ("ac", "ddc", "sure", "deepconf-low", "esc")),
    ("/v1/chat/completions", {"stream": True}),
    ("/v1/chat/completions", {"stream": True, "stream_options": {"include_usage": True}, "model": "tiny@ddc",
                              "sureenough": {"paths": 20}}),
    ("/v1/chat/completions", {"model": "tiny"}),
    ("/v1/chat/completions", {"model": "tiny", "sureenough": None}),
    ("/v1/chat/completions", {"model": "tiny@nothing"}),
    ("/v1/chat/completions", {"model": "tiny@ddc:tau=2"}),
    ("/v1/chat/completions", {"n": 3}),
    ("/v1/chat/completions", {"sureenough": {"paths": 0}}),
    ("/v1/chat/completions", {"sureenough": {"pathz": 4}}),
    ("/v1/chat/completions", {"messages": []}),
    ("/v1/completions", {"prompt": "3 + 4?", "messages": None}),
)  # fmt: skip


def serve() -> Iterator[str]:
    """Replies of the server before a fast upstream, one path at a time."""
    with an_upstream(Manner()) as upstream:
        settings = ServerSettings(upstream=upstream.url, upstream_key=KEY, window=4)
        with ours(settings) as (url, _):
            for path, fields in REQUESTS:
                body = {name: value for name, value in (BODY | fields).items() if value is not None}
                run = {"sureenough": {"parallel": 1} | body["sureenough"]} if "sureenough" in body else {}
                reply = httpx.post(f"{url}{path}", json=body | run, timeout=60)
                yield f"{path} {json.dumps(fields)}: {reply.status_code} {reply.headers['content-type']}"
                yield from _stable(reply.text)
            yield "/v1/models"
            yield from _stable(httpx.get(f"{url}/v1/models").text)


GONE: Final = frozenset("count planned min_parallel eager probe probes ended_by_probe uncounted_votes".split())
"""Fields that left the reply with the features that they were of."""
VARYING: Final = frozenset("id created run seconds overrun total completion_tokens total_tokens".split())


def _stable(text: str) -> Iterator[str]:
    """The lines of a reply without what changes from run to run, and without lists of names."""
    for line in text.splitlines():
        start, brace, rest = line.partition("{")
        if brace:
            yield f"  {start}{json.dumps(_kept(json.loads(brace + rest)), ensure_ascii=False)}"
        elif line and not line.startswith(": sureenough"):  # progress, which depends on time
            yield f"  {line}"


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "…" if key in VARYING else _kept(of) for key, of in value.items() if key not in GONE}
    if isinstance(value, list):
        return [_kept(one) for one in value]
    return re.sub(r"known: .*", "known: …", value) if isinstance(value, str) else value


FILES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "replay.txt": replay,
    "compare.txt": compare,
    "bench.txt": bench,
    "streams.txt": streams,
    "serve.txt": serve,
}


def text_of(name: str) -> str:
    """The text of a frozen file, made again."""
    return "\n".join([*FILES[name](), ""])


if __name__ == "__main__":
    for file in sys.argv[1:] or FILES:
        (HERE / file).write_text(text_of(file))
