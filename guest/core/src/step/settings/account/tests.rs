use super::super::{Needs, Settings};
use super::*;
use crate::step::options::{Complaint, FormerFileEnvironment};
use chrono::DateTime;
use proptest::prelude::*;

const KEY: &str = "c2VjcmV0a2V5";
const SAS: &str =
    "sp=rcw&se=2027-01-01&sv=2022-11-02&sr=c&sig=c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U=";
const STRING: &str = "AccountName=tenure;AccountKey=c2VjcmV0a2V5";

fn read(pairs: &[(&str, &str)]) -> Result<Settings, Vec<Complaint>> {
    let find = |name: &str| {
        let pair = pairs.iter().find(|(known, _)| *known == name);
        let election = (name == variable::ELECTION).then_some("leases/leader");
        pair.map(|(_, value)| *value).or(election).map(String::from)
    };
    Settings::read(find)
}

fn needs(pairs: &[(&str, &str)]) -> Needs {
    let settings = read(pairs).unwrap_or_else(|complaints| panic!("{pairs:?}: {complaints:?}"));
    settings.needs(DateTime::UNIX_EPOCH)
}

fn complaints(pairs: &[(&str, &str)]) -> Vec<(&'static str, String)> {
    let complaints = read(pairs).err().unwrap_or_else(|| panic!("{pairs:?}: no complaint"));
    let printed = format!("{complaints:?}");
    assert!(!printed.contains("c2VjcmV0"), "{printed}");
    complaints.into_iter().map(|c| (c.setting.variable(), c.problem)).collect()
}

const ACCOUNT: (&str, &str) = (variable::ACCOUNT, "tenure");
const APPLICATION: [(&str, &str); 2] = [(variable::TENANT_ID, "t"), (variable::CLIENT_ID, "c")];

/// Settings of each kind, in the order of detection.
fn each_kind() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    vec![
        ("connection string", vec![(variable::CONNECTION_STRING, STRING)]),
        ("account's key", vec![(variable::KEY, KEY)]),
        ("the SAS", vec![(variable::SAS_TOKEN, SAS)]),
        ("AUTH_TOKEN", vec![(variable::AUTH_TOKEN, "ey.a")]),
        ("an application", vec![(variable::CLIENT_SECRET, "s")]),
        (
            "this app",
            vec![
                (variable::IDENTITY_ENDPOINT, "http://127.0.0.1:1/msi/token"),
                (variable::IDENTITY_HEADER, "h"),
            ],
        ),
        ("this machine", vec![]),
    ]
}

#[test]
fn of_several_credentials_the_first_in_the_order_is_taken() {
    let each = each_kind();
    for (index, (words, _)) in each.iter().enumerate() {
        let mut pairs = vec![ACCOUNT];
        pairs.extend(APPLICATION);
        pairs.extend(each[index..].iter().flat_map(|(_, pairs)| pairs.iter().copied()));
        let credential = needs(&pairs).credential;
        assert!(credential.contains(words), "{words}: {credential}");
        let others = each.len() - index > 2;
        assert_eq!(credential.contains("not used"), others, "{credential}");
    }
}

#[test]
fn identities_are_asked_at_an_origin_of_their_own() {
    let origins = |pairs: &[(&str, &str)]| read(pairs).unwrap().needs(DateTime::UNIX_EPOCH).origins;
    let storage = "https://tenure.blob.core.windows.net";
    assert_eq!(origins(&[ACCOUNT]), [storage, "http://169.254.169.254"]);
    assert_eq!(origins(&[ACCOUNT, (variable::KEY, KEY)]), [storage]);
    let secret = (variable::CLIENT_SECRET, "s");
    let [tenant, client] = APPLICATION;
    let public = origins(&[ACCOUNT, tenant, client, secret]);
    assert_eq!(public, [storage, "https://login.microsoftonline.com"]);
    let china = "https://tenure.blob.core.chinacloudapi.cn";
    let endpoint = (variable::SERVICE_ENDPOINT, china);
    let elsewhere = origins(&[endpoint, tenant, client, secret]);
    assert_eq!(elsewhere, [china, "https://login.chinacloudapi.cn"]);
    let authority = (variable::AUTHORITY_HOST, "login.example.com");
    assert_eq!(
        origins(&[ACCOUNT, tenant, client, secret, authority])[1],
        "https://login.example.com"
    );
}

