//! `vshare run`: prepares the environment, then becomes the program, or stays to report on it.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::builder::PossibleValuesParser;
use vshare_core::units::parse_size;

use crate::program::{Program, Service};
use crate::{Failure, library, program, say, summary, supervise};

/// PyTorch's own cache hides its frees from us; this makes it ask for every tensor.
const PYTORCH: (&str, &str) = ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync");
/// Any of these means that the user has chosen.
const PYTORCH_CHOSEN: [&str; 3] = [
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
];

#[derive(Debug, clap::Args)]
#[command(override_usage = "vshare run [OPTIONS] [--] PROGRAM [ARGS]...")]
pub(crate) struct Options {
    /// GPU memory to keep resident: bytes, or with k M G T (1000) or Ki Mi Gi Ti (1024), or N%
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    budget: Option<String>,
    /// Most memory the program may allocate, written likewise
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    limit: Option<String>,
    /// How to choose what stays on the GPU
    #[arg(long, value_parser = PossibleValuesParser::new(["lru", "demand"]))]
    policy: Option<String>,
    /// The libvshare.so to preload [default: $VSHARE_LIBRARY, or the one beside this executable]
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// When the program has ended, say on stderr what it held and what was moved
    #[arg(long)]
    stats: bool,
    /// With --stats: as JSON, one line
    #[arg(long, requires = "stats")]
    json: bool,
    /// The program and its arguments; from here on, nothing is ours
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Options {
    /// The program, as typed. clap has seen that there is one.
    fn program(&self) -> &OsStr {
        self.command
            .first()
            .map_or(OsStr::new(""), OsString::as_os_str)
    }
}

/// Checks a size and keeps it as written, for the library to read.
fn size(text: &str) -> Result<String, String> {
    parse_size(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let library = library::find(options.library.as_deref())?;
    let program = program::find(options.program(), library.target)?;
    let mut environment = Vec::new();
    if preloads(&program) {
        let existing = std::env::var_os("LD_PRELOAD");
        match library::preload(&library.path, existing.as_deref()) {
            Some(value) => environment.push((OsString::from("LD_PRELOAD"), value)),
            None => say(format_args!(
                "{} has a blank, a colon or a $ in its path, which LD_PRELOAD cannot hold: running {} without vshare; \
                 make a link to it elsewhere and name that with --library",
                library.path.display(),
                options.program().display()
            )),
        }
    }
    if !environment.is_empty() {
        environment.extend(settings(options));
        if program.python
            && PYTORCH_CHOSEN
                .iter()
                .all(|name| std::env::var_os(name).is_none())
        {
            let (name, value) = PYTORCH;
            say(format_args!(
                "setting {name}={value}, with which vshare sees each tensor; set it yourself to choose otherwise"
            ));
            environment.push((name.into(), value.into()));
        }
    }
    // The way to become a program hands to a shell whatever the kernel does not take, text or not.
    if options.stats || program.foreign {
        supervise(options, &program, environment)
    } else {
        become_program(options, &program, environment)
    }
}

/// Whether to preload into the program; says so if it cannot be served.
fn preloads(program: &Program) -> bool {
    match &program.service {
        Service::Full => true,
        Service::ChildrenOnly(path, reason) => {
            say(format_args!(
                "{} {reason} and cannot be served; programs that it starts are",
                path.display()
            ));
            true
        }
        Service::None(path, reason) => {
            say(format_args!(
                "{} {reason} and cannot be served: running it without vshare",
                path.display()
            ));
            false
        }
    }
}

/// The library's settings that were given as options.
fn settings(options: &Options) -> Vec<(OsString, OsString)> {
    [
        ("VSHARE_BUDGET", &options.budget),
        ("VSHARE_LIMIT", &options.limit),
        ("VSHARE_POLICY", &options.policy),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.into(), value.as_ref()?.into())))
    .collect()
}

fn become_program(
    options: &Options,
    program: &Program,
    environment: Vec<(OsString, OsString)>,
) -> Result<ExitCode, Failure> {
    let error = Command::new(&program.path)
        .arg0(options.program())
        .args(options.command.iter().skip(1))
        .envs(environment)
        .exec();
    Err(not_started(options.program(), &error))
}

fn supervise(
    options: &Options,
    program: &Program,
    mut environment: Vec<(OsString, OsString)>,
) -> Result<ExitCode, Failure> {
    let run = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_nanos()).ok())
        .unwrap_or(1);
    environment.push(("VSHARE_RUN".into(), run.to_string().into()));
    let ended = supervise::run(program, &options.command, environment)
        .map_err(|error| not_started(options.program(), &error.into()))?;
    if options.stats {
        summary::after_run(run, ended.identity, options.json);
    }
    Ok(ExitCode::from(ended.code))
}

fn not_started(program: &OsStr, error: &std::io::Error) -> Failure {
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    let why = if missing {
        " (its interpreter or loader is missing)"
    } else {
        ""
    };
    Failure::with_code(
        format!("{}: cannot be run: {error}{why}", program.display()),
        if missing { 127 } else { 126 },
    )
}
