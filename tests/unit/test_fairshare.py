"""Fair share: use against target, in a tree, over several resources, now and before."""

from math import log

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.derived.usage import Spent, Usage, decay
from rota.core.facts.policy import Backfill
from rota.core.facts.resources import Amount
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Limits, Queue, Quota, User
from rota.scheduling.order.fairshare import FairShare, nested, shares_of
from rota.scheduling.order.share_use import capacity, remembered_s
from rota.testing.scene import ADMIN, ALICE, BOB, Scene
from rota.testing.stage import Stage, node, spec
from tests.unit.books import DAY_S, HOUR_S, Books, amount, policy_with


def ratios(books: Books, *accounts: str, project: str = "") -> list[float]:
    shares = books.shares()
    return [shares.ratio(user, project) for user in accounts]


def kept_back(books: Books, user: str) -> bool:
    return books.shares().kept_back_by(user, "", lambda lane: True) is not None


def both_wait(books: Books, *users: str) -> None:
    for user in users:
        books.wait(user)


def test_everybody_is_equal_without_use():
    books = Books()
    both_wait(books, "alice", "bob")

    assert ratios(books, "alice", "bob", "stranger") == [0.0, 0.0, 0.0]


def test_the_lighter_user_comes_first_and_the_ratio_grows_with_use():
    books = Books()
    both_wait(books, "alice", "bob")
    seen = []
    for _ in range(4):
        books.ran("alice", hours=1, gpus=1)
        seen.append(ratios(books, "alice")[0])
    books.ran("bob", hours=1, gpus=1)

    assert seen == sorted(set(seen))
    assert ratios(books, "bob") < ratios(books, "alice")


def test_whoever_holds_exactly_his_share_and_always_has_stands_at_one():
    books = Books(cpus=100, gpus=10)
    both_wait(books, "alice", "bob")
    for _ in range(5):
        books.run("alice", cpus=10, gpus=1, at_s=books.now_s - 400 * DAY_S)

    assert ratios(books, "alice") == [pytest.approx(1.0, abs=1e-6)]


def test_shares_of_a_user_weigh_what_he_uses():
    books = Books()
    books.user("bob", shares=3)
    both_wait(books, "alice", "bob")
    books.ran("alice", hours=1, gpus=1)
    books.ran("bob", hours=1, gpus=1)

    alice, bob = ratios(books, "alice", "bob")

    assert alice == pytest.approx(3 * bob)


def test_default_shares_are_those_of_the_nameless_record():
    books = Books()
    books.user("", shares=2)
    books.user("bob", shares=4)
    both_wait(books, "alice", "bob")

    rows = {row.user: row for row in shares_of(books.cluster, books.now_s)}

    assert (rows["alice"].shares, rows["alice"].target) == (2, pytest.approx(1 / 3))
    assert (rows["bob"].shares, rows["bob"].target) == (4, pytest.approx(2 / 3))


def test_an_account_without_shares_comes_after_everybody():
    books = Books()
    books.user("guest", shares=0)
    both_wait(books, "alice", "guest")
    books.ran("alice", hours=100, gpus=10)

    alice, guest = ratios(books, "alice", "guest")

    assert alice < guest


def test_what_is_held_now_counts_as_much_as_what_was_used_this_week():
    books = Books()
    both_wait(books, "alice", "bob", "carol")
    books.ran("bob", hours=24, gpus=2, ago_h=48)
    books.run("carol", gpus=2)

    alice, bob, carol = ratios(books, "alice", "bob", "carol")

    assert alice < bob
    assert alice < carol
    books.rules(share={"live_weight": 0.0})
    assert ratios(books, "carol") == [pytest.approx(0.0)]
    books.rules(share={"live_weight": 1.0, "past_weight": 0.0})
    assert ratios(books, "bob") == [0.0]


