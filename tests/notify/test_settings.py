"""Whom to tell, as people write it: in rota.toml, on the command line and over REST."""

import pytest

from rota.config import parse
from rota.core.facts.errors import Rejected
from rota.core.facts.notices import ENDS, EVENTS, WARNINGS, Target, format_target, parse_target
from rota.settings.notify import Notify

TOML = """
[notify]
smtp_host = "mx.example.org"
smtp_from = "rota@example.org"
hosts = ["*.example.org"]

[[notify.webhooks]]
url = "https://hooks.example.org/x"
events = ["problem", "started"]
users = ["ann"]
headers = { "X-Team" = "a" }
secret = "s3cret"
retries = 2

[[notify.mails]]
to = "ops@example.org"
"""


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("https://h.org/x", Target("https", "https://h.org/x")),
        ("HTTP://h.org:8080/x?a=1,2", Target("http", "HTTP://h.org:8080/x?a=1,2")),
        ("mail:ann@x.org,on=failed,started", Target("mail", "ann@x.org", ("started", "failed"))),
        ("mailto:ann@x.org", Target("mail", "ann@x.org")),
        ("chat:#ml,on=all", Target("chat", "#ml", EVENTS)),
    ],
)
def test_a_target_is_read_and_written_again(text, target):
    assert parse_target(text) == target
    assert parse_target(format_target(target)) == target


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected https"),
        ("ann@x.org", "expected https"),
        ("mail:ann", "not a mail address"),
        ("mail:a@b.org,c@d.org", "not a mail address"),
        ("mail:a@b.org\nBcc: x@y.org", "not a mail address"),
        ("https://h.org/x,on=complete", "did you mean"),
        ("https://h.org/x,on=", "there is no event"),
        ("https://", "expected http"),
        ("https://h.org:99999/", "not a URL"),
        ("https://u:p@h.org/", "must not carry"),
        ("https://h.org/a b", "no blanks"),
    ],
)
def test_a_target_that_cannot_be_meant_is_refused(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse_target(text)


def test_the_settings_name_whom_the_site_tells():
    settings = parse(TOML, "rota.toml", {"ROTA_NOTIFY_SMTP_PASSWORD": "pw"}).notify

    hook = settings.webhooks[0]
    assert (hook.name, hook.retries, hook.headers) == ("hooks.example.org", 2, {"X-Team": "a"})
    assert hook.events == ("started", *WARNINGS, *ENDS[1:])
    assert hook.wants("failed", "ann", "any")
    assert not hook.wants("failed", "bob", "any")
    assert not hook.wants("completed", "ann", "any")
    assert settings.mails[0].events == EVENTS
    assert settings.smtp_password == "pw"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("webhooks = 3", r"rota.toml: notify.webhooks: expected tables: \[\[notify.webhooks"),
        ("[[notify.webhooks]]", "entry 1: .*url"),
        ('[[notify.webhooks]]\nurl = "x"', "entry 1: expected http"),
        ('[[notify.webhooks]]\nurl = "https://h"\nevent = []', "unknown key event; did you mean"),
        ('[[notify.webhooks]]\nurl = "https://h"\nevents = ["end", "no"]', "no event 'no'"),
        ('[[notify.webhooks]]\nurl = "https://h"\nretries = 1000', "retries: 1000 is not valid"),
        ('[[notify.webhooks]]\nurl = "https://h"\ntimeout_s = 0', "timeout_s: 0 is not valid"),
        (
            '[[notify.webhooks]]\nurl = "https://h"\nheaders = { "Content-Length" = "1" }',
            "set by Rota itself",
        ),
        ('[[notify.webhooks]]\nurl = "https://h"\nheaders = { "X" = "a\\nb" }', "plain ASCII"),
        (
            '[[notify.webhooks]]\nurl = "https://h/a"\n[[notify.webhooks]]\nurl = "https://h/b"',
            "two entries are called 'h'",
        ),
        ('[[notify.mails]]\nto = "a@b.org"', "needs smtp_host"),
        ('smtp_host = "h"', "needs smtp_from"),
        ('smtp_security = "ssl"', "none, starttls, tls"),
        ("webhook = []", "unknown key notify.webhook; did you mean webhooks"),
    ],
)
def test_a_mistake_in_the_settings_is_named_at_the_start(text, problem):
    with pytest.raises(Rejected, match=problem):
        parse(f"[notify]\n{text}\n", "rota.toml", {})


def test_a_mistake_in_the_settings_never_quotes_a_secret():
    text = '[[notify.webhooks]]\nurl = "https://h"\nsecret = "hunter2"\nretries = -1\n'

    with pytest.raises(Rejected) as refusal:
        parse(text, "rota.toml", {})

    assert "hunter2" not in str(refusal.value)


def test_a_job_may_name_only_what_the_site_can_and_may_serve():
    site = parse(TOML, "rota.toml", {}).notify

    assert site.target("https://ci.example.org:8443/x").host == "ci.example.org:8443"
    assert site.target("mail:ann@elsewhere.org").scheme == "mail"
    with pytest.raises(Rejected, match="these hosts only"):
        site.target("http://169.254.169.254/latest")
    with pytest.raises(Rejected, match="there is no notifier chat; https, http, mail"):
        site.target("chat:#ml")
    with pytest.raises(Rejected, match="sends no mail"):
        Notify().target("mail:ann@x.org")


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8080", "10.1.2.3", "192.168.0.9", "169.254.169.254", "0.0.0.0", "localhost"),
        *("[::1]", "[::ffff:127.0.0.1]", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]"),
        *("[2002:7f00:1::]", "[::127.0.0.1]", "100.64.0.1", "224.0.0.1"),
        *("[64:ff9b:1::7f00:1]", "[::ffff:0:127.0.0.1]", "[fec0::1]"),
    ],
)
def test_a_job_may_not_name_an_address_inside_unless_the_site_lists_it(host):
    with pytest.raises(Rejected, match=r"a public address, or a host of notify\.hosts"):
        Notify().target(f"http://{host}/x")

    assert Notify(hosts=("*",)).target(f"http://{host}/x").host == host
    assert Notify().target("http://8.8.8.8/x").host == "8.8.8.8"
