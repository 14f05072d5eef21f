#[path = "../../build/strip.rs"]
mod strip;

use super::*;
use crate::EXAMPLE_HANDLER;

const ORDER: [&str; 4] = [
    "wasi:http/incoming-handler@0.2.12",
    "wasi:cli/run@0.2.12",
    "handle-cron-event",
    "tenure:election/election@0.1.0",
];

/// Returns true for an import that every platform has: WASI, or an interface of types only.
fn is_standard(import: &str) -> bool {
    import.starts_with("wasi:")
        || [
            "tenure:election/types@0.1.0",
            "fermyon:spin-cron/cron-types@2.0.0",
            "metadata",
            "error",
        ]
        .contains(&import)
}

#[test]
fn exports_are_in_the_order_that_hosts_expect() {
    let composed = compose(EXAMPLE_HANDLER).unwrap();
    for component in [UNIVERSAL_COMPONENT, ELECTION_COMPONENT, &composed.bytes] {
        assert_eq!(world(component).unwrap().1, ORDER);
    }
    assert_eq!(composed.exports, ORDER);
    for composed in [composed, Composed::webhook().unwrap()] {
        let with_variables = composed.with_spin_variables().unwrap();
        assert_eq!(world(&with_variables.bytes).unwrap().1, ORDER);
        assert_eq!(with_variables.exports, ORDER);
    }
}

#[test]
fn only_the_socket_asks_for_a_handler() {
    let (imports, _) = world(ELECTION_COMPONENT).unwrap();
    assert!(imports.iter().any(|import| import == LEADER_HANDLER), "{imports:?}");
    for component in [UNIVERSAL_COMPONENT, &compose(EXAMPLE_HANDLER).unwrap().bytes] {
        let (imports, _) = world(component).unwrap();
        assert!(imports.iter().all(|import| is_standard(import)), "{imports:?}");
    }
}

#[test]
fn the_imports_of_a_handler_are_kept() {
    let (wanted, _) = world(EXAMPLE_HANDLER).unwrap();
    let composed = compose(EXAMPLE_HANDLER).unwrap();
    let (composed_imports, _) = world(&composed.bytes).unwrap();
    for import in &wanted {
        assert!(
            composed_imports.iter().any(|composed_import| is_compatible(composed_import, import)),
            "{import} in {composed_imports:?}"
        );
    }
    assert!(composed.filtered);
    assert_eq!(composed.handler_imports, Some(wanted));
}

#[test]
fn a_file_that_is_no_handler_is_refused_with_its_kind() {
    assert_eq!(compose(b"#!/bin/sh").unwrap_err(), ComposeError::NotWasm);
    assert_eq!(compose(b"").unwrap_err(), ComposeError::NotWasm);
    assert_eq!(compose(b"\0asm\x01\0\0\0").unwrap_err(), ComposeError::CoreModule);
    let cut = &EXAMPLE_HANDLER[..EXAMPLE_HANDLER.len() / 2];
    assert!(matches!(compose(cut), Err(ComposeError::Invalid(_))));
    let error = compose(FILTER).unwrap_err();
    assert!(matches!(error, ComposeError::NoHandler(_)));
    assert!(error.to_string().contains("wasi:cli/environment@0.2.12"), "{error}");
    let empty = compose(b"\0asm\x0d\0\x01\0").unwrap_err().to_string();
    assert!(empty.starts_with("it exports nothing; "), "{empty}");
}

#[test]
fn names_of_parts_are_left_out() {
    let section = |id: u8, content: &[u8]| [&[id, content.len() as u8], content].concat();
    let preamble = b"\0asm\x0d\0\x01\0".as_slice();
    let named = section(0, b"\x0ecomponent-namexyz");
    let other = section(0, b"\x09producers");
    let inner = [preamble, &named, &other].concat();
    let outer = [preamble, &section(4, &inner), &named].concat();
    let expected = [preamble, &section(4, &[preamble, &other].concat())].concat();
    assert_eq!(strip::without_names(&outer), Some(expected));
    assert_eq!(strip::without_names(&outer[..outer.len() - 1]), None);
    assert_eq!(strip::without_names(b"\0asm\x01\0\0\0"), None);
    // The build has stripped it already.
    assert_eq!(strip::without_names(EXAMPLE_HANDLER).unwrap(), EXAMPLE_HANDLER);
}

#[test]
fn spin_variables_are_read_only_by_the_adapter() {
    let composed = compose(EXAMPLE_HANDLER).unwrap();
    for interface in ["wasi:config/store@0.2.0-rc.1", "fermyon:spin/variables@2.0.0"] {
        let handler_imports = Some(vec![interface.to_owned()]);
        let reader = Composed { handler_imports, ..composed.clone() };
        let refused = reader.with_spin_variables().unwrap_err().to_string();
        assert!(refused.contains(&format!("it imports {interface}")), "{refused}");
    }
}

#[test]
fn a_handler_whose_environment_would_not_be_filtered_is_refused() {
    let other = |version: &[u8]| {
        let mut handler = EXAMPLE_HANDLER.to_vec();
        let (from, to) =
            (b"wasi:cli/environment@0.2.", [b"wasi:cli/environment@", version].concat());
        let places: Vec<_> =
            (0..handler.len()).filter(|at| handler[*at..].starts_with(from)).collect();
        assert!(!places.is_empty());
        places.iter().for_each(|at| handler[*at..*at + to.len()].copy_from_slice(&to));
        handler
    };
    assert!(compose(&other(b"0.2.")).unwrap().filtered);
    let refused = compose(&other(b"0.3.")).unwrap_err().to_string();
    assert!(refused.contains("it imports wasi:cli/environment@0.3."), "{refused}");
}