def test_use_loses_half_its_weight_in_a_half_life_of_seven_days():
    books = Books()
    both_wait(books, "alice", "bob")
    books.ran("alice", hours=1, gpus=1)
    books.ran("bob", hours=1, gpus=1, ago_h=7 * 24)

    alice, bob = ratios(books, "alice", "bob")

    assert bob == pytest.approx(alice / 2)
    assert decay(7 * DAY_S, books.cluster.policy.share.half_life_s) == 0.5


def test_the_half_life_is_a_setting():
    books = Books()
    books.rules(share={"half_life_s": 24 * 3600})
    both_wait(books, "alice", "bob")
    books.ran("alice", hours=1, gpus=1)
    books.ran("bob", hours=1, gpus=1, ago_h=24)

    alice, bob = ratios(books, "alice", "bob")

    assert bob == pytest.approx(alice / 2)


def test_a_rolling_week_forgets_what_is_older_and_nothing_else():
    books = Books()
    books.rules(share={"memory": "window"})
    both_wait(books, "alice", "bob", "carol")
    books.ran("alice", hours=2, gpus=1, ago_h=24)
    books.ran("bob", hours=2, gpus=1, ago_h=24 * 6)
    books.ran("carol", hours=2, gpus=1, ago_h=24 * 9)

    alice, bob, carol = ratios(books, "alice", "bob", "carol")

    assert alice == bob > 0
    assert carol == 0.0
    used = 2 * HOUR_S * 1 / (10 * 168 * 3600) / 2
    assert alice == pytest.approx(used / (1 / 3))


def test_the_resource_of_which_somebody_has_most_decides():
    books = Books(cpus=100, gpus=10, memory_mib=102400)
    both_wait(books, "alice", "bob", "carol")
    books.run("alice", cpus=10, gpus=4)
    books.run("bob", cpus=30)
    books.run("carol", cpus=1, mem=51200)

    alice, bob, carol = ratios(books, "alice", "bob", "carol")

    assert bob < alice < carol


def test_weights_say_how_much_a_resource_matters():
    books = Books(cpus=100, gpus=10)
    books.rules(share={"weight_cpu": 0.1})
    both_wait(books, "alice", "bob")
    books.run("alice", cpus=50)
    books.run("bob", cpus=1, gpus=1)

    alice, bob = ratios(books, "alice", "bob")

    assert alice < bob


def test_a_resource_that_the_cluster_does_not_have_weighs_nothing():
    books = Books(gpus=0)
    both_wait(books, "alice")
    books.run("alice", cpus=10)

    assert 0 < ratios(books, "alice")[0] < 1


def test_targets_go_down_the_tree_of_projects_and_users():
    books = Books()
    books.project("lab", shares=3)
    books.project("vision", "lab", shares=2)
    books.project("speech", "lab", shares=1)
    books.project("other", shares=1)
    books.user("ann", shares=3)
    books.wait("ann", "vision")
    books.wait("ben", "vision")
    books.wait("cem", "speech")
    books.wait("dan", "other")

    rows = {(row.project, row.user): row for row in shares_of(books.cluster, books.now_s)}

    assert rows["lab", ""].target == pytest.approx(3 / 4)
    assert rows["vision", ""].target == pytest.approx(1 / 2)
    assert rows["vision", "ann"].target == pytest.approx(3 / 8)
    assert rows["vision", "ben"].target == pytest.approx(1 / 8)
    assert rows["speech", "cem"].target == pytest.approx(1 / 4)
    assert rows["other", "dan"].target == pytest.approx(1 / 4)


def test_shares_of_projects_that_want_nothing_go_to_the_others():
    books = Books()
    for name in ("vision", "speech", "idle"):
        books.project(name)
    books.wait("ann", "vision")
    books.run("ben", "speech")

    rows = {(row.project, row.user): row for row in shares_of(books.cluster, books.now_s)}

    assert rows["vision", "ann"].target == rows["speech", "ben"].target == pytest.approx(0.5)


