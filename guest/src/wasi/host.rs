//! The environment of the component: variables, and files of the directories that the host opened.

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

use tenure_azure::secret::Secret;
use tenure_base::prelude::*;
use tenure_core::{Environment, Unreadable};

/// Maximum size of a secret.
const MOST: u64 = 64 * 1024;

/// The variables of the host at the time of a call.
pub struct Host(Vec<(String, String)>);

impl Host {
    pub fn look() -> Self {
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

    fn file(&self, path: &str) -> Result<Secret, Unreadable> {
        let directories = get_directories();
        let below = directories
            .iter()
            .filter_map(|(directory, name)| Some((directory, inside(path, name)?)))
            .min_by_key(|(_, rest)| rest.len());
        let (directory, rest) = below.ok_or(Unreadable::NotGranted)?;
        let file = directory
            .open_at(PathFlags::SYMLINK_FOLLOW, rest, OpenFlags::empty(), DescriptorFlags::READ)
            .map_err(unreadable)?;
        let mut bytes = Vec::new();
        loop {
            let (more, end) = file.read(MOST, bytes.len() as u64).map_err(unreadable)?;
            let empty = more.is_empty();
            bytes.extend(more);
            if bytes.len() as u64 > MOST {
                return Err(Unreadable::NoText);
            }
            if end || empty {
                break;
            }
        }
        String::from_utf8(bytes).map(Secret::from).map_err(|_| Unreadable::NoText)
    }
}

fn unreadable(code: ErrorCode) -> Unreadable {
    match code {
        ErrorCode::IsDirectory | ErrorCode::Invalid => Unreadable::NoText,
        _ => Unreadable::Missing,
    }
}

/// Returns the path below a directory.
fn inside<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    if directory == "." || directory.is_empty() {
        return (!path.starts_with('/')).then_some(path);
    }
    let rest = path.strip_prefix(directory.trim_end_matches('/'))?;
    rest.strip_prefix('/').filter(|rest| !rest.is_empty())
}
