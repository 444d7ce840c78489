"""Templates and files: each is read once, and a file's address names what is in it."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rota import __version__
from rota.api.auth import RIGHTS
from rota.web.answers import FRESH, HTML, KEPT, PageAnswer

if TYPE_CHECKING:
    from rota.core.facts.tenant import Actor

_HERE = Path(__file__).parent
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
STATIC = "/web/static/"
#: Name, title and address of the pages in the bar, and the right that each needs.
PAGES = (
    ("now", "Now", "/", "read"),
    ("plan", "Plan", "/web/plan", "read"),
    ("people", "People", "/web/people", "read"),
    ("care", "Care", "/web/care", "operate"),
)


@cache
def _files() -> dict[str, PageAnswer]:
    """What may be asked for, by name: nothing else below the folder, and nothing above it."""
    found = sorted((_HERE / "static").iterdir())
    return {
        path.name: PageAnswer(path.read_bytes(), f"{_KINDS[path.suffix]}; charset=utf-8", 200, KEPT)
        for path in found
        if path.suffix in _KINDS
    }


@cache
def mark() -> str:
    """Stands in the address of every file: changes with any of them."""
    digest = hashlib.sha256()
    for name, answer in _files().items():
        digest.update(name.encode() + answer.body)
    return digest.hexdigest()[:12]


def file_answer(path: str) -> PageAnswer | None:
    """The file at ``/web/static/MARK/NAME``."""
    shown, _, name = path.removeprefix(STATIC).partition("/")
    answer = _files().get(name)
    return answer if answer is None or shown == mark() else answer._replace(headers=FRESH)


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def rights_of(actor: Actor | None) -> list[str]:
    """What the actor's role may do at all; the routes check it again."""
    return [right for right, roles in RIGHTS.items() if actor is not None and actor.access in roles]


def frame(page: str, actor: Actor | None, pretended: bool, **words: Any) -> PageAnswer:
    """A page without what changes on it; it says where the machines are ``pretended``."""
    can = rights_of(actor)
    text = _templates().get_template(f"{page}.html")
    body = text.render(
        page=page,
        static=f"{STATIC}{mark()}",
        version=__version__,
        pretended=pretended,
        user=actor.user if actor is not None else "",
        role=str(actor.access) if actor is not None else "",
        can=can,
        pages=[entry for entry in PAGES if entry[3] in can],
        **words,
    )
    return PageAnswer(body.encode(), HTML)
