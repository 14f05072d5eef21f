//! The judge: looks at what handlers did, at what was sent, and at what the store took.

use std::time::Duration;

use tenure::store::Request;
use tenure_guest::azure::Operation;

use super::{STOPPING, World};

/// Many, but not what a loop without a pause would send.
const MOST_REQUESTS: u32 = 60;

/// The second in which a record may be won again, and the one that is waited out.
const AGAIN: Duration = Duration::from_secs(3);

impl World {
    /// The store's view of who won what.
    pub(super) fn note_win(&mut self, request: &Request, status: u16) {
        let header = |name: &str| request.header(&format!("x-ms-meta-{name}"));
        let (Some(term), Some(nonce)) = (header("tenureterm"), header("tenurenonce")) else {
            return;
        };
        let win = (term.parse().unwrap(), nonce.to_string());
        if status != 200 || self.wins.last() == Some(&win) {
            return;
        }
        if let Some((before, _)) = self.wins.last() {
            // The exception: a record that is lost and won again within one second, which takes
            // three leaders in that second.
            let again = self.faults.outsider
                && *before == win.0
                && self.now.saturating_sub(self.won_at) < AGAIN;
            if win.0 <= *before && !again {
                let terms = format!("I2: term {} was won after term {before}", win.0);
                self.broken.push(terms);
            }
        }
        self.wins.push(win);
        self.won_at = self.now;
    }

    /// I4 and I8, and that no candidate runs hot.
    pub(super) fn check_sent(&mut self, host: usize, operation: &Operation) {
        let state = &mut self.hosts[host];
        let used = match operation {
            Operation::Acquire { lease, .. } => {
                state.leases.insert(lease.to_string());
                None
            }
            Operation::Release { lease } => {
                if state.turn.is_some() {
                    self.broken.push("I4: released while the handler may run".into());
                }
                Some(lease)
            }
            Operation::Renew { lease } | Operation::WriteMetadata { lease, .. } => Some(lease),
            Operation::Look { lease } => lease.as_ref(),
            _ => None,
        };
        if used.is_some_and(|lease| !state.leases.contains(&lease.to_string())) {
            self.broken.push("I8: a lease id that is not its own".into());
        }
        let count = self.requests.entry((host, self.now.as_secs())).or_default();
        *count += 1;
        if *count > MOST_REQUESTS {
            self.broken
                .push(format!("c{host} sent more than {MOST_REQUESTS} requests in a second"));
        }
    }

    pub fn judge(&self) -> Result<(), String> {
        if let Some(broken) = self.broken.first() {
            return Err(broken.clone());
        }
        if !self.early.is_empty() {
            return Err(format!("slots that ran before their instant: {:?}", self.early));
        }
        // With the record its slots are lost.
        if !self.doubled.is_empty() && !self.faults.outsider {
            return Err(format!("I5: slots with two turns: {:?}", self.doubled));
        }
        // Without A3: the renewal interval (8 s for a lease of 30 s) and a request time-out,
        // by a clock that is 1 % slow; then the host stops the work.
        let allowed = match self.faults.outsider {
            true => Duration::from_millis(11_200 + STOPPING),
            false => Duration::ZERO,
        };
        for one in &self.spans {
            for other in self.spans.iter().filter(|other| other.term > one.term) {
                let overlap = one.to.min(other.to).saturating_sub(one.from.max(other.from));
                if overlap > allowed {
                    return Err(format!("I1: {one:?} and {other:?} overlap by {overlap:?}"));
                }
            }
        }
        if self.hosts.iter().all(|host| host.leading.is_none()) {
            return Err("I6: nobody leads after a calm minute".into());
        }
        Ok(())
    }
}
