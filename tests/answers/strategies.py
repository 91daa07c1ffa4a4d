"""Answers as hypothesis draws them: every kind, nested a little, and the noise that formatting adds."""

from __future__ import annotations

from hypothesis import strategies as st

integers = st.integers(-999, 9999).map(str)
decimals = st.decimals(-999, 999, places=3, allow_nan=False).map(str)
fractions = st.tuples(st.integers(-99, 99), st.integers(1, 99)).map(lambda p: f"\\frac{{{p[0]}}}{{{p[1]}}}")
symbols = st.sampled_from(["x", "y", "n", r"\theta", "x_1"])
atoms = st.one_of(integers, fractions, symbols, st.integers(2, 50).map(lambda n: f"\\sqrt{{{n}}}"), st.just(r"\pi"))


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        pairs.map(lambda p: f"{p[0]} + {p[1]}"),
        pairs.map(lambda p: f"({p[0]}) \\cdot ({p[1]})"),
        pairs.map(lambda p: f"\\frac{{{p[0]}}}{{{p[1]}}}"),
        inner.map(lambda e: f"\\left({e}\\right)^2"),
        inner.map(lambda e: f"\\sin({e})"),
        inner.map(lambda e: f"|{e}|"),
    )


expressions = st.recursive(atoms, _grown, max_leaves=5)
values = st.one_of(integers, decimals, fractions, expressions)
words = st.sampled_from(["even", r"\text{odd}", "no solution", r"\text{(C)}", "B", "Evelyn"])
rows = st.lists(values, min_size=2, max_size=3)
structures = st.one_of(
    rows.map(lambda r: "(" + ", ".join(r) + ")"),
    rows.map(lambda r: "\\{" + ", ".join(r) + "\\}"),
    rows.map(lambda r: "[" + r[0] + ", " + r[1] + ")"),
    rows.map(lambda r: "\\begin{pmatrix} " + " \\\\ ".join(r) + " \\end{pmatrix}"),
    values.map(lambda v: f"x = {v}"),
    st.tuples(values, values).map(lambda p: f"{p[0]} \\pm {p[1]}"),
    st.tuples(values, values).map(lambda p: f"{p[0]} = {p[1]}"),
)
answers = st.one_of(values, words, structures)

# What a canonical text may be too long or too strange to read again: each raised in some comparison.
long_numbers = st.one_of(
    st.integers(10**50, 10**700).map(str),
    st.tuples(st.integers(2, 99), st.integers(2, 900)).map(lambda p: f"{p[0]}^{{{p[1]}}}"),
    st.tuples(st.integers(10**20, 10**400), st.integers(10**20, 10**400)).map(lambda p: f"\\frac{{{p[0]}}}{{{p[1]}}}"),
    st.tuples(st.integers(0, 999), st.integers(2, 36)).map(lambda p: f"{p[0]}_{{{p[1]}}}"),
    st.tuples(st.integers(-99, 99), st.integers(10**12, 10**30)).map(lambda p: f"{p[0]}.{p[1]}"),
    st.integers(10, 190).map(lambda n: f"{n}!"),
)
calls = st.tuples(st.sampled_from("fghP"), st.one_of(long_numbers, expressions)).map(lambda p: f"{p[0]}({p[1]})")
monsters = st.one_of(
    long_numbers,
    calls,
    st.tuples(
        st.one_of(long_numbers, calls), st.sampled_from(["+", "-", "\\cdot "]), st.one_of(calls, expressions)
    ).map("".join),
    st.tuples(st.one_of(long_numbers, calls), st.one_of(long_numbers, calls)).map(lambda p: f"({p[0]}, {p[1]})"),
    st.tuples(symbols, st.one_of(long_numbers, calls)).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(calls, st.sampled_from(["=", "<", "\\approx"]), long_numbers).map(" ".join),
)

WRAPPERS = [
    "{}",
    " {} ",
    "${}$",
    "$${}$$",
    r"\({}\)",
    r"\[{}\]",
    "{}.",
    "{}. ",
    "\n{}\n",
    r"\displaystyle {}",
    "{{{}}}",
    "**{}**",
]
wrappers = st.sampled_from(WRAPPERS)


def noisy(answer: str, wrapper: str, fraction: str, sizing: bool, spaced: bool) -> str:
    """The same answer, written with more noise."""
    out = answer.replace("\\frac", fraction)
    if sizing:
        out = out.replace("\\left(", "(").replace("\\right)", ")")
        out = out.replace("(", "\\left(").replace(")", "\\right)")
    if spaced:
        for mark in ("+", "=", "(", ")", "|"):
            out = out.replace(mark, f" {mark} ").replace("\\left ", "\\left").replace("\\right ", "\\right")
    return wrapper.replace("{}", out) if wrapper != "{{{}}}" else "{" + out + "}"
