//! The plan of shares.

use tenure_shares::Plan;

/// The most shares that a plan may have here.
const MAX_SHARES: u32 = 512;

/// A plan as JSON. One that is sound can be carried out, and is the same after it was written and read again.
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
