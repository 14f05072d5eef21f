//! What is signed: the parameters line by line, decoded, an empty line for each that is absent. The forms of version
//! 2020-12-06 and later; before, there was no line for the encryption scope (`ses`).

/// The lines of a service SAS behind the resource.
const SERVICE: [&str; 12] =
    ["si", "sip", "spr", "sv", "sr", "snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct"];

/// The lines of an account SAS behind the account.
const ACCOUNT: [&str; 9] = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses"];

/// Of a service SAS for what `resource` names: a container, or a container and a blob.
pub(crate) fn service_text<'a>(
    account: &str,
    resource: &[&String],
    value: impl Fn(&str) -> &'a str,
) -> String {
    let mut path = format!("/blob/{account}");
    for part in resource {
        path.push('/');
        path.push_str(part);
    }
    // The line `snapshot` is for tokens of snapshots alone, so a request for one does not change the text.
    let value = |name: &str| if name == "snapshot" { "" } else { value(name) };
    let before = [value("sp"), value("st"), value("se"), &path];
    before.into_iter().chain(SERVICE.map(value)).collect::<Vec<_>>().join("\n")
}

/// Of an account SAS. Here the last line ends as well.
pub(crate) fn account_text<'a>(account: &str, value: impl Fn(&str) -> &'a str) -> String {
    let mut text = format!("{account}\n");
    for name in ACCOUNT {
        text.push_str(value(name));
        text.push('\n');
    }
    text
}
