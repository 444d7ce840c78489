"""From a path to what answers it: files, frames of pages, feeds, news, signing in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote

from rota.api import errors
from rota.api.auth import Unauthenticated, require
from rota.api.door.front import read_body
from rota.core.facts.errors import NotFound, RotaError
from rota.core.facts.tenant import Access
from rota.web import entry, live, terminal
from rota.web.answers import FRESH, PageAnswer, as_json, give, redirect, stream
from rota.web.frames import STATIC, file_answer, frame
from rota.web.room import room_of
from rota.web.views import care, job, now, people, plan, sweep
from rota.web.views.asked import MovedPage, PageRequest

if TYPE_CHECKING:
    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.api.door.front import Identify
    from rota.core.facts.tenant import Actor

BODY_MAX = 64 * 1024
#: The first word behind ``/web/`` -> the page; ``/`` is the first one.
VIEWS: dict[str, Any] = {
    "": now,
    "job": job,
    "sweep": sweep,
    "care": care,
    "people": people,
    "plan": plan,
}
#: ``/web/feed/NAME`` -> who makes it.
FEEDS = {**now.FEEDS, **job.FEEDS, **sweep.FEEDS, **care.FEEDS, **plan.FEEDS}


async def serve(
    context: Context, identify: Identify, scope: Scope, receive: Receive, send: Send
) -> None:
    """One request; a refusal is a page for people and a problem for programs."""
    path: str = scope["path"]
    if scope["type"] == "websocket":
        await terminal.serve(context, identify, scope, receive, send)
        return
    if path == "/web/live":
        await _tell(context, identify, scope, receive, send)
        return
    try:
        answer = await _answer(context, identify, scope, receive)
    except RotaError as error:
        answer = _problem(error)
    await give(send, answer, head=scope["method"] == "HEAD")


def _problem(error: RotaError) -> PageAnswer:
    problem, headers = errors.problem_of(error)
    named = {name.decode(): value.decode() for name, value in headers}
    body = errors.encode_problem(problem)
    return PageAnswer(body, errors.MEDIA_TYPE, problem.status, {**FRESH, **named})


async def _answer(
    context: Context, identify: Identify, scope: Scope, receive: Receive
) -> PageAnswer:
    path, method = scope["path"], scope["method"]
    if method in ("GET", "HEAD"):
        return await _look(context, identify, scope)
    if method != "POST" or path not in ("/web/sign-in", "/web/sign-out"):
        raise errors.WrongMethod.bad("method", method, "GET")
    body = await read_body(receive, BODY_MAX)
    if path == "/web/sign-in":
        return entry.sign_in(context, scope, body)
    return await entry.sign_out(context, scope, known(identify, scope))


async def _look(context: Context, identify: Identify, scope: Scope) -> PageAnswer:
    path: str = scope["path"]
    if path.startswith(STATIC):
        found = file_answer(path)
        if found is None:
            raise NotFound(f"there is nothing at {path}")
        return found
    query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
    if path.startswith("/web/enter/"):
        code = path.removeprefix("/web/enter/")
        return await entry.enter(context, scope, room_of(context).use_link(code))
    if path == "/web/sign-in":
        place = entry.place_of(query.get("next", ""))
        made_up = context.settings.pretended
        return frame("sign_in", None, made_up, next=place, used="used" in query)
    words = [unquote(word) for word in path.removeprefix("/web/").strip("/").split("/")]
    if words[0] == "feed":
        asked = PageRequest(context, known(identify, scope), words[2:], query)
        require(asked.actor, "read")
        if len(words) < 2 or words[1] not in FEEDS:
            raise NotFound(f"there is nothing at {path}")
        return as_json(await FEEDS[words[1]](asked))
    try:
        asked = PageRequest(context, known(identify, scope), words[1:], query)
    except Unauthenticated:
        wanted = path + ("?" + scope["query_string"].decode("latin-1")).rstrip("?")
        return entry.forgotten(scope, f"/web/sign-in?next={quote(wanted, safe='')}")
    return await _page(words[0], asked)


async def _page(name: str, asked: PageRequest) -> PageAnswer:
    """The frame of a page; one that says what is wrong where there is no such thing."""
    view = VIEWS.get(name)
    made_up = asked.context.settings.pretended
    try:
        if view is None:
            raise NotFound(f"there is no page {name}")
        require(asked.actor, view.RIGHT)
        words: dict[str, Any] = await view.words(asked)
    except MovedPage as found:
        return redirect(found.place)
    except RotaError as error:
        status = errors.problem_of(error)[0].status
        return frame("trouble", asked.actor, made_up, trouble=str(error))._replace(status=status)
    return frame(view.TEMPLATE, asked.actor, made_up, **words)


def known(identify: Identify, scope: Scope) -> Actor:
    """Who asks; nobody looks at a page without a name, and no agent does."""
    actor = identify(scope)
    if actor is None or actor.access is Access.AGENT:
        raise Unauthenticated("sign in first")
    return actor


async def _tell(
    context: Context, identify: Identify, scope: Scope, receive: Receive, send: Send
) -> None:
    try:
        actor = known(identify, scope)
    except RotaError as error:
        await give(send, _problem(error))
        return
    await stream(receive, send, live.told(room_of(context).news, context, actor))
