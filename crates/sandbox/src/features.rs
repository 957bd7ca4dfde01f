//! What this host can enforce, for `stead doctor`.
