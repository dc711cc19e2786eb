//! The library, what else is preloaded, the variables, and a program to serve.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use vshare_core::config::{self, VARIABLES};

use super::{Check, gpu};
use crate::library::{self, Library};
use crate::program::{self, Service};

/// Whether the library is there, and can be preloaded.
pub(super) fn library(option: Option<&Path>) -> Vec<Check> {
    let found = match library::find(option) {
        Ok(found) => found,
        Err(failure) => {
            return vec![Check::fail(
                "library",
                failure.message,
                "nothing can be served without it",
            )];
        }
    };
    let mut checks = Vec::new();
    if library::preload(&found.path, None).is_none() {
        let advice = "make a link to it elsewhere and name that with --library";
        let said = format!(
            "{} has a blank, a colon or a $ in its path, which LD_PRELOAD cannot hold",
            found.path.display()
        );
        return vec![Check::fail("library", said, advice)];
    }
    checks.push(loads(&found));
    checks
}

fn loads(library: &Library) -> Check {
    let path = library.path.display();
    // The dynamic loader shows a path with its links resolved, or as it was named.
    let name = library
        .path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let (found, said) = match gpu::probe(Some(&name), Some(&library.path)) {
        Ok(found) => found,
        Err(why) => {
            let advice = "the file may be cut off: copy or build it again; if it is whole, this is a defect of vshare's";
            return Check::fail(
                "library",
                format!("{path}: a program that it is preloaded into {why}"),
                advice,
            );
        }
    };
    let glibc = gpu::at(&found, "/glibc").as_str();
    if *gpu::at(&found, "/preloaded") != true {
        // Looked for here only: the file may be large.
        let needed = needed_glibc(&std::fs::read(&library.path).unwrap_or_default());
        let advice = match (glibc, needed) {
            (None, _) => "this `vshare` is not built for glibc".to_owned(),
            (Some(ours), Some((major, minor))) if version(ours) < Some((major, minor)) => format!(
                "it needs glibc {major}.{minor} and this system has {ours}: build it here, with `cargo build --release`"
            ),
            _ => "build it for this system, with `cargo build --release`".to_owned(),
        };
        return Check::fail(
            "library",
            format!("{path} cannot be preloaded: {said}"),
            advice,
        );
    }
    let on = glibc.map_or_else(String::new, |ours| format!(", on glibc {ours}"));
    Check::ok("library", format!("{path} can be preloaded{on}"))
}

/// The newest version of glibc that a library names.
fn needed_glibc(bytes: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let starts = bytes
        .windows(MARK.len())
        .enumerate()
        .filter(|(_, window)| *window == MARK);
    starts
        .filter_map(|(at, _)| {
            let rest = bytes.get(at + MARK.len()..)?;
            let end = rest
                .iter()
                .take(12)
                .position(|b| !b.is_ascii_digit() && *b != b'.')?;
            version(std::str::from_utf8(rest.get(..end)?).ok()?)
        })
        .max()
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Other libraries that stand between programs and their driver.
const RIVALS: [(&str, &str); 6] = [
    ("libvgpu", "HAMi"),
    ("libnvshare", "nvshare"),
    ("libcuda-control", "vcuda"),
    ("libxsched", "XSched"),
    ("torch_memory_saver", "torch_memory_saver"),
    ("libgemhook", "Gemini"),
];

/// What else is preloaded.
pub(super) fn preloads() -> Check {
    let variable = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let file = std::fs::read("/etc/ld.so.preload").unwrap_or_default();
    judge_preloads(&variable, &file)
}

fn judge_preloads(variable: &OsStr, file: &[u8]) -> Check {
    let listed = |bytes: &[u8]| -> Vec<String> {
        let entries = bytes.split(|b| matches!(b, b' ' | b':' | b'\n' | b'\t'));
        let named = entries.filter(|entry| !entry.is_empty());
        named
            .map(|entry| String::from_utf8_lossy(entry).into_owned())
            .collect()
    };
    let entries = [listed(variable.as_bytes()), listed(file)].concat();
    let rivals: BTreeSet<_> = RIVALS
        .iter()
        .filter(|(mark, _)| entries.iter().any(|entry| entry.contains(mark)))
        .map(|(_, name)| *name)
        .collect();
    let missing: Vec<_> = entries
        .iter()
        .filter(|entry| entry.contains('/') && !entry.contains('$') && !Path::new(entry).exists())
        .collect();
    let found = match entries.is_empty() {
        true => "nothing else is preloaded".to_owned(),
        false => format!("preloaded already: {}", entries.join(", ")),
    };
    if !rivals.is_empty() {
        let names = rivals.into_iter().collect::<Vec<_>>().join(", ");
        let advice =
            format!("{names} stands between programs and the driver, too: do not use both at once");
        return Check::warn("preload", found, advice);
    }
    if let Some(first) = missing.first() {
        return Check::warn(
            "preload",
            found,
            format!("{first} is not there: take it out of LD_PRELOAD"),
        );
    }
    Check::ok("preload", found)
}

/// Variables of ours that mean nothing.
pub(super) fn variables() -> Vec<Check> {
    let (_, complaints) = config::read(|name| {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    });
    let mut checks: Vec<_> = complaints
        .iter()
        .map(|complaint| {
            Check::warn(
                "variables",
                complaint.to_string(),
                format!("unset or correct {}", complaint.name),
            )
        })
        .collect();
    let set: BTreeSet<_> = std::env::vars_os()
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with("VSHARE_"))
        .collect();
    let known =
        |name: &String| name == "VSHARE_LIBRARY" || VARIABLES.iter().any(|v| v.name == name);
    for name in set.iter().filter(|name| !known(name)) {
        let advice = "is it misspelled? The README has all there are";
        checks.push(Check::warn(
            "variables",
            format!("nothing reads {name}"),
            advice,
        ));
    }
    if let Some("1" | "true" | "yes" | "on") = std::env::var("VSHARE_DISABLE").ok().as_deref() {
        checks.push(Check::warn(
            "variables",
            "VSHARE_DISABLE is set: programs run as without vshare",
            "unset VSHARE_DISABLE",
        ));
    }
    if checks.is_empty() {
        let names = set.into_iter().collect::<Vec<_>>().join(", ");
        let found = if names.is_empty() {
            "none is set".to_owned()
        } else {
            format!("{names} can be read")
        };
        checks.push(Check::ok("variables", found));
    }
    checks
}

