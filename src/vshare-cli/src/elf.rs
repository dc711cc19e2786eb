//! The little of an executable's header that decides whether the loader will preload a library
//! into it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

const HEADER: usize = 64;
const PT_INTERP: u64 = 3;

/// The kind of machine a file is for. Two that are equal can be in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// 32 or 64.
    pub(crate) bits: u8,
    /// The header's `e_machine`.
    pub(crate) machine: u64,
    pub(crate) big_endian: bool,
}

/// What an ELF file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    pub(crate) target: Target,
    /// The loader that it asks for; `None`: it is static, or a library.
    pub(crate) loader: Option<String>,
}

/// What a file begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An ELF file.
    Elf(Elf),
    /// A script and its first line, without the `#!`.
    Script(String),
    /// Anything else: an empty file, text for a shell, a broken header.
    Other,
}

/// Looks at `path`.
pub(crate) fn kind(path: &Path) -> std::io::Result<Kind> {
    let mut file = File::open(path)?;
    let mut start = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut start)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
        return Ok(Kind::Script(
            String::from_utf8_lossy(line).trim().to_owned(),
        ));
    }
    Ok(parse(&start, &file).map_or(Kind::Other, Kind::Elf))
}

fn parse(start: &[u8], file: &File) -> Option<Elf> {
    let header = start.get(..HEADER.min(start.len()))?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    let bits = match header.get(4)? {
        1 => 32,
        2 => 64,
        _ => return None,
    };
    let big_endian = *header.get(5)? == 2;
    let wide = bits == 64;
    let field =
        |bytes: &[u8], at: usize, size: usize| number(bytes.get(at..at + size)?, big_endian);
    let target = Target {
        bits,
        machine: field(header, 18, 2)?,
        big_endian,
    };
    let (table, entry, count) = if wide {
        (
            field(header, 32, 8)?,
            field(header, 54, 2)?,
            field(header, 56, 2)?,
        )
    } else {
        (
            field(header, 28, 4)?,
            field(header, 42, 2)?,
            field(header, 44, 2)?,
        )
    };
    let mut loader = None;
    for i in 0..count {
        let mut words = [0; 56];
        let words = words.get_mut(..if wide { 56 } else { 32 })?;
        let at = table.checked_add(i.checked_mul(entry)?)?;
        // A file that is cut off here is none that the kernel would run.
        file.read_exact_at(words, at).ok()?;
        if field(words, 0, 4)? == PT_INTERP {
            let (offset, size) = if wide {
                (field(words, 8, 8)?, field(words, 32, 8)?)
            } else {
                (field(words, 4, 4)?, field(words, 16, 4)?)
            };
            let mut name = vec![0; usize::try_from(size.min(4096)).ok()?];
            _ = file.read_exact_at(&mut name, offset); // an unreadable name is an unknown loader
            name.truncate(name.iter().position(|b| *b == 0).unwrap_or(name.len()));
            loader = Some(String::from_utf8_lossy(&name).into_owned());
        }
    }
    Some(Elf { target, loader })
}

fn number(bytes: &[u8], big_endian: bool) -> Option<u64> {
    let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    Some(if big_endian {
        bytes.iter().fold(0, push)
    } else {
        bytes.iter().rev().fold(0, push)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, bytes: &[u8]) -> Kind {
        let path = std::env::temp_dir().join(format!("vshare-elf-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let found = kind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        found
    }

    #[test]
    fn this_very_program_is_dynamic_and_of_this_machine() {
        let Kind::Elf(elf) = kind(&std::env::current_exe().unwrap()).unwrap() else {
            panic!("not an ELF file");
        };
        assert_eq!(elf.target.bits, 64);
        assert!(elf.loader.unwrap().contains("ld-linux"));
    }

    #[test]
    fn a_first_line_is_taken_without_its_blanks() {
        let script = of("script", b"#! /usr/bin/env python3 \nprint()\n");
        assert_eq!(script, Kind::Script("/usr/bin/env python3".to_owned()));
        assert_eq!(of("bare", b"#!"), Kind::Script(String::new()));
    }

    #[test]
    fn a_header_of_a_32_bit_machine_is_known_by_it() {
        let mut bytes = vec![0; 52];
        bytes[..6].copy_from_slice(b"\x7fELF\x01\x01");
        bytes[18] = 3;
        let Kind::Elf(elf) = of("32", &bytes) else {
            panic!("not an ELF file");
        };
        assert_eq!(
            (elf.target.bits, elf.target.machine, elf.loader),
            (32, 3, None)
        );
    }

    #[test]
    fn any_bytes_are_some_kind() {
        let good = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(of("empty", b""), Kind::Other);
        assert_eq!(of("text", b"echo hello\n"), Kind::Other);
        for cut in [1, 4, 5, 17, 20, 40, 57] {
            assert_eq!(of("cut", &good[..cut]), Kind::Other, "{cut}");
        }
        for at in 4..64 {
            let mut bytes = good[..4096].to_vec();
            bytes[at] = 0xff;
            of("bent", &bytes);
            bytes[at..64].fill(0xff);
            of("bent", &bytes);
        }
    }
}
