"""Plug-ins: found by name, called under watch, switched off when they fail."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
import types

import pytest
from msgspec.structs import replace

from rota.config import load
from rota.controller.tick.plugins import clock, installed, load_known, load_plugins, time_limit
from rota.core.derived.lanes import LaneKey, Shape
from rota.core.facts.errors import Rejected
from rota.core.facts.job import Role, ServiceClass
from rota.core.facts.node import NodeSpec
from rota.core.facts.placing import ANYWHERE
from rota.core.facts.policy import DEFAULT, OrderRules, PlaceRules, Policy
from rota.core.facts.resources import NOTHING, Amount, Request
from rota.core.words.policy_text import changed
from rota.scheduling.api import DroppedPlugin, Entry, NodeView, Victim, View
from rota.scheduling.guarded import Guarded, no_guard
from rota.scheduling.order.orderings import ORDERINGS
from rota.scheduling.registry import Catalog, Rules, resolve
from rota.scheduling.scheduler import Scheduler
from rota.testing.stage import Stage, node, spec
from tests.support.machine import REPOSITORY

EXAMPLES = REPOSITORY / "examples" / "plugins"

SHAPE = Shape((Role(request=Request()),), ANYWHERE, ServiceClass.BURSTABLE)
NODE = NodeView(NodeSpec("a1", 4000, 1024), {"driver": "470"}, (), Amount(4000, 1024))
VICTIM = Victim(7, "alice", 400.0, 60.0, 60.0, NOTHING, 0, 0.0)
ENTRY = Entry(3, LaneKey(1, "q", "", 0, "alice", "", 50, 0, 0, 0.0, ""), SHAPE, 10.0, 20.0, 99.0)


class EqualShares:
    def ratio(self, user, project):
        return 0.0

    def version(self, user, project):
        return 0

    def worst(self, user, project):
        return 0.0


VIEW = View(1000.0, DEFAULT, EqualShares(), Amount(4000, 1024))


class BuiltInVictims:
    name = "lost-work"

    def cost(self, victim):
        return 42.0


class Answers:
    """A plug-in for all points that answers, or raises, the same each time."""

    name = "answers"

    def __init__(self, answer):
        self.answer = answer
        self.calls = 0

    def key(self, *values):
        self.calls += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    problem = score = cost = key


def rules_with(plugin, *, clock=None, budget_ms: int = 50) -> Rules:
    """Rules that use one plug-in everywhere."""
    policy = Policy(
        order=OrderRules(primary="mine"),
        filters=("mine",),
        scorers=("mine",),
        victims=("mine",),
        plugin_budget_ms=budget_ms,
    )
    plugged = {"mine": plugin}
    catalog = Catalog(plugged, plugged, plugged, plugged)
    return resolve(policy, catalog, victims=BuiltInVictims(), clock=clock)


def test_the_rules_of_the_default_policy_are_built_in():
    usual = BuiltInVictims()

    rules = resolve(DEFAULT, victims=usual)

    assert rules.primary is ORDERINGS["due"]
    assert rules.secondary is ORDERINGS["fifo"]
    assert rules.victims is usual
    assert (rules.filters, rules.scorers, rules.dropped) == ((), (), [])


def test_a_plug_in_decides_where_it_is_named():
    rules = rules_with(Answers(0.5))

    assert rules.primary.key(ENTRY, VIEW) == 0.5
    assert rules.victims.cost(VICTIM) == 0.5
    assert rules.plugged_score(SHAPE, NODE) == 20 * 5000
    assert rules_with(Answers("too hot")).plugged_problem(SHAPE, NODE) == ("mine", "too hot")


def test_a_plug_in_cannot_take_the_name_of_a_built_in_rule():
    mine = Catalog({"fifo": Answers(0)}, {}, {}, {"lost-work": Answers(0)})
    policy = Policy(order=OrderRules(primary="fifo"), victims=("lost-work",))

    rules = resolve(policy, mine, victims=BuiltInVictims())

    assert rules.primary is ORDERINGS["fifo"]
    assert rules.victims.cost(VICTIM) == 42.0


def test_several_victim_rules_are_added():
    policy = Policy(victims=("lost-work", "mine"))

    rules = resolve(policy, Catalog(victims={"mine": Answers(8)}), victims=BuiltInVictims())

    assert rules.victims.cost(VICTIM) == 50.0


def test_the_weight_of_a_scorer_stands_behind_its_name():
    catalog = Catalog(scorers={"mine": Answers(1)})

    rules = resolve(Policy(scorers=("mine=40",)), catalog, victims=BuiltInVictims())

    assert rules.plugged_score(SHAPE, NODE) == 400_000
    with pytest.raises(Rejected, match="NAME=WEIGHT"):
        resolve(Policy(scorers=("mine=much",)), catalog, victims=BuiltInVictims())


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Policy(order=OrderRules(primary="priorty")), "order.primary.*did you mean priority"),
        (Policy(order=OrderRules(secondary="fair")), "order.secondary.*known: "),
        (Policy(filters=("minee",)), "filters.*did you mean mine"),
        (Policy(scorers=("minee=3",)), "scorers.*did you mean mine"),
        (Policy(victims=("lost-wrok",)), "victims.*did you mean lost-work"),
        (Policy(place=PlaceRules(strategy="sprea")), "place.strategy.*did you mean spread"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(policy, text):
    mine = {"mine": Answers(0)}

    with pytest.raises(Rejected, match=text):
        resolve(policy, Catalog(mine, mine, mine, mine), victims=BuiltInVictims())


def test_a_plug_in_that_is_gone_does_not_stop_the_scheduling_when_asked_leniently():
    policy = Policy(
        order=OrderRules(primary="gone"), filters=("gone",), scorers=("gone=3",), victims=("gone",)
    )

    rules = resolve(policy, victims=BuiltInVictims(), strict=False)

    assert rules.primary is ORDERINGS["due"]
    assert rules.victims.cost(VICTIM) == 42.0
    assert [drop.point for drop in rules.dropped] == ["ordering", "filter", "scorer", "victims"]
    assert rules.dropped[0] == DroppedPlugin("ordering", "gone", "is not installed")


def ask_all(rules: Rules) -> None:
    assert rules.primary.key(ENTRY, VIEW) == ORDERINGS["due"].key(ENTRY, VIEW)
    assert rules.plugged_problem(SHAPE, NODE) == ("", "")
    assert rules.plugged_score(SHAPE, NODE) == 0
    assert rules.victims.cost(VICTIM) == 42.0


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("no"),
        KeyError("x"),
        RecursionError(),
        SystemExit(3),
        Unprintable(),
        None,
        True,
        math.nan,
        math.inf,
        10**400,
        object(),
        [],
        1j,
        b"bytes",
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_plug_in_that_raises_or_answers_nonsense_is_switched_off_and_the_built_in_rule_decides(
    failure,
):
    plugin = Answers(failure)
    rules = rules_with(plugin)

    ask_all(rules)
    ask_all(rules)

    assert plugin.calls == 4
    assert [drop.point for drop in rules.dropped] == ["ordering", "filter", "scorer", "victims"]
    assert all(drop.name == "mine" and drop.problem for drop in rules.dropped)
    assert rules.watch.version == 4


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (2.0, "answered 2, which is not between 0 and 1"),
        (-0.1, "answered -0.1, which is not between 0 and 1"),
        ("high", "answered 'high' instead of a finite number"),
        ("x" * 38, f"answered '{'x' * 38}' instead of a finite number"),
        ("x" * 39, f"answered '{'x' * 36}... instead of a finite number"),
    ],
)
def test_a_score_beyond_its_bounds_is_nonsense(answer, problem):
    rules = rules_with(Answers(answer))

    assert rules.plugged_score(SHAPE, NODE) == 0
    assert rules.dropped == [DroppedPlugin("scorer", "mine", problem)]


def test_a_negative_cost_is_nonsense():
    rules = rules_with(Answers(-1))

    assert rules.victims.cost(VICTIM) == 42.0
    assert rules.dropped[0].problem == "answered -1, and a cost cannot be negative"


def test_an_object_without_the_method_is_switched_off():
    rules = rules_with(object())

    ask_all(rules)

    assert "AttributeError" in rules.dropped[0].problem


def test_the_interrupt_of_a_person_is_not_the_failure_of_a_plug_in():
    rules = rules_with(Answers(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        rules.primary.key(ENTRY, VIEW)

    assert rules.dropped == []


def test_a_long_answer_of_a_filter_is_cut():
    assert len(rules_with(Answers("x" * 5000)).plugged_problem(SHAPE, NODE)[1]) == 200


def test_the_budget_is_for_all_calls_of_one_pass_together():
    now_s = iter(range(1000))
    rules = rules_with(Answers(0.5), clock=lambda: next(now_s) * 0.020)

    keys = [rules.primary.key(ENTRY, VIEW) for _ in range(4)]

    usual = ORDERINGS["due"].key(ENTRY, VIEW)
    assert keys == [0.5, 0.5, usual, usual]
    assert rules.dropped == [DroppedPlugin("ordering", "mine", "took longer than 50 ms")]


def test_a_plug_in_at_work_is_overdue_when_all_its_calls_together_took_longer():
    now_s, asked = [100.0], []
    rules = rules_with(Answers(0.5), clock=lambda: now_s[0])

    class Slow:
        def key(self, *_values):
            for at_s in (0.030, 0.020):
                now_s[0] += at_s
                asked.append(rules.watch.overdue())
            return 0.5

    slow = Guarded(rules.watch, "ordering", "slow")
    slow.spent_s = 0.010
    slow.call(Slow(), "key")

    assert asked == [False, True]
    assert not rules.watch.overdue()


class LowFirst:
    """An ordering that puts low priorities first, and fails at one of its calls."""

    name = "low-first"

    def __init__(self, fails_at: int) -> None:
        self.calls_left = fails_at

    def key(self, entry, view):
        self.calls_left -= 1
        if not self.calls_left:
            raise ValueError("broken")
        return float(entry.key.priority)


@pytest.mark.parametrize("fails_at", range(1, 12))
def test_from_the_call_on_at_which_an_ordering_fails_its_pass_goes_by_the_usual_one(fails_at):
    """It is called more often for six jobs. Two accounts have three each; four may start."""
    policy = replace(DEFAULT, order=OrderRules(primary="low-first"))
    stage = Stage([node("a", cpus=4)], policy)
    rule = Catalog(orderings={"low-first": LowFirst(fails_at)})
    stage.scheduler = Scheduler(stage.cluster, lambda _: rule)
    users = {p: "ann" if p % 20 else "ben" for p in (10, 60, 20, 50, 30, 40)}
    jobs = {stage.submit(spec(priority=p, user=user)): p for p, user in users.items()}

    plan = stage.run()

    by_rule, usual = sorted(users), sorted(users, reverse=True)
    possible = [
        by_rule[:count] + [p for p in usual if p not in by_rule[:count]][: 4 - count]
        for count in range(4)
    ]
    assert [jobs[start.job] for start in plan.starts] in possible
    assert plan.dropped == [DroppedPlugin("ordering", "low-first", "ValueError: broken")]


def test_without_a_clock_there_is_no_budget():
    rules = rules_with(Answers(0.5), budget_ms=1)

    assert [rules.primary.key(ENTRY, VIEW) for _ in range(100)] == [0.5] * 100
    assert rules.dropped == []


class Endless(Answers):
    """Never comes back by itself."""

    def key(self, *values):
        while True:
            self.calls += 1

    problem = score = cost = key


class Stubborn(Answers):
    """Swallows whatever is raised in it."""

    def key(self, *values):
        while True:
            try:
                self.calls += 1
            except BaseException:
                self.calls += 1

    problem = score = cost = key


@pytest.mark.parametrize("plugin", [Endless, Stubborn])
def test_an_endless_loop_is_interrupted_and_the_built_in_rule_decides(plugin):
    rules = rules_with(plugin(0), clock=clock, budget_ms=20)

    with time_limit(rules.watch):
        ask_all(rules)

    assert [drop.problem for drop in rules.dropped] == ["took longer than 20 ms"] * 4


def test_without_a_guard_nothing_is_watched():
    rules = rules_with(Answers(0.5))

    with no_guard(rules.watch):
        assert rules.primary.key(ENTRY, VIEW) == 0.5


def test_somebody_elses_alarm_survives_the_time_limit():
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(True))
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        rules = rules_with(Endless(0), clock=clock, budget_ms=20)
        with time_limit(rules.watch):
            rules.victims.cost(VICTIM)
        # Not signal.pause(): it would miss an alarm that rings just before it.
        while not rang:
            time.sleep(0.001)
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s)
        signal.signal(signal.SIGALRM, before)

    assert rang == [True]


def test_code_outside_of_plug_ins_is_never_interrupted():
    rules = rules_with(Answers(0.5), clock=clock, budget_ms=10)

    with time_limit(rules.watch):
        until_s = clock() + 0.05
        while clock() < until_s:
            assert rules.primary.key(ENTRY, VIEW) == 0.5 or rules.dropped

    assert all("longer" in drop.problem for drop in rules.dropped)


def test_in_another_thread_a_slow_plug_in_is_judged_when_it_comes_back():
    ticks = iter([0.0, 1.0])
    rules = rules_with(Answers(0.5), clock=lambda: next(ticks))

    def work():
        with time_limit(rules.watch):
            rules.primary.key(ENTRY, VIEW)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert rules.dropped == [DroppedPlugin("ordering", "mine", "took longer than 50 ms")]


LOOPS = """
import asyncio, itertools, sys, uvloop
from tests.unit import test_plugins as t

