//! Asks a candidate to resign: `POST /resign` where it listens.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The variable that gives a candidate the token for it.
pub(super) const TOKEN: &str = "TENURE_CONTROL_TOKEN";

/// It is on this machine, and answers before it stops its work.
const LIMIT: Duration = Duration::from_secs(5);

/// More than an answer may be.
const LONGEST: u64 = 16 * 1024;

/// Ok: it will. Error: why not.
pub(super) async fn ask(address: &str, token: &str) -> Result<(), String> {
    let answer = match timeout(LIMIT, post(address, token)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(format!("it cannot be asked: {error}")),
        Err(_) => return Err("it does not answer".to_owned()),
    };
    judge(&answer)
}

async fn post(address: &str, token: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "POST /resign HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-length: 0\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn judge(answer: &str) -> Result<(), String> {
    let status = answer.split(' ').nth(1).unwrap_or_default();
    if status.len() == 3 && status.starts_with('2') {
        return Ok(());
    }
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
    let told = serde_json::from_str::<serde_json::Value>(body).unwrap_or_default();
    let told = told.get("error").or(told.get("reason")).and_then(|text| text.as_str());
    Err(format!("it answers {status}: {}", told.unwrap_or(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_yes_or_why_not() {
        assert_eq!(judge("HTTP/1.1 202 Accepted\r\n\r\n"), Ok(()));
        for (answer, why) in [
            ("HTTP/1.1 404 Not Found\r\nx: y\r\n\r\n{\"error\":\"no\"}\n", "it answers 404: no"),
            ("HTTP/1.1 403 Forbidden\r\n\r\nno", "it answers 403: no"),
            ("", "it answers : "),
        ] {
            assert_eq!(judge(answer), Err(why.to_owned()));
        }
    }
}
