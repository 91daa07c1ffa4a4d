"""How fast answers are read and grouped, beside math-verify on the same pairs.

    python benchmarks/answers.py [--smoke] [--fuzz [PAIRS GROUPS [PROCESSES]]] [POOL.parquet ...]

Prints each figure with its limit and exits 1 if a limit is exceeded; limits on time are multiples of what a fixed
piece of Python takes in the same run. `--smoke` takes a few seconds and leaves
math-verify out; a pool of recorded paths needs pyarrow. `--fuzz` checks the laws of the judge instead, by default on
200,000 pairs and 2,000 groups of 64.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import fuzz_answers
from sureenough import answers

canonical_module = importlib.import_module("sureenough.answers.math.key")
compare_module = importlib.import_module("sureenough.answers.compare")
FUZZ_PART = 100  # groups
FIXED_WORK_SECONDS = 0.0034  # of `_fixed_work` on the machine on which the limits were set
# Texts that made some reader of ours, or of others, look at the same characters again and again.
ADVERSARIAL: dict[str, Callable[[int], str]] = {
    "spaces after a label": lambda size: "answer" + " " * size + "x",
    "spaces": lambda size: " " * size + "5",
    "newlines": lambda size: "answer:" + "\n" * size + "5",
    "labels": lambda size: "answer: " * (size // 8),
    "announcements": lambda size: "the answer is " * (size // 14),
    "nested braces": lambda size: "{" * (size // 2) + "}" * (size // 2),
    "nested boxes": lambda size: "\\boxed{" * (size // 8) + "5" + "}" * (size // 8),
    "open boxes": lambda size: "\\boxed{" * (size // 7),
    "boxes in a row": lambda size: "\\boxed{1} and " * (size // 14),
    "boxes and spaces": lambda size: ("\\boxed" + " " * 500) * (size // 506),
    "asterisks": lambda size: "answer: " + "**" * (size // 2),
    "dollar signs": lambda size: "answer: " + "$" * size,
    "backslashes": lambda size: "\\" * size,
    "digits": lambda size: "answer: " + "7" * size,
    "thinking": lambda size: "<think>" * (size // 7) + "</think>5",
    "channels": lambda size: ("<|channel|>" + " " * 100) * (size // 111) + "final 5",
    "letters": lambda size: "the answer is A or B " * (size // 21),
}


def plain_answers(count: int, distinct: int) -> list[str]:
    """`count` answers that write `distinct` plain values in several ways."""
    random_ = random.Random(0)
    values = [random_.randrange(-500, 5000) for _ in range(distinct)]
    forms = ("{}", "${}$", "{}.0", "x = {}", "\\text{{{}}}", "{}.", "{}\\%", "{}^\\circ")
    return [random_.choice(forms).format(random_.choice(values)) for _ in range(count)]


MIXED = [
    r"\frac{3\sqrt{3}}{4}", "(a+5)(b+2)", r"\left( 3, \frac{\pi}{2} \right)", r"3 \pm 2 \sqrt{2}", "x=5",
    "1,000", r"\$18.90", r"(-\infty, 2) \cup (3, \infty)", r"\begin{pmatrix} -7 \\ 16 \\ 5 \end{pmatrix}",
    "0.5", r"\frac{1}{2}", "42", "-3", r"137 \frac{1}{2}", r"\text{Evelyn}", "5x - 7y + 11z + 4 = 0",
    "y = 2x + 3", r"11\sqrt{5}+11", "1+2i", "27", "100", "6", "3.21", r"90^\circ", "2k+2",
]  # fmt: skip


def forget() -> None:
    """Empty every cache, so that each figure is for answers not seen before."""
    canonical_module._cached_key.cache_clear()
    compare_module._values_of.cache_clear()
    compare_module._are_equal.cache_clear()


def best(action: Callable[[], Any], rounds: int = 5) -> float:
    least = float("inf")
    for _ in range(rounds):
        forget()
        began = time.thread_time()  # CPU time, which other processes do not add to
        action()
        least = min(least, time.thread_time() - began)
    return least


def slowness() -> float:
    """How much longer a fixed piece of Python takes now than on the machine on which the limits were set."""
    return max(1.0, cpu_seconds(_fixed_work) / FIXED_WORK_SECONDS)


def _fixed_work() -> None:
    counts: dict[str, int] = {}
    for number in range(20_000):
        word = str(number % 997)
        counts[word] = counts.get(word, 0) + len(word)
    assert len(counts) == 997


class Report:
    """Lines of figures; remembers whether all limits held. Limits on time grow with the machine's slowness."""

    def __init__(self) -> None:
        self.fine = True

    def line(self, what: str, value: float, unit: str, limit: float | None = None, note: str = "") -> None:
        if limit is not None and unit != "x":
            limit *= slowness()
        held = limit is None or value <= limit
        self.fine = self.fine and held
        margin = "MISSED" if limit is None or not held else f"{limit / value:.1f}x under"
        against = "" if limit is None else f"limit {limit:.3g} {unit}, {margin}"
        print(f"{what:<58}{value:>10.3f} {unit:<3} {against} {note}".rstrip())


