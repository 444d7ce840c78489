"""What other rules mean for a site, in a sentence: who gains, who pays, by how much, how surely.

The interval comes from drawing days again, with replacement: jobs of a day share its queue, and
must not count as many witnesses. Where there are few days, users are drawn instead.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from rota.core.words.units import format_duration
from rota.sim.measures import finished, mean, measure, quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.sim.run import Run
    from rota.sim.trace import TraceJob

DAY_S = 86_400.0
#: Fewer days, or users, say nothing about others.
LEAST, DRAWS = 5, 1000
LEFT_OUT = 0.05
#: A change of a mean that nobody would notice.
SAME_S = 1.0


class JobPair(NamedTuple):
    """One job under two rules."""

    user: str
    day: int
    before_s: float
    after_s: float

    @property
    def less_s(self) -> float:
        return self.before_s - self.after_s


def verdict_of(base: Run, others: Sequence[Run], seed: int = 0) -> list[str]:
    """A sentence for each other run about what changes against the first."""
    return [
        verdict(f"{run.policy} instead of {base.policy}", changes_to(base, run), seed)
        for run in others
    ]


def changes_to(base: Run, run: Run) -> list[JobPair]:
    """The jobs that ended in both runs."""
    first = {job.id: wait_s for job, wait_s in _jobs(base)}
    return [
        JobPair(job.user or job.group, int(job.submit_s // DAY_S), first[job.id], wait_s)
        for job, wait_s in _jobs(run)
        if job.id in first
    ]


def who_pays(changes: Sequence[JobPair], most: int) -> list[tuple[str, list[JobPair]]]:
    """Users that wait longer on average, those that lose most first."""
    people = {
        user: own
        for user, own in _by_user(changes).items()
        if mean([change.less_s for change in own]) < -SAME_S
    }
    ranked = sorted(people.items(), key=lambda item: mean([c.less_s for c in item[1]]))
    return ranked[:most]


def verdict(name: str, changes: Sequence[JobPair], seed: int = 0) -> str:
    """``Verdict: under NAME jobs wait 12m less on average (95 %: 4m to 19m less); …``"""
    if not changes:
        return f"Verdict: under {name} no job can be compared."
    less_s = mean([change.less_s for change in changes])
    said = f"Verdict: under {name} {_mean_words(less_s)}{_interval_words(changes, less_s, seed)}"
    people = {user: mean([c.less_s for c in own]) for user, own in _by_user(changes).items()}
    gaining = sorted((user for user in people if people[user] > SAME_S), key=lambda u: -people[u])
    paying = sorted((user for user in people if people[user] < -SAME_S), key=lambda u: people[u])
    parts = [said]
    if len(people) > 1 or (people and "" not in people):
        parts.append(_people_words(people, gaining, paying))
    longest = [max(c.before_s for c in changes), max(c.after_s for c in changes)]
    if abs(longest[1] - longest[0]) > SAME_S:
        parts.append(f"the longest wait is {_span(longest[1])} instead of {_span(longest[0])}")
    else:
        parts.append(f"the longest wait stays {_span(longest[1])}")
    return "; ".join(parts) + "."


def _mean_words(less_s: float) -> str:
    if abs(less_s) <= SAME_S:
        return "jobs wait as long on average"
    return f"jobs wait {_span(abs(less_s))} {'less' if less_s > 0 else 'longer'} on average"


def _interval_words(changes: Sequence[JobPair], less_s: float, seed: int) -> str:
    days = _sums((change.day, change.less_s) for change in changes)
    users = _sums((change.user, change.less_s) for change in changes)
    drawn, what = (days, "days") if len(days) >= LEAST else (users, "users")
    if len(drawn) < LEAST:
        return f" (too few days and users to say how surely: {len(days)} and {len(users)})"
    chance = random.Random(seed)
    means = []
    for _ in range(DRAWS):
        again = chance.choices(drawn, k=len(drawn))
        means.append(sum(total for total, _ in again) / sum(count for _, count in again))
    means.sort()
    low, high = quantile(means, LEFT_OUT / 2), quantile(means, 1 - LEFT_OUT / 2)
    sure = "" if low > 0 or high < 0 else ", which may be chance"
    near, far = (low, high) if less_s >= 0 else (high, low)
    return f" (95 %, by {what}: {_signed(near)} to {_signed(far)}{sure})"


def _people_words(people: dict[str, float], gaining: list[str], paying: list[str]) -> str:
    count = f"{len(gaining)} of {len(people)} users gain"
    if gaining:
        best = gaining[0]
        count += f", {best or '(no user)'} most ({_span(people[best])} less)"
    if not paying:
        return f"{count}, and nobody pays"
    worst = paying[0]
    named = f"{worst or '(no user)'} most ({_span(-people[worst])} longer)"
    return f"{count}; {len(paying)} pay{'s' if len(paying) == 1 else ''}, {named}"


def _signed(less_s: float) -> str:
    return f"{_span(abs(less_s))} {'less' if less_s >= 0 else 'longer'}"


def _span(seconds: float) -> str:
    """Hours and minutes, where it is that long."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    return format_duration(whole - whole % (60 if whole >= 3600 else 1))


def _by_user(changes: Iterable[JobPair]) -> dict[str, list[JobPair]]:
    found: dict[str, list[JobPair]] = {}
    for change in changes:
        found.setdefault(change.user, []).append(change)
    return found


def _sums(values: Iterable[tuple[object, float]]) -> list[tuple[float, int]]:
    """The sum and the number of what belongs together."""
    found: dict[object, tuple[float, int]] = {}
    for key, value in values:
        total, count = found.get(key, (0.0, 0))
        found[key] = (total + value, count + 1)
    return [*found.values()]


def _jobs(run: Run) -> list[tuple[TraceJob, float]]:
    run = finished(run)
    return [*zip(run.jobs, measure(run).waits_s, strict=True)]