def test_a_new_member_of_a_busy_project_waits_behind_an_idle_project():
    books = Books()
    books.project("busy")
    books.project("idle")
    books.wait("ann", "busy")
    books.wait("new", "busy")
    books.wait("dan", "idle")
    books.ran("ann", "busy", hours=10, gpus=5)
    books.ran("dan", "idle", hours=1, gpus=1)

    shares = books.shares()

    assert shares.ratio("dan", "idle") < shares.ratio("new", "busy") < shares.ratio("ann", "busy")


def test_what_a_child_project_uses_counts_for_its_parent():
    books = Books()
    books.project("lab")
    books.project("vision", "lab")
    books.project("speech", "lab")
    books.project("other")
    books.wait("cem", "speech")
    books.wait("dan", "other")
    books.ran("ann", "vision", hours=10, gpus=5)
    books.ran("dan", "other", hours=5, gpus=5)

    shares = books.shares()

    assert shares.ratio("dan", "other") < shares.ratio("cem", "speech")


def test_projects_whose_parents_run_in_a_circle_stand_at_the_root():
    books = Books()
    books.project("a", "b")
    books.project("b", "a")
    books.wait("ann", "a")

    assert books.shares().ratio("ann", "a") == 0.0
    assert {row.project: row.target for row in shares_of(books.cluster, 0.0)}["a"] == 1.0


def test_inventing_projects_buys_nothing():
    books = Books()
    both_wait(books, "alice", "bob")
    books.ran("alice", "mine", hours=5, gpus=1)
    books.ran("bob", hours=4, gpus=1)

    shares = books.shares()

    assert shares.ratio("alice", "fresh name") == shares.ratio("alice", "mine")
    assert shares.ratio("bob", "") < shares.ratio("alice", "fresh name")


def test_a_start_in_a_pass_counts_at_once_for_the_account_and_its_project():
    books = Books()
    books.project("vision")
    books.wait("ann", "vision")
    books.wait("ben", "vision")
    books.wait("dan")
    shares = books.shares()
    before = [shares.ratio("ann", "vision"), shares.ratio("ben", "vision"), shares.ratio("dan", "")]
    versions = [shares.version("ben", "vision"), shares.version("dan", "")]

    shares.started("ann", "vision", amount(gpus=2))

    after = [shares.ratio("ann", "vision"), shares.ratio("ben", "vision"), shares.ratio("dan", "")]
    assert after[0] > after[1] > before[1]
    assert after[2] == before[2]
    assert shares.version("ben", "vision") != versions[0]
    assert shares.version("dan", "") == versions[1]


def test_a_start_that_the_pass_counted_is_what_the_next_pass_reads_from_the_books():
    books = Books()
    both_wait(books, "alice", "bob")
    shares = books.shares()
    shares.started("alice", "", amount(cpus=2, gpus=1, mem=512))

    books.run("alice", cpus=2, gpus=1, mem=512)

    assert books.shares().ratio("alice", "") == pytest.approx(shares.ratio("alice", ""))


def test_running_use_so_far_is_what_will_be_charged_at_the_end():
    books = Books()
    books.rules(share={"live_weight": 0.0})
    both_wait(books, "alice", "bob")
    jobs = [books.run("alice", gpus=1, at_s=books.now_s - 777.7 * (n + 1) ** 3) for n in range(6)]
    running = ratios(books, "alice")[0]

    for job in jobs:
        books.end(job)

    assert ratios(books, "alice")[0] == pytest.approx(running, rel=1e-5)


def test_use_charged_in_many_pieces_is_the_use_charged_in_one():
    half_life_s, rate = 7 * DAY_S, Spent(4, 8, 1)
    whole, pieces = (Usage("a", "", Spent(), 0.0, {}) for _ in range(2))

    whole.charge(rate, 1000.0, 500_000.0, half_life_s)
    for at in range(1000, 500_000, 1000):
        pieces.charge(rate, float(at), at + 1000.0, half_life_s)

    for name in ("cpu_s", "memory_gib_s", "device_s"):
        assert getattr(pieces.recent, name) == pytest.approx(getattr(whole.recent, name))
        assert getattr(pieces.since(90_000.0), name) == pytest.approx(
            getattr(whole.since(90_000.0), name)
        )


