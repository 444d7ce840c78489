"""A PostgreSQL that shows one moment, however long it is read while another program writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from rota.store.postgres import PostgresDriver, public_name

if TYPE_CHECKING:
    from collections.abc import Sequence

BEGIN = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class FrozenDriver(PostgresDriver):
    """One connection in one transaction, without the lock of the controller that leads."""

    def __init__(self, address: str) -> None:
        self._conninfo = f"postgresql://{address}"
        self.name = public_name(self._conninfo)
        self._native = {}
        try:
            self._writer = self._connect()
            self._writer.execute(BEGIN)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def read(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            cursor = self._writer.cursor(binary=True)
            return cursor.execute(self._translate(text), values).fetchall()
        except psycopg.Error as error:
            raise self._translated(error) from error

    def close(self) -> None:
        self._writer.close()
