//! JSON objects, written and read member by member. This is our own code: the crate `serde_json` is
//! ten times as large.

use super::text::is_deceptive;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

/// The value of a member to write.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number.
    Number(u64),
    /// A string, to be escaped.
    Text(&'a str),
    /// A value that is JSON already.
    Json(&'a str),
}

/// An object that is being written.
#[derive(Debug)]
pub struct Object(String);

impl Object {
    /// Starts an object.
    #[must_use]
    pub fn new() -> Self {
        Self("{".to_string())
    }

    /// Adds a member. `name` is not escaped.
    #[must_use]
    pub fn with<'a>(mut self, name: &str, value: impl Into<Value<'a>>) -> Self {
        self.add(name, value.into());
        self
    }

    /// Adds a member. Not generic, so that all kinds of values share the code.
    fn add(&mut self, name: &str, value: Value<'_>) {
        let text = &mut self.0;
        text.push_str(if text.len() == 1 { "\"" } else { ",\"" });
        text.push_str(name);
        text.push_str("\":");
        match value {
            Value::Null => text.push_str("null"),
            Value::Bool(truth) => text.push_str(if truth { "true" } else { "false" }),
            Value::Number(number) => text.push_str(&number.to_string()),
            Value::Text(value) => escape(text, value),
            Value::Json(json) => text.push_str(json),
        }
    }

    /// Returns the complete object.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

impl Default for Object {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns an array. Each item is JSON already.
#[must_use]
pub fn array(items: impl IntoIterator<Item = String>) -> String {
    let mut text = "[".to_string();
    for item in items {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&item);
    }
    text.push(']');
    text
}

/// Returns `value` as JSON: escaped and in quotation marks.
#[must_use]
pub fn string(value: &str) -> String {
    let mut text = String::new();
    escape(&mut text, value);
    text
}

fn escape(text: &mut String, value: &str) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            c if is_deceptive(c) => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

impl From<bool> for Value<'_> {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The value of a member that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// A string, without its escapes.
    Text(String),
    /// A number, a Boolean or null, as written and not validated.
    Literal(String),
    /// An array or an object. Its content is skipped.
    Nested,
}

/// Returns the members of an object, in their order, or `None` if the text is not an object.
/// Literals and nested values are not validated.
#[must_use]
pub fn members(text: &str) -> Option<Vec<(String, Member)>> {
    let mut reader = Reader(text.trim_start());
    let mut members = Vec::new();
    reader.consume('{')?;
    if reader.consume('}').is_none() {
        loop {
            let name = reader.string()?;
            reader.consume(':')?;
            members.push((name, reader.value()?));
            if reader.consume(',').is_none() {
                reader.consume('}')?;
                break;
            }
        }
    }
    reader.0.is_empty().then_some(members)
}

/// The unread text. Blanks at its start have been skipped.
struct Reader<'t>(&'t str);

impl<'t> Reader<'t> {
    fn consume(&mut self, expected: char) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?.trim_start();
        Some(())
    }

    fn value(&mut self) -> Option<Member> {
        match self.0.as_bytes().first()? {
            b'"' => self.string().map(Member::Text),
            b'{' | b'[' => self.nested(),
            _ => {
                let is_end = |c: char| matches!(c, ',' | '}' | ']' | ' ' | '\t' | '\n' | '\r');
                let (plain, rest) = self.0.split_at(self.0.find(is_end)?);
                let is_literal_char =
                    |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
                self.0 = rest.trim_start();
                (!plain.is_empty() && plain.chars().all(is_literal_char))
                    .then(|| Member::Literal(plain.to_string()))
            }
        }
    }

    fn nested(&mut self) -> Option<Member> {
        let mut depth = 0_usize;
        loop {
            match self.0.chars().next()? {
                '"' => {
                    self.string()?;
                    continue;
                }
                '{' | '[' => depth += 1,
                '}' | ']' => depth -= 1,
                _ => {}
            }
            let mut rest = self.0.chars();
            rest.next();
            self.0 = rest.as_str();
            if depth == 0 {
                self.0 = self.0.trim_start();
                return Some(Member::Nested);
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let mut rest = self.0.strip_prefix('"')?.chars();
        let mut text = String::new();
        loop {
            match rest.next()? {
                '"' => break,
                '\\' => text.push(unescape(&mut rest)?),
                c => text.push(c),
            }
        }
        self.0 = rest.as_str().trim_start();
        Some(text)
    }
}

fn unescape(rest: &mut core::str::Chars<'_>) -> Option<char> {
    Some(match rest.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => {
            let unit = hex_unit(rest)?;
            match unit {
                // A surrogate pair.
                0xd800..0xdc00 => {
                    (rest.next()? == '\\' && rest.next()? == 'u').then_some(())?;
                    let low = hex_unit(rest)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                    char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + low)?
                }
                unit => char::from_u32(unit)?,
            }
        }
        c @ ('"' | '\\' | '/') => c,
        _ => return None,
    })
}

/// Parses four hexadecimal digits.
fn hex_unit(rest: &mut core::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |unit, _| Some(unit << 4 | rest.next()?.to_digit(16)?))
}

#[cfg(test)]
mod read_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_object_of_everything() {
        let object = Object::new()
            .with("text", "a\"b\\c\n\u{1}")
            .with("number", u64::MAX)
            .with("truth", false)
            .with("nothing", None::<u64>)
            .with("list", Value::Json(&array([string("x"), Object::new().finish()])))
            .finish();
        let expected = json!({
            "text": "a\"b\\c\n\u{1}", "number": u64::MAX, "truth": false, "nothing": null,
            "list": ["x", {}],
        });
        assert_eq!(read(&object), expected);
    }

    #[test]
    fn invisible_characters_are_escaped() {
        for c in "\u{61c}\u{200e}\u{200f}\u{2028}\u{202e}\u{2066}\u{2069}\u{feff}".chars() {
            assert_eq!(string(&c.to_string()), format!("\"\\u{:04x}\"", u32::from(c)));
        }
    }

    proptest! {
        #[test]
        fn every_text_is_read_again(text: String) {
            prop_assert_eq!(read(&string(&text)), json!(text));
        }

        #[test]
        fn nothing_controls_a_terminal(text: String) {
            prop_assert!(!string(&text).chars().any(is_deceptive));
        }
    }
}
