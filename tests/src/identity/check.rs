//! Compares a request with the only accepted form.

use super::expected::ExpectedRequest;
use super::request::{Request, pairs};

/// Headers that HTTP clients add on their own.
const CLIENT_HEADERS: [&str; 9] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "connection",
    "content-length",
    "host",
    "sec-fetch-mode",
    "transfer-encoding",
    "user-agent",
];

/// Fields whose values never appear in messages.
const SECRET_FIELDS: [&str; 3] = ["client_assertion", "client_secret", "x-identity-header"];

/// Returns a complaint for each difference between the request and the expected form.
pub(super) fn check_request(expected: &ExpectedRequest, request: &Request) -> Vec<String> {
    let mut complaints = Vec::new();
    if request.method != expected.method {
        complaints.push(format!("the method is {}, not {}", request.method, expected.method));
    }
    if request.path != expected.path {
        complaints.push(format!("the path is {}, not {}", request.path, expected.path));
    }
    let headers = request.headers.iter().filter(|(name, _)| !CLIENT_HEADERS.contains(&&**name));
    let headers: Vec<_> = headers.cloned().collect();
    compare("header", &expected.headers, &headers, &mut complaints);
    let texts =
        [("query", &expected.query, &request.query), ("form", &expected.form, &request.body)];
    for (part, expected, text) in texts {
        let parsed = pairs(text);
        if !parsed.well_formed {
            complaints.push(format!("the {part} is not encoded as forms are"));
        }
        compare(part, expected, &parsed.pairs, &mut complaints);
    }
    complaints
}

fn compare(
    part: &str,
    expected: &[(&str, String)],
    sent: &[(String, String)],
    complaints: &mut Vec<String>,
) {
    for (name, value) in expected {
        let found: Vec<_> = sent.iter().filter(|(sent_name, _)| sent_name == name).collect();
        match found.as_slice() {
            [] => complaints.push(format!("the {part} lacks {name}")),
            [(_, found)] if found == value => {}
            [_] if SECRET_FIELDS.contains(name) => {
                complaints.push(format!("the {part} has a wrong {name}"));
            }
            [(_, found)] => {
                complaints.push(format!("the {part} has {name} {found:?}, not {value:?}"));
            }
            duplicates => {
                complaints.push(format!("the {part} has {name} {} times", duplicates.len()));
            }
        }
    }
    for (name, _) in sent {
        if !expected.iter().any(|(sent_name, _)| sent_name == name) {
            complaints.push(format!("the {part} has {name:?}, which nobody knows"));
        }
    }
}
