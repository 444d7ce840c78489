"""Fairness for any use and any tree: nobody gains by splitting, by lying or by a new name."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rota.scheduling.order.fairshare import FairShare, nested
from rota.scheduling.order.orderings import ORDERINGS, order_key
from tests.unit.books import DAY_S, HOUR_S, Books, amount

USERS = ("ann", "ben", "cem")
PROJECTS = ("", "vision", "speech", "deep")

hours = st.floats(0.1, 200.0)
users = st.sampled_from(USERS)
projects = st.sampled_from(PROJECTS)
wishes = st.fixed_dictionaries({"cpus": st.integers(1, 8), "gpus": st.integers(0, 3)})
#: (who, where, how long, ended how long ago, what)
past = st.lists(st.tuples(users, projects, hours, hours, wishes), max_size=8)
ratio = st.floats(0.0, 1e6)


def world(uses: list, share: dict | None = None) -> Books:
    books = Books(cpus=1000, gpus=100)
    books.project("vision", shares=2)
    books.project("speech")
    books.project("deep", "vision", shares=3)
    books.user("ben", shares=2)
    books.rules(share=share or {})
    for user in USERS:
        for project in PROJECTS:
            books.wait(user, project)
    for user, project, length_h, ago_h, wish in uses:
        books.ran(user, project, hours=length_h, ago_h=ago_h, **wish)
    return books


def all_ratios(shares: FairShare) -> dict[tuple[str, str], float]:
    return {(u, p): shares.ratio(u, p) for u in USERS for p in PROJECTS}


memories = st.sampled_from([{}, {"memory": "window"}, {"half_life_s": 86400}, {"form": "simple"}])


@given(past, users, projects, st.integers(1, 4), st.integers(0, 2), hours, st.booleans(), memories)
def test_two_halves_of_a_job_count_like_the_whole(
    uses, user, project, cpus, gpus, length_h, ended, share
):
    whole, halves = world(uses, share), world(uses, share)
    at_s = whole.now_s - length_h * HOUR_S

    jobs = [whole.run(user, project, at_s=at_s, cpus=2 * cpus, gpus=2 * gpus)]
    parts = [halves.run(user, project, at_s=at_s, cpus=cpus, gpus=gpus) for _ in range(2)]
    if ended:
        whole.end(jobs[0])
        for part in parts:
            halves.end(part)

    one, two = all_ratios(whole.shares()), all_ratios(halves.shares())
    for account, value in one.items():
        assert abs(two[account] - value) <= 1e-9 * max(1.0, value)


@given(past, users, projects, st.integers(1, 8), st.integers(1, 4))
def test_splitting_a_job_brings_no_part_of_it_ahead_of_where_the_whole_would_stand(
    uses, user, project, cpus, gpus
):
    books = world(uses)
    shares = books.shares()
    whole = shares.ratio(user, project)
    others = {account: r for account, r in all_ratios(shares).items() if account[0] != user}

    keys = []
    for _ in range(gpus):
        keys.append(shares.ratio(user, project))
        shares.started(user, project, amount(cpus=cpus / gpus, gpus=1))

    assert keys[0] == whole
    assert keys == sorted(keys)
    assert all(all_ratios(shares)[account] >= r for account, r in others.items())


@given(past, users, projects, st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_a_job_says_about_its_run_time_does_not_change_its_share(
    uses, user, project, limit_s, estimate_s
):
    honest, liar = world(uses), world(uses)

    for books, limit, estimate in ((honest, 3600, 0), (liar, limit_s, estimate_s)):
        job = books.run(user, project, gpus=1, time_limit_s=limit, estimate_s=estimate)
        books.now_s += HOUR_S
        books.end(job)

    assert all_ratios(honest.shares()) == all_ratios(liar.shares())


@given(past, users, st.lists(st.text("xyz", min_size=1, max_size=4), min_size=1, max_size=5))
def test_projects_that_nobody_has_set_up_are_no_way_to_a_second_share(uses, user, names):
    plain, renamed = world(uses), world(uses)

    for name in names:
        plain.ran(user, hours=2, gpus=1)
        renamed.ran(user, name, hours=2, gpus=1)
        renamed.wait(user, name + "!")

    one, two = plain.shares(), renamed.shares()
    assert abs(one.ratio(user, "") - two.ratio(user, names[0] + "!")) <= 1e-9
    assert two.ratio(user, "brand new") == two.ratio(user, "")


@given(past, past, projects, st.permutations(USERS))
def test_the_names_of_users_do_not_matter(uses, more, project, other_names):
    """Whoever has another name and the same shares and use stands where he stood."""
    rename = dict(zip(USERS, other_names, strict=True))
    first, second = world([]), world([])
    for books in (first, second):
        books.user("ben", shares=1)
    for user, where, length_h, ago_h, wish in uses + more:
        first.ran(user, where, hours=length_h, ago_h=ago_h, **wish)
        second.ran(rename[user], where, hours=length_h, ago_h=ago_h, **wish)

    one, two = first.shares(), second.shares()

    assert {u: one.ratio(u, project) for u in USERS} == {
        u: two.ratio(rename[u], project) for u in USERS
    }


@given(past, users, projects, wishes, hours)
def test_more_use_never_brings_an_account_forward_nor_a_rival_back(
    uses, user, project, wish, length_h
):
    before = all_ratios(world(uses).shares())

    books = world(uses)
    books.ran(user, project, hours=length_h, **wish)
    after = all_ratios(books.shares())

    assert after[user, project] >= before[user, project]
    for account, value in before.items():
        same_branch = account[1] and project and account[1] != "speech" and project != "speech"
        if account[0] != user and account[1] != project and not same_branch:
            assert after[account] == value


@given(past, st.floats(1.0, 30.0))
def test_use_fades_and_nobody_overtakes_by_waiting_alone(uses, days):
    books = world(uses)
    before = all_ratios(books.shares())

    books.now_s += days * DAY_S
    after = all_ratios(books.shares())

    assert all(after[account] <= value for account, value in before.items())
    flat = [(u, "") for u in USERS]
    order = sorted(flat, key=lambda account: (before[account], account))
    for lighter, heavier in itertools.pairwise(order):
        assert after[lighter] <= after[heavier] * (1 + 1e-9)


@given(
    past,
    st.lists(st.tuples(users, projects, wishes), min_size=1, max_size=12),
    st.sampled_from(sorted(ORDERINGS)),
    st.sampled_from(sorted(ORDERINGS)),
    st.sampled_from([{}, {"soft_ratio": 0.01}]),
)
def test_while_jobs_start_in_a_pass_keys_only_grow(uses, starts, primary, secondary, share):
    books = world(uses, share)
    view = books.view()
    shares = view.shares
    assert isinstance(shares, FairShare)
    entries = [books.entry(job) for job in books.cluster.jobs]

    def keys() -> list[tuple[float, ...]]:
        rules = ORDERINGS[primary], ORDERINGS[secondary]
        return [order_key(entry, view, *rules, 50) for entry in entries]

    before, versions = keys(), [shares.version(e.key.user, e.key.project) for e in entries]
    for user, project, wish in starts:
        shares.started(user, project, amount(**wish))
        after = keys()
        assert all(new >= old for new, old in zip(after, before, strict=True))
        now = [shares.version(e.key.user, e.key.project) for e in entries]
        for entry, old, new, was, is_now in zip(entries, before, after, versions, now, strict=True):
            assert old == new or was != is_now, entry
        before, versions = after, now


@given(ratio, ratio, ratio, ratio)
def test_one_number_for_two_levels_grows_with_both(upper, lower, more_upper, more_lower):
    low_up, high_up = sorted((upper, more_upper))
    low, high = sorted((lower, more_lower))

    assert nested(low_up, low) <= nested(low_up, high)
    assert nested(low_up, low) <= nested(high_up, low)
    assert nested(low_up, high) <= nested(high_up, high)
    if high_up > low_up * 1.01 and high_up > 1e-9:
        assert nested(low_up, high) < nested(high_up, low)


@given(past, projects, wishes)
def test_two_accounts_of_one_project_are_compared_by_their_own_use(uses, project, wish):
    books = world(uses)
    books.user("ben", shares=1)
    shares = books.shares()
    rows = {(row.project, row.user): row.ratio for row in shares.rows()}

    for one in USERS:
        for other in USERS:
            if rows[project, one] < rows[project, other] * (1 - 1e-6):
                assert shares.ratio(one, project) < shares.ratio(other, project)
