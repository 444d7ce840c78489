"""Which document ``--json`` and ``--yaml`` ask for, and its text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.formats.documents import PLUGIN, meta
from rota.slurm.formats.later import LATER
from rota.slurm.formats.long_documents import long_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The shape of 22.05, which is the one without a value.
USUAL = "v0.0.38"
VERSIONS = (USUAL, *LATER)
#: Which shape is meant where none is named: for sites whose tools know a later Slurm.
VARIABLE = "ROTA_SLURM_JSON"


class DocumentShape(NamedTuple):
    """How a document is written."""

    version: str
    yaml: bool = False

    @property
    def is_later(self) -> bool:
        return self.version in LATER

    def item(self, convert: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Any], Any]:
        """What becomes of one item of a list."""
        return convert if self.is_later else lambda item: item

    async def answer(
        self, name: str, items: object, plugin: dict[str, str] = PLUGIN, command: str = ""
    ) -> Answer:
        """The document whose value is a list, long or short, or a map."""
        body: dict[str, Any] = {"meta": self._meta(plugin, command), "errors": []}
        if self.is_later:
            body["warnings"] = []
        body[name] = items
        return Answer(await long_text(body, yaml=self.yaml))

    def _meta(self, plugin: dict[str, str], command: str) -> dict[str, Any]:
        usual = meta(plugin)
        if not self.is_later:
            return usual
        version = {name: str(part) for name, part in usual["Slurm"]["version"].items()}
        parser = {"type": "", "name": "", "data_parser": f"data_parser/{self.version}"}
        release = {**usual["Slurm"], "version": version, "cluster": "rota"}
        return {"plugin": parser, "command": [command], "slurm": release}


def shape_asked(
    program: str, asked: Mapping[str, str], env: Mapping[str, str]
) -> DocumentShape | None:
    """The document that a command line asks for; none where it wants a table."""
    key = "json" if "json" in asked else "yaml"
    if key not in asked:
        return None
    # Slurm takes ``data_parser/v0.0.41``, and flags behind a plus sign that change no key.
    named = asked[key] or env.get(VARIABLE, "") or USUAL
    version = named.rpartition("/")[2].partition("+")[0]
    if version == "list":
        lines = "".join(f"data_parser/{one}\n" for one in VERSIONS)
        raise CommandFailed("", 0, f"Possible data_parser plugins:\n{lines}")
    if version not in VERSIONS:
        known = ", ".join(VERSIONS)
        where = f"--{key}" if asked[key] else VARIABLE
        raise CommandFailed(f"{program}: error: {where}: '{named}' is not one of {known}\n")
    return DocumentShape(version, key == "yaml")
