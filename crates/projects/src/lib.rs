//! stead-projects
