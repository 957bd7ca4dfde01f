//! Where the client's key comes from.

use std::path::Path;

use super::Failure;
use crate::config::default_data_directory;

/// The key in the file given, or the key given, or the first admin key of a server with the default data directory. None when
/// there is none: the server then says that one is needed.
pub(crate) fn find_key(given: Option<String>, file: Option<&Path>) -> Result<Option<String>, Failure> {
    // A file is named on the command line only, so it comes before what the environment holds.
    if let Some(path) = file {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::io(format_args!("read the key file {}", path.display()), &error))?;
        let refused = || Failure::new(format!("{} holds no key", path.display()));
        return checked(&text).map(Some).ok_or_else(refused);
    }
    if let Some(key) = given {
        return checked(&key).map(Some).ok_or_else(|| Failure::usage("the key holds characters that no key has"));
    }
    let default = default_data_directory().join("admin.key");
    Ok(std::fs::read_to_string(default).ok().and_then(|text| checked(&text)))
}

fn checked(text: &str) -> Option<String> {
    let key = text.trim();
    (!key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic())).then(|| key.to_owned())
}
