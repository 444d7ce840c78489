"""``sacctmgr``: accounts, users and QOS, which are projects, quotas and queues here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.slurm.accounting import sacctmgr_change, sacctmgr_show
from rota.slurm.accounting.sacctmgr_documents import show_document
from rota.slurm.accounting.sacctmgr_order import AccountOrder
from rota.slurm.call.command import VERSION_LINE, Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, read_words
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.shown_document import shape_asked

if TYPE_CHECKING:
    from rota.slurm.call.command import Call

OPTIONS = OptionTable(
    "h help: this text",
    "i immediate: change at once, without a question",
    "json=?VERSION: a JSON document, with the keys of this version",
    "n noheader: no line of headings",
    "o oneliner: each record on one line",
    "p parsable: fields between bars, with one at the end",
    "P parsable2: fields between bars",
    "Q quiet: no messages but errors",
    "r readonly: change nothing",
    "s associations: with associations",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "usage: the names of all options",
    "yaml=?VERSION: a YAML document",
)
ENTITIES = {
    "account": "account",
    "accounts": "account",
    "association": "association",
    "associations": "association",
    "cluster": "cluster",
    "clusters": "cluster",
    "configuration": "configuration",
    "event": "event",
    "events": "event",
    "federation": "federation",
    "federations": "federation",
    "problem": "problem",
    "problems": "problem",
    "qos": "qos",
    "reservation": "reservation",
    "reservations": "reservation",
    "resource": "resource",
    "resources": "resource",
    "runawayjobs": "runawayjobs",
    "transaction": "transaction",
    "transactions": "transaction",
    "tres": "tres",
    "user": "user",
    "users": "user",
    "wckey": "wckey",
    "wckeys": "wckey",
}
_LIST = """No valid entity in list command
Input line must include "Account", "Association", "Cluster", "Configuration",
"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",
"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"
"""
_CHANGE = """No valid entity in {verb} command
Input line must include "Account", "User", or "QOS"
"""
#: Verb -> what it does.
VERBS = {
    "add": "add",
    "create": "add",
    "list": "show",
    "show": "show",
    "modify": "modify",
    "update": "modify",
    "delete": "delete",
    "remove": "delete",
}


_ENDS = "VERB ENTITY [NAME=VALUE...]\nVerbs: add, delete, modify, show"


async def sacctmgr(call: Call) -> Answer:
    """Answer one call."""
    options, words = read_words("sacctmgr", OPTIONS, call.request.argv)
    asked = {key for key, _ in options}
    if told := about_itself("sacctmgr", OPTIONS, asked, _ENDS):
        return told
    if words[:1] == ["version"]:
        return Answer(VERSION_LINE)
    if not words:
        return Answer()
    order = read_order(words, asked)
    view = SlurmView(call.context)
    shape = shape_asked("sacctmgr", dict(options), call.env)
    if order.verb == "show" and shape is not None:
        return await show_document(view, order, shape)
    if order.verb == "show":
        return sacctmgr_show.show(view, order)
    return await sacctmgr_change.change(call, view, order)


def read_order(words: list[str], options: set[str]) -> AccountOrder:
    """Take a command line apart, or say what is wrong with it."""
    verb = next((name for name in VERBS if name.startswith(words[0].lower())), "")
    if not verb or len(words[0]) < 2:
        raise CommandFailed(f"invalid keyword: {words[0]}\n")
    verb = VERBS[verb]
    entity = _entity(words[1]) if len(words) > 1 else ""
    if not entity:
        raise CommandFailed(_LIST if verb == "show" else _CHANGE.format(verb=verb))
    order = AccountOrder(verb=verb, entity=entity, options=options)
    target = order.where if verb != "add" else order.values
    for word in words[2:]:
        lower = word.lower()
        if lower in ("where", "set"):
            target = order.where if lower == "where" else order.values
        elif "=" in word:
            _take(order, target, word)
        elif lower.startswith(("with", "wo", "tree", "raw", "onlydef", "delete")):
            order.flags.add(lower)
        else:
            order.names += filter(None, word.split(","))
    return order


def _entity(word: str) -> str:
    lower = word.lower()
    if lower in ENTITIES:
        return ENTITIES[lower]
    found = [entity for name, entity in ENTITIES.items() if name.startswith(lower)]
    return found[0] if found else ""


def _take(order: AccountOrder, target: dict[str, str], word: str) -> None:
    key, _, value = word.partition("=")
    plain = key.lower().rstrip("+-")
    if plain in ("format", "form", "forma"):
        order.format = value
    elif plain in ("name", "names") or plain == order.entity:
        order.names += filter(None, value.split(","))
    else:
        target[key.lower()] = value
