//! JSON as Python's own library writes it with sorted keys, because tools keep hashes of such text.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use toml::{Table, Value};

/// How the parts of a list or an object are divided.
#[derive(Debug, Clone, Copy)]
pub(super) enum Spacing {
    /// `, ` and `: `.
    Wide,
    /// `,` and `:`.
    Tight,
}

/// The text of a table. None where it holds what the two languages may write differently: fractions and dates.
pub(super) fn written(table: &Table, spacing: Spacing) -> Option<String> {
    let mut text = String::new();
    write_table(&mut text, table, spacing)?;
    Some(text)
}

/// The SHA-256 of a text in hexadecimal digits.
pub(super) fn sha256(text: &str) -> String {
    let mut digits = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

fn write_table(text: &mut String, table: &Table, spacing: Spacing) -> Option<()> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    text.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        divide(text, index, spacing);
        write_string(text, key);
        text.push_str(if matches!(spacing, Spacing::Wide) { ": " } else { ":" });
        write_value(text, value, spacing)?;
    }
    text.push('}');
    Some(())
}

fn write_value(text: &mut String, value: &Value, spacing: Spacing) -> Option<()> {
    // Writing to a string cannot fail.
    let _ = match value {
        Value::String(string) => {
            write_string(text, string);
            Ok(())
        }
        Value::Integer(number) => write!(text, "{number}"),
        Value::Boolean(truth) => write!(text, "{truth}"),
        Value::Table(table) => return write_table(text, table, spacing),
        Value::Array(list) => {
            text.push('[');
            for (index, item) in list.iter().enumerate() {
                divide(text, index, spacing);
                write_value(text, item, spacing)?;
            }
            text.push(']');
            return Some(());
        }
        Value::Float(_) | Value::Datetime(_) => return None,
    };
    Some(())
}

fn divide(text: &mut String, index: usize, spacing: Spacing) {
    if index > 0 {
        text.push_str(if matches!(spacing, Spacing::Wide) { ", " } else { "," });
    }
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        let _ = match character {
            '"' => write!(text, "\\\""),
            '\\' => write!(text, "\\\\"),
            '\n' => write!(text, "\\n"),
            '\r' => write!(text, "\\r"),
            '\t' => write!(text, "\\t"),
            '\u{8}' => write!(text, "\\b"),
            '\u{c}' => write!(text, "\\f"),
            ' '..='~' => write!(text, "{character}"),
            other => {
                let mut units = [0; 2];
                other.encode_utf16(&mut units).iter().for_each(|unit| {
                    let _ = write!(text, "\\u{unit:04x}");
                });
                Ok(())
            }
        };
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_python_s() {
        let table: Table = "b = [1, true, {x = 'é\u{1f600}\\t\"'}]\na = \"\\u007f\\n\"\n".parse().unwrap();
        let wide = r#"{"a": "\u007f\n", "b": [1, true, {"x": "\u00e9\ud83d\ude00\\t\""}]}"#;
        assert_eq!(written(&table, Spacing::Wide).unwrap(), wide);
        assert!(written(&table, Spacing::Tight).unwrap().starts_with(r#"{"a":"\u007f\n","b":[1,true,{"#));
        assert_eq!(written(&"a = 1.5".parse().unwrap(), Spacing::Wide), None);
    }
}
