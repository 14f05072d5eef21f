//! Where settings came from, for the complaints of the component.

use super::Configuration;
use crate::cli::complaint::{Complaint, reworded, shown};
use crate::contract;
use crate::settings::names;
use std::path::Path;

impl Configuration {
    /// Adds what the component complains about.
    pub(in crate::cli) fn add(&mut self, complaints: Vec<contract::Complaint>) {
        for complaint in complaints {
            let file = self.settings.get(&complaint.setting).map(str::to_owned);
            let origin = self.origins.iter().find(|(setting, _)| *setting == complaint.setting);
            let source = match origin {
                Some((_, told)) if told.is_empty() => continue,
                Some((_, source)) => source.clone(),
                None => match flag_of(&complaint.setting) {
                    Some(flag) if self.settings.get(&complaint.setting).is_none() => {
                        format!("{flag}, or {}", complaint.setting)
                    }
                    _ => complaint.setting,
                },
            };
            // The other setting of two that do not go together is called as it was given, too.
            let problem = reworded(&complaint.problem, |word| self.typed(word));
            // The component cannot know why it does not see a file.
            let (problem, advice) = file
                .filter(|_| problem.starts_with("the file "))
                .and_then(|file| unopened(Path::new(file.trim())))
                .unwrap_or((problem, complaint.advice));
            self.complaints.push(Complaint::new(source, problem, advice));
        }
    }

    /// The flag that gave a setting; none when it comes from a variable.
    fn typed(&self, setting: &str) -> Option<String> {
        let (_, source) = self.origins.iter().find(|(known, _)| *known == setting)?;
        source.split(' ').next().filter(|flag| !flag.is_empty()).map(str::to_owned)
    }
}

/// Why the component is not given a file, and what to do; none when it is not the path's fault.
fn unopened(path: &Path) -> Option<(String, String)> {
    let in_root = path.parent().is_none_or(|parent| parent.parent().is_none() && parent.has_root());
    let (problem, advice) = match std::fs::metadata(path) {
        Ok(known) if known.is_dir() => ("is a directory".to_owned(), "name the file in it"),
        Err(error) if in_root => (format!("cannot be read: {error}"), "check the path"),
        Ok(_) if in_root => (
            "lies directly in the root directory, which is not opened to the component".to_owned(),
            "put it into a directory of its own",
        ),
        _ => return None,
    };
    Some((format!("the file {} {problem}", shown(&path.to_string_lossy())), advice.to_owned()))
}

fn flag_of(setting: &str) -> Option<&'static str> {
    match setting {
        names::ELECTION => Some("--election"),
        names::CONNECTION_STRING => Some("--connection-string-file"),
        _ => None,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn why_a_file_is_not_opened_is_told_as_this_system_does() {
        for (path, words) in [
            ("/no-such-file", Some("cannot be read: No such file")),
            ("/", Some("is a directory")),
            ("/tmp", Some("is a directory")),
            ("/no/such/file", None),
        ] {
            let told = unopened(Path::new(path)).map(|(problem, _)| problem);
            assert_eq!(told.is_some(), words.is_some(), "{path}: {told:?}");
            assert!(words.is_none_or(|words| told.as_ref().unwrap().contains(words)), "{told:?}");
        }
    }
}
