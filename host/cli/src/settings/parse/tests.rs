use super::super::table::TABLE;
use super::*;

fn read(text: &str) -> Content {
    parse(&SettingsFile::from_text(text), TABLE)
}

/// Returns the place and key of each complaint.
fn sources(text: &str) -> Vec<String> {
    read(text).complaints.into_iter().map(|complaint| complaint.source).collect()
}

fn entry<'s>(section: &'s Section, key: &str) -> &'s Entry {
    section.entries.iter().find(|entry| entry.setting.name == key).unwrap()
}

fn values<'s>(section: &'s Section, key: &str) -> Vec<&'s str> {
    entry(section, key).items.iter().map(|item| item.text.to_str().unwrap()).collect()
}

#[test]
fn values_are_read_with_their_places() {
    let content = read(
        "lease = \"20s\"\n\n[[election]]\nelection = \"jobs/a\"\nmax-attempts = 7\n\
         allow-host = [\n  \"a\",\n  \"b\",\n]\nhandler = \"a.wasm\"\nca-file = \"/ca.pem\"\n\
         command = [\"true\", \"--x\"]\nenv = { B = \"2=3\", A = \"\" }\n[[election]]\n",
    );
    let [first, second] = content.elections.as_slice() else { panic!("two elections") };
    assert_eq!(entry(&content.defaults, "lease").place, "t.toml:1:1");
    assert_eq!(entry(&content.defaults, "lease").items[0].place, "t.toml:1:9");
    assert_eq!((first.place.as_str(), second.place.as_str()), ("t.toml:3:1", "t.toml:14:1"));
    assert_eq!(values(first, "max-attempts"), ["7"]);
    assert_eq!(values(first, "allow-host"), ["a", "b"]);
    assert_eq!(entry(first, "allow-host").items[1].place, "t.toml:8:3");
    assert_eq!(values(first, "handler"), ["/etc/a.wasm"]);
    assert_eq!(values(first, "ca-file"), ["/ca.pem"]);
    assert_eq!(values(first, "command"), ["true", "--x"]);
    assert_eq!(values(first, "env"), ["A=", "B=2=3"]);
    assert!(second.entries.is_empty());
    assert_eq!(content.complaints, []);
}

#[test]
fn all_mistakes_are_reported_in_file_order() {
    let text = "evry = \"5s\"\nlease = 15\nmax-attempts = 1.5\nlog = \"xml\"\n[[election]]\n\
                listen = \"127.0.0.1:0\"\nallow-host = \"a\"\nenv = { A = 1, \"B=C\" = \"\" }\n\
                allow_host = [\"a\"]\nhandler = true\n";
    assert_eq!(
        sources(text),
        [
            "t.toml:1:1: evry",
            "t.toml:2:9: lease",
            "t.toml:3:16: max-attempts",
            "t.toml:4:7: log",
            "t.toml:6:1: listen",
            "t.toml:7:14: allow-host",
            "t.toml:8:9: env.A",
            "t.toml:8:16: env.B=C",
            "t.toml:9:1: allow_host",
            "t.toml:10:11: handler",
        ]
    );
    let complaints = read(text).complaints;
    let advice = |at: usize| complaints[at].advice.as_str();
    assert!(advice(0).starts_with("did you mean every? "), "{}", advice(0));
    assert!(advice(1).ends_with("lease = \"15s\""), "{}", advice(1));
    assert!(advice(8).starts_with("did you mean allow-host? "), "{}", advice(8));
    assert_eq!(complaints[3].problem, "\"text\" or \"json\" is expected, not this string");
}

#[test]
fn a_key_that_resembles_nothing_is_explained() {
    let complaints = read("zzz = 1\n").complaints;
    assert_eq!(complaints[0].advice, HELP);
}

#[test]
fn a_secret_is_refused_and_not_shown() {
    let text = "connection-string = \"AccountKey=c2VjcmV0\"\nstorage_key = \"c2VjcmV0\"\n\
                [env]\nAZURE_STORAGE_KEY = \"c2VjcmV0\"\nAZURE_REGION = \"north\"\n";
    let complaints = read(text).complaints;
    assert_eq!(complaints.len(), 3, "{complaints:?}");
    assert!(complaints[0].advice.contains("connection-string-file"), "{complaints:?}");
    assert!(complaints[1].advice.contains("AZURE_STORAGE_KEY_FILE"), "{complaints:?}");
    assert!(!format!("{complaints:?}").contains("c2VjcmV0"), "{complaints:?}");
}

#[test]
fn invalid_toml_is_reported_line_by_line_alone() {
    let content = read("lease = 15s\nevery = \nevry = \"5s\"\n");
    assert!(content.broken);
    let places: Vec<_> = content.complaints.iter().map(|c| c.source.as_str()).collect();
    assert!(places.contains(&"t.toml:1:9") && places.iter().any(|p| p.starts_with("t.toml:2:")));
    assert!(!places.iter().any(|place| place.starts_with("t.toml:3:")), "{places:?}");
}

