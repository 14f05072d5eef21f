//! Figures of this process from `/proc`; `None` on systems without it.

/// Ticks per second in `/proc`, on every system that Linux runs on.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn cpu_seconds() -> Option<f64> {
    let fields = stat()?;
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(to_f64(ticks) / TICKS_PER_SECOND)
}

pub(super) fn started_at() -> Option<f64> {
    let ticks: u64 = stat()?.get(19)?.parse().ok()?;
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let booted = system.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(to_f64(booted.trim().parse().ok()?) + to_f64(ticks) / TICKS_PER_SECOND)
}

/// Returns the fields after the name of the program, which may contain any character.
fn stat() -> Option<Vec<String>> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(1024 * resident.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}

pub(super) fn open_descriptors() -> Option<u64> {
    // One of them reads the folder.
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u64::try_from(open).ok()
}

#[allow(clippy::cast_precision_loss, reason = "times of a process are far below 2^52 ticks")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_figures_are_those_of_this_process() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let started = started_at().unwrap();
        assert!(started <= now + 1.0 && started > now - 24.0 * 3600.0, "{started}");
        assert!(resident_bytes().unwrap() > 1024 * 1024);
        let before = open_descriptors().unwrap();
        let _open_files: Vec<_> =
            (0..200).map(|_| std::fs::File::open("/proc/self/stat").unwrap()).collect();
        assert!(open_descriptors().unwrap() + 50 > before + 200, "{before}");
        let used = cpu_seconds().unwrap();
        while cpu_seconds().unwrap() <= used {}
    }
}
