//! Formats the numbers of shares.

/// Formats ascending numbers as ranges, like `0–7, 12`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers.iter().copied() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let texts = ranges.into_iter().map(|range| match range {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}–{last}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}
