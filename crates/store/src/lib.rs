//! stead-store
