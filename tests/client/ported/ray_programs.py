"""Ten small programs as they are written for Ray: the import is all that is changed."""

import time

import ray

ray.init()


@ray.remote
def square(number: int) -> int:
    return number * number


@ray.remote(num_cpus=1, max_retries=0)
def add(first: int, second: int = 0) -> int:
    return first + second


@ray.remote
def total(numbers: list[int]) -> int:
    return sum(numbers)


@ray.remote
def fail(words: str) -> None:
    raise ValueError(words)


@ray.remote
def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def one_call() -> object:
    return ray.get(square.remote(7))


def several_calls() -> object:
    return ray.get([square.remote(number) for number in range(4)])


def keywords() -> object:
    return ray.get(add.remote(1, second=2))


def a_chain() -> object:
    first = square.remote(3)
    return ray.get(add.remote(first, second=square.remote(4)))


def a_tree() -> object:
    level = [square.remote(number) for number in range(4)]
    while len(level) > 1:
        level = [add.remote(level[0], level[1]), *level[2:]]
    return ray.get(level[0])


def the_first_to_end() -> object:
    slow, quick = nap.remote(60), nap.remote(0.01)
    ready, rest = ray.wait([slow, quick], num_returns=1)
    ray.cancel(slow, force=True)
    return ray.get(ready), len(rest)


def one_value_for_several_calls() -> object:
    table = ray.put([1, 2, 3])
    return ray.get([total.remote(table), total.remote(table)])


def what_was_raised() -> object:
    try:
        ray.get(fail.remote("no data"))
    except ValueError as error:
        return "no data" in str(error)
    return None


def options_of_one_call() -> object:
    return ray.get(square.options(num_cpus=2, name="larger").remote(5))


def all_in_turn() -> object:
    waiting = [square.remote(number) for number in range(3)]
    found = []
    while waiting:
        ready, waiting = ray.wait(waiting)
        found += ray.get(ready)
    return sorted(found)


EXPECTED = {
    one_call: 49,
    several_calls: [0, 1, 4, 9],
    keywords: 3,
    a_chain: 25,
    a_tree: 14,
    the_first_to_end: ([0.01], 1),
    one_value_for_several_calls: [6, 6],
    what_was_raised: True,
    options_of_one_call: 25,
    all_in_turn: [0, 1, 4],
}
