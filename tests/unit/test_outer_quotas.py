"""Quotas that another program has: what it says binds, beside Rota's own limits."""

import pytest

from rota.api.site.project_quotas import ProjectQuotas
from rota.core.changes import events as ev
from rota.core.changes.invariants import violations
from rota.core.facts.resources import Amount
from rota.core.facts.site.outer import Outer
from rota.core.facts.tenant import Limits
from rota.core.words.presets import with_preset
from rota.quotas.api import ProjectResources
from rota.scheduling.answers.explain import explain
from rota.scheduling.answers.outer_words import outer_numbers
from rota.scheduling.limits.quota import Quotas
from rota.scheduling.outcomes import Capped
from rota.scheduling.scheduler import Scheduler
from tests.unit.books import NOW_S, Books, amount


def outer_books(provider: str = "slurm") -> Books:
    books = Books()
    books.tell(ev.QuotaProviderSet(provider=provider))
    return books


def see(books: Books, project: str, **fields: object) -> None:
    limits = {key: fields.pop(key) for key in ("cpu_milli", "device_milli") if key in fields}
    told = Outer(project, "slurm", Limits(**limits), seen_s=NOW_S, **fields)
    books.tell(ev.QuotasSeen(outers=(told,)))


def short(books: Books, job: int, **wish: float) -> str:
    key = books.cluster.lanes.where[job].key
    return str(Quotas(books.cluster, books.now_s).short(key, amount(**wish)) or "")


def test_of_a_project_that_was_never_told_of_nothing_may_start():
    books = outer_books()
    job, without = books.wait("alice", "vision"), books.wait("alice")

    text = "slurm has never told the quota of project vision: until it does, no job of it may start"
    assert short(books, job, cpus=1) == text
    assert short(books, without, cpus=1) == ""


def test_a_project_that_the_provider_knows_and_does_not_limit_is_free():
    books = outer_books()
    see(books, "vision")
    job = books.wait("alice", "vision")

    assert short(books, job, cpus=1000) == ""


def test_what_is_used_outside_counts_together_with_what_rota_holds():
    books = outer_books()
    see(books, "vision", cpu_milli=8000, foreign=Amount(cpu_milli=3000))
    books.run("alice", "vision", cpus=4)
    job = books.wait("alice", "vision")

    text = "project vision holds 7 (3 outside Rota) of at most 8 CPUs by the quota in slurm"
    assert short(books, job, cpus=1) == ""
    assert short(books, job, cpus=2) == f"{text}, 2 wanted"


def test_limits_of_rota_and_of_the_provider_both_bind():
    books = outer_books()
    books.project("vision", hard=Limits(cpu_milli=4000))
    see(books, "vision", cpu_milli=8000, device_milli=1000)
    job = books.wait("alice", "vision")

    assert short(books, job, cpus=5).startswith("project vision holds 0 of at most 4 CPUs, 5")
    assert "1 device by the quota in slurm" in short(books, job, cpus=1, gpus=2)


def test_a_project_above_binds_those_below_it():
    books = outer_books()
    books.project("lab")
    books.project("vision", "lab")
    see(books, "vision")
    job = books.wait("alice", "vision")

    unseen = short(books, job, cpus=1)
    see(books, "lab", cpu_milli=1000)

    assert "the quota of project lab" in unseen
    assert short(books, job, cpus=2).startswith("project lab holds 0 of at most 1 CPU by the")


def test_a_user_that_the_provider_does_not_let_in_waits():
    books = outer_books()
    see(books, "vision", users=("bob",))
    job, bobs = books.wait("alice", "vision"), books.wait("bob", "vision")

    assert short(books, job, cpus=1).startswith("slurm does not let user alice use project vision")
    assert short(books, bobs, cpus=1) == ""


def test_jobs_that_wait_for_the_provider_start_when_it_has_given_more():
    books = outer_books()
    see(books, "vision", cpu_milli=4000, foreign=Amount(cpu_milli=4000))
    job = books.wait("alice", "vision", cpus=2)
    scheduler = Scheduler(books.cluster)
    scheduler.run(books.now_s)
    held = scheduler.waits.of(books.cluster.lanes.where[job].number)

    see(books, "vision", cpu_milli=4000, foreign=Amount(cpu_milli=1000))
    after_use = scheduler.run(books.now_s).starts

    assert isinstance(held, Capped)
    assert [start.job for start in after_use] == [job]
    assert not violations(books.cluster)


def test_why_tells_the_numbers_and_the_command_that_helps_is_that_of_rota():
    books = outer_books()
    see(books, "vision", cpu_milli=1000)
    job = books.wait("alice", "vision", cpus=2)
    scheduler = Scheduler(books.cluster)
    scheduler.run(books.now_s)

    told = explain(scheduler, job, books.now_s)

    text = "project vision holds 0 of at most 1 CPU by the quota in slurm, 2 wanted"
    assert told.reason == text
    assert told.tree.reason.provider == "slurm"


