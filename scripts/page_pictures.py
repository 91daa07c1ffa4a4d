"""Takes the pictures of docs/serving.md anew, and puts their numbers into their alternative texts.

python scripts/page_pictures.py; `.ci/browser python scripts/page_pictures.py` installs Chromium and playwright first.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT: Final = Path(__file__).parent.parent
QUESTION: Final = "Solve for x: 20(15x+821)+214x-6869=235x+50564."
STRATEGY, OPTIONS, SEED = "ddc", "weight=mean,drop=1", 10
PRUNED: Final = 3
"""Paths that are pruned in the picture of a run in progress."""
COLOURS: Final = 256
"""Of a picture's palette: text and lines look the same, in half of the bytes."""


def main() -> None:
    """Serve the built-in model, ask, and take both pictures."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    command = [sys.executable, "-m", "sureenough", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split("the page is ")[1].strip()
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=program, args=["--headless", "--no-sandbox"])
                take(browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="light"), url)
                browser.close()
        finally:
            server.terminate()


def take(page: Page, url: str) -> None:
    """One run: a picture while it runs, in light mode, and one after it has settled, in dark mode."""
    page.set_default_timeout(120_000)
    page.goto(url)
    page.wait_for_selector("#model option", state="attached")
    page.fill("#question", QUESTION)
    page.evaluate("document.querySelector('#ask details').open = true")
    page.select_option("#strategy", STRATEGY)
    page.fill("#strategy-options", OPTIONS)
    page.fill("[name=seed]", str(SEED))
    page.click("#go")
    page.wait_for_selector(f".chip.f-pruned >> nth={PRUNED - 1}")
    page.evaluate("document.querySelector('#results').scrollIntoView()")
    numbers: tuple[str, ...] = ()
    while numbers != (numbers := read(page)):  # until nothing changed while the picture was taken
        save(page, "serve-running.png")
    running, pruned, measure, threshold = numbers
    describe(
        "serve-running.png",
        f"A run in progress: {running} paths are growing, {pruned} were pruned, the posterior by the paper's weights "
        f"is {measure}, and the run {threshold}",
    )
    page.wait_for_selector("#run[data-state=over]")
    page.emulate_media(color_scheme="dark")
    page.click(".chip.f-pruned[title*='fell below'] >> nth=0")
    page.wait_for_selector("#text span")
    page.mouse.move(1, 1)
    page.evaluate("document.querySelector('.charts').scrollIntoView()")
    page.wait_for_timeout(300)
    save(page, "serve-settled.png")
    answer, tokens, path = (page.inner_text(part) for part in ("#answer", "#tokens", "#reader-title"))
    describe(
        "serve-settled.png",
        f"The same run after it settled on {answer} with {tokens} tokens, in dark mode, with {path.lower()} open, "
        "which was pruned below the threshold: its tokens are shaded by confidence",
    )


def read(page: Page) -> tuple[str, ...]:
    """The numbers of a run in progress."""
    counts = [str(page.locator(f".chip.f-{kind}").count()) for kind in ("running", "pruned")]
    return *counts, page.inner_text("#measure"), page.inner_text("#threshold")


def save(page: Page, name: str) -> None:
    """Write the picture with a small palette."""
    file = ROOT / "docs" / name
    page.screenshot(path=file)
    Image.open(file).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


def describe(name: str, text: str) -> None:
    """Put the text of a picture into docs/serving.md."""
    print(f"{name}: {text}")
    document = ROOT / "docs" / "serving.md"
    before = document.read_text()
    after, count = re.subn(rf"!\[[^]]*\]\({re.escape(name)}\)", lambda _: f"![{text}]({name})", before)
    assert count == 1, name
    document.write_text(after)


if __name__ == "__main__":
    main()
