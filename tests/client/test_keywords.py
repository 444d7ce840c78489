"""Which keyword is for the function and which for the job; no server is asked."""

import asyncio
import linecache
import threading
import warnings

import msgspec
import pytest

import rota
from rota.api.bodies.requests import JobRequest
from rota.client import asking
from rota.client.asking import OPTIONS, changes, merged, plain, sort_keywords
from rota.client.calls import CallFolder

#: Fields of a request that the client fills in itself.
OWN = {"command", "script", "script_args", "stdin", "array", "parameters", "max_concurrent"}


def train(rate: float, epochs: int = 1) -> float:
    return rate * epochs


def shaped(rate: float, tasks: int = 1) -> float:
    return rate * tasks


def open_to_all(rate: float, **settings: object) -> object:
    return rate, settings


def test_an_option_that_is_misspelt_is_refused_with_the_right_name():
    with pytest.raises(TypeError, match="tiem: there is no such option; did you mean time"):
        rota.job(tiem="2h")(abs)  # type: ignore[call-arg]


def test_what_the_function_names_is_for_the_function_and_the_rest_is_for_the_job():
    given = {"epochs": 3, "name": "x", "gpus": 1, "time_limit": "2h"}

    kwargs, options = sort_keywords(train, (0.1,), given)

    assert kwargs == {"epochs": 3}
    assert options == {"name": "x", "gpus": 1, "time_limit": "2h"}


def test_kwargs_are_keywords_for_the_function_too():
    assert sort_keywords(train, (0.1,), {"kwargs": {"epochs": 3}}) == ({"epochs": 3}, {})


def test_a_function_without_a_signature_takes_what_is_not_an_option():
    assert sort_keywords(int, ("ff",), {"base": 16, "hold": True}) == ({"base": 16}, {"hold": True})


def test_a_keyword_that_both_know_goes_to_the_function_with_a_warning():
    with pytest.warns(UserWarning, match=r"tasks: given to shaped\(\), .*cluster\.options"):
        kwargs, options = sort_keywords(shaped, (0.1,), {"tasks": 4})

    assert (kwargs, options) == ({"tasks": 4}, {})


def test_an_option_beside_a_function_that_takes_anything_stays_one_with_a_warning():
    with pytest.warns(UserWarning, match="name: taken as an option of the job"):
        kwargs, options = sort_keywords(open_to_all, (0.1,), {"name": "x", "depth": 2})

    assert (kwargs, options) == ({"depth": 2}, {"name": "x"})


@pytest.mark.slow
def test_a_warning_points_at_the_line_of_the_program(cluster: rota.ClusterContext):
    async def awaited() -> None:
        async with rota.connect_async(cluster.url) as twin:
            await twin.plan(shaped, 0.1, tasks=1)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        cluster.submit(shaped, 0.1, tasks=1).cancel()
        cluster.plan(shaped, 0.1, tasks=1)
        asyncio.run(awaited())

    lines = [linecache.getline(one.filename, one.lineno).strip() for one in told]
    assert lines == [
        "cluster.submit(shaped, 0.1, tasks=1).cancel()",
        "cluster.plan(shaped, 0.1, tasks=1)",
        "await twin.plan(shaped, 0.1, tasks=1)",
    ]


@pytest.mark.parametrize(
    ("args", "keywords", "words"),
    [
        ((0.1,), {"epoch": 3}, r"^epoch: train\(\) takes no such keyword"),
        (
            (0.1,),
            {"x": 3},
            r"no such option; options are those of cluster\.options\(\.\.\.\), such as cpus",
        ),
        ((0.1,), {"retriess": 3}, r"did you mean cluster\.options\(retries=\.\.\.\)"),
        ((), {}, r"^train\(\): missing a required argument: 'rate'"),
        ((1, 2, 3), {}, r"^train\(\): too many positional arguments"),
    ],
)
def test_a_call_that_could_only_fail_is_refused_in_one_line(
    args: tuple, keywords: dict, words: str
):
    with pytest.raises(TypeError, match=words) as caught:
        sort_keywords(train, args, keywords)
    assert "\n" not in str(caught.value)


