use proptest::prelude::*;

use super::*;
use crate::record::text::is_allowed_text;

fn record() -> Record {
    Record {
        term: 1_795_000_001,
        leader: "web 1/ü=ß;%".into(),
        nonce: 0x00ab_cdef_0123_4567,
        since: Timestamp::parse("2026-11-20T07:00:00Z").unwrap(),
        address: Some("http://10.0.0.4:8080/".into()),
        schedule: Some("every 5s".into()),
        delay: Duration::from_millis(1_250),
        last_slot: Some(LastSlot {
            slot: Timestamp::parse("2026-11-20T07:00:05Z").unwrap(),
            attempt: 1,
        }),
        delivery: Delivery::AtLeastOnce { max_attempts: 7 },
        finished: Some(Finished {
            slot: Timestamp::parse("2026-11-20T07:00:00Z").unwrap(),
            outcome: Outcome::CutOff,
        }),
        success: Some(ended(Outcome::Succeeded, Some(12_345))),
        failure: Some(ended(Outcome::NotStarted, None)),
        failure_detail: Some(FailureDetail {
            at: Timestamp::parse("2026-11-19T07:00:12.345Z").unwrap(),
            candidate: "web 2/ü".into(),
            reason: "exit code 3: \"no such table\"".into(),
        }),
        missed: Some(MissedSlots {
            slot: Timestamp::parse("2026-11-20T06:00:00Z").unwrap(),
            count: 12,
        }),
        triggers: Triggers {
            newest: Some(Started {
                id: "again-7".into(),
                slot: Timestamp::parse("2026-11-20T07:00:03.007Z").unwrap(),
                attempt: 1,
                delivery: Delivery::AtMostOnce,
                outcome: None,
            }),
            term: 1_795_000_001,
            earlier: vec![(0, None), (u64::MAX, Some(Outcome::NotStarted))],
        },
        successor: Some("web 2".into()),
        refusal: Some(Refusal {
            id: "f00d".into(),
            has_begun: true,
            reason: "the work did not end in time".into(),
        }),
        orders_term: Some(1_795_000_001),
        beat: Some(Beat { number: 8, promise: Duration::from_millis(2_100) }),
        coordinator_term: Some(1_794_999_999),
        changes: 41,
        history: History::parse("5 6 web 3\n4 5 ü").unwrap(),
        unknown: Metadata::from_iter([("tenurelater", "kept%20so")]),
    }
}

fn ended(outcome: Outcome, took: Option<u64>) -> Ended {
    let slot = Timestamp::parse("2026-11-19T07:00:00Z").unwrap();
    let at = Timestamp::parse("2026-11-19T07:00:12.345Z").unwrap();
    let end = End { outcome, at, took: took.map(Duration::from_millis) };
    Ended { slot, triggered: false, end }
}

fn metadata(fields: &[(&str, &str)]) -> Metadata {
    fields.iter().copied().collect()
}

#[test]
fn record_round_trips_and_keeps_unknown_fields() {
    let written = record().to_metadata();
    assert_eq!(Record::from_metadata(&written), Ok(Some(record())));
    assert_eq!(written.get("tenurelater"), Some("kept%20so"));
    assert_eq!(written.get("tenureleader"), Some("web%201/%C3%BC%3D%C3%9F%3B%25"));
}

/// Blobs hold such records: a later version of this format has to read this one.
#[test]
fn a_record_of_this_format_is_written_and_read_as_before() {
    let text = include_str!("fixtures/format-1.txt");
    let fields: Metadata = text.lines().map(|line| line.split_once(": ").unwrap()).collect();
    assert_eq!(Record::from_metadata(&fields), Ok(Some(record())));
    assert_eq!(record().to_metadata(), fields);
}

