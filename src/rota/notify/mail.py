"""Mail by SMTP: one short message for each event.

What mail needs is imported with the first one: most sites send none, and start faster for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.notify.channels import NotNow, Unwanted

if TYPE_CHECKING:
    import smtplib
    from email.message import EmailMessage

    from rota.notify.notice import Notice
    from rota.settings.notify import Notify

_PORTS = {"none": 25, "starttls": 587, "tls": 465}


class Mail:
    """Implements ``Notifier``; the address is a mail address."""

    def __init__(self, settings: Notify) -> None:
        self._settings = settings
        self._security = settings.smtp_security or ("starttls" if settings.smtp_user else "none")

    def send(self, notice: Notice, address: str, timeout_s: float) -> None:
        import smtplib

        message = compose(notice, address, self._settings.smtp_from)
        try:
            with self._connect(timeout_s) as server:
                if self._settings.smtp_user:
                    server.login(self._settings.smtp_user, self._settings.smtp_password)
                server.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            code, words = next(iter(error.recipients.values()), (0, b""))
            text = f"{code} {words.decode(errors='replace')}"
            raise (Unwanted(text) if code >= 500 else NotNow(text)) from None

    def _connect(self, timeout_s: float) -> smtplib.SMTP:
        import smtplib
        import ssl

        host = self._settings.smtp_host
        port = self._settings.smtp_port or _PORTS[self._security]
        if self._security == "tls":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(host, port, timeout=timeout_s, context=context)
        server = smtplib.SMTP(host, port, timeout=timeout_s)
        if self._security == "starttls":
            server.starttls(context=ssl.create_default_context())
        return server


def compose(notice: Notice, address: str, sender: str) -> EmailMessage:
    """Subject and body for people, and headers by which programs can tell repeats."""
    from email.message import EmailMessage

    message = EmailMessage()
    message["Subject"] = f"[rota] {_plain(notice.text)[:200]}"
    message["From"] = sender
    message["To"] = address
    message["Message-ID"] = f"<{notice.id}@{sender.rpartition('@')[2]}>"
    message["X-Rota-Delivery"] = notice.id
    message["X-Rota-Event"] = notice.event
    message["Auto-Submitted"] = "auto-generated"
    facts = {**notice.job, **notice.detail, "when": notice.at, "by": notice.actor}
    shown = [(key, value) for key, value in facts.items() if value not in (None, "", [], {})]
    lines = [notice.text, "", *(f"{key + ':':14} {_words(value)}" for key, value in shown)]
    message.set_content("\n".join(map(_plain, lines)) + "\n")
    return message


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _plain(text: str) -> str:
    """A header is one line, and what cannot be written in UTF-8 is not written."""
    return " ".join(text.encode(errors="replace").decode().splitlines())
