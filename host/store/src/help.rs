//! Documentation of the supported operations, generated from the table that accepts and refuses
//! requests.

use super::operation::OPERATIONS;
#[cfg(test)]
use super::operation::Target;

/// Returns the text of `tenure store --help` below the options.
pub fn help() -> String {
    let mut titles: Vec<_> = OPERATIONS.iter().map(|row| title(row.title)).collect();
    // The actions of Lease Blob are consecutive.
    titles.dedup();
    let titles = titles.join(", ");
    format!(
        "It has one account, the emulators' own: clients reach it on port 10000 with the \
         connection string UseDevelopmentStorage=true. All data is lost when it ends.\n\n\
         It supports: {titles}.\n\n\
         Everything else of the Blob service is refused with 501 NotImplemented, and the message names it: block \
         lists, snapshots, copies, tags, versions, append and page blobs, leases of containers, and others. An SDK \
         uploads a large blob as a block list, so upload small ones. docs/store.md lists all headers and parameters \
         that are supported."
    )
}

/// Returns the title of an operation without the action of a lease.
fn title(title: &str) -> &str {
    title.split(':').next().unwrap_or(title)
}

/// Returns the table of `docs/store.md`.
#[cfg(test)]
fn table() -> String {
    let target_name = |on: Target| match on {
        Target::Account => "account",
        Target::Container => "container",
        Target::Blob => "blob",
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
        let target = target_name(row.target);
        text.push_str(&format!(
            "| {title} | {methods} {target}{comp} | {parameters} | {headers} |\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/store.md");
        let text = std::fs::read_to_string(page).expect("docs/store.md");
        let table = table();
        assert!(text.contains(&table), "docs/store.md must contain:\n\n{table}");
    }

    #[test]
    fn help_names_every_operation_once() {
        let help = help();
        for title in [" Get Blob,", "Lease Blob.", "List Containers,", "Put Blob,"] {
            assert_eq!(help.matches(title).count(), 1, "{title} in {help}");
        }
    }
}