def test_options_have_one_name_each_and_the_last_word_counts():
    assert plain({"resources": {"cpu": 2}, "time": "1h"}) == {"cpus": 2, "time_limit": "1h"}
    assert merged({"gpus": 1, "env": {"A": "1"}}, {"resources": {"gpu": 2}, "env": {"B": "2"}}) == {
        "gpus": 2,
        "env": {"A": "1", "B": "2"},
    }
    with pytest.raises(ValueError, match="cpus: 1 and 2 are both given; say one"):
        plain({"cpu": 1, "cpus": 2})


def test_options_become_fields_of_a_request():
    asked = {"gpus": 1, "memory": "4g", "time": "2h", "env": {"A": 1}, "after_ok": [3, 4]}

    assert changes(asked, "unix:///here") == {
        "resources": {"gpus": 1, "memory_mb": 4096},
        "time_limit_s": 7200,
        "variables": {"A": "1"},
        "depends_on": [{"kind": "after-ok", "job": 3}, {"kind": "after-ok", "job": 4}],
    }


def test_every_field_of_a_request_is_an_option_or_the_clients_own():
    fields = {field.name for field in msgspec.structs.fields(JobRequest)}

    assert fields - OPTIONS - OWN == set()
    assert OPTIONS - fields - asking.RESOURCES.keys() == {"after_ok", "time", "time_limit"}


def test_a_decorated_function_runs_here_when_it_is_called_and_tells_its_options():
    small = rota.job(train)
    large = rota.job(gpus=1, time="2h")(train)

    assert (small(0.5, epochs=2), large(0.5)) == (1.0, 0.5)
    assert repr(large) == "<rota.job train(gpus=1, time_limit='2h')>"
    assert large.options(gpus=2).given == {"gpus": 2, "time_limit": "2h"}
    assert large.given["gpus"] == 1
    with pytest.raises(TypeError, match="job: 12 is not a function"):
        rota.job(cpus=1)(12)


def test_a_decorated_function_without_an_open_cluster_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("rota.client.options.OPEN", {})

    with pytest.raises(RuntimeError, match=r"no cluster is open: .*with rota\.connect\(\)"):
        rota.job(train).submit(0.1)


def test_every_public_name_has_a_docstring():
    silent = [name for name in rota.__all__ if not getattr(rota, name).__doc__]
    for name in ("ClusterContext", "JobHandle", "AsyncCluster", "AsyncJob", "Options", "Job"):
        kind = getattr(rota, name)
        public = [each for each in dir(kind) if not each.startswith("_")]
        silent += [f"{name}.{each}" for each in public if not getattr(kind, each).__doc__]

    assert silent == []


def test_a_keyword_of_the_function_beside_a_map_is_answered_with_where_it_goes():
    with pytest.raises(TypeError, match=r"epochs: .* train\(\) by kwargs=\{'epochs': \.\.\.\}"):
        asking.refuse_keywords(train, {"epochs": 3, "gpus": 1})
    with pytest.raises(TypeError, match=r"^nonsense: .*such as cpus, memory, gpus, time and name"):
        asking.refuse_keywords(train, {"nonsense": 3, "gpus": 1})


@pytest.mark.parametrize(("option", "value"), [("time_limit", "1:30"), ("memory", "16")])
def test_an_amount_that_cannot_be_read_is_refused_with_its_name(option, value):
    with pytest.raises(ValueError, match=f"^{option}: '{value}' "):
        changes({option: value}, "unix:///here")


def test_what_cannot_be_sent_is_named(tmp_path):
    lock, folder = threading.Lock(), CallFolder(tmp_path)

    with pytest.raises(TypeError, match=r"^an argument of train\(\) cannot be sent: cannot pickle"):
        folder.pack(train, (lock,), {}, [])
    with pytest.raises(TypeError, match=r"^the function lambda cannot be sent: cannot pickle"):
        folder.pack(lambda: lock, (), {}, [])
    with pytest.raises(TypeError, match=r"^an item cannot be sent: cannot pickle"):
        folder.row((lock,), [])


def test_an_address_that_is_none_is_refused_as_what_it_was_given_as():
    with pytest.raises(rota.ClientError, match=r"^url: '127\.0\.0\.1:8082' is not valid"):
        rota.connect("127.0.0.1:8082")