def test_projects_are_compared_by_what_the_accounting_of_the_provider_says():
    books = outer_books()
    for name, load in (("vision", 0.75), ("nlp", 0.25), ("new", None)):
        books.project(name)
        see(books, name, load=load)
        books.wait("alice", name)
    books.ran("alice", "nlp", hours=100, cpus=50)

    def ratios() -> dict[str, float]:
        shares = books.shares()
        return {name: shares.ratio("alice", name) for name in ("vision", "nlp", "new")}

    own = ratios()
    books.rules(share={"source": "provider"})
    theirs = ratios()
    used = {row.project: row.used for row in books.shares().rows() if not row.user}

    assert own["vision"] < own["nlp"]
    assert theirs["new"] < theirs["nlp"] < theirs["vision"]
    assert theirs["new"] == own["new"], "nothing is told of it"
    assert used["vision"] == pytest.approx(3 * used["nlp"])


def test_what_runs_now_counts_beside_what_the_accounting_has():
    books = outer_books()
    books.rules(share={"source": "provider"})
    for name in ("vision", "nlp"):
        books.project(name)
        see(books, name, load=0.5)
        books.wait("alice", name)
    books.run("alice", "vision", cpus=50)

    shares = books.shares()

    assert shares.ratio("alice", "vision") > shares.ratio("alice", "nlp") > 0.0


@pytest.mark.parametrize("provider", ["", "slurm", "k8s"])
@pytest.mark.parametrize(
    ("preset", "order"),
    [("fifo", ["first", "second", "third"]), ("priority", ["third", "first", "second"])],
)
def test_every_provider_goes_with_every_policy(provider, preset, order):
    books = outer_books(provider) if provider else Books()
    books.tell(ev.PolicySet(policy=with_preset(books.cluster.policy, preset)))
    books.project("full", hard=Limits(cpu_milli=1000))
    books.project("free")
    for name, limit in (("full", {"cpu_milli": 1000}), ("free", {})):
        if provider:
            see(books, name, **limit)
    names = {books.wait(project="full", cpus=2, priority=90): "full"}
    for name, priority in (("first", 50), ("second", 50), ("third", 60)):
        names[books.wait(project="free", priority=priority, name=name)] = name

    starts = Scheduler(books.cluster).run(books.now_s).starts

    assert [names[start.job] for start in starts] == order


def test_limits_that_rota_is_told_are_to_be_set_at_the_provider_and_others_are_not():
    books = outer_books()
    books.project("vision", hard=Limits(cpu_milli=4000, jobs=5))
    asked = books.cluster.accounts.outer["vision"]
    see(books, "nlp", cpu_milli=9000)
    books.project("nlp", shares=3)

    assert (asked.asked, asked.seen_s) == (Limits(cpu_milli=4000), 0.0)
    assert books.cluster.accounts.outer["nlp"].asked is None


def test_another_provider_forgets_what_the_one_before_has_said():
    books = outer_books()
    see(books, "vision", cpu_milli=1000)
    job = books.wait("alice", "vision")

    books.tell(ev.QuotaProviderSet(provider=""))

    assert books.cluster.accounts.outer == {}
    assert short(books, job, cpus=50) == ""


@pytest.mark.parametrize(("cpus", "allowed"), [(1, True), (2, False)])
def test_the_provider_answers_as_other_tools_ask_and_counts_nothing_itself(cpus, allowed):
    books = outer_books()
    see(books, "vision", cpu_milli=4000, used=Amount(cpu_milli=3000), foreign=Amount(3000))
    provider = ProjectQuotas(books.cluster, NOW_S)

    info = provider.get_quota("vision")
    asked = provider.check_quota("vision", ProjectResources(cpu=cpus))
    given = [provider.allocate_quota("vision", ProjectResources(cpu=cpus)) for _ in range(3)]
    provider.release_quota("vision", ProjectResources(cpu=cpus))

    assert (info.limits.cpu, info.used.cpu, info.available.cpu) == (4.0, 3.0, 1.0)
    assert (asked, given) == (allowed, [allowed] * 3)
    assert not provider.check_quota("unheard", ProjectResources())


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("AssocGrpCpuLimit", "has at most 8 CPUs, of which 5 were used (3 outside Rota)"),
        ("QOSGrpGRES", "has at most 2 devices, of which 0 were used"),
        ("QOSMaxMemPerUser", ""),
        ("AssocGrpBillingMinutes", ""),
        ("Priority", ""),
    ],
)
def test_a_limit_that_slurm_names_is_told_with_its_numbers(reason, words):
    books = outer_books()
    used, foreign = Amount(cpu_milli=5000), Amount(cpu_milli=3000)
    see(books, "vision", cpu_milli=8000, device_milli=2000, used=used, foreign=foreign)

    told = outer_numbers(books.cluster, "vision", reason)

    assert told == (f": by the quota in slurm project vision {words}" if words else "")
    assert outer_numbers(books.cluster, "", reason) == ""
    assert outer_numbers(books.cluster, "unseen", reason) == ""
