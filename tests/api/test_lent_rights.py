"""Rights that somebody passed on, or that somebody took away, stay passed on or taken away."""

from tests.api.running import Running


def test_only_an_admin_takes_a_role_away(server: Running) -> None:
    """To forget a user's quota is an operator's; a viewer does not become a user by that."""
    admin = server.local()
    made = admin.post("/tokens", {"user": "olga", "access": "operator"}).json
    olga = server.network(made["token"])
    for name in ("vera", "*"):
        admin.patch(f"/users/{name}", {"role": "viewer", "shares": 5})

        forgotten = olga.delete(f"/users/{name}")
        after = olga.get(f"/users/{name}").json

        assert (forgotten.status, after["role"], after["shares"]) == (204, "viewer", 1)

        assert olga.patch(f"/users/{name}", {"role": "user"}).status == 403
        assert admin.delete(f"/users/{name}").status == 204
        assert olga.get(f"/users/{name}").json["role"] == "user"


def test_a_token_that_was_revoked_takes_those_with_it_that_were_made_with_it(
    server: Running,
) -> None:
    """Somebody who came by a token makes another one at once."""
    admin = server.local()
    lost = admin.post("/tokens", {"user": "ann"}).json
    child = server.network(lost["token"]).post("/tokens", {}).json
    grandchild = server.network(child["token"]).post("/tokens", {"access": "viewer"}).json
    other = admin.post("/tokens", {"user": "ann"}).json

    admin.delete(f"/tokens/{lost['id']}")

    shown = [
        server.network(one["token"]).get("/status").status for one in (lost, child, grandchild)
    ]
    assert shown == [401, 401, 401]
    assert server.network(other["token"]).get("/status").status == 200
    left = {entry["id"] for entry in admin.get("/tokens").json["items"]}
    assert other["id"] in left
    assert not left & {lost["id"], child["id"], grandchild["id"]}


def test_a_list_says_which_token_another_one_was_made_with(server: Running) -> None:
    made = server.local().post("/tokens", {"user": "ann"}).json
    ann = server.network(made["token"])

    child = ann.post("/tokens", {}).json

    by = {entry["id"]: entry["by"] for entry in ann.get("/tokens").json["items"]}
    assert by == {made["id"]: "", child["id"]: made["id"]}