async def main():
    for _ in range(3):
        rules = t.rules_with(t.Endless(0), clock=t.clock, budget_ms=30)
        with t.time_limit(rules.watch):
            t.ask_all(rules)
        await asyncio.sleep(0)
        print(len(rules.dropped), flush=True)

uvloop.run(main()) if sys.argv[1] == "uvloop" else asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_endless_loop_is_interrupted_inside_an_event_loop(loop):
    done = subprocess.run(
        [sys.executable, "-c", LOOPS, loop],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["4"] * 3, "")


@pytest.fixture
def site(monkeypatch):
    """A module of plug-ins that can be imported as ``site_plugins``."""
    module = types.ModuleType("site_plugins")
    module.function = lambda *values: 0.25
    module.made = Answers(0.75)
    module.number = 3
    module.Needy = Answers

    class Simple:
        def key(self, entry, view):
            return 0.5

    module.Simple = Simple
    monkeypatch.setitem(sys.modules, "site_plugins", module)
    return module


@pytest.mark.parametrize(
    ("name", "key"),
    [("site_plugins:function", 0.25), ("site_plugins:Simple", 0.5), ("site_plugins:made", 0.75)],
)
def test_functions_classes_and_objects_can_be_plugged_in(site, name, key):
    policy = Policy(order=OrderRules(primary=name))

    rules = resolve(policy, load_plugins(policy), victims=BuiltInVictims())

    assert rules.primary.name == name
    assert rules.primary.key(ENTRY, VIEW) == key


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere_at_all:Name", "cannot be loaded: ModuleNotFoundError"),
        ("site_plugins:Missing", "cannot be loaded: AttributeError"),
        ("site_plugins:Needy", "cannot be loaded: TypeError"),
        ("site_plugins:number", "no method problem"),
        (":Name", "cannot be loaded"),
        ("not-installed", "expected package.module:Name or an installed plug-in"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_the_cause(site, name, text):
    with pytest.raises(Rejected, match=f"filters.*{text}"):
        load_plugins(Policy(filters=(name,)))


def test_a_policy_that_holds_already_goes_on_without_what_is_gone(site):
    policy = Policy(filters=("nowhere_at_all:Name", "site_plugins:function"))

    loaded, refusals = load_known(policy)

    assert list(loaded.filters) == ["site_plugins:function"]
    assert len(refusals) == 1


def test_the_built_in_rules_need_no_loading():
    assert load_plugins(Policy(victims=("lost-work",))) == Catalog({}, {}, {}, {})


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The example as an installed package: its module and its entry points are found."""
    described = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())["project"]
    folder = tmp_path / "site_rules-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: site-rules\nVersion: 1.0\n")
    lines = []
    for group, entries in described["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    sys.modules.pop("site_rules", None)


@pytest.mark.usefixtures("package")
def test_an_installed_package_names_its_rules_through_entry_points():
    policy = Policy(
        order=OrderRules(primary="rota.orderings:quickest-first"),
        filters=("not-on-old-drivers",),
        scorers=("cool-nodes=30",),
        victims=("spare-the-night",),
    )

    rules = resolve(policy, load_plugins(policy), victims=BuiltInVictims())

    gpu_job = Shape(
        (Role(request=Request(device="gpu", device_count=1)),), ANYWHERE, ServiceClass.BURSTABLE
    )
    assert installed("scorers") == {"cool-nodes": "site_rules:cool_nodes"}
    assert rules.primary.key(ENTRY, VIEW) == 99.0
    assert rules.plugged_problem(gpu_job, NODE) == ("not-on-old-drivers", "driver 470 is too old")
    assert rules.plugged_problem(SHAPE, NODE) == ("", "")
    assert rules.plugged_score(SHAPE, NODE) == 180_000
    assert rules.victims.cost(VICTIM) == 60.0
    assert rules.victims.cost(VICTIM._replace(ran_s=9 * 3600.0)) == 600.0
    assert rules.dropped == []


@pytest.mark.usefixtures("package")
def test_the_nearest_installed_plug_in_is_suggested():
    with pytest.raises(Rejected, match="did you mean cool-nodes"):
        load_plugins(Policy(scorers=("cold-nodes",)))


def test_the_settings_of_the_example_are_read(tmp_path):
    config = load({"ROTA_CONFIG": str(EXAMPLES / "rota.toml"), "HOME": str(tmp_path)})

    policy = changed(DEFAULT, config.scheduling.rules)

    assert policy == Policy(
        order=OrderRules(primary="site_rules:quickest_first", secondary="fifo"),
        backfill=DEFAULT.backfill,
        filters=("site_rules:not_on_old_drivers",),
        scorers=("site_rules:cool_nodes=30",),
        victims=("site_rules:SpareTheNight",),
    )


@pytest.mark.slow
def test_the_example_runs():
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "try_rules.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stderr == ""
    assert "driver 470 is too old" in done.stdout
    assert "switched off: none" in done.stdout


def test_the_example_in_the_docs_is_the_one_that_is_tested():
    text = (REPOSITORY / "docs" / "plugins.md").read_text()
    source = (EXAMPLES / "site_rules.py").read_text()
    settings = (EXAMPLES / "rota.toml").read_text()

    assert source.partition('"""\n\n\n')[2] in text
    assert settings.partition("\n")[2] in text