def test_use_is_recorded_in_device_hours_when_a_job_ends():
    books = Books()
    books.ran("alice", "p", hours=2, gpus=3)

    usage = books.cluster.accounts.usage["alice\np"]

    assert usage.recent.device_s / 3600 == pytest.approx(6, rel=0.01)
    assert usage.since(books.now_s - 7 * DAY_S).device_s / 3600 == pytest.approx(6)


def test_a_long_job_is_not_charged_more_while_it_runs_than_memory_holds():
    books = Books()
    books.rules(share={"live_weight": 0.0})
    both_wait(books, "alice")
    books.run("alice", cpus=100, at_s=books.now_s - 1000 * DAY_S)

    assert ratios(books, "alice") == [pytest.approx(1.0)]


@pytest.mark.parametrize(
    ("weight", "gpu_hours", "ratio"), [(1, 0, 1), (1, 1, 2), (2, 3, 2), (10, 99, 10)]
)
def test_the_simple_form_is_weight_over_usage_plus_one(weight, gpu_hours, ratio):
    books = Books()
    books.rules(share={"form": "simple", "memory": "window"})
    books.user("alice", shares=weight)
    if gpu_hours:
        books.ran("alice", hours=gpu_hours, gpus=1)

    shares = books.shares()

    assert shares.ratio("alice", "any") == pytest.approx(ratio)


def test_the_simple_form_counts_a_user_over_all_projects_and_cpus_where_no_devices_are():
    books = Books(gpus=0)
    books.rules(share={"form": "simple", "memory": "window"})
    books.project("p")
    books.ran("alice", "p", hours=1, cpus=2)
    books.ran("alice", hours=1, cpus=1)

    assert books.shares().ratio("alice", "") == pytest.approx(4)


def test_how_an_account_stands_is_told_before_anybody_asked_for_its_ratio():
    books = Books()
    both_wait(books, "alice", "bob")
    books.run("alice", gpus=1)

    row = books.shares().stands("alice", "")

    assert (row.user, row.ratio) == ("alice", books.shares().ratio("alice", ""))


def test_the_simple_form_counts_what_runs_by_its_weight():
    books = Books()
    books.rules(share={"form": "simple", "live_weight": 2.0})
    books.run("alice", gpus=3)

    assert books.shares().ratio("alice", "") == pytest.approx(1 + 2.0 * 3)


def test_beyond_the_hard_limit_an_account_starts_nothing_while_others_wait():
    books = Books()
    books.rules(share={"hard_ratio": 1.5})
    books.wait("alice")
    books.run("alice", gpus=9, at_s=books.now_s - 300 * DAY_S)

    alone = kept_back(books, "alice")
    books.wait("bob")

    assert not alone
    assert kept_back(books, "alice")
    assert not kept_back(books, "bob")
    books.rules(share={"hard_ratio": 0.0})
    assert not kept_back(books, "alice")


def test_soft_and_hard_limits_look_at_every_level_of_the_tree():
    books = Books()
    books.project("vision")
    books.wait("ann", "vision")
    books.wait("ben", "vision")
    books.wait("dan")
    books.run("ann", "vision", gpus=3, at_s=books.now_s - 300 * DAY_S)

    shares = books.shares()

    assert shares.worst("ann", "vision") == pytest.approx(0.3 / 0.25, rel=1e-3)
    assert shares.worst("ben", "vision") == pytest.approx(0.3 / 0.5, rel=1e-3)
    assert shares.worst("dan", "") == 0.0


