-- Several workspaces: each has a name of its own, and who could do everything while there was one may go on doing so.

-- Two servers that started at once on one empty database could each make a first workspace.
UPDATE workspaces SET name = name || ' ' || id
WHERE EXISTS (SELECT 1 FROM workspaces AS older WHERE older.name = workspaces.name AND older.id < workspaces.id);
CREATE UNIQUE INDEX workspaces_name ON workspaces (name);

UPDATE api_keys SET verbs = replace(verbs, '"admin"', '"admin","operator"')
WHERE revoked_at IS NULL
  AND verbs LIKE '%"admin"%'
  AND workspace_id = (SELECT id FROM workspaces ORDER BY id LIMIT 1);
