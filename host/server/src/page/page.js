
// The server sends ages instead of times. The page adds its own elapsed time to them.
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let view = null;
let announced;

// ---- The view in words

function show() {
  const { leader, unseen } = view;
  const noLeader = unseen ? "Not known" : "No leader";
  document.title = `${leader ? `${leader.name} leads` : noLeader} – Tenure`;
  write(byId("election"), view.election);
  write(byId("leader"), leader ? leader.name : noLeader);
  write(byId("term"), leader ? `term ${leader.term}` : "");
  announce(leader);
  showMeter();
  showFacts();
  showTurns();
  showCommands();
  showRows();
  showTable();
  showNotes(byId("problems"), view.problems, "None.");
  showNotes(byId("changes"), view.changes, "None yet.");
  byId("reported-by").hidden = !view.reported_by;
  write(byId("reporter"), view.reported_by ?? "");
  frame();
}

function announce(leader) {
  const noLeader = view.unseen ? "The leader is not known." : "There is no leader at the moment.";
  const sentence = leader ? `${leader.name} leads, with term ${leader.term}.` : noLeader;
  if (sentence !== announced) write(byId("announcer"), sentence);
  announced = sentence;
}

// Returns the running countdown: the leader's validity or, without a leader, the rest of its lease.
function running() {
  const { leader, vacancy } = view;
  if (leader) return { title: "May act without another renewal", time: leader.validity, none: "known to the leader only" };
  if (vacancy) return { title: "Nobody may take over for", time: vacancy, none: "" };
  return { title: "May act without another renewal", time: null, none: "–" };
}

function showMeter() {
  const { title, time, none } = running();
  const meter = byId("meter");
  write(byId("validity-title"), title);
  meter.setAttribute("aria-valuemax", time ? Math.round(time.whole_ms / 1000) : 0);
  meter.setAttribute("aria-valuenow", time ? Math.round(time.left_ms / 1000) : 0);
  meter.setAttribute("aria-valuetext", time ? span(time.left_ms) : none);
}

function showFacts() {
  const { leader, last_turn: turn, overlapping } = view;
  const known = view.lanes.map((lane) => lane.requests_per_minute).filter((number) => number !== null);
  write(byId("requests"), known.length ? String(known.reduce((sum, number) => sum + number, 0)) : "–");
  const took = turn?.took_ms == null ? "" : ` after ${brief(turn.took_ms)}`;
  byId("newest").hidden = hasTurns();
  write(byId("turn"), turn ? `${localTime(turn.slot)} ${turn.outcome}${took}` : "none yet");
  byId("turn").title = turn ? [turn.slot, turn.candidate].filter(Boolean).join(", ") : "";
  byId("since").title = leader?.since ?? "";
  byId("failover").hidden = !view.replacement;
  write(byId("failover"), view.replacement ?? "");
  byId("taken-over").hidden = !view.take_over;
  write(byId("takeover"), view.take_over ? `${brief(view.take_over.after_ms)} ${view.take_over.cause}` : "");
  byId("judged").hidden = overlapping === null;
  write(byId("overlapping"), overlapping === 0 ? "0, at the endpoint that turns call" : String(overlapping ?? "–"));
  byId("overlapping").classList.toggle("bad", overlapping > 0);
}

// Unchanged notes stay in place, so readers keep their selection.
function showNotes(list, notes, none) {
  const texts = notes.map((note) => note.text).join("\n");
  if (list.texts !== texts) {
    list.texts = texts;
    const items = notes.map((note) => {
      const item = make("li");
      item.append(make("time"), make("span", "name", note.text));
      return item;
    });
    list.replaceChildren(...(items.length ? items : [make("li", "none", none)]));
  }
  notes.forEach((note, i) => (list.children[i].firstChild.dataset.age = note.age_ms));
}

function stateOf(lane) {
  return [lane.state, ...lane.faults].join(", ");
}

