
// ---- What operators may order of this candidate

const ANSWER = 10_000; // For one answer to an order.

// Without https, or this machine as the sender, a browser has no HMAC, and whoever is in between could change this page.
const canProve = isSecureContext && Boolean(crypto.subtle);

function showOrders() {
  const { orders } = view;
  byId("orders").hidden = !orders;
  if (!orders) return;
  byId("no-orders").hidden = orders.taken;
  if (!orders.taken) return;
  if (!byId("order")) makeOrders();
  // A successor is somebody else. Whoever is to pause may be this candidate, and is unless another is chosen.
  const handsOver = byId("order").value === "transfer";
  const others = orders.others.map(({ name }) => name);
  const choices = handsOver ? others : [view.told_by, ...others];
  const [list, chosen] = [byId("choices"), byId("chosen")];
  if (list.names !== choices.join("\n")) {
    list.names = choices.join("\n");
    list.replaceChildren(...choices.map((name) => Object.assign(make("option"), { value: name })));
    if (list.handsOver !== handsOver || !chosen.value) chosen.value = choices[0] ?? "";
    list.handsOver = handsOver;
  }
  const contends = byId("order").querySelector("[value=pause]");
  write(contends, orders.paused ? "Pause (it is paused)" : "Pause");
  showCommand();
}

function makeOrders() {
  byId("orders").append(byId("order-form").content.cloneNode(true));
  byId("order").addEventListener("input", showOrders);
  byId("chosen").addEventListener("input", showCommand);
  byId("copy").addEventListener("click", copy);
  byId("prove").hidden = !canProve;
  byId("cannot-prove").hidden = canProve;
  byId("prove").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
}

// A word of a command line, for any shell of Unix.
function quoted(word) {
  return /^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

const isForLeader = () => ["transfer", "resign"].includes(byId("order").value);

// Why this candidate cannot carry out the order; null when it can.
function elsewhere() {
  const name = byId("chosen").value;
  if (isForLeader()) {
    return view.orders.leads ? null
      : "This order is for the leader, and this candidate does not lead. The command finds the leader in the record.";
  }
  if (name === view.told_by) return null;
  return addressOf(name) ? `This order must go to ${name} itself: use the command.`
    : `This order must go to ${name || "the other candidate"} itself, and its address is not known here.`;
}

function addressOf(name) {
  return view.orders.others.find((other) => other.name === name)?.address;
}

function command() {
  const [order, name] = [byId("order").value, byId("chosen").value];
  const whom = order === "transfer" ? [`--to=${name || "NAME"}`] : [];
  const there = isForLeader() ? [] : ["--at", addressOf(name) ?? "ADDRESS"];
  const at = elsewhere() ? there : ["--at", location.origin];
  return ["tenure", order, view.election, ...whom, ...at].map(quoted).join(" ");
}

function showCommand() {
  const order = byId("order").value;
  byId("whom").hidden = order === "resign";
  write(byId("whom-label"), order === "transfer" ? "to" : "candidate");
  write(byId("command"), command());
  const why = elsewhere();
  byId("elsewhere").hidden = !why;
  write(byId("elsewhere"), why ?? "");
  byId("send").setAttribute("aria-disabled", why ? "true" : "false");
}

async function copy() {
  const text = command();
  const marked = () => {
    getSelection().selectAllChildren(byId("command"));
    return document.execCommand("copy");
  };
  const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  write(byId("ordered"), copied || marked() ? "Copied." : "Select it, and copy it by hand.");
}

// As the commands do: the token itself is never sent. See host/src/server/proof.rs.
async function proof(token, parts) {
  const bytes = (text) => new TextEncoder().encode(text);
  const key = await crypto.subtle.importKey("raw", bytes(token), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const message = parts.map((part) => `${bytes(part).length}:${part}`).join("");
  const mac = await crypto.subtle.sign("HMAC", key, bytes(message));
  return [...new Uint8Array(mac)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function send() {
  const answer = (text) => write(byId("ordered"), text);
  const [order, token] = [byId("order").value, byId("token").value.trim()];
  const to = order === "transfer" ? byId("chosen").value : "";
  if (elsewhere()) return answer(elsewhere());
  if (!token) return answer("The control token is missing.");
  if (order === "transfer" && !to) return answer("The name of the successor is missing.");
  answer("");
  const { election, told_by: candidate } = view;
  const path = `/${order}?election=${encodeURIComponent(election)}&to=${encodeURIComponent(to)}`;
  try {
    // Other tabs may have taken all connections: an order that nobody answers is told, and not waited for.
    const post = (headers) => fetch(path, { method: "POST", headers, signal: AbortSignal.timeout(ANSWER) });
    const challenge = await post({});
    const [, nonce] = /Tenure nonce="([0-9a-f]+)"/.exec(challenge.headers.get("www-authenticate") ?? "") ?? [];
    if (!nonce) return answer(`${order}: ${(await challenge.json()).error}`);
    const shown = await proof(token, ["tenure order v1", order, to, election, candidate, nonce]);
    const authorization = `Tenure nonce="${nonce}", proof="${shown}"`;
    const response = await post({ authorization });
    if (!response.ok) return answer(`${order}: ${(await response.json()).error}`);
    answer("The order was accepted. Its result appears above, under Problems and Latest changes.");
  } catch {
    answer(`${order}: this candidate does not answer`);
  }
}
