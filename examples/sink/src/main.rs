//! A sink that rejects stale leaders by their fencing tokens.
//!
//! ```text
//! cargo run -p tenure-example-sink -- --listen 127.0.0.1:8080
//! tenure run demo/report --every 5s --handler report.wasm \
//!     --env REPORT_URL=http://127.0.0.1:8080/report --allow-host 127.0.0.1:8080
//! curl -i http://127.0.0.1:8080/report -H 'tenure-election: demo/report' -H 'tenure-term: 1' \
//!     -d 'I lead!'
//! ```
//!
//! A lease keeps two leaders from *working* at the same time. It cannot call back a request that a
//! leader has already sent. So the place where requests take effect must know which leader is
//! newer. Three rules make a sink safe, in any language and on any database:
//!
//! 1. Store the highest term with the data that it protects, and as durably.
//! 2. Compare and write in one atomic step.
//! 3. Refuse a smaller term, and a request without one. An equal term is the same leader.
//!
//! Terms of different elections are unrelated, so the sink stores one for each election.

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use clap::Parser;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

/// `tenure run` sets these headers on every request of a handler; handlers can neither set nor
/// remove them.
const TERM: &str = "tenure-term";
const ELECTION: &str = "tenure-election";

/// Maximum length of a body, in bytes.
const MAX_BODY: usize = 64 * 1024;

const EXAMPLE: &str = "\
Example: a leader that reports to it, and a stale one
  tenure run demo/report --every 5s --handler report.wasm \\
      --env REPORT_URL=http://127.0.0.1:8080/report --allow-host 127.0.0.1:8080
  curl -i http://127.0.0.1:8080/report
  curl -i http://127.0.0.1:8080/report -H 'tenure-election: demo/report' -H 'tenure-term: 1' \\
      -d 'I lead!'";

/// A sink for leader handlers: POST writes a resource, GET reads it.
///
/// A POST must carry the headers tenure-election and tenure-term. For each path, the sink keeps the
/// highest term of each election that has written to it. It refuses a smaller term from then on; an
/// equal one is the same leader. Terms of other elections do not matter.
///
/// Responses to a POST: 204 written; 409 a newer leader has written already; 428 a header is
/// missing; 400 there is more than one election, or the term is not one whole number; 413 the body
/// is longer than 64 KiB.
#[derive(Parser)]
#[command(after_help = EXAMPLE, max_term_width = 100)]
struct Arguments {
    /// Address to listen on; port 0 picks a free one, which is printed
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// File for terms and contents, as JSON. A sink that forgets its terms protects nothing
    #[arg(long, value_name = "FILE", default_value = "sink.json")]
    state: PathBuf,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let sink = Arc::new(Sink::open(&arguments.state)?);
    let listener = TcpListener::bind(arguments.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, router(sink)).await
}

/// The content of one path, and its writer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Resource {
    content: String,
    /// The election whose leader wrote it.
    election: String,
    /// The highest term of each election that has written.
    terms: BTreeMap<String, u64>,
}

type Resources = BTreeMap<String, Resource>;

/// An election, and the term of its leader.
type Leader = (String, u64);

struct Sink {
    file: PathBuf,
    resources: Mutex<Resources>,
}

/// The reason why nothing was written.
#[derive(Debug)]
enum WriteError {
    /// A leader of this newer term of the same election has written already.
    Stale(u64),
    /// The file could not be written.
    Io(io::Error),
}

impl Sink {
    fn open(file: &Path) -> io::Result<Self> {
        let resources = match std::fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Resources::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { file: file.to_owned(), resources: Mutex::new(resources) })
    }

    /// Writes `content` as the leader of `election` under `term`.
    ///
    /// Rule 2: the lock is held from the comparison until the new state is on disk. In a database
    /// this is one statement: `UPDATE … SET content = :content, term = :term WHERE path = :path AND
    /// election = :election AND term <= :term`.
    fn write(
        &self,
        path: &str,
        (election, term): Leader,
        content: String,
    ) -> Result<(), WriteError> {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = resources.clone();
        let resource = changed.entry(path.to_owned()).or_default();
        match resource.terms.get(&election) {
            Some(&newest) if term < newest => return Err(WriteError::Stale(newest)),
            _ => resource.terms.insert(election.clone(), term),
        };
        (resource.content, resource.election) = (content, election);
        // Rule 1: the write is confirmed only once it is durable.
        save(&self.file, &changed).map_err(WriteError::Io)?;
        *resources = changed;
        Ok(())
    }

    fn read(&self, path: &str) -> Option<Resource> {
        let resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        resources.get(path).cloned()
    }
}

/// Replaces the file atomically: after a power failure it has the old or the new content.
fn save(file: &Path, resources: &Resources) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut new, resources)?;
    new.flush()?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    // The directory entry must be durable as well.
    #[cfg(unix)]
    std::fs::File::open(folder)?.sync_all()?;
    Ok(())
}

fn router(sink: Arc<Sink>) -> Router {
    let routes = any(|| async { StatusCode::METHOD_NOT_ALLOWED }).get(read).post(write);
    let limit = DefaultBodyLimit::max(MAX_BODY);
    Router::new().fallback(routes).layer(limit).with_state(sink)
}

async fn read(State(sink): State<Arc<Sink>>, uri: Uri) -> Response {
    match sink.read(uri.path()) {
        Some(Resource { content, election, terms }) => {
            let term = terms.get(&election).copied().unwrap_or_default();
            ([(ELECTION, election), (TERM, term.to_string())], content).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn write(
    State(sink): State<Arc<Sink>>,
    uri: Uri,
    headers: HeaderMap,
    content: String,
) -> Response {
    let leader = match leader_of(&headers) {
        Ok(leader) => leader,
        Err(refused) => return refused.into_response(),
    };
    let (election, term) = leader.clone();
    // A disk write blocks, so it runs on a blocking thread.
    let written = spawn_blocking(move || sink.write(uri.path(), leader, content)).await;
    match written {
        Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(WriteError::Stale(newest))) => {
            let text = format!("term {term} is over: a leader of term {newest} has written\n");
            let headers = [(ELECTION, election), (TERM, newest.to_string())];
            (StatusCode::CONFLICT, headers, text).into_response()
        }
        Ok(Err(WriteError::Io(error))) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("not written: {error}\n")).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Rule 3: a request without a term is refused, because old programs would otherwise pass
/// unchecked. So is a request that does not name its election.
fn leader_of(headers: &HeaderMap) -> Result<Leader, (StatusCode, &'static str)> {
    let mut values = headers.get_all(ELECTION).iter();
    let Some(election) = values.next() else {
        return Err((StatusCode::PRECONDITION_REQUIRED, "the header tenure-election is missing\n"));
    };
    match (election.to_str(), values.next()) {
        (Ok(election), None) if !election.is_empty() => Ok((election.into(), term_of(headers)?)),
        _ => Err((StatusCode::BAD_REQUEST, "the header tenure-election is not one name\n")),
    }
}

fn term_of(headers: &HeaderMap) -> Result<u64, (StatusCode, &'static str)> {
    let mut values = headers.get_all(TERM).iter();
    let Some(value) = values.next() else {
        return Err((StatusCode::PRECONDITION_REQUIRED, "the header tenure-term is missing\n"));
    };
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    match (digits.and_then(|digits| digits.parse().ok()), values.next()) {
        (Some(term), None) => Ok(term),
        _ => Err((StatusCode::BAD_REQUEST, "the header tenure-term is not one whole number\n")),
    }
}

#[cfg(test)]
mod tests;
