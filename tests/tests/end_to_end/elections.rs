//! End-to-end tests of elections: real `tenure run` processes contend on a store, a handler beats
//! at a sink every 20 ms, and faults occur.
//!
//! Every scenario runs against the embedded store and, where Node.js is installed, against Azurite.
//! On Azurite it runs over plain HTTP and over TLS, with the account's key, an account SAS and a
//! service SAS; over TLS it also runs with a token. Scenarios that do not stop the store also run
//! against a real account if `TENURE_TEST_CONNECTION_STRING` names one:
//!
//! ```text
//! TENURE_TEST_CONNECTION_STRING='…' cargo test -p tenure-tests --test end_to_end account -- --ignored
//! ```

use tenure_tests::Credential::{AccountSas, Bearer, ServiceSas, SharedKey};
use tenure_tests::{Store, needs};

/// Defines a test for each scenario, on the store that `$store` starts, for candidates with
/// `$credential`.
macro_rules! suite {
    ($store:expr, $credential:expr, [$($kind:tt)*],) => {};
    ($store:expr, $credential:expr, [$($kind:tt)*], $scenario:ident $($others:ident)*) => {
        suite! { @ [$($kind)*] $scenario {
            let stage = ($store.unwrap(), $credential);
            super::super::scenarios::$scenario(stage).await.unwrap();
        } }
        suite! { $store, $credential, [$($kind)*], $($others)* }
    };
    (@ [needs Node] $scenario:ident $body:block) => {
        async fn $scenario() $body
        needs!(Node => async fn $scenario);
    };
    (@ [$(#[$attribute:meta])?] $scenario:ident $body:block) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
        $(#[$attribute])?
        async fn $scenario() $body
    };
}

macro_rules! everywhere {
    ($store:expr, $credential:expr, $kind:tt) => {
        suite! { $store, $credential, $kind,
            one_leads_and_the_others_follow
            a_killed_leader_is_succeeded
            a_stopped_leader_hands_over
            a_broken_lease_is_noticed
            terms_rise_although_the_blob_was_deleted
            terms_rise_although_the_record_was_wiped
            terms_rise_although_the_container_was_deleted
            a_wrong_credential_is_a_problem_and_harms_nobody
            a_blob_of_somebody_else_is_left_alone
            renewals_outlive_idle_connections
            candidates_with_different_leases_share_an_election
        }
    };
}

macro_rules! where_the_store_can_be_stopped {
    ($store:expr, $credential:expr, $kind:tt) => {
        suite! { $store, $credential, $kind,
            a_store_that_restarts_costs_only_the_outage
            a_store_that_is_away_at_the_start_is_waited_for
        }
    };
}

/// Defines all tests, on a store that tests share and on one that can be stopped.
macro_rules! on {
    ($name:ident, $store:expr, $own_store:expr, $credential:expr, $kind:tt) => {
        mod $name {
            use super::*;
            everywhere!($store.await, $credential, $kind);
            where_the_store_can_be_stopped!($own_store.await, $credential, $kind);
        }
    };
}

/// Defines the tests that take a minute, which do not depend on the credential.
macro_rules! for_a_minute {
    ($name:ident, $store:expr, $kind:tt) => {
        mod $name {
            use super::*;
            suite! { $store.await, SharedKey, $kind,
                the_follower_reports_that_the_leader_has_another_schedule
            }
        }
    };
}

for_a_minute!(embedded_minute, Store::embedded(), []);
for_a_minute!(azurite_minute, Store::shared_azurite(false), [needs Node]);
on!(embedded, Store::embedded(), Store::embedded(), SharedKey, []);
on!(azurite, Store::shared_azurite(false), Store::azurite(), SharedKey, [needs Node]);
on!(azurite_account_sas, Store::shared_azurite(false), Store::azurite(), AccountSas, [needs Node]);
on!(azurite_service_sas, Store::shared_azurite(false), Store::azurite(), ServiceSas, [needs Node]);
on!(azurite_tls, Store::shared_azurite(true), Store::azurite_tls(), SharedKey, [needs Node]);
on!(azurite_tls_account_sas, Store::shared_azurite(true), Store::azurite_tls(), AccountSas, [needs Node]);
on!(azurite_tls_service_sas, Store::shared_azurite(true), Store::azurite_tls(), ServiceSas, [needs Node]);
on!(azurite_tls_bearer, Store::shared_azurite(true), Store::azurite_tls(), Bearer, [needs Node]);

mod account {
    use super::*;
    everywhere!(Store::account(), SharedKey, [#[ignore = "needs TENURE_TEST_CONNECTION_STRING"]]);
}
