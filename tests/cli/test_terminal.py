"""No text of a model, a server or a file controls the terminal, whichever verb prints it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.table import Table

from sureenough import cli
from sureenough.cli import VERBS
from sureenough.cli.terminal import UNPRINTABLE, printable, terminal
from sureenough.data import BUILTIN_POOL
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread
from tests.processes import CLEAN, begun, sureenough

CLIPBOARD = "7\x1b]52;c;aGk=\x07\x1b[31m\x9b2J\x9d0;title\x9c\x08\u202e\x7f"
OTHERS_WRITE_NOTHING = {"strategies", "demo", "serve"}
"""Verbs that print no text of models, servers or files; what they print takes the same way."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nπ 😀 \\boxed{7}", "plain\ttext\nπ 😀 \\boxed{7}"),
        ("line\r\nline", "line\nline"),
        ("over\rwritten", r"over\rwritten"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("\x9b31m \x9d \x90", r"\x9b31m \x9d \x90"),
        ("\x7f\x08\x00", r"\x7f\x08\x00"),
        ("\u202e\u2066\u2028", r"\u202e\u2066\u2028"),
        ("\ud83d", r"\ud83d"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_any_text_can_be_printed(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert all(letter in "\t\n" or (ord(letter) >= 32 and not 127 <= ord(letter) < 160) for letter in shown)
    assert printable(shown) == shown


def test_nothing_else_writes_to_a_terminal() -> None:
    for file in sorted(Path(cli.__file__).parent.glob("*.py")):
        if file.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            written = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert written not in {"print", "typer.echo", "typer.secho", "click.echo", "Console"}, (file.name, written)
            assert not re.match(r"sys\.(?:stdout|stderr)\.(?:buffer\.)?write", written), (file.name, written)


def test_tables_and_live_displays_are_cleaned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table("a", title=CLIPBOARD)
    table.add_row(CLIPBOARD)
    shown = terminal()
    shown.print(table, CLIPBOARD)
    with Live(console=shown, auto_refresh=False, transient=True) as live:
        live.update(table, refresh=True)
    written = capsys.readouterr().out
    assert written.count(r"\x1b]52;c;aGk=") >= 4
    assert "\x1b]" not in written
    assert not UNPRINTABLE.search(re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", written).replace("\r", ""))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with in_thread(serving(Manner(tokens=3, answer=CLIPBOARD))) as server:
        yield server.url


@pytest.fixture(scope="module")
def failing() -> Iterator[str]:
    body = '{"error": {"message": ' + ascii(CLIPBOARD).replace("'", '"').replace("\\x", "\\u00") + "}}"
    with in_thread(serving(Manner(status=400, body=body))) as server:
        yield server.url


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A question whose every text is hostile."""
    rows = pq.read_table(BUILTIN_POOL).slice(0, 16)
    for column in ("answer", "gold", "question"):
        at = rows.schema.get_field_index(column)
        rows = rows.set_column(at, rows.schema.field(at), pa.array([f"{column} {CLIPBOARD}"] * len(rows)))
    file = tmp_path_factory.mktemp("hostile") / "pool\x1b]0;x\x07.parquet"
    pq.write_table(rows, file)
    return file


Words = Callable[[Path, Path, str, str], list[str | Path]]
COMMANDS: dict[str, Words] = {
    "ask": lambda pool, at, url, bad: ["ask", "?", "--url", url, "--model", "m", "-s", "sc", "-n", "2", "-v"],
    "ask --json": lambda pool, at, url, bad: ["ask", "?", "--url", url, "--model", "m", "-n", "2", "--json"],
    "ask, refused": lambda pool, at, url, bad: ["ask", "?", "--url", bad, "--model", "m"],
    "answers": lambda pool, at, url, bad: ["answers", CLIPBOARD, "5"],
    "answers --json": lambda pool, at, url, bad: ["answers", CLIPBOARD, "5", "--json"],
    "answers --extract": lambda pool, at, url, bad: ["answers", "--extract", at / "reply.txt"],
    "answers, of a kind": lambda pool, at, url, bad: ["answers", "--kind", CLIPBOARD, "5", "6"],
    "answers, no file": lambda pool, at, url, bad: ["answers", "--extract", CLIPBOARD],
    "replay": lambda pool, at, url, bad: ["replay", pool, "-s", "sc ac"],
    "replay --csv": lambda pool, at, url, bad: ["replay", pool, "-s", "sc", "--csv"],
    "replay -q": lambda pool, at, url, bad: ["replay", pool, "-q", "1", "-s", "sc", "--show-paths"],
    "replay -q --json": lambda pool, at, url, bad: ["replay", pool, "-q", "1", "-s", "sc", "--json"],
    "replay, no question": lambda pool, at, url, bad: ["replay", pool, "-q", CLIPBOARD],
    "view, no question": lambda pool, at, url, bad: ["view", pool, "-q", CLIPBOARD, "--no-browser"],
    "doctor": lambda pool, at, url, bad: ["doctor", "--url", url, "--model", CLIPBOARD],
    "doctor, refused": lambda pool, at, url, bad: ["doctor", "--url", bad, "--model", "m"],
    "record": lambda pool, at, url, bad: ["record", at / "questions.csv", "-o", at / "out.parquet", "--url", url,
                                          "--model", "m", "-n", "2"],
    "record, refused": lambda pool, at, url, bad: ["record", at / "questions.csv", "-o", at / "none.parquet", "--url",
                                                   bad, "--model", "m", "-n", "2"],
    "import": lambda pool, at, url, bad: ["import", at / "paths.csv", "-o", at / f"{CLIPBOARD}.parquet"],
    "import, refused": lambda pool, at, url, bad: ["import", at / "questions.csv", "-o", at / "none.parquet"],
    "bench": lambda pool, at, url, bad: ["bench", "main", "--pool", pool, "-s", "sc", "--repeats", "1",
                                         "-o", at / "run"],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("env", [{}, {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "120", "LINES": "40"}])
def test_no_verb_lets_text_through(
    name: str, env: dict[str, str], pool: Path, tmp_path: Path, url: str, failing: str
) -> None:
    (tmp_path / "reply.txt").write_text(f"\\boxed{{{CLIPBOARD}}}")
    (tmp_path / "questions.csv").write_text(f'id,question\n"q{CLIPBOARD}",?\n')
    (tmp_path / "paths.csv").write_text(f'question,answer,"{CLIPBOARD}"\n"q{CLIPBOARD}",1,2\n')
    done = sureenough(*COMMANDS[name](pool, tmp_path, url, failing), env=CLEAN | env, cwd=tmp_path)
    written = done.stdout + done.stderr
    assert "Traceback" not in written
    assert written.strip()
    left = re.sub(r"\x1b\[(?:\?25[lh]|[12]?[AK]|\d?m)", "", written).replace("\r", "") if env else written
    assert not UNPRINTABLE.search(left), UNPRINTABLE.findall(left)


def test_view_says_what_it_shows_in_plain_text(pool: Path) -> None:
    with begun("view", pool, "-s", "sc", "--no-browser") as server:
        assert r"showing question 7\x1b]52;c;aGk=\x07" in server.stdout.readline()


def test_every_verb_is_walked() -> None:
    walked = {name.replace(",", "").split()[0] for name in COMMANDS}
    assert walked | OTHERS_WRITE_NOTHING == set(VERBS)
