//! The whole thing, end to end: real `tenure run` processes that contend on a store, a
//! handler that beats at a sink every 20 ms, and everything that goes wrong.
//!
//! Every scenario runs against the embedded store and against Azurite. Those that do not
//! stop the store run against a real account too, when
//! `TENURE_TEST_CONNECTION_STRING` names one:
//!
//! ```text
//! TENURE_TEST_CONNECTION_STRING='…' cargo test -p tenure-tests --test e2e account -- --ignored
//! ```

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod scenarios;

use tenure_tests::Store;

/// One test for each scenario, on the store that `$store` starts.
macro_rules! suite {
    ($store:expr, [$($attribute:meta)?],) => {};
    ($store:expr, [$($attribute:meta)?], $scenario:ident $($others:ident)*) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
        $(#[$attribute])?
        async fn $scenario() {
            super::scenarios::$scenario($store.unwrap()).await.unwrap();
        }
        suite! { $store, [$($attribute)?], $($others)* }
    };
}

macro_rules! everywhere {
    ($store:expr, $($attribute:meta)?) => {
        suite! { $store, [$($attribute)?],
            one_leads_and_the_others_follow
            a_killed_leader_is_succeeded
            a_stopped_leader_hands_over
            a_broken_lease_is_noticed
            terms_rise_although_the_blob_was_deleted
            terms_rise_although_the_record_was_wiped
            terms_rise_although_the_container_was_deleted
            a_wrong_key_is_trouble_and_harms_nobody
            a_blob_of_somebody_else_is_left_alone
            renewals_outlive_idle_connections
            candidates_with_different_leases_share_an_election
            candidates_with_different_schedules_are_both_told
        }
    };
}

macro_rules! where_the_store_can_be_stopped {
    ($store:expr) => {
        suite! { $store, [],
            a_store_that_restarts_costs_only_the_outage
            a_store_that_is_away_at_the_start_is_waited_for
        }
    };
}

mod embedded {
    use super::Store;
    everywhere!(Store::embedded().await,);
    where_the_store_can_be_stopped!(Store::embedded().await);
}

mod azurite {
    use super::Store;
    everywhere!(Store::azurite().await,);
    where_the_store_can_be_stopped!(Store::azurite().await);
}

mod account {
    use super::Store;
    everywhere!(Store::account(), ignore = "needs TENURE_TEST_CONNECTION_STRING");
}
