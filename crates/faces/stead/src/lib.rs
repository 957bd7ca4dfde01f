//! stead-face-stead
