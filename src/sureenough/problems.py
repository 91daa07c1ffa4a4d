"""Generated problems of whole-number arithmetic in five levels, with exact answers, from a seed.

The built-in model is trained on them; they are the dataset `arith`. Four families make them: nested arithmetic, linear
equations with one whole-number solution, remainders, and short word problems.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import add, floordiv, mul, sub
from random import Random
from typing import Any, Final

from sureenough.errors import UsageError


@dataclass(frozen=True, slots=True)
class Task:
    """A problem as its family makes it; `core` is the expression that a worked solution starts from."""

    family: str
    question: str
    gold: str
    core: Any


@dataclass(frozen=True, slots=True)
class GeneratedProblem:
    """A generated question; the same level, seed and number always give the same one."""

    id: str
    level: int
    family: str
    question: str
    gold: str


RANK: Final = {"+": 1, "-": 1, "*": 2, "/": 2}
APPLY: Final[dict[str, Callable[[int, int], int]]] = {"+": add, "-": sub, "*": mul, "/": floordiv}


@dataclass(frozen=True, slots=True)
class Op:
    """An operation on two expressions; whoever builds a division makes it exact."""

    sign: str
    left: Tree
    right: Tree


Tree = int | Op


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


def step(tree: Op) -> tuple[Op, Tree]:
    """The innermost and leftmost operation, and the expression after it is carried out."""
    if isinstance(tree.left, Op):
        done, rest = step(tree.left)
        return done, Op(tree.sign, rest, tree.right)
    if isinstance(tree.right, Op):
        done, rest = step(tree.right)
        return done, Op(tree.sign, tree.left, rest)
    return tree, value(tree)


def operations(tree: Tree) -> int:
    return 0 if isinstance(tree, int) else 1 + operations(tree.left) + operations(tree.right)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a level's expressions."""

    operations: tuple[int, int]
    number: int  # the largest operand
    factors: tuple[int, int]  # the largest factors of a product
    most: int = 10_000_000  # the largest intermediate result


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


def make_nested(rng: Random, level: int) -> Task:
    size = SIZES[level]
    tree = grow(rng, rng.randint(*size.operations), size)
    form = rng.choice(NESTED_FORMS) if rng.random() < 0.5 else NESTED_FORMS[0]
    return Task("nested", form.format(_written(rng, tree)), str(value(tree)), tree)


def _written(rng: Random, tree: Tree) -> str:
    if rng.random() < 0.85:
        return write(tree, rng.choice(("", " ")))
    text, signs = write(tree), rng.choice(SIGNS)
    return "".join(signs.get(letter, letter) for letter in text)


def grow(rng: Random, operations: int, size: Size) -> Tree:
    """A random expression with this number of operations, without negative or too large intermediate results."""
    if operations == 0:
        return rng.randint(2, size.number)
    if operations == 1 and rng.random() < 0.12:
        return _division(rng, size)
    before = rng.randint(0, operations - 1)
    left, right = grow(rng, before, size), grow(rng, operations - 1 - before, size)
    return _join(rng, left, right, size)


def _join(rng: Random, left: Tree, right: Tree, size: Size) -> Op:
    a, b = value(left), value(right)
    large, small = size.factors
    if rng.random() < 0.5 and isinstance(right, int) and 1 < a <= large:
        factor = 2 + right % (small - 1)
        if a * factor <= size.most:
            return Op("*", left, factor)
    if rng.random() < 0.5 or a + b > size.most:
        return Op("-", left, right) if a >= b else Op("-", right, left)
    return Op("+", left, right)


