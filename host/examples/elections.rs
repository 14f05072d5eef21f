//! Leads many elections in one process, which share connections and a thread. Prints `ready` once
//! the process leads all of them.
//!
//! ```text
//! AZURE_STORAGE_CONNECTION_STRING=… elections CONTAINER COUNT
//! ```

use std::error::Error;

use futures_util::future::join_all;
use tenure::settings::{Credential, Settings};
use tenure::{Elector, Membership, Role};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [container, count] = &arguments[..] else { return Err("CONTAINER COUNT".into()) };
    let mut memberships = Vec::new();
    for number in 0..count.parse::<usize>()? {
        let settings = Settings::new(format!("{container}/{number}"), Credential::Environment);
        memberships.push(Elector::new(settings)?.start()?);
    }
    for membership in &memberships {
        membership.watch_role().wait_for(|role| matches!(role, Role::Leading(_))).await?;
    }
    println!("ready");
    tenure::shutdown_signal().await;
    join_all(memberships.into_iter().map(Membership::leave)).await;
    Ok(())
}
