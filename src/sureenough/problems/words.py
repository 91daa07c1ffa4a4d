"""Short word problems: somebody has things, gains and loses some; how many are left?"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from sureenough.problems.problem import Task
from sureenough.problems.tree import Op, Tree, value

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


def make(rng: Random, level: int) -> Task:
    story = Story(rng, SCALES[level], rng.choice(PEOPLE), rng.choice(THINGS))
    story.begin()
    for _ in range(rng.randint(*story.scale.events)):
        story.event()
    story.end()
    return Task("words", " ".join(story.sentences), str(value(story.tree)), story.tree)
