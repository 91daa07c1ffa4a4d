"""Random answers against the laws of the judge; run as `python benchmarks/answers.py --fuzz`.

For every pair: no error, the same verdict both ways, and `classes` agrees with `same`. For every group: the same
partition in several processes, each with an order of its own, all running at once on the same machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence

from sureenough import answers

SYMBOLS = ("x", "y", "n", "a", r"\theta", "x_1", r"\pi", "e", "i", "AB", r"\mu_{kinetic}")
WORDS = (
    "no solution", "even", r"\text{odd}", "5 feet 6 inches", "3 or more", "4:30 p.m.", "(C)", r"\text{(E)}", "IV",
    "five",
)  # fmt: skip
NOISE = r"""\frac \sqrt { } ( ) [ ] ^ _ 1 20 x + - \pm , \cup \{ \} | = < \le \sin \log \text{ \begin{pmatrix} & \\ ! %
    : ² ₁ \text{ } \approx \in and or""".split()
IDENTITIES = (  # @ stands for a symbol
    (r"\sin 2@", r"2\sin @\cos @"), (r"\cos 2@", r"1-2\sin^2 @"), (r"|@|^2", r"@^2"), (r"\sqrt{@^2}", r"|@|"),
    (r"(@+1)^2", r"@^2+2@+1"), (r"\frac{@^2-1}{@-1}", r"@+1"), (r"\tan @", r"\frac{\sin @}{\cos @}"),
    (r"\sin 3@", r"3\sin @-4\sin^3 @"), (r"\sqrt{3+2\sqrt2}+@", r"1+\sqrt2+@"),
)  # fmt: skip


def number(rng: random.Random) -> str:
    return rng.choice(
        (
            lambda: str(rng.randint(-99, 999)),
            lambda: f"{rng.uniform(-9, 9):.{rng.randint(1, 14)}f}",
            lambda: f"\\frac{{{rng.randint(-20, 20)}}}{{{rng.randint(0, 20)}}}",
            lambda: f"{rng.randint(1, 99)},{rng.randint(0, 999):03}",
            lambda: f"{rng.randint(0, 77)}_{{{rng.randint(2, 16)}}}",
            lambda: f"{rng.randint(2, 12)}^{{{rng.randint(-3, 900)}}}",
            lambda: str(rng.randrange(10 ** rng.randint(1, 500))),
            lambda: f"{rng.randint(1, 12)}!",
            lambda: f"\\sqrt{{{rng.randint(0, 60)}}}",
            lambda: f"{rng.randint(1, 99)}\\%",
            lambda: f"{rng.randint(1, 9)} million",
        )
    )()


def expression(rng: random.Random, depth: int = 2) -> str:
    if depth == 0:
        return number(rng) if rng.random() < 0.5 else rng.choice(SYMBOLS)
    one, two = expression(rng, depth - 1), expression(rng, depth - 1)
    forms: tuple[Callable[[], str], ...] = (
        lambda: f"{one}+{two}",
        lambda: f"{one} - {two}",
        lambda: f"({one})({two})",
        lambda: f"\\frac{{{one}}}{{{two}}}",
        lambda: f"\\left({one}\\right)^{{{rng.randint(-2, 4)}}}",
        lambda: f"\\sqrt{{{one}}}",
        lambda: f"{rng.choice('fgh')}({one})",
        lambda: f"\\sin({one})",
        lambda: f"\\log_{{2}}({one})",
        lambda: f"|{one}|",
        lambda: f"\\lfloor {one} \\rfloor",
        lambda: one,
    )
    return rng.choice(forms)()


def answer(rng: random.Random) -> str:
    one, two = expression(rng, rng.randint(0, 2)), expression(rng, rng.randint(0, 2))
    forms: tuple[Callable[[], str], ...] = (
        lambda: one,
        lambda: one,
        lambda: number(rng),
        lambda: f"x={one}",
        lambda: f"{one}={two}",
        lambda: f"x={one}, y={two}",
        lambda: f"{one}, {two}",
        lambda: f"({one}, {two})",
        lambda: f"[{one}, {two})",
        lambda: f"\\{{{one}, {two}\\}}",
        lambda: f"x > {one}",
        lambda: f"{one} \\pm {two}",
        lambda: f"{one} \\text{{ cm}}",
        lambda: f"P(A) \\approx {one}",
        lambda: f"\\begin{{pmatrix}} {one} \\\\ {two} \\end{{pmatrix}}",
        lambda: rng.choice(WORDS),
        lambda: " ".join(rng.choices(NOISE, k=rng.randint(1, 12))),
        lambda: "".join(chr(rng.choice((rng.randrange(32, 127), rng.randrange(160, 0x2FFF)))) for _ in range(8)),
    )
    return rng.choice(forms)()


def rewritten(rng: random.Random, text: str) -> str:
    """The same answer in another form, or nearly the same."""
    forms: tuple[Callable[[], str], ...] = (
        lambda: f"${text}$",
        lambda: f"{text}+0",
        lambda: f"1\\cdot({text})",
        lambda: text.replace("\\frac", "\\dfrac"),
        lambda: f"x = {text}",
        lambda: f"\\text{{{text}}}",
        lambda: text.replace("+", "-", 1),
        lambda: text[: len(text) // 2],
    )
    return rng.choice(forms)()


def pair(rng: random.Random) -> tuple[str, str]:
    one = answer(rng)
    if rng.random() < 0.1:
        symbol = rng.choice(SYMBOLS[:5])
        left, right = rng.choice(IDENTITIES)
        return left.replace("@", symbol), right.replace("@", symbol)
    return one, rewritten(rng, one) if rng.random() < 0.5 else answer(rng)


def pairs_that_break_a_law(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    broken: list[str] = []
    for _ in range(count):
        one, two = pair(rng)
        try:
            forward, backward = answers.explain(one, two), answers.explain(two, one)
            if str(forward) != str(backward):
                broken.append(f"{one!r} | {two!r}: {forward} / {backward}")
            if "internal error" in str(forward):
                broken.append(f"{one!r} | {two!r}: {forward}")
            together = len(set(answers.classes([one, two]))) == 1
            if together != forward.same:
                broken.append(f"{one!r} | {two!r}: {forward}, but classes say {together}")
            answers.grade(one, two, percent=True, rounding=True, decimal_comma=True)
        except Exception as error:
            broken.append(f"{one!r} | {two!r}: raised {error!r}")
    return broken


def group_of(rng: random.Random, size: int) -> list[str]:
    """Answers of one question: some of their own, and many forms of the same few."""
    seeds = [answer(rng) for _ in range(size // 4)]
    symbol = rng.choice(SYMBOLS[:5])
    identity = [form.replace("@", symbol) for form in rng.choice(IDENTITIES)]
    return [*identity, *seeds, *(rewritten(rng, rng.choice(seeds)) for _ in range(size - len(seeds) - 2))]


def partitions(groups: int, size: int, seed: int, order: int) -> list[str]:
    """A digest of every group's partition, with the answers in an order of its own."""
    rng, shuffler = random.Random(seed), random.Random(order)
    digests = []
    for _ in range(groups):
        members = group_of(rng, size)
        places = list(range(len(members)))
        shuffler.shuffle(places)
        classes = dict(zip(places, answers.classes([members[place] for place in places]), strict=True))
        first: dict[int | None, int] = {}
        partition = [first.setdefault(classes[place], place) for place in range(len(members))]
        digests.append(hashlib.sha256(json.dumps(partition).encode()).hexdigest())
    return digests


def groups_that_differ(groups: int, size: int, seed: int, processes: int = 4) -> list[int]:
    command = [sys.executable, os.path.abspath(__file__), str(groups), str(size), str(seed)]
    children = [
        subprocess.Popen([*command, str(order)], stdout=subprocess.PIPE, text=True, env={**os.environ})
        for order in range(processes)
    ]
    results = [json.loads(child.communicate()[0]) for child in children]
    return [at for at, digests in enumerate(zip(*results, strict=True)) if len(set(digests)) > 1]


def main(arguments: Sequence[str]) -> None:
    print(json.dumps(partitions(*map(int, arguments))))


if __name__ == "__main__":
    main(sys.argv[1:])
