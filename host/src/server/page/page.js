"use strict";

// The server tells ages, not times: what was old by so much when it was told, at `toldAt` of this page's own clock.
const WINDOW = 120_000;
const SILENCE = 12_000; // Three times the longest pause between two views.
const RETRY = 5_000;
const HEIGHT = 48;

// Turns by outcome, around 0,0: a shape each, so that colour is not needed to tell them apart.
const SHAPES = {
  succeeded: "M-3.5,0a3.5,3.5 0 1 0 7,0a3.5,3.5 0 1 0 -7,0",
  running: "M-3.5,0a3.5,3.5 0 1 0 7,0a3.5,3.5 0 1 0 -7,0",
  failed: "M-3.5,-3.5L3.5,3.5M3.5,-3.5L-3.5,3.5",
  trapped: "M0,-4.5L4.5,3.5H-4.5Z",
  "timed-out": "M0,-4.5L4.5,0L0,4.5L-4.5,0Z",
  "cut-off": "M-3.5,-4V4M-3.5,0H4",
};
const ACTIONS = [["kill-machine", "start"], ["kill-process"], ["resign"], ["freeze", "thaw"], ["partition", "heal"]];

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const byId = (id) => document.getElementById(id);
let view = null;
let toldAt = 0;
let rows = [];
let announced;

