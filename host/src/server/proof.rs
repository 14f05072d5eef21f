//! How an operator shows that it has the control token without showing the token.
//!
//! The address of a leader is what somebody wrote on the record, so nobody knows who listens there;
//! and what is sent may be read on the way. So the token itself is not sent:
//!
//! 1. The operator sends the order without anything. The listener refuses it with 401 and
//!    `WWW-Authenticate: Tenure nonce="NONCE"`.
//! 2. The operator sends it again with `Authorization: Tenure nonce="NONCE", proof="PROOF"`.
//!    PROOF is the HMAC-SHA256, in hexadecimal digits, with the token as the key, over `tenure order
//!    v1`, the order (`resign`, `transfer`, `pause`, `resume`, `trigger` or `triggered`), the successor of a
//!    transfer or the id of a trigger (else empty), the election, the candidate's name, and NONCE; before each of these stand its length in
//!    bytes and a colon.
//!
//! A nonce is good for 30 s by the listener's own clock, for one order, and only where it was made:
//! it carries when it was made and a MAC of that under a key that the listener made at its start. So
//! nothing is kept of nonces that are asked for, and asking for many does no harm; of those that were
//! used something is kept, and only who has the token can use one. Whoever listens in, or listens in
//! the leader's place, has nothing but a proof that is of use for the very order that was meant. With
//! `--at` the listener itself tells for which candidate the proof is good, and for which election when
//! none is named.

use super::token::ControlToken;
use hmac::{Hmac, KeyInit as _, Mac as _};
use rustls::crypto::SecureRandom;
use sha2::Sha256;
use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a nonce is good for.
const LIFE: Duration = Duration::from_secs(30);

/// The scheme's name in headers.
pub const SCHEME: &str = "Tenure";

/// Digits of a number, two of which a nonce begins with.
const NUMBER: usize = 16;

/// Digits of a MAC.
const MAC: usize = 64;

/// An order as both sides mean it.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    /// `resign`, `transfer`, `pause`, `resume`, `trigger`, or `triggered` to be told of one.
    pub order: &'a str,
    /// The successor of a transfer, or the id of a trigger; else empty.
    pub to: &'a str,
    /// `container/blob`.
    pub election: &'a str,
    /// The name of the candidate that is to obey.
    pub candidate: &'a str,
}

impl Intent<'_> {
    /// The proof that whoever has the token wants this, once.
    pub fn prove(&self, token: &ControlToken, nonce: &str) -> String {
        digits(self.mac(token, nonce))
    }

    fn mac(&self, token: &ControlToken, nonce: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(token.reveal().as_bytes()).ok()?;
        let Self { order, to, election, candidate } = self;
        for part in ["tenure order v1", order, to, election, candidate, nonce] {
            mac.update(format!("{}:", part.len()).as_bytes());
            mac.update(part.as_bytes());
        }
        Some(mac)
    }
}

/// The value of `Authorization`.
pub fn authorization(nonce: &str, proof: &str) -> String {
    format!("{SCHEME} nonce=\"{nonce}\", proof=\"{proof}\"")
}

/// The nonce in a `WWW-Authenticate`, of which there may be several.
pub fn nonce_of<'a>(challenges: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    challenges.into_iter().find_map(|challenge| {
        let nonce = parameter(challenge.strip_prefix(SCHEME)?, "nonce")?;
        nonce.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(nonce)
    })
}

/// The value of `name="…"`.
fn parameter<'a>(parameters: &'a str, name: &str) -> Option<&'a str> {
    parameters.split(',').find_map(|parameter| {
        let value = parameter.trim().strip_prefix(name)?.strip_prefix("=\"")?;
        value.strip_suffix('"')
    })
}

/// Makes nonces, and takes each of them once.
pub(super) struct Nonces {
    key: [u8; 32],
    count: AtomicU64,
    /// The nonces that were used, as long as they would be good.
    used: Mutex<Vec<(Duration, String)>>,
}

impl Nonces {
    /// # Errors
    ///
    /// The system gives no randomness.
    pub(super) fn new() -> io::Result<Self> {
        let mut key = [0; 32];
        let random: &dyn SecureRandom = rustls::crypto::ring::default_provider().secure_random;
        random.fill(&mut key).map_err(|_| io::Error::other("the system provides no randomness"))?;
        Ok(Self { key, count: AtomicU64::new(0), used: Mutex::default() })
    }

    /// A new one, made at `now`.
    pub(super) fn issue(&self, now: Duration) -> String {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let text = format!("{:016x}{number:016x}", u64::try_from(now.as_millis()).unwrap_or(0));
        let mac = digits(self.mac(&text));
        text + &mac
    }

    /// Whether an `Authorization` proves the intent; at most once for each nonce.
    pub(super) fn accept(
        &self,
        authorization: &str,
        intent: &Intent<'_>,
        token: &ControlToken,
        now: Duration,
    ) -> bool {
        let Some(parameters) = authorization.strip_prefix(SCHEME) else { return false };
        let parts = (parameter(parameters, "nonce"), parameter(parameters, "proof"));
        let (Some(nonce), Some(proof)) = parts else { return false };
        self.is_good(nonce, now)
            && is_mac(intent.mac(token, nonce), proof)
            && self.use_up(nonce, now)
    }

