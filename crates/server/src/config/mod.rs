//! Configuration: layers of TOML with the source of each value, read once into [`Settings`].
//!
//! Order: the embedded `config.default.toml`, the operator's file, `STEAD__SECTION__KEY` variables, flags. The default
//! file decides which options exist and of what type they are. Everything that is wrong is reported at once, each with its
//! key and where the value came from.

mod directory;
mod layers;
mod level;
mod network;
mod quantity;
mod reader;
mod settings;

pub use directory::default_data_directory;
pub use layers::{ConfigErrors, Flag, Layers};
pub use network::SessionPorts;
pub use quantity::{parse_duration, parse_size};
pub use settings::{
    BuildSettings, DatabaseSettings, LimitSettings, LogFormat, LogSettings, NativeSettings, ServerSettings,
    SessionSettings, Settings,
};

/// The reference: every option, documented, with its default.
pub const DEFAULT: &str = include_str!("config.default.toml");
