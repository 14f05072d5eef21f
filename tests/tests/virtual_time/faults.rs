//! What goes wrong with processes, and what outsiders do.

use std::time::Duration;

use tenure::store::{Now, Request};
use tenure_guest::azure::http_date;
use tenure_guest::election::{Event, Outcome};
use tenure_tests::outsider::signed;

use super::{Happening, World};

impl World {
    pub(super) fn freeze(&mut self) {
        let host = usize::try_from(self.dice.below(3)).unwrap();
        let until = self.now + Duration::from_secs(1) + self.dice.millis(30_000);
        if !self.hosts[host].alive || self.hosts[host].frozen_until > self.now {
            return;
        }
        self.enforce(host);
        self.note(host, "freezes");
        if let Some(running) = self.hosts[host].turn {
            self.close_span(running);
            if let Some(running) = &mut self.hosts[host].turn {
                running.working_since = None;
            }
        }
        self.hosts[host].frozen_until = until;
        self.plan(until, Happening::Thaw(host, self.hosts[host].life));
    }

    pub(super) fn kill(&mut self) {
        let host = usize::try_from(self.dice.below(3)).unwrap();
        if !self.hosts[host].alive {
            return;
        }
        self.note(host, "is killed");
        if let Some(running) = self.hosts[host].turn.take() {
            self.close_span(running);
        }
        self.gone(host);
    }

    /// The process has ended; another one is started some time later.
    pub(super) fn gone(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        state.leaving = false;
        (state.alive, state.memory, state.step, state.asked) = (false, None, None, None);
        (state.word, state.leading, state.frozen_until) = (None, None, Duration::ZERO);
        state.life += 1;
        let at = self.now + self.dice.millis(20_000);
        self.plan(at, Happening::Restart(host));
    }

    pub(super) fn meddle(&mut self) {
        if !self.faults.outsider {
            return;
        }
        self.note(9, "meddles");
        let lease = [("x-ms-lease-action", "break"), ("x-ms-lease-break-period", "0")];
        self.outsider("PUT", "comp=lease", &lease);
        match self.dice.below(3) {
            0 => self.outsider("DELETE", "", &[]),
            1 => self.outsider("PUT", "comp=metadata", &[]),
            _ => {}
        }
    }

    /// A graceful end: the host stops the handler, then says so.
    pub(super) fn leave(&mut self) {
        let host = usize::try_from(self.dice.below(3)).unwrap();
        if !self.hosts[host].alive || self.hosts[host].frozen_until > self.now {
            return;
        }
        self.note(host, "is asked to leave");
        self.turn_over(host, Outcome::CutOff);
        let state = &mut self.hosts[host];
        (state.leaving, state.word) = (true, Some(Event::Leave(None)));
        let life = state.life;
        self.plan(self.now, Happening::Step(host, life));
    }

    fn outsider(&mut self, method: &str, query: &str, headers: &[(&str, &str)]) {
        let account = &self.hosts[0].settings.account;
        let path = format!("{}{}", account.prefix(), self.hosts[0].blob().path());
        let date = http_date::format(self.wall());
        let headers = signed(account, method, &path, query, headers, &date);
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        let mut request = Request { method: method.into(), target, headers, ..Request::default() };
        request.headers.push(("content-length".into(), "0".into()));
        let now = Now { elapsed: self.now, wall: self.wall() };
        self.service.handle(now, &request);
    }
}
