"""Logs of other programs as pools: rows of JSON lines and CSV, lm-evaluation-harness's form, and hostile files.

Logs that Inspect and lm-evaluation-harness write themselves are in tests/logs, which `.ci/logs` runs.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import sureenough as se
from sureenough.engines.openai.logprobs import token_signals
from tests.processes import printed, refused, sureenough
from tests.requirements import FULL


def lines(file: Path, *rows: Any) -> Path:
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return file


def row(question: str = "q", text: str = r"so \boxed{3}", **more: Any) -> dict[str, Any]:
    return {"question": question, "text": text, **more}


def imported(file: Path, **options: Any) -> se.Pool:
    [pool] = se.import_pools([file], file.with_suffix(".parquet"), **options)
    return pool


def notes(pool: se.Pool) -> str:
    return " | ".join(pool.info.more["imported"]["notes"])


def test_rows_in_any_order_become_questions(tmp_path: Path) -> None:
    rows = [
        row(question, rf"so \boxed{{{number}}}", path=number, gold=7, tokens=10 + number, model="m")
        for question in "ab"
        for number in range(3)
    ]
    random.Random(0).shuffle(rows)
    pool = imported(lines(tmp_path / "log.jsonl", *rows))
    assert (pool.info.model, pool.info.dataset, pool.signals) == ("m", "log", "none")
    assert {one.id: (one.gold, [(path.number, path.answer, path.tokens) for path in one.paths]) for one in pool} == {
        question: ("7", [(0, "0", 10), (1, "1", 11), (2, "2", 12)]) for question in "ab"
    }
    assert "answers are read from the texts, as kind math" in notes(pool)
    assert "0 of 6 paths have log-probabilities: sc, ac, esc" in notes(pool)


def test_rows_without_numbers_keep_their_order_and_the_answers_of_the_log_count(tmp_path: Path) -> None:
    pool = imported(lines(tmp_path / "log.jsonl", row(answer="4"), row(answer=None), row(answer=5.5)))
    [question] = pool
    assert [path.answer for path in question.paths] == ["4", None, "5.5"]
    assert [path.tokens for path in question.paths] == [1, 1, 1]
    assert "0 of 3 paths have a token count: every path counts as one token" in notes(pool)
    assert "0 of 1 questions have a gold answer" in notes(pool)


@pytest.mark.parametrize("separator", [",", "\t"])
def test_csv_has_the_same_columns_and_names_can_be_mapped(separator: str, tmp_path: Path) -> None:
    table = io.StringIO()
    csv.writer(table, delimiter=separator).writerows(
        [
            ["task", "reply", "gold", "tokens", "why"],
            ["a", "one,\n\\boxed{1}", "1", "8", "x"],
            ["a", "\\boxed{2}", "1", "", "y"],
        ]
    )
    (tmp_path / "log.csv").write_text("\ufeff" + table.getvalue())
    done = sureenough("import", "log.csv", "-o", "p.parquet", "--map", "question=task,text=reply", cwd=tmp_path)
    assert done.stdout == "p.parquet: 1 question, 2 paths.\n"
    assert "columns: question=task, text=reply, gold, tokens\n" in done.stderr
    assert "columns that were not read: why\n" in done.stderr
    assert "1 of 2 paths have a token count: every path counts as one token\n" in done.stderr
    [question] = se.Pool(tmp_path / "p.parquet")
    assert [(path.answer, path.tokens) for path in question.paths] == [("1", 1), ("2", 1)]


def test_log_probabilities_are_reduced_as_a_live_engine_does(tmp_path: Path) -> None:
    draw = random.Random(1)
    tokens = [[-draw.expovariate(1.0) for _ in range(20)] for _ in range(9)]
    content = [{"token": "x", "top_logprobs": [{"logprob": value} for value in token]} for token in tokens]
    pool = imported(lines(tmp_path / "log.jsonl", row(logprobs={"content": content}, tokens=10)))
    [question] = pool
    expected = np.array([token_signals(token, 20) for token in tokens]).astype(np.float16).astype(float)
    np.testing.assert_array_equal(np.column_stack([question.paths[0].peak, question.paths[0].conf]), expected)
    assert (pool.signals, question.paths[0].tokens) == ("tokens", 9)
    assert "log-probabilities" not in notes(pool).replace("columns: question, text, tokens, logprobs", "")


@pytest.mark.parametrize(
    ("tokens", "candidates", "says"),
    [(99, 20, "a part of their tokens, left out: 1"), (2, 5, "fewer than 20 candidates per token, left out: 1")],
)
def test_log_probabilities_that_would_mislead_are_left_out(
    tokens: int, candidates: int, says: str, tmp_path: Path
) -> None:
    content = [{"top_logprobs": [{"logprob": -1.0}] * candidates}] * 2
    pool = imported(lines(tmp_path / "log.jsonl", row(logprobs=content, tokens=tokens)))
    assert pool.signals == "none"
    assert says in notes(pool)


HARNESS = {
    "doc_id": 7, "doc": {}, "target": "6 + 6 is 12\n#### 12", "filter": "strict",
    "resps": [["#### 12", "#### 13", "none"]], "filtered_resps": ["12", "13", "[invalid]"],
}  # fmt: skip


def test_a_row_of_the_harness_holds_all_paths_once_per_filter(tmp_path: Path) -> None:
    file = lines(tmp_path / "samples_t.jsonl", HARNESS, HARNESS | {"filter": "flexible", "filtered_resps": ["1"]})
    pool = imported(file)
    [question] = pool
    assert (question.id, question.gold, [path.answer for path in question.paths]) == ("7", "12", ["12", "13", None])
    assert "the rows of the filter strict | not the rows of the filter flexible" in notes(pool)
    only = imported(lines(tmp_path / "one.jsonl", HARNESS | {"filtered_resps": ["12"]}))
    assert [path.answer for path in next(iter(only)).paths] == ["12", "13", None], "read from the texts"
    assert "sc " in printed("replay", file, "-s", "sc"), "imported on the fly"


def test_models_are_pools_of_their_own_in_a_folder(tmp_path: Path) -> None:
    models = ["../../up", "a/b", "A/b", "a b", "\u202e", ".hidden"]
    file = lines(tmp_path / "log.jsonl", *(row(f"../{name}", model=name) for name in models))
    assert "the logs hold 6 runs, a pool each: name a folder" in refused("import", file, "-o", tmp_path / "p.parquet")
    pools = se.import_pools([file], tmp_path / "pools")
    assert [pool.info.model for pool in pools] == models
    assert {Path(pool.name).parent for pool in pools} == {tmp_path / "pools"}
    assert len({Path(pool.name).name.casefold() for pool in pools}) == len(models)
    assert [next(iter(pool)).id for pool in pools] == [f"../{name}" for name in models], "ids are text, not places"
    assert "exists; name another output" in refused("import", file, "-o", tmp_path / "pools")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "pools"]


LONG = "x" * (1 << 25)
HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "it is empty"),
    "blank": ("\n\n", "is empty"),
    "binary": (b"a\0b", "is not a log"),
    "a pool": (b"PAR1....", "is Parquet"),
    "an array": ("[1]", "is one JSON array"),
    "broken JSON": ('{"question": "q", "text": "t"}\n{"a":', "line 2: it is not JSON"),
    "deep JSON": ('{"a":' + "[" * 100_000, "line 1: it is not JSON"),
    "a line of another type": ('{"question": "q", "text": "t"}\n5\n', "line 2: a line is an object, not int"),
    "not UTF-8": (b'{"question": "q\xff", "text": "t"}', "is not UTF-8 text"),
    "half a surrogate pair": ('{"question": "q\\ud800", "text": "t"}', "line 1: the question holds half"),
    "no id": ('{"question": "", "text": "t"}', "line 1: its question has no id"),
    "an id of another type": ('{"question": ["q"], "text": "t"}', "line 1: question is ['q']; it must be text or"),
    "a text of another type": ('{"question": "q", "text": 5}', "line 1: text is 5; it must be text"),
    "no path": ('{"question": "q"}', "line 1: a path needs a question's id and a text or an answer"),
    "another row": ('{"question": "q", "text": "t"}\n{"question": "q"}', "line 2: it has no 'text'"),
    "negative tokens": ('{"question": "q", "text": "t", "tokens": -1}', "line 1: tokens is -1"),
    "tokens that are true": ('{"question": "q", "text": "t", "tokens": true}', "line 1: tokens is True"),
    "huge tokens": ('{"question": "q", "text": "t", "tokens": 1e999}', "line 1: tokens is inf"),
    "log-probabilities": ('{"question": "q", "text": "t", "logprobs": [{"a": 1}]}', "line 1: logprobs must be as"),
    "an epoch doubled": (
        '{"question": "q", "text": "t", "epoch": 1}\n{"question": "q", "text": "t", "epoch": 1}',
        "line 2: question 'q': path 1 is there twice",
    ),
    "an epoch without number": (
        '{"question": "q", "text": "t", "epoch": 1}\n{"question": "q", "text": "t", "epoch": null}',
        "line 2: question 'q': some paths of the question have a number",
    ),
    "two golds": (
        '{"question": "q", "text": "t", "gold": 1}\n{"question": "q", "text": "t", "gold": 2}',
        "line 2: question 'q': gold is '2', and '1' for another path",
    ),
    "a long line": ('{"question": "q", "text": "' + LONG, "line 1: the line has more than 32 MiB"),
    "a long cell": ("question,text\nq," + LONG, "line 2: the line has more than 32 MiB"),
    "a long cell of many lines": ('question,text\nq,"' + "x\n" * (1 << 25), "is not CSV (field larger than"),
    "CSV with more cells": ("question,text\nq,t,u\n", "line 2: it has not as many cells"),
    "CSV with fewer cells": ("question,text\nq\n", "line 2: it has not as many cells"),
    "the harness, choices": (json.dumps(HARNESS | {"resps": [[[-1.0, True]]]}), "line 1: resps holds no generated"),
    "the harness, a list": (json.dumps(HARNESS | {"resps": 5}), "line 1: resps holds no generated"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_a_sentence_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    content, says = HOSTILE[name]
    (tmp_path / "log").write_bytes(content if isinstance(content, bytes) else content.encode())
    good = lines(tmp_path / "good", row())
    message = refused("import", good, tmp_path / "log", "-o", tmp_path / "pools")
    assert says in message
    assert len(message) < 400
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", "log"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere", "-o", "p.parquet"], "nowhere cannot be read: No such file"),
        ([".", "-o", "p.parquet"], "is a folder; give the logs in it"),
        (["log", "-o", "p.parquet", "--map", "text=reply"], "line 1: no column 'reply'; it has question, text"),
        (["log", "-o", "p.parquet", "--map", "texts=reply"], "unknown field 'texts' to map; known: question, path"),
        (["log", "-o", "p.parquet", "--kind", "maths"], "'maths'"),
        (["log", "-o", "there.parquet"], "there.parquet exists; name another output"),
        (["log", "-o", "nowhere/p.parquet"], "cannot write nowhere/p.parquet"),
        (["log", "-o", "nowhere/pools"], "cannot write nowhere/pools"),
        (["pipe", "-o", "p.parquet"], "it is not a regular file; copy its content to one"),
    ],
)
def test_what_cannot_be_done_is_refused(words: list[str], says: str, tmp_path: Path) -> None:
    lines(tmp_path / "log", row())
    (tmp_path / "there.parquet").touch()
    os.mkfifo(tmp_path / "pipe")
    assert says in refused("import", *words, cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "pipe", "there.parquet"]


def test_halves_of_surrogate_pairs_in_names_do_not_stop_a_pool_from_being_written(tmp_path: Path) -> None:
    pool = imported(lines(tmp_path / "log", row(model="m\ud800") | {"x\udc00": 1}))
    assert pool.info.model == "m\ufffd"
    assert "not read: x\ufffd" in notes(pool)


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    rows = [row(f"q{n}", text=os.urandom(2000).hex(), model=n % 2) for n in range(400)]
    file = lines(tmp_path / "log", *rows)
    done = sureenough("import", file, "-o", tmp_path / "pools", largest_file=100_000)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def memory(act: str) -> int:
    """Peak of a process, in megabytes, that imports what it needs and then does this."""
    code = "import resource, sureenough as se; se.import_pools; usage = resource.getrusage"
    code += f"\n{act}\nprint(usage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    return int(done.stdout) // (1024 if sys.platform != "darwin" else 1 << 20)


def test_memory_does_not_grow_with_a_log(tmp_path: Path) -> None:
    """A million paths, in an order in which no two of a question are neighbours."""
    paths = 1_000_000 if FULL else 100_000
    with (tmp_path / "log").open("w") as log:
        for number in range(paths):
            log.write(f'{{"question": "q{number % 5000}", "answer": "{number % 7}", "tokens": 9}}\n')
    few = memory("")
    many = memory(f"se.import_pools([{str(tmp_path / 'log')!r}], {str(tmp_path / 'pool.parquet')!r})")
    assert pq.ParquetFile(tmp_path / "pool.parquet").metadata.num_rows == paths
    assert many - few < 150, (few, many)
