-- What an owner asks for besides the manifests, and what a build was admitted with.

ALTER TABLE projects ADD COLUMN declared TEXT NOT NULL DEFAULT '{}';
ALTER TABLE builds ADD COLUMN declared TEXT NOT NULL DEFAULT '{}';
