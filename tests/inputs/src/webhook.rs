//! Webhooks: their destinations, their signatures, and the responses of their receivers.

use std::time::Duration;

use tenure_core::{Timestamp, Turn};
use tenure_webhook::{Call, Target, variable as name};

use crate::account::assert_sendable;
use crate::answer::wall;
use crate::variable;

/// Tests `NAME=value` lines of the settings, followed by the receiver's response.
///
/// A call can be sent, and messages about its response do not repeat the token.
pub fn webhook(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lookup = |name: &str| variable(&text, name);
    let Ok((target, credentials)) = Target::read(&lookup) else { return };
    let turn = Turn {
        election: "jobs/report".into(),
        key: "acme/jobs/report/2026-11-20T07:00:00Z".into(),
        term: 1_795_762_800,
        slot: Timestamp::from_date(wall()),
        trigger: None,
        attempt: 1,
        past_due: false,
        missed: 0,
        valid_for: Duration::from_secs(10),
        time_limit: None,
        share: None,
    };
    let call = Call::new(&turn, &target, &credentials, wall().timestamp());
    assert_sendable(&call.request);
    let message = call.check_response(500, data).expect_err("500 is a failure");
    assert!(!message.contains(char::is_control), "{message:?}");
    let token = variable(&text, name::TOKEN).map(|token| token.trim().to_owned());
    if let Some(token) = token.filter(|token| token.len() >= 12) {
        assert!(!message.contains(&token), "{message}");
    }
}