#[test]
fn a_sas_may_come_with_its_address() {
    for (address, origin, prefix) in [
        ("https://tenure.blob.core.windows.net/leases", "https://tenure.blob.core.windows.net", ""),
        (
            "https://tenure.blob.core.windows.net/leases/leader",
            "https://tenure.blob.core.windows.net",
            "",
        ),
        ("https://tenure.blob.core.windows.net/", "https://tenure.blob.core.windows.net", ""),
        ("http://127.0.0.1:10000/dev/leases", "http://127.0.0.1:10000", "/dev"),
    ] {
        let url = format!("{address}?{SAS}");
        let account = read(&[(variable::SAS_TOKEN, &url)]).unwrap().account;
        assert_eq!((account.origin(), account.prefix()), (origin, prefix), "{address}");
    }
    let percent = [
        (variable::ELECTION, "leases/my leader"),
        (
            variable::SAS_TOKEN,
            &format!("https://tenure.blob.core.windows.net/leases/my%20leader?{SAS}"),
        ),
    ];
    assert!(read(&percent).is_ok());
    let root = [
        (variable::ELECTION, "$root/leader"),
        (variable::SAS_TOKEN, &format!("https://tenure.blob.core.windows.net/$root?{SAS}")),
    ];
    assert!(read(&root).is_ok());
    let emulator = [
        (variable::ACCOUNT, "devstoreaccount1"),
        (
            variable::SAS_TOKEN,
            &format!("https://azurite.ns.svc:10000/devstoreaccount1/leases?{SAS}"),
        ),
    ];
    assert_eq!(read(&emulator).unwrap().account.prefix(), "/devstoreaccount1");
    // A container with the account's name: with a prefix it would hold other blobs.
    for address in
        ["https://leases.blob.core.windows.net/leases", "https://own.example.com/leases/leader"]
    {
        let url = format!("{address}?{SAS}");
        let named = [(variable::ACCOUNT, "leases"), (variable::SAS_TOKEN, url.as_str())];
        assert_eq!(read(&named).unwrap().account.prefix(), "", "{address}");
    }
    for other in [
        "https://tenure.blob.core.windows.net/other",
        "https://tenure.blob.core.windows.net/leases/lead",
    ] {
        let found = complaints(&[(variable::SAS_TOKEN, &format!("{other}?{SAS}"))]);
        assert!(found[0].1.contains("not for the election's"), "{found:?}");
    }
    let notes = needs(&[ACCOUNT, (variable::SAS_TOKEN, SAS)]).notes.join("; ");
    assert!(notes.contains("expires at 2027-01-01T00:00:00Z"), "{notes}");
}

#[test]
fn all_contradictions_and_missing_settings_are_reported() {
    let other = (variable::ACCOUNT, "other");
    let url = format!("https://tenure.blob.core.windows.net/leases?{SAS}");
    let custom_domain = format!(
        "AccountName=tenure;BlobEndpoint=https://blobs.example.com;SharedAccessSignature={SAS}"
    );
    for (pairs, setting, words) in [
        (vec![], variable::CONNECTION_STRING, "no storage account"),
        (
            vec![other, (variable::CONNECTION_STRING, STRING)],
            variable::ACCOUNT,
            "is not the account in",
        ),
        (
            vec![other, (variable::SAS_TOKEN, url.as_str())],
            variable::ACCOUNT,
            "is not the account in",
        ),
        (vec![(variable::KEY, KEY)], variable::ACCOUNT, "not set"),
        (
            vec![other, (variable::KEY, KEY), (variable::SAS_TOKEN, url.as_str())],
            variable::SAS_TOKEN,
            "is not for the account",
        ),
        (
            vec![
                (variable::CONNECTION_STRING, "AccountName=first;AccountKey=c2VjcmV0"),
                (variable::SAS_TOKEN, url.as_str()),
            ],
            variable::SAS_TOKEN,
            "is not for the account",
        ),
        (vec![ACCOUNT, (variable::KEY, "c2VjcmV0?")], variable::KEY, "not base64"),
        (
            vec![
                ACCOUNT,
                (variable::SAS_TOKEN, "sp=rw&sig=c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U="),
            ],
            variable::SAS_TOKEN,
            "no sv",
        ),
        (vec![ACCOUNT, (variable::AUTH_TOKEN, "a b")], variable::AUTH_TOKEN, "characters"),
        (vec![ACCOUNT, (variable::CLIENT_SECRET, "s")], variable::TENANT_ID, "not set"),
        (
            vec![ACCOUNT, (variable::IDENTITY_ENDPOINT, "http://127.0.0.1")],
            variable::IDENTITY_HEADER,
            "not set",
        ),
        (
            vec![
                (variable::CONNECTION_STRING, STRING),
                (variable::SERVICE_ENDPOINT, "https://tenure.private.example.com"),
            ],
            variable::SERVICE_ENDPOINT,
            "is not the address in",
        ),
        (
            vec![
                (variable::AUTH_TOKEN, "ey"),
                (variable::SERVICE_ENDPOINT, "https://tenure.blob.core.windows.net/leases"),
            ],
            variable::SERVICE_ENDPOINT,
            "has a path",
        ),
        (
            vec![(variable::KEY, KEY), (variable::SERVICE_ENDPOINT, "http://127.0.0.1:10000")],
            variable::SERVICE_ENDPOINT,
            "names no account",
        ),
        (
            vec![
                ACCOUNT,
                (variable::IDENTITY_ENDPOINT, "http://127.0.0.1:1"),
                (variable::IDENTITY_HEADER, "a\u{e9}"),
            ],
            variable::IDENTITY_HEADER,
            "characters",
        ),
        (vec![(variable::ACCOUNT, "No")], variable::ACCOUNT, "not an account's name"),
        (
            vec![ACCOUNT, ("AZURE_STORAGE_KEY_FILE", "/k")],
            "AZURE_STORAGE_KEY_FILE",
            "has not opened its directory",
        ),
        (
            vec![ACCOUNT, (variable::KEY, KEY), ("AZURE_STORAGE_KEY_FILE", "/k")],
            "AZURE_STORAGE_KEY_FILE",
            "excludes",
        ),
        (
            vec![
                ACCOUNT,
                (variable::AUTH_TOKEN, "ey"),
                (variable::SERVICE_ENDPOINT, "http://blobs.example.com"),
            ],
            variable::SERVICE_ENDPOINT,
            "plain http",
        ),
        (
            vec![other, (variable::CONNECTION_STRING, custom_domain.as_str())],
            variable::ACCOUNT,
            "is not the account in",
        ),
        (
            vec![(variable::KEY, KEY), (variable::SERVICE_ENDPOINT, "https://blobs.example.com")],
            variable::ACCOUNT,
            "not set",
        ),
        (
            vec![
                ACCOUNT,
                APPLICATION[0],
                APPLICATION[1],
                (variable::CLIENT_SECRET, "s"),
                (variable::AUTHORITY_HOST, "http://login.example.com"),
            ],
            variable::AUTHORITY_HOST,
            "plain http",
        ),
    ] {
        let reported = complaints(&pairs);
        let found =
            reported.iter().any(|(name, problem)| *name == setting && problem.contains(words));
        assert!(found, "{pairs:?}: {reported:?}");
    }
}

