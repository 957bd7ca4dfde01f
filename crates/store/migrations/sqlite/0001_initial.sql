-- Ids, names of states and JSON are TEXT, numbers BIGINT, instants BIGINT in microseconds since the epoch.
-- There are no foreign keys: the rows of one commit come in any order, and what a removal takes along it names itself.

CREATE TABLE workspaces (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    verbs TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    row_version BIGINT NOT NULL
);
CREATE UNIQUE INDEX api_keys_digest ON api_keys (digest);
CREATE INDEX api_keys_workspace ON api_keys (workspace_id, id);

CREATE TABLE projects (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    name TEXT NOT NULL,
    slug TEXT NOT NULL,
    description TEXT NOT NULL,
    entry TEXT NOT NULL,
    active BIGINT,
    latest BIGINT NOT NULL,
    source_files BIGINT NOT NULL,
    source_bytes BIGINT NOT NULL,
    source_revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    row_version BIGINT NOT NULL
);
CREATE UNIQUE INDEX projects_slug ON projects (workspace_id, slug) WHERE deleted_at IS NULL;
CREATE INDEX projects_workspace ON projects (workspace_id, id) WHERE deleted_at IS NULL;

CREATE TABLE source_entries (
    project_id TEXT NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    executable BIGINT,
    size BIGINT,
    blob TEXT,
    modified_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, path)
) WITHOUT ROWID;

CREATE TABLE builds (
    project_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    workspace_id TEXT NOT NULL,
    state TEXT NOT NULL,
    stage TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    fresh BIGINT NOT NULL,
    node TEXT NOT NULL,
    lease_holder TEXT,
    lease_until BIGINT,
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    failure TEXT,
    version TEXT,
    row_version BIGINT NOT NULL,
    PRIMARY KEY (project_id, number)
);
CREATE INDEX builds_unended ON builds (node) WHERE state IN ('waiting', 'running');

CREATE TABLE layers (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    layer_key TEXT NOT NULL,
    node TEXT NOT NULL,
    step TEXT NOT NULL,
    packages TEXT NOT NULL,
    size_files BIGINT NOT NULL,
    size_bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX layers_key ON layers (workspace_id, node, layer_key);

CREATE TABLE agents (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    name TEXT NOT NULL,
    harness TEXT NOT NULL,
    instructions TEXT NOT NULL,
    default_model TEXT,
    project_id TEXT,
    disabled_tools TEXT NOT NULL,
    max_step BIGINT,
    time_limit_us BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    row_version BIGINT NOT NULL
);
CREATE INDEX agents_workspace ON agents (workspace_id, id) WHERE deleted_at IS NULL;
CREATE INDEX agents_project ON agents (project_id, id) WHERE deleted_at IS NULL;

CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    face TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    harness TEXT NOT NULL,
    title TEXT NOT NULL,
    project_id TEXT,
    active_turn TEXT,
    latest_turn TEXT,
    latest_state TEXT NOT NULL,
    turns BIGINT NOT NULL,
    next_sequence BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    row_version BIGINT NOT NULL
);
CREATE INDEX sessions_workspace ON sessions (workspace_id, id) WHERE deleted_at IS NULL;
CREATE INDEX sessions_agent ON sessions (agent_id, id) WHERE deleted_at IS NULL;
CREATE INDEX sessions_deleted ON sessions (id) WHERE deleted_at IS NOT NULL;

CREATE TABLE turns (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    previous TEXT,
    agent_id TEXT NOT NULL,
    harness TEXT NOT NULL,
    state TEXT NOT NULL,
    input TEXT NOT NULL,
    reads_project_id TEXT,
    reads_version BIGINT,
    time_limit_us BIGINT,
    ignored_fields TEXT NOT NULL,
    requested_model TEXT,
    store BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    lease_holder TEXT,
    lease_until BIGINT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    deleted_at BIGINT,
    row_version BIGINT NOT NULL
);
CREATE UNIQUE INDEX turns_session ON turns (session_id, number);
CREATE INDEX turns_unended ON turns (id) WHERE state IN ('queued', 'in_progress', 'cancelling');

CREATE TABLE events (
    session_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    turn_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    is_delta BIGINT NOT NULL,
    kind TEXT NOT NULL,
    PRIMARY KEY (session_id, sequence)
) WITHOUT ROWID;
CREATE INDEX events_deltas ON events (turn_id) WHERE is_delta = 1;

CREATE TABLE environments (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    node TEXT NOT NULL,
    state TEXT NOT NULL,
    operation_id TEXT,
    network TEXT NOT NULL,
    handle TEXT,
    running_with TEXT,
    failure TEXT,
    idle_since BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    row_version BIGINT NOT NULL
);
CREATE INDEX environments_node ON environments (node, id) WHERE state <> 'deleted';

CREATE TABLE attachments (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    name TEXT NOT NULL,
    pins TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    row_version BIGINT NOT NULL
);
CREATE UNIQUE INDEX attachments_session ON attachments (session_id, name);

CREATE TABLE operations (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    node TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    spec TEXT,
    generation BIGINT NOT NULL,
    lease_holder TEXT,
    lease_until BIGINT,
    attempts BIGINT NOT NULL,
    next_attempt_at BIGINT NOT NULL,
    error TEXT,
    created_at BIGINT NOT NULL,
    finished_at BIGINT,
    row_version BIGINT NOT NULL
);
CREATE INDEX operations_unended ON operations (node, id) WHERE state IN ('recorded', 'dispatched', 'uncertain');

CREATE TABLE uploads (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    filename TEXT NOT NULL,
    purpose TEXT NOT NULL,
    media_type TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    blob TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE artifacts (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    blob TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX artifacts_session ON artifacts (session_id, created_at, id);

CREATE TABLE idempotency_records (
    workspace_id TEXT NOT NULL,
    face TEXT NOT NULL,
    route TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, face, route, idempotency_key)
);
CREATE INDEX idempotency_records_turn ON idempotency_records (turn_id);
