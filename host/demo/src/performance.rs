//! What a demo is asked for, and how it ends.

use std::io;
use std::pin::Pin;

/// What is shown, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of candidates, 2 to 9.
    pub candidates: u8,
    /// On a page for a browser, where people break it themselves, instead of in the terminal.
    pub page: bool,
    /// Terminals are shown colours.
    pub colour: bool,
    /// Writes to standard output.
    pub say: fn(&str),
}

/// The end of a demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It showed what it should.
    Played,
    /// It was interrupted before its end.
    Interrupted,
    /// The reader of standard output is gone.
    Unread,
    /// It did not show what it should, and why.
    Failed(String),
}

/// Why there is no end.
#[derive(Debug)]
pub enum Problem {
    /// Nothing was shown.
    NotSetUp(io::Error),
    /// It broke off.
    BrokeOff(io::Error),
}

/// Ends a demo before its time, or the demo on the page.
pub(super) type Interrupt<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;
