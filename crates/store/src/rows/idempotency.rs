//! Retry identities.

use stead_domain::idempotency::{IdempotencyRecord, IdempotencyScope};

use crate::columns::{Reader, RowError, values};
use crate::driver::Value;

/// The table, as conflicts name it.
pub(crate) const TABLE: &str = "idempotency_records";
/// Workspace, face, route, key, fingerprint, turn, instant. Concerns no row when the scope is taken.
pub(crate) const INSERT: &str = concat!(
    "INSERT INTO idempotency_records",
    " (workspace_id, face, route, idempotency_key, fingerprint, turn_id, created_at)",
    " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING"
);
/// Workspace, face, route, key. The scope itself is what the caller asked with.
pub(crate) const FETCH: &str = concat!(
    "SELECT fingerprint, turn_id, created_at FROM idempotency_records",
    " WHERE workspace_id = $1 AND face = $2 AND route = $3 AND idempotency_key = $4"
);

/// The values of [`FETCH`].
pub(crate) fn scope_values(scope: &IdempotencyScope) -> Result<Vec<Value>, RowError> {
    values![scope.workspace_id, scope.face.to_owned(), scope.route.to_owned(), scope.key]
}

/// The values of [`INSERT`].
pub(crate) fn record_values(record: &IdempotencyRecord) -> Result<Vec<Value>, RowError> {
    let mut values = scope_values(&record.scope)?;
    values.extend(values![record.fingerprint, record.turn_id, record.created_at]?);
    Ok(values)
}

/// A row of [`FETCH`].
pub(crate) fn read(scope: &IdempotencyScope, reader: &mut Reader<'_>) -> Result<IdempotencyRecord, RowError> {
    Ok(IdempotencyRecord {
        scope: scope.clone(),
        fingerprint: reader.take()?,
        turn_id: reader.take()?,
        created_at: reader.take()?,
    })
}
