//! Members of a tar, one after the other, with bounded memory.
//!
//! Extension members (pax headers, GNU long names) are folded into the member they describe and never surface as
//! files. The whole stream has a byte budget, so that a decompression bomb ends the same way wherever it hides: in a
//! kept body, a skipped one, a header or the padding after the end.

use std::io::{self, Read};

use super::{
    CHUNK_BYTES,
    error::{ArchiveError, shown},
    limits::{Limit, Limits},
    plan::{ArchivePlan, Found, PlannedKind, Planner, SkipReason},
    sink::Sink,
    tar_header::{self, BLOCK_BYTES, Fields},
};

/// The largest pax header that is read; attributes of macOS files make some of them long.
const PAX_MAX_BYTES: u64 = 4 * 1024 * 1024;
/// The longest GNU long name that is read; longer ones could not land anyway.
const LONG_NAME_MAX_BYTES: u64 = 64 * 1024;
/// Headers and padding that a member may cost beyond its body, for the stream's budget.
const OVERHEAD_BYTES: u64 = 4096;

struct Member {
    name: String,
    found: Found,
}

/// What extension members said about the next real one.
#[derive(Default)]
struct Extensions {
    long_name: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    size: Option<u64>,
}

struct Reader<R> {
    stream: R,
    budget: u64,
    budget_limit: u64,
    body: u64,
    padding: u64,
    /// A block of zeros was seen.
    ended: bool,
}

/// Pass 1.
pub(super) fn list<R: Read>(stream: R, limits: &Limits) -> Result<ArchivePlan, ArchiveError> {
    let mut reader = Reader::new(stream, limits);
    let mut planner = Planner::new(limits);
    let mut any = false;
    while let Some(member) = reader.next(!any)? {
        planner.add(&member.name, member.found)?;
        any = true;
    }
    if !reader.ended {
        // Whoever wrote it may have died between two members, and what is missing is told by nothing else.
        return Err(ArchiveError::corrupt("it has no end mark, as if it were cut off behind a member"));
    }
    // Only a compressed stream's end carries the checksum of what was read before it.
    reader.drain()?;
    Ok(planner.finish())
}

/// Pass 2.
pub(super) fn stream<R: Read>(
    stream: R,
    limits: &Limits,
    plan: &ArchivePlan,
    sink: &mut dyn Sink,
) -> Result<(), ArchiveError> {
    let mut reader = Reader::new(stream, limits);
    let mut wanted = plan.members.iter().peekable();
    let mut ordinal = 0;
    let mut buffer = vec![0; CHUNK_BYTES];
    while wanted.peek().is_some() {
        if reader.next(ordinal == 0)?.is_none() {
            return Err(ArchiveError::corrupt("it gave fewer members when read again"));
        }
        if let Some(member) = wanted.next_if(|member| member.ordinal == ordinal)
            && let PlannedKind::File { executable, size } = member.kind
        {
            sink.file(&member.path, executable, size).map_err(ArchiveError::Sink)?;
            loop {
                let count = reader.read_body(&mut buffer)?;
                if count == 0 {
                    break;
                }
                sink.chunk(&buffer[..count]).map_err(ArchiveError::Sink)?;
            }
            sink.file_end().map_err(ArchiveError::Sink)?;
        }
        ordinal += 1;
    }
    Ok(())
}

impl<R: Read> Reader<R> {
    fn new(stream: R, limits: &Limits) -> Self {
        let overhead = limits.members.saturating_mul(OVERHEAD_BYTES).saturating_add(2 * PAX_MAX_BYTES);
        Self {
            stream,
            budget: limits.expanded_bytes.saturating_add(overhead),
            budget_limit: limits.expanded_bytes,
            body: 0,
            padding: 0,
            ended: false,
        }
    }

