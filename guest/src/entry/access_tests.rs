use super::*;

fn access(token: &str, open: &str) -> Access {
    Access::from_variables(|name| {
        Some(if name == variable::TOKEN { token } else { open }.to_string())
    })
}

#[test]
fn only_the_token_is_admitted() {
    let access = access(" s3cret ", "");
    let check = |header: &str| access.check(Some(header.as_bytes()));
    assert_eq!(check("Bearer s3cret"), Admission::Granted);
    assert_eq!(check("bearer  s3cret"), Admission::Granted);
    for wrong in
        ["", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "s3cret", "Basic s3cret"]
    {
        assert_eq!(check(wrong), Admission::Denied, "{wrong}");
    }
    assert_eq!(access.check(None), Admission::Denied);
}

#[test]
fn without_a_token_access_is_closed_unless_open_is_set() {
    assert_eq!(access("", "").check(Some(b"Bearer ")), Admission::Closed);
    assert_eq!(access(" ", "false").check(None), Admission::Closed);
    assert_eq!(access("", "yes").check(None), Admission::Closed);
    assert_eq!(access("a", "true").check(Some(b"Bearer a")), Admission::Closed);
    assert_eq!(access("", "true").check(None), Admission::Granted);
    assert_eq!(access("a", "false").check(Some(b"Bearer a")), Admission::Granted);
}