/// Written by the new version after an update, and read by the old one.
#[test]
fn an_outcome_of_a_newer_version_goes_when_its_slot_is_claimed_again() {
    let mut fields = record().to_metadata();
    fields.insert("tenureoutcome".into(), "postponed".into());
    let mut read = Record::from_metadata(&fields).unwrap().unwrap();
    assert_eq!(read.finished, None);
    let slot = record().finished.unwrap().slot;
    let outcome_fields = ["tenureoutcomeslot", "tenureoutcome"];
    read.forget_end(slot.plus(Duration::from_secs(1)));
    assert!(outcome_fields.iter().all(|name| read.to_metadata().get(name) == fields.get(name)));
    read.forget_end(slot);
    assert!(outcome_fields.iter().all(|name| read.to_metadata().get(name).is_none()));
}

#[test]
fn a_trigger_with_an_outcome_of_a_newer_version_spoils_no_record() {
    let mut fields = record().to_metadata();
    fields.insert("tenuretriggerhistory".into(), "00000000000000017.00000000000000020".into());
    let earlier = Record::from_metadata(&fields).unwrap().unwrap().triggers.earlier;
    assert_eq!(earlier, [(1, None), (2, Some(Outcome::Succeeded))]);
    fields.insert("tenuretriggerhistory".into(), "0000000000000001x".into());
    assert!(Record::from_metadata(&fields).is_err());
}

#[test]
fn ended_turns_round_trip_and_invalid_text_is_none() {
    let written = record().to_metadata();
    let success = "2026-11-19T07:00:00Z/2026-11-19T07:00:12.345Z/12345/succeeded";
    assert_eq!(written.get("tenuresuccess"), Some(success));
    let failure = "2026-11-19T07:00:00Z/2026-11-19T07:00:12.345Z//not-started";
    assert_eq!(written.get("tenurefailure"), Some(failure));
    let triggered = record().success.map(|success| Ended { triggered: true, ..success });
    let of_trigger = Record { success: triggered, ..record() }.to_metadata();
    assert_eq!(of_trigger.get("tenuresuccess"), Some(format!("{success}/trigger").as_str()));
    assert_eq!(Record::from_metadata(&of_trigger).unwrap().unwrap().success, triggered);
    for other in ["", "/", "2026-11-19T07:00:00Z", &success.replace("succeeded", "undone")] {
        let mut changed = written.clone();
        changed.insert("tenuresuccess".into(), other.into());
        let read = Record::from_metadata(&changed).unwrap().unwrap();
        assert_eq!((read.success, read.failure), (None, record().failure), "{other}");
    }
}

/// A leader that does not know the detail records another failure, and keeps the detail.
#[test]
fn the_detail_of_another_failure_is_none() {
    let mut written = record().to_metadata();
    let detail =
        "2026-11-19T07:00:12.345Z%0Aweb%202/%C3%BC%0Aexit%20code%203:%20%22no%20such%20table%22";
    assert_eq!(written.get("tenurefailuredetail"), Some(detail));
    assert_eq!(written.get("tenuremissed"), Some("2026-11-20T06:00:00Z/12"));
    written
        .insert("tenurefailure".into(), "2026-11-19T07:00:00Z/2026-11-19T07:00:13Z//failed".into());
    let read = Record::from_metadata(&written).unwrap().unwrap();
    assert_eq!(read.failure_detail, None);
    assert_eq!(read.unknown, record().unknown);
    for other in ["", "2026-11-19T07:00:13Z", "2026-11-19T07:00:13Z%0Aa%0Ab%0Ac"] {
        written.insert("tenurefailuredetail".into(), other.into());
        let (read, ignored) = Record::parse_with_ignored(&written).unwrap();
        assert_eq!(read.unwrap().failure_detail, None, "{other}");
        assert_eq!(ignored, ["tenurefailuredetail"], "{other}");
    }
}

