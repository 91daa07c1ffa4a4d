"""The check of the built site finds what it should: dead links, missing headings, and requests to other hosts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))
from docs_check import problems  # noqa: E402

PAGE = '<h2 id="here"></h2><a href="b.html#there">x</a><a href="#here">x</a><a href="https://example.org">x</a>'


def site(folder: Path, page: str) -> Path:
    (folder / "a.html").write_text(page)
    (folder / "b.html").write_text('<h2 id="there"></h2><link rel="stylesheet" href="style.css">')
    (folder / "style.css").write_text("body { background: url(picture.png) }")
    return folder


def test_a_site_without_problems(tmp_path: Path) -> None:
    assert problems(site(tmp_path, PAGE)) == []


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ('<a href="c.html">x</a>', "a.html links to c.html, which does not exist"),
        ('<a href="b.html#nowhere">x</a>', "a.html links to b.html#nowhere, and that page has no such heading"),
        ('<a href="#nowhere">x</a>', "a.html links to #nowhere, and that page has no such heading"),
        ('<img src="picture.png">', "a.html links to picture.png, which does not exist"),
        ('<script src="https://cdn.example/x.js"></script>', "a.html loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "a.html loads //fonts.example/x.css"),
        ('<link rel="preconnect" href="https://fonts.example">', "a.html loads https://fonts.example"),
    ],
)
def test_problems_are_found(page: str, problem: str, tmp_path: Path) -> None:
    assert problem in problems(site(tmp_path, page))


def test_a_style_sheet_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    folder = site(tmp_path, PAGE)
    (folder / "style.css").write_text("@font-face { src: url('https://fonts.example/x.woff2') }")
    assert problems(folder) == ["style.css loads https://fonts.example/x.woff2'"]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100
