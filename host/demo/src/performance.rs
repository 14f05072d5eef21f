//! What a demo is asked for, how it ends, and what ends it early.

use std::pin::Pin;

/// What is shown, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many processes contend, 2 to 9.
    pub candidates: u8,
    /// On a page for a browser, where people break it themselves, instead of in the terminal.
    pub page: bool,
    /// Whether terminals are shown colours.
    pub colour: bool,
    /// Writes to standard output, as the program does elsewhere.
    pub say: fn(&str),
}

/// How a demo ended that could be set up and gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It showed what it should.
    Played,
    /// It was interrupted before its end.
    Interrupted,
    /// Nobody reads any more what it shows.
    Unread,
    /// It did not show what it should, and why.
    Failed(String),
}

/// What ends a demo before its time, or the demo on the page.
pub(super) type Interrupt<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;
