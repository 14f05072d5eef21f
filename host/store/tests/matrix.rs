//! Compares the embedded store with the service, in each case of the lease matrix with known
//! behaviour of Azure.
//!
//! An id names one case of a probe. The probe ran against an emulator, and its results were
//! compared with what Microsoft documents, tests and records of the service. The expected result is
//! the service's, also if the emulator differs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod store;

use store::script::{Scene, id};
use store::send::{Direct, Transport, Wire};
use tenure_store::Response;

/// An id, a script (see `store/script.rs`), and the expected response: a status, accepted error
/// codes, response headers.
type Row = (&'static str, &'static str, &'static str);

const MISMATCH: &str = "409 LeaseIdMismatchWithLeaseOperation";
const NOT_PRESENT: &str = "409 LeaseNotPresentWithLeaseOperation";
const LEASED: &str = "200 status=locked state=leased duration=fixed";
const AVAILABLE: &str = "200 status=unlocked state=available duration=-";
const BREAKING: &str = "200 status=locked state=breaking duration=-";
const BROKEN: &str = "200 status=unlocked state=broken duration=-";
const BAD_VALUE: &str = "400 InvalidHeaderValue";
const NO_HEADER: &str = "400 MissingRequiredHeader";
const CONDITION: &str = "412 ConditionNotMet";
const REFUSED: &str = "403 AuthenticationFailed";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Containers and blobs.
    ("S01", "mkcontainer box=other", "201"),
    ("S02", "mkcontainer", "409 ContainerAlreadyExists"),
    ("S03", "put body=x", "201"),
    ("S04", "put body=", "201"),
    ("S05", "put none=*", "201"),
    ("S06", "put; put none=*", "409 BlobAlreadyExists"),
    ("S07", "put box=nowhere", "404 ContainerNotFound"),
    ("S08", "put; head", AVAILABLE),
    ("S09", "head", "404 BlobNotFound"),
    // Acquire.
    ("A01", "put; acquire id=A for=15", "201 id=A"),
    ("A01", "put; acquire id=A for=16", "201 id=A"),
    ("A01", "put; acquire id=A for=60", "201 id=A"),
    ("A01", "put; acquire id=A for=-1", "201 id=A"),
    ("A01", "put; acquire id=A for=14", BAD_VALUE),
    ("A01", "put; acquire id=A for=61", BAD_VALUE),
    ("A01", "put; acquire id=A for=0", BAD_VALUE),
    ("A01", "put; acquire id=A for=1", BAD_VALUE),
    ("A01", "put; acquire id=A for=-2", BAD_VALUE),
    ("A01", "put; acquire id=A for=abc", BAD_VALUE),
    ("A01", "put; acquire id=A for=15.5", BAD_VALUE),
    ("A01", "put; acquire id=A for=", "400"),
    ("A02", "put; acquire id=A for=nothing", NO_HEADER),
    ("A02b", "put; !acquire id=A for=nothing; head", AVAILABLE),
    ("A02c", "put; !acquire id=A for=nothing; acquire id=A", "201 id=A"),
    ("A03", "put; acquire", "201 id=some"),
    ("A04", "put; acquire id=not-a-guid", BAD_VALUE),
    ("A04", "put; acquire id=invalid", BAD_VALUE),
    ("A04", "put; acquire id=CAFEBABE-0000-4000-8000-00000000000A", "201 id=cafebabe-0000-4000-8000-00000000000a"),
    ("A04", "put; acquire id={cafebabe-0000-4000-8000-00000000000b}", "201 id=cafebabe-0000-4000-8000-00000000000b"),
    ("A04", "put; acquire id=(cafebabe-0000-4000-8000-00000000000c)", "201 id=cafebabe-0000-4000-8000-00000000000c"),
    ("A04", "put; acquire id=cafebabe00004000800000000000000d", "201 id=cafebabe-0000-4000-8000-00000000000d"),
    ("A05", "put; seize id=A", BAD_VALUE),
    ("A06", "put; no-action id=A", NO_HEADER),
    ("A08", "put; acquire id=A timeout=30", "201 id=A"),
    // Available.
    ("V01", "put; renew id=A", MISMATCH),
    ("V02", "put; release id=A", MISMATCH),
    ("V03", "put; change id=A to=B", NOT_PRESENT),
    ("V04", "put; break", NOT_PRESENT),
    ("V05", "put; put id=A", "412 LeaseNotPresentWithBlobOperation"),
    ("V06", "put; meta id=A", "412 LeaseNotPresentWithBlobOperation"),
    ("V07", "put; get id=A", "412 LeaseNotPresentWithBlobOperation"),
    // Leased.
    ("L01", "@leased; head", LEASED),
    ("L02", "put; acquire id=A for=15; acquire id=A for=60", "201 id=A"),
    ("L02", "put; acquire id=A for=15; acquire id=A for=60; wait 59; head", LEASED),
    ("L03", "@leased; acquire id=A^", "201 id=A"),
    ("L04", "@leased; acquire id=B", "409 LeaseAlreadyPresent"),
    ("L05", "@leased; acquire", "409 LeaseAlreadyPresent"),
    ("L06", "@leased; renew id=A", "200 id=A"),
    ("L06", "put; acquire id=A for=15; wait 10; renew id=A; wait 14; head", LEASED),
    ("L07", "@leased; renew id=A^", "200 id=A"),
    ("L08", "@leased; renew id=B", MISMATCH),
    ("L09", "@leased; renew", NO_HEADER),
    ("L10", "@leased; renew id=invalid", BAD_VALUE),
    ("L12", "@leased; wait 5; renew id=A; change id=A to=B; break in=20; head", "200 unchanged"),
    ("L13", "@leased; change id=A to=A", "200 id=A"),
    ("L14", "@leased; change id=A to=B", "200 id=B"),
    ("L15", "@leased; change id=A to=B; change id=A to=B", "200 id=B"),
    ("L15b", "@leased; change id=A to=B; change id=C to=B", "200 id=B"),
    ("L16", "@leased; change id=A to=B; change id=A to=C", MISMATCH),
    ("L17", "@leased; change id=A to=B; renew id=A", MISMATCH),
    ("L18", "@leased; change id=A", NO_HEADER),
    ("L19", "@leased; change id=A to=invalid", BAD_VALUE),
    ("L20", "@leased; release id=B", MISMATCH),
    ("L21", "@leased; release", NO_HEADER),
    ("L22", "@leased; release id=A", "200 id=-"),
    ("L23", "@released; release id=A", MISMATCH),
    ("L24", "@released; renew id=A", MISMATCH),
    ("L25", "@released; change id=A to=B", NOT_PRESENT),
    ("L26", "@released; break", NOT_PRESENT),
    ("L27", "@released; head", AVAILABLE),
    ("L28", "@released; acquire id=B", "201 id=B"),
    ("L29", "@infinite; wait 100000; head", "200 status=locked state=leased duration=infinite"),
    ("L30", "@infinite; renew id=A", "200 id=A"),
    ("L31", "@infinite; acquire id=A for=15", "201 id=A"),
    ("L32", "@infinite; acquire id=A for=15; head", LEASED),
    // Writes and reads of a leased blob.
    ("W01", "@leased; put", "412 LeaseIdMissing"),
    ("W01", "@leased; meta", "412 LeaseIdMissing"),
    ("W02", "@leased; put id=B", "412 LeaseIdMismatchWithBlobOperation"),
    ("W02", "@leased; meta id=B", "412 LeaseIdMismatchWithBlobOperation"),
    ("W03", "@leased; put id=A", "201"),
    ("W03", "@leased; meta id=A", "200"),
    ("W03b", "@leased; put id=A^", "201"),
    ("W04", "@leased; put id=A; meta id=A; head", LEASED),
    ("W05", "@leased; put id=A; meta id=A; renew id=A", "200 id=A"),
    ("W06", "@leased; put none=*", "412 LeaseIdMissing"),
    ("W07", "@leased; put none=* id=A", "409 BlobAlreadyExists"),
    ("W09", "@leased; meta id=A match=wrong", CONDITION),
    ("W10", "@leased; delete", "412 LeaseIdMissing"),
    ("W11", "@leased; delete id=B", "412 LeaseIdMismatchWithBlobOperation"),
    ("W12", "@leased; get", LEASED),
    ("W13", "@leased; get id=B", "412 LeaseIdMismatchWithBlobOperation"),
    ("W14", "@leased; get id=A", LEASED),
    ("W15", "@leased; head id=B", "412 LeaseIdMismatchWithBlobOperation"),
    ("W16", "put id=A", "412 LeaseNotPresentWithBlobOperation"),
    ("W21", "@leased; delete id=A; renew id=A", "404 BlobNotFound"),
    ("W22", "@leased; delete id=A; put; renew id=A", MISMATCH),
    // Missing blob or container.
    ("M01", "acquire id=A", "404 BlobNotFound"),
    ("M01", "renew id=A", "404 BlobNotFound"),
    ("M01", "release id=A", "404 BlobNotFound"),
    ("M01", "change id=A to=B", "404 BlobNotFound"),
    ("M01", "break", "404 BlobNotFound"),
    ("M02", "acquire id=A box=nowhere", "404 ContainerNotFound"),
    ("M02", "renew id=A box=nowhere", "404 ContainerNotFound"),
    ("M02", "release id=A box=nowhere", "404 ContainerNotFound"),
    ("M02", "change id=A to=B box=nowhere", "404 ContainerNotFound"),
    ("M02", "break box=nowhere", "404 ContainerNotFound"),
    // Break.
    ("B01", "@leased; break", "202 time=60"),
    ("B01", "@leased; break; head", BREAKING),
    ("B01", "@leased; break in=0", "202 time=0"),
    ("B01", "@leased; break in=0; head", BROKEN),
    ("B01", "@leased; break in=5", "202 time=5"),
    ("B01", "@leased; break in=5; head", BREAKING),
    ("B01", "@leased; break in=60", "202 time=60"),
    ("B01", "@leased; break in=60; head", BREAKING),
    ("B01", "put; acquire id=A for=15; break", "202 time=15"),
    ("B01", "put; acquire id=A for=15; break; head", BREAKING),
    ("B01", "put; acquire id=A for=15; break in=0", "202 time=0"),
    ("B01", "put; acquire id=A for=15; break in=0; head", BROKEN),
    ("B01", "put; acquire id=A for=15; break in=5", "202 time=5"),
    ("B01", "put; acquire id=A for=15; break in=5; head", BREAKING),
    ("B01", "put; acquire id=A for=15; break in=60", "202 time=15"),
    ("B01", "put; acquire id=A for=15; break in=60; head", BREAKING),
    ("B01", "@infinite; break", "202 time=0"),
    ("B01", "@infinite; break; head", BROKEN),
    ("B01", "@infinite; break in=0", "202 time=0"),
    ("B01", "@infinite; break in=0; head", BROKEN),
    ("B01", "@infinite; break in=5", "202 time=5"),
    ("B01", "@infinite; break in=5; head", BREAKING),
    ("B01", "@infinite; break in=60", "202 time=60"),
    ("B01", "@infinite; break in=60; head", BREAKING),
    ("B04", "@leased; break in=61", BAD_VALUE),
    ("B04", "@leased; break in=-1", BAD_VALUE),
    ("B04", "@leased; break in=abc", BAD_VALUE),
    ("B04", "@infinite; break in=61", BAD_VALUE),
    ("B04", "@infinite; break in=-1", BAD_VALUE),
    ("B04", "@infinite; break in=abc", BAD_VALUE),
    // The emulator breaks at 61 and the service refuses, so the lease is unchanged.
    ("B05", "@infinite; !break in=61; head", "200 status=locked state=leased duration=infinite"),
    ("B05", "@infinite; !break in=-1; head", "200 status=locked state=leased duration=infinite"),
    ("B05", "@infinite; !break in=abc; head", "200 status=locked state=leased duration=infinite"),
    // Breaking.
    ("K01", "@breaking; head", BREAKING),
    ("K02", "@breaking; acquire id=A", "409 LeaseIsBreakingAndCannotBeAcquired"),
    ("K03", "@breaking; acquire id=B", "409 LeaseAlreadyPresent"),
    ("K04", "@breaking; acquire", "409 LeaseAlreadyPresent"),
    ("K05", "@breaking; renew id=A", "409 LeaseIsBrokenAndCannotBeRenewed"),
    ("K06", "@breaking; renew id=B", MISMATCH),
    ("K07", "@breaking; change id=A to=B", "409 LeaseIsBreakingAndCannotBeChanged"),
    ("K08", "@breaking; change id=B to=C", MISMATCH),
    ("K09", "@breaking; put", "412 LeaseIdMissing"),
    ("K10", "@breaking; put id=A", "201"),
    ("K11", "@breaking; put id=B", "412 LeaseIdMismatchWithBlobOperation"),
    ("K12", "@breaking; break", "202 time=50"),
    ("K13", "@breaking; break in=60", "202 time=50"),
    ("K14", "@breaking; break in=20", "202 time=20"),
    ("K14", "@breaking; break in=20; wait 20; head", BROKEN),
    ("K15", "@breaking; release id=B", MISMATCH),
    ("K16", "@breaking; release id=A", "200"),
    ("K17", "@breaking; release id=A; head", AVAILABLE),
    // Broken.
    ("R01", "@broken; head", BROKEN),
    ("R02", "@broken; renew id=A", "409 LeaseIsBrokenAndCannotBeRenewed"),
    ("R03", "@broken; renew id=B", MISMATCH),
    ("R04", "@broken; change id=A to=B", NOT_PRESENT),
    ("R05", "@broken; break", "202 time=0"),
    ("R06", "@broken; put id=A", "412 LeaseLost|LeaseNotPresentWithBlobOperation"),
    ("R07", "@broken; release id=B", MISMATCH),
    ("R08", "@broken; release id=A", "200"),
    ("R09", "@broken; acquire id=A", "201 id=A"),
    ("R10", "@broken; acquire id=B", "201 id=B"),
    ("R11", "@broken; put", "201"),
    ("R12", "@broken; put; head", AVAILABLE),
    ("R13", "@broken; put; renew id=A", MISMATCH),
    ("R14", "@leased; break in=1; wait 1.1; head", BROKEN),
    ("R15", "@leased; break in=1; wait 1.1; renew id=A", "409 LeaseIsBrokenAndCannotBeRenewed"),
    ("R16", "@leased; break in=1; wait 1.1; acquire id=B", "201 id=B"),
    // Conditions.
    ("C01", "put; acquire id=A match=wrong", CONDITION),
    ("C02", "put; acquire id=A none=right", CONDITION),
    ("C04", "put; acquire id=A modified-since=future", CONDITION),
    ("C05", "put; acquire id=A unmodified-since=past", CONDITION),
    ("C06", "put; acquire id=A match=right", "201 id=A"),
    ("C07", "@leased; renew id=A match=wrong", CONDITION),
    ("C09", "@leased; renew id=A match=right", "200 id=A"),
    ("C11", "@leased; release id=A match=wrong", CONDITION),
    ("C12", "@leased; release id=A match=right", "200"),
    // Repeated requests.
    ("I01", "put; acquire id=A; acquire id=A", "201 id=A"),
    ("I02", "@leased; renew id=A; renew id=A", "200 id=A"),
    ("I03", "@leased; change id=A to=B; change id=A to=B", "200 id=B"),
    ("I04", "@leased; release id=A; release id=A", MISMATCH),
    ("I05", "@leased; release id=A; !release id=A; head", AVAILABLE),
    ("I06", "put; acquire; acquire", "409 LeaseAlreadyPresent"),
    // Signature, date, version.
    ("H02", "put; get auth=wrong-key", REFUSED),
    ("H03", "put; head auth=wrong-key", REFUSED),
    ("H04", "put; head auth=nobody", REFUSED),
    ("H06", "put; head date=-14", AVAILABLE),
    ("H07", "put; head date=-16", REFUSED),
    ("H08", "put; head date=16", AVAILABLE),
    ("H09", "put; head date=-525600", REFUSED),
    ("H11", "put; head date=nothing", REFUSED),
    ("H12", "put; head date=nothing plain-date=0", AVAILABLE),
    ("H14", "put; head version=1999-01-01", BAD_VALUE),
    // The service refuses versions that it does not know yet. Later clients must work with this
    // store.
    ("H15", "put; head version=2099-01-01", "200"),
    // One of many; see also `of_sixteen_at_once_one_wins`.
    ("X01", "put; acquire id=A; !acquire id=B; !acquire id=C; head", LEASED),
    // Expired.
    ("E01", "@expired; head", "200 status=unlocked state=expired duration=-"),
    ("E02", "@expired; renew id=A", "200 id=A"),
    ("E02b", "@expired; renew id=A; wait 14; head", LEASED),
    ("E03", "@expired; renew id=B", MISMATCH),
    // The service refused the renewal, so the lease was not revived.
    ("E03b", "@expired; !renew id=B; head", "200 status=unlocked state=expired"),
    ("E03c", "@expired; !renew id=B; renew id=A", "200 id=A"),
    ("E04", "@expired; renew id=A^", "200 id=A"),
    ("E05", "@expired; acquire id=A", "201 id=A"),
    ("E06", "@expired; acquire id=B", "201 id=B"),
    ("E06b", "@expired; acquire id=B; renew id=A", MISMATCH),
    ("E06c", "@expired; acquire id=B; acquire id=A", "409 LeaseAlreadyPresent"),
    ("E06d", "@expired; acquire id=B; release id=A", MISMATCH),
    ("E06e", "@expired; acquire id=B; put id=A", "412 LeaseIdMismatchWithBlobOperation"),
    ("E07", "@expired; acquire", "201 id=some"),
    ("E08", "@expired; acquire id=B; release id=B; renew id=A", MISMATCH),
    ("E08b", "@expired; acquire id=B; release id=B; acquire id=A", "201 id=A"),
    ("E09", "@expired; release id=A", "200"),
    ("E10", "@expired; release id=B", MISMATCH),
    ("E11", "@expired; change id=A to=B", NOT_PRESENT),
    ("E12", "@expired; break in=0", "202 time=0"),
    ("E13", "@expired; break", "202 time=0"),
    ("E14", "@expired; break in=60", "202 time=0"),
    ("E14b", "@expired; break in=60; head", BROKEN),
    ("E15", "@expired; put id=A", "412 LeaseLost|LeaseNotPresentWithBlobOperation"),
    ("E15b", "@expired; meta id=A", "412 LeaseLost|LeaseNotPresentWithBlobOperation"),
    ("E16", "@expired; put id=B", "412"),
    ("E17", "@expired; put", "201"),
    ("E17b", "@expired; put; renew id=A", MISMATCH),
    ("E17c", "@expired; put; head", AVAILABLE),
    ("E18", "@expired; meta; renew id=A", MISMATCH),
    ("E19", "@expired; get; head; renew id=A", "200 id=A"),
    ("E20", "@expired; get id=A", "412 LeaseLost|LeaseNotPresentWithBlobOperation"),
    ("E21", "@expired; delete id=A", "412 LeaseLost|LeaseNotPresentWithBlobOperation"),
    ("E22", "@expired; delete", "202"),
    ("E24", "@expired; renew id=A match=wrong", CONDITION),
    ("Z01", "@leased; rmcontainer", "202"),
];

