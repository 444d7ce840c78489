"""How many attempts an engine is handed before there is room: it follows the ends on each node."""

import itertools

from rota.backends.flow import RECENT_S, Flow


def test_without_ends_nothing_is_handed_in_early():
    flow = Flow(1.0)

    flow.note({"n1": 128}, {}, 0.0)

    assert flow.places("n1") == 0


def test_there_are_as_many_places_as_attempts_ended_of_late():
    flow = Flow(1.0)

    flow.note({"n1": 128, "n2": 128}, {}, 0.0)
    flow.note({"n1": 128, "n2": 128}, {"n1": 2}, RECENT_S)

    assert (flow.places("n1"), flow.places("n2")) == (2, 0)


def test_ends_soon_after_a_node_began_speak_for_those_that_follow():
    flow = Flow(4.0)

    flow.note({"n1": 4, "n2": 12}, {}, 0.0)
    flow.note({"n2": 11}, {"n1": 4, "n2": 1}, 0.5)

    # So many would end in the time that one waits: the first burst starts the next at once.
    assert (flow.places("n1"), flow.places("n2")) == (16, 4)


def test_a_node_that_stood_still_begins_anew():
    flow = Flow(4.0)
    flow.note({"n1": 4}, {}, 0.0)
    flow.note({}, {}, 1.0)

    flow.note({"n1": 4}, {"n1": 4}, 100.0)

    assert flow.places("n1") == 16


def test_there_are_no_more_places_than_a_share_of_what_runs():
    flow, half = Flow(1.0), Flow(0.5)

    for at in range(9):
        flow.note({"n1": 4}, {"n1": 0 if at % 2 else 4}, float(at))
        half.note({"n1": 5}, {"n1": 4}, float(at))

    assert (flow.places("n1"), half.places("n1")) == (4, 3)


def test_attempts_that_begin_and_end_between_two_looks_count_as_running():
    flow = Flow(1.0)

    flow.note({}, {"n1": 4}, 0.0)

    assert flow.places("n1") == 4


def test_the_places_go_when_nothing_has_ended_for_a_while():
    flow = Flow(1.0)
    flow.note({"n1": 4}, {"n1": 4}, 0.0)

    flow.note({"n1": 4}, {}, RECENT_S - 0.1)
    assert flow.places("n1") > 0
    flow.note({"n1": 4}, {}, RECENT_S)

    assert flow.places("n1") == 0


def test_a_steady_flow_is_told_in_few_steps():
    flow, told = Flow(1.0), []

    for at in range(200):
        flow.note({"n1": 64}, {"n1": 1 + at % 3}, at / 5)
        told.append(flow.places("n1"))

    changes = sum(before != after for before, after in itertools.pairwise(told))
    assert (told[-1], changes) == (64, 3)


def test_a_site_that_wants_none_has_none():
    flow = Flow(0.0)

    flow.note({"n1": 4}, {"n1": 4}, 0.0)

    assert flow.places("n1") == 0
