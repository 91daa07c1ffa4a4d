"""No answer holds the caller, fills the memory or is executed, and the next answer works as before."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import pytest

from sureenough import answers

from .hostile import HOSTILE, PAYLOADS

keys_module = importlib.import_module("sureenough.answers.math.key")
resource = pytest.importorskip("resource", reason="memory is measured where the system can")
MEMORY = 2**30  # bytes
OTHERS = ["5", "x+1", r"\sqrt{3+2\sqrt{2}}"]


def test_hostile_answers_end_in_little_memory() -> None:
    """A tower or an explosion that is written out takes hours and gigabytes."""
    for answer in HOSTILE:
        for other in (*OTHERS, f"{answer}+0", f"({answer})"):
            answers.explain(answer, other)
        answers.extract(f"\\boxed{{{answer}}}", "choice")
    assert answers.same("1/2", "0.5")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MEMORY


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_is_executed(payload: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = payload.replace("{}", str(mark)).replace("{{", "{").replace("}}", "}")
    for other in (*OTHERS, text, f"{text}+0"):
        answers.explain(text, other)
    assert not mark.exists()
    assert not list(tmp_path.iterdir())


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
