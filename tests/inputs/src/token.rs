//! Responses of identity endpoints, and JSON.

use std::time::Duration;

use tenure_azure::identity::{Token, is_token};
use tenure_base::json::members;

use crate::answer::{RawAnswer, wall};

/// Tests the response of an identity endpoint. An accepted token is valid in a header, and has an
/// expiry.
pub fn token(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        let _ = members(text);
    }
    let Some(answer) = RawAnswer::read(data) else { return };
    if let Ok(token) = Token::from_response(answer.status, answer.body, wall()) {
        assert!(is_token(token.secret.reveal()));
        assert!(
            (Duration::ZERO..Duration::from_secs(10 * 366 * 86_400)).contains(&token.valid_for)
        );
        assert!(
            !format!("{token:?}").contains(token.secret.reveal())
                || token.secret.reveal().len() < 12
        );
    }
}
