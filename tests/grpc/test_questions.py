"""Questions are worked out aside where the gRPC door is open, too."""

from tests.api.running import Caller
from tests.api.test_questions import KINDS
from tests.grpc.typed import Typed


def test_a_plan_on_a_large_site_is_answered_beside_typed_clients(ann: Typed, caller: Caller):
    ann.launch()
    jobs = [{"command": "true", "time_limit_s": 60 + n} for n in range(KINDS)]
    assert caller.post("/jobs:batch", {"jobs": jobs}).status == 201

    answer = caller.post("/plan", {"command": "true", "time_limit_s": 30})

    assert answer.status == 200, answer.body
