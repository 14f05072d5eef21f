//! Tests of the validation of settings, and of its messages.

use super::*;
use crate::args::program;
use crate::settings::table::{
    COMMAND, GRACE, INTERVAL, LOG, MEMORY_LIMIT, PERIOD, TABLE, WEBHOOK_CA_FILE,
};
use std::time::Duration;
use tenure_core::variable;

/// Resolves the settings of a command with these arguments, before validation.
fn for_command(command: &str, arguments: &[&str]) -> Configuration {
    with_variables(command, arguments, &[])
}

/// Resolves the settings with these variables only.
fn with_variables(command: &str, arguments: &[&str], set: &[(&str, &str)]) -> Configuration {
    let required: &[&str] = if command == "status" { &["--watch"] } else { &[] };
    let all = ["tenure", command].into_iter().chain(required.iter().copied());
    let all = all.chain(arguments.iter().copied());
    let matches = program(TABLE).try_get_matches_from(all).unwrap();
    let line = CommandLine::from_matches(TABLE, command, matches.subcommand().unwrap().1);
    let variable =
        |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
    Configuration::new(ResolvedSettings::with_variables(&line, &variable))
}

fn run_configuration(arguments: &[&str]) -> Configuration {
    for_command("run", arguments)
}

fn sources(configuration: &Configuration) -> Vec<&str> {
    configuration.complaints.iter().map(|complaint| complaint.source.as_str()).collect()
}

fn complaint(setting: &'static str) -> tenure_core::Complaint {
    tenure_core::Complaint {
        setting: SettingId::new(setting),
        problem: "wrong".to_owned(),
        advice: "mend it".to_owned(),
    }
}

#[test]
fn a_complaint_names_where_the_value_came_from() {
    let mut configuration = with_variables("run", &["--lease", "5s"], &[(variable::RENEW, "1s")]);
    configuration.add_complaints(vec![
        complaint(variable::LEASE),
        complaint(variable::RENEW),
        complaint(variable::ELECTION),
        complaint(variable::CONNECTION_STRING),
        complaint(variable::CLIENT_ID),
    ]);
    assert_eq!(
        sources(&configuration),
        [
            "--lease 5s",
            "TENURE_RENEW",
            "CONTAINER/BLOB, or TENURE_ELECTION",
            "--connection-string-file, or AZURE_STORAGE_CONNECTION_STRING",
            "AZURE_CLIENT_ID",
        ]
    );
}

/// Returns the complaints about settings that are given as options and as variables.
fn complaints_for(options: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let mut configuration = with_variables("run", options, variables);
    configuration.settings.options.election = Some("any/any".to_owned());
    let string = "UseDevelopmentStorage=true";
    configuration.settings.credential.set(variable::CONNECTION_STRING, string);
    configuration.read();
    let lines = configuration.complaints.iter().map(|c| format!("{}: {}", c.source, c.problem));
    lines.collect()
}

#[test]
fn a_conflict_names_both_settings_as_they_were_given() {
    for (name, option, value) in [
        (variable::EVERY, "--every", "5s"),
        (variable::CRON, "--cron", "* * * * *"),
        (variable::MISSED, "--missed", "skip"),
        (variable::TURN_TIMEOUT, "--turn-timeout", "5m"),
    ] {
        let from_options = complaints_for(&["--while-leading", option, value], &[]);
        let problem = "needs a timer, and --while-leading has none";
        assert_eq!(from_options, [format!("{option} {value}: {problem}")]);
        assert_eq!(
            complaints_for(&["--while-leading"], &[(name, value)]),
            [format!("{name}: {problem}")]
        );
    }
    let both = complaints_for(&["--every", "5s", "--cron", "* * * * *"], &[]);
    assert_eq!(both, ["--cron * * * * *: excludes --every"]);
}

#[test]
fn a_file_is_named_to_the_component_by_its_whole_path() {
    let mut configuration = run_configuration(&["--connection-string-file", "secret.txt"]);
    let path = configuration.settings.credential.get(variable::CONNECTION_STRING_FILE).unwrap();
    assert_eq!(Path::new(path), std::path::absolute("secret.txt").unwrap());
    // The file's variable, and the variable with its content.
    configuration.add_complaints(vec![
        complaint(variable::CONNECTION_STRING_FILE),
        complaint(variable::CONNECTION_STRING),
    ]);
    assert_eq!(sources(&configuration), ["--connection-string-file secret.txt"; 2]);
}

