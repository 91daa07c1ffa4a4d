"""Check a built site: every link inside it leads somewhere, and no page loads anything from another host.

python scripts/docs_check.py site
"""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

LOADED: Final = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}
LOADED_RELATIONS: Final = {"stylesheet", "preload", "icon", "preconnect", "dns-prefetch", "modulepreload"}


class PageParser(HTMLParser):
    """Collects what a page loads, what it links to, and the names that can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.loads, self.links, self.names = list[str](), list[str](), set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read one tag."""
        values = {name: value or "" for name, value in attrs}
        self.names.update(values[name] for name in ("id", "name") if name in values)
        self.loads += [values[name] for of, name in LOADED if of == tag and name in values]
        if tag == "link" and LOADED_RELATIONS & set(values.get("rel", "").split()):
            self.loads.append(values.get("href", ""))
        elif tag == "a" and "href" in values:
            self.links.append(values["href"])


@cache
def parsed(file: Path) -> PageParser:
    """A page, read once."""
    page = PageParser()
    page.feed(file.read_text("utf-8"))
    return page


def problems(site: Path) -> list[str]:
    """Everything that is wrong with a site."""
    found = []
    for file in sorted(site.rglob("*.html")):
        name, page = file.relative_to(site), parsed(file)
        found += [f"{name} loads {url}" for url in page.loads if urlsplit(url).netloc]
        for link in [*page.loads, *page.links]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or name.name == "404.html":
                continue
            target = file if not parts.path else (file.parent / unquote(parts.path)).resolve()
            if not target.exists():
                found.append(f"{name} links to {link}, which does not exist")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in parsed(target).names:
                found.append(f"{name} links to {link}, and that page has no such heading")
    for file in sorted(site.rglob("*.css")):
        found += [
            f"{file.name} loads {url}" for url in re.findall(r"url\(\s*['\"]?(https?:[^)]*)", file.read_text("utf-8"))
        ]
    return found


def main(site: str) -> None:
    """Print the problems; exit code 1 if there are any."""
    found = problems(Path(site).resolve())
    print(*found[:50], f"{len(found)} problems, {len(list(Path(site).rglob('*.html')))} pages", sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
