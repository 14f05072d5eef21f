//! What is supported and what is not, for people: made of the rows by which requests are judged.

#[cfg(test)]
use super::operation::On;
use super::operation::{NOT_PLAYED, OPERATIONS};

/// What `tenure store --help` says below the options.
pub fn help() -> String {
    let titles = OPERATIONS.iter().map(|row| title(row.title));
    let missing = NOT_PLAYED.iter().map(|(_, _, title)| *title);
    let (played, missing) = (once(titles).join(", "), once(missing).join(", "));
    format!(
        "It has one account, the emulators' own: clients reach it on port 10000 with the \
         connection string UseDevelopmentStorage=true. All data is lost when it ends.\n\n\
         It supports: {played}.\n\n\
         It does not support: {missing}, Copy Blob, Put Blob From URL, append \
         blobs, the pages of page blobs, conditions on tags, versions, encryption keys, public access, and checksums \
         other than MD5.\n\n\
         What the service has and this store does not support is refused with 501 NotImplemented; the message names \
         it. docs/store.md lists all headers and parameters that are supported."
    )
}

/// The title of an operation, without the action of a lease.
fn title(title: &str) -> &str {
    title.split(':').next().unwrap_or(title)
}

fn once<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    all.fold(Vec::new(), |mut once, name| {
        if !once.contains(&name) {
            once.push(name);
        }
        once
    })
}

/// The tables of `docs/store.md`.
#[cfg(test)]
fn tables() -> String {
    let place = |on: On| match on {
        On::Account => "account",
        On::Container => "container",
        On::Blob => "blob",
    };
    let code = |names: &mut dyn Iterator<Item = &str>| {
        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
    };
    let mut text = "| Operation | Request | Parameters | Headers |\n|---|---|---|---|\n".to_owned();
    for row in OPERATIONS.iter().filter(|row| matches!(row.action, "" | "acquire")) {
        let title = title(row.title);
        let methods = row.methods.join(", ");
        let comp =
            if row.comp.is_empty() { String::new() } else { format!(" `comp={}`", row.comp) };
        let (parameters, headers) = (
            code(&mut row.parameters.iter().copied()),
            code(&mut row.headers.iter().copied().flatten().copied()),
        );
        let on = place(row.on);
        text.push_str(&format!("| {title} | {methods} {on}{comp} | {parameters} | {headers} |\n"));
    }
    text.push_str("\n| Not supported | Request |\n|---|---|\n");
    for (on, comp, title) in NOT_PLAYED {
        text.push_str(&format!("| {title} | {} `comp={comp}` |\n", place(*on)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_tables() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/store.md");
        let text = std::fs::read_to_string(page).expect("docs/store.md");
        let tables = tables();
        assert!(text.contains(&tables), "docs/store.md must contain:\n\n{tables}");
    }

    #[test]
    fn help_names_every_operation_once() {
        let help = help();
        for title in [" Get Blob,", "Lease Blob.", "List Containers,", "Put Block List,"] {
            assert_eq!(help.matches(title).count(), 1, "{title} in {help}");
        }
    }
}
