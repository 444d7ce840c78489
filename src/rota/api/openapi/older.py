"""Older names: what the document marks as deprecated, and what to use instead.

They stay for as long as there is a ``v1``. A parameter or a property of this name is older wherever
its newer one stands beside it.
"""

from __future__ import annotations

from typing import Any

#: Operation -> the one with the same answer.
OPERATIONS = {
    "list_jobs_of_user": "GET /jobs with `user`",
    "submit_as_user": "POST /jobs",
    "user_activity": "GET /stats with `user`",
    "cancel_by_post": "DELETE /jobs/{job_id}",
    "job_stats": "GET /stats",
    "job_details": "GET /jobs/{job_id}",
    "refresh_status": "GET /jobs/{job_id}",
    "queue_status": "GET /queue",
}
#: Parameter -> the one that means the same.
PARAMETERS = {
    "user_id": "user",
    "project_id": "project",
    "status": "state",
    "executor": "engine",
    "page": "cursor",
    "page_size": "limit",
    "before": "cursor",
}
#: Property -> the one that means the same.
PROPERTIES = {
    "scheduling_timeout_seconds": "scheduling_timeout_s",
    "before": "cursor",
    "started_s": "started_at",
    "ended_s": "ended_at",
    "saved_s": "saved_at",
    "not_before_s": "not_before_at",
    "deadline_s": "deadline_at",
    "cools_s": "cools_at",
    "since_s": "since_at",
}


def mark_operation(operation: dict[str, Any]) -> None:
    """``deprecated``, where there is a newer one, also of its parameters."""
    if newer := OPERATIONS.get(operation["operationId"]):
        operation["deprecated"] = True
        operation["description"] += f"\n\nAn older name: use `{newer}`."
    known = {entry["name"] for entry in operation.get("parameters", ())}
    for entry in operation.get("parameters", ()):
        newer = PARAMETERS.get(entry["name"])
        if newer and newer in known:
            entry |= _marked(entry.get("description", ""), newer)


def mark_schema(schema: dict[str, Any]) -> None:
    """``deprecated`` of properties that have a newer one beside them."""
    shown = schema.get("properties", {})
    for name, body in shown.items():
        newer = name.removesuffix("_mb") + "_mib" if name.endswith("_mb") else PROPERTIES.get(name)
        if newer and newer in shown:
            shown[name] = {**body, **_marked(body.get("description", ""), newer)}


def _marked(text: str, newer: str) -> dict[str, Any]:
    text = "" if text.startswith("Another name") else f"{text}. " if text else ""
    return {"deprecated": True, "description": f"{text}An older name of `{newer}`"}
