//! What is told to people, in order.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What happens, and why.
    Headline,
    /// Also in the picture.
    Detail,
    /// Nobody asked for it.
    Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub at: Duration,
    pub kind: Kind,
    /// A whole sentence.
    pub text: String,
}

impl Note {
    /// What a candidate wrote may hold anything, also what a terminal would obey.
    pub(super) fn new(at: Duration, kind: Kind, text: impl Into<String>) -> Self {
        let text = text.into().replace(char::is_control, " ");
        Self { at, kind, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_finds_nothing_to_obey() {
        let note = Note::new(Duration::ZERO, Kind::Problem, "a\u{1b}[2J\r\nb");
        assert_eq!(note.text, "a [2J  b");
    }
}
