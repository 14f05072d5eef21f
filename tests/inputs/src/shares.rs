//! The plan of shares.

use tenure_shares::Plan;

/// Maximum number of shares in a plan.
const MAX_SHARES: u32 = 512;

/// Tests a plan as JSON. A sound plan can be carried out, and survives a write and a read.
pub fn shares(data: &[u8]) {
    let Ok(plan) = serde_json::from_slice::<Plan>(data) else { return };
    if !plan.is_valid(MAX_SHARES) {
        return;
    }
    let written = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&written).unwrap(), plan);
    assert_eq!(plan.all_shares().count(), plan.shares.len());
    for share in plan.all_shares() {
        let _ = plan.holder(share);
    }
    if let Some(next) = plan.next_split() {
        assert!(next.is_valid(MAX_SHARES) && next.split > plan.split, "{next:?}");
    }
}
