"""Reasons in plain words: a short form for lists, and a line that stands by itself."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from rota.core.words.units import counted, format_duration, format_mib, format_when
from rota.scheduling.answers import reasons as why
from rota.scheduling.order.orderings import SCALE

if TYPE_CHECKING:
    from rota.scheduling.answers.reasons import Reason, Tree

#: The most counters that a waiting job is told to wait for.
COUNTERS = 3


def span(length_s: float) -> str:
    """``1h30m``; never nothing, and without seconds where they do not matter."""
    whole = max(1, ceil(length_s))
    if whole > 6 * 3600:
        whole = -(-whole // 60) * 60
    return format_duration(whole)


def _in(at_s: float, now_s: float) -> str:
    return f"in {span(at_s - now_s)}" if at_s > now_s else "now"


def short(reason: Reason, now_s: float) -> str:
    """A few words for a list."""
    match reason:
        case why.Held():
            return "held"
        case why.NotBefore():
            return f"{'next try' if reason.retry else 'begin time'} {_in(reason.at_s, now_s)}"
        case why.Parent():
            if reason.never:
                return f"job {reason.job} {reason.state}: can never start"
            return f"waits for job {reason.job} ({reason.state})"
        case why.QueueShut():
            return f"queue {reason.queue} is {reason.state}"
        case why.OverShare():
            return f"{_account(reason)} is beyond the limit on shares"
        case why.OverQuota():
            return reason.text
        case why.NoNode():
            return "no node has registered"
        case _:
            return _short_of_room(reason, now_s)


def _short_of_room(reason: Reason, now_s: float) -> str:
    match reason:
        case why.Away() | why.ClusterAway():
            return _away(reason) if isinstance(reason, why.Away) else _cluster_away(reason)
        case why.Unfit():
            return _unfit(reason)
        case why.Scarce():
            return _SCARCE.get(reason.resource, f"not enough free {reason.resource}")
        case why.BadCompany() | why.Metered():
            company = isinstance(reason, why.BadCompany)
            return f"{'neighbours' if company else f'node {reason.node}'}: {reason.problem}"
        case why.Claimed():
            return f"{_reservation(reason)} {_begins(reason, now_s)}"
        case why.WouldDelay():
            return f"would delay job {reason.job}, which starts {_in(reason.start_s, now_s)}"
        case why.Parts():
            return f"no room for all of its {reason.tasks} tasks"
        case why.Turn():
            return "waits for its turn"
        case why.Soon():
            return f"node {reason.node} has room: it starts with the next pass"
        case _:
            return _short_of_active(reason)


def _short_of_active(reason: Reason) -> str:
    match reason:
        case why.Leaving():
            return f"waits for {_jobs(reason.jobs)} to leave {', '.join(reason.nodes)}"
        case why.Active():
            where = ", ".join(reason.nodes)
            return f"{reason.verb} on {where}" + (f": {reason.cause}" if reason.cause else "")
        case why.Ended():
            return f"it is {reason.state}"
        case _:
            raise AssertionError(f"no words for {reason}")


def line(reason: Reason, now_s: float) -> str:
    """A whole line, with the numbers."""
    match reason:
        case why.Held():
            return f"it is held: {reason.note}" if reason.note else "it is held"
        case why.NotBefore():
            moment = "next try" if reason.retry else "begin time"
            return f"it waits for its {moment}, {_in(reason.at_s, now_s)}"
        case why.Parent():
            return f"it depends on job {reason.job} ({reason.kind}), which is {reason.state}"
        case why.OverShare():
            return (
                f"{_account(reason)} has had {reason.ratio:.3g} times its share, at most "
                f"{reason.limit:g} times is allowed while others wait"
            )
        case why.OverQuota():
            again = reason.again_s
            return reason.text + (f"; some comes free {_in(again, now_s)}" if again else "")
        case why.NoNode():
            return "no node has registered yet: start 'rota agent --join URL' on each machine"
        case why.Active() | why.Leaving() | why.Turn() | why.Soon():
            return _line_of_active(reason, now_s)
        case _:
            return _line_of_room(reason, now_s)


def _line_of_active(reason: Reason, now_s: float) -> str:
    match reason:
        case why.Active() if reason.verb == "stopping":
            return f"it has {reason.grace_s} s to end by itself"
        case why.Active():
            said = f", {reason.cause}" if reason.cause else ""
            return f"it is {reason.verb} on {', '.join(reason.nodes)}{said}"
        case why.Leaving():
            return f"its room on {', '.join(reason.nodes)} is being left by {_jobs(reason.jobs)}"
        case why.Turn() if reason.behind:
            room = "there is room, but " if reason.room else ""
            what = f"no job of the {reason.band} band" if reason.band else "nothing"
            return f"{room}{what} passes job {reason.behind}, which waits first"
        case _:
            return short(reason, now_s)


def _line_of_room(reason: Reason, now_s: float) -> str:
    match reason:
        case why.Unfit():
            return _said(_nodes(reason.nodes, reason.node), reason.problem, reason.nodes)
        case why.Scarce():
            return _scarce(reason)
        case why.BadCompany() | why.Metered():
            return f"{_nodes(reason.nodes, reason.node)}: {reason.problem}"
        case why.Claimed():
            stays = f"may stay {span(reason.stays_s)}" if reason.stays_s else "has no time limit"
            where = _nodes(reason.nodes, reason.node)
            note = f" ({reason.note})" if reason.note else ""
            start = _begins(reason, now_s)
            return f"{where}: {_reservation(reason)} {start}{note}, and the job {stays}"
        case why.WouldDelay():
            where = _nodes(reason.nodes, reason.node)
            return (
                f"{_said(where, 'has room', reason.nodes)}, but job {reason.job} is promised it"
                f" {_in(reason.start_s, now_s)}, and this one is taken to stay "
                f"{span(reason.stays_s)}"
            )
        case why.Parts() if reason.fit >= 0:
            where = "" if reason.nodes == 1 else f" on {reason.nodes} nodes"
            if reason.fit >= reason.tasks:
                few = counted(reason.nodes, "nodes")
                return f"there is room for all of its {reason.tasks} tasks, but on {few} only"
            return f"there is room for {reason.fit} of its {reason.tasks} tasks{where}"
        case _:
            return short(reason, now_s)


_SCARCE = {"whole node": "no node is idle", "shared node": "another job has the node to itself"}


def _scarce(reason: why.Scarce) -> str:
    where = f"node {reason.node}"
    if reason.resource == "whole node":
        run = f"{counted(reason.free, 'tasks')} {'runs' if reason.free == 1 else 'run'}"
        text = f"{where}: wants it to itself, {run} there"
    elif reason.resource == "shared node":
        text = f"{where}: another job has it to itself"
    else:
        text = f"{where}: {_need(reason)}"
    if reason.nodes == 1:
        return text
    what = _SCARCE.get(reason.resource, f"not enough free {reason.resource}")
    return f"{reason.nodes} nodes: {what}; nearest is {text}"


def _counted(unit: str, *, several: bool) -> str:
    """``gpu with 30000M to share`` as people write it: ``2 GPUs with 30000M to share``."""
    words = unit.split(" ")
    at = next((n for n, word in enumerate(words) if word in ("gpu", "tpu")), None)
    if at is None:
        return f"x {unit}"
    words[at] = words[at].upper() + ("s" if several else "")
    return " ".join(words)


def _need(reason: why.Scarce) -> str:
    if reason.unit == "MiB":
        needed, free, total = (
            format_mib(int(amount)) for amount in (reason.needed, reason.free, reason.total)
        )
        return f"needs {needed} of {reason.resource}, {free} of {total} free"
    if reason.unit == "CPUs":
        needs = counted(reason.needed, "CPUs")
        return f"needs {needs}, {reason.free:g} of {reason.total:g} free"
    what = _counted(reason.unit, several=reason.needed != 1)
    text = f"needs {reason.needed:g} {what}, {reason.free:g} of {reason.total:g} free for it"
    foreign = reason.foreign
    return text + (f"; {foreign} in use by processes outside Rota" if foreign else "")


def _unfit(reason: why.Unfit) -> str:
    if reason.nodes == 1:
        return _said(f"node {reason.node}", reason.problem)
    return f"no node fits: {reason.problem}"


_PLURAL = {"has": "have", "is": "are", "keeps": "keep"}


def _said(where: str, problem: str, nodes: int = 1) -> str:
    """Filters say ``has no gpu`` or ``taint x``: a sentence about a node, or a thing on it."""
    verb, _, rest = problem.partition(" ")
    if verb not in _PLURAL:
        return f"{where}: {problem}"
    return f"{where} {verb if nodes == 1 else _PLURAL[verb]} {rest}"


def _away(reason: why.Away) -> str:
    note = f" ({reason.note})" if reason.note else ""
    more = f", and {reason.nodes - 1} more" if reason.nodes > 1 else ""
    return f"node {reason.node} is {reason.state}{note}{more}"


def _cluster_away(reason: why.ClusterAway) -> str:
    since = f" since {format_when(reason.since_s)}" if reason.since_s else ""
    note = f" ({reason.note})" if reason.note else ""
    held = "its running job is" if reason.running == 1 else f"its {reason.running} running jobs are"
    text = f"cluster {reason.cluster} is {reason.state}{since}{note}"
    text += f"; {held} held" if reason.running else ""
    return text + (f"; it may go to {', '.join(reason.elsewhere)}" if reason.elsewhere else "")


def _reservation(reason: why.Claimed) -> str:
    """Which one is in the way; the end of a node is one without a number."""
    if not reason.reservation:
        return "the node"
    whose = f"of {reason.owner}" if reason.owner else "for maintenance"
    return f"reservation {reason.reservation} {whose}"


def _begins(reason: why.Claimed, now_s: float) -> str:
    if not reason.reservation:
        return f"ends at {format_when(reason.start_s)}"
    if reason.start_s > now_s:
        return f"begins {_in(reason.start_s, now_s)}"
    return f"ends {_in(reason.end_s, now_s)}"


def _nodes(count: int, name: str) -> str:
    return f"node {name}" if count == 1 else f"{count} nodes (such as {name})"


def _jobs(jobs: tuple[int, ...]) -> str:
    return ("job " if len(jobs) == 1 else "jobs ") + ", ".join(map(str, jobs))


def _account(reason: why.OverShare) -> str:
    return f"{reason.user} in {reason.project}" if reason.project else reason.user


def lines_of(tree: Tree, now_s: float, lines_max: int = 6) -> list[str]:
    found = [line(reason, now_s) for reason in tree.unsatisfied[:lines_max]]
    left = len(tree.unsatisfied) - lines_max
    if left > 0:
        found.append(f"and {counted(left, 'further reasons')}")
    if tree.waits is not None:
        found.append(f"waits for: {_waited_for(tree, tree.waits, now_s)}")
    if tree.expected is not None:
        where = ", ".join(tree.expected.nodes[:4])
        start = _in(tree.expected.start_s, now_s)
        victims, how = tree.expected.victims, "if everything goes to plan"
        if tree.ahead is not None and tree.ahead.jobs and not tree.expected.promised:
            how += " and no job passes another"
        if victims:
            to = f"job {tree.expected.heir} before" if tree.expected.heir else "it then"
            how = f"as {_jobs(victims)} {'gives' if len(victims) == 1 else 'give'} way to {to}"
        found.append(f"it is expected to start {start} on {where}, {how}")
    if tree.ahead is not None and tree.ahead.jobs:
        found.append(_ahead(tree.ahead))
        if len([term for term in tree.priority.values() if term]) > 1:
            found.append(priority_line(tree.priority))
    return found


def _waited_for(tree: Tree, waits: why.Waiting, now_s: float) -> str:
    where = _nodes(waits.nodes, waits.node)
    match waits.kind:
        case "room" if not waits.nodes:
            away = next((one for one in tree.unsatisfied if isinstance(one, why.Away)), None)
            text = "a node that suits it"
            if away is not None:
                where = _nodes(away.nodes, away.node)
                text = f"{where} to take work again; no start is foretold before"
        case "room":
            text = f"room on {where}"
        case "claim":
            text = f"a claim on {where} to move or end"
        case "neighbours":
            text = "a node that neighbours, quotas and plug-ins let it have"
        case "turn":
            text = "its turn"
        case "share":
            text = "its account to be within its share"
        case _:
            places = " or ".join(f"a place under {name}" for name in waits.counters[:COUNTERS])
            text = places or "its queue to start jobs"
    return text + (f"; looked at again {_in(waits.again_s, now_s)}" if waits.again_s else "")


def _ahead(ahead: why.Ahead) -> str:
    jobs = "1 waiting job is" if ahead.jobs == 1 else f"{ahead.jobs} waiting jobs are"
    first = ", ".join(map(str, ahead.first))
    more = ", ..." if ahead.jobs > len(ahead.first) else ""
    return f"{jobs} ahead of it: {first}{more}"


#: Terms of a priority, as what it is worth more or less for.
_TERMS = {
    "boost": "its band",
    "age": "its wait",
    "limit bonus": "its time limit",
    "share": "the share of its account",
}


def priority_line(terms: dict[str, float]) -> str:
    """``its priority of 75 counts as 92.5: +12.5 for its band, +5 for its wait``."""
    base, total = (value / SCALE for value in (terms.get("base", 0.0), sum(terms.values())))
    parts = [
        f"{value / SCALE:+.3g} for {_TERMS.get(name, name)}"
        for name, value in terms.items()
        if value and name != "base"
    ]
    if not parts:
        return f"its priority is {base:.4g}"
    return f"its priority of {base:.4g} counts as {total:.4g}: {', '.join(parts)}"
