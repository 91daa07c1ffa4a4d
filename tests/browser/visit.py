"""A visit to the live page: its console messages, its requests, and the actions of a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from sureenough.server import ServerSettings
from tests.engines.misbehaving import Manner
from tests.server.recorded import Recorded
from tests.server.serving import ours, serving_app
from tests.server.upstream import an_upstream, before

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TIMEOUT = 120_000
"""Milliseconds: machines under load are slow, and a test that hangs must end."""


DUCKS = 1
"""A question of the built-in pool on which ddc prunes many paths."""
DEAD = "http://127.0.0.1:9/v1"
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"


class Visit:
    """A page, its console messages and its requests; at its end the console must be empty."""

    def __init__(self, browser: Browser, url: str, *, quiet: bool = True, form: bool = True, **options: Any) -> None:
        self.url, self._quiet = url, quiet
        self.console: list[str] = []
        self.requests: list[str] = []
        self.page: Page = browser.new_page(viewport={"width": 1360, "height": 1000}, **options)
        self.page.set_default_timeout(TIMEOUT)
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda error: self.console.append(str(error)))
        self.page.on("dialog", lambda dialog: self.console.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)
        if form:
            self.page.wait_for_selector("#model option", state="attached")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None and self._quiet:
            assert not self.console, self.console
            assert all(url.startswith((self.url, "data:")) for url in self.requests), self.requests
        self.page.close()

    def ask(
        self, question: str, strategy: str = "ddc", options: str = "", compared: str = "nothing", **fields: int
    ) -> None:
        """Fill the form and send it."""
        self.page.fill("#question", question)
        self.page.evaluate("document.querySelector('#ask details').open = true")
        self.page.select_option("#strategy", strategy)
        self.page.fill("#strategy-options", options)
        self.page.select_option("#other-strategy", compared)
        self.page.evaluate("document.getElementById('other-strategy-options').value = ''")
        for name, value in fields.items():
            self.page.fill(f"[name={name}]", str(value))
        self.page.click("#go")

    def state(self, wanted: str) -> None:
        """Wait for the run to be running, over or in error."""
        self.page.wait_for_selector(f"#run[data-state={wanted}]")

    def compared(self) -> None:
        """Wait for both runs of a comparison to be over, and for the sentence on their answers."""
        self.page.wait_for_selector("#comparison[data-state=over]")
        self.page.wait_for_selector("#verdict:text-matches('agree|answer')")

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def count(self, selector: str) -> int:
        return int(self.page.locator(selector).count())

    def inked(self, host: str) -> int:
        """The number of pixels of a canvas that are drawn on."""
        pixels: int = self.page.evaluate(
            """host => { const c = document.querySelector(host + ' canvas');
               const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
               copy.drawImage(c, 0, 0);
               const d = copy.getImageData(0, 0, c.width, c.height).data;
               let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }""",
            host,
        )
        return pixels


@contextmanager
def recorded_paths(delay: float, *, logprobs: bool = True, **settings: Any) -> Iterator[str]:
    """The address of our server before recorded paths, which come as slowly as a test needs."""
    with (
        serving_app(Recorded(DUCKS, delay, logprobs).app()) as upstream,
        ours(ServerSettings(upstream=f"{upstream.url}/v1", window=64, **settings)) as (url, _),
    ):
        yield url


@contextmanager
def visiting(browser: Browser, **settings: Any) -> Iterator[Visit]:
    """A visit to our server with these settings."""
    with ours(ServerSettings(**settings)) as (url, _), Visit(browser, url) as visit:
        yield visit


@contextmanager
def visiting_before(browser: Browser, manner: Manner | Callable[[int], Manner], **settings: Any) -> Iterator[Visit]:
    """A visit to our server before an upstream with this manner."""
    with (
        an_upstream(manner) as upstream,
        before(upstream, models=("tiny",), window=4, **settings) as (url, _),
        Visit(browser, url) as visit,
    ):
        yield visit
