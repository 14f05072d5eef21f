//! Who may steer a candidate.

use crate::runner::Order;
use std::fmt;
use tokio::sync::mpsc;
use zeroize::Zeroize;

/// Who may steer, and where the orders go.
#[derive(Clone, Debug)]
pub struct Control {
    /// What operators prove that they have.
    pub token: ControlToken,
    /// Read by the runner ([`run_with`](crate::runner::Runner::run_with)).
    pub orders: mpsc::Sender<Order>,
}

/// The secret that operators share with a candidate.
#[derive(Clone)]
pub struct ControlToken(String);

impl ControlToken {
    /// The fewest characters of a token.
    pub const SHORTEST: usize = 16;

    /// A token that is long enough and can stand in a header.
    ///
    /// # Errors
    ///
    /// The rule that it breaks.
    pub fn new(token: &str) -> Result<Self, &'static str> {
        let token = token.trim();
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has spaces or characters that cannot stand in a header");
        }
        if token.len() < Self::SHORTEST {
            return Err("has fewer than 16 characters");
        }
        Ok(Self(token.to_owned()))
    }

    /// The token itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether this is the token. Takes as long whatever is different.
    pub fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.0.as_bytes(), shown.as_bytes());
        let differs = own.iter().zip(shown).fold(0, |differs, (a, b)| differs | (a ^ b));
        own.len() == shown.len() && std::hint::black_box(differs) == 0
    }
}

impl Drop for ControlToken {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for ControlToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlToken(..)")
    }
}