    fn is_good(&self, nonce: &str, now: Duration) -> bool {
        let Some((text, mac)) = nonce.split_at_checked(2 * NUMBER) else { return false };
        let made = text.get(..NUMBER).and_then(|text| u64::from_str_radix(text, 16).ok());
        let made = made.map(Duration::from_millis);
        is_mac(self.mac(text), mac) && made.is_some_and(|made| now.saturating_sub(made) < LIFE)
    }

    fn use_up(&self, nonce: &str, now: Duration) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|(at, _)| now.saturating_sub(*at) < LIFE);
        let is_new = used.iter().all(|(_, known)| known != nonce);
        if is_new {
            used.push((now, nonce.to_owned()));
        }
        is_new
    }

    fn mac(&self, text: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        mac.update(text.as_bytes());
        Some(mac)
    }
}

/// A MAC in hexadecimal digits. HMAC takes keys of any length, so that there always is one.
fn digits(mac: Option<Hmac<Sha256>>) -> String {
    let bytes = mac.map(|mac| mac.finalize().into_bytes()).unwrap_or_default();
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether these are the digits of the MAC. Takes as long whatever is different.
fn is_mac(mac: Option<Hmac<Sha256>>, shown: &str) -> bool {
    if shown.len() != MAC || !shown.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return false;
    }
    let byte = |at| shown.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let shown: Option<Vec<_>> = (0..MAC).step_by(2).map(byte).collect();
    mac.zip(shown).is_some_and(|(mac, shown)| mac.verify_slice(&shown).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000_000);

    const INTENT: Intent<'_> =
        Intent { order: "transfer", to: "ben", election: "jobs/report", candidate: "ada" };

    fn token(text: &str) -> ControlToken {
        ControlToken::new(text).unwrap()
    }

    #[test]
    fn a_proof_is_good_for_one_order_and_once() {
        let (nonces, token) = (Nonces::new().unwrap(), token("0123456789abcdef"));
        let shown_at = |intent: &Intent<'_>, at| {
            let nonce = nonces.issue(at);
            authorization(&nonce, &intent.prove(&token, &nonce))
        };
        let shown = |intent: &Intent<'_>| shown_at(intent, NOW);
        let accepts = |shown: &str, now| nonces.accept(shown, &INTENT, &token, now);
        for other in [
            Intent { order: "resign", ..INTENT },
            Intent { to: "cleo", ..INTENT },
            Intent { to: "b", election: "en/jobs", ..INTENT },
            Intent { election: "jobs/other", ..INTENT },
            Intent { candidate: "eve", ..INTENT },
        ] {
            assert!(!accepts(&shown(&other), NOW), "{other:?}");
        }
        let good = shown(&INTENT);
        assert!(accepts(&good, NOW + LIFE / 2));
        assert!(!accepts(&good, NOW + LIFE / 2), "once");
        let (nonce, proof) = good.split_once(", ").unwrap();
        let other_letters =
            format!("{}, {proof}", nonce.to_uppercase().replace("TENURE NONCE", "Tenure nonce"));
        assert!(!accepts(&other_letters, NOW), "once, however it is written");
        assert!(!accepts(&shown(&INTENT), NOW + LIFE), "too late");
        let later = NOW + 2 * LIFE;
        assert!(accepts(&shown_at(&INTENT, later), later), "nothing is kept for ever");
        assert_eq!(nonces.used.lock().unwrap().len(), 1);
    }

    #[test]
    fn nonces_of_others_and_other_tokens_prove_nothing() {
        let (nonces, token) = (Nonces::new().unwrap(), token("0123456789abcdef"));
        let elsewhere = Nonces::new().unwrap().issue(NOW);
        let shown = authorization(&elsewhere, &INTENT.prove(&token, &elsewhere));
        assert!(!nonces.accept(&shown, &INTENT, &token, NOW));
        let nonce = nonces.issue(NOW);
        let guessed = ControlToken::new("0123456789abcdeF").unwrap();
        let shown = authorization(&nonce, &INTENT.prove(&guessed, &nonce));
        assert!(!nonces.accept(&shown, &INTENT, &token, NOW));
        for shown in ["", "Tenure", "Tenure nonce=\"\", proof=\"\"", "Tenure nonce=\"ü\""] {
            assert!(!nonces.accept(shown, &INTENT, &token, NOW), "{shown}");
        }
    }

    /// So that others can write a client by the text above.
    #[test]
    fn the_proof_is_what_the_text_says() {
        let proof = INTENT.prove(&token("0123456789abcdef"), "abc");
        // printf '15:tenure order v18:transfer3:ben11:jobs/report3:ada3:abc' |
        //     openssl dgst -sha256 -hmac 0123456789abcdef
        assert_eq!(proof, "8fe43e7b7e5040d6155a8d09969e774c04ae1fc8396811bc3fd060021a21cbf5");
    }

    #[test]
    fn the_nonce_is_found_among_the_challenges() {
        for (challenges, nonce) in [
            (&["Bearer", "Tenure nonce=\"0a1B\""][..], Some("0a1B")),
            (&["Bearer"], None),
            (&["Tenure nonce=\"x\""], None),
            (&["Tenure realm=\"a\", nonce=\"12\""], Some("12")),
        ] {
            assert_eq!(nonce_of(challenges.iter().copied()), nonce);
        }
    }
}
