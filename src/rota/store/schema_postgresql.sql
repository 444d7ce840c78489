CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    PRIMARY KEY (version_num)
);

CREATE TABLE answers (
    key TEXT NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE INDEX answers_at ON answers (at_s);

CREATE TABLE arrays (
    id BIGINT NOT NULL,
    uid TEXT NOT NULL,
    user_id TEXT NOT NULL,
    last_id BIGINT NOT NULL,
    waiting INTEGER NOT NULL,
    cut_at DOUBLE PRECISION,
    created_at DOUBLE PRECISION NOT NULL,
    submit_key TEXT,
    body BYTEA NOT NULL,
    sweep BYTEA,
    PRIMARY KEY (id)
);

CREATE UNIQUE INDEX arrays_uid ON arrays (uid);

CREATE TABLE audit (
    seq BIGSERIAL NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    user_id TEXT NOT NULL,
    via TEXT NOT NULL,
    address TEXT NOT NULL,
    action TEXT NOT NULL,
    object TEXT NOT NULL,
    refused TEXT NOT NULL,
    PRIMARY KEY (seq)
);

CREATE INDEX audit_object ON audit (object);

CREATE TABLE blobs (
    digest TEXT NOT NULL,
    body BYTEA NOT NULL,
    used_s DOUBLE PRECISION,
    PRIMARY KEY (digest)
);

CREATE INDEX blobs_used ON blobs (used_s) WHERE used_s IS NOT NULL;

CREATE TABLE events (
    seq BIGINT NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    actor TEXT NOT NULL,
    kind TEXT NOT NULL,
    job_id BIGINT,
    body BYTEA NOT NULL
)
 PARTITION BY RANGE (at_s);

CREATE INDEX events_job ON events (job_id, seq) WHERE job_id IS NOT NULL;

CREATE INDEX events_kind ON events (kind, seq) WHERE job_id IS NULL;

CREATE TABLE groups (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE jobs (
    id BIGINT NOT NULL,
    uid TEXT NOT NULL,
    user_id TEXT NOT NULL,
    job_name TEXT NOT NULL,
    project TEXT,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    gpu_count BIGINT NOT NULL,
    gpu_type TEXT NOT NULL,
    cpu_cores DOUBLE PRECISION NOT NULL,
    memory_gb DOUBLE PRECISION NOT NULL,
    command TEXT NOT NULL,
    working_dir TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    scheduled_at DOUBLE PRECISION,
    started_at DOUBLE PRECISION,
    completed_at DOUBLE PRECISION,
    array_id BIGINT,
    submit_key TEXT,
    body BYTEA NOT NULL,
    PRIMARY KEY (id)
);

ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX jobs_array ON jobs (array_id, id) WHERE array_id IS NOT NULL;

CREATE INDEX jobs_created ON jobs (created_at);

CREATE INDEX jobs_project ON jobs (project, state, id) WHERE project IS NOT NULL;

CREATE INDEX jobs_state ON jobs (state, id);

CREATE UNIQUE INDEX jobs_uid ON jobs (uid);

CREATE INDEX jobs_user ON jobs (user_id, state, id);

CREATE TABLE mentions (
    block BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (block, seq)
);

CREATE TABLE meta (
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE nodes (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE outers (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE pilots (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE projects (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE queues (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE reservations (
    key BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE secrets (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE settings (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE tokens (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE usage (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE users (
    key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key)
);
