"""Phases of `watched_vllm.py` for trained weights: questions by strategy, and the monitor's decisions."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from vllm_tables import read_rows

import sureenough as se
from sureenough import answers
from sureenough.core.confidence import Monitor, scan
from sureenough.core.pruning import Gate, Stratified
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.openai.logprobs import token_signals
from sureenough.engines.watch.protocol import K, WatchRequest, parse_summary

INSTRUCTION = " Put the final answer in \\boxed{}."
ALL_AT_ONCE, PLANNED = "all at once", "hurry 0.25"
WIDTHS = (ALL_AT_ONCE, PLANNED)
Cell = tuple[str, str]
"""A strategy and a width."""
SAMPLING: dict[str, Any] = {"temperature": 0.6, "top_p": 0.95}
COUNTING = "Count from 1 to 100 in words, then explain why there are infinitely many primes."
Signals = list[tuple[float, float]]
Watched = tuple[Signals, Any]
"""The signals of a path by its reply's log-probabilities, and its record."""


def questions(options: argparse.Namespace) -> None:
    """Seconds and tokens per question by strategy and width, stage by stage.

    All strategies of a stage answer one question before the next one's turn, so that a run that is cut off leaves a
    whole table, of fewer questions or of fewer strategies.
    """
    lines = [json.loads(line) for line in options.dataset.read_text().splitlines()][: options.questions]
    done = finished_questions(options.done)
    engine = OpenAI(
        options.url, options.model, max_path_tokens=options.max_path_tokens, extra={"seed": None}, **SAMPLING
    )
    se.ask(INSTRUCTION, engine, "sc", paths=2, parallel=2, hurry=None)  # the first request of a process is slow
    for stage in stages(options.strategies.split(",")):
        for number, line in enumerate(lines):
            for strategy, width in stage:
                if width in options.widths and (number, strategy, width, options.paths) not in done:
                    row = question(line, number, strategy, width, engine, options)
                    print(json.dumps(row), flush=True)


def stages(strategies: list[str]) -> list[list[Cell]]:
    """All strategies all at once; then with planned width, those that may run through wave after wave last.

    `sc` has no rule that stops it: its width is always the whole budget.
    """
    last: list[str] = [name for name in ("deepconf-low", "ac") if name in strategies]
    soon = [name for name in strategies if name not in ("sc", *last)]
    later = [soon, *[[name] for name in last]]
    return [[(name, ALL_AT_ONCE) for name in strategies], *[[(name, PLANNED) for name in names] for names in later]]


def question(
    line: dict[str, Any], number: int, strategy: str, width: str, engine: OpenAI, options: argparse.Namespace
) -> dict[str, Any]:
    """One question; the outcome of a run that failed is its error."""
    row = {"phase": "question", "number": number, "strategy": strategy, "width": width, "paths": options.paths}
    start = time.perf_counter()
    try:
        out = se.ask(
            line["question"] + INSTRUCTION,
            engine,
            strategy,
            paths=options.paths,
            parallel=options.paths,
            window=options.window,
            seed=number,
            hurry=0.25 if width == PLANNED else None,
            deadline=options.deadline,
        )
    except se.SureEnoughError as error:
        return row | {"error": str(error)[:300]}
    seconds = round(time.perf_counter() - start, 4)
    return row | {
        "seconds": seconds, "tokens": out.tokens.total, "discarded": out.tokens.discarded, "started": out.started,
        "pruned": out.pruned, "cached": out.tokens.cached, "prompt": out.tokens.prompt, "answer": out.answer,
        "reason": out.reason, "right": answers.grade(str(line["answer"]), out.answer),
    }  # fmt: skip


def finished_questions(path: Path | None) -> set[tuple[int, str, str, int]]:
    """The questions of an earlier run that have an outcome."""
    rows = read_rows(path) if path is not None and path.exists() else []
    return {(row["number"], row["strategy"], row["width"], row["paths"]) for row in rows if "seconds" in row}


def decisions(options: argparse.Namespace) -> None:
    """Decisions of the monitor against those that the reply's own log-probabilities lead to, on the same tokens."""
    asyncio.run(_decisions(options))


async def _decisions(options: argparse.Namespace) -> None:
    limits = httpx.Limits(max_connections=options.paths)
    async with httpx.AsyncClient(base_url=options.url, timeout=300, limits=limits) as client:
        messages = {"model": options.model, "messages": [{"role": "user", "content": COUNTING}]}
        tokenized = await client.post(options.url.removesuffix("v1") + "tokenize", json=messages)
        prompt = tokenized.raise_for_status().json()["tokens"]
        warmup = await asyncio.gather(*[_path(client, options, prompt, Gate()) for _ in range(16)])
        columns = [np.array(signals).T for signals, _ in warmup]
        windows = [scan(peak, conf, options.window) for peak, conf in columns]
        gate = Stratified(trust=99.0, drop=2.0)(windows)
        paths = await asyncio.gather(*[_path(client, options, prompt, gate) for _ in range(options.paths)])
    print(json.dumps({"phase": "decisions", **comparison(warmup, paths, options.window, gate)}), flush=True)


def comparison(warmup: list[Watched], paths: list[Watched], window: int, gate: Gate) -> dict[str, Any]:
    """Where the monitor and the client end each path, and how far their signals differ."""
    inside = [summary.tokens if summary.tier else None for _, summary in paths]
    client = [first_failure(signals, window, gate) for signals, _ in paths]
    differences = [
        float(np.abs(np.array(signals) - summary.signals).max()) for signals, summary in [*warmup, *paths] if signals
    ]
    return {
        "paths": len(paths),
        "tokens": sum(len(signals) for signals, _ in paths),
        "pruned inside": sum(token is not None for token in inside),
        "pruned by the client": sum(token is not None for token in client),
        "decisions that differ": [(token, own) for token, own in zip(client, inside, strict=True) if token != own],
        "largest difference of a signal": max(differences),
        "gate": [gate.trust, gate.drop, gate.risk],
    }


async def _path(client: httpx.AsyncClient, options: argparse.Namespace, prompt: list[int], gate: Gate) -> Watched:
    """Sample one path.

    A plain completion has the sampled token beside the 20 likeliest; in a chat reply it takes the place of one.
    """
    request = WatchRequest(secrets.token_urlsafe(18), options.window, gate, trace=True)
    body = {
        "model": options.model, "prompt": prompt, "temperature": 1.0, "max_tokens": options.max_path_tokens,
        "logprobs": K, "return_tokens_as_token_ids": True, "vllm_xargs": request.to_arguments(),
    }  # fmt: skip
    reply = (await client.post("/completions", json=body)).raise_for_status().json()
    tokens = reply["usage"]["completion_tokens"]
    record = await client.get(f"/sureenough/paths/{request.key}", params={"tokens": tokens})
    candidates = reply["choices"][0]["logprobs"]["top_logprobs"]
    signals = [token_signals(sorted(entry.values(), reverse=True)[:K], K) for entry in candidates]
    return signals, parse_summary(record.json(), options.window)


def first_failure(signals: Signals, window: int, gate: Gate) -> int | None:
    """The number of the token at which a client prunes a path with these signals."""
    path = Monitor(window)
    for number, (peak, conf) in enumerate(signals, 1):
        if path.push(peak, conf) and gate.tier(path):
            return number
    return None
