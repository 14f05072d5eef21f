
// ---- The turns of a schedule

// Returns the label of a turn's instant.
const whose = (turn) => (turn.triggered ? "triggered at" : "slot");

// The demo shows its turns in its lanes only.
const hasTurns = () => view.turns.length > 0 || Boolean(view.schedule);

function showTurns() {
  byId("turns").hidden = !hasTurns();
  if (!hasTurns()) return;
  const { schedule, outlook, turns } = view;
  const next = outlook.next_turn;
  write(byId("schedule"), schedule ?? "no schedule is on record");
  byId("coming").hidden = !next;
  write(byId("next"), next ? localTime(next.local) : "");
  byId("next").title = next?.slot ?? "";
  showEnd("succeeded", outlook.last_success);
  showEnd("failed", outlook.last_failure);
  showLast(view.last_turn);
  showStrip(turns);
}

function showLast(turn) {
  const [how, more] = byId("last").children;
  const took = turn?.took_ms == null ? "" : `, ${brief(turn.took_ms)}`;
  write(how, turn ? turn.outcome + took : "none yet");
  const known = turn && view.turns.find(({ slot }) => slot === turn.slot);
  write(more, known ? `${whose(known)} ${localTime(known.local)}` : "");
}

// Shows the newest turn with this outcome; its age keeps counting.
function showEnd(row, turn) {
  const [ago, more] = [byId(row).querySelector("[data-ago]"), byId(row).querySelector("small")];
  byId(row).classList.toggle("never", !turn);
  if (turn?.ago_ms == null) {
    delete ago.dataset.age;
    write(ago, turn ? "recorded without its time" : "none on record");
  } else ago.dataset.age = turn.ago_ms;
  const took = turn?.took_ms == null ? "" : `, ${brief(turn.took_ms)}`;
  const word = row === "failed" && turn && turn.outcome !== "failed" ? `, ${turn.outcome}` : "";
  write(more, turn ? `${whose(turn)} ${localTime(turn.local)}${word}${took}` : "");
}

function showStrip(turns) {
  byId("past").hidden = !turns.length;
  const strip = byId("strip");
  const told = JSON.stringify(turns.map(({ slot, triggered, outcome, took_ms }) => [slot, triggered, outcome, took_ms]));
  if (strip.told === told) return;
  strip.told = told;
  const times = turns.map((turn) => calendar(turn.local));
  const oneDay = new Set(times.map(({ day }) => day)).size === 1;
  const longest = Math.max(1, ...turns.map((turn) => turn.took_ms ?? 0));
  const items = turns.map((turn, i) => makeTurn(turn, times[i], oneDay, longest));
  // The newest turn comes first for screen readers; on a wide screen it stands at the right.
  strip.replaceChildren(...items.reverse());
  byId("unknown-turns").hidden = !turns.some((turn) => turn.outcome === "unknown");
}

function makeTurn(turn, { day, time }, oneDay, longest) {
  const item = make("li", `turn ${turn.outcome}`);
  item.title = turn.triggered ? `triggered at ${turn.local}` : turn.local;
  const bar = make("span", "bar");
  if (turn.took_ms !== null) bar.style.setProperty("--part", turn.took_ms / longest);
  const sign = draw("svg", "", { "aria-hidden": "true", viewBox: "-7 -7 14 14" });
  const known = turn.outcome in SHAPES ? turn.outcome : "failed";
  sign.append(draw("path", `tick ${known}`, { d: SHAPES[known] }));
  const when = make("span", "when");
  if (!oneDay) when.append(make("span", "", day), " ");
  when.append(make("span", "", time));
  if (turn.triggered) when.append(" ", make("span", "triggered", "triggered"));
  const took = make("span", "took", turn.took_ms === null ? "" : brief(turn.took_ms));
  item.append(bar, sign, make("span", "how", turn.outcome), took, when);
  return item;
}

// Updates countdowns between two views.
function frameTurns(passed) {
  const next = view.outlook.next_turn;
  const wait = next ? next.in_ms - passed : 0;
  write(byId("wait"), next ? (wait > 0 ? `in ${countdown(wait)}` : "due now") : "");
}
