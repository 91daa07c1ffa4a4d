"""Update the output of the README's commands in the README; run it after a change that changes a number."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def main() -> None:
    """Replace the output of the demo and of the example."""
    text = README.read_text()
    command = [sys.executable, "-m", "sureenough", "demo", "--no-live"]
    demo = subprocess.run(command, capture_output=True, text=True, check=True)
    code = re.search(r"```python\n(.*?)```\n```text", text, re.DOTALL)
    if code is None:
        raise SystemExit("README.md has no example with its output")
    output = subprocess.run([sys.executable, "-c", code[1]], capture_output=True, text=True, check=True)
    blocks = iter([demo.stdout.rstrip(), output.stdout.rstrip()])
    README.write_text(re.sub(r"```text\n.*?```", lambda _: f"```text\n{next(blocks)}\n```", text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
