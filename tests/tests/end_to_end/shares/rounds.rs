//! A round of what the program `shares` measures: a component is the work of each share.

use std::path::Path;
use std::time::Duration;

use tenure_tests::Store;
use tenure_tests::rounds::Rounds;

use crate::PROGRAM;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_come_and_go_and_no_share_is_worked_for_twice() {
    let store = Store::shared_azurite(false).await.unwrap();
    let rounds = Rounds {
        program: Path::new(PROGRAM).to_owned(),
        shares: 8,
        rounds: 1,
        quiet: Duration::ZERO,
        // Long enough that a member on a busy machine is not taken for gone.
        options: ["--lease", "30s"].map(str::to_owned).to_vec(),
    };
    let course = rounds.play(&store).await.unwrap();
    assert_eq!(course.overlap.1, 0, "{course:?}");
    assert!(course.beats > 0 && course.changes.len() == 6, "{course:?}");
    for changed in &course.changes {
        assert!(changed.moves <= changed.may_move, "{course:?}");
    }
}
