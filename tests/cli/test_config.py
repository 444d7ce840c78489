"""Settings: the file, the variables, the older names; what is unknown is refused by name."""

import os
import pwd
import re

import pytest

from rota import config, paths
from rota.core.facts.errors import Rejected


def parse(text="", **environment):
    return config.parse(text, "rota.toml", environment)


def test_without_a_file_everything_has_a_sensible_value():
    settings = parse()

    assert settings.server.address == ("127.0.0.1", 8082)
    assert settings.server.inbox_size == 10_000
    assert settings.scheduling.policy == ""
    assert settings.scheduling.interval_ms == 100


def test_a_file_sets_values_and_variables_override_them():
    text = """
    [server]
    listen = "0.0.0.0:9000"
    retention_days = 7
    [agent]
    cpus = 4
    memory = "64g"
    labels = { rack = "a" }
    """

    settings = parse(text, ROTA_SERVER_RETENTION_DAYS="30", ROTA_AGENT_LABELS="rack=b, disk=ssd")

    assert settings.server.address == ("0.0.0.0", 9000)
    assert settings.server.retention_days == 30
    assert settings.agent.cpu_milli == 4000
    assert settings.agent.memory_mib == 65_536
    assert settings.agent.labels == {"rack": "b", "disk": "ssd"}


OLDER = {
    "DATABASE_URL": "postgresql://x/y",
    "CHECKPOINT_PATH": "/ckpt",
    "CHECKPOINT_S3_BUCKET": "training",
    "INVENTORY_SERVICE_URL": "http://inv",
    "HOST": "0.0.0.0",
    "PORT": "9001",
}


def older_settings(environment):
    settings = config.parse("", "", environment)
    server = settings.server
    return {
        "DATABASE_URL": server.database,
        "CHECKPOINT_PATH": server.checkpoint_path,
        "CHECKPOINT_S3_BUCKET": settings.checkpoints.store.removeprefix("s3://"),
        "INVENTORY_SERVICE_URL": server.inventory_url,
        "HOST": server.address[0],
        "PORT": str(server.address[1]),
    }


def test_names_of_other_setups_count_with_a_prefix_and_plain_ones_when_asked_for():
    prefixed = {f"ROTA_{name}": value for name, value in OLDER.items()}

    assert older_settings(prefixed) == OLDER
    assert older_settings({})["PORT"] == "8082"
    assert older_settings(OLDER) == older_settings({})
    assert older_settings({**OLDER, "ROTA_PLAIN_NAMES": "0"}) == older_settings({})
    assert older_settings({**OLDER, "ROTA_PLAIN_NAMES": "1"}) == OLDER


def test_the_name_with_the_prefix_goes_before_the_plain_one():
    both = {**OLDER, "ROTA_PLAIN_NAMES": "1", "ROTA_PORT": "9002", "ROTA_DATABASE_URL": "sqlite://"}

    settings = older_settings(both)

    assert (settings["HOST"], settings["PORT"]) == ("0.0.0.0", "9002")
    assert settings["DATABASE_URL"] == "sqlite://"


