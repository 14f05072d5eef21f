
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
