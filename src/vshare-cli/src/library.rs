//! Finds `libvshare.so` and puts it into `LD_PRELOAD`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::elf::{self, Kind, Target};

const NAME: &str = "libvshare.so";

/// The library, and the machine it is for.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) path: PathBuf,
    pub(crate) target: Target,
}

/// The library named by `option`, else by `VSHARE_LIBRARY`, else near this executable.
pub(crate) fn find(option: Option<&Path>) -> Result<Library, Failure> {
    if let Some(path) = option {
        return check(path, "--library");
    }
    if let Some(path) = std::env::var_os("VSHARE_LIBRARY").filter(|value| !value.is_empty()) {
        return check(Path::new(&path), "VSHARE_LIBRARY");
    }
    let beside = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot tell where this executable is: {error}")))?;
    let beside = beside.parent().unwrap_or(Path::new("/"));
    let places = places(beside);
    match places.iter().find(|place| place.exists()) {
        Some(place) => check(place, "beside this executable"),
        None => Err(Failure::new(format!(
            "{NAME} is not in {}; name it with --library or VSHARE_LIBRARY, or build it with `cargo build --release`",
            places
                .iter()
                .filter_map(|place| place.parent())
                .map(|place| place.display().to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ))),
    }
}

fn places(beside: &Path) -> Vec<PathBuf> {
    let mut places = vec![beside.join(NAME)];
    if let Some(above) = beside.parent() {
        places.push(above.join("lib").join(NAME));
        places.push(above.join("lib/vshare").join(NAME));
    }
    places
}

fn check(path: &Path, source: &str) -> Result<Library, Failure> {
    let fail = |reason: &dyn std::fmt::Display| {
        Err(Failure::new(format!(
            "cannot use {} ({source}): {reason}",
            path.display()
        )))
    };
    let kind = match elf::kind(path) {
        Ok(kind) => kind,
        Err(error) => return fail(&error),
    };
    let Kind::Elf(elf) = kind else {
        return fail(&"not a shared library");
    };
    match std::path::absolute(path) {
        Ok(path) => Ok(Library {
            path,
            target: elf.target,
        }),
        Err(error) => fail(&error),
    }
}

/// `LD_PRELOAD` with `library` in it: first, unless `existing` has it already. `None` if its path
/// cannot be said there, since blanks and colons separate and `$` begins a variable of the loader.
pub(crate) fn preload(library: &Path, existing: Option<&OsStr>) -> Option<OsString> {
    let bytes = library.as_os_str().as_bytes();
    if bytes.iter().any(|b| matches!(b, b' ' | b':' | b'$')) {
        return None;
    }
    let existing = existing.unwrap_or_default();
    let mut listed = existing.as_bytes().split(|b| matches!(b, b' ' | b':'));
    if listed.any(|entry| same(Path::new(OsStr::from_bytes(entry)), library)) {
        return Some(existing.to_owned());
    }
    let mut value = bytes.to_vec();
    if !existing.is_empty() {
        value.push(b':');
        value.extend(existing.as_bytes());
    }
    Some(OsString::from_vec(value))
}

fn same(entry: &Path, library: &Path) -> bool {
    entry == library
        || match (entry.canonicalize(), library.canonicalize()) {
            (Ok(entry), Ok(library)) => entry == library,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(existing: &str) -> Option<String> {
        let value = preload(Path::new("/x/libvshare.so"), Some(existing.as_ref()))?;
        Some(value.into_string().unwrap())
    }

    #[test]
    fn the_library_goes_first_and_what_is_there_stays() {
        assert_eq!(preload(Path::new("/x/l.so"), None).unwrap(), "/x/l.so");
        assert_eq!(with("").unwrap(), "/x/libvshare.so");
        assert_eq!(
            with("a.so:b.so c.so").unwrap(),
            "/x/libvshare.so:a.so:b.so c.so"
        );
    }

    #[test]
    fn it_is_not_added_twice() {
        for existing in [
            "/x/libvshare.so",
            "a.so:/x/libvshare.so",
            "a.so /x/libvshare.so b.so",
        ] {
            assert_eq!(with(existing).unwrap(), existing);
        }
    }

    #[test]
    fn a_path_that_the_list_cannot_hold_is_not_put_there() {
        for path in ["/a b/l.so", "/a:b/l.so", "/$LIB/l.so"] {
            assert_eq!(preload(Path::new(path), None), None);
        }
    }

    #[test]
    fn it_is_looked_for_beside_and_in_lib() {
        assert_eq!(
            places(Path::new("/opt/bin")),
            [
                "/opt/bin/libvshare.so",
                "/opt/lib/libvshare.so",
                "/opt/lib/vshare/libvshare.so"
            ]
            .map(PathBuf::from)
        );
    }
}
