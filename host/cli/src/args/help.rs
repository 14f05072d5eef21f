//! Texts that follow the options in the help of a command.

pub(super) const EXAMPLES: &str = "\
Examples:
  Run a failover demo
    tenure demo

  Try it without an account: a blob store in one terminal, a candidate in another
    tenure store --listen 127.0.0.1:10000
    export AZURE_STORAGE_CONNECTION_STRING=UseDevelopmentStorage=true
    tenure run demo/report --every 5s --handler report.wasm

  On Azure: the same command in every replica
    export AZURE_STORAGE_CONNECTION_STRING='AccountName=...;AccountKey=...'
    tenure run jobs/nightly --every 24h --handler nightly.wasm \\
        --env REPORT_URL=https://example.com/report --allow-host example.com

  Any program as the work
    tenure run jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all

  Validate the settings, show the next turns, and test the account
    tenure check jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all

  One command at a time, on all machines together
    tenure lock --wait 60s jobs/migration -- ./migrate.sh

  Show who leads
    tenure status jobs/nightly

  Run a turn now, and wait for its outcome
    tenure trigger jobs/nightly --wait 10m

  Find out why nobody leads
    tenure check jobs/nightly";

pub(super) const RUN_HELP: &str = "\
The work is a program, a URL, a WebAssembly component, or an application that asks. Without a schedule it runs for \
triggers only (`tenure trigger`).

  tenure run jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all
  tenure run jobs/report --every 1h --webhook https://example.com/tick
  tenure run jobs/nightly --every 24h --handler nightly.wasm
  tenure run jobs/poller --no-work --listen 127.0.0.1:8080
  tenure run jobs/reindex -- ./reindex

A program is started again for each turn, and exit code 0 is success. It sees this environment without AZURE_*, \
IDENTITY_*, MSI_* and TENURE_*, and what --env adds. Tenure sets TENURE_ELECTION, TENURE_TERM, TENURE_SLOT, \
TENURE_ATTEMPT and TENURE_IDEMPOTENCY_KEY; TENURE_TRIGGER for a turn of `tenure trigger`; TENURE_SHARE_INDEX and \
TENURE_SHARE_COUNT with --shares. TENURE_DEADLINE is the time at which the program is killed if no later renewal \
succeeds. It and everything that it started get SIGTERM one --stop-time before the leadership ends, and SIGKILL half \
a second before the end.

A URL gets one POST for each turn, with the turn as JSON. Any 2xx is success. A call that did not arrive is retried; \
one that may have arrived is retried with --delivery at-least-once only. When the leadership ends, the connection is \
cut, but the receiver may go on: it must refuse a term (header tenure-term) smaller than one that it has seen.

An application asks http://localhost:8080/leader whether this candidate leads, under which term, and until when it \
may act. It must stop itself when that time is over. /watch reports each change.

More work than one process can do is split into shares, which all processes of the election divide among themselves:

  tenure run jobs/orders --shares 32 --every 1m -- ./orders

Durations have a unit: 500ms, 15s, 1h30m. Variables set what their options set; the command line takes precedence. \
The storage account and its credential come from the variables of Azure's own tools, never from an argument: \
AZURE_STORAGE_CONNECTION_STRING; or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, \
AZURE_STORAGE_AUTH_TOKEN, an application (AZURE_CLIENT_SECRET), or else the identity of the workload or the machine. \
The first one that is set counts. Instead of a secret in a variable NAME, the variable NAME_FILE may name a file that \
holds it; the file is read again every few seconds.

On SIGTERM or SIGINT (and on SIGHUP without a service manager) the candidate begins no new turn. The running turn may \
go on for --grace, and is then stopped. The lease is released, and the program ends. A second signal, more than a \
second later, ends it at once.

The process that you start is a supervisor; its child, the same program, runs the election. When the child dies, the \
supervisor kills what is left of its work, releases the lease, and ends with the same exit code, or with 128 plus the \
signal number. If the supervisor is killed (kill -9), its child dies too, and the others wait until the lease expires.

