//! Finds the program as a shell would, and tells whether the loader will preload into it.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, getxattr};

use crate::Failure;
use crate::elf::{self, Kind, Target};

/// The kernel follows so many interpreters of interpreters.
const DEPTH: usize = 5;

/// What vshare can do for a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// It is served.
    Full,
    /// It is not, but what it starts may be.
    ChildrenOnly(PathBuf, Reason),
    /// It is not, and the preload would disturb it.
    None(PathBuf, Reason),
}

/// Why a program cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Static,
    Bits(u8),
    Machine,
    Musl,
    SetId,
    Capabilities,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => write!(f, "is statically linked"),
            Self::Bits(bits) => write!(f, "is a {bits}-bit program"),
            Self::Machine => write!(f, "is for another machine"),
            Self::Musl => write!(f, "is built for musl, and libvshare.so for glibc"),
            Self::SetId => write!(f, "is setuid or setgid"),
            Self::Capabilities => write!(f, "has file capabilities"),
        }
    }
}

/// A program, looked at.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its file.
    pub(crate) path: PathBuf,
    pub(crate) service: Service,
    /// It, or its interpreter, is Python.
    pub(crate) python: bool,
    /// It is neither this machine's nor text for an interpreter or a shell: the kernel may refuse it.
    pub(crate) foreign: bool,
}

/// Finds and inspects the program that a shell would run for `name`.
pub(crate) fn find(name: &OsStr, library: Target) -> Result<Program, Failure> {
    let path = locate(name, std::env::var_os("PATH").as_deref())?;
    let (service, python) = inspect(&path, library, DEPTH);
    let foreign = match elf::kind(&path) {
        Ok(Kind::Elf(elf)) => elf.target != library,
        Ok(Kind::Other) => !is_text(&path),
        _ => false,
    };
    Ok(Program {
        service,
        foreign,
        python: python || is_python(Path::new(name)),
        path,
    })
}

/// The file that `name` means. Fails with 127 or 126 as a shell does.
fn locate(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Failure> {
    let shown = Shown(name);
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match problem(&path) {
            None => Ok(path),
            Some(problem) => Err(problem.failure(&shown)),
        };
    }
    let mut worst = None;
    let path = path.unwrap_or(OsStr::new("/bin:/usr/bin"));
    for directory in std::env::split_paths(path).filter(|_| !name.is_empty()) {
        // An empty entry means the working directory.
        let candidate = Path::new(".").join(directory).join(name);
        match problem(&candidate) {
            None => return Ok(candidate),
            Some(Problem::Missing(_)) => {}
            Some(other) => worst = worst.or(Some(other)),
        }
    }
    Err(worst.map_or_else(
        || Failure::with_code(format!("{shown}: no such program in PATH"), 127),
        |problem| problem.failure(&shown),
    ))
}

/// A program's name for a message; one that is empty would not be seen.
struct Shown<'a>(&'a OsStr);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => write!(f, "\"\""),
            false => write!(f, "{}", self.0.display()),
        }
    }
}

#[derive(Debug)]
enum Problem {
    Missing(std::io::Error),
    Directory,
    NotExecutable,
}

impl Problem {
    fn failure(&self, name: &dyn fmt::Display) -> Failure {
        match self {
            Self::Missing(error) => Failure::with_code(format!("{name}: {error}"), 127),
            Self::Directory => Failure::with_code(format!("{name}: is a directory"), 126),
            Self::NotExecutable => Failure::with_code(
                format!(
                    "{name}: may not be executed; `chmod +x` it, or name its interpreter first"
                ),
                126,
            ),
        }
    }
}

fn problem(path: &Path) -> Option<Problem> {
    match path.metadata() {
        Err(error) => Some(Problem::Missing(error)),
        Ok(found) if found.is_dir() => Some(Problem::Directory),
        Ok(found) if !found.is_file() => Some(Problem::NotExecutable),
        Ok(_) => access(path, Access::EXEC_OK)
            .is_err()
            .then_some(Problem::NotExecutable),
    }
}

/// What can be done for the program at `path`, and whether an interpreter on the way is Python.
fn inspect(path: &Path, library: Target, depth: usize) -> (Service, bool) {
    let python = is_python(path);
    // What may be run and not read, or is no executable we know, is left to the kernel to judge.
    let (Some(depth), Ok(kind)) = (depth.checked_sub(1), elf::kind(path)) else {
        return (Service::Full, python);
    };
    match kind {
        Kind::Other => (Service::Full, python),
        Kind::Script(line) => match interpreter(&line) {
            Some(next) => {
                let (service, deeper) = inspect(&next, library, depth);
                (service, python || deeper || is_python(&next))
            }
            None => (Service::Full, python),
        },
        Kind::Elf(elf) => (judge(path, &elf, library), python),
    }
}

