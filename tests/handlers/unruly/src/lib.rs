//! A leader handler for the tests: misbehaves in the way that `UNRULY` names. See `Guest` below
//! for the ways. `BEAT_URL` is the sink that it sends to, `http://HOST:PORT/`.
#![cfg_attr(
    target_family = "wasm",
    allow(unsafe_code, missing_docs, reason = "generated bindings, and a constructor")
)]

#[cfg(target_family = "wasm")]
#[path = "../../../../examples/rust/src/http.rs"]
mod http;

#[cfg(target_family = "wasm")]
mod requests;

#[cfg(target_family = "wasm")]
mod handler {
    use super::{http, requests};
    use std::hint::black_box;
    use std::mem::forget;
    use wasip2::clocks::monotonic_clock;
    use wasip2::http::types::{Fields, OutgoingRequest};
    use wasip2::{cli, random};

    wit_bindgen::generate!({ path: "../../../wit", world: "leader" });

    use exports::tenure::election::leader_handler::{Guest, Turn};

    struct Unruly;

    impl Guest for Unruly {
        #[allow(clippy::panic, reason = "that is what it is for")]
        fn on_tick(turn: Turn) -> Result<(), String> {
            let beat = |beat: u64| {
                format!(r#"{{"term":{},"slot":{},"beat":{beat}}}"#, turn.term, turn.slot)
            };
            // Tells the tests that it was not interrupted before it could misbehave.
            println!("begins");
            match mode().as_str() {
                // Computes for ever, without a host call and with one.
                "spin" => loop {
                    black_box(());
                },
                "spin-clock" => loop {
                    black_box(monotonic_clock::now());
                },
                // Waits for ever: for a timer, and for an answer.
                "wait" => loop {
                    monotonic_clock::subscribe_instant(u64::MAX).block();
                },
                "wait-answer" => loop {
                    let _ = http::post_json(&url(), &[], &beat(0));
                },
                // Lets one instruction do as much as it can.
                "fill" => {
                    let mut memory = vec![0_u8; 192 * 1024 * 1024];
                    loop {
                        black_box(&mut memory).fill(1);
                    }
                }
                "leak" => loop {
                    forget(black_box(vec![1_u8; 1024 * 1024]));
                },
                "deep" => Err(deep(0).to_string()),
                "trap" => panic!("on purpose"),
                "environment" => {
                    let variables = cli::environment::get_environment();
                    let mut names: Vec<_> = variables.into_iter().map(|(name, _)| name).collect();
                    names.sort();
                    Err(names.join(" "))
                }
                "fail" => Err("on purpose".to_owned()),
                "fail-at-length" => Err("x".repeat(100 * 1024)),
                "flood" => (0_u64..).try_for_each(|line| {
                    println!("line {line}");
                    Ok(())
                }),
                "flood-at-once" => {
                    let text = "x\n".repeat(8 * 1024 * 1024);
                    let _ = cli::stdout::get_stdout().write(text.as_bytes());
                    Ok(())
                }
                // One request after the other, as fast as it can.
                "requests" => (0..).try_for_each(|number| {
                    let _ = http::post_json(&url(), &[], &beat(number));
                    Ok(())
                }),
                // One after the other to where it may not send.
                "refused" => loop {
                    let _ = http::post_json("http://127.0.0.1:9/", &[], &beat(0));
                },
                // Gives up each request at once, before the name of the sink is known.
                "impatient" => loop {
                    requests::send_for_a_moment(&url(), &beat(0)).answered();
                },
                // Many at once, `UNRULY_COUNT`, before it waits for the first answer.
                "greedy" => {
                    let count = variable("UNRULY_COUNT").parse().unwrap_or(1000);
                    let started: Vec<_> =
                        (0..count).map(|number| requests::send(&url(), &beat(number))).collect();
                    let answered = started.into_iter().filter(|started| started.answered()).count();
                    Err(format!("{answered} were answered"))
                }
                // Leaves requests half written, and does not wait for the answer of another one.
                "late" => {
                    // A connection is there from then on.
                    let _ = http::post_json(&url(), &[], &beat(0));
                    (0..200).for_each(|_| forget(requests::leave_open(&url(), &beat(1))));
                    forget(requests::send(&url(), &beat(0)));
                    Ok(())
                }
                // Takes what is the host's: handles, headers, random numbers.
                "handles" => loop {
                    forget(monotonic_clock::subscribe_instant(u64::MAX));
                },
                "headers" => loop {
                    let fields = Fields::new();
                    let value = vec![b'x'; 1024 * 1024];
                    let _ = fields.append("x-large", &value);
                    forget(fields);
                },
                // Headers that are allowed each, but not so many of them.
                "many-headers" => loop {
                    let fields = Fields::new();
                    (0..15).for_each(|_| _ = fields.append("x-large", &vec![b'x'; 4096]));
                    forget(fields);
                },
                // Requests with much in their first lines, which it does not send.
                "many-requests" => loop {
                    let request = OutgoingRequest::new(Fields::new());
                    let _ = request.set_path_with_query(Some(&format!("/{}", "x".repeat(32_000))));
                    forget(request);
                },
                "random" => {
                    forget(random::random::get_random_bytes(60 * 1024 * 1024));
                    Ok(())
                }
                // The constructor has seen to it.
                "trap-at-start" | "spin-at-start" => Ok(()),
                other => Err(format!("UNRULY={other:?} is no mode")),
            }
        }
    }

    export!(Unruly);

    fn variable(name: &str) -> String {
        std::env::var(name).unwrap_or_default()
    }

    fn mode() -> String {
        variable("UNRULY")
    }

    fn url() -> String {
        variable("BEAT_URL")
    }

    #[allow(unconditional_recursion, reason = "that is what it is for")]
    fn deep(level: u64) -> u64 {
        black_box(deep(black_box(level + 1))) + 1
    }

    /// Runs when the component is instantiated.
    extern "C" fn construct() {
        match mode().as_str() {
            "trap-at-start" => std::process::abort(),
            "spin-at-start" => loop {
                black_box(());
            },
            _ => {}
        }
    }

    #[used]
    #[unsafe(link_section = ".init_array")]
    static CONSTRUCTOR: extern "C" fn() = construct;
}
