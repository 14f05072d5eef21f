//! Where settings came from, for the complaints of the component.

use super::Configuration;
use crate::complaint::{Complaint, reworded, shown};
use std::path::Path;
use tenure::contract;
use tenure::settings::names;

impl Configuration {
    /// Adds what the component complains about.
    pub(crate) fn add(&mut self, complaints: Vec<contract::Complaint>) {
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
            // Who uses options is told of options.
            let advice = match origin {
                Some(_) => reworded(&complaint.advice, |word| self.spoken(word)),
                None => complaint.advice,
            };
            // The component cannot know why it does not see a file.
            let (problem, advice) = file
                .filter(|_| problem.starts_with("the file "))
                .and_then(|file| unopened(Path::new(file.trim())))
                .unwrap_or((problem, advice));
            self.complaints.push(Complaint::new(source, problem, advice));
        }
    }

    /// What was told of settings, with their options for whoever uses options.
    pub(crate) fn vocabulary(&self) -> Vocabulary {
        let uses_options = self.origins.iter().any(|(_, source)| source.starts_with("--"));
        let words = self.options.iter().filter(|_| uses_options);
        let words = words.filter_map(|(setting, _)| Some((*setting, self.spoken(setting)?)));
        Vocabulary(words.collect())
    }

    /// The option for a word that names a setting, unless a variable sets that. `NAME=VALUE` too.
    fn spoken(&self, word: &str) -> Option<String> {
        let (setting, value) = word.split_once('=').map_or((word, None), |(s, v)| (s, Some(v)));
        let (_, option) = self.options.iter().find(|(known, _)| *known == setting)?;
        let by_variable = self.settings.get(setting).is_some() && self.typed(setting).is_none();
        (!by_variable).then(|| match value {
            Some(value) => format!("{option} {value}"),
            None => (*option).to_owned(),
        })
    }

    /// The flag that gave a setting; none when it comes from a variable.
    fn typed(&self, setting: &str) -> Option<String> {
        let (_, source) = self.origins.iter().find(|(known, _)| *known == setting)?;
        source.split(' ').next().filter(|flag| !flag.is_empty()).map(str::to_owned)
    }
}

/// Options by the settings that they give.
#[derive(Clone, Default)]
pub(crate) struct Vocabulary(Vec<(&'static str, String)>);

impl Vocabulary {
    /// A text of the component's, which knows settings only, in the words of those who gave them.
    pub(crate) fn translate(&self, text: &str) -> String {
        let option = |word: &str| self.0.iter().find(|(setting, _)| *setting == word);
        reworded(text, |word| option(word).map(|(_, option)| option.clone()))
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

    /// As if these options and variables were given.
    fn given(options: &[(&'static str, &'static str)], variables: &[&str]) -> Configuration {
        let mut this = Configuration::default();
        for name in variables {
            this.settings.set(name, "1s");
        }
        for (setting, option) in [
            (names::LEASE, "--lease"),
            (names::RENEW, "--renew"),
            (names::MAX_ATTEMPTS, "--max-attempts"),
            (names::DELIVERY, "--delivery"),
            (names::TURN_TIMEOUT, "--turn-timeout"),
        ] {
            let value = options.iter().find(|(known, _)| *known == option).map(|(_, v)| *v);
            this.flag(setting, option, value);
        }
        this
    }

    #[test]
    fn who_uses_options_is_told_of_options() {
        let advice = |configuration: &mut Configuration, setting: &str, advice: &str| {
            let (setting, advice) = (setting.to_owned(), advice.to_owned());
            configuration.add(vec![contract::Complaint {
                setting,
                problem: String::new(),
                advice,
            }]);
            configuration.complaints.pop().unwrap().advice
        };
        let text = "leave it out, or set TENURE_DELIVERY=at-least-once; raise TENURE_LEASE.";
        let mut by_option = given(&[("--max-attempts", "3")], &[]);
        assert_eq!(
            advice(&mut by_option, names::MAX_ATTEMPTS, text),
            "leave it out, or set --delivery at-least-once; raise --lease."
        );
        // What is set by a variable goes by its name, and all does for who sets variables.
        let mut mixed = given(&[("--max-attempts", "3")], &[names::LEASE]);
        let told = advice(&mut mixed, names::MAX_ATTEMPTS, text);
        assert_eq!(told, "leave it out, or set --delivery at-least-once; raise TENURE_LEASE.");
        let mut by_variable = given(&[], &[names::MAX_ATTEMPTS]);
        assert_eq!(advice(&mut by_variable, names::MAX_ATTEMPTS, text), text);
    }

    #[test]
    fn problems_speak_of_options_too() {
        let problem = "find out what it waits for, or raise TENURE_TURN_TIMEOUT";
        let by_option = given(&[("--turn-timeout", "5s")], &[]).vocabulary();
        assert_eq!(
            by_option.translate(problem),
            problem.replace("TENURE_TURN_TIMEOUT", "--turn-timeout")
        );
        let by_variable = given(&[], &[names::TURN_TIMEOUT]).vocabulary();
        assert_eq!(by_variable.translate(problem), problem);
    }

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