#[test]
fn a_reason_is_one_line_cut_between_characters() {
    let mut record = record();
    let at = Timestamp(1_795_000_001_000_000_000);
    let end = End { outcome: Outcome::Failed, at, took: None };
    record.put_outcome(Kind::Slot, end);
    let reason = |record: &Record| record.failure_detail.clone().unwrap().reason;
    assert_eq!(reason(&record), "");
    record.put_reason(end, " exit code 3\r\n\u{1b}[31mno\ttable\u{202e} ");
    assert_eq!(reason(&record), "exit code 3 [31mno table");
    record.put_reason(end, &"ü".repeat(150));
    assert_eq!(reason(&record), "ü".repeat(100));
    record.put_reason(end, &format!("x{}", "ü".repeat(150)));
    assert_eq!(reason(&record), format!("x{}", "ü".repeat(99)));
    assert_eq!(Record::from_metadata(&record.to_metadata()).unwrap().unwrap(), record);
    assert_eq!(record.failure_detail.as_ref().unwrap().candidate, record.leader);
    // Its end was not observed, or it is another failure's.
    record.put_reason(End { at: Timestamp(0), ..end }, "late");
    assert_ne!(reason(&record), "late");
    record.last_slot = record.last_slot.map(|last| LastSlot { slot: at, ..last });
    record.put_outcome(Kind::Slot, End { outcome: Outcome::Abandoned, ..end });
    assert_eq!(record.failure_detail, None);
}

/// A read uses this to find out whether an outcome is on record.
#[test]
fn outcome_round_trips_at_any_time() {
    let (at, took) =
        (Timestamp(1_795_000_001_234_567_890), Some(Duration::from_nanos(950_950_950)));
    for kind in [Kind::Slot, Kind::Trigger] {
        for outcome in [Outcome::Succeeded, Outcome::Failed] {
            let mut written = record();
            written.put_outcome(kind, End { outcome, at, took });
            let found = Record::from_metadata(&written.to_metadata()).unwrap().unwrap();
            assert!(found.is_result_of(&written), "{kind:?}: {:?}", (found.success, found.failure));
        }
    }
}

/// One slot, a later attempt at it, and work that lasts.
#[test]
fn newest_success_and_failure_are_both_kept() {
    let slot = |n: u64| Timestamp(n * 1_000_000_000);
    let claimed = |n| Some(LastSlot { slot: slot(n), attempt: 1 });
    let end = |n, outcome| {
        let took = (outcome != Outcome::Abandoned).then_some(Duration::from_secs(2));
        End { outcome, at: slot(n), took }
    };
    let mut record = Record { last_slot: claimed(60), success: None, failure: None, ..record() };
    record.put_outcome(Kind::Slot, end(62, Outcome::Succeeded));
    let first = Some(Ended { slot: slot(60), triggered: false, end: end(62, Outcome::Succeeded) });
    assert_eq!((record.success, record.failure), (first, None));
    record.last_slot = claimed(120);
    record.put_outcome(Kind::Slot, end(122, Outcome::Failed));
    let failed = Some(Ended { slot: slot(120), triggered: false, end: end(122, Outcome::Failed) });
    assert_eq!((record.success, record.failure), (first, failed));
    record.put_outcome(Kind::Slot, end(123, Outcome::Abandoned));
    assert_eq!(record.failure, failed, "the last attempt tells how long it ran");
    assert_eq!(record.finished.unwrap().outcome, Outcome::Abandoned);
    record.last_slot = claimed(180);
    record.put_outcome(Kind::Slot, end(181, Outcome::Abandoned));
    assert_eq!(record.failure.unwrap().slot, slot(180), "nobody saw its end");
    let trigger_slot = record.triggers.newest.clone().unwrap().slot;
    record.put_outcome(Kind::Trigger, end(190, Outcome::CutOff));
    let cut = Ended { slot: trigger_slot, triggered: true, end: end(190, Outcome::CutOff) };
    assert_eq!(record.failure.unwrap(), cut);
    record.schedule = Some("while leading".into());
    record.put_outcome(Kind::Slot, end(200, Outcome::CutOff));
    assert_eq!(record.failure.unwrap().slot, trigger_slot, "it lasted as long as it was to");
}

