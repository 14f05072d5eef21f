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
