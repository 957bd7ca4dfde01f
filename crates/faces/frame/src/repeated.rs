//! Names that an object has twice. The grammar of JSON allows them, readers take the first or the last (RFC 8259 §4), and what stands
//! between two readers can be told one thing by the one and another by the other; so no face takes a body that has one.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Where an object of a JSON text has the same name twice, as `a.0.b`: the first such place. None where there is none, and for what is
/// no JSON or nested too deeply to be read, which is for its reader to refuse.
pub fn repeated_name(text: &[u8]) -> Option<String> {
    let found = RefCell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(text);
    let _ = Value { found: &found, place: None }.deserialize(&mut reader);
    found.into_inner()
}

/// A step from the root to a value.
#[derive(Clone, Copy)]
struct Step<'a> {
    before: Option<&'a Step<'a>>,
    name: Name<'a>,
}

#[derive(Clone, Copy)]
enum Name<'a> {
    Member(&'a str),
    Item(usize),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(before) = self.before {
            write!(f, "{before}.")?;
        }
        match self.name {
            Name::Member(name) => f.write_str(name),
            Name::Item(number) => write!(f, "{number}"),
        }
    }
}

/// Reads a value and keeps nothing of it.
#[derive(Clone, Copy)]
struct Value<'a> {
    found: &'a RefCell<Option<String>>,
    place: Option<&'a Step<'a>>,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            let step = Step { before: self.place, name: Name::Member(&name) };
            if names.contains(&name) {
                *self.found.borrow_mut() = Some(step.to_string());
                return Err(A::Error::custom("a name twice"));
            }
            members.next_value_seed(Value { found: self.found, place: Some(&step) })?;
            names.insert(name);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut number = 0;
        loop {
            let step = Step { before: self.place, name: Name::Item(number) };
            if items.next_element_seed(Value { found: self.found, place: Some(&step) })?.is_none() {
                return Ok(());
            }
            number += 1;
        }
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        IgnoredAny.visit_bool(value).map(drop)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::repeated_name;

    #[test]
    fn the_first_name_that_is_there_twice_is_named_wherever_it_is() {
        for (text, place) in [
            (r#"{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}"#, None),
            (r#"{"a":1,"b":2,"a":3}"#, Some("a")),
            (r#"{"a":{"b":[0,{"c":null,"d":true,"c":-1.5}]},"a":1}"#, Some("a.b.1.c")),
            (r#"{"a":1,"\u0061":2}"#, Some("a")),
            (r#"{"":1,"":2}"#, Some("")),
            (r#"[{"a":1},{"a":1,"a":1}]"#, Some("1.a")),
            // What is no JSON is not for this to say, except behind what is there twice.
            (r#"{"a":1,"a":"#, Some("a")),
            (r#"{"a":1"#, None),
            ("", None),
        ] {
            assert_eq!(repeated_name(text.as_bytes()).as_deref(), place, "{text}");
        }
        assert_eq!(repeated_name("[".repeat(100_000).as_bytes()), None);
        assert_eq!(repeated_name(b"{\"a\":\xff,\"a\":1}"), None);
    }
}
