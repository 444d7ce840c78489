"""Options in sections: a help page that people can scan, and options that commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

F = TypeVar("F", bound="Callable[..., Any]")


class SectionOption(click.Option):
    """An option that knows under which heading of the help it stands."""

    section = "Options"

    @classmethod
    def under(cls, section: str, *names: str, **settings: Any) -> SectionOption:
        made = cls(list(names), **settings)
        made.section = section
        return made


class SectionCommand(click.Command):
    """Prints its options under their headings, in the order they were declared."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                title = getattr(parameter, "section", "Other")
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=28)


class CommandLine(SectionCommand):
    """Keeps everything from the first argument on as it is, and notes where ``--`` stood.

    The parser drops ``--``, yet ``rota submit -- a`` (a command) and ``rota submit a`` (a script)
    differ, so a mark is put behind it and looked for afterwards: ``words_before_dashes``
    tells how many words stood in front.
    """

    mark = "\0--\0"

    def __init__(self, *args: Any, **settings: Any) -> None:
        given = settings.get("context_settings") or {}
        settings["context_settings"] = {"allow_interspersed_args": False, **given}
        super().__init__(*args, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--") + 1
            args = [*args[:place], self.mark, *args[place:]]
        rest = super().parse_args(ctx, args)
        words = ctx.params.get("words", ())
        ctx.meta["rota.mark"] = words.index(self.mark) if self.mark in words else None
        ctx.params["words"] = tuple(word for word in words if word != self.mark)
        self._refuse_dashes(ctx)
        return rest

    def _refuse_dashes(self, ctx: click.Context) -> None:
        """``-n -- CMD``: the parser takes the dashes for the value that was forgotten."""
        for option in self.params:
            value = ctx.params.get(option.name or "")
            if isinstance(option, click.Option) and "--" in (value, *_several(value)):
                raise click.BadOptionUsage(option.opts[0], f"{option.opts[0]} needs a value", ctx)


def _several(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()


def words_before_dashes(ctx: click.Context) -> int | None:
    """How many words stood before ``--``; None when there was none."""
    mark: int | None = ctx.meta["rota.mark"]
    return mark


def job_and_command(ctx: click.Context) -> tuple[str, list[str]]:
    """The one job in front of ``--`` and the command behind it, which may be absent."""
    from rota.cli.shared.types import JobRefType

    jobs, command = _split(ctx)
    if len(jobs) != 1:
        raise click.UsageError(f"expected one job: {ctx.command_path} JOB [options] [-- COMMAND…]")
    return JobRefType().convert(jobs[0], None, ctx), command


def jobs_and_command(ctx: click.Context) -> tuple[list[str], list[str]]:
    """The same where several jobs may stand in front of ``--``."""
    from rota.cli.shared.types import JobRefs

    jobs, command = _split(ctx)
    if not jobs:
        raise click.UsageError(f"which job? {ctx.command_path} JOB… [options] [-- COMMAND…]")
    return [JobRefs().convert(job, None, ctx) for job in jobs], command


def _split(ctx: click.Context) -> tuple[list[str], list[str]]:
    words = list(ctx.params["words"])
    before = words_before_dashes(ctx)
    cut = len(words) if before is None else before
    return words[:cut], words[cut:]


def words_argument(metavar: str) -> click.Argument:
    """The words behind the options, untouched."""
    return click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, metavar=metavar)


def explicit(ctx: click.Context, names: Iterable[str]) -> dict[str, Any]:
    """The options that were really given: a default must not override a script's line."""
    given = {}
    for name in names:
        source = ctx.get_parameter_source(name)
        if source is not None and source is not click.core.ParameterSource.DEFAULT:
            given[name] = ctx.params[name]
    return given


def json_option(command: F) -> F:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def quiet_option(command: F) -> F:
    """``-q``."""
    return click.option("-q", "--quiet", is_flag=True, help="Print ids only.")(command)
