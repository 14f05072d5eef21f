// A leader handler in JavaScript: each turn, it reports its term and slot to an HTTP endpoint.
//
// Without REPORT_URL it only prints a line. The endpoint should refuse a term smaller than one that
// it has seen. That makes late requests of a former leader harmless.

import { getEnvironment } from "wasi:cli/environment@0.2.10";

// Encodes a name as `tenure run` does, because a header cannot carry every name.
function encoded(name) {
  const all = encodeURIComponent(name).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  return all.replaceAll("%2F", "/").replaceAll("%24", "$$");
}

export const leaderHandler = {
  // Times and terms are BigInts. To fail the turn, throw a string: it is logged and recorded.
  async onTick(turn) {
    // A slot is in nanoseconds since 1970, by the storage service's clock.
    const slot = new Date(Number(turn.slot / 1_000_000n)).toISOString().replace(".000Z", "Z");
    console.log(`slot ${slot}, term ${turn.term}`);
    const url = new Map(getEnvironment()).get("REPORT_URL");
    if (!url) return;
    // JSON has no BigInt. A term is close to the Unix time in seconds: a number holds it exactly.
    const report = {
      election: turn.election,
      term: Number(turn.term),
      slot,
      attempt: turn.attempt,
      past_due: turn.pastDue,
    };
    const headers = {
      "content-type": "application/json",
      // `tenure run` sets the election and its term on every request. Other hosts do not.
      "tenure-election": encoded(turn.election),
      "tenure-term": `${turn.term}`,
      "idempotency-key": turn.key, // the same for all attempts at this turn
    };
    let answer;
    try {
      answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(report) });
    } catch (error) {
      throw `${url}: ${error}`;
    }
    if (!answer.ok) throw `${url} answered ${answer.status}`;
  },
};
