"""The documentation as a site: every page is there, and every link in it leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.machine import REPOSITORY

LINK = re.compile(r'(?:href|src)="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    program = str(REPOSITORY / "script" / "lib" / "site.py")
    subprocess.run([sys.executable, program, str(folder)], check=True, capture_output=True)
    return folder


def test_every_page_is_in_the_site_and_in_the_index(site):
    names = {page.stem for page in (REPOSITORY / "docs").glob("*.md")} - {"README"}

    index = (site / "docs.html").read_text()

    assert {name for name in names if f'href="{name}.html' in index} == names
    assert {name for name in names if (site / f"{name}.html").is_file()} == names


def test_every_link_within_the_site_leads_to_a_heading_that_exists(site):
    pages = {page.name: page.read_text() for page in site.glob("*.html")}
    broken = []
    for name, text in pages.items():
        for link in LINK.findall(text):
            path, _, part = link.partition("#")
            if "://" in link or path.startswith(("..", "mailto:", "/", "data:")):
                continue
            if path.endswith((".svg", ".png")):
                found = (site / path).is_file()
            else:
                page = pages.get(path or name)
                found = page is not None and (not part or f'id="{part}"' in page)
            if not found:
                broken.append(f"{name}: {link}")

    assert broken == []


def test_a_page_needs_nothing_of_the_network(site):
    loaded = [
        source
        for page in site.glob("*.html")
        for source in re.findall(
            r'<(?:script|img|link)[^>]+(?:src|href)="([^"]+)"', page.read_text()
        )
    ]

    assert [source for source in loaded if "://" in source] == []
