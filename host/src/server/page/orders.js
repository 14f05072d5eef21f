
// ---- What operators may order of this candidate

// Without https, or this machine as the sender, a browser has no HMAC, and whoever is in between could change this page.
const canProve = isSecureContext && Boolean(crypto.subtle);

function showOrders() {
  const { orders } = view;
  byId("orders").hidden = !orders;
  if (!orders) return;
  byId("no-orders").hidden = orders.taken;
  if (!orders.taken) return;
  if (!byId("order")) makeOrders();
  const names = orders.successors.join("\n");
  const list = byId("successors");
  if (list.names !== names) {
    list.names = names;
    list.replaceChildren(...orders.successors.map((name) => Object.assign(make("option"), { value: name })));
    const chosen = byId("successor");
    if (!chosen.value) chosen.value = orders.successors[0] ?? "";
  }
  const contends = byId("order").querySelector("[value=pause]");
  write(contends, orders.paused ? "Pause (it is paused)" : "Pause");
  showCommand();
}

function makeOrders() {
  byId("orders").append(byId("order-form").content.cloneNode(true));
  for (const id of ["order", "successor"]) byId(id).addEventListener("input", showCommand);
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

// A transfer is ordered where the leader is, which the command finds by the record; the others here.
function command() {
  const [order, to] = [byId("order").value, byId("successor").value];
  const here = order !== "transfer" || view.orders.leads ? ["--at", location.origin] : [];
  const whom = order === "transfer" ? [`--to=${to || "NAME"}`] : [];
  return ["tenure", order, "--election", view.election, ...whom, ...here].map(quoted).join(" ");
}

function showCommand() {
  const order = byId("order").value;
  byId("whom").hidden = order !== "transfer";
  write(byId("command"), command());
  const elsewhere = ["transfer", "resign"].includes(order) && !view.orders.leads;
  byId("elsewhere").hidden = !elsewhere;
  byId("send").setAttribute("aria-disabled", elsewhere ? "true" : "false");
}

async function copy() {
  const text = command();
  const marked = () => {
    getSelection().selectAllChildren(byId("command"));
    return document.execCommand("copy");
  };
  const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  write(byId("ordered"), copied || marked() ? "Copied." : "Mark it, and copy it by hand.");
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
  const to = order === "transfer" ? byId("successor").value : "";
  if (byId("send").getAttribute("aria-disabled") === "true") return;
  if (!token) return answer("The control token is missing.");
  if (order === "transfer" && !to) return answer("The name of the successor is missing.");
  answer("");
  const { election, told_by: candidate } = view;
  const path = `/${order}?election=${encodeURIComponent(election)}&to=${encodeURIComponent(to)}`;
  try {
    const asked = await fetch(path, { method: "POST" });
    const [, nonce] = /Tenure nonce="([0-9a-f]+)"/.exec(asked.headers.get("www-authenticate") ?? "") ?? [];
    if (!nonce) return answer(`${order}: ${(await asked.json()).error}`);
    const shown = await proof(token, ["tenure order v1", order, to, election, candidate, nonce]);
    const authorization = `Tenure nonce="${nonce}", proof="${shown}"`;
    const response = await fetch(path, { method: "POST", headers: { authorization } });
    if (!response.ok) return answer(`${order}: ${(await response.json()).error}`);
    answer("It was ordered. What becomes of it is seen above, under Problems and Latest changes.");
  } catch {
    answer(`${order}: this candidate does not answer`);
  }
}