/// Cases without reliable information: the store's own choices. The implementation explains each
/// one.
#[rustfmt::skip]
const CHOICES: &[Row] = &[
    ("A02d", "put; !acquire id=A for=nothing; put", "201"),
    ("A02e", "put; !acquire id=A for=nothing; delete", "202"),
    ("A04", "put; acquire id=00000000-0000-0000-0000-000000000000", "201 id=00000000-0000-0000-0000-000000000000"),
    ("A07", "put; ACQUIRE id=A", "201 id=A"),
    ("B03", "@leased; break in=0 id=B", "202 time=0"),
    ("C03", "put; acquire id=A none=*", CONDITION),
    ("C08", "@leased; renew id=B match=wrong", CONDITION),
    ("C10", "acquire id=A match=*", "404 BlobNotFound"),
    ("H01", "put; head auth=nothing", "401 NoAuthenticationInformation"),
    ("H05", "put; head auth=malformed", "400 InvalidAuthenticationInfo"),
    ("H10", "put; head date=garbage", REFUSED),
    ("H13", "put; head version=nothing", NO_HEADER),
    ("H16", "put; head auth=bearer", REFUSED),
    ("H17", "put; head auth=lite", REFUSED),
    ("L05b", "@leased; acquire id=B for=14", BAD_VALUE),
    ("L11", "@leased; renew id=A for=30", "200 id=A"),
    ("W08", "@leased; put match=wrong", "412 LeaseIdMissing"),
];

