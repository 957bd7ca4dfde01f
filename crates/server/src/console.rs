//! What commands print: data on standard output, everything else on standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::client::Failure;

/// How a command prints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Console {
    /// Whether data is printed as JSON.
    pub(crate) json: bool,
}

impl Console {
    /// Prints an answer: as JSON if that was asked for, else as `text` makes it.
    pub(crate) fn show(self, json: &Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { print(&format!("{json:#}\n")) } else { print(&text()) }
    }
}

/// Whether what was written last ended in the middle of a line, where output and notes go to the same place.
static MID_LINE: AtomicBool = AtomicBool::new(false);

/// Whether standard output and standard error are one terminal, pipe or file.
fn is_one_place() -> bool {
    static ONE: LazyLock<bool> = LazyLock::new(|| {
        let place = |stat: rustix::io::Result<rustix::fs::Stat>| stat.ok().map(|stat| (stat.st_dev, stat.st_ino));
        let output = place(rustix::fs::fstat(io::stdout()));
        output.is_some() && output == place(rustix::fs::fstat(io::stderr()))
    });
    *ONE
}

/// Remembers how a piece of output ended.
fn passed(bytes: &[u8], shares: bool) {
    if let (Some(last), true) = (bytes.last(), shares) {
        MID_LINE.store(*last != b'\n', Ordering::Relaxed);
    }
}

/// Says something that is not data, on a line of its own.
pub(crate) fn note(text: &str) {
    if MID_LINE.swap(false, Ordering::Relaxed) {
        let _ = writeln!(io::stderr());
    }
    // When standard error is gone there is nobody to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Writes bytes to standard output as they are. A reader that went away ends the command silently.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::silent(141)),
        Err(error) => Err(Failure::io("write to standard output", &error)),
        Ok(()) => {
            passed(bytes, is_one_place());
            Ok(())
        }
    }
}

/// Writes bytes to standard error as they are.
pub(crate) fn print_error_bytes(bytes: &[u8]) {
    let mut output = io::stderr().lock();
    let _ = output.write_all(bytes).and_then(|()| output.flush());
    passed(bytes, true);
}

/// Text from elsewhere without what would steer a terminal, or show its letters in another order than they have.
pub(crate) fn printable(text: &str) -> String {
    let steers = |character: char| {
        character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|character| if steers(character) { '\u{fffd}' } else { character }).collect()
}

/// How many columns a line may have: those of the terminal, else what `COLUMNS` says, else 80.
pub(crate) fn columns() -> usize {
    let terminal = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let said = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    terminal.filter(|&columns| columns > 0).or_else(said).unwrap_or(80)
}

/// The first `width` columns of a text on one line; what is cut ends with `…`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= width {
        return line;
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A table of which the last column takes what the line leaves it, and never less than `least`.
pub(crate) fn table_in_line(headings: &[&str], mut rows: Vec<Vec<String>>, line: usize, least: usize) -> String {
    let last = headings.len().saturating_sub(1);
    let taken: usize = (0..last)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([headings[column].len()]).max().unwrap_or(0) + 2
        })
        .sum();
    let left = line.saturating_sub(taken).max(least);
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(last)) {
        *cell = cut(cell, left);
    }
    table(headings, &rows)
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Rows below headings, columns aligned. Cells come from elsewhere and are made printable.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let headings: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&headings).chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// An instant for people, in UTC.
pub(crate) fn instant(seconds: Option<i64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// The moment that a text names, in seconds since 1970: a date, or one with a time of day, as [`instant`] writes it or with a `T`.
/// All of it is UTC.
pub(crate) fn seconds_of(text: &str) -> Option<i64> {
    let number = |text: &str, digits: usize, most: i64| -> Option<i64> {
        let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| plain && *number <= most)
    };
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).map_or((text, None), |(date, time)| (date, Some(time)));
    let mut parts = date.splitn(3, '-');
    let (year, month) = (number(parts.next()?, 4, 9999)?, number(parts.next()?, 2, 12)?);
    let day = number(parts.next()?, 2, 31)?;
    // The day that has this date, if there is one: years begin in March, as below.
    let (shifted_year, shifted_month) = (year - i64::from(month <= 2), (month + 9) % 12);
    let days = shifted_year * 365 + shifted_year.div_euclid(4) - shifted_year.div_euclid(100)
        + shifted_year.div_euclid(400)
        + (153 * shifted_month + 2) / 5
        + day
        - 1
        - 719_468;
    if civil(days) != (year, month, day) {
        return None;
    }
    let of_day = match time {
        None => 0,
        Some(time) => {
            let mut parts = time.splitn(3, ':');
            let (hour, minute) = (number(parts.next()?, 2, 23)?, number(parts.next()?, 2, 59)?);
            let second = parts.next().map_or(Some(0), |text| number(text, 2, 59))?;
            hour * 3600 + minute * 60 + second
        }
    };
    Some(days * 86_400 + of_day)
}

/// The Gregorian date of a day counted from 1970-01-01. Years begin in March, so that the leap day is a year's last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Whether colour helps: standard error is a terminal and nobody asked for none.
pub(crate) fn colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_and_steer_no_terminal() {
        let rows = vec![vec!["a".to_owned(), "x\u{1b}[2J".to_owned()], vec!["long".to_owned(), String::new()]];
        assert_eq!(table(&["ID", "NAME"], &rows), "ID    NAME\na     x\u{fffd}[2J\nlong\n");
    }

    #[test]
    fn moments_are_read_as_they_are_written() {
        for seconds in [0, 951_782_399, 951_782_400, 1_796_026_500, 4_107_542_400] {
            assert_eq!(seconds_of(&instant(Some(seconds))), Some(seconds));
        }
        assert_eq!(seconds_of("2024-02-29"), Some(1_709_164_800));
        assert_eq!(seconds_of("2024-02-29T01:02"), Some(1_709_164_800 + 3720));
        for wrong in ["", "2023-02-29", "2024-13-01", "2024-1-1", "2024-01-01T24:00", "2024-01-01T+1:00", "90", "2h"] {
            assert_eq!(seconds_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_last_column_is_cut_to_the_line() {
        let rows = vec![vec!["id".to_owned(), "a long\n title here".to_owned()]];
        assert_eq!(table_in_line(&["ID", "TITLE"], rows.clone(), 14, 4), "ID  TITLE\nid  a long ti…\n");
        assert_eq!(table_in_line(&["ID", "TITLE"], rows.clone(), 1, 4), "ID  TITLE\nid  a l…\n");
        assert_eq!(table_in_line(&["ID", "TITLE"], rows, 80, 4), "ID  TITLE\nid  a long title here\n");
        assert_eq!([count(0, "file"), count(1, "file"), count(2, "file")], ["0 files", "1 file", "2 files"]);
    }

    #[test]
    fn sizes_and_instants_for_people() {
        assert_eq!([size(0), size(1023), size(1536), size(5 << 30)], ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_796_011_199, "2026-11-30 03:59:59Z"),
            (-1, "1969-12-31 23:59:59Z"),
        ] {
            assert_eq!(instant(Some(seconds)), text);
        }
    }
}
