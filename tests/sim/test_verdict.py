"""What other rules mean, in a sentence that names who gains, who pays, and how surely."""

from rota.sim.verdict import JobPair, verdict

HOUR = 3600.0


def changes(days: int, less_s: float, **people: float) -> list[JobPair]:
    """A job a day of each user, which waits ten hours before, and so much less after."""
    told = {"ann": less_s, **people}
    return [
        JobPair(user, day, 10 * HOUR, 10 * HOUR - own + day % 3)
        for day in range(days)
        for user, own in told.items()
    ]


def test_gains_are_told_with_an_interval_over_days():
    said = verdict("sjf", changes(20, HOUR, bob=2 * HOUR))

    assert said.startswith("Verdict: under sjf jobs wait 1h29m less on average (95 %, by days: 1h")
    assert "2 of 2 users gain, bob most (1h59m less), and nobody pays" in said
    assert "chance" not in said
    assert said.endswith("the longest wait is 9h instead of 10h.")


def test_who_pays_is_named():
    said = verdict("sjf", changes(20, 3 * HOUR, bob=-HOUR))

    assert "1 of 2 users gain, ann most (2h59m less); 1 pays, bob most (1h longer)" in said


def test_what_may_be_chance_is_called_so():
    mixed = [JobPair("ann", day, HOUR, HOUR + (-1) ** day * 1800 - 60) for day in range(10)]

    assert "which may be chance" in verdict("sjf", mixed)


def test_few_days_and_users_are_not_made_more_of_than_they_are():
    assert "too few days and users to say how surely: 2 and 1" in verdict("sjf", changes(2, HOUR))


def test_many_users_stand_in_for_few_days():
    people = {f"user{number}": HOUR for number in range(6)}

    assert "(95 %, by users: " in verdict("sjf", changes(1, HOUR, **people))


def test_nothing_to_compare_is_said():
    assert verdict("sjf", []) == "Verdict: under sjf no job can be compared."
