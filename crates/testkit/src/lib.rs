//! stead-testkit