/// Whether a program can be served.
pub(super) fn program(name: &OsStr, option: Option<&Path>) -> Check {
    let library = match library::find(option) {
        Ok(library) => library,
        Err(_) => {
            return Check::warn(
                "program",
                format!("{}: not looked at", name.display()),
                "see the library, above",
            );
        }
    };
    let program = match program::find(name, library.target) {
        Ok(program) => program,
        Err(failure) => {
            return Check::fail(
                "program",
                failure.message,
                "name a program as a shell would",
            );
        }
    };
    match &program.service {
        Service::Full if program.foreign => Check::fail(
            "program",
            format!(
                "{} is neither a program of this machine nor a script",
                program.path.display()
            ),
            "name a program that can be run here",
        ),
        Service::Full if program.python => Check::ok(
            "program",
            format!(
                "{} can be served; for PyTorch `vshare run` sets PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync",
                program.path.display()
            ),
        ),
        Service::Full => Check::ok(
            "program",
            format!("{} can be served", program.path.display()),
        ),
        Service::ChildrenOnly(path, reason) => Check::warn(
            "program",
            format!("{} {reason} and cannot be served", path.display()),
            "programs that it starts can be",
        ),
        Service::None(path, reason) => Check::fail(
            "program",
            format!("{} {reason} and cannot be served", path.display()),
            "LD_PRELOAD does not reach it: use a dynamic build of it for this machine",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn other_layers_in_ld_preload_are_named() {
        let judge = |variable: &str, file: &[u8]| judge_preloads(OsStr::new(variable), file);
        assert_eq!(
            judge("", b""),
            Check::ok("preload", "nothing else is preloaded")
        );
        assert_eq!(judge("libjemalloc.so.2", b"").status, Status::Ok);
        let both = judge("/usr/local/vgpu/libvgpu.so", b"/x/libnvshare.so\n");
        assert_eq!(both.status, Status::Warn);
        assert!(both.advice.unwrap().starts_with("HAMi, nvshare stands"));
        let gone = judge("/nonexistent/a.so:$ORIGIN/b.so", b"");
        assert_eq!(gone.status, Status::Warn);
        assert!(
            gone.advice
                .unwrap()
                .contains("/nonexistent/a.so is not there")
        );
    }

    #[test]
    fn the_newest_glibc_that_a_library_names_is_what_it_needs() {
        assert_eq!(
            needed_glibc(b"x\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0"),
            Some((2, 34))
        );
        assert_eq!(needed_glibc(b"GLIBC_"), None);
        assert_eq!(needed_glibc(b""), None);
    }
}
