//! Which lines a log has: a level, and others for single modules.

use tracing_subscriber::filter::{LevelFilter, Targets};

/// Why a text is none. A lone word that is no level would be taken for a module, of which everything is shown, and nothing of any
/// other.
pub(super) fn check(text: &str) -> Result<(), String> {
    for directive in text.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        let sound = match directive.split_once('=') {
            Some((module, level)) => {
                let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_:".contains(&byte);
                !module.is_empty() && module.bytes().all(of_name) && level.parse::<LevelFilter>().is_ok()
            }
            None => directive.parse::<LevelFilter>().is_ok(),
        };
        if !sound {
            return Err(format!(
                "`{directive}` is neither a level (off, error, warn, info, debug, trace) nor MODULE=LEVEL, separated by commas"
            ));
        }
    }
    text.parse::<Targets>().map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn what_is_no_level_is_refused() {
        for wrong in ["warning", "loud", "info;debug", "info,loud", "info,stead_engine=loud", "=debug", "a b=debug"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        for right in ["WARN", "off", "info,stead_engine::turns=debug", " info , hyper=trace"] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
    }
}
