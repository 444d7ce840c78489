"""Profiles for Hypothesis: the same cases every time, or new ones (``explore``) at a desk."""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=50,
    stateful_step_count=40,
    # A failure is told as it was found; `explore` looks for its shortest form.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    parent=settings.get_profile("fixed"),
    derandomize=False,
    max_examples=2000,
    phases=list(Phase),
    print_blob=True,
)
settings.load_profile("fixed")
