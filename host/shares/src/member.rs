//! What a process does that is there for shares. protocol.md §14.1, §14.3.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::leader::FAILURES;
use crate::mutants::mutant;
use crate::plan::{Plan, Share};
use crate::sign::{Answer, Ask, Sign, Tag};

/// A share that runs in this process: its election has a candidate here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Which.
    pub share: Share,
    /// This candidate leads, and so holds the share.
    pub leads: bool,
    /// The member that was named as its successor, and whom the candidate still waits for.
    pub gives_to: Option<String>,
}

/// What to do about a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Have a candidate contend for it.
    Begin(Share),
    /// Have its candidate hand over to that member, once that one has come to take over.
    HandOver(Share, String),
    /// Have its candidate leave: it stops its work, and gives up the share if it holds it.
    End(Share),
}

/// What is to be done once the process is dead and its work with it, by one that outlives it: delete its sign, if it is
/// still this one (`If-Match`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// The newest sign that is known to be written.
    pub sign: Tag,
    /// It is of no use afterwards: the member is gone by its silence.
    pub until: Duration,
}

/// A process that is there for shares.
#[derive(Clone, Debug)]
pub struct Member {
    sign: Sign,
    signing: Errand,
    reading: Errand,
    /// The newest plan that was read. It stays while none can be read.
    plan: Option<(Plan, Tag)>,
    /// When the newest read of the plan was sent that was answered, and how many failed since.
    read_at: Duration,
    failed_reads: u32,
    /// True while no read of the plan has been answered for so long that others may have taken its shares away.
    unread: bool,
    /// Until then its signs come quicker, since it is new, or the plan does not name it any more.
    new_until: Option<Duration>,
    will: Option<Will>,
    signs: Vec<(Tag, Duration)>,
    leaves: bool,
}

/// Something to send to the store again and again.
#[derive(Clone, Copy, Debug)]
struct Errand {
    due: Option<Duration>,
    /// When it was sent, while it has no answer.
    sent: Option<Duration>,
}

/// So many of its signs a member remembers: those of a minute and more.
const REMEMBERED: usize = 128;

/// After a request that failed.
const AGAIN: Duration = Duration::from_secs(1);

impl Member {
    /// One that is not there yet: it leaves no sign and reads no plan until it [comes](Self::come).
    #[must_use]
    pub fn away(sign: Sign) -> Self {
        let errand = Errand { due: None, sent: None };
        Self {
            sign,
            signing: errand,
            reading: errand,
            plan: None,
            read_at: Duration::ZERO,
            failed_reads: 0,
            unread: false,
            new_until: None,
            will: None,
            signs: Vec::new(),
            leaves: false,
        }
    }

    /// One that is there from `now` on.
    #[must_use]
    pub fn begin(sign: Sign, now: Duration) -> Self {
        let mut member = Self::away(sign);
        member.come(now);
        member
    }

    /// It is there from `now` on, unless it leaves.
    pub fn come(&mut self, now: Duration) {
        if !self.leaves {
            self.signing.due = Some(now);
            self.reading.due = Some(now);
            self.new_until = Some(now + self.sign.pace.gone_after());
        }
    }

    /// It is to leave: it takes its sign back, and takes up no share any more. What it holds it hands over as ever, as
    /// soon as the plan says to whom.
    pub fn leave(&mut self, now: Duration) {
        self.leaves = true;
        if !mutant!(SignStays) {
            self.signing.due = Some(now);
        }
    }

