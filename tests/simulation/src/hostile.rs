//! What strangers write who may: records that no candidate writes, and blobs beside the election's.

use tenure_azure::name::SideBlob;
use uuid::Uuid;

/// Metadata, as headers.
pub type Fields = Vec<(String, String)>;

pub fn fields(all: &[(&str, &str)]) -> Fields {
    all.iter().map(|(name, value)| (format!("x-ms-meta-{name}"), (*value).to_string())).collect()
}

/// The n-th kind of record. `term` is the newest that was won.
pub fn record(n: u64, term: u64) -> Fields {
    let term = term.to_string();
    let last = (u64::MAX / 2).to_string();
    let lines = "m0%0A%0D%1B".repeat(200);
    let long = "%C3%BC".repeat(1_200);
    let plain = |changed: &[(&'static str, &str)]| {
        let mut record = vec![
            ("tenureformat", "1"),
            ("tenureterm", term.as_str()),
            ("tenureleader", "a%20stranger"),
            ("tenurenonce", "00000000000000ee"),
            ("tenuresince", "2026-11-01T00:00:00Z"),
        ];
        for (name, value) in changed {
            record.retain(|(known, _)| known != name);
            record.push((*name, *value));
        }
        fields(&record)
    };
    match n % 9 {
        0 => plain(&[("tenureterm", &last)]),
        1 => plain(&[("tenureterm", "18446744073709551615")]),
        2 => plain(&[("tenureterm", "9999999999999")]),
        3 => plain(&[("tenureleader", &lines)]),
        4 => plain(&[("tenureaddress", &long)]),
        5 => plain(&[("tenureslot", "2100-01-01T00:00:00Z"), ("tenureattempt", "1")]),
        6 => plain(&[("tenuresuccessor", "m1"), ("tenuresuccessorterm", &term)]),
        7 => plain(&[("tenureformat", "2")]),
        _ => fields(&[("owner", "payroll")]),
    }
}

/// The lease id and the term of the n-th announcement, if that is its kind.
pub fn planted(n: u64, term: u64) -> Option<(u128, u64)> {
    let announced_in = match n % 8 {
        0..=4 => term,
        5 => OTHER_TERM,
        _ => return None,
    };
    Some((lease_id(n), announced_in))
}

/// The term of an announcement for another leader.
const OTHER_TERM: u64 = 1_794_999_999;

fn lease_id(n: u64) -> u128 {
    u128::from(n) << 64 | 0x4000_8000_0000_0000_0001
}

/// The n-th kind of blob beside the election's, with the name of a candidate.
pub fn side_blob(n: u64, name: &str, term: u64) -> (SideBlob, Fields) {
    let (successor, term) = (Uuid::from_u128(lease_id(n)), term.to_string());
    let successor = successor.as_hyphenated().to_string();
    let long = "(".repeat(7_900);
    let lines = "m0%0A%0D%1B".repeat(100);
    let announced_in = |candidate: &str, term: &str| {
        let word =
            [("tenurewriter", candidate), ("tenureleaseid", &successor), ("tenureterm", term)];
        (SideBlob::Successor, fields(&word))
    };
    let announced = |candidate: &str| announced_in(candidate, &term);
    match n % 8 {
        0 => announced(&long),
        1 => announced(&lines),
        2 => announced("nobody"),
        3 | 4 => announced(name),
        5 => announced_in(name, &OTHER_TERM.to_string()),
        6 => (SideBlob::Successor, fields(&[("owner", "payroll")])),
        _ => {
            let list = [("tenurewriter", name), ("tenurecandidates", &long)];
            (SideBlob::Candidates, fields(&list))
        }
    }
}