    /// Fills as much of `buffer` as the stream has.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ArchiveError::from_decoder(error)),
            }
        }
        self.budget = self
            .budget
            .checked_sub(filled as u64)
            .ok_or(ArchiveError::TooLarge { limit: Limit::ExpandedBytes, max: self.budget_limit })?;
        Ok(filled)
    }

    fn read_body(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        let wanted = usize::try_from(self.body).map_or(buffer.len(), |body| body.min(buffer.len()));
        let count = self.fill(&mut buffer[..wanted])?;
        if count < wanted {
            return Err(ArchiveError::corrupt("a tar member ends too early"));
        }
        self.body -= count as u64;
        Ok(count)
    }

    fn skip(&mut self, mut bytes: u64) -> Result<(), ArchiveError> {
        let mut scratch = [0; 8192];
        while bytes > 0 {
            let wanted = usize::try_from(bytes).map_or(scratch.len(), |bytes| bytes.min(scratch.len()));
            let count = self.fill(&mut scratch[..wanted])?;
            if count == 0 {
                return Err(ArchiveError::corrupt("a tar member ends too early"));
            }
            bytes -= count as u64;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), ArchiveError> {
        let mut scratch = [0; 8192];
        while self.fill(&mut scratch)? > 0 {}
        Ok(())
    }

    /// Moves to the next header. `None` at the end, which is a block of zeros or, unmarked, the end of the stream.
    fn next_header(&mut self, first: bool) -> Result<Option<Fields>, ArchiveError> {
        let body = std::mem::take(&mut self.body);
        self.skip(body)?;
        // Writers that truncate the padding of the last member are forgiven.
        let mut padding = [0; BLOCK_BYTES];
        let missing = std::mem::take(&mut self.padding) as usize;
        if self.fill(&mut padding[..missing])? < missing {
            return Ok(None);
        }
        let mut block = [0; BLOCK_BYTES];
        match self.fill(&mut block)? {
            BLOCK_BYTES if block == [0; BLOCK_BYTES] => {
                self.ended = true;
                return Ok(None);
            }
            BLOCK_BYTES => {}
            0 if !first => return Ok(None),
            _ if first => return Err(ArchiveError::NotAnArchive { found: "the compressed data holds no tar" }),
            _ => return Err(ArchiveError::corrupt("it ends within a tar header")),
        }
        if first && !tar_header::checksum_is_right(&block) {
            return Err(ArchiveError::NotAnArchive { found: "the compressed data holds no tar" });
        }
        let mut fields = tar_header::parse(&block)?;
        if has_no_body(fields.kind) {
            fields.size = 0;
        }
        self.set_size(fields.size);
        Ok(Some(fields))
    }

    fn set_size(&mut self, size: u64) {
        self.body = size;
        self.padding = (BLOCK_BYTES as u64 - size % BLOCK_BYTES as u64) % BLOCK_BYTES as u64;
    }

    fn next(&mut self, mut first: bool) -> Result<Option<Member>, ArchiveError> {
        let mut extensions = Extensions::default();
        loop {
            let Some(fields) = self.next_header(first)? else { return Ok(None) };
            first = false;
            match fields.kind {
                b'x' | b'X' => self.read_pax(&mut extensions)?,
                b'L' => extensions.long_name = Some(self.read_long_name()?),
                // Global pax headers carry a commit id; long link names, labels and ACLs describe nothing that lands.
                b'g' | b'K' | b'V' | b'A' => {}
                _ => return self.member(fields, extensions).map(Some),
            }
        }
    }

    fn member(&mut self, fields: Fields, extensions: Extensions) -> Result<Member, ArchiveError> {
        if let Some(size) = extensions.size
            && !has_no_body(fields.kind)
        {
            self.set_size(size);
        }
        let name = extensions.path.or(extensions.long_name).unwrap_or(fields.name);
        let is_text = std::str::from_utf8(&name).is_ok();
        let name = String::from_utf8_lossy(&name).into_owned();
        let found = match fields.kind {
            // Before POSIX a directory was a file whose name ends in a slash.
            b'0' | b'\0' | b'7' if name.ends_with('/') => Found::Directory,
            b'0' | b'\0' | b'7' => Found::File { executable: fields.executable, size: self.body },
            b'5' | b'D' => Found::Directory,
            b'1' => Found::Refused(SkipReason::HardLink),
            b'2' => Found::Refused(SkipReason::SymbolicLink),
            b'3' | b'4' | b'6' => Found::Refused(SkipReason::Special),
            // Its body has holes: what lands would not be the file, and a hole in a project must not be silent.
            b'S' => return Err(sparse(&name)),
            kind => Found::Refused(SkipReason::UnknownType(kind)),
        };
        // A tar does not say how its names are encoded: a guess would land the file under a name that nobody gave it.
        let found =
            if is_text || matches!(found, Found::Refused(_)) { found } else { Found::Refused(SkipReason::NotUtf8) };
        Ok(Member { name, found })
    }

    fn read_bounded(&mut self, max: u64, what: &str) -> Result<Vec<u8>, ArchiveError> {
        if self.body > max {
            return Err(ArchiveError::Unsupported { what: format!("{what} of more than {max} bytes") });
        }
        let mut bytes = vec![0; self.body as usize];
        self.read_body(&mut bytes)?;
        Ok(bytes)
    }

    fn read_long_name(&mut self) -> Result<Vec<u8>, ArchiveError> {
        let mut name = self.read_bounded(LONG_NAME_MAX_BYTES, "a GNU long name")?;
        while name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    /// Reads records of the form `<length> <key>=<value>\n`, where the length counts the whole record.
    fn read_pax(&mut self, extensions: &mut Extensions) -> Result<(), ArchiveError> {
        let bytes = self.read_bounded(PAX_MAX_BYTES, "a pax header")?;
        let malformed = || ArchiveError::corrupt("a pax header is malformed");
        let mut rest = bytes.as_slice();
        while !rest.is_empty() && rest[0] != 0 {
            let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(malformed)?;
            let length: usize =
                std::str::from_utf8(&rest[..space]).ok().and_then(|text| text.parse().ok()).ok_or_else(malformed)?;
            let record = rest.get(space + 1..length).ok_or_else(malformed)?;
            let record = record.strip_suffix(b"\n").ok_or_else(malformed)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" => extensions.path = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    extensions.size = Some(size.ok_or_else(malformed)?);
                }
                _ if key.starts_with(b"GNU.sparse.") => {
                    return Err(sparse(&String::from_utf8_lossy(extensions.path.as_deref().unwrap_or_default())));
                }
                _ => {}
            }
            rest = &rest[length..];
        }
        Ok(())
    }
}

/// Links, devices and directories are headers alone. Their size field may still say something: a link repeats its
/// target's size, an old directory states its quota.
fn has_no_body(kind: u8) -> bool {
    matches!(kind, b'1'..=b'6')
}

fn sparse(name: &str) -> ArchiveError {
    ArchiveError::Unsupported { what: format!("sparse files (member `{}`; pack without --sparse)", shown(name)) }
}
