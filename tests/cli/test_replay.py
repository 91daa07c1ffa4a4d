"""`sureenough replay` as a user types it: tables of strategies, one question, its output, its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sureenough.__main__ import main
from sureenough.data import BUILTIN_POOL
from tests.processes import printed, refused, sureenough

TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": "160"}


def test_without_a_pool_it_uses_the_built_in_one() -> None:
    done = sureenough("replay", "--repeats", "1", "-s", "sc", "-s", "ac ddc:weight=mean")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("built-in pool: 43 questions, budget 64 paths, window 64, one path at a time, 1 order")
    assert [line.split()[0] for line in lines[2:5]] == ["sc", "ac", "ddc:weight=mean"]
    assert "votes weigh C_path (mean): ddc:weight=mean" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_strategy_that_is_named_twice_is_one_row() -> None:
    text = printed("replay", "--repeats", "1", "--paths", "8", "-s", "sc ac sc", "-s", "ac ac:tau=0.95", "--json")
    (pool,) = json.loads(text)["pools"]
    assert (pool["paths"], [row["strategy"] for row in pool["rows"]]) == (8, ["sc", "ac"])


def test_on_a_terminal_it_draws() -> None:
    text = printed("replay", "--repeats", "1", "-s", "sc ddc", "--parallel", "4", env=os.environ | TERMINAL)
    assert "4 paths at once" in text
    assert "┃" in text


def test_a_narrow_terminal_loses_columns_and_never_digits() -> None:
    text = printed("replay", "--repeats", "1", env=os.environ | TERMINAL | {"COLUMNS": "80"})
    assert "deepconf-high" in text
    assert "…" not in text
    assert "not shown, the terminal is too narrow: " in " ".join(text.split())


def test_ctrl_c_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sureenough.cli.main", interrupted)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_csv_for_spreadsheets_with_two_pools() -> None:
    done = sureenough("replay", "--csv", "--repeats", "1", "-s", "sc", str(BUILTIN_POOL), str(BUILTIN_POOL))
    assert len(done.stdout.splitlines()) == 3


def test_the_other_verbs() -> None:
    assert sureenough("--version").stdout.startswith("sureenough ")
    listed = sureenough("strategies").stdout
    assert "sc: self-consistency: the whole budget, then the majority\n  weigh=count  " in listed
    assert "  risk=tukey  fence" in listed
    assert "replay" in sureenough("--help").stdout


def test_a_reader_that_leaves_early_is_not_an_error() -> None:
    command = f'"{sys.executable}" -m sureenough replay --repeats 1 -s sc --json | head -c 10'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""


def test_a_full_disk_is_named() -> None:
    command = f'"{sys.executable}" -m sureenough strategies > /dev/full'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "cannot write the result: No space left" in done.stderr


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pools that cannot be used."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "cut.parquet").write_bytes(BUILTIN_POOL.read_bytes()[:5000])
    rows = pq.read_table(BUILTIN_POOL).slice(0, 40)
    pq.write_table(rows.slice(0, 0), folder / "empty.parquet")
    pq.write_table(rows.drop_columns(["conf"]), folder / "column.parquet")
    pq.write_table(rows.slice(0, 8), folder / "small.parquet")
    signals = rows["conf"].to_pylist()
    for name, value in (("nan", [np.float16("nan")]), ("unequal", signals[3][:-1])):
        changed = signals.copy()
        changed[3] = value if name == "unequal" else signals[3][:-1] + value
        column = pa.array([np.array(signal, np.float16) for signal in changed], rows.schema.field("conf").type)
        pq.write_table(rows.set_column(rows.schema.get_field_index("conf"), "conf", column), folder / f"{name}.parquet")
    return folder


def test_a_small_pool_drops_what_it_cannot_run(bad: Path) -> None:
    text = printed("replay", str(bad / "small.parquet"), "--repeats", "1")
    assert "warmup=" in text
    for words in (["-s", "ddc"], ["-s", "ddc", "--paths", "16"]):  # a larger budget does not help
        named = refused("replay", str(bad / "small.parquet"), *words)
        assert "more than the 8 recorded per question: record at least 16 paths, or ask for ddc:warmup=4" in named
    assert "more than the 8 recorded per question" in refused(
        "replay", str(bad / "small.parquet"), "-q", "1", "-s", "ddc"
    )


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("none.parquet", "no such file"),
        ("none.csv", "`sureenough record questions.csv -o pool.parquet` makes one from a file of questions"),
        ("cut.parquet", "not a whole Parquet file"),
        ("column.parquet", "has no column conf; a pool needs question"),
        ("nan.parquet", "row 3: conf of a recorded path holds NaN or infinite values; "),
        ("unequal.parquet", "row 3: a recorded path has 357 values of peak"),
        ("empty.parquet", "holds no paths"),
    ],
)
def test_bad_pools(bad: Path, file: str, says: str) -> None:
    assert says in refused("replay", str(bad / file))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--paths", "8", "-s", "deepconf-low"], "allow at least 16 paths, or ask for deepconf-low:warmup=4"),
        (["--paths", "0"], "--paths is 0"),
        (["--repeats", "0"], "--repeats is 0"),
        (["--repeats", "99999999999"], "at most 10,000 are allowed"),
        (["--paths", "many"], "Invalid value for '--paths'"),
        (["-s", "dcc"], "did you mean 'ddc'"),
        (
            ["-s", "ddc:speed=9"],
            "ddc has no option 'speed'; known: warmup, trust, drop, per, risk, eta, gamma, tau, weight",
        ),
        (["-s", "ddc:tau=high"], "tau is a number"),
        (["-s", " "], "at least one"),
        (["--hurry", "-1"], "--hurry is -1.0"),
        (["--json", "--csv"], "give --json or --csv, not both"),
        (["--colour"], "No such option"),
        (["-q", "gsm8k-test-063"], "did you mean 'gsm8k-test-0635'?"),
        (["-q", "????"], "it has 55, from"),
        (["-q", "1", "-s", "dcc"], "did you mean 'ddc'"),
        (["-q", "1", "-s", "ac ddc"], "explains one strategy on one pool"),
        (["-q", "1", str(BUILTIN_POOL), str(BUILTIN_POOL)], "explains one strategy on one pool"),
        (["-q", "1", "--repeats", "2"], "--repeats is for comparisons: leave it out with --question"),
        (["-q", "1", "--csv"], "--csv is for comparisons: leave it out with --question"),
        (["--show-paths"], "--show-paths prints the paths of one question: give its --question"),
        (["nowhere.parquet", "-q", "1"], "no such file"),
    ],
)
def test_bad_words(words: list[str], says: str) -> None:
    assert says in refused("replay", *words)


def test_a_damaged_row_can_be_left_out(bad: Path) -> None:
    text = printed("replay", "--skip-damaged", "--repeats", "1", "-s", "sc", str(bad / "nan.parquet"))
    assert "1 damaged rows were left out" in text


def test_one_question_in_sentences() -> None:
    text = printed("replay", "-q", "gsm8k-test-0523", "-s", "sure")
    lines = text.splitlines()
    assert lines[0].startswith("Question gsm8k-test-0523, gold answer ")
    assert lines[1].startswith("Answer: ")
    assert any("points of vote share" in line for line in lines)


def test_by_place_and_as_json() -> None:
    result = json.loads(sureenough("replay", str(BUILTIN_POOL), "-q", "2", "-s", "ddc", "--json").stdout)
    assert result["question"] == "gsm8k-test-0523"
    assert result["strategy"] == "ddc"
    assert result["tokens"]["total"] > 0


def test_every_path_in_full() -> None:
    words = ["replay", "-q", "1", "-s", "ddc:warmup=8,weight=mean,drop=1", "--show-paths"]
    output, data = sureenough(*words).stdout, json.loads(sureenough(*words, "--json").stdout)
    assert output.startswith(f"Question arith-5-3-1, gold answer 219.\n{data['question_text']}\n\nAnswer: 219 ")
    assert data["question_text"] == "Solve 76(51x+929)+124x+6756=3875x+104735 for x."
    assert data["reason"] == "settled"
    assert output.count("\nPath ") == data["started"] == len(data["path_list"])
    assert output.count("pruned by the drop test") == data["tiers"]["drop"] > 0
    assert "Path 1: kept, 389 of 389 tokens, answer 219\n76*51=3876\n" in output
    pruned = next(path for path in data["path_list"] if path["fate"] == "pruned")
    text = output.split(f"\nPath {pruned['number']}: ")[1].split("\n", 1)[1].split("\n\nPath ")[0]
    assert len(text.rstrip("\n")) in (pruned["tokens"], pruned["tokens"] - 1), "its text ends at the token of the cut"
