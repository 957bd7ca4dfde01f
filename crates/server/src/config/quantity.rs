//! Durations and sizes as people write them.

use std::time::Duration;

/// Reads `250ms`, `30s`, `10m`, `2h` or `1d`; the unit is required.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let millis_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("`{text}` is not a duration; write \"250ms\", \"30s\", \"10m\", \"2h\" or \"1d\"")),
    };
    let number: u64 =
        number.parse().map_err(|_| format!("`{text}` is not a duration; it begins with a whole number"))?;
    let millis = number.checked_mul(millis_per_unit).ok_or_else(|| format!("`{text}` is too long"))?;
    Ok(Duration::from_millis(millis))
}

/// Reads `4096`, `64KiB`, `512MiB`, `2GiB` or `1TiB`, in bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(format!("`{text}` is not a size; write \"4096\", \"64KiB\", \"512MiB\" or \"2GiB\"")),
    };
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is not a size; it begins with a whole number"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too large"))
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_need_a_unit_that_exists() {
        for (text, millis) in
            [("250ms", 250), ("30s", 30_000), ("10 m", 600_000), ("2h", 7_200_000), ("1d", 86_400_000)]
        {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for wrong in ["", "30", "s", "-1s", "1.5s", "1w", "99999999999999999999s", "18446744073709551615d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
        for (text, bytes) in [("4096", 4096), ("64KiB", 65_536), ("512MiB", 536_870_912), ("2 GiB", 2_147_483_648)] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for wrong in ["", "MiB", "5MB", "1.5GiB", "-1", "99999999999TiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
