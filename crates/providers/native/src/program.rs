//! The runtime program as a descriptor that nobody can change any more.
//!
//! It is copied into sealed memory once and checked there, so what was checked is what is executed, whatever happens to the
//! file afterwards.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{MemfdFlags, Mode, SealFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use stead_domain::ports::ProviderError;
use stead_link::MARK;

use crate::config::RuntimeProgram;
use crate::fault::failed;

/// Reads, checks and seals the program.
pub(crate) fn seal(program: &RuntimeProgram) -> Result<OwnedFd, ProviderError> {
    match program {
        RuntimeProgram::Bytes(bytes) => {
            copy(bytes).map_err(failed("keep the runtime program", Path::new("built into the server")))
        }
        RuntimeProgram::File { path, sha256 } => {
            let bytes = std::fs::read(path).map_err(|error| {
                let message = format!(
                    "the runtime program {} cannot be read: {error}; `runtime.path` names another place",
                    path.display()
                );
                ProviderError::permanent("runtime_missing", message)
            })?;
            if sha256.is_some_and(|expected| Sha256::digest(&bytes)[..] != expected[..]) {
                return Err(ProviderError::permanent("runtime_changed", "the runtime program is not the expected one"));
            }
            if sha256.is_none() && !is_runtime(&bytes) {
                let message = format!("{} is no stead-runtime of this version's kind", path.display());
                return Err(ProviderError::permanent("runtime_unknown", message));
            }
            copy(&bytes).map_err(failed("keep the runtime program", path))
        }
    }
}

/// Whether a program says of itself that it is a runtime. Any generation will do: the newer side adapts.
fn is_runtime(bytes: &[u8]) -> bool {
    let mark = MARK.as_bytes();
    bytes.windows(mark.len()).any(|window| window == mark)
}

fn copy(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = match rustix::fs::memfd_create("stead-runtime", flags | MemfdFlags::EXEC) {
        // Kernels before 6.3 know no such flag and allow execution anyway.
        Err(Errno::INVAL) => rustix::fs::memfd_create("stead-runtime", flags),
        outcome => outcome,
    }?;
    let mut memory = File::from(memory);
    memory.write_all(bytes)?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    // Opened again without the right to write, which nobody shall inherit.
    let readable = File::open(format!("/proc/self/fd/{}", memory.as_raw_fd()))?;
    // A program that its user may execute and not read cannot be looked into from its first instruction on, and not only once it
    // has said so itself.
    rustix::fs::fchmod(&memory, Mode::from_raw_mode(0o111))?;
    Ok(readable.into())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn only_the_expected_program_is_taken_and_it_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, "one").unwrap();
        let program = |sha256| RuntimeProgram::File { path: path.clone(), sha256 };
        assert_eq!(seal(&program(Some([7; 32]))).unwrap_err().code, "runtime_changed");
        let expected: [u8; 32] = Sha256::digest("one").into();
        let sealed = seal(&program(Some(expected))).unwrap();
        std::fs::write(&path, "two").unwrap();
        let content = || {
            let mut bytes = [0; 8];
            let count = rustix::io::pread(&sealed, &mut bytes, 0).unwrap();
            bytes[..count].to_vec()
        };
        assert_eq!(content(), b"one");
        let again = format!("/proc/self/fd/{}", sealed.as_raw_fd());
        assert_eq!(rustix::fs::fstat(&sealed).unwrap().st_mode & 0o777, 0o111, "nobody else reads it");
        assert!(rustix::io::write(sealed.as_fd(), b"x").is_err());
        assert!(std::fs::write(&again, "three").is_err(), "opening it for writing again does not help");
        assert_eq!(content(), b"one");
        // Without a digest it has to say of itself what it is.
        assert_eq!(seal(&program(None)).unwrap_err().code, "runtime_unknown");
        std::fs::write(&path, format!("\x7fELF {MARK}1")).unwrap();
        assert!(seal(&program(None)).is_ok());
        let missing = RuntimeProgram::File { path: folder.path().join("none"), sha256: None };
        assert!(seal(&missing).unwrap_err().permanent);
    }
}
