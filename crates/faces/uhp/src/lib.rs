//! stead-face-uhp
