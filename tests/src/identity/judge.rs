//! Compares a request with the one shape that is taken.

use super::expected::Wanted;
use super::request::{Request, pairs};

/// What HTTP clients put into requests whether or not they are told to.
const OF_THE_CLIENT: [&str; 9] = [
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

/// Their values are not told.
const SECRET: [&str; 3] = ["client_assertion", "client_secret", "x-identity-header"];

/// Everything in which the request is not as wanted.
pub(super) fn judge(wanted: &Wanted, request: &Request) -> Vec<String> {
    let mut complaints = Vec::new();
    if request.method != wanted.method {
        complaints.push(format!("the method is {}, not {}", request.method, wanted.method));
    }
    if request.path != wanted.path {
        complaints.push(format!("the path is {}, not {}", request.path, wanted.path));
    }
    let headers = request.headers.iter().filter(|(name, _)| !OF_THE_CLIENT.contains(&&**name));
    let headers: Vec<_> = headers.cloned().collect();
    compare("header", &wanted.headers, &headers, &mut complaints);
    let texts = [("query", &wanted.query, &request.query), ("form", &wanted.form, &request.body)];
    for (place, wanted, text) in texts {
        let read = pairs(text);
        if !read.well_formed {
            complaints.push(format!("the {place} is not encoded as forms are"));
        }
        compare(place, wanted, &read.pairs, &mut complaints);
    }
    complaints
}

fn compare(
    place: &str,
    wanted: &[(&str, String)],
    sent: &[(String, String)],
    complaints: &mut Vec<String>,
) {
    for (name, value) in wanted {
        let found: Vec<_> = sent.iter().filter(|(known, _)| known == name).collect();
        match found.as_slice() {
            [] => complaints.push(format!("the {place} lacks {name}")),
            [(_, found)] if found == value => {}
            [_] if SECRET.contains(name) => {
                complaints.push(format!("the {place} has a wrong {name}"));
            }
            [(_, found)] => {
                complaints.push(format!("the {place} has {name} {found:?}, not {value:?}"));
            }
            several => {
                complaints.push(format!("the {place} has {name} {} times", several.len()));
            }
        }
    }
    for (name, _) in sent {
        if !wanted.iter().any(|(known, _)| known == name) {
            complaints.push(format!("the {place} has {name:?}, which nobody knows"));
        }
    }
}
