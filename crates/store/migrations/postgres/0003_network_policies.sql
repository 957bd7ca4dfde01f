-- What an agent's turns, a turn, a project's builds and a build may reach. What was recorded before had the deployment's network,
-- which still bounds every policy when it is carried out.

ALTER TABLE agents ADD COLUMN network TEXT;
ALTER TABLE turns ADD COLUMN network TEXT NOT NULL DEFAULT 'enabled';
ALTER TABLE projects ADD COLUMN build_network TEXT;
ALTER TABLE builds ADD COLUMN network TEXT NOT NULL DEFAULT 'enabled';
