"""The programs in examples/ run and print what they promise; those that need a model or further packages run in CI.

`SUREENOUGH_EXAMPLES=1 pytest tests/test_examples.py` runs all; they need `pip install -e '.[dev,examples]' litellm`.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sureenough.engines.load_balancer import ServerLoad
from sureenough.server.metrics import ServerMetrics

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOK = EXAMPLES / "ddc_step_by_step.ipynb"
ALL = os.environ.get("SUREENOUGH_EXAMPLES") == "1"
SECONDS = 300

LIVE = {
    "ask_and_explain": r"^answer: \d+\n.*\n.*\n\nAnswer: ",
    "compare_csv": r"^sc +\d.*\nac +.*\nsure +.*x$",
    "own_judge": r"^math +\d+: .*\nEnough +(enough|too few): ",
    "structured_output": r"^Solution\(x=\d+\) \d+\nvotes: {'{\"x\": ",
    "langchain_chain": r"boxed\{403\}\.\n.*boxed\{1017\}",
    "litellm_client": r"boxed{\d+}.\ntokens of all paths: \d+",
    "agent_loop": r"^(result: \d+|the paths do not agree)",
    "watch_run": r"^path +\d+ kept: .*answer 7; .*\n(.*\n)*stop: settled, \d+ tokens\nanswer: 7",
}
"""What the programs that sample from the built-in model print."""


def output(program: str) -> str:
    environment = os.environ | {"PYTHONWARNINGS": "default"}
    command = [sys.executable, str(EXAMPLES / f"{program}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def notebook() -> dict[str, Any]:
    cells: dict[str, Any] = json.loads(NOTEBOOK.read_text("utf-8"))
    return cells


def printed(cell: dict[str, Any]) -> str:
    return "".join("".join(part["text"]) for part in cell["outputs"] if part["output_type"] == "stream")


async def served_metrics() -> set[str]:
    """The names of all that a server with two upstreams has at /metrics."""
    backend = SimpleNamespace(loads=[ServerLoad("a"), ServerLoad("b")])
    learned, settings = SimpleNamespace(known={}), SimpleNamespace(replica=None)
    state: Any = SimpleNamespace(backend=backend, learned=learned, settings=settings, requests=0, runs={})
    endings = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    return {metric.name + ending for metric in ServerMetrics(state).collect() for ending in endings[metric.type]}


def test_every_metric_of_the_dashboard_exists() -> None:
    panels = json.loads((EXAMPLES / "grafana.json").read_text("utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    shown = set(re.findall(r"sureenough_\w+", " ".join(queries)))
    assert all("sureenough_" in query for query in queries)
    assert len(shown) > 9
    assert not shown - asyncio.run(served_metrics())


def test_the_table_lists_every_example() -> None:
    table = re.findall(
        r"^\| `\S+(?: notebook)? examples/(\S+?)[ `]", (EXAMPLES / "README.md").read_text(), re.MULTILINE
    )
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".ipynb"}}
    assert set(table) == files - {"local_server.py"}
    assert {name.removesuffix(".py") for name in table} == {*LIVE, "own_stop_rule", NOTEBOOK.name}


def test_own_stop_rule(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_stop_rule.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "arith-5-3-1: 219 after 10 of 32 paths, settled"
    assert [line.split()[0] for line in lines[1:]] == ["sc", "ac", "four-ahead"]


def test_the_cells_of_the_notebook_print_what_is_stored() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    names: dict[str, Any] = {}
    with plt.rc_context():
        plt.switch_backend("agg")
        for cell in notebook()["cells"]:
            if cell["cell_type"] == "code":
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    exec("".join(cell["source"]), names)
                assert out.getvalue() == printed(cell)
                plt.close("all")


def test_the_outputs_of_the_notebook_are_stored_and_small() -> None:
    cells = [cell for cell in notebook()["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in cells)
    assert sum("image/png" in part.get("data", {}) for cell in cells for part in cell["outputs"]) == 5
    assert NOTEBOOK.stat().st_size < 200_000


@pytest.mark.skipif(not ALL, reason="samples from the built-in model; .ci/run sets SUREENOUGH_EXAMPLES")
@pytest.mark.parametrize("program", LIVE)
def test_a_program_prints_what_it_promises(program: str) -> None:
    assert re.search(LIVE[program], output(program), re.MULTILINE)


@pytest.mark.skipif(not ALL, reason="needs Jupyter; .ci/run sets SUREENOUGH_EXAMPLES")
def test_the_notebook_runs_in_jupyter(tmp_path: Path) -> None:
    code = (
        "import nbformat, nbclient; book = nbformat.read(r'{0}', 4); nbformat.validate(book); "
        "nbclient.NotebookClient(book, timeout=120, kernel_name='python3').execute(); nbformat.write(book, r'{1}')"
    )
    executed = tmp_path / "executed.ipynb"
    command = [sys.executable, "-c", code.format(NOTEBOOK, executed)]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    pairs = zip(notebook()["cells"], json.loads(executed.read_text("utf-8"))["cells"], strict=True)
    for stored, run in pairs:
        assert stored["cell_type"] != "code" or printed(run) == printed(stored)
