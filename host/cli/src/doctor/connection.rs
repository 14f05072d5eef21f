//! Whether a server can be reached from here, step by step.

use super::examination::Finding;
use super::probe::{Reached, Unreached, probe};
use reqwest::Url;
use std::time::Duration;
use tenure::egress::Authorities;
use tenure::program::http::{Proxies, Proxy};

const CHECK: &str = "connection";

pub(crate) async fn examine(origin: &str, authorities: &Authorities) -> Finding {
    let proxies = Proxies::from_env();
    match Url::parse(origin).ok().map_or(Ok(None), |url| proxies.select(&url)) {
        Ok(None) => judge(origin, probe(origin, authorities).await),
        // The name of the account may be known to the proxy alone.
        Ok(Some(Proxy { variable, address })) => {
            let route = format!("{origin} through the proxy {address} of {variable}");
            judge(&route, probe(&address, authorities).await)
        }
        Err(why) => Finding::failed(CHECK, format!("{origin}: {why}")),
    }
}

fn judge(origin: &str, probed: Result<Reached, Unreached>) -> Finding {
    match probed {
        Ok(reached) => {
            let mut told = format!("{origin}: {}", reached.address);
            let steps = [
                ("name", reached.name),
                ("connection", Some(reached.connection)),
                ("TLS", reached.tls),
            ];
            for (step, time) in steps {
                if let Some(time) = time {
                    told.push_str(&format!(", {step} {}", short(time)));
                }
            }
            if reached.passed_over.is_empty() {
                return Finding::good(CHECK, told);
            }
            let others = reached.passed_over.join("; ");
            Finding::warning(
                CHECK,
                format!("{told}; its other addresses did not answer ({others}): check the network"),
            )
        }
        Err(Unreached::Name(why)) => Finding::failed(
            CHECK,
            format!(
                "{origin}: the name cannot be resolved ({why}); check the account's name, the \
                 endpoint, and DNS on this machine"
            ),
        ),
        Err(Unreached::Connection(why)) => Finding::failed(
            CHECK,
            format!(
                "{origin}: no connection ({why}); check the endpoint and its port, and firewalls in \
                 between"
            ),
        ),
        Err(Unreached::Here(why)) => Finding::failed(CHECK, format!("{origin}: {why}")),
        Err(Unreached::Tls { address, why }) => {
            Finding::failed(CHECK, format!("{origin} ({address}): no TLS: {why}"))
        }
    }
}

/// In milliseconds: people compare them.
fn short(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::super::examination::Verdict;
    use super::*;

    fn reached(passed_over: &[&str]) -> Reached {
        Reached {
            address: ([10, 0, 0, 4], 443).into(),
            name: Some(Duration::from_micros(1_540)),
            connection: Duration::from_millis(12),
            tls: Some(Duration::from_millis(30)),
            passed_over: passed_over.iter().map(|&why| why.to_owned()).collect(),
        }
    }

    #[test]
    fn each_step_has_its_time() {
        let told = judge("https://acc", Ok(reached(&[])));
        assert_eq!(told.verdict, Verdict::Good);
        let steps = "10.0.0.4:443, name 1.5 ms, connection 12.0 ms, TLS 30.0 ms";
        assert_eq!(told.detail, format!("https://acc: {steps}"));
        let told = judge("https://acc", Ok(reached(&["[::1]:443: unreachable"])));
        assert_eq!(told.verdict, Verdict::Warning);
        assert!(told.detail.contains("[::1]:443: unreachable"), "{told:?}");
    }

    #[test]
    fn each_failure_names_its_step() {
        let address = ([10, 0, 0, 4], 443).into();
        for (failure, words) in [
            (Unreached::Name("x".to_owned()), "DNS"),
            (Unreached::Connection("x".to_owned()), "firewalls"),
            (Unreached::Here("too many".to_owned()), "https://acc: too many"),
            (Unreached::Tls { address, why: "x".to_owned() }, "10.0.0.4:443): no TLS: x"),
        ] {
            let told = judge("https://acc", Err(failure));
            assert_eq!(told.verdict, Verdict::Failed);
            assert!(told.detail.contains(words), "{told:?}");
        }
    }
}
