"""Hooks of mkdocs.yml: reference pages from the code, pages from files outside docs/, links to sources, and formulas.

pip install '.[docs]' && mkdocs serve
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any, Final

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "src")]  # mkdocs loads this file by its path
import docs_reference  # noqa: E402

OUTSIDE: Final = {
    "README.md": "index.md",  # docs/index.md stands for it
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
    "training/README.md": "training.md",
    "training/searcher/README.md": "searcher.md",
    "src/sureenough/data/README.md": "data.md",
}
"""Documents outside docs/, and their pages."""
NOT_SEARCHED: Final = "---\nsearch:\n  exclude: true\n---\n"
"""Begins pages that would fill the results of every search."""
LINK: Final = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
CODE: Final = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


def rewritten(text: str, folder: str) -> str:
    """A document with the links that lead out of docs/ replaced by those of the site."""
    parts = CODE.split(text)  # prose and code in turns
    parts[::2] = [LINK.sub(lambda link: f"]({page_of(link[1], folder)}{link[2] or ''})", part) for part in parts[::2]]
    return "".join(parts)


def page_of(target: str, folder: str) -> str:
    """The page for a link of a document in this folder."""
    path = normpath(str(PurePosixPath(folder) / target))
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        path = f"{path}/README.md" if f"{path}/README.md" in OUTSIDE else f"{path}/__init__.py"
        return page_of(path, "")
    return f"source/{path}.md"


def linked_sources(texts: Iterator[str]) -> set[str]:
    """The sources that pages link to, as paths in the repository."""
    return {
        link[1].removeprefix("source/").removesuffix(".md")
        for text in texts
        for link in LINK.finditer(CODE.sub("", text))
        if link[1].startswith("source/")
    }


def source_page(path: str) -> str:
    """A file of the repository as a page."""
    language = {".py": "python", ".csv": "csv", ".js": "javascript"}.get(Path(path).suffix, "text")
    return f"# {path}\n\n````{language}\n{(ROOT / path).read_text('utf-8').rstrip()}\n````\n"


def on_config(config: Any) -> Any:
    """Formulas in fences become MathML; pages that the navigation does not name come last among the guides."""
    fence = {"name": "math", "class": "math", "format": formula}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    named = str(config.nav)
    more = [path.name for path in sorted((ROOT / "docs").glob("*.md")) if f"'{path.name}'" not in named]
    next(part["Guides"] for part in config.nav if "Guides" in part).extend(more)
    return config


def formula(source: str, *_: Any, **__: Any) -> str:
    """A formula as MathML, which browsers draw themselves."""
    return "".join(f'<div class="math">{convert(line, display="block")}</div>' for line in source.split("\n\n"))


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    pages: dict[str, Callable[[], str] | str] = dict(docs_reference.PAGES)
    for path, name in OUTSIDE.items():
        if name != "index.md":
            pages[name] = rewritten((ROOT / path).read_text("utf-8"), str(PurePosixPath(path).parent))
    texts = [page for page in pages.values() if isinstance(page, str)]
    texts += [rewritten(path.read_text("utf-8"), "docs") for path in (ROOT / "docs").glob("*.md")]
    pages |= {f"source/{path}.md": source_page(path) for path in linked_sources(iter(texts))}
    for name, page in pages.items():
        text = page if isinstance(page, str) else page()
        if name.startswith("source/") or name == "changelog.md":
            text = NOT_SEARCHED + text
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of the pages that are written by hand."""
    return markdown if page.file.generated_by else rewritten(markdown, "docs")
