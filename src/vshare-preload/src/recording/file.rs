//! The file that a recording goes to. It is the user's: nothing is overwritten that is not a trace.

use crate::os;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use vshare_core::trace::{Encoder, MAGIC};

/// A trace that is being written. What is in the file always ends in the middle of a record, until [`Output::end`].
#[derive(Debug)]
pub(super) struct Output {
    file: File,
    /// By which the file is known again: the program may close descriptors that it did not open.
    identity: (u64, u64),
    /// Bytes in it that end in the middle of a record.
    good: u64,
    bytes: Vec<u8>,
}

/// Why there is no trace, or no more of it.
pub(super) type Trouble = String;

impl Output {
    /// Opens the file, if it is new, empty or a trace that nobody is writing.
    pub(super) fn open(path: &str) -> Result<Self, Trouble> {
        let mut file = os::open_private(path).map_err(|error| match error.raw_os_error() {
            Some(os::ELOOP) => "it is a symbolic link".to_owned(),
            // No reader, or a socket.
            Some(os::ENXIO) => "it is neither a file nor a device".to_owned(),
            _ => error.to_string(),
        })?;
        let metadata = file.metadata().map_err(|e| e.to_string())?;
        let kind = metadata.file_type();
        if kind.is_file() {
            if !os::lock(&file) {
                return Err(
                    "another process is recording to it; with %p in its name each has its own"
                        .to_owned(),
                );
            }
            if metadata.len() > 0 && !is_trace(&mut file) {
                return Err("there is something in it that is no trace; remove it first".to_owned());
            }
            file.set_len(0).map_err(|e| e.to_string())?;
            io::Seek::rewind(&mut file).map_err(|e| e.to_string())?;
        } else if !kind.is_char_device() {
            return Err("it is neither a file nor a device".to_owned());
        }
        Ok(Self {
            file,
            identity: (metadata.dev(), metadata.ino()),
            good: 0,
            bytes: Vec::new(),
        })
    }

    /// Where to put records that are to be written with the next [`Self::flush`].
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        if self.bytes.is_empty() && self.good > 0 {
            Encoder::close(&mut self.bytes);
        }
        &mut self.bytes
    }

    /// Writes what there is. After a failure nothing more may be written.
    pub(super) fn flush(&mut self) -> Result<(), Trouble> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Encoder::open(&mut self.bytes);
        self.write()
    }

    /// Ends the trace: from now on it is whole.
    pub(super) fn end(&mut self) -> Result<(), Trouble> {
        self.bytes();
        self.write()
    }

    fn write(&mut self) -> Result<(), Trouble> {
        let same = self
            .file
            .metadata()
            .map(|m| (m.dev(), m.ino()) == self.identity);
        if !same.unwrap_or(false) {
            return Err("the program has closed its descriptor".to_owned());
        }
        let written = self.file.write_all(&self.bytes);
        if let Err(error) = written {
            // What has been written of it may end with a whole record.
            _ = self.file.set_len(self.good);
            return Err(error.to_string());
        }
        self.good += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }

    /// Leaves it as it is. The descriptor's number may be another file's by now.
    pub(super) fn leave(self) {
        let same = self
            .file
            .metadata()
            .map(|m| (m.dev(), m.ino()) == self.identity);
        if !same.unwrap_or(false) {
            _ = self.file.into_raw_fd();
        }
    }
}

fn is_trace(file: &mut File) -> bool {
    let mut magic = [0; 8];
    file.read_exact(&mut magic).is_ok() && magic == MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;
    use vshare_core::trace::{Fault, Head, Record, Trace, What};
    use vshare_core::units::PAGE;

    /// After each flush, however little it has written.
    #[test]
    fn a_file_is_whole_only_after_its_end() {
        let path = std::env::temp_dir().join(format!("vshare-recording-{}", std::process::id()));
        let name = path.to_str().unwrap();
        let read = || Trace::read(&std::fs::read(name).unwrap());
        let mut output = Output::open(name).unwrap();
        let mut encoder = Encoder::start(output.bytes());
        let head = Record::Head(Head {
            page: PAGE,
            ..Head::default()
        });
        encoder.record(&head, output.bytes());
        output.flush().unwrap();
        assert_eq!(read().unwrap_err().fault, Fault::NoWork);
        for works in 1..4 {
            let work = Record::Work {
                what: What::Fill,
                function: 0,
                signature: 1,
                stream: 1,
                when_ns: works,
                device_ns: 0,
                pieces: (&[]).into(),
            };
            encoder.record(&work, output.bytes());
            output.flush().unwrap();
            // Nothing new.
            output.flush().unwrap();
            let trace = read().unwrap();
            assert_eq!(trace.works().len() as u64, works);
            assert!(trace.truncated().is_some());
        }
        output.end().unwrap();
        let trace = read().unwrap();
        std::fs::remove_file(name).unwrap();
        assert_eq!((trace.works().len(), trace.truncated()), (3, None));
    }
}