def _division(rng: Random, size: Size) -> Op:
    divisor = rng.randint(2, min(size.factors[1], 30))
    return Op("/", divisor * rng.randint(2, max(3, size.number // 8)), divisor)


@dataclass(frozen=True, slots=True)
class Equation:
    """outer*(a*x+b) + more*x + add = c*x + d, with the solution x; outer is 1 and more is 0 if they are not written."""

    outer: int
    a: int
    b: int
    more: int
    add: int
    c: int
    d: int
    x: int


LINEAR_FORMS: Final = (
    "Solve for x: {}.", "Solve {}.", "Find x if {}.", "If {}, what is x?", "What is x when {}?", "Solve {} for x.",
)  # fmt: skip


def make_linear(rng: Random, level: int) -> Task:
    equation = EQUATIONS[level](rng)
    form = rng.choice(LINEAR_FORMS) if rng.random() < 0.5 else LINEAR_FORMS[0]
    written = write_equation(equation)
    if rng.random() < 0.3:
        written = "".join(f" {letter} " if letter in "+-=" else letter for letter in written)
    return Task("linear", form.format(written), str(equation.x), equation)


def _signed(rng: Random, low: int, high: int) -> int:
    return rng.randint(low, high) * rng.choice((1, 1, -1))


def _shift(rng: Random) -> Equation:
    a, x = rng.choice((1, 1, rng.randint(2, 9))), rng.randint(2, 30)
    b = _signed(rng, 2, 30) if a == 1 else 0
    x += max(0, -b)
    return Equation(1, a, b, 0, 0, 0, a * x + b, x)


def _two_steps(rng: Random) -> Equation:
    a, b, x = rng.randint(2, 12), _signed(rng, 2, 99), rng.randint(2, 60)
    return Equation(1, a, b, 0, 0, 0, a * x + b, x)


def _both_sides(rng: Random) -> Equation:
    c, x, b = rng.randint(2, 30), rng.randint(2, 99), _signed(rng, 2, 99)
    a = c + rng.randint(2, 20)
    return Equation(1, a, b, 0, 0, c, (a - c) * x + b, x)


def _brackets(rng: Random) -> Equation:
    outer, a, b = rng.randint(3, 30), rng.randint(2, 12), _signed(rng, 2, 99)
    x, add = rng.randint(2, 150), _signed(rng, 2, 999)
    c = rng.randint(2, outer * a - 1)
    return Equation(outer, a, b, 0, add, c, (outer * a - c) * x + outer * b + add, x)


def _all_terms(rng: Random) -> Equation:
    outer, a, b = rng.randint(12, 99), rng.randint(11, 60), _signed(rng, 100, 999)
    more, add, x = rng.randint(2, 999), _signed(rng, 100, 9999), rng.randint(11, 400)
    c = rng.randint(2, outer * a + more - 2)
    return Equation(outer, a, b, more, add, c, (outer * a + more - c) * x + outer * b + add, x)


EQUATIONS: Final[dict[int, Callable[[Random], Equation]]] = {
    1: _shift, 2: _two_steps, 3: _both_sides, 4: _brackets, 5: _all_terms,
}  # fmt: skip


def write_equation(equation: Equation) -> str:
    """The equation in usual notation: `3(x+2)=21`."""
    left = terms(equation.a, equation.b)
    if equation.outer > 1:
        left = f"{equation.outer}({left})"
    if equation.more:
        left += f"+{_times(equation.more)}"
    return f"{left}{_signs(equation.add)}={terms(equation.c, equation.d)}"


def terms(factor: int, number: int) -> str:
    """`factor*x + number`, without terms that are zero."""
    return _times(factor) + _signs(number) if factor else str(number)


def _times(factor: int) -> str:
    return "x" if factor == 1 else f"{factor}x"


def _signs(number: int) -> str:
    return f"{number:+}" if number else ""


REMAINDER_FORMS: Final = (
    "What is the remainder when {} is divided by {}?",
    "Find the remainder when {} is divided by {}.",
    "What is {} mod {}?",
    "Divide {} by {}. What is the remainder?",
)


@dataclass(frozen=True, slots=True)
class Division:
    tree: Tree
    divisor: int


def make_remainder(rng: Random, level: int) -> Task:
    tree, divisor = DIVISIONS[level](rng)
    form = rng.choice(REMAINDER_FORMS) if rng.random() < 0.5 else REMAINDER_FORMS[0]
    written = write(tree)
    if " mod " in form and isinstance(tree, Op):
        written = f"({written})"
    return Task("remainder", form.format(written, divisor), str(value(tree) % divisor), Division(tree, divisor))


def _product(rng: Random) -> tuple[Tree, int]:
    product = Op("*", rng.randint(11, 999), rng.randint(11, 99))
    return Op("+", product, rng.randint(2, 999)), rng.randint(11, 99)


def _products(rng: Random) -> tuple[Tree, int]:
    first = Op("*", rng.randint(100, 999), rng.randint(11, 999))
    second = Op("*", rng.randint(100, 999), rng.randint(11, 99))
    return Op("+", Op("+", first, second), rng.randint(100, 9999)), rng.randint(23, 199)


DIVISIONS: Final[dict[int, Callable[[Random], tuple[Tree, int]]]] = {
    1: lambda rng: (rng.randint(10, 150), rng.randint(2, 12)),
    2: lambda rng: (rng.randint(50, 999), rng.randint(3, 20)),
    3: lambda rng: (rng.randint(1000, 9999), rng.randint(11, 60)),
    4: _product,
    5: _products,
}


PEOPLE: Final = ("Mia", "Tom", "Ana", "Ben", "Lea", "Sam", "Zoe", "Max", "Eva", "Leo", "Nina", "Omar", "Ida", "Paul")
THINGS: Final = ("pencils", "apples", "stamps", "books", "marbles", "coins", "shells", "cards", "beads", "stickers")
CASES: Final = ("boxes", "bags", "crates", "baskets", "packs", "jars")


@dataclass(frozen=True, slots=True)
class Scale:
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


@dataclass(slots=True)
class Story:
    """A story, built sentence by sentence; the tree is the number of things so far."""

    rng: Random
    scale: Scale
    who: str
    things: str
    tree: Tree = 0
    sentences: list[str] = field(default_factory=list)

    def begin(self) -> None:
        if self.rng.random() < 0.5:
            case, cases, each = self._cases()
            self.tree = Op("*", cases, each)
            self.sentences.append(f"{self.who} has {cases} {case} with {each} {self.things} in each.")
        else:
            self.tree = self.rng.randint(5, self.scale.number)
            self.sentences.append(f"{self.who} has {self.tree} {self.things}.")

    def event(self) -> None:
        roll = self.rng.random()
        if roll < 0.3 and value(self.tree) > 1:
            self._lose()
        elif roll < 0.65:
            case, cases, each = self._cases()
            self.tree = Op("+", self.tree, Op("*", cases, each))
            self.sentences.append(f"Then {self.who} buys {cases} {case} with {each} {self.things} in each.")
        else:
            number = self.rng.randint(2, self.scale.number)
            self.tree = Op("+", self.tree, number)
            self.sentences.append(
                f"Then {self.who} {self.rng.choice(('finds', 'gets', 'buys'))} {number} more {self.things}."
            )

    def _lose(self) -> None:
        number = self.rng.randint(1, min(self.scale.number, value(self.tree) - 1))
        self.tree = Op("-", self.tree, number)
        ways = ("gives {} {} to a friend", "sells {} {}", "loses {} {}")
        self.sentences.append(f"Then {self.who} {self.rng.choice(ways).format(number, self.things)}.")

    def end(self) -> None:
        if self.rng.random() < 0.5:
            price = self.rng.randint(2, self.scale.times)
            self.tree = Op("*", self.tree, price)
            self.sentences.append(f"All {self.things} are now sold for {price} dollars each. How many dollars is that?")
        else:
            self.sentences.append(f"How many {self.things} does {self.who} have now?")

    def _cases(self) -> tuple[str, int, int]:
        scale = self.scale
        return self.rng.choice(CASES), self.rng.randint(2, scale.cases), self.rng.randint(2, scale.each)


def make_story(rng: Random, level: int) -> Task:
    story = Story(rng, SCALES[level], rng.choice(PEOPLE), rng.choice(THINGS))
    story.begin()
    for _ in range(rng.randint(*story.scale.events)):
        story.event()
    story.end()
    return Task("words", " ".join(story.sentences), str(value(story.tree)), story.tree)


LEVELS: Final = (1, 2, 3, 4, 5)
MOST: Final = 2_000  # problems per level and seed; the easiest level has few more
FAMILIES: Final[dict[str, Callable[[Random, int], Task]]] = {
    "nested": make_nested,
    "linear": make_linear,
    "remainder": make_remainder,
    "words": make_story,
}


def task(rng: Random, level: int, family: str) -> Task:
    """A task of a family: a problem with the expression that worked solutions start from."""
    return FAMILIES[family](rng, level)


def generate(level: int, seed: int = 0, n: int = 1) -> list[GeneratedProblem]:
    """`n` different problems of a level, from all families in turn.

    Args:
        level: from 1 (easy) to 5 (hard).
        seed: a different seed gives different problems.
        n: number of problems.
    """
    if level not in LEVELS:
        raise UsageError(f"level is {level!r}; known levels: {', '.join(map(str, LEVELS))}", argument="level")
    if n < 0 or n > MOST:
        raise UsageError(f"n is {n}; it must be from 0 to {MOST:,}", argument="n")
    rng = Random(f"sureenough problems {seed} {level}")
    names = tuple(FAMILIES)
    problems: dict[str, GeneratedProblem] = {}  # by question, so that none comes twice
    while len(problems) < n:
        family = names[len(problems) % len(names)]
        new = FAMILIES[family](rng, level)
        if new.question not in problems:
            problem_id = f"arith-{level}-{seed}-{len(problems)}"
            problems[new.question] = GeneratedProblem(problem_id, level, family, new.question, new.gold)
    return list(problems.values())
