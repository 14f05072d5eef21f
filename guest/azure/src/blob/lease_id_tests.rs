use super::*;

#[test]
fn random_bytes_become_a_version_4_guid() {
    let zeros = LeaseId::from_random([0; 16]).to_string();
    let ones = LeaseId::from_random([0xff; 16]).to_string();
    assert_eq!(zeros, "00000000-0000-4000-8000-000000000000");
    assert_eq!(ones, "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

#[test]
fn every_spelling_of_the_service_is_read() {
    let id = "cafebabe-0000-4000-8000-00000000000a";
    let spellings = [
        "cafebabe-0000-4000-8000-00000000000a",
        "CAFEBABE-0000-4000-8000-00000000000A",
        "cafebabe00004000800000000000000a",
        "{cafebabe-0000-4000-8000-00000000000a}",
        "(CAFEBABE-0000-4000-8000-00000000000a)",
    ];
    for spelling in spellings {
        let read = LeaseId::parse(spelling).map(|id| id.to_string());
        assert_eq!(read.as_deref(), Some(id), "{spelling}");
    }
}

#[test]
fn anything_else_is_not_read() {
    let invalid = [
        "",
        "{",
        "{}",
        "()",
        "not-a-guid",
        " cafebabe-0000-4000-8000-00000000000a",
        "cafebabe-0000-4000-8000-00000000000a ",
        "cafebabe-0000-4000-8000-00000000000",
        "cafebabe-0000-4000-8000-00000000000g",
        "{cafebabe-0000-4000-8000-00000000000a)",
        "{cafebabe-0000-4000-8000-00000000000a",
        "{cafebabe00004000800000000000000a}",
        "{{cafebabe-0000-4000-8000-00000000000a}}",
        "urn:uuid:cafebabe-0000-4000-8000-00000000000a",
        "cafebabe-00004000-8000-00000000-0000a",
        "éafebabe-0000-4000-8000-00000000000a",
        "(é)",
    ];
    for text in invalid {
        assert_eq!(LeaseId::parse(text), None, "{text}");
    }
}

#[test]
fn debug_keeps_the_secret() {
    assert_eq!(format!("{:?}", LeaseId::from_random([7; 16])), "LeaseId(..)");
}
