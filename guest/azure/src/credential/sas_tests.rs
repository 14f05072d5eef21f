use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn nothing_panics(
        text in "[ -~é]{0,60}|([?&]?(sp|sv|sr|ss|srt|st|se|spr|sig|si)=[a-z0-9:%T-]{0,20}&?){0,8}",
        now in -1_000_000_000_000_i64..1_000_000_000_000,
    ) {
        match Sas::parse(&text) {
            Ok(sas) => {
                let _ = sas.validity_note(DateTime::from_timestamp(now, 0).unwrap_or_default());
                prop_assert!(!sas.query().is_empty());
            }
            Err(problems) => prop_assert!(!problems.is_empty()),
        }
    }
}

const GOOD: &str = "sp=rcw&st=2026-01-01T00:00:00Z&se=2027-01-01T00:00:00Z&spr=https&sv=2022-11-02&sr=c&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k%3D";

const SIGNATURE: &str = "c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k=";

fn problems(text: &str) -> Vec<String> {
    Sas::parse(text).unwrap_err().into_iter().map(|problem| problem.problem).collect()
}

#[test]
fn every_kind_is_taken() {
    for good in [
        GOOD,
        &format!(" ?{GOOD}\n"),
        &format!("sv=2022-11-02&ss=bfqt&srt=sco&sp=rwdlacupiytfx&se=2027-01-01&sig={SIGNATURE}"),
        &format!("sv=2022-11-02&sr=b&si=policy&sig={SIGNATURE}"),
        &format!(
            "skoid=1&sktid=2&skt=3&ske=4&sks=b&skv=2022-11-02&sp=rw&sv=2022-11-02&sr=b&sig={SIGNATURE}"
        ),
        &format!("sv=2022-11-02&sr=b&sp=r&sig={SIGNATURE}"),
    ] {
        assert!(Sas::parse(good).is_ok(), "{good}: {:?}", problems(good));
    }
    assert_eq!(Sas::parse(&format!("?{GOOD}")).unwrap().query(), GOOD);
    assert!(Sas::parse(GOOD).unwrap().is_https_only());
}

#[test]
fn unusable_sas_is_rejected() {
    for (text, expected) in [
        ("", vec!["is empty"]),
        ("?", vec!["is empty"]),
        ("sv=1&sr=c&sp=rw&sig=a b", vec!["characters that cannot be in one"]),
        ("sv=1&sr=c&sp=rw&sig=a+b", vec!["characters that cannot be in one"]),
        ("sig=<sig>", vec!["no sv", "neither sr nor ss", "does not permit reading (r)"]),
        ("sv=1&sr=c&sp=wl&sig=<sig>", vec!["does not permit reading (r)"]),
        ("sv=1&sr=s&sp=rw&sig=", vec!["no sig", "neither a blob nor a container"]),
        ("sv=1&ss=q&srt=sc&sp=rw&sig=<sig>", vec!["ss has no b", "srt has no o"]),
        ("sv=1&sr=c&sp=rw&sig=<sig>&comp=lease", vec!["parameter comp"]),
        ("sv=1&sr=c&sp=rw&sig=c2ln", vec!["is not Base64 of 32 bytes"]),
        ("sv=1&sr=c&sp=rw&sig=<sig>Q", vec!["is not Base64 of 32 bytes"]),
        ("sv=1&sr=c&sp=rw&sig=<twice>", vec!["is percent-encoded twice"]),
    ] {
        let twice = SIGNATURE.replace('=', "%253D");
        let problems = problems(&text.replace("<sig>", SIGNATURE).replace("<twice>", &twice));
        assert_eq!(problems.len(), expected.len(), "{text}: {problems:?}");
        for (problem, part) in problems.iter().zip(expected) {
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}

#[test]
fn validity_note_shows_start_and_expiry() {
    let now = DateTime::from_timestamp(1_767_225_600, 0).unwrap(); // 2026-01-01T00:00:00Z
    for (times, expected) in [
        ("se=2025-12-31T00%3A00%3A00Z", "has expired, at 2025-12-31T00:00:00Z"),
        ("se=2026-01-01", "has expired, at 2026-01-01T00:00:00Z"),
        ("se=2026-01-01T00:01Z", "expires at 2026-01-01T00:01:00Z"),
        ("st=2026-02-01T00:00:00Z&se=2026-03-01", "not valid before 2026-02-01T00:00:00Z"),
    ] {
        let sas = Sas::parse(&format!("sp=rw&{times}&sv=1&sr=c&sig={SIGNATURE}")).unwrap();
        let note = sas.validity_note(now).unwrap();
        assert!(note.contains(expected), "{times}: {note}");
    }
    let by_policy = Sas::parse(&format!("si=policy&sv=1&sr=c&sig={SIGNATURE}")).unwrap();
    assert_eq!(by_policy.validity_note(now), None);
}

#[test]
fn nothing_of_it_is_printed() {
    let secret = "c2VjcmV0";
    assert_eq!(format!("{:?}", Sas::parse(GOOD).unwrap()), "Sas(Secret(..))");
    for text in [
        format!("sv={secret}"),
        format!("{secret} {secret}"),
        format!("{secret}={secret}&sr={secret}"),
    ] {
        let printed = format!("{:?}", Sas::parse(&text).unwrap_err());
        assert!(!printed.contains(secret), "{printed}");
    }
}
