use proptest::prelude::*;

use super::super::text::is_fit;
use super::*;

fn record() -> Record {
    Record {
        term: 1_795_000_001,
        leader: "web 1/ü=ß;%".into(),
        nonce: 0x00ab_cdef_0123_4567,
        since: Timestamp::parse("2026-11-20T07:00:00Z").unwrap(),
        address: Some("http://10.0.0.4:8080/".into()),
        schedule: Some("every 5s".into()),
        delay: Duration::from_millis(1_250),
        last: Some(LastSlot {
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
            begun: true,
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
fn reads_what_it_writes_and_keeps_unknown_fields() {
    let written = record().write();
    assert_eq!(Record::read(&written), Ok(Some(record())));
    assert_eq!(written.get("tenurelater"), Some("kept%20so"));
    assert_eq!(written.get("tenureleader"), Some("web%201/%C3%BC%3D%C3%9F%3B%25"));
}

/// Blobs hold such records: a later version of this format has to read this one.
#[test]
fn a_record_of_this_format_is_written_and_read_as_before() {
    let text = include_str!("fixtures/format-1.txt");
    let fields: Metadata = text.lines().map(|line| line.split_once(": ").unwrap()).collect();
    assert_eq!(Record::read(&fields), Ok(Some(record())));
    assert_eq!(record().write(), fields);
}

/// Written by the version after an update, and read by the one before it.
#[test]
fn an_outcome_of_a_newer_version_goes_when_its_slot_is_claimed_again() {
    let mut fields = record().write();
    fields.insert("tenureoutcome".into(), "postponed".into());
    let mut read = Record::read(&fields).unwrap().unwrap();
    assert_eq!(read.finished, None);
    let slot = record().finished.unwrap().slot;
    let kept = ["tenureoutcomeslot", "tenureoutcome"];
    read.forget_end(slot.plus(Duration::from_secs(1)));
    assert!(kept.iter().all(|name| read.write().get(name) == fields.get(name)));
    read.forget_end(slot);
    assert!(kept.iter().all(|name| read.write().get(name).is_none()));
}

#[test]
fn a_trigger_with_an_outcome_of_a_newer_version_spoils_no_record() {
    let mut fields = record().write();
    fields.insert("tenuretriggerhistory".into(), "00000000000000017.00000000000000020".into());
    let earlier = Record::read(&fields).unwrap().unwrap().triggers.earlier;
    assert_eq!(earlier, [(1, None), (2, Some(Outcome::Succeeded))]);
    fields.insert("tenuretriggerhistory".into(), "0000000000000001x".into());
    assert!(Record::read(&fields).is_err());
}

#[test]
fn the_last_turns_that_ended_are_told_in_words_and_what_is_no_end_is_none() {
    let written = record().write();
    let success = "2026-11-19T07:00:00Z/2026-11-19T07:00:12.345Z/12345/succeeded";
    assert_eq!(written.get("tenuresuccess"), Some(success));
    let failure = "2026-11-19T07:00:00Z/2026-11-19T07:00:12.345Z//not-started";
    assert_eq!(written.get("tenurefailure"), Some(failure));
    let triggered = record().success.map(|success| Ended { triggered: true, ..success });
    let of_trigger = Record { success: triggered, ..record() }.write();
    assert_eq!(of_trigger.get("tenuresuccess"), Some(format!("{success}/trigger").as_str()));
    assert_eq!(Record::read(&of_trigger).unwrap().unwrap().success, triggered);
    for other in ["", "/", "2026-11-19T07:00:00Z", &success.replace("succeeded", "undone")] {
        let mut changed = written.clone();
        changed.insert("tenuresuccess".into(), other.into());
        let read = Record::read(&changed).unwrap().unwrap();
        assert_eq!((read.success, read.failure), (None, record().failure), "{other}");
    }
}

/// A leader that does not know the detail records another failure, and carries the detail on.
#[test]
fn the_detail_of_another_failure_is_none() {
    let mut written = record().write();
    let detail =
        "2026-11-19T07:00:12.345Z%0Aweb%202/%C3%BC%0Aexit%20code%203:%20%22no%20such%20table%22";
    assert_eq!(written.get("tenurefailuredetail"), Some(detail));
    assert_eq!(written.get("tenuremissed"), Some("2026-11-20T06:00:00Z/12"));
    written
        .insert("tenurefailure".into(), "2026-11-19T07:00:00Z/2026-11-19T07:00:13Z//failed".into());
    let read = Record::read(&written).unwrap().unwrap();
    assert_eq!(read.failure_detail, None);
    assert_eq!(read.unknown, record().unknown);
    for other in ["", "2026-11-19T07:00:13Z", "2026-11-19T07:00:13Z%0Aa%0Ab%0Ac"] {
        written.insert("tenurefailuredetail".into(), other.into());
        let (read, ignored) = Record::parse(&written).unwrap();
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
    assert_eq!(Record::read(&record.write()).unwrap().unwrap(), record);
    assert_eq!(record.failure_detail.as_ref().unwrap().candidate, record.leader);
    // Its end was not seen, or it is another failure's.
    record.put_reason(End { at: Timestamp(0), ..end }, "late");
    assert_ne!(reason(&record), "late");
    record.last = record.last.map(|last| LastSlot { slot: at, ..last });
    record.put_outcome(Kind::Slot, End { outcome: Outcome::Abandoned, ..end });
    assert_eq!(record.failure_detail, None);
}

/// A read tells by that whether an outcome is on record.
#[test]
fn an_outcome_reads_back_as_it_was_put_whatever_the_clock_says() {
    let (at, took) =
        (Timestamp(1_795_000_001_234_567_890), Some(Duration::from_nanos(950_950_950)));
    for kind in [Kind::Slot, Kind::Trigger] {
        for outcome in [Outcome::Succeeded, Outcome::Failed] {
            let mut written = record();
            written.put_outcome(kind, End { outcome, at, took });
            let found = Record::read(&written.write()).unwrap().unwrap();
            assert!(found.shows(&written), "{kind:?}: {:?}", (found.success, found.failure));
        }
    }
}

/// Of one slot, of a later attempt at it, and of work that lasts.
#[test]
fn what_ended_well_and_what_did_not_is_kept_side_by_side() {
    let slot = |n: u64| Timestamp(n * 1_000_000_000);
    let claimed = |n| Some(LastSlot { slot: slot(n), attempt: 1 });
    let end = |n, outcome| {
        let took = (outcome != Outcome::Abandoned).then_some(Duration::from_secs(2));
        End { outcome, at: slot(n), took }
    };
    let mut record = Record { last: claimed(60), success: None, failure: None, ..record() };
    record.put_outcome(Kind::Slot, end(62, Outcome::Succeeded));
    let first = Some(Ended { slot: slot(60), triggered: false, end: end(62, Outcome::Succeeded) });
    assert_eq!((record.success, record.failure), (first, None));
    record.last = claimed(120);
    record.put_outcome(Kind::Slot, end(122, Outcome::Failed));
    let failed = Some(Ended { slot: slot(120), triggered: false, end: end(122, Outcome::Failed) });
    assert_eq!((record.success, record.failure), (first, failed));
    record.put_outcome(Kind::Slot, end(123, Outcome::Abandoned));
    assert_eq!(record.failure, failed, "the last attempt tells how long it ran");
    assert_eq!(record.finished.unwrap().outcome, Outcome::Abandoned);
    record.last = claimed(180);
    record.put_outcome(Kind::Slot, end(181, Outcome::Abandoned));
    assert_eq!(record.failure.unwrap().slot, slot(180), "nobody saw its end");
    let asked = record.triggers.newest.clone().unwrap().slot;
    record.put_outcome(Kind::Trigger, end(190, Outcome::CutOff));
    let cut = Ended { slot: asked, triggered: true, end: end(190, Outcome::CutOff) };
    assert_eq!(record.failure.unwrap(), cut);
    record.schedule = Some("while leading".into());
    record.put_outcome(Kind::Slot, end(200, Outcome::CutOff));
    assert_eq!(record.failure.unwrap().slot, asked, "it lasted as long as it was to");
}

#[test]
fn a_beat_counts_for_the_term_that_it_was_written_in() {
    let written = record().write();
    for (field, value) in [
        ("tenureheartbeatterm", Some("1795000000")),
        ("tenureheartbeatterm", None),
        ("tenurefailoverwindow", None),
        ("tenureheartbeat", None),
        // No settings make a leader promise that.
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
        assert_eq!(Record::read(&changed).unwrap().unwrap().beat, None, "{field} {value:?}");
    }
}

/// Every text as long as the settings let it be, and none of its bytes one that is kept as it is.
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
    let written = largest.write();
    let size: usize = written.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!((4_000..6_000).contains(&size), "{size}");
    assert_eq!(Record::read(&written), Ok(Some(largest)));
}

#[test]
fn every_outcome_is_read_as_it_was_written() {
    for outcome in Outcome::ALL {
        let finished = Some(Finished { outcome, ..record().finished.unwrap() });
        let record = Record { finished, ..record() };
        assert_eq!(Record::read(&record.write()), Ok(Some(record)), "{outcome:?}");
    }
}

#[test]
fn an_outcome_of_a_newer_version_is_kept_until_another_one_is_written() {
    let mut newer = record().write();
    newer.insert("tenureoutcome".into(), "handed-over".into());
    let read = Record::read(&newer).unwrap().unwrap();
    assert_eq!(read.finished, None);
    assert_eq!(read.write(), newer);
    let ours = Record { finished: record().finished, ..read };
    assert_eq!(ours.write(), record().write());
    newer.remove("tenureoutcomeslot");
    assert_eq!(Record::read(&newer).unwrap().unwrap().write(), newer);
}

#[test]
fn a_word_about_another_claim_is_not_kept() {
    let mut newer = record().write();
    newer.insert("tenuretriggeroutcome".into(), "handed-over".into());
    let mut read = Record::read(&newer).unwrap().unwrap();
    assert_eq!(read.write(), newer);
    let started = record().triggers.newest.unwrap();
    read.start(Started { id: "v2".into(), outcome: None, ..started });
    assert_eq!(read.write().get("tenuretriggeroutcome"), None);
}

#[test]
fn names_are_lower_case_letters_and_values_plain_ascii() {
    for (name, value) in record().write().iter() {
        assert!(name.bytes().all(|b| b.is_ascii_lowercase()), "{name}");
        assert!(value.bytes().all(|b| b.is_ascii_graphic()), "{value}");
    }
}

#[test]
fn nothing_is_no_record() {
    assert_eq!(Record::read(&Metadata::default()), Ok(None));
}

/// Nothing follows from these, so they keep nobody out.
#[test]
fn what_only_tells_people_is_as_if_it_were_not_there_when_it_cannot_be_read() {
    for value in ["x", "%ff"] {
        let (mut garbled, mut expected) = (record().write(), record());
        let names = ["tenuredelay", "tenuresuccess", "tenurefailure"];
        for name in names.into_iter().chain(["tenurefailuredetail", "tenuremissed"]) {
            garbled.insert(name.into(), value.into());
        }
        (expected.delay, expected.success, expected.failure) = (Duration::ZERO, None, None);
        (expected.failure_detail, expected.missed) = (None, None);
        assert_eq!(Record::read(&garbled), Ok(Some(expected)), "{value}");
    }
}

#[test]
fn refuses_what_is_not_its_own() {
    let foreign = metadata(&[("hdi_isfolder", "true"), ("owner", "x")]);
    let names = vec!["hdi_isfolder".to_string(), "owner".to_string()];
    assert_eq!(Record::read(&foreign), Err(RecordError::Foreign(names)));
    let newer = metadata(&[("tenureformat", "2")]);
    assert_eq!(Record::read(&newer), Err(RecordError::Format("2".into())));
    let mut older = newer;
    older.insert("tenureformat".into(), "0".into());
    assert_eq!(Record::read(&older), Err(RecordError::Format("0".into())));
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
        let mut garbled = record().write();
        garbled.insert(name.into(), value.into());
        let read = Record::read(&garbled);
        assert!(matches!(read, Err(RecordError::Garbled(_))), "{name}={value}: {read:?}");
    }
    let mut missing = record().write();
    missing.remove("tenureterm");
    let error = Err(RecordError::Garbled("tenureterm (missing)".into()));
    assert_eq!(Record::read(&missing), error);
}

proptest! {
    #[test]
    fn any_metadata_is_judged(fields in proptest::collection::btree_map("[a-z]{0,14}", ".{0,40}", 0..8)) {
        let fields = Metadata::from_iter(fields);
        let foreign = !fields.is_empty() && fields.get("tenureformat").is_none();
        prop_assert_eq!(matches!(Record::read(&fields), Err(RecordError::Foreign(_))), foreign);
    }

    #[test]
    fn any_name_survives_that_settings_allow(name in ".{0,64}") {
        let fits = is_fit(&name, 128);
        let written = Record { leader: name, ..record() };
        let read = Record::read(&written.write()).unwrap().unwrap();
        prop_assert_eq!(read.leader == written.leader, fits);
        prop_assert_eq!(&read.leader == "unnamed", !fits);
        let others = Record { leader: String::new(), ..written };
        prop_assert_eq!(Record { leader: String::new(), ..read }, others);
    }
}