#[test]
fn a_key_that_is_set_twice_is_not_called_bad_toml() {
    for (text, place) in [
        ("lease = \"15s\"\nlease = \"16s\"\n", "t.toml:2:1: lease"),
        ("[[election]]\nevery = \"5s\"\nevery = \"5s\"\n", "t.toml:3:1: every"),
        ("[env]\nA = \"1\"\nA = \"2\"\n", "t.toml:3:1"),
    ] {
        let complaints = read(text).complaints;
        let [Complaint { source, problem, advice }] = complaints.as_slice() else {
            panic!("{complaints:?}")
        };
        assert_eq!(source, place);
        assert_eq!(problem, "this key is set a second time in the same table");
        assert_eq!(advice, "keep one of the two");
    }
}

#[test]
fn empty_file_is_reported() {
    for empty in ["", "# nothing\n"] {
        assert_eq!(read(empty).complaints[0].problem, "nothing is set in this file");
    }
    assert_eq!(sources("election = []\n"), ["t.toml:1:12: election"]);
    assert_eq!(sources("[election]\nelection = \"a/b\"\n"), ["t.toml:1:2: election"]);
    assert_eq!(sources("election = [1]\n"), ["t.toml:1:13: election"]);
}

#[test]
fn unquoted_value_gets_a_correction() {
    for (line, advice) in [
        ("cron = 0 2 * * *", "write it in quotes: cron = \"…\""),
        ("cron = @daily", "write it in quotes: cron = \"…\""),
        ("every = 5m", "write it in quotes and with its unit, as in every = \"15s\""),
        ("command = backup --all", "write it as in command = [\"…\", \"…\"]"),
        ("nothing = of it", "correct it; https://toml.io describes the format"),
    ] {
        let complaints = read(&format!("lease = \"20s\"\n  {line}\n")).complaints;
        assert!(complaints.iter().all(|c| c.source.starts_with("t.toml:2:")), "{complaints:?}");
        assert_eq!(complaints.iter().map(|c| &c.advice).collect::<Vec<_>>(), [advice], "{line}");
    }
}

#[test]
fn shell_line_gets_a_correction() {
    let complaints = read("command = \"backup --all | tee log\"\n").complaints;
    assert_eq!(complaints[0].problem, "a list of strings is expected, not this string");
    assert!(complaints[0].advice.contains("[\"sh\", \"-c\", \"…\"]"), "{complaints:?}");
}

#[test]
fn places_are_counted_as_people_count_them() {
    let source = SettingsFile::from_text("a\nüü = 1\n");
    for (byte, place) in [(0, "1:1"), (1, "1:2"), (2, "2:1"), (6, "2:3"), (11, "3:1"), (99, "3:1")]
    {
        assert_eq!(source.place(byte), format!("t.toml:{place}"), "{byte}");
    }
}

#[test]
fn invalid_utf8_is_reported_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    std::fs::write(&file, b"a = 1\nb = \"\xff\"\n").unwrap();
    let complaint = SettingsFile::read(&file, "--config").err().unwrap();
    assert_eq!(complaint.source, format!("{}:2:6", file.display()));
    let complaint = SettingsFile::read(folder.path(), "TENURE_CONFIG").err().unwrap();
    assert_eq!(complaint.source, format!("TENURE_CONFIG {}", folder.path().display()));
    assert!(complaint.problem.starts_with("the file cannot be read: "), "{complaint:?}");
    std::fs::write(&file, vec![b'#'; MAX_BYTES]).unwrap();
    assert!(SettingsFile::read(&file, "--config").is_ok());
    std::fs::write(&file, vec![b'#'; MAX_BYTES + 1]).unwrap();
    let complaint = SettingsFile::read(&file, "--config").err().unwrap();
    assert_eq!(complaint.problem, "the file is larger than 1 MiB");
}

#[test]
fn a_secret_belongs_to_its_variable() {
    for (key, variable) in [
        ("connection-string", "AZURE_STORAGE_CONNECTION_STRING"),
        ("AZURE_STORAGE_KEY", "AZURE_STORAGE_KEY"),
        ("accountKey", "AZURE_STORAGE_KEY"),
        ("sas_token", "AZURE_STORAGE_SAS_TOKEN"),
        ("auth-token", "AZURE_STORAGE_AUTH_TOKEN"),
        ("client-secret", "AZURE_CLIENT_SECRET"),
        ("webhook-token", "TENURE_HANDLER_TOKEN"),
        ("webhook_secret", "TENURE_HANDLER_SECRET"),
    ] {
        let advice = secret_advice(key).unwrap();
        assert!(advice.contains(&format!("variable {variable}, ")), "{key}: {advice}");
    }
    assert!(secret_advice("password").is_some());
    for key in ["evry", "timezone", "REPORT_URL", "connection_string_file"] {
        assert_eq!(secret_advice(key), None, "{key}");
    }
}
