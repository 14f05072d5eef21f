//! The parts of the host that a call uses: variables, files of the directories that the host
//! opened, and clocks.

use core::cell::Cell;
use core::time::Duration;

use chrono::{DateTime, Utc};
use wasip2::clocks::monotonic_clock;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

use tenure_azure::secret::Secret;
use tenure_base::prelude::*;
use tenure_core::{ElapsedClock, Environment, FileError, Moment, StepStart};

/// Maximum size of a secret in a file.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// The variables of the host at the time of a call.
pub struct Host(Vec<(String, String)>);

impl Host {
    pub fn from_environment() -> Self {
        Self(wasip2::cli::environment::get_environment())
    }

    pub fn get(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}

impl Environment for &Host {
    fn variable(&self, name: &str) -> Option<String> {
        self.get(name)
    }

    fn file(&self, path: &str) -> Result<Secret, FileError> {
        let directories = get_directories();
        let best_match = directories
            .iter()
            .filter_map(|(directory, name)| Some((directory, path_below(path, name)?)))
            .min_by_key(|(_, rest)| rest.len());
        let (directory, rest) = best_match.ok_or(FileError::NotGranted)?;
        let file = directory
            .open_at(PathFlags::SYMLINK_FOLLOW, rest, OpenFlags::empty(), DescriptorFlags::READ)
            .map_err(file_error)?;
        let mut bytes = Vec::new();
        loop {
            let (chunk, end) =
                file.read(MAX_SECRET_BYTES, bytes.len() as u64).map_err(file_error)?;
            let empty = chunk.is_empty();
            bytes.extend(chunk);
            if bytes.len() as u64 > MAX_SECRET_BYTES {
                return Err(FileError::NotText);
            }
            if end || empty {
                break;
            }
        }
        String::from_utf8(bytes).map(Secret::from).map_err(|_| FileError::NotText)
    }
}

fn file_error(code: ErrorCode) -> FileError {
    match code {
        // wasmtime answers a read of a directory with `BadDescriptor`.
        ErrorCode::IsDirectory | ErrorCode::BadDescriptor => FileError::Directory,
        ErrorCode::Invalid => FileError::NotText,
        _ => FileError::Missing,
    }
}

/// Returns the part of `path` below `directory`, or `None` if the path is outside.
fn path_below<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    if directory == "." || directory.is_empty() {
        return (!path.starts_with('/')).then_some(path);
    }
    let rest = path.strip_prefix(directory.trim_end_matches('/'))?;
    rest.strip_prefix('/').filter(|rest| !rest.is_empty())
}

/// A clock that continues the host's `elapsed` during a call.
pub struct StepClock {
    elapsed: Moment,
    started_at: u64,
}

impl StepClock {
    /// Starts from the host's `elapsed`, which the host read before the call.
    pub fn start(elapsed: Moment) -> Self {
        Self { elapsed, started_at: monotonic_clock::now() }
    }

    pub fn started(&self) -> Moment {
        self.elapsed
    }

    pub fn now(&self) -> Moment {
        self.elapsed + Duration::from_nanos(monotonic_clock::now().saturating_sub(self.started_at))
    }
}

/// A clock of elapsed time for an invocation, whose host does not measure it.
pub struct ElapsedClockCell(Cell<ElapsedClock>);

impl ElapsedClockCell {
    pub fn start() -> Self {
        Self(Cell::new(ElapsedClock::new(monotonic(), wall_clock())))
    }

    pub fn now(&self) -> Moment {
        self.read().step_start().at
    }

    /// Returns the start of a step that begins now.
    pub fn step_start(&self) -> StepStart {
        self.read().step_start()
    }

    /// Returns the current time within a step that started at `start`.
    pub fn elapsed_in_step(&self, start: StepStart) -> Moment {
        self.read().elapsed_in_step(start)
    }

    fn read(&self) -> ElapsedClock {
        let mut time = self.0.get();
        time.read(monotonic(), wall_clock());
        self.0.set(time);
        time
    }
}

fn monotonic() -> Duration {
    Duration::from_nanos(monotonic_clock::now())
}

/// Returns this machine's time of day.
pub fn wall_clock() -> DateTime<Utc> {
    let wall = wasip2::clocks::wall_clock::now();
    let seconds = i64::try_from(wall.seconds).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, wall.nanoseconds).unwrap_or(DateTime::UNIX_EPOCH)
}
