"""Datasets: each is read as its source has it, and what is wrong is refused with its row."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sureenough.answers import grade
from sureenough.datasets import DATASETS
from sureenough.datasets.load import load
from sureenough.errors import UsageError
from tests.bench.typed import MANNER, bench
from tests.engines.misbehaving import serving
from tests.hub import Hub, serving_hub
from tests.in_thread import in_thread

GPQA = ("Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3", "Record ID")


def json_lines(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def gpqa(file: Path, number: int = 198) -> Path:
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(GPQA)
        writer.writerows([f"Which is {n}?", f"it is {n}", "b", "c", "d", f"rec{n}"] for n in range(number))
    return file


def test_every_dataset_says_what_it_is() -> None:
    assert {name: one.count for name, one in DATASETS.items()} == {
        "math500": 500, "amc23": 40, "aime24": 30, "aime25": 30, "gpqa-diamond": 198, "gsm8k": 1319, "arith": 200,
    }  # fmt: skip
    for name, one in DATASETS.items():
        assert one.name == name
        assert one.template is None or "{question}" in one.template
        assert (one.hub is None) == (one.make is not None)


def test_math500_as_the_hub_has_it(tmp_path: Path) -> None:
    row = {"problem": "?", "solution": "…", "answer": r"\frac{1}{2}", "subject": "Algebra", "level": 3}
    file = json_lines(tmp_path / "m.jsonl", [row | {"unique_id": f"test/algebra/{n}.json"} for n in range(500)])
    got = load(f"math500={file}")
    assert got.problems[7][:5] == ("test/algebra/7.json", "?", r"\frac{1}{2}", None, 3)
    asked = got.record_questions()[0]
    assert asked.prompt.text == "?\n\nPlease reason step by step, and put your final answer within \\boxed{}."


def test_gsm8k_keeps_what_follows_the_hashes(tmp_path: Path) -> None:
    file = tmp_path / "g.parquet"
    rows = [{"question": f"q{n}", "answer": f"It is <<1+1=2>>2. #### no\n#### 1,{n:03}"} for n in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), file)
    got = load(f"gsm8k={file}", limit=3)
    assert [(p.id, p.gold) for p in got.problems] == [("gsm8k-1", "1,000"), ("gsm8k-2", "1,001"), ("gsm8k-3", "1,002")]
    assert grade("1,001", "1001")


def test_golds_as_published_are_right_when_answered_plainly(tmp_path: Path) -> None:
    for name, gold, answer in [("aime24", "025", "25"), ("amc23", 27.0, "27"), ("aime25", r"336^\circ", "336")]:
        file = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist([{"problem": "?", "answer": gold, "id": 3}]), file)
        (problem,) = load(f"{name}={file}", limit=1).problems
        assert (problem.id, problem.gold) == ("3", str(gold))
        assert grade(str(gold), answer)


def test_choices_are_shuffled_by_the_seed_and_the_letter_follows(tmp_path: Path) -> None:
    file = gpqa(tmp_path / "gpqa.csv")
    one, again, other = load(f"gpqa-diamond={file}"), load(f"gpqa-diamond={file}"), load(f"gpqa-diamond={file}", seed=1)
    assert one == again
    assert one.problems != other.problems
    for n, problem in enumerate(one.problems):
        found = re.search(rf"^([A-D])\) it is {n}$", problem.question, re.MULTILINE)
        assert found is not None
        assert found[1] == problem.gold
    assert min(sum(p.gold == letter for p in one.problems) for letter in "ABCD") > 25
    # A part of it asks the same questions in the same way.
    assert load(f"gpqa-diamond={file}", limit=5).problems == one.problems[:5]
    assert "letter" in one.record_questions()[0].prompt.text
    assert one.record_questions()[0].judge.extract("so the answer is B") == "B"


def test_arith_comes_with_the_package_and_any_beginning_has_all_levels() -> None:
    assert len(load("arith").problems) == 200
    assert {p.level for p in load("arith", limit=5).problems} == {1, 2, 3, 4, 5}


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("text;,key\nWhat?,7\nWho?,\n".replace(";", ""))
    got = load(str(file), columns={"question": "text", "gold": "key"}, template="Q: {question}")
    assert (got.name, [p.gold for p in got.problems]) == ("mine", ["7", None])
    assert got.record_questions()[1].prompt.text == "Q: Who?"
    assert got.record_questions()[0].id == "mine-1"


GOOD = {"question": "What is 1 + 1?", "answer": "2"}


@pytest.mark.parametrize(
    ("dataset", "bad", "says"),
    [
        ("aime24", {"question": "x\x0crac{1}{2}", "answer": "2"}, r"line 3: the question holds the control character"),
        ("aime24", {"question": "a\x00b", "answer": "2"}, r"line 3: the question holds .*'\\x00'"),
        ("aime24", {"question": "a\x1b[2Jb", "answer": "2"}, r"line 3: .*'\\x1b'"),
        ("aime24", {"question": "a\rb", "answer": "2"}, r"line 3: .*'\\r'"),
        ("math500", {"question": "?", "answer": r"\frac{1}{2"}, r"line 3: the answer .* cannot be read"),
        ("math500", {"question": "?"}, r"line 3: no answer"),
        ("math500", {"question": "?", "answer": "  "}, r"line 3: no answer"),
        ("math500", {"answer": "2"}, r"line 3: no question"),
        (
            "math500",
            {"question": "?", "answer": "2", "id": "math500-1"},
            r"line 3: the id 'math500-1' is used twice",
        ),
        ("math500", {"question": "?", "answer": "2", "id": "a\x1bb"}, r"line 3: the id 'a\\x1bb' holds a control"),
        ("math500", ["?"], r"line 3 is not a question"),
        ("gpqa-diamond", {"Question": "?"}, r"line 3: no 'Correct Answer'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, dataset: str, bad: Any, says: str) -> None:
    good: dict[str, Any] = GOOD if dataset != "gpqa-diamond" else dict(zip(GPQA[:5], "?abcd", strict=True))
    file = json_lines(tmp_path / "bad.jsonl", [good, good, bad, good])
    with pytest.raises(UsageError, match=says):
        load(f"{dataset}={file}", limit=4)


OFFERED = "Which one?\nA) a\nB) b\nC) c\nD) d"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            {"kind": "choice", "question": OFFERED, "answer": "E"},
            "the answer 'E' is not a choice; .* one of A, B, C, D$",
        ),
        ({"kind": "choice:letters=ABCD", "answer": "E"}, "the answer 'E' is not a choice; .* one of A, B, C, D$"),
        ({"kind": "choice", "answer": "K"}, "the answer 'K' is not a choice; .* one of A, B, C, D, E, F, G, H, I, J$"),
        ({"kind": "date", "answer": "soon"}, "the answer 'soon' is not of the kind date"),
        ({"kind": "os:system", "answer": "5"}, "unknown kind of answer 'os'"),
        ({"kind": "choice", "answer": "J"}, None),
        ({"kind": "date", "answer": "2 Jan 2024"}, None),
        ({"question": "a\tb\nc\r\nd é 日本 \u200b"}, None),
    ],
)
def test_rows_of_ones_own_are_of_their_kind(tmp_path: Path, row: dict[str, str], says: str | None) -> None:
    file = str(json_lines(tmp_path / "own.jsonl", [GOOD | row]))
    if says is None:
        prompt = load(file).record_questions()[0].prompt.text
        assert ("YYYY-MM-DD" in prompt) is (row.get("kind") == "date")
        return
    with pytest.raises(UsageError, match=f"line 1: {says}"):
        load(file)


def test_a_wrong_count_is_refused_unless_a_part_is_asked_for(tmp_path: Path) -> None:
    file = json_lines(tmp_path / "half.jsonl", [GOOD] * 15)
    with pytest.raises(UsageError, match=r"holds 15 questions, aime25 has 30; .* --limit 15"):
        load(f"aime25={file}")
    assert len(load(f"aime25={file}", limit=10).problems) == 10
    with pytest.raises(UsageError, match="limit is 0"):
        load(f"aime25={file}", limit=0)


@pytest.mark.parametrize("text", ["nope", "nope=file.csv"])
def test_unknown_names_are_answered_with_the_known_ones(text: str) -> None:
    with pytest.raises(UsageError, match="math500, amc23, aime24, aime25, gpqa-diamond, gsm8k, arith"):
        load(text)


# -- the hub


def revision(name: str) -> str:
    hub = DATASETS[name].hub
    assert hub is not None
    return hub.revision


QUESTIONS = "".join(json.dumps({"problem": f"What is {n}?", "answer": str(n)}) + "\n" for n in range(30)).encode()


@pytest.fixture
def hub() -> Iterator[Hub]:
    file = f"/datasets/math-ai/aime25/resolve/{revision('aime25')}/test.jsonl"
    with serving_hub({file: QUESTIONS}, gated="/datasets/Idavidrein/gpqa/") as hub:
        yield hub


def dry(dataset: str, folder: Path, endpoint: str, **environment: str) -> Any:
    """A dry run loads the questions and asks the model four of them."""
    environment = {"HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "hf"), **environment}
    with in_thread(serving(MANNER)) as server:
        words = ("--url", server.url, "--model", "tiny", "--paths", "4", "--dry-run", "-o", folder / "run")
        return bench("main", "--dataset", dataset, *words, **environment)


def test_from_the_hub_and_the_second_time_from_its_cache(tmp_path: Path, hub: Hub) -> None:
    done = dry("aime25", tmp_path, hub.url)
    assert done.returncode == 0, done.stderr
    assert "aime25 on tiny: 30 questions, 120 paths. Estimated from 4" in done.stdout
    asked = len(hub.asked)
    assert asked >= 2
    again = dry("aime25", tmp_path, NOWHERE)
    assert again.returncode == 0, again.stderr
    assert len(hub.asked) == asked


def test_14_22_hub_datasets_are_pinned_to_a_revision(tmp_path: Path, hub: Hub) -> None:
    for dataset in DATASETS.values():
        assert dataset.hub is None or re.fullmatch(r"[0-9a-f]{40}", dataset.hub.revision)
    hub.files["/datasets/math-ai/aime25/resolve/main/test.jsonl"] = b"{}"  # what a branch holds now does not matter
    done = dry("aime25", tmp_path, hub.url)
    assert done.returncode == 0, done.stderr
    requested = [line for line in hub.asked if "aime25" in line]
    assert requested
    assert all(f"/resolve/{revision('aime25')}/" in line for line in requested)


NOWHERE = "http://127.0.0.1:9"
OFFLINE = ("could not be reached", "--dataset math500=FILE")


@pytest.mark.parametrize(
    ("dataset", "environment", "says"),
    [
        (
            "gpqa-diamond",
            {},
            ("accept its terms at https://huggingface.co/datasets/Idavidrein/gpqa", "--dataset gpqa-diamond=FILE"),
        ),
        ("amc23", {}, ("test-00000-of-00001.parquet of math-ai/amc23 could not be downloaded from the hub: 404",)),
        ("math500", {"HF_ENDPOINT": NOWHERE}, OFFLINE),
        ("math500", {"HF_HUB_OFFLINE": "1"}, OFFLINE),
    ],
)
def test_what_the_hub_does_not_give_is_named_with_what_to_do(
    tmp_path: Path, hub: Hub, dataset: str, environment: dict[str, str], says: tuple[str, ...]
) -> None:
    done = dry(dataset, tmp_path, hub.url, **environment)
    assert done.returncode == 2
    assert all(text in done.stderr for text in says), done.stderr
    assert "Traceback" not in done.stderr
