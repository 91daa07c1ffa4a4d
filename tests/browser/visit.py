"""A visit to the live page: its console messages, its requests, and the actions of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TIMEOUT = 120_000
"""Milliseconds: machines under load are slow, and a test that hangs must end."""


class Visit:
    """A page, its console messages and its requests."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.console: list[str] = []
        self.requests: list[str] = []
        self.page: Page = browser.new_page(viewport={"width": 1360, "height": 1000}, **options)
        self.page.set_default_timeout(TIMEOUT)
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda error: self.console.append(str(error)))
        self.page.on("dialog", lambda dialog: self.console.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)
        self.page.wait_for_selector("#model option", state="attached")

    def ask(
        self, question: str, strategy: str = "ddc", options: str = "", compared: str = "nothing", **fields: int
    ) -> None:
        """Fill the form and send it."""
        self.page.fill("#question", question)
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
        """The text of an element."""
        return str(self.page.inner_text(selector))

    def count(self, selector: str) -> int:
        """The number of elements."""
        return int(self.page.locator(selector).count())

    def quiet(self) -> None:
        """Check that the console is empty, and that no other host was contacted."""
        assert not self.console, self.console
        assert all(url.startswith((self.url, "data:")) for url in self.requests), self.requests

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
