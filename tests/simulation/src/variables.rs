//! Configuration of the candidate on a machine.

use tenure_core::{Delivery, Missed, variable};

use super::plan::{COOL_DOWN, Machine, Plan, Trait};
use super::service::ELECTION;

/// Variables and their values.
pub type Variables = Vec<(&'static str, String)>;

/// Variables of a candidate with a key.
pub const KEY_VARIABLES: [(&str, &str); 2] = [
    ("TENURE_ELECTION", ELECTION),
    ("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true"),
];

/// Secret file of a candidate that has one.
pub const SECRET_PATH: &str = "/secrets/connection";

/// Identity endpoint of a candidate without a key.
pub const IDENTITY_URL: &str = "http://127.0.0.1:1/token";

/// Account of the emulator, by its name and address.
const ACCOUNT_VARIABLES: [(&str, &str); 2] = [
    ("AZURE_STORAGE_ACCOUNT", "devstoreaccount1"),
    ("AZURE_STORAGE_SERVICE_ENDPOINT", "http://127.0.0.1:10000/devstoreaccount1"),
];

/// Returns the variables for the periods of a machine.
pub fn timing_variables(machine: &Machine) -> Variables {
    let mut variables = vec![
        ("TENURE_LEASE", format!("{}s", machine.lease)),
        ("TENURE_POLL", format!("{}ms", machine.poll)),
    ];
    if let Some([margin, renew, timeout]) = machine.timings {
        variables.push(("TENURE_MARGIN", format!("{margin}ms")));
        variables.push(("TENURE_RENEW", format!("{renew}ms")));
        variables.push(("TENURE_REQUEST_TIMEOUT", format!("{timeout}ms")));
    }
    variables
}

/// Returns all variables of the candidate on a machine.
pub fn machine_variables(plan: &Plan, number: usize) -> Variables {
    let machine = &plan.machines[number];
    let mut variables = timing_variables(machine);
    let mut set = |name: &'static str, value: String| variables.push((name, value));
    set("TENURE_NAME", format!("m{}", machine.name));
    set("TENURE_COOL_DOWN", format!("{COOL_DOWN}s"));
    if plan.traits.has(Trait::Supervised) {
        set(variable::LAST_WILL, "true".into());
    }
    if let Some(millis) = machine.failover {
        set("TENURE_FAILOVER", format!("{millis}ms"));
    }
    if let Some(seconds) = plan.turn_timeout {
        set("TENURE_TURN_TIMEOUT", format!("{seconds}s"));
    }
    if let Some(seconds) = plan.tenure {
        set("TENURE_MAX_TENURE", format!("{seconds}s"));
    }
    let is_at_most_once = plan.rules.mixes_delivery && number % 2 == 1;
    match plan.traits.has(Trait::Lasting) {
        true => set("TENURE_WHILE_LEADING", "true".into()),
        false => add_timer_variables(plan, machine, is_at_most_once, &mut set),
    }
    let credential: &[_] = match () {
        () if plan.traits.has(Trait::Files) => &[
            ("AZURE_STORAGE_CONNECTION_STRING_FILE", SECRET_PATH),
            KEY_VARIABLES[0],
            ACCOUNT_VARIABLES[0],
        ],
        () if plan.traits.has(Trait::Tokens) => &[
            ("IDENTITY_ENDPOINT", IDENTITY_URL),
            ("IDENTITY_HEADER", "within"),
            KEY_VARIABLES[0],
            ACCOUNT_VARIABLES[0],
            ACCOUNT_VARIABLES[1],
        ],
        () => &KEY_VARIABLES,
    };
    variables.extend(credential.iter().map(|(name, value)| (*name, (*value).to_string())));
    variables
}

fn add_timer_variables(
    plan: &Plan,
    machine: &Machine,
    is_at_most_once: bool,
    set: &mut impl FnMut(&'static str, String),
) {
    let every = plan.every + u64::from(machine.other_schedule);
    match (plan.traits.has(Trait::Cron), every) {
        (true, 120..) => set("TENURE_CRON", "0 */2 * * * *".into()),
        (true, _) => set("TENURE_CRON", format!("*/{every} * * * * *")),
        (false, _) => set("TENURE_EVERY", format!("{every}s")),
    }
    if plan.traits.has(Trait::Jitter) {
        set("TENURE_JITTER", format!("{}ms", plan.jitter()));
    }
    match plan.rules.delivery {
        _ if is_at_most_once => set("TENURE_DELIVERY", "at-most-once".into()),
        Delivery::AtMostOnce => set("TENURE_DELIVERY", "at-most-once".into()),
        Delivery::AtLeastOnce { max_attempts } => {
            set("TENURE_DELIVERY", "at-least-once".into());
            set("TENURE_MAX_ATTEMPTS", max_attempts.to_string());
        }
    }
    let missed = match plan.rules.missed {
        Missed::Skip => "skip".into(),
        Missed::Once => "once".into(),
        Missed::All(most) => format!("all {most}"),
    };
    set("TENURE_MISSED", missed);
}
