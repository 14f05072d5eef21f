//! Bearer tokens like those of Entra ID, as far as Azurite checks them: it verifies the claims but
//! not the signature.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

/// Audience of a token that every storage account accepts.
pub const AUDIENCE: &str = "https://storage.azure.com";

/// Real tokens are valid from some time before their issue, to tolerate slow clocks.
const BACKDATED_BY: TimeDelta = TimeDelta::minutes(5);

/// Returns a unique token for storage accounts that expires after `lifetime`.
#[must_use]
pub fn bearer(lifetime: Duration) -> String {
    let now = Utc::now();
    let lifetime = TimeDelta::from_std(lifetime).expect("less than centuries");
    token(AUDIENCE, now - BACKDATED_BY, now + lifetime)
}

/// Returns a token for `audience` with this validity, in whole seconds.
#[must_use]
pub fn token(audience: &str, from: DateTime<Utc>, until: DateTime<Utc>) -> String {
    let unique = uuid::Uuid::new_v4();
    let tenant = "ab1f708d-50f6-404c-a006-d71b2ac7a606";
    let header = json!({ "typ": "JWT", "alg": "RS256", "kid": "a-test" });
    let claims = json!({
        "aud": audience,
        "iss": format!("https://sts.windows.net/{tenant}/"),
        "iat": from.timestamp(),
        "nbf": from.timestamp(),
        "exp": until.timestamp(),
        "appid": "f997392c-e15a-4ad8-af9e-cd6966caba7f",
        "idtyp": "app",
        "oid": "11059fcc-5514-4800-b5f8-49808b9cfab6",
        "sub": "11059fcc-5514-4800-b5f8-49808b9cfab6",
        "tid": tenant,
        "uti": unique.simple().to_string(),
        "ver": "1.0",
    });
    let encoded = |part: Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let signature = URL_SAFE_NO_PAD.encode(unique);
    format!("{}.{}.{signature}", encoded(header), encoded(claims))
}
