use super::*;
use tenure_azure::{Account as Client, encoding};

use super::super::account::{EMULATOR_ACCOUNT, EMULATOR_KEY};

/// Tokens made independently, by Microsoft's SDK for Python (azure-storage-blob 12.31.1).
const ACCOUNT: &str = "examplestore";
const KEY: &str =
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";

fn date(text: &str) -> DateTime<Utc> {
    encoding::parse_http_date(text).unwrap()
}

fn signature(terms: &SasParameters, account: &str, key: &str) -> String {
    let token = terms.sign(account, &Key::from_base64(key).unwrap());
    token.query().rsplit_once("sig=").unwrap().1.to_owned()
}

fn blob() -> Scope {
    Scope::Blob { container: "leases".to_owned(), blob: "leader".to_owned() }
}

#[test]
fn a_signature_is_that_of_the_sdk() {
    let expires = date("Wed, 02 Jan 2030 03:00:00 GMT");
    let version = "2026-10-06".to_owned();
    let of_blob = SasParameters {
        starts_at: Some(date("Fri, 02 Jan 2026 03:00:00 GMT")),
        protocol: Some("https".to_owned()),
        version: version.clone(),
        ..SasParameters::new(blob(), "rcw", expires)
    };
    assert_eq!(
        signature(&of_blob, ACCOUNT, KEY),
        "%2BHNUqmUChnt%2BHCNVXied6lVEhqMS0ITctbGxPuCgTUA%3D"
    );
    let container = Scope::Container("leases".to_owned());
    let of_container = SasParameters {
        version: version.clone(),
        ..SasParameters::new(container, "racwdl", expires)
    };
    assert_eq!(
        signature(&of_container, ACCOUNT, KEY),
        "S8dwHKH1l5r%2BK7Dpei5Z6FKo4q7BvqglBwOTr9%2F2YYA%3D"
    );
    let of_emulator = SasParameters { version, ..SasParameters::new(blob(), "rcwd", expires) };
    assert_eq!(
        signature(&of_emulator, EMULATOR_ACCOUNT, EMULATOR_KEY),
        "PndrBc0Uw%2BugpxwxCcQN918yG%2BMmixwDgVAVmJQ7Lrg%3D"
    );
}

#[test]
fn the_text_of_a_service_sas_has_sixteen_lines() {
    let parts = ["leases".to_owned(), "leader".to_owned()];
    let text = service_string_to_sign("examplestore", &[&parts[0], &parts[1]], |name| match name {
        "sp" => "p",
        "st" => "t",
        "se" => "e",
        "sip" => "ip",
        "spr" => "pr",
        "sv" => "v",
        "sr" => "r",
        "rscc" => "cc",
        "rscd" => "cd",
        "rsce" => "ce",
        "rscl" => "cl",
        "rsct" => "ct",
        _ => "",
    });
    let lines = "p t e /blob/examplestore/leases/leader _ ip pr v r _ _ cc cd ce cl ct";
    assert_eq!(text, lines.replace(' ', "\n").replace('_', ""));
}

#[test]
fn the_text_of_an_account_sas_is_that_of_the_reference() {
    let value = |name: &str| match name {
        "sp" => "rwc",
        "ss" => "b",
        "srt" => "co",
        "se" => "2030-01-02T03:00:00Z",
        "spr" => "https,http",
        "sv" => "2021-12-02",
        _ => "",
    };
    assert_eq!(
        account_string_to_sign("examplestore", value),
        "examplestore\nrwc\nb\nco\n\n2030-01-02T03:00:00Z\n\nhttps,http\n2021-12-02\n\n"
    );
}

#[test]
fn component_accepts_created_sas() {
    let terms = SasParameters::new(blob(), "rcw", date("Wed, 02 Jan 2030 03:00:00 GMT"));
    let token = terms.sign(ACCOUNT, &Key::from_base64(KEY).unwrap());
    assert!(token.query().contains("&se=2030-01-02T03%3A00%3A00Z&sig="), "{}", token.query());
    let text = token.connection_string("http://127.0.0.1:9/examplestore");
    assert!(Client::from_connection_string(&text).is_ok());
}

#[test]
fn no_token_is_printed() {
    let terms = SasParameters::new(blob(), "rcw", date("Wed, 02 Jan 2030 03:00:00 GMT"));
    assert_eq!(format!("{:?}", terms.sign(ACCOUNT, &Key::from_base64(KEY).unwrap())), "Token(..)");
}
