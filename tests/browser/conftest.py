"""A real Chromium. Without one these tests are skipped, unless SUREENOUGH_BROWSER says that they must run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.browser.visit import Visit, recorded_paths

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ARGUMENTS: Final = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def missing(what: str) -> None:
    """Skip with a message; fail where the browser was promised."""
    says = f"{what}; .ci/browser installs both and runs these tests"
    if os.environ.get("SUREENOUGH_BROWSER"):
        pytest.fail(f"SUREENOUGH_BROWSER is set, and there is {says}")
    pytest.skip(says)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        missing("no Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("no playwright (pip install 'sureenough[browser]')")
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest) -> Iterator[str]:
    """Our server before recorded paths, with the module's delay between their tokens."""
    with recorded_paths(request.module.DELAY) as url:
        yield url


@pytest.fixture
def visit(browser: Browser, recorded: str) -> Iterator[Visit]:
    with Visit(browser, recorded) as visit:
        yield visit
