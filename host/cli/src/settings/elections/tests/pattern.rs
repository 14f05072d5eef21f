use super::super::*;
use crate::args::program;
use crate::settings::table::{ENV, HANDLER, TABLE};
use std::fs::write;

fn line(command: &str, arguments: &[&str]) -> CommandLine {
    let all = ["tenure", command].into_iter().chain(arguments.iter().copied());
    let matches = program(TABLE).try_get_matches_from(all).unwrap();
    CommandLine::from_matches(TABLE, command, matches.subcommand().unwrap().1)
}

fn elections(file: &str, command: &str, arguments: &[&str]) -> Elections {
    Elections::from_file(&SettingsFile::from_text(file), &line(command, arguments), &|_| None)
}

fn names(elections: &Elections) -> Vec<String> {
    elections.resolved.iter().filter_map(|resolved| resolved.text(&ELECTION)).collect()
}

fn messages(complaints: &[Complaint]) -> Vec<String> {
    complaints
        .iter()
        .map(|complaint| format!("{}: {}", complaint.source, complaint.problem))
        .collect()
}

const TENANTS: &str = "handler = \"{each}.wasm\"\n[[election]]\nelection = \"tenants/{each}\"\n\
                       for-each = [\"ada\", \"ben\"]\nenv = { TENANT = \"{each}\" }\n\
                       [[election]]\nelection = \"jobs/{each}\"\n";

#[test]
fn each_name_is_an_election_and_stands_in_its_settings() {
    let all = elections(TENANTS, "run", &[]);
    assert_eq!(messages(&all.complaints), [""; 0]);
    // Without names, this is not a pattern.
    assert_eq!(names(&all), ["tenants/ada", "tenants/ben", "jobs/{each}"]);
    assert_eq!(
        all.resolved.iter().map(|resolved| resolved.pattern).collect::<Vec<_>>(),
        [Some(0), Some(0), None]
    );
    let text = |number: usize, setting| all.resolved[number].text(setting);
    assert_eq!(text(1, &ENV).as_deref(), Some("TENANT=ben"));
    assert_eq!(text(1, &HANDLER).as_deref(), Some("/etc/ben.wasm"));
    assert_eq!(text(2, &HANDLER).as_deref(), Some("/etc/{each}.wasm"));
    // Complaints about an election refer to its name in the list.
    let place = all.resolved[1].get(&ELECTION).unwrap().describe();
    assert_eq!(place, "t.toml:4:20: election = \"tenants/ben\"");

    let plain = ["tenants/{each}", "--for-each", "ada", "--for-each", "ben"];
    assert_eq!(
        names(&Elections::from_command_line(&line("run", &plain))),
        ["tenants/ada", "tenants/ben"]
    );
}

/// A variable has the same value for all elections.
#[test]
fn a_variable_is_no_pattern() {
    let variable = |name: &str| (name == "TENURE_ELECTION").then(|| "tenants/{each}".into());
    let line = line("run", &["--for-each", "ada", "--for-each", "ben"]);
    let all = Elections::from_file(&SettingsFile::from_text("log = \"json\"\n"), &line, &variable);
    let problem = "TENURE_ELECTION: all of them would be one election";
    assert_eq!(messages(&all.complaints), [problem]);
    assert_eq!(names(&all), [""; 0]);
}

#[test]
fn one_election_of_a_pattern_can_be_named() {
    assert_eq!(names(&elections(TENANTS, "status", &["tenants/ben"])), ["tenants/ben"]);
    assert_eq!(elections(TENANTS, "status", &["tenants/ben"]).complaints, []);
    assert_eq!(names(&elections(TENANTS, "status", &["jobs/{each}"])), ["jobs/{each}"]);
    for unknown in ["tenants/cleo", "tenants/{each}x", "other/ben"] {
        let unknown = elections(TENANTS, "status", &[unknown]);
        let [complaint] = unknown.complaints.as_slice() else { panic!("{:?}", unknown.complaints) };
        assert_eq!(complaint.problem, "the file has no such election");
        assert!(complaint.advice.contains("tenants/{each}"), "{complaint:?}");
    }
    let (_, complaints) = elections(TENANTS, "trigger", &["--id", "a"]).into_single();
    assert!(complaints[0].advice.contains("tenants/ada, tenants/ben"), "{complaints:?}");
}

#[test]
fn names_are_read_from_a_file_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenants.txt");
    let list = file.display().to_string();
    let toml = format!("election = \"tenants/{{each}}\"\nfor-each-file = \"{list}\"\n");
    let read = |content: &str| {
        write(&file, content).unwrap();
        elections(&toml, "run", &[])
    };
    let all = read("# tenants\n\n  ada\r\nben # since May\nc#\n#\n");
    assert_eq!(messages(&all.complaints), [""; 0]);
    assert_eq!(names(&all), ["tenants/ada", "tenants/ben", "tenants/c#"]);
    let ada = all.resolved[0].get(&ELECTION).unwrap().describe();
    assert_eq!(ada, format!("{list}:3:3: election = \"tenants/ada\""));
    // An empty list.
    let none = read("# nobody\n");
    assert_eq!((names(&none).len(), none.complaints.len(), none.patterns.len()), (0, 0, 1));
    let (template, complaints) = elections(&toml, "break", &["--yes"]).into_single();
    let problem = "t.toml:2:17: for-each-file: the list has no names, so there is no election";
    assert_eq!(messages(&complaints), [problem]);
    assert_eq!(template.text(&ELECTION).as_deref(), Some("tenants/{each}"));

    let wrong = read("ada\nb\u{1b}en\n ada\nada\n");
    let again = "this name is a duplicate";
    assert_eq!(
        messages(&wrong.complaints),
        [
            format!("{list}:2:1: b\\u{{1b}}en: this is not a name"),
            format!("{list}:3:2: ada: {again}"),
            format!("{list}:4:1: ada: {again}"),
        ]
    );
    assert!(
        messages(&read("\n").complaints)[0].starts_with(&format!("{list}:1:1: the file is empty"))
    );
    std::fs::remove_file(&file).unwrap();
    let missing = elections(&toml, "run", &[]);
    let place = format!("t.toml:2:17: for-each-file {list}: the file cannot be read: ");
    assert!(messages(&missing.complaints)[0].starts_with(&place), "{:?}", missing.complaints);
}

#[test]
fn names_must_not_all_give_one_election() {
    let one = elections("election = \"tenants/all\"\nfor-each = [\"ada\", \"ada\"]\n", "run", &[]);
    assert_eq!(
        messages(&one.complaints),
        [
            "t.toml:1:12: election = \"tenants/all\": all of them would be one election",
            "t.toml:2:20: ada: this name is a duplicate"
        ]
    );
    let twice = format!("{TENANTS}[[election]]\nelection = \"tenants/ben\"\n");
    let lines = messages(&elections(&twice, "run", &[]).complaints);
    assert_eq!(
        lines,
        ["t.toml:9:12: election = \"tenants/ben\": the file has this election already"]
    );
}