// ---- Small helpers

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function draw(tag, className, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (className) element.setAttribute("class", className);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function span(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  return s < 172_800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} days`;
}

// A time that was measured.
function brief(ms) {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}

// An instant as it was written, without a date: 2000-01-01T10:00:00Z is 10:00:00 UTC.
function timeOfDay(instant) {
  const found = /^\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/.exec(instant);
  return found ? `${found[1]} UTC` : instant;
}

// An instant in its zone: 2000-01-01T10:00:00+01:00[Europe/Berlin] is 2000-01-01 10:00:00 Europe/Berlin.
function localTime(instant) {
  const found = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|[+-]\d\d:\d\d\[(.+)\])$/.exec(instant);
  return found ? `${found[1]} ${found[2]} ${found[3] ?? "UTC"}` : instant;
}

const elapsed = () => performance.now() - toldAt;
const isLost = () => document.body.classList.contains("lost");

// ---- The connection

function connect() {
  const news = new EventSource("/events" + location.search);
  news.onmessage = (event) => {
    view = JSON.parse(event.data);
    toldAt = performance.now();
    document.body.classList.add("live");
    document.body.classList.remove("lost");
    write(byId("connection"), "Live");
    show();
  };
  news.onerror = () => {
    lose("Disconnected. What you see is old; trying again …");
    // Refused: the browser gives up by itself.
    if (news.readyState === EventSource.CLOSED) setTimeout(connect, RETRY);
  };
}

function lose(why) {
  document.body.classList.remove("live");
  document.body.classList.add("lost");
  write(byId("connection"), why);
}

// ---- What is told, as words

function show() {
  const { leader } = view;
  document.title = leader ? `${leader.name} leads – Tenure` : "Nobody leads – Tenure";
  write(byId("election"), view.election);
  write(byId("leader"), leader ? leader.name : "Nobody leads");
  write(byId("term"), leader ? `term ${leader.term}` : "");
  announce(leader);
  showMeter();
  showFacts();
  showRows();
  showTable();
  showNotes(byId("problems"), view.problems, "None.");
  showNotes(byId("changes"), view.changes, "None yet.");
  byId("told-by").hidden = !view.told_by;
  write(byId("teller"), view.told_by ?? "");
  frame();
}

function announce(leader) {
  const sentence = leader ? `${leader.name} leads, with term ${leader.term}.` : "Nobody leads at the moment.";
  if (sentence !== announced) write(byId("announcer"), sentence);
  announced = sentence;
}

// What runs down: how long the leader may act or, when it is gone, how long its lease keeps the others out.
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
  write(byId("turn"), turn ? `${timeOfDay(turn.slot)} ${turn.outcome}${took}` : "none yet");
  byId("turn").title = turn ? [turn.slot, turn.candidate].filter(Boolean).join(", ") : "";
  showEnd("succeeded", "success", view.outlook.last_success);
  showEnd("failed", "failure", view.outlook.last_failure);
  const next = view.outlook.next_turn;
  byId("coming").hidden = !next;
  write(byId("next"), next ? localTime(next.local) : "");
  byId("next").title = next?.slot ?? "";
  byId("since").title = leader?.since ?? "";
  byId("fail-over").hidden = !view.fail_over;
  write(byId("fail-over"), view.fail_over ?? "");
  byId("taken-over").hidden = !view.take_over;
  write(byId("take-over"), view.take_over ? `${brief(view.take_over.after_ms)} ${view.take_over.cause}` : "");
  byId("judged").hidden = overlapping === null;
  write(byId("overlapping"), overlapping === 0 ? "0, by logs and by endpoint" : String(overlapping ?? "–"));
  byId("overlapping").classList.toggle("bad", overlapping > 0);
}

// The newest turn that ended so; when that was runs on.
function showEnd(row, value, turn) {
  byId(row).hidden = !turn;
  byId(value).title = turn ? `${turn.local} ${turn.outcome}` : "";
  if (turn?.ago_ms == null) delete byId(value).dataset.age;
  else byId(value).dataset.age = turn.ago_ms;
}

// What has not changed stays as it is, for those who are reading or marking it.
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
  return [lane.state, ...lane.hindered].join(", ");
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

// ---- The lanes

function showRows() {
  const steered = view.lanes.some((lane) => lane.actions.length);
  document.body.classList.toggle("steered", steered);
  byId("invitation").hidden = !steered;
  // Rows stay as long as the names do, so that a button keeps the focus.
  if (rows.length !== view.lanes.length || rows.some((row, i) => row.name !== view.lanes[i].name)) {
    rows = view.lanes.map((lane) => makeRow(lane.name, steered));
    byId("lanes").replaceChildren(...rows.map((row) => row.element));
  }
  view.lanes.forEach((lane, i) => showRow(rows[i], lane));
}

function makeRow(name, steered) {
  const element = make("div", "lane");
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", name);
  const who = make("div", "who");
  const shown = make("span", "name", name);
  shown.title = name;
  const state = make("span", "state");
  who.append(shown, state);
  const track = draw("svg", "track", { "aria-hidden": "true" });
  const grid = draw("g", "grid", {});
  const moving = draw("g", "", {});
  track.append(grid, moving);
  const buttons = steered ? ACTIONS.map((pair) => makeButton(name, pair)) : [];
  const actions = make("div", "actions");
  actions.append(...buttons.map((button) => button.element));
  element.append(who, track, ...(steered ? [actions] : []));
  return { name, element, state, track, grid, moving, buttons, labels: [], ends: [] };
}

function showRow(row, lane) {
  write(row.state, stateOf(lane));
  row.element.dataset.state = lane.state;
  row.element.classList.toggle("leads", lane.state === "leads");
  row.element.classList.toggle("gone", lane.spans.some((part) => part.kind === "gone" && part.to_ms === null));
  for (const button of row.buttons) showButton(button, row.name, lane.actions);
  drawLane(row, lane);
}

function drawLane(row, lane) {
  const width = row.track.clientWidth;
  const x = (age) => width - (age * width) / WINDOW;
  const validity = lane.state === "leads" ? view.leader?.validity : null;
  const quarters = [0, 1, 2, 3].map((i) => draw("line", "", { x1: (i * width) / 4 + 0.5, x2: (i * width) / 4 + 0.5, y1: 0, y2: HEIGHT }));
  row.grid.replaceChildren(...quarters);
  row.labels = [];
  row.ends = [];
  const marks = lane.spans.flatMap((part) => {
    const goesOn = part.kind === "leads" && validity ? -validity.left_ms : -WINDOW;
    const [x1, x2] = [x(part.from_ms), x(part.to_ms ?? goesOn)];
    return drawSpan(row, part, x1, Math.max(x2, x1 + 2));
  });
  const size = width < 480 ? 0.6 : 1;
  const ticks = lane.turns.map((turn) => {
    const known = turn.outcome in SHAPES ? turn.outcome : "failed";
    return draw("path", `tick ${known}`, { d: SHAPES[known], transform: `translate(${x(turn.age_ms)},34) scale(${size})` });
  });
  row.moving.replaceChildren(...marks, ...ticks, ...row.ends, ...row.labels.map((label) => label.element));
}

function drawSpan(row, part, x1, x2) {
  const box = (className, y, height) => draw("rect", className, { x: x1, y, width: x2 - x1, height, rx: 4 });
  const line = (className) => draw("line", className, { x1, x2, y1: HEIGHT / 2, y2: HEIGHT / 2 });
  switch (part.kind) {
    case "leads":
      row.labels.push({ element: draw("text", "label", { y: 20 }), term: String(part.term), x1, x2 });
      return [box("block", 4.5, 39), ...(part.after_ms === null ? [] : [drawAfter(part, x1)])];
    case "follows":
      return [line("follows")];
    case "gone":
      row.ends.push(
        draw("circle", "halo", { cx: x1 + 9, cy: HEIGHT / 2, r: 8 }),
        draw("path", "end", { d: "M-4,-4L4,4M4,-4L-4,4", transform: `translate(${x1 + 9},${HEIGHT / 2})` }),
      );
      return [line("gone-line")];
    case "lease-runs":
      return [box("lease-runs", 10.5, 27)];
    default:
      return [box(part.kind, part.kind === "frozen" ? 1 : 6.5, part.kind === "frozen" ? 46 : 35)];
  }
}

// How soon it took over stands before its block, above the line of the follower that it was.
function drawAfter(part, x1) {
  const after = draw("text", "after", { x: x1 - 5, y: 17, "text-anchor": "end" });
  write(after, brief(part.after_ms));
  return after;
}

// A term is written where its block is in sight: whole, by its last digits, or not at all.
function placeLabel(label, shift, width) {
  const from = Math.max(label.x1 - shift, 0) + 6;
  const room = Math.min(label.x2 - shift, width) - from - 4;
  const fits = (text) => text.length * 8 <= room;
  const text = [label.term, `…${label.term.slice(-4)}`].find(fits) ?? "";
  write(label.element, text);
  label.element.setAttribute("x", from + shift);
}

function showLegend() {
  const sign = (...marks) => {
    const box = draw("svg", "", { "aria-hidden": "true", viewBox: "0 0 22 14" });
    box.append(...marks);
    return box;
  };
  const box = (className) => draw("rect", className, { x: 0.5, y: 0.5, width: 21, height: 13, rx: 3 });
  const line = (className) => draw("line", className, { x1: 0, x2: 22, y1: 7, y2: 7 });
  const turn = (outcome) => draw("path", `tick ${outcome}`, { d: SHAPES[outcome], transform: "translate(11,7)" });
  const entries = [
    ["leads, with its term", box("block")],
    ["follows", line("follows")],
    ...Object.keys(SHAPES).map((outcome) => [outcome === "succeeded" ? "turn succeeded" : outcome, turn(outcome)]),
  ];
  const demo = [
    ["process ended", draw("path", "end", { d: "M7,3L15,11M15,3L7,11" })],
    ["others wait for its promise to end", box("lease-runs")],
    ["frozen", box("frozen")],
    ["cut off from the store", box("cut-off")],
  ];
  const item = ([text, mark]) => {
    const element = make("li");
    element.append(sign(mark), make("span", "", text));
    return element;
  };
  const items = demo.map(item);
  items.forEach((element) => element.classList.add("of-demo"));
  byId("legend").replaceChildren(...entries.map(item), ...items);
}

// ---- What moves between two views

function frame() {
  if (!view || isLost()) return;
  const passed = elapsed();
  for (const row of rows) {
    const width = row.track.clientWidth;
    const shift = (passed * width) / WINDOW;
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
  const next = view.outlook.next_turn;
  const wait = next ? next.in_ms - passed : 0;
  write(byId("wait"), next ? (wait > 0 ? `in ${span(wait)}` : "now") : "");
  for (const cell of document.querySelectorAll("[data-left]")) write(cell, span(Math.max(cell.dataset.left - passed, 0)));
  for (const age of document.querySelectorAll("[data-age]")) write(age, `${span(Number(age.dataset.age) + passed)} ago`);
}

function sinceWords(leader, passed) {
  const seen = span(leader.seen_ms + passed);
  return leader.since ? `since ${timeOfDay(leader.since)}, seen for ${seen}` : `for ${seen}`;
}

function animate() {
  if (!calm.matches) frame();
  requestAnimationFrame(animate);
}

// ---- What can be done to a candidate of the demo

function makeButton(name, pair) {
  const element = make("button");
  element.type = "button";
  const button = { element, pair, action: pair[0] };
  element.addEventListener("click", () => {
    if (element.getAttribute("aria-disabled") !== "true") act(name, button.action);
  });
  return button;
}

function showButton(button, name, possible) {
  const action = button.pair.find((word) => possible.includes(word));
  button.action = action ?? button.pair[0];
  const word = button.action[0].toUpperCase() + button.action.slice(1).replace("-", " ");
  write(button.element, word);
  button.element.setAttribute("aria-label", `${word} ${name}`);
  button.element.setAttribute("aria-disabled", action ? "false" : "true");
}

async function act(name, action) {
  const answer = byId("answer");
  write(answer, "");
  // Behind the `#` it is never sent with the address.
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) {
    write(answer, "This page was opened without its token, so it can only look: open the address that tenure demo --page printed.");
    return;
  }
  try {
    const path = `/candidates/${encodeURIComponent(name)}/${action}`;
    const response = await fetch(path, { method: "POST", headers: { authorization: `Bearer ${token}` } });
    if (response.ok) return;
    const told = await response.json().catch(() => ({}));
    write(answer, `${action} ${name}: ${told.error ?? `the answer was ${response.status}`}`);
  } catch {
    write(answer, `${action} ${name}: the demo does not answer`);
  }
}

// ---- Begin

// Of many elections, the one that is shown is in sight in their list, below a part of the one before.
function showOwnElection() {
  const own = document.querySelector(".elections [aria-current]");
  const list = own?.closest(".elections");
  if (list) list.scrollTop = own.offsetTop - list.offsetTop - 40;
}

showOwnElection();
showLegend();
connect();
requestAnimationFrame(animate);
setInterval(() => {
  if (view && !isLost() && elapsed() > SILENCE) lose("No news for a while. What you see is old; waiting …");
  if (calm.matches) frame();
}, 1000);
addEventListener("resize", () => view && showRows());