/// All ids of the matrix with known behaviour of Azure.
const KNOWN: &str = "S01 S02 S03 S04 S05 S06 S07 S08 S09 A01 A02 A02b A02c A03 A04 A05 A06 A08 V01 V02 V03 V04 V05 V06 \
    V07 L01 L02 L03 L04 L05 L06 L07 L08 L09 L10 L12 L13 L14 L15 L15b L16 L17 L18 L19 L20 L21 L22 L23 L24 L25 L26 L27 \
    L28 L29 L30 L31 L32 W01 W02 W03 W03b W04 W05 W06 W07 W09 W10 W11 W12 W13 W14 W15 W16 W21 W22 M01 \
    M02 B01 B04 B05 K01 K02 K03 K04 K05 K06 K07 K08 K09 K10 K11 K12 K13 K14 K15 K16 K17 R01 R02 R03 R04 R05 R06 R07 \
    R08 R09 R10 R11 R12 R13 R14 R15 R16 C01 C02 C04 C05 C06 C07 C09 C11 C12 I01 I02 I03 I04 I05 I06 H02 H03 H04 H06 \
    H07 H08 H09 H11 H12 H14 H15 X01 E01 E02 E02b E03 E03b E03c E04 E05 E06 E06b E06c E06d E06e E07 E08 E08b E09 E10 \
    E11 E12 E13 E14 E14b E15 E15b E16 E17 E17b E17c E18 E19 E20 E21 E22 E24 Z01";

