//! Asks a candidate to resign: `POST /resign` where it listens.

use reqwest::Url;
use serde_json::Value;
use std::time::Duration;
use tenure::program::http::{Clients, whole};

/// It is on this machine, and answers before it stops its work.
const LIMIT: Duration = Duration::from_secs(5);

/// No answer of a candidate is longer, in bytes.
const LONGEST: usize = 64 * 1024;

/// Ok: it will. Error: why not.
pub(super) async fn ask(address: &str, token: &str) -> Result<(), String> {
    let clients = Clients::default();
    let url = Url::parse(&format!("http://{address}/resign")).map_err(|error| error.to_string())?;
    let request = clients.get(&url)?.post(url);
    let unreached =
        |error: reqwest::Error| format!("it cannot be reached: {}", error.without_url());
    let answer = request.bearer_auth(token).timeout(LIMIT).send().await.map_err(unreached)?;
    let status = answer.status().as_u16();
    let body = whole(answer, LONGEST).await.map_err(|_| "its answer cannot be read".to_owned())?;
    judge(status, &body)
}

fn judge(status: u16, body: &[u8]) -> Result<(), String> {
    if (200..300).contains(&status) {
        return Ok(());
    }
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    let why = told.get("error").and_then(Value::as_str);
    Err(why.map_or_else(|| format!("it answers {status}"), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_yes_or_why_not() {
        assert_eq!(judge(202, b""), Ok(()));
        let why = |status, body: &str| judge(status, body.as_bytes()).unwrap_err();
        assert_eq!(why(409, "{\"error\":\"it does not lead\"}\n"), "it does not lead");
        assert_eq!(why(403, "no"), "it answers 403");
        assert_eq!(why(302, "{}"), "it answers 302");
    }
}
