//! Reads the top-level members of an object.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The value of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// A string, without its escapes.
    Text(String),
    /// A number, a Boolean or null, as written.
    Literal(String),
    /// An array or an object. Its content is skipped.
    Nested,
}

/// Returns the members of an object, in their order. None if it is not an object. Nested values are
/// not validated.
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

/// The unread text. It starts with no blank.
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
                    let low =
                        self::hex_unit(rest)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn reference_members(text: &str) -> Option<Vec<(String, Member)>> {
        let Ok(Value::Object(object)) = serde_json::from_str(text) else { return None };
        let member = |value: &Value| match value {
            Value::String(text) => Member::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => Member::Nested,
            plain => Member::Literal(plain.to_string()),
        };
        Some(object.iter().map(|(name, value)| (name.clone(), member(value))).collect())
    }

    #[test]
    fn members_in_every_form() {
        for text in [
            "{}",
            " { } ",
            r#"{"a":1,"b":"2","c":null,"d":true,"e":-1.5e3}"#,
            r#"{ "a" : [ "}", {"x":"]\""} , [] ] , "b" : {"y":[1]} , "c" : "d" }"#,
            r#"{"a":"\"\\\/\b\f\n\r\té😀"}"#,
        ] {
            let mut read = members(text).unwrap_or_else(|| panic!("{text}"));
            read.sort_by(|(one, _), (other, _)| one.cmp(other));
            for ((name, member), (expected_name, value)) in
                read.iter().zip(reference_members(text).unwrap())
            {
                assert_eq!(*name, expected_name);
                let number = |member: &Member| match member {
                    Member::Literal(text) => text.parse::<f64>().ok(),
                    _ => None,
                };
                assert!(*member == value || number(member) == number(&value), "{text}");
            }
        }
    }

    #[test]
    fn invalid_objects_are_none() {
        for text in [
            "",
            "[]",
            "\"a\"",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "{} x",
            "{\"a\":\"",
            "{\"a\":\"\\",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"\\ud800\\u0041\"}",
            "{\"a\":[}",
            "{\"a\":[",
            "{a:1}",
            "{\"a\":<}",
        ] {
            assert_eq!(members(text), None, "{text}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn serde_agrees(object in proptest::collection::btree_map(any::<String>(), value(), 0..5)) {
            let object = Value::Object(object.into_iter().collect());
            for text in [object.to_string(), serde_json::to_string_pretty(&object).unwrap()] {
                prop_assert_eq!(members(&text), reference_members(&text));
            }
        }

        #[test]
        fn nothing_panics_or_goes_on_for_ever(text in "[ -~é]{0,40}|[\\[\\]{}\":,\\\\u0d8a ]{0,40}") {
            let _ = members(&text);
        }
    }
}
