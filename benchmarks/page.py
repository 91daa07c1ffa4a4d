"""The page with 512 paths of 2,000 tokens: milliseconds per frame to apply events, update text and draw, in Chromium.

python benchmarks/page.py [--smoke]; `.ci/browser` installs Chromium and playwright and can run it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

LONGEST_MS: Final = 100.0
"""Events arrive ten times per second: with a longer frame they would queue."""
ARGUMENTS: Final = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SCRIPT: Final = Path(__file__).with_suffix(".js").read_text()


def measure(url: str, paths: int, boxed: bool) -> tuple[float, float, float, int]:
    """The median, the longest and the last frame, and the number of points drawn, in one chart or in a box per path."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1360, "height": 1000})
        page.goto(url)
        median, longest, last, points = page.evaluate(SCRIPT.partition("\n")[2], [paths, 10, boxed])
        browser.close()
    return median, longest, last, points


def main() -> int:
    """Measure, and fail if frames are too long."""
    smoke = "--smoke" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sureenough", "view", folder, "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            try:
                assert server.stdout is not None
                url = server.stdout.readline().split("the page is ")[1].strip().removesuffix("/runs")
                frames = {name: measure(url, 64 if smoke else 512, name == "boxes") for name in ("one chart", "boxes")}
            finally:
                server.terminate()
    for name, (median, longest, last, points) in frames.items():
        times = f"{median:.1f} ms (median), {last:.1f} (last), {longest:.1f} (longest)"
        print(f"{name}, {points:,} points: a frame takes {times}")
    return 0 if smoke or max(median for median, *_ in frames.values()) < LONGEST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
