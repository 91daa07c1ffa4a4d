"""`watched_vllm.py all`: every phase in a process of its own, the most valuable first, within a limit of time.

A phase that fails or takes too long does not stop the others. The lines of a phase are appended to FOLDER/NAME.jsonl,
its errors to FOLDER/NAME.log, and what became of it is in FOLDER/state.json: the same command continues a run that was
cut off. Time that is left at the end goes to phases that were cut at their limit.

With --load-together all engines load at the start, side by side, and then wait for their turn, so that the minutes of
loading pass once; --cache-gb must then divide the GPU's memory. A second model (--second) is loaded with dummy weights.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Phase:
    """One measurement: the arguments of `watched_vllm.py`, and its limit in seconds, without loading."""

    name: str
    arguments: list[str]
    seconds: float
    engine: bool = False  # loads a model itself; otherwise it uses the server
    continues: bool = False  # can go on where it was cut
    takes_turns: bool = False  # waits for a file before each turn
    parts: tuple[Phase, ...] = ()  # phases that run side by side and take turns

    @property
    def processes(self) -> tuple[Phase, ...]:
        """What runs for it."""
        return self.parts or (self,)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `all`."""
    parser.add_argument("--out", type=Path, default=Path("results"), help="all: folder of results")
    parser.add_argument("--seconds", type=float, default=3600, help="all: limit of the whole run")
    parser.add_argument("--load-seconds", type=float, default=600, help="all: limit of loading a model")
    parser.add_argument("--load-together", action="store_true", help="all: load all engines at the start")
    parser.add_argument(
        "--cache-gb", help="all: cache of the server, of other engines, and of those of --second: 20,13,15"
    )
    parser.add_argument("--second", help="all: folder of a second model, which gets dummy weights")
    parser.add_argument("--second-sizes", default="512x448", help="all: paths x tokens of the second model's rates")
    parser.add_argument("--await-model", type=float, default=0, help="all: seconds until MODEL/config.json is written")
    parser.add_argument("--wide-paths", type=int, default=512, help="all: paths of the second table of questions")
    parser.add_argument("--wide-questions", type=int, default=10, help="all: questions of that table")
    parser.add_argument("--wide-seconds", type=float, default=900, help="all: limit of the second table of questions")
    parser.add_argument("--only", help="all: the names of some phases, divided by commas, in their order")
    parser.add_argument("--keep-servers", action="store_true", help="all: leave the servers running at the end")


def phases(options: argparse.Namespace) -> list[Phase]:
    """All phases that the options allow, the most valuable first; ValueError if --only names another one.

    Limits are one and a half times what docs/vllm.md leads to expect.
    """
    asked = ["--dataset", str(options.dataset), "--window", str(options.window), "--strategies", options.strategies]
    asked += ["--widths", *options.widths]
    wide = [*asked, "--paths", str(options.wide_paths), "--questions", str(options.wide_questions)]
    if options.deadline is not None:
        wide += ["--deadline", str(options.deadline)]
    sizes = ",".join(f"{paths}x{tokens}" for paths, tokens in options.sizes)
    plan = [
        Phase("questions-64", ["questions", "m", *asked, "--paths", str(options.paths)], 560, continues=True),
        rates("", options.model, ["--sizes", sizes]),
        Phase("decisions", ["decisions", "m", "--max-path-tokens", "256", "--window", "16"], 60),
        rates("-7B", str(options.second), ["--label", "7B", "--sizes", options.second_sizes]),
        Phase("questions-512", ["questions", "m", *wide], options.wide_seconds, continues=True),
    ]
    return allowed(plan, options)


def rates(suffix: str, model: str, arguments: list[str]) -> Phase:
    """Three ways to the same tokens, turn by turn: a machine that slows down slows all of them."""
    parts = (
        Phase(f"offline{suffix}", ["offline", model, *arguments], 280, engine=True, takes_turns=True),
        Phase(f"inprocess{suffix}", ["inprocess", model, *arguments], 120, engine=True, takes_turns=True),
        Phase(f"http{suffix}", ["http", "m", *arguments], 200, takes_turns=True),
    )
    return Phase(f"rates{suffix}", [], sum(part.seconds for part in parts), parts=parts)


def allowed(plan: list[Phase], options: argparse.Namespace) -> list[Phase]:
    """Those that --only names, or all for which nothing is missing."""
    by_name = {phase.name: phase for whole in plan for phase in (whole, *whole.parts)}
    missing = {} if options.dataset else dict.fromkeys(("questions-64", "questions-512"), "--dataset")
    missing |= {} if options.second else {name: "--second" for name, phase in by_name.items() if is_second(phase)}
    if not options.only:
        return [phase for phase in plan if phase.name not in missing]
    for name in options.only.split(","):
        if name not in by_name:
            raise ValueError(f"--only {name}: not a phase; the phases are {', '.join(by_name)}")
        if name in missing:
            raise ValueError(f"--only {name}: it needs {missing[name]}")
    return [by_name[name] for name in options.only.split(",")]


def is_second(phase: Phase) -> bool:
    """Whether a phase measures the second model."""
    return phase.name.endswith("-7B")
