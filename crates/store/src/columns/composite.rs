//! Values that are several neighbouring columns.

use stead_domain::attachment::Pin;
use stead_domain::event::EventKind;
use stead_domain::lease::Lease;
use stead_domain::source::{EntryKind, TreeSize};

use super::{Column, Columns, Null, Reader, RowError, UnknownWord, from_json, text, to_json};
use crate::driver::Value;

/// Two columns that are both null or both not.
fn pair<A: Column, B: Column>(reader: &mut Reader<'_>) -> Result<Option<(A, B)>, RowError> {
    match (reader.take::<Option<A>>()?, reader.take::<Option<B>>()?) {
        (Some(first), Some(second)) => Ok(Some((first, second))),
        (None, None) => Ok(None),
        _ => Err(reader.refuse(Null)),
    }
}

/// Holder and end.
impl Columns for Option<Lease> {
    fn write(&self, values: &mut Vec<Value>) -> Result<(), RowError> {
        self.map(|lease| lease.holder).write(values)?;
        self.map(|lease| lease.until).write(values)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RowError> {
        Ok(pair(reader)?.map(|(holder, until)| Lease { holder, until }))
    }
}

/// Project and version.
impl Columns for Option<Pin> {
    fn write(&self, values: &mut Vec<Value>) -> Result<(), RowError> {
        self.map(|pin| pin.project_id).write(values)?;
        self.map(|pin| pin.version).write(values)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RowError> {
        Ok(pair(reader)?.map(|(project_id, version)| Pin { project_id, version }))
    }
}

/// Files and bytes.
impl Columns for TreeSize {
    fn write(&self, values: &mut Vec<Value>) -> Result<(), RowError> {
        self.files.write(values)?;
        self.bytes.write(values)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RowError> {
        Ok(Self { files: reader.take()?, bytes: reader.take()? })
    }
}

/// Kind, and for files the mode bit, the size and the bytes.
impl Columns for EntryKind {
    fn write(&self, values: &mut Vec<Value>) -> Result<(), RowError> {
        let (word, file) = match self {
            Self::Directory => ("directory", None),
            Self::File { executable, size, blob } => ("file", Some((*executable, *size, *blob))),
        };
        values.push(text(word));
        file.map(|(executable, _, _)| executable).write(values)?;
        file.map(|(_, size, _)| size).write(values)?;
        file.map(|(_, _, blob)| blob).write(values)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RowError> {
        let word: String = reader.take()?;
        match word.as_str() {
            "directory" => {
                let kept: (Option<bool>, Option<u64>, Option<String>) =
                    (reader.take()?, reader.take()?, reader.take()?);
                if kept == (None, None, None) { Ok(Self::Directory) } else { Err(reader.refuse(UnknownWord(word))) }
            }
            "file" => Ok(Self::File { executable: reader.take()?, size: reader.take()?, blob: reader.take()? }),
            _ => Err(reader.refuse(UnknownWord(word))),
        }
    }
}

/// Whether it is a delta, by which deltas are found for removal, and the whole as JSON.
impl Columns for EventKind {
    fn write(&self, values: &mut Vec<Value>) -> Result<(), RowError> {
        self.is_delta().write(values)?;
        values.push(to_json(self).map_err(RowError::Write)?);
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RowError> {
        let is_delta: bool = reader.take()?;
        let json: String = reader.take()?;
        let kind: Self = from_json(Value::Text(Some(json))).map_err(|source| reader.refuse(source))?;
        if kind.is_delta() == is_delta { Ok(kind) } else { Err(reader.refuse(UnknownWord(is_delta.to_string()))) }
    }
}
