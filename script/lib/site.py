"""Pages from the Markdown of README.md and docs/, with links that work from a folder on disk.

``python script/lib/site.py FOLDER``. Headings get the anchors that GitHub gives them, so that the
same links serve in both places.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
STYLE = """
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733; background: #fff;
  font: 16px/1.55 system-ui, sans-serif; }
pre, code { font: 14px/1.45 ui-monospace, monospace; background: #f2f5f8; }
pre { padding: .8rem; overflow-x: auto; border-radius: 6px; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid #d4dce4; padding: .3rem .6rem; text-align: left; vertical-align: top; }
nav { font-size: 14px; } a { color: #0b62a8; }
@media (prefers-color-scheme: dark) { body { color: #dfe6ec; background: #14191f; }
  pre, code { background: #1f2730; } td, th { border-color: #36424e; } a { color: #74b9ef; } }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} - Rota</title>
<meta name="viewport" content="width=device-width"><style>{style}</style></head>
<body><nav><a href="index.html">Rota</a> · <a href="docs.html">all pages</a></nav>
{body}</body></html>
"""


def anchor(text: str) -> str:
    """As GitHub makes it: small letters, no punctuation, - for blanks."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def target(link: str, page: Path) -> str:
    """Where a link of a page leads in the site; links out of it stay as they are."""
    path, mark, part = link.partition("#")
    if not path or "://" in path or not path.endswith(".md"):
        return link.replace("docs/pictures/", "pictures/")
    found = (page.parent / path).resolve()
    return name_of(found) + mark + part if found in pages() else f"../../{path}{mark}{part}"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def name_of(page: Path) -> str:
    if page == ROOT / "README.md":
        return "index.html"
    return "docs.html" if page.name == "README.md" else f"{page.stem}.html"


def rendered(page: Path) -> str:
    """One page, whole."""
    markdown = MarkdownIt("commonmark").enable("table")
    tokens = markdown.parse(page.read_text(encoding="utf-8"))
    seen: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            name = anchor(plain(tokens[number + 1]))
            seen[name] = seen.get(name, -1) + 1
            token.attrSet("id", name if not seen[name] else f"{name}-{seen[name]}")
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", target(str(child.attrGet("href") or ""), page))
            elif child.type == "image":
                child.attrSet("src", str(child.attrGet("src")).replace("docs/", "", 1))
    body = markdown.renderer.render(tokens, markdown.options, {})
    title = next((plain(t) for t in tokens if t.type == "inline"), "Rota")
    return PAGE.format(title=html.escape(title), style=STYLE, body=body)


def plain(token: Token) -> str:
    """The words of a heading without its marks."""
    return "".join(child.content for child in token.children or ())


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for page in pages():
        (folder / name_of(page)).write_text(rendered(page), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures", dirs_exist_ok=True)
    sys.stdout.write(f"wrote {len(pages())} pages; open {folder / 'index.html'}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