Exit codes: 0 the candidate left; 1 a second signal ended it; 2 a setting is wrong, and nothing was sent; 71 the \
system lacked the threads, memory or file descriptors to start it; 101, or 128 plus a signal number: the process that \
ran the election died. Errors of the store or of the work never end it: they are reported and retried.";

#[cfg_attr(not(unix), allow(dead_code, reason = "there is no such command"))]
pub(super) const LOCK_HELP: &str = "\
It waits until no other process holds the lease of the blob, runs the command once, releases the lease, and ends with the \
command's exit code. The lease is renewed while the command runs. If renewals fail, the command and everything that \
it started get SIGTERM one --stop-time before the lease must be given up. They get SIGKILL half a second before \
that. So two holders' commands never run at the same time. Processes that a command leaves behind are killed.

  tenure lock jobs/migration -- ./migrate.sh
  tenure lock --if-free jobs/report -- ./report.sh || test $? = 75

The command has the standard input, output and error and the terminal of this process; Ctrl-Z does not stop it, since \
it would keep the lock. In a pipeline, the command gets the terminal only once it reads from the terminal. Problems go to \
standard error; everything else is logged only with --log. The command sees this environment without AZURE_*, \
IDENTITY_*, MSI_* and TENURE_*, what --env adds, and TENURE_TERM, a number that rises with each holder: give it to \
whatever the command writes to, which can then refuse an earlier holder. TENURE_DEADLINE is the time at which it is \
killed; most renewals extend it.

While the command runs, this process passes on the signals that it gets: SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 \
and SIGUSR2. While it waits, they end the waiting.

The lock is an election's blob, so `tenure status` and `tenure break` work on it. No other election should use it.

Exit codes: the command's own; 128 plus the signal number, if a signal ended the command or the waiting; 75 the lock \
was not acquired in time, or at once with --if-free, and nothing was run (it is held, or the account did not answer: \
standard error says which); 76 the lock was lost while the command ran, and the \
command was ended for that; 125 something was wrong with the settings, the blob or this program itself, or the \
account refused, and nothing was run; 126 the command cannot be executed; 127 there is no such command.";

pub(super) const OBSERVE_HELP: &str = "\
It answers at --listen as a candidate does, with /leader and /watch among others, but takes no part in the \
elections. It never leads and writes nothing, so a credential that may only read blobs is enough.

  tenure observe jobs/nightly --listen 127.0.0.1:8080
  tenure observe --config tenure.toml --listen 127.0.0.1:8080

It polls as a follower does, about 1,200 requests an hour for each election. Where it can reach the address that the \
leader put on record, it learns of changes at once. Then --poll 60s is enough: 80 requests an hour.

For an application that is to act itself while it leads, see `tenure run --no-work`.

It ends with SIGTERM or SIGINT, or with SIGHUP without a service manager. Exit codes: 0 it was ended; 1 a second \
signal ended it; 2 something was wrong with the settings, and nothing was sent.";

pub(super) const CHECK_HELP: &str = "\
It accepts everything that `tenure run` accepts, and validates it in the same way, but takes no part in the election: \
replace run by check. For each election it shows when the next turns are, which work was found, what that may reach, \
and which account and credential are used. With --offline it stops there, and sends nothing.

Then it connects to the storage account, and tries each request that a candidate sends. It does so on an empty blob \
of its own beside the election's, BLOB.check-…, and deletes it. A credential that may not delete blobs leaves one \
blob, BLOB.check. A missing container is created, as a candidate would create it. The election itself is only read, \
so this may run while candidates run. Of several elections in one container, the requests are tried for the first \
one; the others are only read.

  tenure check jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all
  tenure check --offline --config tenure.toml

To test only the account, leave out schedule and work:

  tenure check jobs/backup

Exit codes: 0 all is well, for an emulator too; 1 there are warnings; 2 something failed, or a setting is wrong; 130 \
it was interrupted.";

pub(super) const STATUS_HELP: &str = "\
It only reads. Below the rows it shows the candidates that were seen in the last half hour, and for split work the \
shares: who holds which, and which move. A member with `no sign` has left or died. The actual holders of more than \
1,000 shares are not read.

  tenure status jobs/nightly
  tenure status --config tenure.toml

