//! The `stead-runtime` program; see the library for what it does.

use std::io::Write;
use std::process::ExitCode;

use stead_runtime::{Config, Mode};

fn main() -> ExitCode {
    let outcome = match Config::from_arguments(std::env::args_os().skip(1)) {
        Ok(Mode::Serve(config)) => stead_runtime::serve(&config).map_err(|error| chain(&error)),
        Ok(Mode::Version) => {
            writeln!(std::io::stdout(), "{}{}", stead_link::MARK, stead_link::GENERATION).map_err(|error| chain(&error))
        }
        Ok(Mode::Supervise) => stead_runtime::supervise().map_err(|error| chain(&error)),
        Err(error) => Err(chain(&error)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // When even this fails there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "stead-runtime: {message}");
            ExitCode::FAILURE
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
