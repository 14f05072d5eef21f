//! The doctor's entry: sends what an examination asks.

use super::bindings::exports::tenure::election::examination::{self, Guest};
use super::bindings::tenure::election::types as wit;
use super::clock::{self, OwnClock};
use super::host::Host;
use super::{Component, HostChance, fetch, transport};
use crate::doctor::{Examination, Finding, Question, Reply, Todo, Verdict};
use tenure_azure::answer::Answer;
use tenure_base::prelude::*;
use tenure_core::{Failure, Settings};

impl Guest for Component {
    fn examine() -> Result<Vec<examination::Finding>, Vec<wit::Complaint>> {
        let settings = Settings::read(&Host::look());
        let settings = settings
            .map_err(|complaints| complaints.into_iter().map(Into::into).collect::<Vec<_>>())?;
        let clock = OwnClock::start();
        let mut examination = Examination::begin(&settings, &mut HostChance);
        loop {
            let sent = clock.now();
            match examination.next(sent) {
                Todo::Rest => break,
                Todo::Fetch(asked) => {
                    let reply = fetch(&asked);
                    let times = (sent, clock.now());
                    examination.fetched(reply, times, clock::wall(), &mut HostChance);
                }
                Todo::Send(question) => {
                    let reply = ask(&settings, &question);
                    examination.answered(sent, clock.now(), clock::wall(), reply);
                }
            }
        }
        Ok(examination.findings(clock::wall()).into_iter().map(Into::into).collect())
    }
}

fn ask(settings: &Settings, question: &Question) -> Result<Reply, Failure> {
    let request = question.request(settings, clock::wall());
    let raw = transport::send(&request, question.timeout, |_| transport::MOST_BODY)?;
    let answer = Answer::read(&question.operation, raw.status, &raw.headers).with_body(&raw.body);
    Ok(Reply { answer, headers: raw.headers })
}

impl From<Finding> for examination::Finding {
    fn from(finding: Finding) -> Self {
        let verdict = match finding.verdict {
            Verdict::Good => examination::Verdict::Good,
            Verdict::Unknown => examination::Verdict::Unknown,
            Verdict::Warning => examination::Verdict::Warning,
            Verdict::Failed => examination::Verdict::Failed,
        };
        Self { check: finding.check.into(), verdict, detail: finding.detail }
    }
}