/// Candidates that reach the account by different addresses must send the same idempotency keys.
#[test]
fn behind_a_custom_domain_each_credential_needs_the_name_of_the_account() {
    let url = format!("https://blobs.example.com/leases?{SAS}");
    let custom_domain = (variable::SERVICE_ENDPOINT, "https://blobs.example.com");
    let mut all: Vec<_> = each_kind().into_iter().skip(1).map(|(_, pairs)| pairs).collect();
    all.iter_mut().for_each(|pairs| {
        pairs.extend(APPLICATION);
        pairs.push(custom_domain);
    });
    all.push(vec![(variable::SAS_TOKEN, &url)]);
    for mut pairs in all {
        let found = complaints(&pairs);
        let [(name, problem)] = found.as_slice() else { panic!("{pairs:?}: {found:?}") };
        assert_eq!(*name, variable::ACCOUNT, "{pairs:?}");
        assert!(problem.contains("the endpoint does not contain the account's name"), "{problem}");
        pairs.push(ACCOUNT);
        assert_eq!(read(&pairs).unwrap().account.name(), ACCOUNT.1, "{pairs:?}");
    }
}

#[test]
fn unused_credentials_are_named_by_the_variables_that_are_set() {
    let mut pairs = vec![ACCOUNT, (variable::KEY, KEY), (variable::SAS_TOKEN_FILE, "/run/sas")];
    let credential = needs(&pairs).credential;
    let one = "; it takes precedence over AZURE_STORAGE_SAS_TOKEN_FILE, which is not used";
    assert!(credential.ends_with(one), "{credential}");
    pairs.push((variable::AUTH_TOKEN, "ey.a"));
    let credential = needs(&pairs).credential;
    let two = " AZURE_STORAGE_SAS_TOKEN_FILE, AZURE_STORAGE_AUTH_TOKEN, which are not used";
    assert!(credential.ends_with(two), "{credential}");
}

#[test]
fn a_token_in_a_file_is_named_by_the_variable_of_the_file() {
    let variables = |name: &str| match name {
        variable::ELECTION => Some("leases/leader".to_owned()),
        variable::ACCOUNT => Some("tenure".to_owned()),
        variable::AUTH_TOKEN_FILE => Some("/run/token".to_owned()),
        _ => None,
    };
    let file = SecretFile { path: "/run/token".into(), text: "ey.a".into() };
    let environment = FormerFileEnvironment { environment: &variables, file: &file };
    let credential = Settings::read(environment).unwrap().needs(DateTime::UNIX_EPOCH).credential;
    assert!(credential.contains("AZURE_STORAGE_AUTH_TOKEN_FILE"), "{credential}");
}

