"""Settings of quotas that another program has, by their newer and older names, and from a file."""

import pytest

from rota import config
from rota.core.facts.errors import Rejected


def test_the_names_of_quota_providers_are_understood_as_they_are():
    settings = config.parse(
        "",
        "",
        {
            "QUOTA_PROVIDER": "slurm",
            "K8S_QUOTA_NAMESPACE": "team-{project}",
            "K8S_CREATE_RESOURCE_QUOTAS": "true",
            "SLURM_ACCOUNT_PREFIX": "acct-",
            "EXECUTOR_SLURM_REST_API_URL": "http://slurm:6820",
            "EXECUTOR_SLURM_AUTH_TOKEN": "abc",
        },
    )

    quotas = settings.quotas
    assert settings.scheduling.quota_provider == "slurm"
    assert (quotas.k8s_namespace, quotas.k8s_create) == ("team-{project}", True)
    assert (quotas.slurm_account_prefix, quotas.slurm_auth_token) == ("acct-", "abc")
    assert quotas.slurm_rest_url == "http://slurm:6820"


def test_without_them_they_are_as_other_setups_know_them():
    quotas = config.parse("", "", {}).quotas

    assert (quotas.k8s_namespace, quotas.k8s_create) == ("rota-jobs", False)
    assert quotas.slurm_account_prefix == "project-"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("QUOTA_PROVIDER", "k9s", "'k9s' is not known; did you mean k8s"),
        ("K8S_QUOTA_NAMESPACE", "Team", "'Team' is not valid; expected up to 63 of a-z"),
        ("K8S_CREATE_RESOURCE_QUOTAS", "maybe", "'maybe' is not valid"),
        ("SLURM_ACCOUNT_PREFIX", "a b", "'a b' is not valid; expected a-z"),
        ("EXECUTOR_SLURM_REST_API_URL", "slurm:6820", "expected http://, https://, unix:/"),
        ("ROTA_QUOTAS_POLL_S", "0", "at least 1"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(variable, value, words):
    with pytest.raises(Rejected, match=words) as refused:
        config.parse("", "", {variable: value})

    assert str(refused.value).startswith(f"{variable}: ")


def test_jobs_run_where_their_quota_is_unless_the_engine_says_otherwise():
    text = '[engines.a]\nkind = "slurm"\n[engines.b]\nkind = "slurm"\naccount_prefix = ""\n'

    engines = config.parse(text, "rota.toml", {"QUOTA_PROVIDER": "slurm"}).engines
    local = config.parse(text, "rota.toml", {}).engines

    assert engines["a"] == {"kind": "slurm", "account_prefix": "project-"}
    assert engines["b"]["account_prefix"] == ""
    assert local["a"] == {"kind": "slurm"}
