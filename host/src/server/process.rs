//! Figures of this process, by the names that Prometheus' own clients use. On systems without `/proc` there are
//! fewer.

use std::fmt::Write as _;

/// Ticks of a second in `/proc`, on every system that Linux runs on.
const TICKS: f64 = 100.0;

/// In OpenMetrics.
pub(super) fn figures() -> String {
    let mut text = String::new();
    let mut figure = |name: &str, kind: &str, help: &str, sample: String| {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name}{sample}");
    };
    let version = env!("CARGO_PKG_VERSION");
    let sample = format!("{{version=\"{version}\"}} 1");
    figure("tenure_build_info", "gauge", "Always 1; the version is its label", sample);
    if let Some(seconds) = cpu_seconds() {
        let help = "Time on processors, of the user and of the system, in seconds";
        figure("process_cpu_seconds", "counter", help, format!("_total {seconds}"));
    }
    if let Some(bytes) = resident_bytes() {
        let help = "Memory that is resident, in bytes";
        figure("process_resident_memory_bytes", "gauge", help, format!(" {bytes}"));
    }
    if let Some(open) = open_descriptors() {
        figure("process_open_fds", "gauge", "Open file descriptors", format!(" {open}"));
    }
    if let Some(at) = started_at() {
        let help = "When this process was started, in seconds since 1970";
        figure("process_start_time_seconds", "gauge", help, format!(" {at}"));
    }
    text
}

fn cpu_seconds() -> Option<f64> {
    let fields = stat()?;
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(precise(ticks) / TICKS)
}

fn started_at() -> Option<f64> {
    let ticks: u64 = stat()?.get(19)?.parse().ok()?;
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let booted = system.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(precise(booted.trim().parse().ok()?) + precise(ticks) / TICKS)
}

/// What follows the name of the program, which may hold anything.
fn stat() -> Option<Vec<String>> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(1024 * resident.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}

fn open_descriptors() -> Option<usize> {
    // One of them reads the folder.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

#[allow(clippy::cast_precision_loss, reason = "times of a process are far below 2^52 ticks")]
fn precise(count: u64) -> f64 {
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
        let _held: Vec<_> =
            (0..200).map(|_| std::fs::File::open("/proc/self/stat").unwrap()).collect();
        assert!(open_descriptors().unwrap() + 50 > before + 200, "{before}");
        let used = cpu_seconds().unwrap();
        while cpu_seconds().unwrap() <= used {}
    }
}
