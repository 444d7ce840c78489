"""Whatever is sent, the answer is as the document says: each run tries something else.

A failure prints its seed; ``ROTA_FUZZ_SEED`` tries the same again. ``ROTA_FUZZ_S`` goes on with new
seeds for so many seconds, and ``ROTA_FUZZ_PATH`` is a pattern for the paths that are tried.
"""

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.schemas import APIOperation

from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Caller, Running

#: Streams that end only with their job, and waits: they have tests of their own.
ENDLESS = r"/(events|wait|logs)$"
PATH = os.environ.get("ROTA_FUZZ_PATH", "")
#: Of each operation, in each mode.
EXAMPLES = 3
#: What fits the schema may still be refused for what it means, in the words of the document.
REFUSALS = ["400", "401", "403", "404", "405", "409", "412", "413", "422", "429"]
CONFIG = {
    "checks": {
        "positive_data_acceptance": {"expected-statuses": ["2xx", *REFUSALS]},
        "negative_data_rejection": {"expected-statuses": REFUSALS},
    }
}


@pytest.mark.slow
# The library's own way to choose what is wrong.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.timeout(float(os.environ.get("ROTA_FUZZ_S", "0")) + 600)
def test_whatever_is_sent_the_answer_is_as_documented(
    server: Running, caller: Caller, make_agent: Callable[..., PretendedAgent]
) -> None:
    make_agent(gpus=2)
    caller.submit(name="x")
    caller.submit(array="0-3")
    token = caller.post("/tokens", {"user": "fuzz", "access": "admin"}).json["token"]
    config = schemathesis.Config.from_dict(CONFIG)
    url = f"http://127.0.0.1:{server.port}/openapi.json"
    schema = schemathesis.openapi.from_url(url, config=config, timeout=WAIT_S)
    chosen = schema.exclude(path_regex=ENDLESS).include(path_regex=PATH or "/")
    operations = [found.ok() for found in chosen.get_all_operations()]
    end_s = time.monotonic() + float(os.environ.get("ROTA_FUZZ_S", "0"))
    first = int(os.environ.get("ROTA_FUZZ_SEED") or secrets.randbits(64))

    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {token}"
        number = first
        while number == first or time.monotonic() < end_s:
            print(f"ROTA_FUZZ_SEED={number}")
            for operation in operations:
                for mode in GenerationMode:
                    _fuzz(operation, mode, number, session)
            number = secrets.randbits(64)

    assert len(operations) > (0 if PATH else 110)


def _fuzz(
    operation: APIOperation, mode: GenerationMode, number: int, session: requests.Session
) -> None:
    @seed(number)
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def try_it(case: schemathesis.Case) -> None:
        response = case.call(session=session, timeout=WAIT_S)
        case.validate_response(response, transport_kwargs={"session": session})

    # An operation that takes nothing cannot be given anything wrong.
    with suppress(*([Unsatisfiable] if mode.is_negative else [])):
        try_it()
