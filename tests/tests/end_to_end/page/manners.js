// Accessibility problems of the page, one sentence each: for users of a screen reader or keyboard,
// and for readability.
const wrong = [];
const all = (selector) => [...document.querySelectorAll(selector)];
const visible = (element) => element.checkVisibility() && element.getClientRects().length > 0;

if (document.documentElement.lang !== "en") wrong.push("the language is not said");
if (all("h1").length !== 1) wrong.push("there is not one h1");
if (all("main").length !== 1 || all("body > header").length !== 1) wrong.push("landmarks are missing");
if (!all("[aria-live=polite]").length) wrong.push("nothing is announced");
for (const section of all("section")) {
  const heading = document.getElementById(section.getAttribute("aria-labelledby"));
  if (heading?.tagName !== "H2") wrong.push("a section has no heading");
}
for (const button of all("button")) {
  const [name, seen] = [button.getAttribute("aria-label") ?? button.textContent, button.textContent];
  if (!seen.trim() || !name.includes(seen)) wrong.push(`a button is called "${name}" and reads "${seen}"`);
}
const names = all("button").map((button) => button.getAttribute("aria-label") ?? button.textContent);
if (new Set(names).size !== names.length) wrong.push("two buttons have one name");
for (const header of all("th")) if (!["col", "row"].includes(header.scope)) wrong.push("a table header has no scope");
for (const meter of all("[role=meter]")) if (!meter.hasAttribute("aria-labelledby")) wrong.push("a meter has no name");
for (const drawing of all("svg")) if (drawing.getAttribute("aria-hidden") !== "true") wrong.push("a drawing is read out");
if (all("[tabindex]").some((element) => element.tabIndex > 0)) wrong.push("the order of the keyboard is not that of the page");
if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}`);

// WCAG 2.2, 1.4.3: contrast of text against its actual background.
const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
const channel = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
function ground(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = parts(getComputedStyle(at).backgroundColor);
    if (colour[3] !== 0) return colour;
  }
  return [255, 255, 255];
}
function judge(what, ink, behind) {
  const contrast = ratio(luminance(ink), luminance(behind));
  if (contrast < 4.5) wrong.push(`"${what}" has a contrast of ${contrast.toFixed(2)}`);
}
let texts = 0;
for (const element of all("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  if (!own || element.closest("svg, script, style, noscript, .unseen") || !visible(element)) continue;
  judge(element.textContent, parts(getComputedStyle(element).color), ground(element));
  texts += 1;
}
for (const label of all("text.label")) {
  const block = label.parentElement.querySelector(".block");
  judge(label.textContent, parts(getComputedStyle(label).fill), parts(getComputedStyle(block).fill));
  texts += 1;
}
if (texts < 15) wrong.push(`only ${texts} texts were judged`);
return wrong;
