//! `wasi:http/incoming-handler`: turns and reads over HTTP. Nothing is written to standard output,
//! because some hosts send it as the response.

use core::time::Duration;

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{
    Fields, IncomingRequest, Method, OutgoingBody, OutgoingResponse, ResponseOutparam,
};
use wasip2::io::poll::poll;

use super::host::{ElapsedClockCell, Host};
use super::invocation::Invocation;
use super::{Component, WasiIo, run};
use crate::entry::{self, Access, Admission, Answer, Route, RouteError};
use tenure_base::prelude::*;
use tenure_core::{Complaint, CredentialState, driver};
use tenure_wasi::nanos;

/// Maximum length of a request's body. Its content is ignored.
const MAX_BODY_BYTES: u64 = 64 * 1024;

/// Maximum time for a request's body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

wasip2::http::proxy::export!(Component);

impl Guest for Component {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let method = request.method();
        let (answer, extra_header) = answer(&request, &method);
        respond(out, &answer, extra_header, !matches!(method, Method::Head));
    }
}

/// A header in addition to those of all answers.
type ExtraHeader = Option<(&'static str, &'static str)>;

fn answer(request: &IncomingRequest, method: &Method) -> (Answer, ExtraHeader) {
    let target = request.path_with_query().unwrap_or_default();
    let route = match Route::parse(name(method), &target) {
        Ok(route) => route,
        Err(RouteError::UnknownPath) => {
            return (entry::refusal_answer(404, "there is nothing here"), None);
        }
        Err(RouteError::MethodNotAllowed(allowed)) => {
            return (
                entry::refusal_answer(405, "this path does not accept that method"),
                Some(("allow", allowed)),
            );
        }
    };
    let host = Host::from_environment();
    let invocation = Invocation::from_environment(&host);
    let answer = match (route, invocation) {
        (Route::Tick, invocation) => return tick(request, &host, invocation),
        (_, Err(complaints)) => entry::public_settings_answer(&complaints),
        (Route::Leader, Ok(invocation)) => {
            let clock = ElapsedClockCell::start();
            let (now, mut credential_state) = (|| clock.now(), CredentialState::default());
            let (settings, io) = (&invocation.settings, WasiIo(&now));
            match run(driver::inspect(settings, &mut credential_state, &io)) {
                Ok(inspection) => entry::leader_answer(&inspection),
                Err(problem) => entry::unreachable_answer(&problem),
            }
        }
        (Route::Health, Ok(_)) => entry::healthy_answer(),
    };
    (answer, None)
}

/// Runs a turn if the caller is authorised.
fn tick(
    request: &IncomingRequest,
    host: &Host,
    invocation: Result<Invocation, Vec<Complaint>>,
) -> (Answer, ExtraHeader) {
    let access = Access::from_variables(|name| host.get(name));
    let presented = request.headers().get("authorization");
    let presented = match presented.as_slice() {
        [presented] => Some(presented.as_slice()),
        _ => None,
    };
    let answer = match (access.check(presented), access, invocation) {
        (Admission::Denied, ..) => {
            let refusal = entry::refusal_answer(
                401,
                "the bearer token is missing or wrong: send the value of TENURE_TICK_TOKEN",
            );
            return (refusal, Some(("www-authenticate", "Bearer")));
        }
        (_, Access::Closed(complaint), invocation) => {
            let mut complaints = invocation.err().unwrap_or_default();
            // With other invalid settings no caller gets a turn: a failure, not a refusal.
            let status = if complaints.is_empty() { 403 } else { 503 };
            complaints.push(complaint);
            // The caller may not be the operator.
            Answer { status, ..entry::public_settings_answer(&complaints) }
        }
        (.., invocation) => match (read_body(request), invocation) {
            (Err(refusal), _) => refusal,
            (Ok(()), Ok(invocation)) => entry::turn_answer(&invocation.one_turn()),
            (Ok(()), Err(complaints)) => entry::invalid_settings_answer(&complaints),
        },
    };
    (answer, None)
}

/// Drains the body, so that the connection can be reused.
fn read_body(request: &IncomingRequest) -> Result<(), Answer> {
    let Ok(body) = request.consume() else { return Ok(()) };
    let Ok(stream) = body.stream() else { return Ok(()) };
    let (ready, deadline) = (stream.subscribe(), subscribe_duration(nanos(BODY_TIMEOUT)));
    let mut read = 0;
    while poll(&[&ready, &deadline]).contains(&0) {
        match stream.skip(MAX_BODY_BYTES) {
            Ok(bytes) => read += bytes,
            // The end of the body.
            Err(_) => return Ok(()),
        }
        if read > MAX_BODY_BYTES {
            return Err(entry::refusal_answer(
                413,
                "the body has more than 64 KiB; none is needed",
            ));
        }
    }
    Err(entry::refusal_answer(408, "the body did not arrive in time"))
}

fn respond(out: ResponseOutparam, answer: &Answer, extra_header: ExtraHeader, with_body: bool) {
    let mut headers = vec![("content-type", "application/json"), ("cache-control", "no-store")];
    headers.extend(extra_header);
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
