"""Ten small programs as they are written for Dask: the import and the client are changed."""

import operator

from dask.distributed import Client, as_completed, wait

client = Client(processes=False, dashboard_address=None)


def inc(number: int) -> int:
    return number + 1


def double(number: int) -> int:
    return 2 * number


def fail(number: int) -> int:
    raise ValueError(f"{number} is too many")


def one_call() -> object:
    return client.submit(inc, 10).result()


def a_chain() -> object:
    first = client.submit(inc, 1)
    second = client.submit(double, first)
    return client.submit(operator.add, first, second).result()


def a_map_and_gather() -> object:
    return client.gather(client.map(inc, range(4)))


def a_map_of_a_map() -> object:
    return client.gather(client.map(double, client.map(inc, range(4))))


def several_iterables() -> object:
    return client.gather(client.map(pow, [2, 3], [5, 2]))


def a_list_of_futures() -> object:
    futures = client.map(inc, range(4))
    return client.submit(sum, futures).result()


def the_first_to_end() -> object:
    futures = client.map(inc, range(4))
    return sorted(future.result() for future in as_completed(futures))


def waiting_for_all() -> object:
    futures = client.map(inc, range(3))
    wait(futures)
    return [future.done() for future in futures]


def what_was_raised() -> object:
    future = client.submit(fail, 3)
    try:
        future.result()
    except ValueError as error:
        return str(error), type(future.exception()).__name__
    return None


def a_tree() -> object:
    level = client.map(inc, range(4))
    while len(level) > 1:
        level = [
            client.submit(operator.add, *pair) for pair in zip(level[::2], level[1::2], strict=True)
        ]
    return level[0].result()


EXPECTED = {
    one_call: 11,
    a_chain: 6,
    a_map_and_gather: [1, 2, 3, 4],
    a_map_of_a_map: [2, 4, 6, 8],
    several_iterables: [32, 9],
    a_list_of_futures: 10,
    the_first_to_end: [1, 2, 3, 4],
    waiting_for_all: [True, True, True],
    what_was_raised: ("3 is too many", "ValueError"),
    a_tree: 10,
}
