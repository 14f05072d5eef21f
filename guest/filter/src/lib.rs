//! A filter of environment variables in a composed component, whose election and handler share one
//! environment. The handler sees no credential of the election.
//!
//! The filter hides the variables that begin with one of [`HIDDEN_PREFIXES`], except those that
//! begin with [`VISIBLE_PREFIX`]. Both are defined only here.
//!
//! With the feature `spin-variables`, the component instead adds Spin's variables to the
//! environment, so that settings can come from a provider such as a Kubernetes Secret. It is in
//! front of the election and the handler.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std, allow(unsafe_code, reason = "generated bindings"))]

/// Prefixes of storage credentials, of the token endpoints of managed identities, and of the
/// election's settings.
pub const HIDDEN_PREFIXES: [&str; 4] = ["AZURE_", "IDENTITY_", "MSI_", "TENURE_"];

/// The prefix of the handler's own variables.
pub const VISIBLE_PREFIX: &str = "TENURE_HANDLER_";

/// Returns true if a handler may see the variable `name`, in any case of its letters.
#[must_use]
pub fn is_visible(name: &str) -> bool {
    let has_prefix = |prefix: &str| {
        let start = name.as_bytes().get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    !HIDDEN_PREFIXES.iter().any(|prefix| has_prefix(prefix)) || has_prefix(VISIBLE_PREFIX)
}

#[cfg(target_family = "wasm")]
mod component {
    extern crate alloc;

    use alloc::string::String;
    use alloc::vec::Vec;
    use tenure_wasi as _;

    /// The bindings that the macro generates from `wit/`.
    mod bindings {
        #![allow(missing_docs, clippy::all)]
        #[cfg(not(feature = "spin-variables"))]
        wit_bindgen::generate!({ path: "wit", world: "filter", generate_all });
        #[cfg(feature = "spin-variables")]
        wit_bindgen::generate!({ path: "wit", world: "spin-variables", generate_all });
        export!(Filter with_types_in self);
        use super::Filter;
    }

    use bindings::exports::wasi::cli::environment::Guest;
    use bindings::wasi::cli::environment;

    struct Filter;

    impl Guest for Filter {
        #[cfg(not(feature = "spin-variables"))]
        fn get_environment() -> Vec<(String, String)> {
            let mut variables = environment::get_environment();
            variables.retain(|(name, _)| super::is_visible(name));
            variables
        }

        /// Spin's names are in lower case. Its variables replace those of the environment.
        #[cfg(feature = "spin-variables")]
        #[expect(clippy::panic, reason = "an environment cannot tell of an error; the log can")]
        fn get_environment() -> Vec<(String, String)> {
            let spin_variables = match bindings::wasi::config::store::get_all() {
                Ok(variables) => variables,
                Err(error) => panic!("Spin's variables cannot be read: {error:?}"),
            };
            let mut variables = environment::get_environment();
            for (name, value) in spin_variables {
                let name = name.to_ascii_uppercase();
                variables.retain(|(known, _)| *known != name);
                variables.push((name, value));
            }
            variables
        }

        fn get_arguments() -> Vec<String> {
            environment::get_arguments()
        }

        fn initial_cwd() -> Option<String> {
            environment::initial_cwd()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_visible;

    #[test]
    fn secrets_are_hidden() {
        for name in [
            "AZURE_STORAGE_CONNECTION_STRING",
            "azure_client_secret",
            "IDENTITY_ENDPOINT",
            "IDENTITY_HEADER",
            "MSI_SECRET",
            "TENURE_TICK_TOKEN",
            "TENURE_HANDLER",
        ] {
            assert!(!is_visible(name), "{name}");
        }
    }

    #[test]
    fn other_variables_are_visible() {
        for name in ["", "PATH", "REPORT_URL", "AZUR", "TENURE_HANDLER_URL"] {
            assert!(is_visible(name), "{name}");
        }
    }
}
