"""How often an engine is asked."""

from rota.backends.pace import ANSWERS, SOONEST_S, Pace


def test_an_engine_is_asked_soon_again_while_things_happen_and_seldom_when_nothing_does():
    pace = Pace(1.0)

    pauses = []
    for listing in ("a", "b", "b", "b", "b", "b", "b", "c"):
        pace.saw(listing, 0.001)
        pauses.append(pace.pause_s)

    assert pauses[0] == pauses[1] == pauses[-1] == SOONEST_S
    assert pauses[1:-1] == sorted(pauses[1:-1])
    assert pauses[-2] == 1.0


def test_an_engine_that_answers_slowly_is_asked_less_often():
    pace = Pace(1.0)

    pace.saw("a", 0.1)
    soon_s = pace.pause_s
    for listing in range(ANSWERS):
        pace.saw(listing, 3.0)

    assert soon_s == 0.5
    assert pace.pause_s == 3.0


def test_an_answer_that_came_late_for_our_own_sake_changes_nothing():
    pace = Pace(1.0)

    pauses = []
    for number, took_s in enumerate((0.02, 0.6, 0.9, 0.02, 0.7)):
        pace.saw(number, took_s)
        pauses.append(pace.pause_s)

    assert pauses == [SOONEST_S] * 5