#[test]
fn a_beat_counts_for_the_term_that_it_was_written_in() {
    let written = record().to_metadata();
    for (field, value) in [
        ("tenureheartbeatterm", Some("1795000000")),
        ("tenureheartbeatterm", None),
        ("tenurefailoverwindow", None),
        ("tenureheartbeat", None),
        // No settings produce this promise.
        ("tenurefailoverwindow", Some("699")),
        ("tenurefailoverwindow", Some("7001")),
    ] {
        let mut changed = written.clone();
        match value {
            Some(value) => changed.insert(field.into(), value.into()),
            None => {
                changed.remove(field);
            }
        }
        assert_eq!(
            Record::from_metadata(&changed).unwrap().unwrap().beat,
            None,
            "{field} {value:?}"
        );
    }
}

/// Every text has the maximum length that settings allow, and all of its bytes are encoded.
#[test]
fn the_largest_record_is_read_too() {
    let text = |bytes: usize| "ü".repeat(bytes / 2);
    let mut largest = Record {
        term: 1 << 40,
        leader: text(128),
        nonce: u64::MAX,
        address: Some(text(256)),
        schedule: Some(format!("cron {} America/Argentina/Buenos_Aires", "* ".repeat(128))),
        successor: Some(text(128)),
        changes: u64::MAX,
        unknown: Metadata::default(),
        ..record()
    };
    for n in 10..40 {
        let (id, delivery) = (format!("{n}{}", "x".repeat(62)), largest.delivery);
        let (slot, outcome) = (largest.since, Some(Outcome::TimedOut));
        largest.start(Started { id, slot, attempt: u32::MAX, delivery, outcome });
    }
    for term in 0..20 {
        largest.term -= 1;
        largest.leader = format!("{}{term:02}", text(126));
        largest.enter_history();
    }
    assert!(!largest.history.leaders().is_empty());
    let written = largest.to_metadata();
    let size: usize = written.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!((4_000..6_000).contains(&size), "{size}");
    assert_eq!(Record::from_metadata(&written), Ok(Some(largest)));
}

#[test]
fn every_outcome_is_read_as_it_was_written() {
    for outcome in Outcome::ALL {
        let finished = Some(Finished { outcome, ..record().finished.unwrap() });
        let record = Record { finished, ..record() };
        assert_eq!(Record::from_metadata(&record.to_metadata()), Ok(Some(record)), "{outcome:?}");
    }
}

#[test]
fn an_outcome_of_a_newer_version_is_kept_until_another_one_is_written() {
    let mut newer = record().to_metadata();
    newer.insert("tenureoutcome".into(), "handed-over".into());
    let read = Record::from_metadata(&newer).unwrap().unwrap();
    assert_eq!(read.finished, None);
    assert_eq!(read.to_metadata(), newer);
    let expected = Record { finished: record().finished, ..read };
    assert_eq!(expected.to_metadata(), record().to_metadata());
    newer.remove("tenureoutcomeslot");
    assert_eq!(Record::from_metadata(&newer).unwrap().unwrap().to_metadata(), newer);
}

#[test]
fn a_word_about_another_claim_is_not_kept() {
    let mut newer = record().to_metadata();
    newer.insert("tenuretriggeroutcome".into(), "handed-over".into());
    let mut read = Record::from_metadata(&newer).unwrap().unwrap();
    assert_eq!(read.to_metadata(), newer);
    let started = record().triggers.newest.unwrap();
    read.start(Started { id: "v2".into(), outcome: None, ..started });
    assert_eq!(read.to_metadata().get("tenuretriggeroutcome"), None);
}

#[test]
fn names_are_lower_case_letters_and_values_plain_ascii() {
    for (name, value) in record().to_metadata().iter() {
        assert!(name.bytes().all(|b| b.is_ascii_lowercase()), "{name}");
        assert!(value.bytes().all(|b| b.is_ascii_graphic()), "{value}");
    }
}

