//! Background requests.

use super::{Reply, leading, left, play, seconds};
use tenure_core::Request;

/// Adds a background request that is answered at once.
fn with_background_request(reply: Reply) -> Reply {
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
fn a_background_reply_is_passed_to_the_next_step() {
    let lines = play(
        100,
        5,
        [with_background_request(leading(7).with_again_in(9)), leading(7).with_again_in(9)],
    );
    assert_eq!(lines[..3], ["0 step as new", "0 elected 7", "0 step: answered false"], "{lines:?}");
}

/// The first reply arrives during a step that abandons its request and sends another one.
#[test]
fn a_reply_to_a_replaced_request_is_dropped() {
    let second = with_background_request(leading(7).with_duration(seconds(3)).with_again_in(9));
    let lines = play(
        100,
        8,
        [with_background_request(leading(7).with_again_in(0)), second, leading(7).with_again_in(9)],
    );
    let replies: Vec<_> = lines.iter().filter(|line| line.contains("answered")).collect();
    assert_eq!(replies, ["3 step: answered false"], "{lines:?}");
}

/// For example, the release may wait for a token.
#[test]
fn a_leaving_candidate_receives_the_reply() {
    let lines = play(
        100,
        1,
        [
            leading(7).with_again_in(9),
            with_background_request(leading(7).with_again_in(5)),
            left(7),
        ],
    );
    let steps: Vec<_> = lines.iter().filter(|line| line.contains("step")).collect();
    assert_eq!(steps, ["0 step as new", "1 step: leave", "1 step: answered false"], "{lines:?}");
}