def test_the_older_names_are_understood_and_the_newer_ones_win():
    older = {
        "ROTA_PLAIN_NAMES": "1",
        "DATABASE_URL": "postgresql://x/y",
        "SCHEDULING_POLICY": "fifo",
        "CHECKPOINT_PATH": "/ckpt",
        "INVENTORY_SERVICE_URL": "http://inv",
        "QUOTA_PROVIDER": "local",
        "HOST": "0.0.0.0",
        "PORT": "9001",
    }

    settings = config.parse("", "", older)

    assert settings.server.database == "postgresql://x/y"
    assert settings.server.checkpoint_path == "/ckpt"
    assert settings.server.inventory_url == "http://inv"
    assert settings.server.address == ("0.0.0.0", 9001)
    newer = config.parse("", "", {**older, "ROTA_SERVER_DATABASE": "sqlite://"})
    assert newer.server.database == "sqlite://"


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({"PORT": "9001"}, ("127.0.0.1", 9001)),
        ({"HOST": "::1"}, ("::1", 8082)),
        ({"HOST": "localhost"}, ("localhost", 8082)),
        ({"HOST": "box.example", "PORT": "1"}, ("box.example", 1)),
        ({"HOST": "x86_64-conda-linux-gnu"}, ("127.0.0.1", 8082)),
        ({"PORT": "tcp://10.0.0.7:8082"}, ("127.0.0.1", 8082)),
    ],
)
def test_host_and_port_are_used_where_they_can_be_meant(environment, address):
    prefixed = {f"ROTA_{name}": value for name, value in environment.items()}
    switched = {**environment, "ROTA_PLAIN_NAMES": "1"}

    found = [config.parse("", "", given).server.address for given in (prefixed, switched)]

    assert found == [address, address]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[server]\nlisten_on = 'x'",
            "rota.toml: unknown key server.listen_on; did you mean listen",
        ),
        ("[sever]\nlisten = 'x'", r"unknown section \[sever\]; did you mean server"),
        ("server = 3", "server is a section"),
        ("[server", "rota.toml: "),
        ("[server]\nlisten = 'nowhere'", "rota.toml: server.listen: 'nowhere' is not valid"),
        ("[server]\nlisten = 'x:99999'", "is not valid; expected HOST:PORT"),
        (
            "[server]\ninbox_size = 'many'",
            "server.inbox_size: 'many' is not valid; expected a whole",
        ),
        ("[server]\ninbox_size = 0", "server.inbox_size: 0 is not valid; at least 1"),
        ("[server]\nretention_days = -1", "at least 0"),
        ("[server]\ndatabase = ['a']", "server.database: .* expected text"),
        ("[agent]\nmemory = '4 apples'", "agent.memory: '4 apples' is not valid"),
        ("[agent]\ncpus = -2", "agent.cpus: '-2' is not valid"),
        ("[agent]\nlabels = { a = 1 }", "agent.labels: "),
        ("[scheduling]\npolicy = 'fifi'", "'fifi' is not known; did you mean fifo"),
        ("[scheduling]\ninterval_ms = 0", "at least 1"),
        (
            "[scheduling]\nquota_provider = 'k9s'",
            "'k9s' is not known; did you mean k8s",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_naming_its_place(text, words):
    with pytest.raises(Rejected, match=words) as caught:
        parse(text)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("ROTA_SERVER_LISTN", "x", "unknown variable ROTA_SERVER_LISTN; .* ROTA_SERVER_LISTEN"),
        ("ROTA_SERVER_INBOX_SIZE", "ten", "ROTA_SERVER_INBOX_SIZE: 'ten' is not valid"),
        ("ROTA_AGENT_LABELS", "rack", "expected rack=a,disk=ssd"),
        ("SCHEDULING_POLICY", "lottery", "SCHEDULING_POLICY: 'lottery' is not known"),
        ("QUOTA_PROVIDER", "bank", "QUOTA_PROVIDER: 'bank' is not known"),
        ("ROTA_PORT", "http", "HOST/ROTA_PORT: '127.0.0.1:http' is not valid"),
        ("ROTA_PLAIN_NAMES", "yes", "ROTA_PLAIN_NAMES: 'yes' is not valid; expected 0 or 1"),
    ],
)
def test_a_bad_variable_is_refused_by_its_name(variable, value, words):
    with pytest.raises(Rejected, match=words):
        parse(**{variable: value})


def test_variables_that_belong_to_something_else_do_not_matter():
    strange = parse(
        ROTA_URL="http://x", ROTA_TOKEN="t", ROTA_JOB_ID="7", ROTA_STATE_DIR="/s", ROTA_="x"
    )

    assert strange == parse()


def test_the_first_file_that_exists_counts(tmp_path):
    state, personal = tmp_path / "state", tmp_path / "config" / "rota"
    environment = {"ROTA_STATE_DIR": str(state), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    personal.mkdir(parents=True)
    (personal / "rota.toml").write_text("[server]\ninbox_size = 5\n")

    before = config.load(environment)
    state.mkdir()
    (state / "rota.toml").write_text("[server]\ninbox_size = 6\n")
    after = config.load(environment)

    assert before.server.inbox_size == 5
    assert after.server.inbox_size == 6


def test_a_named_file_must_exist_and_be_text(tmp_path):
    with pytest.raises(Rejected, match="ROTA_CONFIG: there is no file"):
        config.load({"ROTA_CONFIG": str(tmp_path / "absent.toml")})

    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(Rejected, match="is not UTF-8 text"):
        config.load({"ROTA_CONFIG": str(tmp_path / "odd.toml")})


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"ROTA_STATE_DIR": "/s", "HOME": "/h"}, "/s"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/rota"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/rota"),
        ({"HOME": "/h"}, "/h/.local/state/rota"),
        ({}, f"{pwd.getpwuid(os.geteuid()).pw_dir}/.local/state/rota"),
        ({"HOME": ""}, f"{pwd.getpwuid(os.geteuid()).pw_dir}/.local/state/rota"),
    ],
)
def test_the_state_folder_follows_the_xdg_rule(environment, folder):
    assert str(paths.state_dir(environment)) == folder


