//! A round of the program `shares`: a component is the work of each share.

use std::path::Path;
use std::time::Duration;

use tenure_tests::share_rounds::Rounds;
use tenure_tests::{Store, needs};

use crate::PROGRAM;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_share_is_worked_for_twice_on_the_embedded_store() {
    no_share_is_worked_for_twice(Store::embedded().await.unwrap()).await;
}

async fn no_share_is_worked_for_twice_on_azurite() {
    no_share_is_worked_for_twice(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn no_share_is_worked_for_twice_on_azurite);

/// Processes join and leave.
async fn no_share_is_worked_for_twice(store: Store) {
    let rounds = Rounds {
        program: Path::new(PROGRAM).to_owned(),
        shares: 8,
        rounds: 1,
        quiet: Duration::ZERO,
        // Long enough for a member on a busy machine not to count as gone.
        options: ["--lease", "30s"].map(str::to_owned).to_vec(),
    };
    let outcome = rounds.run(&store).await.unwrap();
    assert_eq!(outcome.overlap.1, 0, "{outcome:?}");
    assert!(outcome.beats > 0 && outcome.changes.len() == 6, "{outcome:?}");
    for change in &outcome.changes {
        assert!(change.moves <= change.max_moves, "{outcome:?}");
    }
}