def test_the_list_of_shares_names_every_project_and_account():
    books = Books()
    books.project("vision", shares=2)
    books.wait("ann", "vision")
    books.ran("bob", hours=1, gpus=1)
    books.run("cem", gpus=1)

    rows = shares_of(books.cluster, books.now_s)

    names = [(row.project, row.user) for row in rows]
    assert names == [("", "bob"), ("", "cem"), ("vision", ""), ("vision", "ann")]
    cem = rows[1]
    assert cem.used == pytest.approx(0.1 / 2)
    assert cem.ratio == pytest.approx(cem.used / cem.target)


def test_the_order_of_records_leaves_no_trace():
    books = Books()
    books.project("p")
    for n in range(20):
        books.ran(f"u{n}", "p", hours=0.1 + n / 7, gpus=1, ago_h=n / 3)
    books.wait("u3", "p")
    books.wait("solo")
    forward = books.shares().ratio("u3", "p")

    books.cluster.accounts.usage = dict(reversed(books.cluster.accounts.usage.items()))

    assert books.shares().ratio("u3", "p") == forward


def test_an_empty_cluster_has_nothing_to_share_and_says_so_without_failing():
    books = Books()
    books.cluster.nodes.clear()

    assert FairShare(books.cluster, 0.0).ratio("alice", "") == 0.0


def test_the_upper_level_decides_beyond_a_step_and_the_lower_one_within():
    assert nested(1.0, 100.0) < nested(1.01, 0.0)
    assert nested(1.0, 0.5) < nested(1.0, 0.6)
    assert nested(0.0, 100.0) < nested(1e-9, 0.0)
    assert nested(1.0, 1.0) == pytest.approx(1.0, rel=0.005)


def test_what_was_used_counts_no_longer_once_it_is_forgotten():
    books = Books()
    both_wait(books, "alice", "bob")
    books.ran("alice", hours=5, gpus=1)
    books.ran("bob", hours=5, gpus=1)
    before = ratios(books, "alice", "bob")

    books.tell(ev.UsageForgotten(user="alice", project=""))
    after = ratios(books, "alice", "bob")
    books.ran("alice", hours=1, gpus=1)

    assert after == [0.0, before[1]]
    assert 0.0 < ratios(books, "alice")[0] < before[0]


HARD = {"share.hard_ratio": 0.4, "share.past_weight": 0.0}


def crowded(preset: str = "") -> Scene:
    """Twenty CPUs; of bob a gang waits that needs all of them, and of alice many small jobs."""
    scene = Scene(cpus=10, nodes=2)
    scene.ask(cmd.SetPolicy(actor=ADMIN, preset=preset, rules=HARD))
    scene.submit("hog", cpus=1, time_limit_s=600, actor=BOB)
    scene.submit("gang", cpus=10, tasks=2, time_limit_s=600, actor=BOB)
    return scene


def running_of(scene: Scene, user: str) -> int:
    active = scene.cluster.census.active_in.get(("user", user), {})
    return len(active)


@pytest.mark.parametrize("preset", ["", "easy", "easy-sjbf", "fairshare"])
def test_no_account_starts_more_in_one_pass_than_its_hard_share_allows(preset):
    at_once, one_by_one = crowded(preset), crowded(preset)

    at_once.submit("many", cpus=1, time_limit_s=60, actor=ALICE, array="0-29")
    for number in range(30):
        one_by_one.submit(f"job {number}", cpus=1, time_limit_s=60, actor=ALICE)

    # Her target is a half: beyond 0.4 of it, which is four CPUs of twenty, nothing more starts.
    assert running_of(at_once, "alice") == running_of(one_by_one, "alice") == 5


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_a_hard_share_does_not_depend_on_how_many_starts_a_pass_may_make(limit):
    share = {"hard_ratio": 0.4, "past_weight": 0.0}
    policy = policy_with(share=share, backfill={"kind": Backfill.NONE})
    stage = Stage([node(f"n{n}", cpus=10) for n in range(2)], policy)
    stage.submit(spec(cpus=10, tasks=3, user="bob"))
    stage.run()
    for _ in range(30):
        stage.submit(spec(cpus=1, user="alice"))

    while stage.run(limit).starts:
        pass

    assert len(stage.cluster.census.active_in["user", "alice"]) == 5


