"""The schema exists three times (tables, scripts, migrations): here they are held together."""

import re
import sqlite3

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from rota.core.facts.errors import Rejected
from rota.store import migrations, rows, schema, statements
from rota.store.api import Batch
from rota.store.open import open_store
from tests.store.builders import GPU_ROLE, START_S, job


def test_the_scripts_are_what_the_tables_say():
    for path, text in schema.scripts().items():
        assert path.read_text() == text, "run: python -m rota.store.schema"


def test_the_statements_name_the_columns_of_the_tables():
    assert [column.name for column in schema.jobs.columns] == list(statements.JOB_COLUMNS)
    assert [column.name for column in schema.arrays.columns] == list(statements.ARRAY_COLUMNS)
    assert [column.name for column in schema.events.columns] == list(statements.EVENT_COLUMNS)
    assert set(rows.RECORDS) <= set(schema.metadata.tables)


def test_the_newest_migration_is_the_head():
    folder = migrations.__path__[0]
    numbers = [path.name[:3] for path in schema.Path(folder, "versions").glob("[0-9]*.py")]

    assert max(numbers) == migrations.HEAD


def test_the_first_migration_makes_the_jobs_with_their_indexes(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path}/first.db")
    folder = migrations.__path__[0]
    (first,) = schema.Path(folder, "versions").glob("001_*.py")
    config = Config()
    config.set_main_option("script_location", folder)

    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, first.name[:3])

    made = sa.inspect(engine)
    assert "jobs" in made.get_table_names()
    leading = {name: columns[0] for name, columns in _sqlite_indexes(tmp_path / "first.db").items()}
    assert (leading["jobs_state"], leading["jobs_user"]) == ("state", "user_id")
    assert leading["jobs_created"].lower() == "created_at desc"
    engine.dispose()


def _sqlite_indexes(path):
    """Index -> its columns, as they are written."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'")
    columns = {
        name: [column.strip() for column in text.partition("(")[2].partition(")")[0].split(",")]
        for name, text in found
        if text is not None
    }
    connection.close()
    return columns


def test_migrations_lead_to_the_same_sqlite_schema_as_the_script(tmp_path):
    open_store(str(tmp_path / "fresh.db")).close()
    engine = sa.create_engine(f"sqlite:///{tmp_path}/migrated.db")

    migrations.upgrade(engine)

    assert _sqlite_schema(tmp_path / "migrated.db") == _sqlite_schema(tmp_path / "fresh.db")


def _sqlite_schema(path):
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    shapes = {name: " ".join(re.sub(r"[\s,()]", " ", text).split()) for name, text in found}
    connection.close()
    # Alembic names the constraint of its own table.
    del shapes["alembic_version"]
    return shapes


def test_migrations_lead_to_the_same_postgresql_schema_as_the_script(postgres_server):
    with postgres_server.database() as fresh, postgres_server.database() as migrated:
        open_store(fresh).close()

        migrations.upgrade(sa.create_engine(migrated))

        assert _postgres_schema(migrated) == _postgres_schema(fresh)


def _postgres_schema(url):
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        columns = connection.execute(
            sa.text(
                "SELECT table_name, column_name, data_type, is_nullable"
                " FROM information_schema.columns WHERE table_schema = 'public'"
                " ORDER BY table_name, ordinal_position"
            )
        ).all()
        indexes = connection.execute(
            sa.text("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1")
        ).all()
    engine.dispose()
    return columns, [line for line in indexes if "alembic" not in line[0]]


def test_an_older_database_is_upgraded_when_it_is_opened(sql_place, monkeypatch):
    """The step is pretended: a database of an unknown older number is handed to Alembic."""
    store = sql_place.open()
    store.driver.write([("UPDATE alembic_version SET version_num = '000'", ())])
    seen = []
    monkeypatch.setattr(migrations, "upgrade", lambda engine: seen.append(engine.dialect.name))

    sql_place.reopen()

    assert seen == [store.driver.dialect]


def test_a_database_of_a_newer_schema_is_refused_in_one_line(sql_place):
    store = sql_place.open()
    store.driver.write([("UPDATE alembic_version SET version_num = '999'", ())])

    known = rf"newer Rota \(schema 999, this one knows {migrations.HEAD}\)"
    with pytest.raises(Rejected, match=known) as caught:
        sql_place.reopen()

    assert "\n" not in str(caught.value)


def test_a_migration_that_fails_leaves_the_database_as_it_was(sql_place):
    driver = sql_place.open().driver
    others = [table for table in schema.metadata.tables if table != "tokens"]
    driver.write([(f"DROP TABLE {table}", ()) for table in others])

    # The last table of the first step is in its way.
    with pytest.raises(sa.exc.SQLAlchemyError, match="tokens"):
        migrations.upgrade(driver.engine())

    assert driver.tables() == {"tokens"}


def test_a_database_of_another_program_is_refused(tmp_path):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE jobs (id INTEGER)")
    connection.close()

    with pytest.raises(Rejected, match="belongs to another program"):
        open_store(str(path))


def test_a_database_with_any_table_of_another_program_is_refused(sql_place):
    driver = sql_place.open().driver
    changes = [(f"DROP TABLE {name}", ()) for name in sorted(driver.tables())]
    driver.write([*changes, ("CREATE TABLE auth_user (id INTEGER)", ())])

    with pytest.raises(Rejected, match=r"the tables auth_user; give Rota a database of its own"):
        sql_place.reopen()


def test_opening_a_database_that_is_up_to_date_imports_no_sqlalchemy(tmp_path, run_python):
    open_store(str(tmp_path / "rota.db")).close()

    loaded = run_python(
        "import sys\n"
        "from rota.store.open import open_store\n"
        f"open_store({str(tmp_path / 'rota.db')!r}).load()\n"
        f"open_store({str(tmp_path / 'fresh.db')!r}).load()\n"
        "print([name for name in ('sqlalchemy', 'alembic', 'psycopg') if name in sys.modules])"
    )

    assert loaded.strip() == "[]"


def test_the_columns_say_what_people_ask_about(sqlite_store):
    made = job(
        1,
        roles=(GPU_ROLE,),
        project="vision",
        command=("python", "train it.py"),
        priority=70,
        key="k",
    )
    sqlite_store.commit(Batch(jobs=[made]))

    (row,) = sqlite_store.driver.read(
        "SELECT user_id, job_name, project, queue, state, priority, gpu_count, gpu_type,"
        " cpu_cores, memory_gb, command, working_dir, created_at, scheduled_at, submit_key"
        " FROM jobs"
    )

    assert row == (
        *("ann", "train", "vision", "default", "queued", 70, 8, "H100", 3.0, 4.0),
        *("python 'train it.py'", "/home/ann", START_S, None, "k"),
    )
