"""Licences: jobs that want more of one than is left wait, say so, and start when it is back."""

import pytest

from rota.core.facts.errors import Rejected
from rota.testing.scene import Scene


def site(*licenses: str) -> Scene:
    scene = Scene(cpus=8)
    scene.set_policy(licenses=list(licenses))
    return scene


def test_a_job_waits_for_a_licence_says_so_and_starts_when_it_is_given_back():
    scene = site("matlab:3", "abaqus:1")
    scene.submit("two", licenses=(("matlab", 2),))

    scene.submit("more", licenses=(("matlab", 2),))
    scene.submit("one", licenses=(("matlab", 1), ("abaqus", 1)))
    during = scene.states("two", "more", "one"), scene.why("more")
    scene.finish("one")
    still = scene.state("more")
    scene.finish("two")

    assert during == (
        ["running", "queued", "running"],
        "license matlab: 3 of 3 in use, 2 wanted",
    )
    assert still == "queued", "two of three are in use"
    assert scene.state("more") == "running"


def test_jobs_of_one_pass_do_not_have_the_same_licence():
    scene = site("matlab:2")

    scene.submit("many", array="0-4", licenses=(("matlab", 1),))

    first = scene.names["many"] + 1
    assert scene.states(*range(first, first + 5)) == ["running"] * 2 + ["queued"] * 3


@pytest.mark.parametrize(
    ("licenses", "name", "count", "known"),
    [
        (["matlab:2"], "ansys", 1, "there is no licence ansys here; known: matlab$"),
        ([], "ansys", 1, "known: none; an admin sets them: policy licenses$"),
        (["matlab:2"], "matlab", 3, "3 of matlab wanted, and this site has 2$"),
    ],
)
def test_a_licence_that_the_site_does_not_have_is_refused(licenses, name, count, known):
    scene = site(*licenses)

    with pytest.raises(Rejected, match=known):
        scene.submit("job", licenses=((name, count),))


def test_a_job_waits_on_where_the_site_gave_its_licence_up():
    scene = site("matlab:1")
    scene.submit("has", licenses=(("matlab", 1),))
    scene.submit("waits", licenses=(("matlab", 1),))

    scene.set_policy(licenses=[])
    scene.finish("has")

    assert scene.state("waits") == "queued"
