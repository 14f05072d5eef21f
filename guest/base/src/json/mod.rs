//! JSON objects, written and read member by member. This is our own code: the crate `serde_json` is
//! ten times as large.

mod read;

pub use read::{Member, members};

use alloc::string::{String, ToString};
use core::fmt::Write as _;

/// The value of a member.
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

/// Returns an array of JSON values.
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

/// Returns a string with its quotation marks.
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
            // Control characters, line separators, and characters that change the writing
            // direction.
            '\0'..' ' | '\x7f'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
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

    proptest! {
        #[test]
        fn every_text_is_read_again(text: String) {
            prop_assert_eq!(read(&string(&text)), json!(text));
        }

        #[test]
        fn nothing_controls_a_terminal(text: String) {
            prop_assert!(!string(&text).chars().any(char::is_control));
        }
    }
}
