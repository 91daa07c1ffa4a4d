"""The classes and grades of recorded answers, and the verdicts on known pairs, are those of `verdicts.txt`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sureenough.answers import grade, resolve_kind, same
from sureenough.pools import Pool

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
POOLS = (
    "src/sureenough/data/builtin.parquet",
    "src/sureenough/data/problems.parquet",
    "training/searcher/sample.parquet",
)
FROZEN = HERE / "verdicts.txt"
PAIR = re.compile(r"^[-+]{5} (.*)$", re.MULTILINE)


def verdicts() -> Iterator[str]:
    for pool in POOLS:
        yield from recorded(pool)
    yield "pairs: same; graded, both ways; graded with every policy, both ways"
    for line in PAIR.findall(FROZEN.read_text(encoding="utf-8")):
        one, end = json.JSONDecoder().raw_decode(line)
        two = json.loads(line[end:])
        yield f"{decided(one, two)} {line}"


def recorded(path: str) -> Iterator[str]:
    """A line per question: how many different answers, classes and right ones, and a digest of all of them."""
    pool = Pool(ROOT / path)
    yield f"{path}: answers, classes, right, digest"
    for question in pool:
        kind = resolve_kind(question.kind or pool.info.kind)
        answers = list(dict.fromkeys(path.answer for path in question.paths if path.answer is not None))
        classes = kind.classes(answers)
        right = [question.gold is not None and kind.grade(question.gold, answer) for answer in answers]
        rows = json.dumps(list(zip(answers, classes, right, strict=True))).encode()
        digest = hashlib.sha256(rows).hexdigest()[:12]
        yield f"{question.id} {len(answers)} {len(set(classes))} {sum(right)} {digest}"


def decided(one: str, two: str) -> str:
    policies = {"percent": True, "rounding": True, "decimal_comma": True}
    graded = [grade(one, two), grade(two, one), grade(one, two, **policies), grade(two, one, **policies)]
    return "".join("+" if verdict else "-" for verdict in [same(one, two), *graded])


@pytest.mark.skipif(not all((ROOT / pool).exists() for pool in POOLS), reason="needs the pools of a checkout")
def test_verdicts() -> None:
    frozen = FROZEN.read_text(encoding="utf-8").splitlines()
    assert [*verdicts()] == frozen


if __name__ == "__main__":
    FROZEN.write_text("".join(f"{line}\n" for line in verdicts()), encoding="utf-8")