def test_the_system_wide_socket_is_tried_last_unless_a_folder_was_named():
    assert [str(path) for path in paths.sockets({"HOME": "/h"})] == [
        "/h/.local/state/rota/rota.sock",
        "/run/rota/rota.sock",
    ]
    assert [str(path) for path in paths.sockets({"ROTA_STATE_DIR": "/s"})] == ["/s/rota.sock"]


def test_the_service_of_the_machine_has_its_settings_in_etc():
    here = {"ROTA_STATE_DIR": "/var/lib/rota", "HOME": "/h"}

    assert [str(path) for path in paths.config_files(here)] == [
        "/etc/rota/rota.toml",
        "/var/lib/rota/rota.toml",
    ]
    assert [str(path) for path in paths.config_files({"ROTA_STATE_DIR": "/s", "HOME": "/h"})] == [
        "/s/rota.toml",
        "/h/.config/rota/rota.toml",
    ]


@pytest.mark.root
def test_root_goes_by_no_settings_of_a_user(tmp_path):
    home = tmp_path / "home"
    personal = home / ".config" / "rota"
    personal.mkdir(parents=True)
    (personal / "rota.toml").write_text("[server]\nport = 'of a user'\n")
    environment = {"ROTA_STATE_DIR": str(tmp_path), "HOME": str(home)}
    own = paths.config_files(environment)

    os.chown(personal, 65534, 65534)
    in_a_users_folder = paths.config_files(environment)
    os.chown(personal, 0, 0)
    os.chown(personal / "rota.toml", 65534, 65534)

    assert own == [tmp_path / "rota.toml", personal / "rota.toml"]
    assert in_a_users_folder == [tmp_path / "rota.toml"]
    assert paths.config_files(environment) == [tmp_path / "rota.toml"]


def test_a_rota_of_root_listens_for_every_user_wherever_its_state_is():
    expected = "/run/rota/rota.sock" if os.geteuid() == 0 else ""

    assert paths.system_socket("auto") == expected
    assert paths.system_socket("none") == ""
    assert paths.system_socket("/srv/rota.sock") == "/srv/rota.sock"
    with pytest.raises(Rejected, match=r"server\.socket: 'here' is not valid; expected auto, none"):
        parse("[server]\nsocket = 'here'")


def test_saved_work_and_bundles_have_settings_and_an_older_name():
    text = '[checkpoints]\nmax_size = "10g"\nkeep = 3\n[bundles]\nmax_size = "1g"\n'

    settings = config.parse(text, "rota.toml", {"ROTA_CHECKPOINT_S3_BUCKET": "training"})

    assert settings.checkpoints.store == "s3://training"
    assert (settings.checkpoints.max_bytes, settings.checkpoints.keep) == (10 << 30, 3)
    assert settings.checkpoints.days == 7
    assert settings.bundles.max_bytes == 1 << 30


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[checkpoints]\nstore = "bucket"', "expected a URL such as s3://BUCKET/PREFIX"),
        ('[checkpoints]\nmax_size = "much"', "checkpoints.max_size: 'much'"),
        ("[checkpoints]\ndays = -1", "checkpoints.days"),
        ('[bundles]\nmax_size = "0"', "expected a size such as 512m"),
        ("[checkpoint]\nkeep = 1", "did you mean checkpoints"),
    ],
)
def test_settings_of_saved_work_that_cannot_be_are_refused(text, words):
    with pytest.raises(Rejected, match=re.escape(words)):
        config.parse(text, "rota.toml", {})