#[test]
fn every_known_case_is_in_the_table() {
    let known: Vec<&str> = KNOWN.split_whitespace().collect();
    assert_eq!(known.len(), 176);
    for id in known {
        assert!(ROWS.iter().any(|(row, ..)| *row == id), "{id} is missing");
    }
}

#[test]
fn the_state_machine_answers_as_the_service_does() {
    check_rows(&mut Direct::new());
}

#[test]
fn so_does_the_store_over_one_connection() {
    check_rows(&mut Wire::new());
}

fn check_rows(wire: &mut dyn Transport) {
    let mut failures = Vec::new();
    for (index, (row, script, expected)) in ROWS.iter().chain(CHOICES).enumerate() {
        let mut scene = Scene::new(wire, &format!("row{index}"));
        let answer = scene.run(script);
        if let Err(mismatch) = check_response(&scene, &answer, expected) {
            failures.push(format!("{row}: {script}\n  expected {expected}\n  but {mismatch}"));
        }
    }
    assert!(failures.is_empty(), "{} wrong:\n{}", failures.len(), failures.join("\n"));
}

/// Compares a response with the expectation: a status, then in any order `Code|Code`, `unchanged`,
/// `header=value` (`-`: absent).
fn check_response(scene: &Scene<'_>, answer: &Response, expected: &str) -> Result<(), String> {
    let mut expectations = expected.split(' ');
    let code = answer.code();
    if expectations.next() != Some(answer.status.to_string().as_str()) {
        return Err(format!("{} {code:?}", answer.status));
    }
    for expectation in expectations {
        let is_met = match expectation.split_once('=') {
            None if expectation == "unchanged" => scene.is_unchanged(answer),
            None => code.is_some_and(|code| expectation.split('|').any(|known| known == code)),
            Some(("id", "some")) => answer.header("x-ms-lease-id").is_some_and(|id| id.len() == 36),
            Some((name, value)) => {
                let found = answer.header(&format!("x-ms-lease-{name}"));
                found == if value == "-" { None } else { Some(id(value)) }.as_deref()
            }
        };
        if !is_met {
            return Err(format!("{expectation}: {} {code:?} {:?}", answer.status, answer.headers));
        }
    }
    Ok(())
}
