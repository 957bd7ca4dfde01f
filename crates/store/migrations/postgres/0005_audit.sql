-- Who did what. Entries sort by their ids as they were made.

CREATE TABLE audit_entries (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    request_id TEXT NOT NULL,
    action TEXT NOT NULL,
    targets TEXT NOT NULL
);
CREATE INDEX audit_entries_workspace ON audit_entries (workspace_id, id);

-- A removed session takes its environment along, and what was done about that.
CREATE INDEX operations_environment ON operations (environment_id);
