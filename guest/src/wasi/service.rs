//! `wasi:http/incoming-handler`: turns and reads over HTTP. It writes nothing to standard output,
//! because some hosts make an answer of it.

use core::time::Duration;

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{
    Fields, IncomingRequest, Method, OutgoingBody, OutgoingResponse, ResponseOutparam,
};
use wasip2::io::poll::poll;

use super::clock::OwnClock;
use super::host::Host;
use super::invocation::Invocation;
use super::{Around, Component, run};
use crate::entry::{self, Access, Admission, Answer, Refusal, Route};
use tenure_base::prelude::*;
use tenure_core::{Complaint, CredentialState, driver};
use tenure_wasi::nanos;

/// Maximum length of a body. Its content is ignored.
const MOST_BODY: u64 = 64 * 1024;

/// Maximum time for a body to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(10);

wasip2::http::proxy::export!(Component);

impl Guest for Component {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let method = request.method();
        let (answer, more) = answer(&request, &method);
        respond(out, &answer, more, !matches!(method, Method::Head));
    }
}

/// A header in addition to those of all answers.
type More = Option<(&'static str, &'static str)>;

fn answer(request: &IncomingRequest, method: &Method) -> (Answer, More) {
    let target = request.path_with_query().unwrap_or_default();
    let route = match Route::of(name(method), &target) {
        Ok(route) => route,
        Err(Refusal::Path) => return (entry::refused(404, "there is nothing here"), None),
        Err(Refusal::Method(allowed)) => {
            return (
                entry::refused(405, "this path does not accept that method"),
                Some(("allow", allowed)),
            );
        }
    };
    let host = Host::look();
    let invocation = Invocation::read(&host);
    let answer = match (route, invocation) {
        (Route::Tick, invocation) => return tick(request, &host, invocation),
        (_, Err(complaints)) => entry::named(&complaints),
        (Route::Leader, Ok(invocation)) => {
            let clock = OwnClock::start();
            let (now, mut credential_state) = (|| clock.now(), CredentialState::default());
            let (settings, around) = (&invocation.settings, Around(&now));
            match run(driver::look(settings, &mut credential_state, &around)) {
                Ok(look) => entry::leader(&look),
                Err(problem) => entry::could_not_look(&problem),
            }
        }
        (Route::Health, Ok(_)) => entry::healthy(),
    };
    (answer, None)
}

/// Runs a turn for an authorised caller.
fn tick(
    request: &IncomingRequest,
    host: &Host,
    invocation: Result<Invocation, Vec<Complaint>>,
) -> (Answer, More) {
    let access = Access::read(|name| host.get(name));
    let shown = request.headers().get("authorization");
    let shown = match shown.as_slice() {
        [shown] => Some(shown.as_slice()),
        _ => None,
    };
    let answer = match (access.admits(shown), access, invocation) {
        (Admission::Denied, ..) => {
            let refusal = entry::refused(
                401,
                "the bearer token is missing or wrong: send the one of TENURE_TICK_TOKEN",
            );
            return (refusal, Some(("www-authenticate", "Bearer")));
        }
        (_, Access::Closed(complaint), invocation) => {
            let mut complaints = invocation.err().unwrap_or_default();
            // Other invalid settings are no reason to refuse, but to fail.
            let status = if complaints.is_empty() { 403 } else { 503 };
            complaints.push(complaint);
            // The caller may not be the operator.
            Answer { status, ..entry::named(&complaints) }
        }
        (.., invocation) => match (read_body(request), invocation) {
            (Err(refusal), _) => refusal,
            (Ok(()), Ok(invocation)) => entry::turned(&invocation.one_turn()),
            (Ok(()), Err(complaints)) => entry::complained(&complaints),
        },
    };
    (answer, None)
}

/// Drains the body, so that the connection can be reused.
fn read_body(request: &IncomingRequest) -> Result<(), Answer> {
    let Ok(body) = request.consume() else { return Ok(()) };
    let Ok(stream) = body.stream() else { return Ok(()) };
    let (ready, deadline) = (stream.subscribe(), subscribe_duration(nanos(BODY_WITHIN)));
    let mut read = 0;
    while poll(&[&ready, &deadline]).contains(&0) {
        match stream.skip(MOST_BODY) {
            Ok(bytes) => read += bytes,
            // The end.
            Err(_) => return Ok(()),
        }
        if read > MOST_BODY {
            return Err(entry::refused(413, "the body has more than 64 KiB; none is needed"));
        }
    }
    Err(entry::refused(408, "the body did not arrive in time"))
}

fn respond(out: ResponseOutparam, answer: &Answer, more: More, with_body: bool) {
    let mut headers = vec![("content-type", "application/json"), ("cache-control", "no-store")];
    headers.extend(more);
    let length = answer.body.len().to_string();
    if with_body {
        headers.push(("content-length", &length));
    }
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    let headers = Fields::from_list(&headers).unwrap_or_else(|_| Fields::new());
    let response = OutgoingResponse::new(headers);
    let _ = response.set_status_code(answer.status);
    let body = response.body();
    ResponseOutparam::set(out, Ok(response));
    let Ok(body) = body else { return };
    if with_body && let Ok(stream) = body.write() {
        for piece in answer.body.as_bytes().chunks(4096) {
            // The caller may have disconnected.
            let _ = stream.blocking_write_and_flush(piece);
        }
    }
    let _ = OutgoingBody::finish(body, None);
}

fn name(method: &Method) -> &str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        _ => "",
    }
}
