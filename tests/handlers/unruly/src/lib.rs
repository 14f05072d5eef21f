//! Leader handler for the tests: misbehaves according to the mode in `UNRULY`. `Guest` below lists
//! the modes. `BEAT_URL` is the sink, `http://HOST:PORT/`.
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
            // Signals to the tests that the turn started before the handler misbehaves.
            println!("begins");
            match mode().as_str() {
                // Computes forever, with and without a host call.
                "spin" => loop {
                    black_box(());
                },
                "spin-clock" => loop {
                    black_box(monotonic_clock::now());
                },
                // Waits forever for a timer or a response.
                "wait" => loop {
                    monotonic_clock::subscribe_instant(u64::MAX).block();
                },
                "wait-answer" => loop {
                    let _ = http::post_json(&url(), &[], &beat(0));
                },
                // Makes one instruction do as much work as possible.
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
                // Sends one request after another without a pause.
                "requests" => (0..).try_for_each(|number| {
                    let _ = http::post_json(&url(), &[], &beat(number));
                    Ok(())
                }),
                // Sends requests to a destination that is not allowed.
                "refused" => loop {
                    let _ = http::post_json("http://127.0.0.1:9/", &[], &beat(0));
                },
                // Times out each request before the sink's name is resolved.
                "impatient" => loop {
                    requests::send_for_a_moment(&url(), &beat(0)).answered();
                },
                // Sends `UNRULY_COUNT` requests before it waits for the first response.
                "greedy" => {
                    let count = variable("UNRULY_COUNT").parse().unwrap_or(1000);
                    let started: Vec<_> =
                        (0..count).map(|number| requests::send(&url(), &beat(number))).collect();
                    let answered = started.into_iter().filter(|started| started.answered()).count();
                    Err(format!("{answered} were answered"))
                }
                // Leaves requests half written, and abandons the response of another request.
                "late" => {
                    // From here on a connection exists.
                    let _ = http::post_json(&url(), &[], &beat(0));
                    (0..200).for_each(|_| forget(requests::leave_open(&url(), &beat(1))));
                    forget(requests::send(&url(), &beat(0)));
                    Ok(())
                }
                // Exhausts host resources: handles, headers, random numbers.
                "handles" => loop {
                    forget(monotonic_clock::subscribe_instant(u64::MAX));
                },
                "headers" => loop {
                    let fields = Fields::new();
                    let value = vec![b'x'; 1024 * 1024];
                    let _ = fields.append("x-large", &value);
                    forget(fields);
                },
                // Each header is allowed, but their total number is not.
                "many-headers" => loop {
                    let fields = Fields::new();
                    (0..15).for_each(|_| _ = fields.append("x-large", &vec![b'x'; 4096]));
                    forget(fields);
                },
                // Creates requests with long request lines and headers, and sends none.
                "many-requests" => loop {
                    let request = OutgoingRequest::new(Fields::new());
                    let _ = request.set_path_with_query(Some(&format!("/{}", "x".repeat(32_000))));
                    forget(request);
                },
                "random" => {
                    forget(random::random::get_random_bytes(60 * 1024 * 1024));
                    Ok(())
                }
                // The constructor has already misbehaved.
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
