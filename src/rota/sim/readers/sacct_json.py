"""What ``sacct --json`` prints, in the forms of several versions of Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.sim.readers.booked import NO_NUMBER, Booked
from rota.sim.readers.values import NUMBER_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.sim.readers.text import Text


def records_of(text: Text) -> Iterator[Booked]:
    body = "\n".join(line for _, line in text.lines())
    try:
        jobs = msgspec.json.decode(body, type=dict[str, Any]).get("jobs")
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise text.bad(text.last_line, f"no JSON of sacct ({error})") from None
    if not isinstance(jobs, list):
        raise text.bad(1, "the key 'jobs' is missing; expected what sacct --json prints")
    for place, job in enumerate(jobs, 1):
        if not isinstance(job, dict) or not isinstance(job.get("time"), dict):
            problem = "the key 'time' is missing; expected what sacct --json prints"
            raise text.bad(1, f"job {place} of 'jobs': {problem}")
        try:
            yield _of_record(job)
        except KeyError as error:
            raise text.bad(1, f"job {place} of 'jobs': the key {error} is missing") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise text.bad(1, f"job {place} of 'jobs': not as expected ({error})") from None


def _of_record(job: dict[str, Any]) -> Booked:
    times, tres = job["time"], job.get("tres") or {}
    asked: dict[str, int] = {}
    for one in tres.get("requested") or tres.get("allocated") or ():
        kind = str(one["name"] if one["type"] == "gres" else one["type"])
        asked[kind] = asked.get(kind, 0) + int(_number(one.get("count")))
    typed = sum(amount for kind, amount in asked.items() if kind.startswith("gpu:"))
    required = job.get("required") or {}
    start_s, end_s = _number(times["start"]), _number(times["end"])
    part, owner = job.get("het") or {}, job.get("association") or {}
    cpus = asked.get("cpu") or int(_number(required.get("CPUs"))) or 1
    nodes = int(_number(job.get("allocation_nodes"))) or asked.get("node", 0) or 1
    memory_mib = asked.get("mem") or max(
        int(_number(required.get("memory_per_cpu"))) * cpus,
        int(_number(required.get("memory_per_node"))) * nodes,
    )
    return Booked(
        _number(times["submission"]) or _number(times.get("eligible")) or start_s,
        start_s,
        end_s,
        _number(times.get("elapsed")) or end_s - start_s,
        60.0 * _number(times.get("limit")),
        cpus,
        nodes,
        asked.get("gpu") or typed,
        memory_mib,
        str(job.get("user") or owner.get("user") or ""),
        str(job.get("account") or owner.get("account") or ""),
        str(job.get("name") or ""),
        str(job.get("partition") or ""),
        str(int(_number(part.get("job_id"))) or ""),
        "CANCELLED" in _states(job.get("state")),
    )


def _states(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - as JSON has it
    """``{"current": "COMPLETED"}``, or since 23.11 ``{"current": ["COMPLETED"]}``."""
    current = value.get("current") if isinstance(value, dict) else value
    return tuple(map(str, current)) if isinstance(current, list) else (str(current),)


def _number(value: Any) -> float:  # noqa: ANN401 - a number, or an object that holds one
    """Newer versions write ``{"set": true, "infinite": false, "number": 60}``."""
    if isinstance(value, dict):
        return _number(value["number"]) if value.get("set") and not value.get("infinite") else 0.0
    number = float(value or 0)
    # What is not known is the largest number of 32 bits, or of 64, or one below.
    is_known = 0 <= number < NO_NUMBER or 2 * NO_NUMBER < number <= NUMBER_MAX
    return number if is_known else 0.0
