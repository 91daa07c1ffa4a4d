"""No answer holds the caller, fills the memory or is executed, and the next answer works as before."""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from pathlib import Path

import pytest

from sureenough import answers

from .hostile import HOSTILE, PAYLOADS

keys_module = importlib.import_module("sureenough.answers.math.key")
resource = pytest.importorskip("resource", reason="memory is measured where the system can")
LONGEST = 5.0  # seconds, on a busy machine
MEMORY = 2**30  # bytes
OTHERS = ["5", "x+1", r"\sqrt{3+2\sqrt{2}}"]


@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answer(answer: str) -> None:
    for other in (*OTHERS, answer + " ", f"{answer}+0", f"({answer})"):
        began = time.perf_counter()
        verdict = answers.explain(answer, other)
        answers.classes([answer, other, None])
        assert time.perf_counter() - began < LONGEST, (answer[:60], other[:60], str(verdict))
    began = time.perf_counter()
    answers.extract(answer)
    answers.extract(f"\\boxed{{{answer}}}", "choice")
    assert time.perf_counter() - began < LONGEST
    assert answers.same("1/2", "0.5")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_is_executed(payload: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = payload.replace("{}", str(mark)).replace("{{", "{").replace("}}", "}")
    for other in (*OTHERS, text, f"{text}+0"):
        answers.explain(text, other)
    assert not mark.exists()
    assert not list(tmp_path.iterdir())


def test_memory_stays_small() -> None:
    """Runs last in this file: the most that this process ever held."""
    for answer in HOSTILE:
        answers.explain(answer, "x+1")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MEMORY


def test_a_caller_deep_in_its_own_stack_gets_a_key_too() -> None:
    """Our depth is bounded, the caller's is not: what cannot be read there is compared by its text."""
    answer = "x^{" * 12 + "y" + "}" * 12

    def deep(left: int) -> str:
        return deep(left - 1) if left else answers.canonical_key(answer).kind

    kinds = set()
    for room in range(40, 260, 10):
        keys_module._cached_key.cache_clear()
        frames = len(inspect.stack(0))
        kinds.add(deep(sys.getrecursionlimit() - frames - room))
    assert kinds == {"text", "expression"}
    keys_module._cached_key.cache_clear()
    assert answers.canonical_key(answer).kind == "expression"