fn judge(path: &Path, elf: &elf::Elf, library: Target) -> Service {
    let none = |reason| Service::None(path.to_owned(), reason);
    if elf.target.bits != library.bits {
        return none(Reason::Bits(elf.target.bits));
    }
    if elf.target != library {
        return none(Reason::Machine);
    }
    if changes_identity(path) {
        return none(Reason::SetId);
    }
    if has_capabilities(path) {
        return none(Reason::Capabilities);
    }
    match &elf.loader {
        // The loader itself, started with a program as its argument, preloads as ever.
        None if is_loader(path) => Service::Full,
        None => Service::ChildrenOnly(path.to_owned(), Reason::Static),
        Some(loader) if loader.contains("ld-musl") => none(Reason::Musl),
        Some(_) => Service::Full,
    }
}

/// Whether the kernel would run it as another user or group than ours, in which case the loader
/// does not look at `LD_PRELOAD`.
fn changes_identity(path: &Path) -> bool {
    const SETUID: u32 = 0o4000;
    const SETGID_AND_EXECUTABLE: u32 = 0o2010;
    path.metadata().is_ok_and(|found| {
        let user = found.mode() & SETUID != 0 && found.uid() != nix::unistd::getuid().as_raw();
        let group = found.mode() & SETGID_AND_EXECUTABLE == SETGID_AND_EXECUTABLE
            && found.gid() != nix::unistd::getgid().as_raw();
        user || group
    })
}

fn has_capabilities(path: &Path) -> bool {
    // Root gains nothing by them, and the loader then looks at LD_PRELOAD as ever.
    let mut value = [0; 64];
    !nix::unistd::getuid().is_root() && getxattr(path, "security.capability", &mut value).is_ok()
}

/// The program that a script's first line names, through `env` if that is how.
fn interpreter(line: &str) -> Option<PathBuf> {
    let mut words = line.split_ascii_whitespace();
    let first = Path::new(words.next()?);
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first.to_owned());
    }
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    locate(OsStr::new(name), std::env::var_os("PATH").as_deref()).ok()
}

/// Whether a file is text, as far as a shell looks. One that may not be read is left to the kernel.
fn is_text(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(512).read_to_end(&mut start));
    read.is_err() || !start.contains(&0)
}

/// Whether a file is called like the C library's loader.
fn is_loader(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        let name = name.as_bytes();
        name.starts_with(b"ld-linux") || name.starts_with(b"ld.so")
    })
}

/// Whether a file is called like a Python.
fn is_python(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_bytes().starts_with(b"python"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_target() -> Target {
        let Kind::Elf(elf) = elf::kind(&std::env::current_exe().unwrap()).unwrap() else {
            panic!("not an ELF file");
        };
        elf.target
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let path = Some(OsStr::new("/nonexistent:/bin:/usr/bin"));
        let found = locate(OsStr::new("sh"), path).unwrap();
        assert_eq!(found, Path::new("/bin/sh"));
        for (name, code) in [
            ("/nonexistent/x", 127),
            ("no-such-program", 127),
            ("", 127),
            ("/tmp", 126),
            ("/etc/passwd", 126),
            ("/dev/null", 126),
        ] {
            assert_eq!(
                locate(OsStr::new(name), path).unwrap_err().code,
                code,
                "{name}"
            );
        }
    }

    #[test]
    fn an_interpreter_is_found_through_env_and_its_options() {
        assert_eq!(interpreter("/bin/sh -e"), Some(PathBuf::from("/bin/sh")));
        for line in [
            "/usr/bin/env sh",
            "/usr/bin/env -S A=1 sh -e",
            "/bin/env -i sh",
        ] {
            let found = interpreter(line).unwrap();
            assert_eq!(found.file_name(), Some(OsStr::new("sh")), "{line}");
        }
        assert_eq!(interpreter(""), None);
        assert_eq!(interpreter("/usr/bin/env no-such-program"), None);
    }

    #[test]
    fn python_is_known_by_its_name() {
        for (name, python) in [
            ("python", true),
            ("/usr/bin/python3.12", true),
            ("/opt/ipython/bin/ls", false),
            ("sh", false),
        ] {
            assert_eq!(is_python(Path::new(name)), python, "{name}");
        }
    }

    #[test]
    fn a_dynamic_program_of_this_machine_is_served_and_of_another_is_not() {
        let (own, target) = (std::env::current_exe().unwrap(), own_target());
        assert_eq!(inspect(&own, target, DEPTH).0, Service::Full);
        let narrow = Target { bits: 32, ..target };
        assert_eq!(
            inspect(&own, narrow, DEPTH).0,
            Service::None(own.clone(), Reason::Bits(64))
        );
        let other = Target {
            machine: target.machine + 1,
            ..target
        };
        assert_eq!(
            inspect(&own, other, DEPTH).0,
            Service::None(own, Reason::Machine)
        );
    }

    #[test]
    fn a_script_that_interprets_itself_is_left_to_the_kernel() {
        let path = std::env::temp_dir().join(format!("vshare-loop-{}", std::process::id()));
        std::fs::write(&path, format!("#!{}\n", path.display())).unwrap();
        assert_eq!(inspect(&path, own_target(), DEPTH).0, Service::Full);
        std::fs::remove_file(path).unwrap();
    }
}
