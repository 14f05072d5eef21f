//! Blobs with content beside an election's: `tenure:election/side-blobs`.

use core::time::Duration;

use super::bindings::exports::tenure::election::side_blobs as wit;
use super::clock::StepClock;
use super::convert::Across;
use super::{Component, ask, usable_settings};
use tenure_azure::metadata::Metadata;
use tenure_azure::operation::{ETag, Operation, Over};
use tenure_base::prelude::*;
use tenure_core::{
    LastWill, Problem, ProblemClass, Request, Session, Settings, SideAnswer, beside, beside_prefix,
    judged,
};

/// So many pages of a list are read: that is more blobs than any plan could name.
const MOST_PAGES: u32 = 100;

impl wit::Guest for Component {
    fn ask(
        session: Option<wit::Session>,
        elapsed: u64,
        request: wit::Request,
    ) -> (wit::Session, Result<wit::Answer, super::wit::Problem>) {
        let clock = StepClock::start(Duration::from_nanos(elapsed));
        let mut asking = Asking { session: Session::read(session.as_deref()), clock };
        let answer = usable_settings().and_then(|settings| asking.ask(settings, request));
        (asking.session.written(), answer.map_err(Across::across))
    }

    fn prepare(
        session: Option<wit::Session>,
        elapsed: u64,
        suffix: String,
        tag: wit::Tag,
    ) -> Option<super::wit::Request> {
        let now = StepClock::start(Duration::from_nanos(elapsed)).now();
        let settings = beside(usable_settings().ok()?, &suffix).ok()?;
        let session = Session::read(session.as_deref());
        let will = LastWill::deletion(&settings, &session, ETag(tag), super::clock::wall(), now)?;
        Some(Request::of(will.request, will.valid_for).across())
    }
}

struct Asking {
    session: Session,
    clock: StepClock,
}

impl Asking {
    fn ask(&mut self, settings: Settings, request: wit::Request) -> Result<wit::Answer, Problem> {
        let (suffix, operation) = match request {
            wit::Request::Read((suffix, unless)) => {
                (suffix, Operation::ReadContent { unless: unless.map(ETag) })
            }
            wit::Request::Write(write) => {
                let over = match write.over {
                    wit::Over::Anything => Over::Anything,
                    wit::Over::Nothing => Over::Nothing,
                    wit::Over::This(tag) => Over::This(ETag(tag)),
                };
                let (content, metadata) = (write.content, Metadata::from_iter(write.metadata));
                (write.suffix, Operation::WriteContent { over, content, metadata })
            }
            wit::Request::Delete((suffix, tag)) => {
                (suffix, Operation::Delete { lease: None, if_match: tag.map(ETag) })
            }
            wit::Request::List(suffix) => return self.list(&settings, &suffix),
        };
        let settings = beside(settings, &suffix)?;
        Ok(match self.send(&settings, operation)? {
            SideAnswer::Content(text, ETag(tag)) => wit::Answer::Content((text, tag)),
            SideAnswer::Unchanged => wit::Answer::Unchanged,
            // Lists are asked for above.
            SideAnswer::Missing | SideAnswer::Listed(_) => wit::Answer::Missing,
            SideAnswer::Written(ETag(tag)) => wit::Answer::Written(tag),
            SideAnswer::Deleted => wit::Answer::Deleted,
            SideAnswer::Declined => wit::Answer::Declined,
            SideAnswer::Leased => wit::Answer::Leased,
        })
    }

    fn list(&mut self, settings: &Settings, suffix: &str) -> Result<wit::Answer, Problem> {
        let own = beside_prefix(&settings.election);
        let (mut listed, mut marker) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let operation = Operation::List { prefix: own.clone() + suffix, marker };
            let SideAnswer::Listed(page) = self.send(settings, operation)? else {
                // There is not even the container.
                return Ok(wit::Answer::Missing);
            };
            listed.extend(page.blobs.into_iter().filter_map(|blob| {
                let suffix = blob.name.strip_prefix(&own)?.into();
                let (tag, age) = (blob.etag.0, tenure_wasi::nanos(blob.age));
                Some(wit::ListedBlob { suffix, tag, age, metadata: blob.metadata.into_pairs() })
            }));
            let Some(next) = page.next else { return Ok(wit::Answer::Listed(listed)) };
            marker = Some(next);
        }
        Err(Problem {
            class: ProblemClass::Configuration,
            detail: format!(
                "more than {MOST_PAGES} pages of blobs begin with {own}{suffix}; find out who writes them"
            ),
        })
    }

    fn send(&mut self, settings: &Settings, operation: Operation) -> Result<SideAnswer, Problem> {
        let clock = &self.clock;
        let asked = operation.clone();
        let (answer, body) = ask(settings, operation, &mut self.session, false, &|| clock.now())?;
        judged(&asked, &answer, body, settings)
    }
}