    /// Returns true while the member has not read the plan for so long that it contends for no share.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        self.unread
    }

    /// The newest plan that was read.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref().map(|(plan, _)| plan)
    }

    /// What to leave with a process that outlives this one. None: there is no sign, or it was taken back.
    #[must_use]
    pub fn will(&self) -> Option<&Will> {
        self.will.as_ref()
    }

    /// Its newest signs that were answered, and when they were sent, the oldest first: then the account took signs, and this
    /// process ran.
    #[must_use]
    pub fn signs(&self) -> &[(Tag, Duration)] {
        &self.signs
    }

    /// When to ask [`next`](Self::next) again, unless an answer comes before.
    #[must_use]
    pub fn wake(&self) -> Option<Duration> {
        let due = |errand: Errand| errand.due.filter(|_| errand.sent.is_none());
        [due(self.signing), due(self.reading)].into_iter().flatten().min()
    }

    /// What to send now. Each request is to be answered, also where no answer came.
    pub fn next(&mut self, now: Duration) -> Vec<Ask> {
        let mut asks = Vec::new();
        if self.signing.begins(now) {
            asks.push(match self.leaves {
                true => Ask::TakeBack,
                false => Ask::Sign(self.sign.clone()),
            });
        }
        if self.reading.begins(now) {
            asks.push(Ask::ReadPlan(self.plan.as_ref().map(|(_, tag)| tag.clone())));
        }
        asks
    }

    /// Takes the answer to a request.
    pub fn answered(&mut self, ask: &Ask, answer: Answer, now: Duration) {
        match ask {
            Ask::Sign(_) | Ask::TakeBack => self.signed(ask, &answer, now),
            _ => self.read(answer, now),
        }
    }

    fn signed(&mut self, ask: &Ask, answer: &Answer, now: Duration) {
        let leaves = self.leaves && !mutant!(SignStays);
        if let (Answer::Signed(tag), Some(sent)) = (answer, self.signing.sent) {
            let surplus = (self.signs.len() + 1).saturating_sub(REMEMBERED);
            self.signs.drain(..surplus);
            self.signs.push((tag.clone(), sent));
        }
        match answer {
            Answer::Signed(_) if self.will.is_some() && mutant!(WillOfFirstSign) => {}
            Answer::Signed(tag) => {
                let until = self.signing.sent.unwrap_or(now) + self.sign.pace.gone_after();
                self.will = Some(Will { sign: tag.clone(), until });
            }
            Answer::Done if *ask == Ask::TakeBack => self.will = None,
            // The newest one that is known to be there may still be.
            _ => {}
        }
        let next = match answer {
            Answer::Done if *ask == Ask::TakeBack => None,
            // Its newest sign is to be taken back.
            _ if leaves && *ask != Ask::TakeBack => Some(Duration::ZERO),
            Answer::Signed(_) => Some(self.period(now)),
            _ => Some(AGAIN.min(self.period(now))),
        };
        self.signing.ends(next);
    }

    fn read(&mut self, answer: Answer, now: Duration) {
        let mut next = self.sign.pace.look(self.plan().map_or(0, |plan| plan.members.len()));
        if matches!(answer, Answer::Plan(..) | Answer::SamePlan | Answer::NoPlan) {
            (self.read_at, self.failed_reads) = (self.reading.sent.unwrap_or(now), 0);
        } else {
            self.failed_reads = self.failed_reads.saturating_add(1);
        }
        self.unread = self.failed_reads >= FAILURES
            && now.saturating_sub(self.read_at) > self.sign.pace.gone_after();
        match answer {
            Answer::Plan(plan, tag) => {
                let named = self.plan().is_some_and(|before| before.names(&self.sign.member));
                if named && !plan.names(&self.sign.member) {
                    self.new_until = Some(now + self.sign.pace.gone_after());
                    self.signing.due = self.signing.due.map(|due| due.min(now));
                }
                next = self.sign.pace.look(plan.members.len());
                self.plan = Some((plan, tag));
            }
            Answer::Unknown if mutant!(LostWithoutPlan) => self.plan = None,
            // Nothing changes where no plan can be read.
            _ => {}
        }
        self.reading.ends(Some(next));
    }

    /// Between two signs.
    fn period(&self, now: Duration) -> Duration {
        let plan = self.plan();
        let named = plan.is_some_and(|plan| plan.names(&self.sign.member));
        match self.new_until {
            Some(until) if !named && now < until => {
                self.sign.pace.first_signs(plan.map_or(0, |plan| plan.members.len()))
            }
            _ => self.sign.pace.sign(),
        }
    }

    /// What to do so that this process holds what the plan says. Each one that is obeyed is seen in what runs the next
    /// time. `coordinated`: the newest known leader of the coordinating election coordinates. Otherwise it runs all of the
    /// work, or none has led yet, and this process contends for no share. It contends for none either while it cannot read the
    /// plan, so that a lease that a coordinator broke is not acquired again.
    #[must_use]
    pub fn acts(&self, running: &[Running], coordinated: bool) -> Vec<Act> {
        let is_planned = !self.unread || mutant!(ContendsUnread);
        let contends = !self.leaves && is_planned && (coordinated || mutant!(ContendsBesideWhole));
        let Some(plan) = self.plan() else {
            let all = running.iter().filter(|_| mutant!(LostWithoutPlan));
            return all.map(|running| Act::End(running.share)).collect();
        };
        let own = self.sign.member.as_str();
        let mut acts = Vec::new();
        for Running { share, leads, gives_to } in running {
            match plan.holder(*share) {
                Some(member) if member == own && (*leads || contends) => {}
                // It goes on until the other one has come: a share is not left alone meanwhile.
                Some(member) if *leads && !mutant!(EndsAtOnce) => {
                    if gives_to.as_deref() != Some(member) {
                        acts.push(Act::HandOver(*share, member.to_owned()));
                    }
                }
                None if plan.next.is_some() && mutant!(NotDrained) => {}
                _ => acts.push(Act::End(*share)),
            }
        }
        if !contends {
            return acts;
        }
        let begun = running.iter().map(|running| running.share).collect::<BTreeSet<_>>();
        let mut planned = plan.of(own).collect::<Vec<_>>();
        if let Some(last) = planned.last().copied().filter(|_| mutant!(TakesUnplanned)) {
            planned.push(Share { index: last.index + 1, ..last });
        }
        acts.extend(planned.into_iter().filter(|share| !begun.contains(share)).map(Act::Begin));
        acts
    }
}

impl Errand {
    fn begins(&mut self, now: Duration) -> bool {
        let begins = self.sent.is_none() && self.due.is_some_and(|due| due <= now);
        if begins {
            self.sent = Some(now);
        }
        begins
    }

    /// It was answered, and is due again so long after it was sent.
    fn ends(&mut self, next: Option<Duration>) {
        let sent = self.sent.take().unwrap_or_default();
        self.due = next.map(|next| sent + next);
    }
}

#[cfg(test)]
mod tests;
