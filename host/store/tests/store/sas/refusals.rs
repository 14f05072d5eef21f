//! Refused tokens: expired, wrong protocol, changed, incomplete, or unsupported.

use chrono::TimeDelta;
use tenure_store::sas::SasParameters;

use super::{account, answer, container, detail, ok_or_code, outcome, sas, second, terms, token};

#[test]
fn from_its_start_until_just_before_its_expiry() {
    let (starts, expires) = (second() + TimeDelta::seconds(10), second() + TimeDelta::seconds(20));
    let token = token(&SasParameters {
        starts_at: Some(starts),
        ..SasParameters::new(container("leases"), "rw", expires)
    });
    let after = |seconds| answer(&format!("put; wait {seconds}; acquire id=A"), token.query());
    // The scene begins a quarter of a second after the full second.
    assert_eq!(ok_or_code(&after(9.749)), "AuthenticationFailed");
    assert_eq!(ok_or_code(&after(9.75)), "ok");
    assert_eq!(ok_or_code(&after(19.749)), "ok");
    assert_eq!(ok_or_code(&after(19.75)), "AuthenticationFailed");
    assert_eq!(
        detail(&after(20.0)),
        "Signature not valid in the specified time frame: Start [Fri, 02 Jan 2026 03:04:15 GMT] - \
         Expiry [Fri, 02 Jan 2026 03:04:25 GMT] - Current [Fri, 02 Jan 2026 03:04:25 GMT]"
    );
}

#[test]
fn without_a_start_it_is_valid_at_once() {
    let token =
        token(&SasParameters::new(container("leases"), "rw", second() + TimeDelta::seconds(20)));
    let after = |seconds| answer(&format!("put; wait {seconds}; acquire id=A"), token.query());
    assert_eq!(ok_or_code(&after(0.0)), "ok");
    assert_eq!(ok_or_code(&after(19.749)), "ok");
    assert_eq!(ok_or_code(&after(19.75)), "AuthenticationFailed");
    assert_eq!(
        detail(&after(21.0)),
        "Signed expiry time [Fri, 02 Jan 2026 03:04:25 GMT] must be after signed start time \
         [Fri, 02 Jan 2026 03:04:26 GMT]"
    );
}

#[test]
fn https_only_tokens_are_refused() {
    let with_protocol = |protocol: &str| SasParameters {
        protocol: Some(protocol.to_owned()),
        ..terms(container("leases"), "rw")
    };
    let outcome_with =
        |protocol| outcome("put; acquire id=A", token(&with_protocol(protocol)).query());
    assert_eq!(outcome_with("https"), "AuthorizationProtocolMismatch");
    assert_eq!(outcome_with("https,http"), "ok");
    assert_eq!(outcome_with("http"), "AuthenticationFailed");
}

#[test]
fn nothing_of_a_token_can_be_changed() {
    let full = SasParameters {
        starts_at: Some(second() - TimeDelta::hours(1)),
        protocol: Some("https,http".to_owned()),
        ..terms(container("leases"), "rw")
    };
    let of_container = token(&full);
    let of_account = token(&SasParameters { scope: account("b", "o"), ..full });
    let changes = [
        ("sp=rw", "sp=rcw"),
        ("st=2026-01-02T02", "st=2026-01-02T01"),
        ("se=2026-01-02T04", "se=2026-01-02T05"),
        ("sv=2021-12-02", "sv=2022-11-02"),
        ("&spr=https%2Chttp", ""),
        ("sr=c", "sr=b"),
        ("ss=b", "ss=bf"),
        ("srt=o", "srt=co"),
        ("sig=", "rscc=no-store&sig="),
        ("sig=", "sig=A"),
    ];
    let mut tried = 0;
    for token in [of_container, of_account] {
        assert_eq!(outcome("put; acquire id=A", token.query()), "ok");
        for (old, new) in changes {
            let changed = token.query().replacen(old, new, 1);
            // An account SAS does not sign response headers.
            if changed != token.query() && !(new.starts_with("rscc") && changed.contains("srt")) {
                let found = outcome("put; acquire id=A", &changed);
                assert_eq!(found, "AuthenticationFailed", "{old} to {new}");
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 16);
}

#[test]
fn missing_and_invalid_parameters_are_named() {
    let good = sas(container("leases"), "rw");
    let detail_for = |token: &str| {
        let answer = answer("put; acquire id=A", token);
        assert_eq!(ok_or_code(&answer), "AuthenticationFailed", "{token}");
        detail(&answer)
    };
    for name in ["sv", "sp", "se", "sr", "sig"] {
        let without: Vec<&str> = good
            .split('&')
            .map(|pair| {
                pair.split_once('=').filter(|(known, _)| *known == name).map_or(pair, |_| "")
            })
            .collect();
        let empty = format!("{}&{name}=", without.join("&"));
        assert_eq!(detail_for(&empty), format!("{name} is mandatory. Cannot be empty"));
    }
    const MALFORMED: &str = "Signature fields not well formed.";
    assert_eq!(detail_for(&sas(container("leases"), "wr")), MALFORMED);
    assert_eq!(detail_for(&sas(container("leases"), "rrw")), MALFORMED);
    assert_eq!(detail_for(&sas(container("leases"), "rwz")), MALFORMED);
    assert_eq!(detail_for(&format!("{good}&sp=rcw")), MALFORMED);
    assert_eq!(detail_for(&format!("{good}&ss=b&srt=o")), MALFORMED);
    assert_eq!(detail_for(&good.replace("se=2026", "se=soon")), MALFORMED);
    assert_eq!(detail_for(&format!("{good}&st=soon")), MALFORMED);
    // The permissions of an account SAS may have any order.
    assert_eq!(outcome("put; acquire id=A", &sas(account("b", "o"), "wr")), "ok");
    assert_eq!(
        ok_or_code(&answer("put; head", "sv=2021-12-02&sp=r")),
        "401 Some(\"NoAuthenticationInformation\")"
    );
}

#[test]
fn unsupported_parameters_are_refused_by_name() {
    let good = sas(container("leases"), "rw");
    let detail_for = |token: &str| detail(&answer("put; acquire id=A", token));
    for (parameter, expected_detail) in [
        (
            "si=policy",
            "si is not supported here: the signature is by or for a stored access policy.",
        ),
        (
            "skoid=1",
            "skoid is not supported here: the signature is by or for a user delegation key.",
        ),
        (
            "sip=127.0.0.1",
            "sip is not supported here: the signature is by or for a range of addresses.",
        ),
        ("ses=scope", "ses is not supported here: the signature is by or for an encryption scope."),
    ] {
        assert_eq!(detail_for(&format!("{good}&{parameter}")), expected_detail);
    }
    assert_eq!(
        detail_for(&good.replace("sr=c", "sr=bs")),
        "sr is not supported here, only b and c."
    );
    for version in ["2020-10-02", "2021-1-2", "latest"] {
        let terms =
            SasParameters { version: version.to_owned(), ..terms(container("leases"), "rw") };
        let expected = "sv is not supported here, only 2020-12-06 and later.";
        assert_eq!(detail_for(token(&terms).query()), expected, "{version}");
    }
    for version in ["2020-12-06", "2099-01-01"] {
        let terms =
            SasParameters { version: version.to_owned(), ..terms(container("leases"), "rw") };
        assert_eq!(outcome("put; acquire id=A", token(&terms).query()), "ok", "{version}");
    }
}