#[test]
fn connection_string_as_a_file_is_refused_and_redacted() {
    let secret = "AccountName=a;AccountKey=c2VjcmV0";
    let mut configuration = run_configuration(&["--connection-string-file", secret]);
    configuration.add_complaints(vec![complaint(variable::CONNECTION_STRING)]);
    assert_eq!(sources(&configuration), ["--connection-string-file …"]);
    let text = crate::complaint::report(&configuration.complaints);
    assert!(text.contains("not a file"), "{text}");
    assert!(!text.contains("c2VjcmV0"), "{text}");
}

#[test]
fn empty_value_is_reported_once() {
    let mut configuration = run_configuration(&[" ", "--grace", "", "--ca-file", ""]);
    configuration.add_complaints(vec![complaint(variable::ELECTION)]);
    assert_eq!(configuration.duration(&GRACE), None);
    assert_eq!(sources(&configuration), ["CONTAINER/BLOB", "--grace", "--ca-file"]);
    assert!(configuration.complaints.iter().all(|c| c.problem == "the value is empty"));
}

#[test]
fn durations_are_checked_at_their_bounds() {
    const HOUR: f64 = 3600.0;
    for (command, setting, good, bad) in [
        (
            "run",
            &GRACE,
            &[("0s", 0.0), ("2.5s", 2.5), ("1h", HOUR), (" 1m 30s ", 90.0)][..],
            &["5", "soon", "1h 1ms", "99999999999999999999s"][..],
        ),
        ("status", &INTERVAL, &[("200ms", 0.2), ("1h", HOUR)], &["199ms", "1h 1ms", "2"]),
        ("break", &PERIOD, &[("0s", 0.0), ("60s", 60.0)], &["60s 1ms", "-5s", "much"]),
    ] {
        let option = setting.option();
        for (text, seconds) in good {
            let mut configuration = for_command(command, &[&option, text]);
            let duration = configuration.duration(setting);
            assert_eq!(duration, Some(Duration::from_secs_f64(*seconds)), "{text}");
            assert_eq!(configuration.complaints, []);
        }
        for text in bad {
            let mut configuration = for_command(command, &[&option, text]);
            assert_eq!(configuration.duration(setting), None, "{text}");
            assert_eq!(sources(&configuration), [format!("{option} {text}")]);
        }
    }
    assert_eq!(for_command("status", &[]).duration(&INTERVAL), None);
    let mut secret = run_configuration(&["--grace", "AccountKey=c2VjcmV0"]);
    assert_eq!(secret.duration(&GRACE), None);
    assert!(!format!("{:?}", secret.complaints).contains("c2VjcmV0"));
}

#[test]
fn memory_limit_is_checked_at_its_bounds() {
    for (good, bytes) in [("1MiB", 1 << 20), ("4GiB", 4 << 30), (" 64 MiB ", 64 << 20)] {
        let mut configuration = run_configuration(&["--memory-limit", good]);
        assert_eq!(configuration.size(&MEMORY_LIMIT), Some(bytes), "{good}");
        assert_eq!(configuration.complaints, []);
    }
    for bad in ["much", "1023KiB", "5GiB", "1"] {
        let mut configuration = run_configuration(&["--memory-limit", bad]);
        assert_eq!(configuration.size(&MEMORY_LIMIT), None, "{bad}");
        assert_eq!(sources(&configuration), [format!("--memory-limit {bad}")]);
    }
    let mut negative = run_configuration(&["--memory-limit=-1MiB"]);
    assert_eq!(negative.size(&MEMORY_LIMIT), None);
}

#[test]
fn a_word_is_one_of_those_that_are_known() {
    assert_eq!(run_configuration(&[]).choice(&LOG), "text");
    assert_eq!(run_configuration(&["--log", "json"]).choice(&LOG), "json");
    let mut wrong = run_configuration(&["--log", "xml"]);
    assert_eq!(wrong.choice(&LOG), "text");
    assert_eq!(sources(&wrong), ["--log xml"]);
    assert_eq!(wrong.complaints[0].problem, "\"xml\" is not one of: text, json");
}

#[test]
fn every_invalid_handler_entry_is_reported() {
    let hosts = ["--allow-host", "a/b", "--allow-host", "*", "--allow-host", "ok"];
    let env = ["--env", "A=b=c", "--env", "B", "--env", "=secret"];
    let mut configuration = run_configuration(&[hosts, env].concat());
    configuration.allow_list();
    assert_eq!(configuration.handler_env(), [("A".to_owned(), "b=c".to_owned())]);
    assert_eq!(
        sources(&configuration),
        ["--allow-host a/b", "--allow-host *", "--env …", "--env …"]
    );
}

