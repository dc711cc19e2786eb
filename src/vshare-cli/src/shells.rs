//! `vshare completions` and `vshare man`: made from the command line itself, so that they never differ from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{Failure, print, write_whole};

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionOptions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManOptions {
    /// Where to put the pages, such as ~/.local/share/man/man1; it is made if it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completions of `command` for a shell.
pub(crate) fn completions(
    options: &CompletionOptions,
    mut command: Command,
) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "vshare", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for `command` and one for each of its subcommands.
pub(crate) fn man(options: &ManOptions, mut command: Command) -> Result<ExitCode, Failure> {
    let directory = &options.directory;
    fs::create_dir_all(directory)
        .map_err(|error| Failure::new(format!("cannot make {}: {error}", directory.display())))?;
    // Options that all share come into the subcommands so.
    command.build();
    page(directory, "vshare", command.clone())?;
    for sub in command.get_subcommands() {
        if sub.get_name() != "help" {
            let name = format!("vshare-{}", sub.get_name());
            page(directory, &name, sub.clone().disable_help_subcommand(true))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn page(directory: &Path, name: &str, command: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    Man::new(command)
        .title(name)
        .source(concat!("vshare ", env!("CARGO_PKG_VERSION")))
        .render(&mut text)
        .map_err(|error| Failure::new(format!("cannot write the page {name}: {error}")))?;
    let path = directory.join(format!("{name}.1"));
    write_whole(&path, &String::from_utf8_lossy(&text))
}
