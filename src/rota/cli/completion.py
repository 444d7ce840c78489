"""``rota completion``: tab completion for shells."""

from __future__ import annotations

import click

_HINTS = {
    "bash": 'add to ~/.bashrc:  eval "$(rota completion bash)"',
    "zsh": 'add to ~/.zshrc:  eval "$(rota completion zsh)"',
    "fish": "save as ~/.config/fish/completions/rota.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(sorted(_HINTS)))
def completion(shell: str) -> None:
    """Print the completion script for your SHELL.

    \b
    bash:  eval "$(rota completion bash)"     in ~/.bashrc
    zsh:   eval "$(rota completion zsh)"      in ~/.zshrc
    fish:  rota completion fish > ~/.config/fish/completions/rota.fish
    """
    from click.shell_completion import get_completion_class

    from rota.cli.main import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    source = kind(cli, {}, "rota", "_ROTA_COMPLETE").source()
    click.echo(f"# {_HINTS[shell]}\n{source}")
