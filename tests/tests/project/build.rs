//! The commit in `tenure --version`: runs the program's build script in various folders.

use std::fs;
use std::path::Path;
use std::process::Command;

use tenure_tests::needs;
use tenure_tests::tools;

fn run(program: &str, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .envs(
            ["AUTHOR", "COMMITTER"]
                .map(|role| (format!("GIT_{role}_DATE"), "2026-02-28T23:30:00-0100")),
        )
        .output()
        .unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn version_names_the_commit_it_was_built_from() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    let source = tools::repository().join("host/cli/build.rs");
    let compile = ["--edition", "2024", "-o", script.to_str().unwrap(), source.to_str().unwrap()];
    run("rustc", folder.path(), &compile);
    let package = folder.path().join("project/package");
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("Cargo.toml"), "").unwrap();
    let run_build_script = |profile: &str, variables: &[(&str, &str)]| {
        let mut command = Command::new(&script);
        command.current_dir(&package).env_remove("SOURCE_DATE_EPOCH").env_remove("TENURE_COMMIT");
        // Git must not find a repository above the temporary folder.
        command.env("GIT_CEILING_DIRECTORIES", folder.path());
        let output =
            command.env("PROFILE", profile).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let build = |profile: &str, variables: &[(&str, &str)]| {
        let script_output = run_build_script(profile, variables);
        let line = script_output
            .lines()
            .find_map(|line| line.strip_prefix("cargo::rustc-env=TENURE_BUILD="));
        line.unwrap().to_owned()
    };
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        run("git", &package, &[&identity[..], arguments].concat()).trim().to_owned()
    };

    assert_eq!(build("release", &[]), "", "there is no repository");
    // A day that is the last of a month, the first, or a leap day.
    for (seconds, day) in [
        ("0", "1970-01-01"),
        ("1772323199", "2026-02-28"),
        ("1772323200", "2026-03-01"),
        ("1709164800", "2024-02-29"),
    ] {
        assert_eq!(build("release", &[("SOURCE_DATE_EPOCH", seconds)]), format!(" ({day})"));
    }
    let commit_id = "0123456789abcdef0123456789abcdef01234567";
    assert_eq!(build("release", &[("TENURE_COMMIT", commit_id)]), " (0123456789ab)");
    assert_eq!(build("release", &[("TENURE_COMMIT", "none")]), "");

    run("git", folder.path(), &["init", "--quiet", "project"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "x"]);
    assert_eq!(build("release", &[]), "", "it lies in the repository of another project");
    git(&["add", "Cargo.toml"]);
    git(&["commit", "--quiet", "--message", "y"]);
    let commit = git(&["rev-parse", "HEAD"]);
    let short = &commit[..12];
    assert_eq!(build("release", &[]), format!(" ({short}, 2026-03-01)"), "the day is UTC's");
    assert_eq!(build("release", &[("SOURCE_DATE_EPOCH", "0")]), format!(" ({short}, 1970-01-01)"));
    assert_eq!(build("debug", &[]), " (debug build)");

    // Every watched path exists, otherwise each build would start over; and a watched file changes
    // with a commit.
    let all = run_build_script("release", &[]);
    let watched = all.lines().filter_map(|line| line.strip_prefix("cargo::rerun-if-changed="));
    let watched: Vec<_> =
        watched.filter(|path| *path != "build.rs").map(|path| package.join(path)).collect();
    assert!(!watched.is_empty(), "{all}");
    let contents = || watched.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
    let before = contents();
    git(&["commit", "--quiet", "--allow-empty", "--message", "z"]);
    assert_ne!(contents(), before);

    let vcs_info = format!(
        "{{\n  \"git\": {{ \"sha1\": \"{commit_id}\" }},\n  \"path_in_vcs\": \"host/cli\"\n}}"
    );
    fs::write(package.join(".cargo_vcs_info.json"), vcs_info).unwrap();
    assert_eq!(build("release", &[]), " (0123456789ab)", "a package says itself what it is of");
}

needs!(Git => fn version_names_the_commit_it_was_built_from);
