"""Generated problems of whole-number arithmetic in five levels, with exact answers, from a seed.

The built-in model is trained on them; they are the dataset `arith`. Four families make them: nested arithmetic, linear
equations with one whole-number solution, remainders, and short word problems.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import add, floordiv, mod, mul, sub
from random import Random
from typing import Any, Final, NamedTuple

from sureenough.errors import UsageError


@dataclass(frozen=True, slots=True)
class GeneratedProblem:
    """A generated question; the same level, seed and number always give the same one."""

    family: str
    question: str
    gold: str
    core: Any  # the expression that a worked solution starts from
    level: int = 0
    id: str = ""


class Op(NamedTuple):
    """An operation on two expressions; whoever builds a division makes it exact."""

    sign: str
    left: Tree
    right: Tree


Tree = int | Op
RANK: Final = {"+": 1, "-": 1, "*": 2, "/": 2}
APPLY: Final[dict[str, Callable[[int, int], int]]] = {"+": add, "-": sub, "*": mul, "/": floordiv, "mod": mod}


def value(tree: Tree) -> int:
    if isinstance(tree, int):
        return tree
    return APPLY[tree.sign](value(tree.left), value(tree.right))


def write(tree: Tree, space: str = "") -> str:
    """The expression in usual notation, with the brackets that it needs."""
    if isinstance(tree, int):
        return str(tree)
    left, right = write(tree.left, space), write(tree.right, space)
    if _rank(tree.left) < RANK[tree.sign]:
        left = f"({left})"
    # a-(b+c) and a/(b*c) need theirs; a+(b-c) and a*(b*c) keep them too, so that the tree can be read back.
    if _rank(tree.right) <= RANK[tree.sign]:
        right = f"({right})"
    return f"{left}{space}{tree.sign}{space}{right}"


def _rank(tree: Tree) -> int:
    return 3 if isinstance(tree, int) else RANK[tree.sign]


def _form(rng: Random, forms: tuple[str, ...]) -> str:
    """The usual wording of a question, or now and then another one."""
    return rng.choice(forms) if rng.random() < 0.5 else forms[0]


# -- nested arithmetic


class Size(NamedTuple):
    """The size of a level's expressions."""

    operations: tuple[int, int]
    number: int  # the largest operand
    factors: tuple[int, int]  # the largest factors of a product


LARGEST_RESULT: Final = 10_000_000
SIZES: Final = {
    1: Size((1, 2), 40, (40, 25)),
    2: Size((2, 3), 99, (99, 12)),
    3: Size((3, 4), 200, (99, 99)),
    4: Size((4, 6), 999, (999, 99)),
    5: Size((6, 8), 999, (9999, 999)),
}
NESTED_FORMS: Final = ("What is {}?", "Compute {}.", "Calculate {}.", "Evaluate {}.", "{}", "{} = ?", "How much is {}?")
SIGNS: Final = (
    {"*": "×", "/": "÷"},
    {"*": " x ", "+": " + ", "-": " - ", "/": " / "},
    {"+": " plus ", "-": " minus ", "*": " times ", "/": " divided by "},
)
"""Other ways to write the four signs, used now and then."""


def make_nested(rng: Random, level: int) -> GeneratedProblem:
    size = SIZES[level]
    tree = grow(rng, rng.randint(*size.operations), size)
    form = _form(rng, NESTED_FORMS)
    if rng.random() < 0.85:
        written = write(tree, rng.choice(("", " ")))
    else:
        signs = rng.choice(SIGNS)
        written = "".join(signs.get(letter, letter) for letter in write(tree))
    return GeneratedProblem("nested", form.format(written), str(value(tree)), tree)


