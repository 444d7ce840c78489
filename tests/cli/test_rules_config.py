"""The rules of scheduling in rota.toml and in variables."""

import pytest

from rota.config import parse
from rota.core.facts.errors import Rejected
from rota.core.facts.policy import DEFAULT
from rota.core.words.policy_text import all_keys, changed, differences, flatten, nest, unnest
from rota.core.words.presets import ALIASES, PRESETS, name_of, preset, with_preset

FILE = """
[scheduling]
policy = "easy"
known_projects = true
filters = ["site:NoFridays"]

[scheduling.order]
primary = "wfp3"
age_after_s = "2h"

[scheduling.place]
cpu_jobs_on_gpu_nodes = "never"
"""


def test_tables_and_single_rules_are_read():
    scheduling = parse(FILE, "rota.toml", {}).scheduling

    assert scheduling.policy == "easy"
    assert changed(DEFAULT, scheduling.rules).order.age_after_s == 7200
    assert scheduling.rules == {
        "known_projects": True,
        "filters": ["site:NoFridays"],
        "order.primary": "wfp3",
        "order.age_after_s": "2h",
        "place.cpu_jobs_on_gpu_nodes": "never",
    }


def test_variables_win_and_older_names_are_understood():
    environment = {
        "SCHEDULING_POLICY": "fairshare",
        "ROTA_SCHEDULING_ORDER_PRIMARY": "sjf",
        "ROTA_SCHEDULING_PREEMPT_ENABLED": "yes",
        "ROTA_SCHEDULING_SCORERS": "a:B, c:D",
    }

    scheduling = parse(FILE, "rota.toml", environment).scheduling

    policy = changed(with_preset(DEFAULT, scheduling.policy), scheduling.rules)
    assert scheduling.policy == "fairshare"
    assert policy.order.primary == "sjf"
    assert policy.preempt.enabled
    assert policy.scorers == ("a:B", "c:D")


def test_a_file_without_rules_names_none():
    scheduling = parse("", "", {}).scheduling

    assert (scheduling.policy, scheduling.rules) == ("", {})


@pytest.mark.parametrize(
    ("text", "environment", "words"),
    [
        ("[scheduling]\npolcy = 'fifo'", {}, "unknown key scheduling.polcy; did you mean policy"),
        ("[scheduling.odrer]\nprimary = 'fifo'", {}, "did you mean order"),
        ("[scheduling.order]\nprimry = 'fifo'", {}, "did you mean order.primary?"),
        ("[scheduling.order]\nprimary = 'fofi'", {}, "scheduling.order.primary: 'fofi' is not"),
        ("[scheduling]\norder = 3", {}, "rota.toml: scheduling.order: 3 is not valid"),
        ("[scheduling.gang]\npartial = 7", {}, "expected 0.01 to 1"),
        ("[scheduling.backfill]\nkind = 'eazy'", {}, "none, easy, conservative"),
        ("[scheduling]\npolicy = 'fife'", {}, "did you mean fifo?"),
        ("", {"ROTA_SCHEDULING_ORDER_PRIMRY": "x"}, "ROTA_SCHEDULING_ORDER_PRIMARY"),
        ("", {"ROTA_SCHEDULING_GANG_GROW": "maybe"}, "ROTA_SCHEDULING_GANG_GROW: 'maybe'"),
        ("[agent]\ntaints = ['a:never']", {}, "effects: no-start, avoid"),
    ],
)
def test_an_unknown_rule_or_value_is_refused_where_it_stands(text, environment, words):
    with pytest.raises(Rejected) as refusal:
        parse(text, "rota.toml", environment)

    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_taints_of_this_machine_come_from_the_file_or_a_variable():
    told = parse("[agent]\ntaints = ['gpu-only', 'team=a:avoid']", "f", {})
    said = parse("", "", {"ROTA_AGENT_TAINTS": "gpu-only, team=a:avoid"})

    assert told.agent.taints == said.agent.taints == ("gpu-only", "team=a:avoid")


def test_every_preset_has_a_name_of_its_own_and_keeps_what_is_not_its_business():
    policy = changed(DEFAULT, {"share.half_life_s": 5, "place.strategy": "fgd"})

    for name in [*PRESETS, *ALIASES]:
        chosen = with_preset(policy, name)
        half_life = {"share.half_life_s": 86400 if name == "horizon" else 5}
        assert name_of(chosen) == name_of(preset(name)) == ALIASES.get(name, name)
        assert chosen.share == changed(policy, half_life).share
        assert chosen.place == policy.place


def test_rules_by_key_and_in_tables_are_the_same():
    rules = flatten(DEFAULT)

    assert list(rules) == list(all_keys())
    assert changed(DEFAULT, unnest(nest(rules))) == DEFAULT
    assert differences(DEFAULT, preset("sjf"))["order.primary"] == ("due", "sjf")