With --config and without an election it shows all elections of the file as one table. Those that cannot be read, \
those that nobody leads and those whose last turn failed come first.

With --watch it writes a line for each change of the leader, the lease, the turns and the problems. It misses \
changes that come and go between two reads. It ends with SIGINT (Ctrl-C) or SIGTERM, or when its output is closed.

Exit codes: 0 there is a leader, and each share is held by the member that should hold it; 1 there is none, or a share \
is not held as planned; 2 a setting is wrong, no candidate can lead, or something that decides between 0 and 1 could \
not be read. Of several elections, the worst. With --watch: 0 it was ended; 2 a setting is wrong.";

pub(super) const RESHARE_HELP: &str = "\
All work stops in all processes, since two splits must not run side by side. The coordinator closes each \
share, so that a process that was frozen cannot win it later. Then it plans the new ones. They are new elections: \
slots, outcomes and history start again. Processes need not be restarted; their --shares counts for the first plan \
only.

  tenure reshare jobs/orders --shares 64

It asks for confirmation first. `tenure status` shows the progress.

Exit codes: 0 the new number was requested, was requested before, or is already in force; 1 it was not requested, or \
that is not known; 2 something was wrong with the settings, the plan could not be read or there is none yet, or it was not confirmed.";

pub(super) const TRANSFER_HELP: &str = "\
It writes an order to a small blob beside the election's, BLOB.orders, and notifies the leader at the address that it \
put on record. That needs permission to write there. The leader reads its orders every 10 s. It obeys an order of its \
own term that is at most a minute old. A later transfer replaces one that has not begun.

With --to, the running turn ends within its grace, and the candidate of that name leads next, with no other leader in \
between. If that candidate does not announce itself, the leader stays. Without --to, the leader resigns: any \
candidate may lead next.

  tenure transfer jobs/backup --to vm2

Locks and single invocations take no orders.

Exit codes: 0 a new term has begun; 1 the order was refused or failed, and the leader stays; 2 the result is not \
known, or a setting is wrong; 3 the leader changed before it obeyed.";

pub(super) const TRIGGER_HELP: &str = "\
It writes a trigger to a small blob beside the election's, BLOB.orders, and notifies the leader at the address that \
it put on record. That needs permission to write there.

The turn is claimed like any other, after the one that runs, and before slots that wait. It is run once, or with \
--delivery at-least-once until it succeeds or --max-attempts is reached. When nobody leads, the \
next leader runs it. A trigger that no leader claims within an hour is not run. Eight may wait at a time. Work \
that lasts as long as the leadership (--while-leading) has no turns, so it is refused.

The same command again with the same --id starts no second turn, and reports the state of the first. When 17 other \
triggers have been claimed after it, the id is forgotten, and the command starts a turn again.

  tenure trigger jobs/nightly --wait 10m

Exit codes without --wait: 0 the state of the trigger was printed, whatever it is; 2 it was not placed, or that is not \
known. With --wait: 0 the turn succeeded; 1 it was not over in time; 2 as above; 3 the turn did not succeed, will not \
be run, or its outcome is unknown.";

pub(super) const BREAK_HELP: &str = "\
Use it for a leader that cannot be reached any more. Without --period, its lease expires in its own time, and by then \
the leader has stopped: no two leaders overlap. With a shorter period, the leader works on until its next renewal fails, and may \
overlap with the next leader.

Exit codes: 0 the lease is broken, or there was none; 1 it was not broken; 2 something was wrong with the settings, \
there is no such election, or it was not confirmed.";

pub(super) const RESET_SLOT_HELP: &str = "\
A slot in the future is a problem that every leader reports: the record was edited by hand, or the service's \
clock was wrong. Only a leader may write the record, so this command takes the lease for a moment, once the present \
leader's has expired. Scheduled turns cannot run before that anyway; a running turn for a trigger is cut off. Slots \
that already ran while the clock was ahead will run again when their time comes.

Exit codes: 0 there is no such slot any more; 1 it was not done; 2 something was wrong with the settings, there is \
no such election, or it was not confirmed; 130 it was interrupted.";
