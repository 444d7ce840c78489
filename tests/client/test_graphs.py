"""Jobs that need the results of others: a handle as an argument stands for what it returns."""

import pytest

import rota
from rota.client.handle import JobReference

pytestmark = pytest.mark.slow
WAIT_S = 60.0


def add(first: int, second: int = 0) -> int:
    return first + second


def test_a_handle_as_an_argument_is_its_result_and_makes_the_dependency(
    cluster: rota.ClusterContext,
):
    held = cluster.options(hold=True).submit(add, 1, 2)
    child = cluster.submit(add, held, second=10)
    awaited = child.status().record["depends_on"]
    assert [(entry["kind"], entry["job"]) for entry in awaited] == [("after-ok", held.id)]

    cluster.release(held)

    assert child.result(WAIT_S) == 13


def test_handles_are_found_in_lists_tuples_dicts_and_objects(cluster: rota.ClusterContext):
    class Box:
        def __init__(self, content: object) -> None:
            self.content = content

    def opened(values: list, pair: tuple, named: dict, box: Box) -> tuple:
        return values, pair, named, box.content

    one, two = cluster.map(add, [1, 2])

    job = cluster.submit(opened, [one, [two]], (one, "x"), named={"two": two}, box=Box(one))

    assert job.result(WAIT_S) == ([1, [2]], (1, "x"), {"two": 2}, 1)


def test_a_map_over_the_handles_of_a_map_ties_equal_elements_together(
    cluster: rota.ClusterContext,
):
    first = cluster.map(add, [1, 2, 3], [10, 20, 30])
    second = cluster.map(add, first, kwargs={"second": 100})
    total = cluster.submit(sum, second)

    assert rota.gather(first, second, total, timeout=WAIT_S) == [11, 22, 33, 111, 122, 133, 366]
    awaited = [*second[0].status().record["depends_on"], *total.status().record["depends_on"]]
    assert [(entry["job"], entry["element"]) for entry in awaited] == [
        (first[0].family.array, True),
        (second[0].family.array, False),
    ]


def test_a_result_of_another_program_is_fetched_through_the_server(cluster: rota.ClusterContext):
    job = cluster.submit(add, 40, 1)

    with rota.connect(cluster.url) as other:
        assert other.submit(add, other.job(job.id), 1).result(WAIT_S) == 42


def test_a_job_whose_parent_failed_never_runs_and_names_the_cause(cluster: rota.ClusterContext):
    parent = cluster.submit(divmod, 1, 0)
    child = cluster.submit(add, parent)

    with pytest.raises(rota.JobFailed, match=f"dependency: job {parent.id} ended failed") as caught:
        child.result(WAIT_S)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_handle_of_another_cluster_or_inside_a_function_is_refused(
    cluster: rota.ClusterContext,
):
    stranger = JobReference(5, "unix:///elsewhere/rota.sock", 1)

    def uses_it() -> object:
        return stranger

    with pytest.raises(ValueError, match=r"job 5 belongs to the cluster at unix:///elsewhere"):
        cluster.submit(add, stranger)
    with pytest.raises(TypeError, match="job 5 is used inside the function uses_it"):
        cluster.submit(uses_it)


def test_gather_raises_the_first_failure_at_once_or_gives_all_of_them(
    cluster: rota.ClusterContext,
):
    held = cluster.options(hold=True).submit(add, 1)
    failing = cluster.submit(divmod, 1, 0)

    with pytest.raises(ZeroDivisionError):
        rota.gather(held, failing, timeout=WAIT_S)
    with pytest.raises(TimeoutError, match=r"1 of 1 jobs have not ended after 0\.01 s"):
        rota.gather(held, timeout=0.01)
    cluster.release(held)
    found = cluster.gather([held, failing], timeout=WAIT_S, return_exceptions=True)

    assert found[0] == 1
    assert isinstance(found[1], ZeroDivisionError)


def test_a_decorated_function_is_submitted_with_its_options_and_those_of_the_caller(
    cluster: rota.ClusterContext,
):
    @rota.job(name="small", labels={"kind": "test"})
    def doubled(number: int) -> int:
        return 2 * number

    first = cluster.options(name="large").submit(doubled, 4)
    second = cluster.submit(doubled, first)

    assert second.result(WAIT_S) == 16
    records = [job.status().record for job in (first, second)]
    assert [record["name"] for record in records] == ["large", "small"]
    assert [record["labels"] for record in records] == [{"kind": "test"}] * 2


def test_a_decorated_function_submits_itself_to_the_cluster_that_was_opened_last(
    cluster: rota.ClusterContext,
):
    @rota.job(cpus=1)
    def doubled(number: int) -> int:
        return 2 * number

    with rota.connect(cluster.url):
        assert doubled.submit(3).result(WAIT_S) == 6
        assert rota.gather(doubled.map([1, 2]), timeout=WAIT_S) == [2, 4]
