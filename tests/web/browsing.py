"""A browser, and what every test of a page asks of it: no error, nothing asked of another host."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.support.machine import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, ConsoleMessage, Request

PICTURES = REPOSITORY / "docs" / "pictures"
#: Guards against hanging only: every wait ends as soon as its condition holds.
WAIT_MS = 30_000
expect.set_options(timeout=WAIT_MS)


def find_chromium() -> str:
    """The system's browser; empty: there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or ""


class Visitor:
    """Somebody with a browser of their own: one cookie jar, and a record of what went wrong."""

    def __init__(self, browser: Browser, base: str, *, pictures: bool = False) -> None:
        self.base = base
        self._pictures = pictures
        self.wrong: list[str] = []
        # Pictures for the documentation are a little smaller than the screen.
        self._context = browser.new_context(
            viewport={"width": 1180, "height": 760}, device_scale_factor=0.75 if pictures else 1
        )
        self._context.set_default_timeout(WAIT_MS)
        self.page: Page = self.another()

    def another(self) -> Page:
        """One more window of the same browser."""
        page = self._context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        page.on("request", self._asked)
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("blob", "data") and parts.netloc != urlsplit(self.base).netloc:
            self.wrong.append(f"another host was asked: {request.url}")

    def enter(self, token: str) -> None:
        """Sign in with a token, as a person does."""
        self.page.goto(f"{self.base}/web/sign-in")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page).to_have_url(f"{self.base}/")

    def go(self, path: str) -> Page:
        """Open a page and wait until it is live."""
        self.page.goto(self.base + path)
        expect(self.page.locator("#line")).to_have_text("live")
        return self.page

    def picture(self, name: str) -> None:
        """For the documentation, where these are wanted."""
        if self._pictures:
            self.page.screenshot(path=PICTURES / f"web-{name}.png")

    def close(self) -> None:
        self._context.close()
        assert not self.wrong, "\n".join(self.wrong)


@contextmanager
def swarm(socket: Path | str, *, agents: int, gpus: int, cpus: int = 8) -> Iterator[None]:
    """So many pretended nodes, connected while the block runs."""
    sizes = ["--agents", str(agents), "--gpus", str(gpus), "--cpus", str(cpus)]
    command = [sys.executable, "-m", "rota.testing.swarm", *sizes, "--url", f"unix://{socket}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            # No token: the kernel says who we are.
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "ready\n"
            yield
        finally:
            child.kill()
