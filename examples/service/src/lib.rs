//! A long-lived wasmCloud service next to two short-lived components. It steps the election and
//! calls the handler, as `tenure run` does.
//!
//! Unlike `tenure run`, the service cannot renew the lease while the handler works, nor stop the
//! handler. Each turn must finish within the lease less the margin, so choose a lease that is long
//! enough (`TENURE_LEASE`, up to 60 s). The service's clock stops while the machine sleeps. The
//! service receives no shutdown signal: when it ends, its lease is not released but expires.
//!
//! The service does not send `report.background`, and does not claim to (`TENURE_BACKGROUND`). So
//! the election refuses `TENURE_FAILOVER` here.
#![cfg_attr(
    target_family = "wasm",
    allow(unsafe_code, missing_docs, reason = "generated bindings")
)]

#[cfg(target_family = "wasm")]
mod service {
    use std::time::{Duration, Instant};

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

    struct Service;

    wasip2::cli::command::export!(Service);

    impl wasip2::exports::cli::run::Guest for Service {
        fn run() -> Result<(), ()> {
            if let Err(complaints) = election::check() {
                for wrong in complaints {
                    eprintln!("{}: {}; {}", wrong.setting, wrong.problem, wrong.advice);
                }
                return Err(());
            }
            let start = Instant::now();
            let (mut state, mut event) = (None::<Vec<u8>>, None);
            loop {
                let taken_at = Instant::now();
                let elapsed = nanoseconds(taken_at - start);
                let report = election::step(state.as_deref(), elapsed, 0, event.as_ref());
                event = None;
                for problem in report.problems {
                    eprintln!("{:?}: {}", problem.class, problem.detail);
                }
                if matches!(report.role, Role::Left) {
                    return Ok(());
                }
                state = Some(report.state);
                if let Some(turn) = report.run {
                    // The step took some of the turn's time.
                    let left =
                        Duration::from_nanos(turn.valid_for).saturating_sub(taken_at.elapsed());
                    let (outcome, reason) = if left.is_zero() {
                        (Outcome::NotStarted, None)
                    } else {
                        match leader_handler::on_tick(&Turn {
                            valid_for: nanoseconds(left),
                            ..turn.clone()
                        }) {
                            Ok(()) => (Outcome::Succeeded, None),
                            Err(problem) => {
                                eprintln!("turn of term {}: {problem}", turn.term);
                                (Outcome::Failed, Some(problem))
                            }
                        }
                    };
                    event = Some(Event::TurnEnded(TurnResult { outcome, reason }));
                } else {
                    let due = taken_at + Duration::from_nanos(report.again_in);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            }
        }
    }

    fn nanoseconds(duration: Duration) -> u64 {
        u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
    }
}
