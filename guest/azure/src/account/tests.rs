use super::*;
use proptest::prelude::*;

const KEY: &str = "c2VjcmV0c2VjcmV0";
const SIGNATURE: &str = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U=";

fn read(text: &str) -> Result<(String, String), Vec<String>> {
    match Account::from_connection_string(text) {
        Ok(account) => {
            Ok((account.name().into(), format!("{}{}", account.origin(), account.prefix())))
        }
        Err(problems) => Err(problems.into_iter().map(|problem| problem.problem).collect()),
    }
}

#[test]
fn good_connection_strings() {
    let good = [
        (
            "UseDevelopmentStorage=true",
            "devstoreaccount1",
            "http://127.0.0.1:10000/devstoreaccount1",
        ),
        (
            "usedevelopmentstorage=TRUE;",
            "devstoreaccount1",
            "http://127.0.0.1:10000/devstoreaccount1",
        ),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite",
            "devstoreaccount1",
            "http://azurite:10000/devstoreaccount1",
        ),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://[::1]:9/",
            "devstoreaccount1",
            "http://[::1]:9/devstoreaccount1",
        ),
        (
            "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=<key>;EndpointSuffix=core.chinacloudapi.cn",
            "acc",
            "https://acc.blob.core.chinacloudapi.cn",
        ),
        ("AccountName=acc;AccountKey=<key>", "acc", "https://acc.blob.core.windows.net"),
        (
            " accountname = acc ; ACCOUNTKEY = <key> ;; defaultendpointsprotocol=HTTP;",
            "acc",
            "http://acc.blob.core.windows.net",
        ),
        (
            "AccountName=acc;AccountKey=<key>;BlobEndpoint=http://127.0.0.1:10000/acc/;EndpointSuffix=",
            "acc",
            "http://127.0.0.1:10000/acc",
        ),
        (
            "AccountName=My-Store;AccountKey=<key>;BlobEndpoint=http://host:1/a",
            "My-Store",
            "http://host:1/a",
        ),
        (
            "AccountName=acc;AccountKey=<key>;QueueEndpoint=junk;DfsSecondaryEndpoint=x;WEBENDPOINT=y;SharedAccessSignature=x",
            "acc",
            "https://acc.blob.core.windows.net",
        ),
        (
            "AccountName=acc;AccountKey=<key>;EndpointSuffix=local:8443",
            "acc",
            "https://acc.blob.local:8443",
        ),
    ];
    for (text, name, endpoint) in good {
        let text = text.replace("<key>", KEY);
        assert_eq!(read(&text), Ok((name.into(), endpoint.into())), "{text}");
    }
}

#[test]
fn bad_connection_strings_get_every_complaint() {
    let bad: [(&str, &[&str]); 34] = [
        ("", &["is empty"]),
        (" \n", &["is empty"]),
        (";;", &["neither AccountKey", "no AccountName"]),
        ("junk", &["piece 1", "neither AccountKey", "no AccountName"]),
        ("AccountName=acc", &["neither AccountKey"]),
        ("AccountKey=<key>", &["no AccountName"]),
        ("AccountName=acc;AccountKey=", &["AccountKey is empty"]),
        ("AccountName=acc;AccountKey=<key>=", &["not base64"]),
        ("AccountName=acc;AccountKey=<key>;AccountKey=<key>", &["AccountKey twice"]),
        ("AccountName=acc;accountname=bcd;AccountKey=<key>;zzz", &["AccountName twice", "piece 4"]),
        ("AccountName=ab;AccountKey=<key>", &["AccountName is not 3 to 24"]),
        ("AccountName=My-Store;AccountKey=<key>", &["AccountName is not 3 to 24"]),
        ("AccountName=;AccountKey=<key>;BlobEndpoint=http://h", &["AccountName is not 1 to 63"]),
        ("AccountName=a/b;AccountKey=<key>;BlobEndpoint=http://h", &["AccountName is not 1 to 63"]),
        ("AccountName=acc;AccountKey=<key>;EndpointSuffix=", &["EndpointSuffix is empty"]),
        ("AccountName=acc;AccountKey=<key>;EndpointSuffix=a/b", &["EndpointSuffix is not a host"]),
        ("AccountName=acc;AccountKey=<key>;EndpointSuffix=a:x", &["port"]),
        (
            "AccountName=acc;AccountKey=<key>;DefaultEndpointsProtocol=ftp;EndpointSuffix=",
            &["DefaultEndpointsProtocol", "EndpointSuffix is empty"],
        ),
        ("AccountName=acc;AccountKey=<key>;BlobEndpoint=h", &["BlobEndpoint is not an http"]),
        ("AccountName=acc;AccountKey=<key>;BlobEndpoint=https://h/?sv=1", &["query"]),
        (
            "AccountName=acc;AccountKey=<key>;BlobEndpoint=https://acc.blob.core.windows.net/jobs",
            &["BlobEndpoint has a path"],
        ),
        ("SharedAccessSignature=sv=1&sr=c&sp=rw&sig=<sig>", &["no AccountName"]),
        (
            "BlobEndpoint=https://blobs.example.com;SharedAccessSignature=sv=1&sr=c&sp=rw&sig=<sig>",
            &["BlobEndpoint does not contain the account's name"],
        ),
        ("AccountName=acc;SharedAccessSignature=sv=1&sig=<sig>", &["neither sr nor ss", "read"]),
        (
            "BlobEndpoint=http://acc.blob.local;SharedAccessSignature=sv=1&sr=c&sp=rw&sig=<sig>",
            &["could be read by anyone"],
        ),
        (
            "BlobEndpoint=http://127.0.0.1:1/acc;SharedAccessSignature=spr=https&sv=1&sr=c&sp=rw&sig=<sig>",
            &["for https only"],
        ),
        (
            "AccountName=acc;AccountKey=<key>;BlobEndpont=https://acc.blob.local",
            &["has no key BlobEndpont"],
        ),
        (
            "AccountName=acc;AccountKey=<key>;sv=1;blob2=x",
            &["has no key sv", "piece 4 of the connection string does not begin with a key"],
        ),
        (
            "\"BlobEndpoint=https://acc.blob.local;AccountName=acc;AccountKey=<key>\"",
            &["quotation"],
        ),
        ("'AccountName=acc;AccountKey=<key>'", &["quotation"]),
        ("\"AccountName=acc;AccountKey=<key>", &["quotation"]),
        ("UseDevelopmentStorage=yes", &["not \"true\""]),
        ("UseDevelopmentStorage=true;AccountName=acc;AccountKey=<key>", &["both", "both"]),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=h",
            &["DevelopmentStorageProxyUri is not an http"],
        ),
    ];
    for (text, complaints) in bad {
        let text = text.replace("<key>", KEY).replace("<sig>", SIGNATURE);
        let problems = read(&text).unwrap_err();
        assert_eq!(problems.len(), complaints.len(), "{text}: {problems:?}");
        for (problem, complaint) in problems.iter().zip(complaints) {
            assert!(problem.contains(complaint), "{text}: {problem}");
        }
    }
}

