//! Data that permitted outsiders write: records that no candidate writes, and side blobs.

use tenure_azure::blob::SideBlob;
use uuid::Uuid;

/// Metadata, as headers.
pub type Fields = Vec<(String, String)>;

pub fn fields(pairs: &[(&str, &str)]) -> Fields {
    pairs.iter().map(|(name, value)| (format!("x-ms-meta-{name}"), (*value).to_string())).collect()
}

/// Returns the n-th kind of record. `term` is the newest that was won.
pub fn record(n: u64, term: u64) -> Fields {
    let term = term.to_string();
    let huge_term = (u64::MAX / 2).to_string();
    let long_text = "m0%0A%0D%1B".repeat(200);
    let non_ascii = "%C3%BC".repeat(1_200);
    let record_with = |overrides: &[(&'static str, &str)]| {
        let mut record = vec![
            ("tenureformat", "1"),
            ("tenureterm", term.as_str()),
            ("tenureleader", "a%20stranger"),
            ("tenurenonce", "00000000000000ee"),
            ("tenuresince", "2026-11-01T00:00:00Z"),
        ];
        for (name, value) in overrides {
            record.retain(|(key, _)| key != name);
            record.push((*name, *value));
        }
        fields(&record)
    };
    match n % 9 {
        0 => record_with(&[("tenureterm", &huge_term)]),
        1 => record_with(&[("tenureterm", "18446744073709551615")]),
        2 => record_with(&[("tenureterm", "9999999999999")]),
        3 => record_with(&[("tenureleader", &long_text)]),
        4 => record_with(&[("tenureaddress", &non_ascii)]),
        5 => record_with(&[("tenureslot", "2100-01-01T00:00:00Z"), ("tenureattempt", "1")]),
        6 => record_with(&[("tenuresuccessor", "m1"), ("tenuresuccessorterm", &term)]),
        7 => record_with(&[("tenureformat", "2")]),
        _ => fields(&[("owner", "payroll")]),
    }
}

/// Returns the lease id and the term of the n-th side blob, if it is an announcement.
pub fn announced_lease(n: u64, term: u64) -> Option<(u128, u64)> {
    let announced_in = match n % 8 {
        0..=4 => term,
        5 => OTHER_TERM,
        _ => return None,
    };
    Some((lease_id(n), announced_in))
}

/// Term of an announcement for another leader.
const OTHER_TERM: u64 = 1_794_999_999;

fn lease_id(n: u64) -> u128 {
    u128::from(n) << 64 | 0x4000_8000_0000_0000_0001
}

/// Returns the n-th kind of side blob, with the name of a candidate.
pub fn side_blob(n: u64, name: &str, term: u64) -> (SideBlob, Fields) {
    let (successor, term) = (Uuid::from_u128(lease_id(n)), term.to_string());
    let successor = successor.as_hyphenated().to_string();
    let parentheses = "(".repeat(7_900);
    let long_text = "m0%0A%0D%1B".repeat(100);
    let announced_in = |candidate: &str, term: &str| {
        let announcement =
            [("tenurewriter", candidate), ("tenureleaseid", &successor), ("tenureterm", term)];
        (SideBlob::Successor, fields(&announcement))
    };
    let announced = |candidate: &str| announced_in(candidate, &term);
    match n % 8 {
        0 => announced(&parentheses),
        1 => announced(&long_text),
        2 => announced("nobody"),
        3 | 4 => announced(name),
        5 => announced_in(name, &OTHER_TERM.to_string()),
        6 => (SideBlob::Successor, fields(&[("owner", "payroll")])),
        _ => {
            let list = [("tenurewriter", name), ("tenurecandidates", &parentheses)];
            (SideBlob::Candidates, fields(&list))
        }
    }
}