#[tokio::test]
async fn no_part_of_a_token_before_the_host_of_an_address_is_shown() {
    let hosts = ["c2VjcmV0@host", "https://user:p/c2VjcmV0@host", "https://user:c2VjcmV0@host/a@b"];
    for host in hosts {
        let mut configuration = run_configuration(&["--allow-host", host]);
        configuration.allow_list();
        let text = crate::complaint::report(&configuration.complaints);
        assert!(text.contains("--allow-host ") && !text.contains("c2VjcmV0"), "{text}");
    }
    let mut configuration =
        run_configuration(&["--listen", "c2VjcmV0@host", "--listen-host", "c2VjcmV0@host"]);
    assert!(configuration.listener(None).await.is_none());
    configuration.hosts();
    let text = crate::complaint::report(&configuration.complaints);
    assert!(text.contains("--listen …@host") && text.contains("--listen-host …@host"), "{text}");
    assert!(!text.contains("c2VjcmV0"), "{text}");
}

fn file(content: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file
}

#[test]
fn a_file_of_certificates_is_taken() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let file = file(&made.cert.pem());
    let mut configuration = run_configuration(&["--ca-file", file.path().to_str().unwrap()]);
    assert!(configuration.authorities_of(&CA_FILE).is_some());
    assert!(configuration.authorities_of(&WEBHOOK_CA_FILE).is_none());
    assert_eq!(configuration.complaints, []);
}

#[test]
fn file_without_certificates_is_reported() {
    let cases = [
        (file(""), "holds no certificate"),
        (file("Zm9yIHlvdXIgZXllcyBvbmx5"), "holds no certificate"),
        (file("-----BEGIN CERTIFICATE-----\nZm9yIHlvdXIgZXllcyBvbmx5\n"), "is damaged"),
    ];
    for setting in [&CA_FILE, &WEBHOOK_CA_FILE] {
        let problem_for = |path: &str| {
            let mut configuration = run_configuration(&[&setting.option(), path]);
            configuration.complaints.clear();
            assert!(configuration.authorities_of(setting).is_none());
            assert_eq!(sources(&configuration), [format!("{} {path}", setting.option())]);
            configuration.complaints.remove(0).problem
        };
        for (file, problem) in &cases {
            let actual = problem_for(file.path().to_str().unwrap());
            assert!(actual.contains(problem) && !actual.contains("Zm9y"), "{actual}");
        }
        for missing in ["/no/such/file", "/"] {
            let problem = format!("\"{missing}\" cannot be read: ");
            assert!(problem_for(missing).starts_with(&problem));
        }
    }
}

#[test]
fn commands_keep_their_arguments() {
    let configuration = run_configuration(&["--", "backup", "--all", "-x"]);
    let words = &configuration.resolved.get(&COMMAND).unwrap().items;
    let words: Vec<_> = words.iter().map(|item| item.text.to_str().unwrap()).collect();
    assert_eq!(words, ["backup", "--all", "-x"]);
}

#[cfg(unix)]
#[test]
fn a_file_that_the_component_cannot_read_is_named() {
    let refusal = |file: &str| {
        let mut configuration = run_configuration(&["--connection-string-file", file]);
        configuration.add_component_complaints(&[
            "AZURE_STORAGE_CONNECTION_STRING_FILE: unread; open it".to_owned(),
        ]);
        configuration.complaints.remove(0)
    };
    let in_root = refusal("/secret");
    assert_eq!(in_root.source, "--connection-string-file /secret");
    assert!(in_root.problem.contains("not opened to the component"), "{in_root}");
    let elsewhere = refusal("/run/secret");
    assert_eq!(elsewhere.source, "the election component");
    assert!(elsewhere.problem.ends_with("unread; open it"), "{elsewhere}");
}

#[cfg(unix)]
#[test]
fn a_secret_is_for_its_owner() {
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(folder.path(), 0o711);
    let directory = folder.path().join("d");
    let file = directory.join("token");
    create_dir(&directory).unwrap();
    write(&file, "x").unwrap();
    for (directory_mode, file_mode, expected) in [
        (0o755, 0o644, true),
        (0o755, 0o604, true),
        (0o755, 0o640, false),
        (0o755, 0o600, false),
        (0o700, 0o644, false),
    ] {
        mode(&directory, directory_mode);
        mode(&file, file_mode);
        let warned = file_permission_warning(&file);
        assert_eq!(warned.is_some(), expected, "{directory_mode:o} {file_mode:o}");
        assert!(warned.is_none_or(|text| text.contains(&format!("mode {file_mode:04o}"))));
    }
    assert_eq!(file_permission_warning(&directory.join("none")), None);
}
