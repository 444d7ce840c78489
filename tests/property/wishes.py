"""What people may ask for, drawn at random: shared by the properties."""

from hypothesis import strategies as st

from rota.core.facts.job import RestartPolicy

CARD_MIB = 1000

resources = st.one_of(
    st.fixed_dictionaries({"cpus": st.sampled_from([0.5, 1, 2, 3]), "mem": st.integers(0, 64)}),
    st.fixed_dictionaries({"cpus": st.just(1), "gpus": st.integers(1, 2)}),
    st.fixed_dictionaries(
        {
            "cpus": st.just(0.5),
            "gpus": st.just(1),
            "gpu_mem": st.integers(1, CARD_MIB),
            "shared": st.just(True),
        }
    ),
)
wishes = st.fixed_dictionaries(
    {},
    optional={
        "tasks": st.integers(2, 3),
        "priority": st.integers(0, 75),
        "time_limit_s": st.integers(1, 30),
        "scheduling_timeout_s": st.integers(1, 30),
        "retries": st.integers(1, 2),
        "backoff_s": st.sampled_from([0.0, 1.0, 5.0]),
        "restart": st.sampled_from(list(RestartPolicy)),
        "hold": st.booleans(),
        "any_dependency": st.booleans(),
        "keep_waiting": st.booleans(),
        "group": st.sampled_from(["g1", "g2"]),
        "queue": st.sampled_from(["default", "side"]),
        "checkpoint_signal": st.just("USR1"),
        "save_signal": st.just("USR2"),
        "save_every_s": st.integers(1, 20),
    },
)
arrays = st.sampled_from(["0-3", "0-5%2", "1,3,5%1"])
