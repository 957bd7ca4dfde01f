//! From arguments to an exit status.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
use crate::client::Failure;
use crate::commands::{Context, audit, doctor, keeping, key, package, project, run, session, workspace};
use crate::console::{colour, print};
use crate::{config, serve};

/// Runs the command that the arguments name. Must be called while the process has one thread.
pub fn main() -> ExitCode {
    if doctor::trial::started_as_trial() {
        return doctor::trial::trial_main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_usage(&in_plain_words(error, &std::env::args_os().skip(1).collect::<Vec<_>>())),
    };
    let (json, running) = (cli.connection.json, matches!(cli.command, Command::Run(_)));
    // One provider of cryptography for the whole program. It was installed before only if somebody did the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match dispatch(cli) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            let failure = if running { failure.of_run(None) } else { failure };
            report(&failure, json);
            ExitCode::from(failure.status())
        }
    }
}

fn dispatch(cli: Cli) -> Result<u8, Failure> {
    match cli.command {
        Command::Serve(arguments) => serve::serve(&arguments).map(|()| 0),
        Command::Config => print(config::DEFAULT).map(|()| 0),
        Command::Doctor(arguments) => doctor::doctor(&arguments, cli.connection.json),
        command => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| Failure::io("start the client", &error))?;
            let status = runtime.block_on(async {
                let context = Context::new(cli.connection)?;
                Box::pin(client_command(&context, command)).await
            });
            // A blocked read of a local file must not keep the program.
            runtime.shutdown_background();
            status
        }
    }
}

async fn client_command(context: &Context, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Key(command) => key::key(context, command).await.map(|()| 0),
        Command::Workspace(command) => workspace::workspace(context, command).await.map(|()| 0),
        Command::Package(command) => package::package(context, command).await.map(|()| 0),
        Command::Runtimes => package::runtimes(context).await.map(|()| 0),
        Command::Project(command) => project::project(context, command).await.map(|()| 0),
        Command::Run(arguments) => run::run(context, arguments).await,
        Command::Usage => keeping::usage(context).await.map(|()| 0),
        Command::Collect => keeping::collect(context).await.map(|()| 0),
        Command::Audit(arguments) => audit::audit(context, arguments).await.map(|()| 0),
        Command::Session(command) => session::session(context, command).await.map(|()| 0),
        Command::Serve(_) | Command::Config | Command::Doctor(_) => Err(Failure::usage("this is not a client command")),
    }
}

/// The options that name packages, in which some write what a package manager's command line takes.
const SPECS: [&str; 3] = ["--pip", "--npm", "--apt"];

/// The same error with the command's own usage line, and with a tip that helps. The line that comes with it shows every option that is given, those
/// among them that came from the environment, as if it had to be.
fn in_plain_words(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    if error.get(ContextKind::Usage).is_none() {
        return error;
    }
    let mut root = Cli::command();
    root.build();
    let mut command = &root;
    for word in words.iter().take_while(|word| *word != "--") {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let usage = command.clone().render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    if let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg)
        && words.windows(2).any(|pair| SPECS.iter().any(|option| pair[0] == *option) && pair[1] == **wrong)
    {
        let tip = "an option is no package; a file such as requirements.txt counts by being in the project";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let unexpected = error.kind() == clap::error::ErrorKind::UnknownArgument;
    if unexpected && command.get_name() == "run" && !words.iter().any(|word| word == "--") {
        let tip = "the command goes behind `--`: stead run PROJECT -- COMMAND…";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Arguments that cannot be read, which may be a call for help. Whether `--json` was among them can only be guessed from the
/// words themselves.
fn refuse_usage(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    if json && error.use_stderr() {
        let text = error.render().to_string();
        report(&Failure::usage(text.trim().trim_start_matches("error: ")), true);
    } else {
        // When the stream is gone there is nobody to tell.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn report(failure: &Failure, json: bool) {
    if failure.is_silent() {
        return;
    }
    if json {
        // When standard error is gone there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "{}", failure.json());
        return;
    }
    let text = failure.to_string();
    let text = match text.strip_prefix("error:") {
        Some(rest) if colour() => format!("\u{1b}[1;31merror:\u{1b}[0m{rest}"),
        _ => text,
    };
    // When standard error is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}
