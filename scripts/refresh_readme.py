"""Update the output of the demo in the README and the quickstart, and that of the README's example.

Run it after a change that changes a number.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEMO = re.compile(r"```text\n(Strategies on the same.*?)```", re.DOTALL)
EXAMPLE = re.compile(r"(```python\n(.*?)```\n```text\n).*?```", re.DOTALL)


def output(*arguments: str) -> str:
    """What a command of Python prints."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout.rstrip()


def main() -> None:
    """Replace the outputs."""
    demo = output("-m", "sureenough", "demo", "--no-live")
    for page in (ROOT / "README.md", ROOT / "docs" / "quickstart.md"):
        page.write_text(DEMO.sub(lambda _: f"```text\n{demo}\n```", page.read_text()))
    readme = ROOT / "README.md"
    text, replaced = EXAMPLE.subn(lambda shown: f"{shown[1]}{output('-c', shown[2])}\n```", readme.read_text())
    if replaced != 1:
        raise SystemExit("README.md has no example with its output")
    readme.write_text(text)


if __name__ == "__main__":
    main()