#[test]
fn the_files_that_are_named_are_to_be_opened() {
    let pairs = [
        ("AZURE_STORAGE_KEY_FILE", "/run/secrets/key"),
        (variable::FEDERATED_TOKEN_FILE, "/var/token"),
        ("AZURE_CLIENT_SECRET_FILE", " "),
    ];
    let find = |name: &str| {
        pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
    };
    assert_eq!(Settings::files(find), ["/run/secrets/key", "/var/token"]);
}

proptest! {
    #[test]
    fn nothing_panics(values in proptest::collection::vec(
        proptest::option::of("[ -~é\n]{0,40}|https?://[a-z0-9.:/?=&-]{0,30}"), 10..11)
    ) {
        let names = [
            variable::CONNECTION_STRING, variable::ACCOUNT, variable::SERVICE_ENDPOINT, variable::KEY,
            variable::SAS_TOKEN, variable::AUTH_TOKEN, variable::CLIENT_SECRET,
            variable::IDENTITY_ENDPOINT, variable::IDENTITY_HEADER,
            variable::AUTHORITY_HOST,
        ];
        let find = |name: &str| {
            let index = names.iter().position(|known| *known == name);
            let election = (name == variable::ELECTION).then(|| "leases/leader".to_string());
            index.and_then(|index| values[index].clone()).or(election)
        };
        match Settings::read(find) {
            Ok(settings) => {
                prop_assert!(!settings.needs(DateTime::UNIX_EPOCH).credential.is_empty());
            }
            Err(complaints) => prop_assert!(!complaints.is_empty()),
        }
    }
}

#[test]
fn unset_settings_are_not_reported() {
    let found = complaints(&[APPLICATION[0], APPLICATION[1], (variable::CLIENT_SECRET, "s")]);
    let about: Vec<_> = found.iter().map(|(name, _)| *name).collect();
    assert_eq!(about, [variable::ACCOUNT], "{found:?}");
}

#[test]
fn writing_is_required_of_a_sas_where_something_is_written() {
    let sas = SAS.replace("sp=rcw", "sp=r");
    let string = format!("AccountName=tenure;SharedAccessSignature={sas}");
    for setting in
        [(variable::SAS_TOKEN, sas.as_str()), (variable::CONNECTION_STRING, string.as_str())]
    {
        let found = complaints(&[ACCOUNT, setting]);
        let [(name, problem)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(*name, setting.0);
        assert!(problem.contains("does not permit writing (w)"), "{problem}");
        let observer = read(&[ACCOUNT, setting, (variable::OBSERVE, "true")]);
        assert!(observer.is_ok(), "{observer:?}");
    }
}

#[test]
fn quotation_marks_around_a_value_are_named() {
    for (setting, value) in [
        (variable::CONNECTION_STRING, format!("\"{STRING}\"")),
        (variable::KEY, format!("'{KEY}'")),
        (variable::SAS_TOKEN, format!("\"{SAS}\"")),
        (variable::AUTH_TOKEN, "\"ey.a\"".into()),
    ] {
        let found = complaints(&[(setting, &value), (variable::ACCOUNT, "tenure")]);
        let [(name, problem)] = found.as_slice() else { panic!("{setting}: {found:?}") };
        assert_eq!((*name, problem.as_str()), (setting, "the value is in quotation marks"));
    }
    // Another reason is possible, and is named first.
    for (setting, value, reason) in [
        (variable::ACCOUNT, "\"tenure\"", "lower-case"),
        (variable::SERVICE_ENDPOINT, "'https://tenure.blob.core.windows.net'", "it "),
    ] {
        let found = complaints(&[(setting, value), (variable::ACCOUNT, "tenure")]);
        let [(name, problem)] = found.as_slice() else { panic!("{setting}: {found:?}") };
        assert_eq!(*name, setting);
        let is_named =
            problem.contains(reason) && problem.ends_with("; the value is in quotation marks");
        assert!(is_named, "{problem}");
    }
}

#[test]
fn a_quotation_mark_at_the_beginning_alone_is_part_of_a_value() {
    let long = format!("\"A\" {}", "x".repeat(1024));
    for value in [long.as_str(), "\"A\" b\u{7}", "'a\u{7}\""] {
        let found = complaints(&[(variable::NAME, value), (variable::CONNECTION_STRING, STRING)]);
        let [(name, problem)] = found.as_slice() else { panic!("{value}: {found:?}") };
        assert_eq!(*name, variable::NAME);
        assert!(
            problem.starts_with("has 1028 bytes") || problem == "holds control characters",
            "{problem}"
        );
    }
    let string = format!("\"{STRING}");
    let found = complaints(&[(variable::CONNECTION_STRING, &string)]);
    let [(_, problem)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(problem, "the connection string begins with a quotation mark");
}
