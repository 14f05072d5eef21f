"use strict";

// Shared by both pages: elements, words for times, and the connection.
const SILENCE = 12_000; // Three times the longest pause between two events.
const RETRY = 5_000;
const [SECOND, MINUTE, HOUR, DAY, WEEK] = [1000, 60_000, 3_600_000, 86_400_000, 604_800_000];

const byId = (id) => document.getElementById(id);
let told = { at: 0, on: 0 }; // Arrival of the newest event: `at` by performance, `on` by Date.

// ---- Elements

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

// ---- Words for times

// Formats an age, roughly.
function span(ms) {
  if (ms < 2 * MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < 2 * HOUR) return `${Math.floor(ms / MINUTE)} min`;
  return ms < 2 * DAY ? `${Math.floor(ms / HOUR)} h` : `${Math.floor(ms / DAY)} days`;
}

// Formats the time left, in two units.
function countdown(ms) {
  const s = Math.ceil(ms / SECOND);
  const [min, h, days] = [Math.floor(s / 60), Math.floor(s / 3600), Math.floor(s / 86_400)];
  if (s < 60) return `${s} s`;
  if (h < 1) return `${min} min ${s % 60} s`;
  if (days < 1) return `${h} h ${min % 60} min`;
  return `${days} ${days === 1 ? "day" : "days"} ${h % 24} h`;
}

// Formats a measured duration.
function brief(ms) {
  if (ms < SECOND) return `${ms} ms`;
  if (ms < 2 * MINUTE) return `${(ms / SECOND).toFixed(1)} s`;
  const s = Math.round(ms / SECOND);
  return s < 7200 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
}

// Splits an instant in its zone: 2000-01-01T10:00:00+01:00[Europe/Berlin] is Sat 1 Jan, 10:00 and
// Europe/Berlin.
function calendar(instant) {
  const found = /^(\d{4})-(\d\d)-(\d\d)T(\d\d:\d\d)(:\d\d)(?:\.\d+)?(?:Z|[+-]\d\d:\d\d\[(.+)\])$/.exec(instant);
  if (!found) return { day: "", time: instant, zone: "" };
  const [, year, month, day, time, seconds, zone] = found;
  const date = new Date(Date.UTC(year, month - 1, day));
  const words = date.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
  return { day: words.replace(",", ""), time: seconds === ":00" ? time : time + seconds, zone: zone ?? "UTC" };
}

function localTime(instant) {
  const { day, time, zone } = calendar(instant);
  return `${day} ${time} ${zone}`.trim();
}

// ---- The connection

// Time since the newest event. The clock of performance may stop while this machine sleeps, and
// that of Date may be set back, so the longer time counts.
const elapsed = () => Math.max(performance.now() - told.at, Date.now() - told.on);
const isLost = () => document.body.classList.contains("lost");

let news = null;
let reconnect = () => {};
let asked = 0;

function connect(path, take) {
  reconnect = () => {
    news?.close();
    asked = performance.now();
    const own = (news = new EventSource(path));
    own.onmessage = (event) => {
      told = { at: performance.now(), on: Date.now() };
      document.body.classList.add("live");
      document.body.classList.remove("lost");
      write(byId("connection"), "Live");
      try {
        take(JSON.parse(event.data));
      } catch (error) {
        lose("This page cannot read what the server sent: reload it.");
        throw error;
      }
    };
    own.onerror = () => {
      lose("Disconnected. This view is out of date; reconnecting …");
      // The browser does not retry a refused connection.
      if (own.readyState === EventSource.CLOSED) setTimeout(() => own === news && reconnect(), RETRY);
    };
  };
  if (!document.hidden) reconnect();
}

function lose(why) {
  document.body.classList.remove("live");
  document.body.classList.add("lost");
  document.title = "Not up to date – Tenure";
  write(byId("connection"), why);
}

// Detects a lost connection by its silence, and reconnects.
function heed() {
  if (!news || !told.at || elapsed() < SILENCE) return;
  if (!isLost()) lose("No updates for a while. This view may be old; reconnecting …");
  if (performance.now() - asked > SILENCE) reconnect();
}

// All tabs of a browser share few connections to a server, so a hidden page closes its own.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return reconnect();
  news?.close();
  news = null;
  lose("Not updated while this page is hidden.");
});
