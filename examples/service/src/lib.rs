//! A long-lived wasmCloud service next to two short-lived components. It steps the election and
//! calls the handler, as `tenure run` does.
//!
//! The service is a WASI 0.3 component, because wasmCloud restarts only those in a new store. When
//! the handler traps or the host ends its call, the service restarts as a new candidate. That one
//! can lead once the lease of its predecessor has expired.
//!
//! Unlike `tenure run`, the service cannot renew the lease while the handler works, nor stop the
//! handler. Each turn must finish within the lease less the margin: 12 s with `TENURE_LEASE=15s`.
//! The host ends each call after 30 s, unless `WASH_SHARED_STORE_CALL_TIMEOUT_SECS` differs. The
//! service's clock stops while the machine sleeps. The service receives no shutdown signal: when it
//! ends, its lease is not released but expires.
//!
//! The service does not send `report.background`, and does not claim to (`TENURE_BACKGROUND`). So
//! the election refuses `TENURE_FAILOVER` here.
#![cfg_attr(
    target_family = "wasm",
    allow(unsafe_code, missing_docs, reason = "generated bindings")
)]

#[cfg(target_family = "wasm")]
mod service {
    use wasip3::clocks::monotonic_clock::{now, wait_for, wait_until};

    wit_bindgen::generate!({
        path: "../../wit",
        inline: "
            package tenure:service@0.1.0;
            world service {
                import tenure:election/election@0.1.0;
                import tenure:election/leader-handler@0.1.0;
            }
        ",
        generate_all,
    });

    use tenure::election::types::{Event, Outcome, Role, Turn, TurnResult};
    use tenure::election::{election, leader_handler};

    const SECOND: u64 = 1_000_000_000;

    fn seconds(duration: u64) -> f64 {
        duration as f64 / SECOND as f64
    }

    struct Service;

    wasip3::cli::command::export!(Service);

    impl wasip3::exports::cli::run::Guest for Service {
        /// Never returns `Ok`, after which the host would start no other candidate.
        async fn run() -> Result<(), ()> {
            // The host restarts a service without a pause, even one that always traps at once.
            wait_for(SECOND).await;
            if let Err(complaints) = election::check() {
                for wrong in complaints {
                    eprintln!("{}: {}; {}", wrong.setting, wrong.problem, wrong.advice);
                }
                // Each restart prints the complaints again.
                wait_for(60 * SECOND).await;
                return Err(());
            }
            let start = now();
            let (mut state, mut event, mut led_term) = (None::<Vec<u8>>, None, None);
            loop {
                let taken_at = now();
                let report = election::step(state.as_deref(), taken_at - start, 0, event.as_ref());
                event = None;
                for problem in report.problems {
                    eprintln!("{}", problem.detail);
                }
                let term = match report.role {
                    Role::Leading(leadership) => Some(leadership.term),
                    _ => None,
                };
                match term {
                    _ if term == led_term => {}
                    Some(term) => eprintln!("leading, term {term}"),
                    None => eprintln!("no longer leading"),
                }
                led_term = term;
                state = Some(report.state);
                if let Some(turn) = report.run {
                    // The step took some of the turn's time.
                    let left = turn.valid_for.saturating_sub(now() - taken_at);
                    let (outcome, reason) = if left == 0 {
                        (Outcome::NotStarted, None)
                    } else {
                        let result = leader_handler::on_tick(&Turn { valid_for: left, ..turn });
                        match (result, now() - taken_at) {
                            // Another candidate may already lead.
                            (_, took) if took >= turn.valid_for => {
                                let [took, limit] = [took, turn.valid_for].map(seconds);
                                let text = format!("it took {took:.1} s of at most {limit:.1} s");
                                (Outcome::Failed, Some(text))
                            }
                            (Ok(()), _) => (Outcome::Succeeded, None),
                            (Err(problem), _) => (Outcome::Failed, Some(problem)),
                        }
                    };
                    if let Some(reason) = &reason {
                        eprintln!("turn of term {} failed: {reason}", turn.term);
                    }
                    event = Some(Event::TurnEnded(TurnResult { outcome, reason }));
                } else {
                    wait_until(taken_at.saturating_add(report.again_in)).await;
                }
            }
        }
    }
}
