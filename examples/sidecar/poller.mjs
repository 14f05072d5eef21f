// An application that works only while its sidecar, `tenure run --no-work`, leads.
//
//     REPORT_URL=http://127.0.0.1:9000/report node poller.mjs

import { setTimeout as sleep } from "node:timers/promises";

const WATCH_URL = process.env.WATCH_URL ?? "http://127.0.0.1:8080/watch";
const REPORT_URL = new URL(process.env.REPORT_URL);
const SILENCE_MS = 30_000; // The sidecar sends at least a comment every 10 s.
const UNIT_MS = 1_000; // A "no" of the sidecar is obeyed after the running unit.

/** The newest right to act, for a limited time, or null. */
let permission = null;

function permissionOf(status) {
  if (status.version !== 1) throw new Error(`version ${status.version} is unknown`);
  if (!status.leading) return null;
  return {
    candidate: status.candidate,
    election: status.election,
    term: status.leader.term,
    deadline: performance.now() + status.valid_for_ms,
    validUntil: Date.parse(status.valid_until),
  };
}

/**
 * Returns the milliseconds left. By the wall clock an event that was read late is over, and by the
 * monotonic clock a permission ends even if the wall clock was set back.
 */
function left(current) {
  const monotonic = current.deadline - performance.now();
  return Math.floor(Math.min(monotonic, current.validUntil - Date.now()));
}

/** Reads the stream until it ends, breaks or is silent. */
async function readStream() {
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new Error("the stream is silent")), SILENCE_MS);
  try {
    const response = await fetch(WATCH_URL, { signal: silence.signal });
    if (!response.ok) throw new Error(`the answer is ${response.status}`);
    let text = "";
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      timer.refresh();
      const lines = (text + chunk).split("\n");
      text = lines.pop();
      for (const line of lines.filter((line) => line.startsWith("data: "))) {
        permission = permissionOf(JSON.parse(line.slice("data: ".length)));
      }
    }
    throw new Error("the stream has ended");
  } finally {
    clearTimeout(timer);
  }
}

/** Follows the stream. Without events, the last permission expires by itself. */
async function watch() {
  for (;;) {
    await readStream().catch(complain(WATCH_URL));
    await sleep(1_000);
  }
}

function complain(url) {
  return (error) => console.error(`${url}: ${error.cause ?? error}`);
}

/** Does one unit of work: one POST request, which ends before the permission does. */
async function act(current) {
  const limit = Math.min(left(current), UNIT_MS);
  if (limit <= 0) return;
  const answer = await fetch(REPORT_URL, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "tenure-election": current.election,
      "tenure-term": `${current.term}`,
    },
    body: JSON.stringify({ candidate: current.candidate }),
    signal: AbortSignal.timeout(limit),
  });
  await answer.arrayBuffer(); // frees the connection
  console.log(`term ${current.term}: ${answer.status}`);
}

// Without a handler, the first process of a container ignores SIGTERM.
process.on("SIGTERM", () => process.exit());
watch();
for (;;) {
  if (permission) await act(permission).catch(complain(REPORT_URL));
  await sleep(1_000);
}