function showTable() {
  const body = byId("figures");
  while (body.rows.length > view.lanes.length) body.deleteRow(-1);
  view.lanes.forEach((lane, i) => {
    const [name, state, term, validity, requests] = (body.rows[i] ?? makeLine(body)).cells;
    const leader = lane.state === "leads" ? view.leader : null;
    write(name, lane.name);
    write(state, stateOf(lane));
    write(term, leader ? String(leader.term) : "–");
    write(requests, String(lane.requests_per_minute ?? "–"));
    if (leader?.validity) validity.dataset.left = leader.validity.left_ms;
    else delete validity.dataset.left;
    if (!leader?.validity) write(validity, "–");
  });
}

function makeLine(body) {
  const line = body.insertRow();
  const name = make("th", "name");
  name.scope = "row";
  line.append(name, make("td"), make("td"), make("td"), make("td"));
  return line;
}

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

// Updates the countdown to the next turn between two views.
function frameTurns(passed) {
  const next = view.outlook.next_turn;
  const wait = next ? next.in_ms - passed : 0;
  write(byId("wait"), next ? (wait > 0 ? `in ${countdown(wait)}` : "due now") : "");
}

// ---- Commands that an operator may copy

function showCommands() {
  const { commands } = view;
  // The demo's page has buttons instead.
  if (!commands) return byId("commands")?.remove();
  byId("commands").hidden = false;
  const choices = byId("successor");
  const names = ["", ...commands.successors];
  if (choices.names !== names.join("\n")) {
    const chosen = choices.value;
    choices.names = names.join("\n");
    choices.replaceChildren(...names.map((name) => Object.assign(make("option", "", name || "any other candidate"), { value: name })));
    choices.value = names.includes(chosen) ? chosen : "";
  }
  const to = choices.value ? [`--to=${choices.value}`] : [];
  write(byId("transfer"), ["tenure", "transfer", view.election, ...to].map(quoted).join(" "));
  byId("run-now").hidden = !commands.triggers;
  write(byId("trigger"), ["tenure", "trigger", view.election].map(quoted).join(" "));
}

// Quotes an argument for any Unix shell.
function quoted(word) {
  return /^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

async function copy(command) {
  const marked = () => {
    getSelection().selectAllChildren(command);
    return document.execCommand("copy");
  };
  const copied = await navigator.clipboard?.writeText(command.textContent).then(() => true, () => false);
  write(byId("copied"), copied || marked() ? "Copied." : "Select it, and copy it by hand.");
}

byId("successor").addEventListener("input", showCommands);
for (const button of document.querySelectorAll("[data-copies]")) {
  button.addEventListener("click", () => copy(byId(button.dataset.copies)));
}

// ---- Animation between two views

function frame() {
  if (!view || isLost()) return;
  const passed = elapsed();
  for (const row of rows) {
    const width = row.track.clientWidth;
    const shift = (passed * width) / sight();
    row.moving.setAttribute("transform", `translate(${-shift},0)`);
    for (const label of row.labels) placeLabel(label, shift, width);
  }
  const { leader } = view;
  const { time, none } = running();
  const left = time ? Math.max(time.left_ms - passed, 0) : 0;
  byId("bar").style.width = `${time ? Math.min(left / time.whole_ms, 1) * 100 : 0}%`;
  byId("bar").classList.toggle("short", !leader || left < (time?.whole_ms ?? 0) / 3);
  write(byId("left"), time ? `${(left / 1000).toFixed(1)} s` : none);
  write(byId("since"), leader ? sinceWords(leader, passed) : "–");
  frameTurns(passed);
  for (const cell of document.querySelectorAll("[data-left]")) write(cell, span(Math.max(cell.dataset.left - passed, 0)));
  for (const age of document.querySelectorAll("[data-age]")) write(age, `${span(Number(age.dataset.age) + passed)} ago`);
}

function sinceWords(leader, passed) {
  const seen = span(leader.seen_ms + passed);
  return leader.since ? `since ${localTime(leader.since)}, seen for ${seen}` : `for ${seen}`;
}

function animate() {
  if (!calm.matches) frame();
  requestAnimationFrame(animate);
}

// ---- Start

showLegend();
connect("/events" + location.search, (newest) => {
  view = newest;
  show();
});
requestAnimationFrame(animate);
setInterval(() => {
  heed();
  if (calm.matches) frame();
}, 1000);
addEventListener("resize", () => view && showRows());
