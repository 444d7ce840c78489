"""Two people on one machine, each with a Rota, and the socket that a Rota of root has for all."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rota.api.door.sockets import neighbour

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.journeys.box import Box


def test_a_second_rota_takes_a_free_port_and_names_the_first(new_box: Callable[..., Box]) -> None:
    first, second = new_box(), new_box()
    for box in (first, second):
        del box.env["ROTA_SERVER_LISTEN"]
    first.up()

    said = second.rota("up", "--detach").stdout.splitlines()

    port = urlsplit(second.status()["controller"]["url"]).port
    assert port != 8082
    assert "port 8082" in said[1]
    second.down()
    first.down()
    second.up()
    assert urlsplit(second.status()["controller"]["url"]).port == port, "people were told this one"


def test_a_rota_on_the_wanted_port_is_told_from_another_program(box: Box) -> None:
    port = urlsplit(box.status()["controller"]["url"]).port or 0
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]

        lines = neighbour(port, own=1), neighbour(taken, own=1), neighbour(taken, own=taken)
        head = neighbour(port, own=1, runs_jobs=False)

    me = getpass.getuser()
    assert lines == (
        f"{me} runs a Rota here too, on port {port}: both hand out the same CPUs and GPUs",
        f"port {taken} is taken by another program of {me}",
        "",
    )
    assert head == f"{me} runs a Rota here too, on port {port}", "it hands out nothing here"


def test_a_port_that_was_asked_for_is_not_exchanged(box: Box, new_box: Callable[..., Box]) -> None:
    address = urlsplit(box.status()["controller"]["url"]).netloc

    said = new_box().refusal("up", "--detach", "--listen", address)

    assert f"cannot listen on {address}: address already in use; choose another" in said


def test_the_socket_for_everybody_stays_with_the_rota_that_has_it(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    first, second = new_box(), new_box()
    for box in (first, second):
        box.env["ROTA_SERVER_SOCKET"] = str(tmp_path / "all.sock")
        box.up()

    url = {"ROTA_URL": f"unix://{tmp_path / 'all.sock'}"}
    seen = first.rota("status", "--json", env=url).stdout

    assert first.status()["controller"]["url"] in seen


def test_the_start_line_names_a_database_elsewhere(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    box = new_box()

    said = box.rota("up", "--detach", "--database", str(tmp_path / "other.db")).stdout

    assert f", database {tmp_path / 'other.db'}, node box" in said
    assert "rota is up at http://127.0.0.1:" in said
