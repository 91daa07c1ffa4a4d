"""Shell completion: it is offered, completes verbs and options, and imports no more than it needs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.processes import sureenough

SCRIPT = """
import sys
sys.argv = ["sureenough"]
from sureenough.cli import main
try:
    main()
finally:
    print("numpy" in sys.modules, file=sys.stderr)
"""


def complete(line: str, cwd: Path) -> tuple[set[str], bool]:
    """The completions of the last word of a line in bash, and whether numpy was imported for them."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_SUREENOUGH_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, env=os.environ | words, cwd=cwd,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split()), done.stderr.split()[-1] == "True"


def test_verbs_are_completed_without_importing_them(tmp_path: Path) -> None:
    assert complete("sureenough re", tmp_path) == ({"record", "replay"}, False)


def test_options_are_completed_beside_a_bad_file_of_defaults(tmp_path: Path) -> None:
    (tmp_path / "sureenough.toml").write_text("speed = 9")
    assert complete("sureenough ask --max", tmp_path)[0] == {"--max-tokens", "--max-path-tokens"}


def test_bash_runs_its_script(tmp_path: Path) -> None:
    """The shell registers a function, which starts the program and receives the verbs."""
    program = tmp_path / "sureenough"
    code = "import sys; sys.argv[0] = 'sureenough'; from sureenough.cli import main; main()"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{code}" "$@"\n')
    program.chmod(0o755)
    script = sureenough(env=os.environ | {"_SUREENOUGH_COMPLETE": "source_bash"}).stdout
    assert "-F _sureenough_completion sureenough" in script
    call = 'COMP_WORDS=(sureenough str); COMP_CWORD=1; _sureenough_completion sureenough; echo "${COMPREPLY[@]}"'
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euc", f"{script}\n{call}"], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert done.stdout.split() == ["strategies"], done.stderr
