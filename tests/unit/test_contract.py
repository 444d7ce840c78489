"""The helper that holds fakes against the OpenAPI document sees what is not true."""

import pytest

from tests.support import contract


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, {"id": "x"}, "GET /jobs/12 200: id"),
        (200, {"state": "dreaming"}, "GET /jobs/12 200: state"),
        (200, {"colour": "red"}, "'colour' was unexpected"),
        (418, {}, "GET /jobs/12 never answers 418"),
        (404, {"code": 7}, "GET /jobs/12 404: code"),
    ],
)
def test_an_answer_that_rota_never_gives_is_told(status: int, body: object, words: str) -> None:
    known = contract.operation("GET", "/jobs/12")

    (told,) = known.wrong_answer(status, known.whole_answer(status, body))

    assert words in told


def test_an_answer_of_a_fake_has_all_that_the_document_promises() -> None:
    status = contract.operation("GET", "/status")

    whole = status.whole_answer(200, {"nodes": 1})

    assert status.wrong_answer(200, whole) == []
    assert any("required" in line for line in status.wrong_answer(200, {"nodes": 1}))


def test_what_a_caller_may_not_send_is_told() -> None:
    known = contract.operation("POST", "/jobs")

    assert known.wrong_body({"command": 5})
    assert known.wrong_body({"comand": "true"})
    assert known.wrong_query({"colour": "red"}) == ["POST /jobs takes no parameter colour"]
    assert known.wrong_body({"command": "true"}) == []


def test_a_path_without_parameters_wins_over_one_with() -> None:
    found = contract.operation("GET", "/jobs/wait")

    assert found.shown["operationId"] == "wait"
    assert contract.operation("GET", "/nothing") is None
