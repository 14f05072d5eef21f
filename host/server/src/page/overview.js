
// ---- All elections of the process, a line each

const MOST = 500; // More lines are slow to draw and to read; the search finds the others.
const HEALTHS = ["unknown", "no-leader", "last-turn-failed", "healthy"];
const WORDS = { "unknown": "not ready", "no-leader": "no leader", "last-turn-failed": "last turn failed", healthy: "healthy" };

const known = new Map(); // Rows by election.
const lines = new Map(); // Table lines by election, reused once made.
const byName = new Intl.Collator("en", { numeric: true });
let now = 0; // The process's time at the newest event.
let total = 0;

function take(event) {
  now = event.now;
  total = event.elections;
  const gone = event.gone ?? [];
  if (event.rows.length === total) known.clear(); // These are all elections, also after a reconnect.
  for (const row of event.rows) known.set(row.election, row);
  for (const election of gone) {
    known.delete(election);
    lines.delete(election);
  }
  if (event.rows.length || gone.length || !total) show();
  tick();
}

// Sorts by health, the worst first, then by name.
function order(a, b) {
  return HEALTHS.indexOf(a.health) - HEALTHS.indexOf(b.health) || byName.compare(a.election, b.election);
}

function matches(row, words) {
  const text = [row.election, row.leader, row.role, row.outcome, WORDS[row.health]].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function show() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...known.values()].filter((row) => matches(row, words)).sort(order);
  const shown = found.slice(0, MOST);
  summarize();
  const some = words.length ? `${found.length} of ${total} elections match` : `${total} elections`;
  write(byId("count"), shown.length < found.length ? `${some}; the first ${MOST} are shown` : some);
  place(shown.map((row) => showLine(row)));
}

function summarize() {
  const of = (health) => [...known.values()].filter((row) => row.health === health).length;
  const parts = [["unknown", "not ready"], ["no-leader", "without a leader"], ["last-turn-failed", "with a failed last turn"], ["healthy", "healthy"]];
  const counted = parts.map(([health, words]) => [of(health), words]).filter(([count, words]) => count || words === "healthy");
  write(byId("summary"), counted.map(([count, words]) => `${count} ${words}`).join(", "));
  const failing = total - of("healthy");
  document.title = failing ? `${failing} of ${total} need attention – Tenure` : `${total} elections – Tenure`;
}

// Moves only misplaced lines, so the focused line keeps the focus.
function place(wanted) {
  const body = byId("lines");
  const focused = document.activeElement;
  wanted.forEach((line, i) => {
    if (body.children[i] !== line) body.insertBefore(line, body.children[i] ?? null);
  });
  while (body.children.length > wanted.length) body.lastChild.remove();
  if (focused !== document.activeElement && body.contains(focused)) focused.focus();
}

function makeLine(election) {
  const line = make("tr");
  line.setAttribute("role", "row");
  const name = make("th", "name");
  name.scope = "row";
  name.setAttribute("role", "rowheader");
  const link = make("a", "", election);
  link.href = `/?election=${encodeURIComponent(election)}`;
  name.append(link);
  line.append(name);
  for (const kind of ["health", "role", "leader", "last", "next"]) {
    const cell = make("td", kind);
    cell.setAttribute("role", "cell");
    line.append(cell);
  }
  line.cells[1].append(make("span", "word"));
  line.cells[4].append(make("span", "outcome"), make("span", "ago"));
  line.cells[5].append(make("span", "wait"));
  return line;
}

function showLine(row) {
  if (!lines.has(row.election)) lines.set(row.election, makeLine(row.election));
  const line = lines.get(row.election);
  if (line.row === row) return line;
  line.row = row;
  line.className = row.health;
  const [, health, role, leader, last, next] = line.cells;
  write(health.firstChild, WORDS[row.health]);
  if (row.problem && health.children.length === 1) health.append(make("span", "why"));
  if (health.children.length > 1) write(health.lastChild, row.problem ?? "");
  write(role, row.role);
  write(leader, row.leader ? `${row.leader}, term ${row.term}` : row.unseen ? "not known" : "none");
  // A leader without a schedule runs no turns, for example a share.
  write(last.firstChild, row.outcome ?? (row.unseen || (row.term && !row.schedule) ? "–" : "none yet"));
  last.title = row.took_ms === null ? "" : `after ${brief(row.took_ms)}`;
  next.title = [row.next_local && localTime(row.next_local), row.schedule].filter(Boolean).join("; ");
  return line;
}

// Updates the ages and waits of the visible lines.
function tick() {
  heed();
  if (isLost()) return;
  const instant = now + elapsed();
  for (const { row, cells } of byId("lines").children) {
    const ran = row.outcome !== "running" && row.ended_at !== null;
    write(cells[4].lastChild, ran ? `${span(Math.max(instant - row.ended_at, 0))} ago` : "");
    const wait = row.next_at === null ? null : row.next_at - instant;
    write(cells[5].firstChild, wait === null ? "–" : wait > 0 ? `in ${countdown(wait)}` : "due now");
  }
}

// The search is kept behind the `#`, so it is restored on the way back from an election's page.
byId("search").value = new URLSearchParams(location.hash.slice(1)).get("find") ?? "";
byId("search").addEventListener("input", () => {
  history.replaceState(null, "", `#find=${encodeURIComponent(byId("search").value)}`);
  show();
  tick();
});
connect("/events?overview", take);
setInterval(tick, 1000);