def beyond(**bob: object) -> Scene:
    """Alice has half of an idle node and wants more; bob may have something that waits."""
    scene = Scene(cpus=10)
    scene.ask(cmd.SetPolicy(actor=ADMIN, rules=HARD))
    scene.ask(cmd.SetQueue(actor=ADMIN, queue=Queue("side", state=QueueState.PAUSED)))
    scene.submit("has", cpus=5)
    scene.submit("waits", cpus=10, actor=BOB, **bob)
    return scene


def test_an_account_beyond_its_hard_share_waits_for_one_that_lacks_nothing_but_room():
    scene = beyond()

    scene.submit("more", cpus=1)

    assert scene.state("more") == "queued"
    assert "share" in scene.why("more")


def test_an_account_that_waited_for_another_starts_when_that_waits_no_more():
    scene = beyond()
    scene.submit("more", cpus=1)

    scene.cancel("waits", actor=BOB)

    assert scene.state("more") == "running"


def test_an_account_that_waited_for_another_starts_in_the_pass_that_starts_the_other():
    share = {"hard_ratio": 0.4, "past_weight": 0.0}
    policy = policy_with(share=share, backfill={"kind": Backfill.NONE})
    stage = Stage([node("a", cpus=10)], policy)
    stage.submit(spec(cpus=5, user="alice"))
    stage.run()
    more = stage.submit(spec(cpus=1, user="alice"))
    small = stage.submit(spec(cpus=1, user="bob"))

    plan = stage.scheduler.run(stage.now_s)

    assert {start.job for start in plan.starts} == {small, more}


@pytest.mark.parametrize("others", [0, 1])
def test_an_account_that_came_first_and_had_to_wait_starts_behind_the_last_of_the_others(others):
    policy = policy_with(
        share={"hard_ratio": 0.4, "past_weight": 0.0},
        backfill={"kind": Backfill.NONE},
        order={"primary": "fifo", "secondary": "fifo"},
    )
    stage = Stage([node("a", cpus=10)], policy)
    stage.submit(spec(cpus=5, user="alice"))
    stage.run()
    more = stage.submit(spec(cpus=1, user="alice"))
    small = stage.submit(spec(cpus=1, user="bob"))
    for _ in range(others):
        stage.submit(spec(cpus=9, user="cem"))

    plan = stage.scheduler.run(stage.now_s)

    assert [start.job for start in plan.starts] == [small, *([] if others else [more])]
    assert bool(plan.wake_s) == bool(others), "a share is looked at again where a job waits for it"


def test_nobody_is_kept_back_by_a_job_in_a_queue_that_starts_nothing():
    scene = beyond(queue="side")

    scene.submit("more", cpus=1)

    assert scene.state("more") == "running"


def test_nobody_is_kept_back_by_an_account_that_its_own_quota_keeps_back():
    scene = Scene(cpus=10)
    scene.ask(cmd.SetPolicy(actor=ADMIN, rules=HARD))
    scene.submit("has", cpus=5)
    scene.submit("small", cpus=1, actor=BOB)
    quota = Quota(hard=Limits(cpu_milli=4000))
    scene.ask(cmd.SetUser(actor=ADMIN, user=User("bob", quota=quota)))
    scene.submit("waits", cpus=4, actor=BOB)

    scene.submit("more", cpus=1)

    assert scene.states("waits", "more") == ["queued", "running"]


@pytest.mark.parametrize("held", [True, False])
def test_jobs_that_are_held_or_wait_for_others_lower_nobodys_target(held):
    scene = Scene(cpus=10)
    scene.submit("has", cpus=5)
    before = FairShare(scene.cluster, scene.now_s).ratio("alice", "")

    if held:
        scene.submit("held", actor=BOB, hold=True)
    else:
        scene.submit("child", actor=BOB, after={"has": "after-ok"})

    assert FairShare(scene.cluster, scene.now_s).ratio("alice", "") == before
    scene.submit("ready", cpus=6, actor=BOB)
    assert FairShare(scene.cluster, scene.now_s).ratio("alice", "") == 2 * before


