"""``rota web``: opens the web page in the browser, signed in as the caller."""

from __future__ import annotations

import click

from rota.cli.shared import session

_HELP = """Open the web page in the browser, signed in as you.

The link is good once and for two minutes; the sign-in lasts for half a day, or until you sign out.
Over the network, set ROTA_URL and ROTA_TOKEN, or open the page and paste a token there.
"""


@click.command(help=_HELP)
@click.option("--print", "only_print", is_flag=True, help="Print the link and open nothing.")
def web(only_print: bool) -> None:
    client = session.connect()
    made = client.post("/web/links", {})
    # A server does not know by which name it is reached from elsewhere.
    url = made["url"] if client.is_local else client.addresses[0].rstrip("/") + made["path"]
    if only_print:
        click.echo(url)
        return
    import webbrowser

    if webbrowser.open(url):
        click.echo("opened the web page in the browser")
    else:
        session.warn("there is no browser here; open this link, it is good once:")
        click.echo(url)
