//! stead-provider-native