def grouping(report: Report, smoke: bool) -> None:
    given = plain_answers(512, 40)
    ours = best(lambda: answers.classes(given)) * 1e3
    report.line("512 answers, 40 distinct plain values", ours, "ms", 50)
    if smoke:
        return
    pairs = len(given) * (len(given) - 1) // 2
    theirs = pairwise(given, 400) * pairs * 1e3
    report.line("  math-verify pairwise, 400 pairs extrapolated", theirs, "ms", None, f"{theirs / ours:,.0f}x ours")
    distinct = list(dict.fromkeys(given))
    theirs = pairwise(distinct, 400) * len(distinct) * (len(distinct) - 1) / 2 * 1e3
    report.line("  math-verify on distinct strings only", theirs, "ms", None, f"{theirs / ours:,.0f}x ours")


def pairwise(given: list[str], sample: int) -> float:
    """Seconds that math-verify takes for one pair, parsing included, both ways."""
    from math_verify import parse, verify

    pairs = list(itertools.combinations(given, 2))
    chosen = random.Random(1).sample(pairs, min(sample, len(pairs)))
    parse("$1$"), verify(parse("$1$"), parse("$2$"))
    began = time.perf_counter()
    for one, two in chosen:
        a, b = parse(f"${one}$"), parse(f"${two}$")
        if verify(a, b):
            verify(b, a)
    return (time.perf_counter() - began) / len(chosen)


def reading(report: Report) -> None:
    plain = list(dict.fromkeys(plain_answers(2000, 1000)))
    report.line("a key, plain values", best(lambda: [*map(answers.canonical_key, plain)]) / len(plain) * 1e6, "us", 40)
    report.line("a key, every kind", best(lambda: [*map(answers.canonical_key, MIXED)]) / len(MIXED) * 1e6, "us", 80)


def extraction(report: Report, smoke: bool) -> None:
    """Twice the text takes about twice as long, whatever the text; a ratio of 4 would be quadratic."""
    size, growth, slowest, name = 200_000 if smoke else 1_000_000, 0.0, 0.0, ""
    for shape, kind in itertools.product(ADVERSARIAL, ("math:fallback=last-number", "choice")):
        texts = [ADVERSARIAL[shape](size * factor) for factor in (1, 2, 4)]
        times = extraction_times(texts, kind)
        for _ in range(3):  # a busy machine can stretch one measurement, never all of them
            if worst_ratio(times) < 2.5:
                break
            times = [*map(min, times, extraction_times(texts, kind))]
        slowest = max(slowest, times[0])
        if worst_ratio(times) > growth:
            growth, name = worst_ratio(times), f"{shape}, {kind}"
    report.line(
        f"extract, {size / 1e6:g} MB, the slowest of {2 * len(ADVERSARIAL)} texts", slowest, "s", 0.3 * size / 1e6
    )
    report.line("extract, time for twice the text, the worst of them", growth, "x", 3, name)


def extraction_times(texts: Sequence[str], kind: str) -> list[float]:
    return [cpu_seconds(partial(answers.extract, text, kind)) for text in texts]


def worst_ratio(times: Sequence[float]) -> float:
    """The largest growth from one size to twice that size; below 5 ms a ratio is noise."""
    return max((long / short for short, long in itertools.pairwise(times) if short > 0.005), default=0.0)


def cpu_seconds(action: Callable[[], Any]) -> float:
    least = float("inf")
    for _ in range(5):
        began = time.thread_time()
        action()
        least = min(least, time.thread_time() - began)
    return least


def fuzz(pairs: int, groups: int, processes: int = 4) -> int:
    broken = fuzz_answers.pairs_that_break_a_law(pairs, seed=1)
    print(f"{pairs} pairs: {len(broken)} break a law", flush=True)
    for line in broken[:20]:
        print(" ", line[:300])
    differ, done = 0, 0
    while done < groups:  # in parts, because all of them take an hour
        part = min(FUZZ_PART, groups - done)
        differ += len(fuzz_answers.groups_that_differ(part, 64, 2 + done, processes))
        done += part
        orders = f"{processes} processes with {processes} orders"
        print(f"{done} groups of 64 in {orders}: {differ} partitions differ", flush=True)
    return 1 if broken or differ else 0


def pool(report: Report, path: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["question", "gold", "answer"]).to_pylist()
    given: dict[str, list[str | None]] = defaultdict(list)
    for row in table:
        given[row["question"]].append(row["answer"])
    distinct = list({answer for found in given.values() for answer in found if answer is not None})
    each = best(lambda: [*map(answers.canonical_key, distinct)], 2) / len(distinct) * 1e6
    report.line(f"{path.name}: a key, {len(distinct)} distinct answers", each, "us")
    forget()
    began = time.perf_counter()
    for own in given.values():
        answers.classes(own)
    report.line(f"{path.name}: {len(given)} questions grouped", time.perf_counter() - began, "s", 40)
    began = time.perf_counter()
    right = sum(answers.grade(row["gold"], row["answer"]) for row in table if row["gold"] is not None)
    report.line(f"{path.name}: {len(table)} graded", time.perf_counter() - began, "s", None, f"{right} right")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--fuzz", nargs="*", type=int, metavar="N", help="pairs and groups to check, and processes")
    parser.add_argument("pools", nargs="*", type=Path)
    options = parser.parse_args()
    if options.fuzz is not None:
        return fuzz(*(options.fuzz or (200_000, 2_000)))
    for _ in range(3):  # a virtual machine can be slow for a minute; three times in a row it is the code
        report = Report()
        grouping(report, options.smoke)
        reading(report)
        extraction(report, options.smoke)
        if report.fine:
            break
    for path in options.pools:
        pool(report, path)
    return 0 if report.fine else 1


if __name__ == "__main__":
    sys.exit(main())