def grow(rng: Random, operations: int, size: Size) -> Tree:
    """A random expression with this number of operations, without negative or too large intermediate results."""
    large, small = size.factors
    if operations == 0:
        return rng.randint(2, size.number)
    if operations == 1 and rng.random() < 0.12:
        divisor = rng.randint(2, min(small, 30))
        return Op("/", divisor * rng.randint(2, max(3, size.number // 8)), divisor)
    before = rng.randint(0, operations - 1)
    left, right = grow(rng, before, size), grow(rng, operations - 1 - before, size)
    a, b = value(left), value(right)
    if rng.random() < 0.5 and isinstance(right, int) and 1 < a <= large:
        factor = 2 + right % (small - 1)
        if a * factor <= LARGEST_RESULT:
            return Op("*", left, factor)
    if rng.random() < 0.5 or a + b > LARGEST_RESULT:
        return Op("-", left, right) if a >= b else Op("-", right, left)
    return Op("+", left, right)


# -- linear equations


class Equation(NamedTuple):
    """outer*(a*x+b) + more*x + add = c*x + d, with the solution x; outer is 1 and more is 0 if they are not written."""

    a: int
    b: int
    x: int
    c: int = 0
    outer: int = 1
    more: int = 0
    add: int = 0

    @property
    def d(self) -> int:
        return (self.outer * self.a + self.more - self.c) * self.x + self.outer * self.b + self.add


LINEAR_FORMS: Final = (
    "Solve for x: {}.", "Solve {}.", "Find x if {}.", "If {}, what is x?", "What is x when {}?", "Solve {} for x.",
)  # fmt: skip


def make_linear(rng: Random, level: int) -> GeneratedProblem:
    equation = EQUATIONS[level](rng)
    form = _form(rng, LINEAR_FORMS)
    left = terms(equation.a, equation.b)
    if equation.outer > 1:
        left = f"{equation.outer}({left})"
    if equation.more:
        left += f"+{_times(equation.more)}"
    written = f"{left}{_signed(equation.add)}={terms(equation.c, equation.d)}"
    if rng.random() < 0.3:
        written = "".join(f" {letter} " if letter in "+-=" else letter for letter in written)
    return GeneratedProblem("linear", form.format(written), str(equation.x), equation)


def terms(factor: int, number: int) -> str:
    """`factor*x + number`, without terms that are zero."""
    return _times(factor) + _signed(number) if factor else str(number)


def _times(factor: int) -> str:
    return "x" if factor == 1 else f"{factor}x"


def _signed(number: int) -> str:
    return f"{number:+}" if number else ""


def _either_sign(rng: Random, low: int, high: int) -> int:
    return rng.randint(low, high) * rng.choice((1, 1, -1))


def _shift(rng: Random) -> Equation:
    a, x = rng.choice((1, 1, rng.randint(2, 9))), rng.randint(2, 30)
    b = _either_sign(rng, 2, 30) if a == 1 else 0
    return Equation(a, b, x + max(0, -b))


def _two_steps(rng: Random) -> Equation:
    return Equation(rng.randint(2, 12), _either_sign(rng, 2, 99), rng.randint(2, 60))


def _both_sides(rng: Random) -> Equation:
    c, x, b = rng.randint(2, 30), rng.randint(2, 99), _either_sign(rng, 2, 99)
    return Equation(c + rng.randint(2, 20), b, x, c)


def _brackets(rng: Random) -> Equation:
    outer, a, b = rng.randint(3, 30), rng.randint(2, 12), _either_sign(rng, 2, 99)
    x, add = rng.randint(2, 150), _either_sign(rng, 2, 999)
    return Equation(a, b, x, rng.randint(2, outer * a - 1), outer, 0, add)


def _all_terms(rng: Random) -> Equation:
    outer, a, b = rng.randint(12, 99), rng.randint(11, 60), _either_sign(rng, 100, 999)
    more, add, x = rng.randint(2, 999), _either_sign(rng, 100, 9999), rng.randint(11, 400)
    return Equation(a, b, x, rng.randint(2, outer * a + more - 2), outer, more, add)


EQUATIONS: Final = {1: _shift, 2: _two_steps, 3: _both_sides, 4: _brackets, 5: _all_terms}


# -- remainders

REMAINDER_FORMS: Final = (
    "What is the remainder when {} is divided by {}?",
    "Find the remainder when {} is divided by {}.",
    "What is {} mod {}?",
    "Divide {} by {}. What is the remainder?",
)


def _product(rng: Random, large: int, small: int, least: int = 100) -> Op:
    return Op("*", rng.randint(least, large), rng.randint(11, small))


DIVIDENDS: Final[dict[int, Callable[[Random], Tree]]] = {
    1: lambda rng: rng.randint(10, 150),
    2: lambda rng: rng.randint(50, 999),
    3: lambda rng: rng.randint(1000, 9999),
    4: lambda rng: Op("+", _product(rng, 999, 99, least=11), rng.randint(2, 999)),
    5: lambda rng: Op("+", Op("+", _product(rng, 999, 999), _product(rng, 999, 99)), rng.randint(100, 9999)),
}
DIVISORS: Final = {1: (2, 12), 2: (3, 20), 3: (11, 60), 4: (11, 99), 5: (23, 199)}


def make_remainder(rng: Random, level: int) -> GeneratedProblem:
    division = Op("mod", DIVIDENDS[level](rng), rng.randint(*DIVISORS[level]))
    form = _form(rng, REMAINDER_FORMS)
    written = write(division.left)
    if " mod " in form and isinstance(division.left, Op):
        written = f"({written})"
    return GeneratedProblem("remainder", form.format(written, division.right), str(value(division)), division)


# -- word problems

PEOPLE: Final = ("Mia", "Tom", "Ana", "Ben", "Lea", "Sam", "Zoe", "Max", "Eva", "Leo", "Nina", "Omar", "Ida", "Paul")
THINGS: Final = ("pencils", "apples", "stamps", "books", "marbles", "coins", "shells", "cards", "beads", "stickers")
CASES: Final = ("boxes", "bags", "crates", "baskets", "packs", "jars")


class Scale(NamedTuple):
    """The number of events and the size of the numbers in a level's stories."""

    events: tuple[int, int]
    number: int
    cases: int
    each: int
    times: int


SCALES: Final = {
    1: Scale((1, 1), 40, 12, 25, 5),
    2: Scale((2, 2), 99, 12, 30, 4),
    3: Scale((3, 3), 300, 40, 60, 9),
    4: Scale((4, 5), 999, 99, 150, 19),
    5: Scale((6, 7), 9999, 199, 600, 59),
}


def make_story(rng: Random, level: int) -> GeneratedProblem:
    """A story, sentence by sentence; the tree is the number of things so far."""
    scale, who, things = SCALES[level], rng.choice(PEOPLE), rng.choice(THINGS)

    def packed() -> tuple[Op, str]:
        case, cases, each = rng.choice(CASES), rng.randint(2, scale.cases), rng.randint(2, scale.each)
        return Op("*", cases, each), f"{cases} {case} with {each} {things} in each"

    tree: Tree
    if rng.random() < 0.5:
        tree, text = packed()
    else:
        tree = rng.randint(5, scale.number)
        text = f"{tree} {things}"
    sentences = [f"{who} has {text}."]
    for _ in range(rng.randint(*scale.events)):
        roll = rng.random()
        if roll < 0.3 and value(tree) > 1:
            number = rng.randint(1, min(scale.number, value(tree) - 1))
            tree = Op("-", tree, number)
            text = rng.choice(("gives {} {} to a friend", "sells {} {}", "loses {} {}")).format(number, things)
        elif roll < 0.65:
            more, text = packed()
            tree, text = Op("+", tree, more), f"buys {text}"
        else:
            number = rng.randint(2, scale.number)
            tree = Op("+", tree, number)
            text = f"{rng.choice(('finds', 'gets', 'buys'))} {number} more {things}"
        sentences.append(f"Then {who} {text}.")
    if rng.random() < 0.5:
        price = rng.randint(2, scale.times)
        tree = Op("*", tree, price)
        sentences.append(f"All {things} are now sold for {price} dollars each. How many dollars is that?")
    else:
        sentences.append(f"How many {things} does {who} have now?")
    return GeneratedProblem("words", " ".join(sentences), str(value(tree)), tree)


LEVELS: Final = (1, 2, 3, 4, 5)
MOST: Final = 2_000  # problems per level and seed; the easiest level has few more
FAMILIES: Final[dict[str, Callable[[Random, int], GeneratedProblem]]] = {
    "nested": make_nested,
    "linear": make_linear,
    "remainder": make_remainder,
    "words": make_story,
}


def generate(level: int, seed: int = 0, n: int = 1) -> list[GeneratedProblem]:
    """`n` different problems of a level, from 1 (easy) to 5 (hard), from all families in turn."""
    if level not in LEVELS:
        raise UsageError(f"level is {level!r}; known levels: {', '.join(map(str, LEVELS))}")
    if n < 0 or n > MOST:
        raise UsageError(f"n is {n}; it must be from 0 to {MOST:,}")
    rng = Random(f"sureenough problems {seed} {level}")
    makers = tuple(FAMILIES.values())
    problems: dict[str, GeneratedProblem] = {}  # by question, so that none comes twice
    while len(problems) < n:
        number = len(problems)
        new = makers[number % len(makers)](rng, level)
        if new.question not in problems:
            problems[new.question] = replace(new, level=level, id=f"arith-{level}-{seed}-{number}")
    return list(problems.values())
