//! How many of what lives there is.

/// Node. Each part reads an index that holds nothing but what it counts.
pub(crate) const COUNT: &str = "\
SELECT 'turn', state, COUNT(*) FROM turns WHERE state IN ('queued', 'in_progress', 'cancelling') AND EXISTS (\
SELECT 1 FROM attachments a JOIN environments e ON e.id = a.environment_id \
WHERE a.session_id = turns.session_id AND e.node = $1) GROUP BY state \
UNION ALL SELECT 'build', state, COUNT(*) FROM builds WHERE node = $1 AND state IN ('waiting', 'running') GROUP BY state \
UNION ALL SELECT 'operation', state, COUNT(*) FROM operations \
WHERE node = $1 AND state IN ('recorded', 'dispatched', 'uncertain') GROUP BY state \
UNION ALL SELECT 'environment', state, COUNT(*) FROM environments \
WHERE node = $1 AND state <> 'deleted' GROUP BY state \
UNION ALL SELECT 'session', 'live', COUNT(*) FROM sessions WHERE deleted_at IS NULL";