#[test]
fn a_sas_goes_with_an_account_or_an_endpoint() {
    let sas = "SharedAccessSignature=?sp=rcw&spr=https&sv=2022-11-02&sr=c&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k%3D";
    for (text, name, endpoint) in [
        ("AccountName=acc", "acc", "https://acc.blob.core.windows.net"),
        (
            "BlobEndpoint=https://acc.blob.core.windows.net/",
            "acc",
            "https://acc.blob.core.windows.net",
        ),
        ("BlobEndpoint=https://127.0.0.1:10000/acc", "acc", "https://127.0.0.1:10000/acc"),
        (
            "AccountName=acc;BlobEndpoint=https://blobs.example.com",
            "acc",
            "https://blobs.example.com",
        ),
        ("BlobEndpoint=https://[::1]:1/acc;QueueEndpoint=x", "acc", "https://[::1]:1/acc"),
    ] {
        let text = format!("{text};{sas}");
        assert_eq!(read(&text), Ok((name.into(), endpoint.into())), "{text}");
        let account = Account::from_connection_string(&text).unwrap();
        let Credential::Sas(sas) = account.credential() else { panic!("{account:?}") };
        assert!(sas.query().starts_with("sp=rcw"));
    }
    let local = "BlobEndpoint=http://localhost:1/acc;SharedAccessSignature=sv=1&sr=c&sp=rw&sig=c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U=";
    assert!(read(local).is_ok());
}

#[test]
fn an_account_prints_no_key() {
    let account =
        Account::from_connection_string(&format!("AccountName=acc;AccountKey={KEY}")).unwrap();
    let printed = format!("{account:?} {account:#?} {:?}", account.credential());
    assert!(printed.contains("acc.blob.core.windows.net"));
    for part in [KEY, &KEY[..6], "secret", "115, 101, 99"] {
        assert!(!printed.contains(part), "{printed}");
    }
}

#[test]
fn no_complaint_quotes_a_secret_wherever_it_was_put() {
    let misplaced = [
        "SECRET",
        "SECRET=1",
        "AccountKey=SECRET",
        "AccountName=SECRET;AccountKey=acc",
        "AccountName=acc;AccountKey=SECRET=!",
        "AccountName=acc;AccountKey=x;SECRET==;SECRET",
        "AccountName=acc;AccountKey=x;BlobEndpoint=SECRET",
        "AccountName=acc;AccountKey=x;BlobEndpoint=https://SECRET@h",
        "AccountName=acc;AccountKey=x;BlobEndpoint=https://h?sig=SECRET",
        "AccountName=acc;AccountKey=x;EndpointSuffix=/SECRET",
        "AccountName=acc;AccountKey=x;DefaultEndpointsProtocol=SECRET",
        "UseDevelopmentStorage=SECRET;AccountKey=SECRET",
        "SharedAccessSignature=sig=SECRET",
    ];
    for text in misplaced {
        let problems = Account::from_connection_string(&text.replace("SECRET", KEY)).unwrap_err();
        let printed = format!("{problems:?}").to_ascii_lowercase();
        assert!(!printed.contains(&KEY.to_ascii_lowercase()[..6]), "{text}: {printed}");
    }
}

proptest! {
    #[test]
    fn nothing_panics(
        text in any::<String>(),
        pieces in proptest::collection::vec((0..KEYS.len(), "[a-z0-9:/=.é]{0,12}"), 0..6),
    ) {
        let built: Vec<String> = pieces.iter().map(|(key, value)| format!("{}={value}", KEYS[*key])).collect();
        for text in [text, built.join(";")] {
            match Account::from_connection_string(&text) {
                Ok(account) => prop_assert!(account.origin().starts_with("http")),
                Err(problems) => prop_assert!(!problems.is_empty()),
            }
        }
    }
}
