
// ---- Signs

// SVG paths of turns by outcome, centred at 0,0. Outcomes in the lanes differ in shape or fill, so
// colour is not needed to distinguish them.
const SHAPES = {
  succeeded: "M-3.5,0a3.5,3.5 0 1 0 7,0a3.5,3.5 0 1 0 -7,0",
  running: "M-3.5,0a3.5,3.5 0 1 0 7,0a3.5,3.5 0 1 0 -7,0",
  failed: "M-3.5,-3.5L3.5,3.5M3.5,-3.5L-3.5,3.5",
  trapped: "M0,-4.5L4.5,3.5H-4.5Z",
  "timed-out": "M0,-4.5L4.5,0L0,4.5L-4.5,0Z",
  "cut-off": "M-3.5,-4V4M-3.5,0H4",
  abandoned: "M-3.5,-3.5L3.5,3.5M3.5,-3.5L-3.5,3.5",
  "not-started": "M-4,0H4",
  missed: "M-4,0H4",
  claimed: "M-3.5,0a3.5,3.5 0 1 0 7,0a3.5,3.5 0 1 0 -7,0",
  unknown: "M-2,-2a2,2 0 1 1 2.4,2v1.4M0.4,4v.2",
};
const LANE_SHAPES = ["succeeded", "running", "failed", "trapped", "timed-out", "cut-off"];
const ACTIONS = [["kill-machine", "start"], ["kill-process"], ["resign"], ["freeze", "thaw"], ["partition", "heal"]];
const BUTTONS = { partition: "Cut off", heal: "Reconnect" }; // Other buttons are named after their action.
const HEIGHT = 48;
let rows = [];

// ---- The lanes

// The time span of the lanes.
const sight = () => view.window_ms;

// True if the observations do not cover that span.
const isNew = () => view.began_ms !== null && view.began_ms < sight();

// Formats a quarter of the span, or all of it, in the largest unit that fits.
function mark(ms) {
  for (const [unit, word] of [[WEEK, "weeks"], [DAY, "days"], [HOUR, "h"], [MINUTE, "min"]]) {
    if (ms % unit === 0 && (unit !== WEEK || sight() >= 4 * WEEK)) return ms === unit && unit >= DAY ? `1 ${word.slice(0, -1)}` : `${ms / unit} ${word}`;
  }
  return `${ms / SECOND} s`;
}

function showAxis() {
  const all = sight();
  const word = mark(all).replace(/\bh$/, all === HOUR ? "hour" : "hours").replace(/\bmin$/, "minutes");
  write(byId("lanes-title"), `The last ${word.replace(/^1 /, "")}`);
  const marks = [4, 3, 2, 1].map((quarters) => mark((all * quarters) / 4));
  [...marks, "now"].forEach((text, i) => write(byId("axis").children[i], text));
  byId("unseen").hidden = !isNew();
}

function showRows() {
  showAxis();
  const steered = view.lanes.some((lane) => lane.actions.length);
  document.body.classList.toggle("steered", steered);
  byId("invitation").hidden = !steered;
  // Rows are reused while the names stay the same, so a button keeps the focus.
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
  const x = (age) => width - (age * width) / sight();
  const validity = lane.state === "leads" ? view.leader?.validity : null;
  const quarters = [0, 1, 2, 3].map((i) => draw("line", "", { x1: (i * width) / 4 + 0.5, x2: (i * width) / 4 + 0.5, y1: 0, y2: HEIGHT }));
  row.grid.replaceChildren(...quarters);
  row.labels = [];
  row.ends = [];
  const marks = lane.spans.flatMap((part) => {
    const goesOn = part.kind === "leads" && validity ? -validity.left_ms : -sight();
    const [x1, x2] = [x(part.from_ms), x(part.to_ms ?? goesOn)];
    return drawSpan(row, part, x1, Math.max(x2, x1 + 2));
  });
  const size = width < 480 ? 0.6 : 1;
  const ticks = lane.turns.map((turn) => {
    const known = turn.outcome in SHAPES ? turn.outcome : "failed";
    return draw("path", `tick ${known}`, { d: SHAPES[known], transform: `translate(${x(turn.age_ms)},34) scale(${size})` });
  });
  const unseen = isNew() ? [draw("rect", "before", { x: -1, y: 6.5, width: x(view.began_ms) + 1, height: 35 })] : [];
  row.moving.replaceChildren(...unseen, ...marks, ...ticks, ...row.ends, ...row.labels.map((label) => label.element));
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

// Draws the takeover time before its block, above the line of the former follower.
function drawAfter(part, x1) {
  const after = draw("text", "after", { x: x1 - 5, y: 17, "text-anchor": "end" });
  write(after, brief(part.after_ms));
  return after;
}

// Places a term where its block is visible: whole, by its last digits, or not at all.
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
    ...LANE_SHAPES.map((outcome) => [outcome === "succeeded" ? "turn succeeded" : outcome, turn(outcome)]),
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
  const before = item(["before: not seen here, or forgotten", box("before")]);
  before.id = "unseen";
  before.hidden = true;
  const items = demo.map(item);
  items.forEach((element) => element.classList.add("of-demo"));
  byId("legend").replaceChildren(...entries.map(item), before, ...items);
}


// ---- Actions on a candidate of the demo

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
  const word = BUTTONS[button.action] ?? button.action[0].toUpperCase() + button.action.slice(1).replace("-", " ");
  write(button.element, word);
  button.element.setAttribute("aria-label", `${word} ${name}`);
  button.element.setAttribute("aria-disabled", action ? "false" : "true");
}

async function act(name, action) {
  const answer = byId("answer");
  write(answer, "");
  // Browsers never send the part behind the `#`.
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) {
    write(answer, "This page was opened without its token, so it is read-only. Open the address that tenure demo --page printed.");
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
