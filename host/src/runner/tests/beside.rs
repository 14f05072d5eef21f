//! Requests beside the steps.

use super::{Reply, leading, left, play, seconds};
use tenure_core::Request;

/// With a request that is answered at once.
fn asking(reply: Reply) -> Reply {
    let request = Request {
        method: "GET".to_owned(),
        url: "http://localhost/".to_owned(),
        headers: Vec::new(),
        body: String::new(),
        timeout: seconds(1),
    };
    reply.change(|report| report.background = Some(request))
}

#[test]
fn an_answer_is_told_in_the_next_step() {
    let seen = play(100, 5, [asking(leading(7).again_in(9)), leading(7).again_in(9)]);
    assert_eq!(seen[..3], ["0 step as new", "0 elected 7", "0 step: answered false"], "{seen:?}");
}

/// The first answer comes while a step goes on that has given it up, and asks for something else.
#[test]
fn an_answer_to_what_was_given_up_is_told_to_nobody() {
    let second = asking(leading(7).takes(seconds(3)).again_in(9));
    let seen = play(100, 8, [asking(leading(7).again_in(0)), second, leading(7).again_in(9)]);
    let told: Vec<_> = seen.iter().filter(|line| line.contains("answered")).collect();
    assert_eq!(told, ["3 step: answered false"], "{seen:?}");
}

/// The release waits for a token, for example.
#[test]
fn one_that_leaves_hears_the_answer_too() {
    let seen = play(100, 1, [leading(7).again_in(9), asking(leading(7).again_in(5)), left(7)]);
    let steps: Vec<_> = seen.iter().filter(|line| line.contains("step")).collect();
    assert_eq!(steps, ["0 step as new", "1 step: leave", "1 step: answered false"], "{seen:?}");
}
