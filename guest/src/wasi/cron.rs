//! `handle-cron-event`: one turn, for Spin's cron trigger, which fires in every replica. The time
//! of the event is not used: slots are counted in the service's time.

use super::Component;
use super::bindings::{Error, Guest, Metadata};
use super::command::turn;

impl Guest for Component {
    fn handle_cron_event(_: Metadata) -> Result<(), Error> {
        let answer = turn();
        if answer.status == 200 { Ok(()) } else { Err(Error::Other(answer.body)) }
    }
}