def test_an_account_that_is_away_stands_where_it_will_stand_when_it_comes_back():
    books = Books()
    books.project("lab")
    books.wait("ann", "lab")
    books.ran("ben", "lab", hours=5, gpus=1)
    away = books.shares().ratio("ben", "lab")

    books.wait("ben", "lab")

    assert away == books.shares().ratio("ben", "lab") > 0


@pytest.mark.parametrize("active", ["nobody", "one", "all"])
def test_targets_on_the_list_add_up_to_one_whoever_waits(active):
    books = Books()
    books.project("lab", shares=2)
    books.project("idle")
    accounts = [("ann", "lab"), ("ben", "lab"), ("cem", ""), ("dan", "")]
    for user, project in accounts:
        books.ran(user, project, hours=1, gpus=1)
    for user, project in {"nobody": [], "one": accounts[:1], "all": accounts}[active]:
        books.wait(user, project)

    rows = shares_of(books.cluster, books.now_s)

    assert sum(row.target for row in rows if row.user) == pytest.approx(1.0)
    assert all(row.ratio > 0 for row in rows if row.user)
    assert {row.project: row.target for row in rows}["idle"] == 0.0


@pytest.mark.parametrize(
    ("rules", "seconds"),
    [
        ({"half_life_s": 1}, 1 / log(2)),
        ({"half_life_s": 700}, 700 / log(2)),
        ({"half_life_s": 0, "window_s": 50}, 50),
        ({"half_life_s": 700, "memory": "window", "window_s": 50}, 50),
        ({"memory": "window", "window_s": 0}, 1),
    ],
)
def test_memory_holds_a_window_or_what_a_half_life_adds_up_to(rules, seconds):
    books = Books()
    books.rules(share=rules)

    assert remembered_s(books.cluster.policy.share) == pytest.approx(seconds)


def test_of_what_runs_a_window_remembers_its_own_length():
    books = Books()
    books.rules(share={"memory": "window", "window_s": 3600, "live_weight": 0.0})
    books.run("long", at_s=books.now_s - 3 * HOUR_S)
    books.ran("hour", hours=1)
    books.run("half", at_s=books.now_s - HOUR_S / 2)
    both_wait(books, "hour")

    long, hour, half = ratios(books, "long", "hour", "half")

    assert long == pytest.approx(2 * half)
    assert hour >= half > 0


def test_what_there_is_to_share_is_the_sum_over_all_nodes_up_or_not():
    stage = Stage(
        [node("a", cpus=3, mem=10, disk=7, gpus=2), node("b", cpus=4, mem=20, disk=5, gpus=1)]
    )
    stage.tell(ev.NodeDrained(node="b", drained=True))

    assert capacity(stage.cluster) == Amount(7000, 30, 12, 3000)


def test_the_simple_form_counts_nothing_but_devices_where_there_are_any():
    books = Books(gpus=2)
    books.rules(share={"form": "simple"})
    books.run("live", cpus=5, mem=1024)
    books.ran("past", hours=3, cpus=5, mem=1024)
    both_wait(books, "idle", "past")

    live, past, idle = ratios(books, "live", "past", "idle")

    assert live == past == idle


def test_use_is_known_by_day_for_a_year_and_after_a_restart():
    scene, used = Scene(cpus=1), []
    for pause_days in (364, 3, 0):
        job = scene.submit()
        scene.pass_time(HOUR_S)
        scene.finish(job)
        scene.restart()
        (usage,) = scene.cluster.accounts.usage.values()
        used.append(usage.since(0.0).cpu_s)
        scene.pass_time(pause_days * DAY_S)

    assert used == [pytest.approx(count * HOUR_S) for count in (1, 2, 2)]
