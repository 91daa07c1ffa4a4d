"""Our own algebra against plain floating point on the same tree: canonical forms keep the value."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sureenough import answers
from sureenough.answers.compare import are_equal, values_differ, values_of
from sureenough.answers.math.algebra import Sum, Unreadable, add, multiply, number, power, write
from sureenough.answers.math.parse import parse_expression
from sureenough.answers.math.tokens import tokenise

Value = Callable[[int], complex]  # at a point
Pair = tuple[str, Value]
POINTS = {name: [value[0] for value in values_of(parse_expression([name])) if value] for name in "xy"}


def _symbol(name: str) -> Pair:
    return name, lambda point: POINTS[name][point]


leaves: st.SearchStrategy[Pair] = st.one_of(
    st.integers(0, 60).map(lambda n: (str(n), lambda _: complex(n))),
    st.sampled_from(["x", "y"]).map(_symbol),
    st.integers(2, 99).map(lambda n: (f"\\sqrt{{{n}}}", lambda _: complex(math.sqrt(n)))),
    st.tuples(st.integers(1, 9), st.integers(1, 9)).map(
        lambda p: (f"\\frac{{{p[0]}}}{{{p[1]}}}", lambda _: complex(p[0] / p[1]))
    ),
    st.just(("\\pi", lambda _: complex(math.pi))),
    st.just(("i", lambda _: 1j)),
    st.integers(-12, 12).map(lambda n: (f"\\sin({n * 15}^\\circ)", lambda _: cmath.sin(math.radians(n * 15)))),
)


def _grown(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    two = st.tuples(inner, inner)
    return st.one_of(
        two.map(lambda p: (f"({p[0][0]} + {p[1][0]})", lambda t: p[0][1](t) + p[1][1](t))),
        two.map(lambda p: (f"({p[0][0]} - {p[1][0]})", lambda t: p[0][1](t) - p[1][1](t))),
        two.map(lambda p: (f"({p[0][0]}) \\cdot ({p[1][0]})", lambda t: p[0][1](t) * p[1][1](t))),
        two.map(lambda p: (f"\\frac{{{p[0][0]}}}{{{p[1][0]}}}", lambda t: p[0][1](t) / p[1][1](t))),
        st.tuples(inner, st.integers(-3, 4)).map(lambda p: (f"({p[0][0]})^{{{p[1]}}}", lambda t: p[0][1](t) ** p[1])),
        inner.map(lambda e: (f"\\cos({e[0]})", lambda t: cmath.cos(e[1](t)))),
        inner.map(lambda e: (f"\\tan({e[0]})", lambda t: cmath.tan(e[1](t)))),
        inner.map(lambda e: (f"|{e[0]}|", lambda t: complex(abs(e[1](t))))),
    )


trees = st.recursive(leaves, _grown, max_leaves=6)


@given(trees)
@settings(max_examples=400)
def test_a_canonical_form_has_the_value_of_what_was_written(pair: Pair) -> None:
    text, value = pair
    try:
        total = parse_expression(tokenise(text))
        expected = [value(point) for point in range(2)]
    except (Unreadable, ArithmeticError, ValueError):
        assume(False)
    assume(all(1e-3 < abs(v) < 1e6 for v in expected))
    for point, found in enumerate(values_of(total)):
        if found is not None and found[1] < 1e-6 * abs(found[0]):
            assert found[0] == pytest.approx(expected[point], rel=1e-5)


@given(trees)
@settings(max_examples=200)
def test_a_canonical_form_reads_back_as_itself(pair: Pair) -> None:
    key = answers.canonical_key(pair[0])
    if key.kind == "expression":
        assert write(key.value) == key.text


@given(trees, trees, st.integers(-9, 9), st.integers(1, 3))
@settings(max_examples=100)
def test_what_is_equal_is_never_refuted(one: Pair, two: Pair, shift: int, exponent: int) -> None:
    """(a + n)(b) and ab + nb, in whatever form: numbers must not refute it, nor exact arithmetic deny it."""
    try:
        a, b = parse_expression(tokenise(one[0])), parse_expression(tokenise(two[0]))
        b = power(b, exponent)
        left: Sum = multiply(add(a, number(shift)), b)
        right: Sum = add(multiply(a, b), multiply(number(shift), b))
    except Unreadable:
        assume(False)
    assert not values_differ(values_of(left), values_of(right))
    assert are_equal(left, right) is not False


def test_points_are_the_same_in_every_process() -> None:
    assert POINTS["x"] == pytest.approx([1.3954432, 43.2587399], rel=1e-6)
    assert all(value.real > 0 for values in POINTS.values() for value in values)
