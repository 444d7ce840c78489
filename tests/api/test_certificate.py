"""The server's certificate, and what proves it to others."""

from __future__ import annotations

import platform
import ssl
import stat
import subprocess
from pathlib import Path

import pytest

from rota.agent.attempts.address import interfaces
from rota.api.door.certificate import NoCertificate, names_of, server_context, wants_tls
from rota.fingerprints import WrongCertificate, check, fingerprint_of, split_token
from tests.api.running import Running


@pytest.mark.parametrize(
    ("choice", "host", "wanted"),
    [
        ("auto", "127.0.0.1", False),
        ("auto", "127.0.0.7", False),
        ("auto", "localhost", False),
        ("auto", "::1", False),
        ("auto", "0.0.0.0", True),
        ("auto", "::", True),
        ("auto", "10.0.0.5", True),
        ("on", "127.0.0.1", True),
        ("off", "0.0.0.0", False),
    ],
)
def test_what_leaves_the_machine_is_encrypted_unless_told_otherwise(
    choice: str, host: str, wanted: bool
):
    assert wants_tls(choice, host) is wanted


def test_a_certificate_is_made_once_and_its_key_is_nobody_elses(tmp_path: Path):
    _, first = server_context(tmp_path, ["head"])
    _, again = server_context(tmp_path, ["head"])

    assert first == again
    assert len(first) == 43
    assert stat.S_IMODE((tmp_path / "tls.key").stat().st_mode) == 0o600
    der = ssl.PEM_cert_to_DER_cert((tmp_path / "tls.crt").read_text())
    assert fingerprint_of(der) == first


def test_a_certificate_names_the_machine_and_its_addresses(tmp_path: Path):
    server_context(tmp_path, names_of("0.0.0.0", ["rota.lab", "10.1.2.3"]))

    shown = subprocess.run(
        ["openssl", "x509", "-in", tmp_path / "tls.crt", "-noout", "-ext", "subjectAltName"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    for name in (f"DNS:{platform.node()}", "DNS:localhost", "DNS:rota.lab"):
        assert name in shown
    for address in ("127.0.0.1", "10.1.2.3", "0:0:0:0:0:0:0:1", *interfaces()):
        assert f"IP Address:{address}" in shown
    assert "IP Address:0.0.0.0" not in shown


def test_a_certificate_names_the_one_address_that_is_listened_at(tmp_path: Path):
    assert "192.0.2.7" in names_of("192.0.2.7")
    assert not set(interfaces()) & set(names_of("192.0.2.7")) - {"127.0.0.1"}


def test_without_openssl_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")

    with pytest.raises(NoCertificate, match="openssl is not installed") as refused:
        server_context(tmp_path, ["head"])

    assert f"put a certificate and its key into {tmp_path / 'tls.crt'}" in str(refused.value)
    assert "server.tls = off" in str(refused.value)


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path):
    (tmp_path / "tls.crt").write_text("not a certificate")
    (tmp_path / "tls.key").write_text("not a key")

    with pytest.raises(NoCertificate, match=r"tls\.crt"):
        server_context(tmp_path, ["head"])


def test_a_token_may_carry_the_fingerprint_behind_a_dot():
    assert split_token("rota_ab_cd-e_f.FINGER") == ("rota_ab_cd-e_f", "FINGER")
    assert split_token(" rota_ab_cd \n") == ("rota_ab_cd", "")


def test_another_certificate_than_the_one_named_is_refused_and_both_are_told():
    shown = fingerprint_of(b"another")

    with pytest.raises(WrongCertificate) as refused:
        check(b"another", fingerprint_of(b"mine"))

    assert f"shown {shown}, expected {fingerprint_of(b'mine')}" in str(refused.value)
    check(b"mine", fingerprint_of(b"mine"))
    check(b"whatever", "")


def test_a_server_takes_a_token_with_its_fingerprint_still_on_it(server: Running):
    token = server.as_user("ann").token

    caller = server.network(f"{token}.{fingerprint_of(b'mine')}")

    assert caller.get("/status").json["user"] == "ann"