#[test]
fn nothing_is_no_record() {
    assert_eq!(Record::from_metadata(&Metadata::default()), Ok(None));
}

/// No decision depends on these, so they exclude no candidate.
#[test]
fn unreadable_informational_fields_count_as_absent() {
    for value in ["x", "%ff"] {
        let (mut garbled, mut expected) = (record().to_metadata(), record());
        let names = ["tenuredelay", "tenuresuccess", "tenurefailure"];
        for name in names.into_iter().chain(["tenurefailuredetail", "tenuremissed"]) {
            garbled.insert(name.into(), value.into());
        }
        (expected.delay, expected.success, expected.failure) = (Duration::ZERO, None, None);
        (expected.failure_detail, expected.missed) = (None, None);
        assert_eq!(Record::from_metadata(&garbled), Ok(Some(expected)), "{value}");
    }
}

#[test]
fn foreign_metadata_is_refused() {
    let foreign = metadata(&[("hdi_isfolder", "true"), ("owner", "x")]);
    let names = vec!["hdi_isfolder".to_string(), "owner".to_string()];
    assert_eq!(Record::from_metadata(&foreign), Err(RecordError::Foreign(names)));
    let newer = metadata(&[("tenureformat", "2")]);
    assert_eq!(Record::from_metadata(&newer), Err(RecordError::Format("2".into())));
    let mut older = newer;
    older.insert("tenureformat".into(), "0".into());
    assert_eq!(Record::from_metadata(&older), Err(RecordError::Format("0".into())));
    for (name, value) in [
        ("tenureformat", "one"),
        ("tenureterm", "-1"),
        ("tenureterm", "18446744073709551616"),
        ("tenureleader", "%ff"),
        ("tenurenonce", "xyz"),
        ("tenuresince", "yesterday"),
        ("tenureslot", "07:00"),
        ("tenureattempt", "many"),
        ("tenureoutcomeslot", ""),
        ("tenureoutcome", "%ff"),
        ("tenuretrigger", "%ff"),
        ("tenuretriggerslot", "then"),
        ("tenuretriggerattempt", "-"),
        ("tenuretriggeroutcome", "%ff"),
        ("tenuretriggerhistory", "1.two"),
        ("tenuremaxattempts", "some"),
        ("tenuretriggermaxattempts", "-1"),
        ("tenurelater", &"x".repeat(8192)),
    ] {
        let mut garbled = record().to_metadata();
        garbled.insert(name.into(), value.into());
        let read = Record::from_metadata(&garbled);
        assert!(matches!(read, Err(RecordError::Malformed(_))), "{name}={value}: {read:?}");
    }
    let mut missing = record().to_metadata();
    missing.remove("tenureterm");
    let error = Err(RecordError::Malformed("tenureterm (missing)".into()));
    assert_eq!(Record::from_metadata(&missing), error);
}

proptest! {
    #[test]
    fn any_metadata_is_validated(fields in proptest::collection::btree_map("[a-z]{0,14}", ".{0,40}", 0..8)) {
        let fields = Metadata::from_iter(fields);
        let foreign = !fields.is_empty() && fields.get("tenureformat").is_none();
        prop_assert_eq!(matches!(Record::from_metadata(&fields), Err(RecordError::Foreign(_))), foreign);
    }

    #[test]
    fn any_name_survives_that_settings_allow(name in ".{0,64}") {
        let fits = is_allowed_text(&name, 128);
        let written = Record { leader: name, ..record() };
        let read = Record::from_metadata(&written.to_metadata()).unwrap().unwrap();
        prop_assert_eq!(read.leader == written.leader, fits);
        prop_assert_eq!(&read.leader == "unnamed", !fits);
        let others = Record { leader: String::new(), ..written };
        prop_assert_eq!(Record { leader: String::new(), ..read }, others);
    }
}
