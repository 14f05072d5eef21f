// Runs one turn for each event of the cron trigger and for each authorised POST /tick.

import { handleIncomingRequest } from "@bytecodealliance/preview2-shim/http";
import { WASIShim } from "@bytecodealliance/preview2-shim/instantiation";
import { instantiate } from "./build/tenure.js";
import core from "./build/tenure.core.wasm";
import core2 from "./build/tenure.core2.wasm";
import core3 from "./build/tenure.core3.wasm";

const modules = { "tenure.core.wasm": core, "tenure.core2.wasm": core2, "tenure.core3.wasm": core3 };

// The component's requests end in this function. A redirect or a cached response must not stand in for the response of
// the storage account.
const { fetch } = globalThis;
globalThis.fetch = (url, options) => fetch(url, { ...options, redirect: "manual", cache: "no-store" });

// Replaces the shim's own streams, which throw when the component drops them.
const log = { write: (bytes) => console.log(new TextDecoder().decode(bytes).trimEnd()) };

// The component keeps nothing between calls, so each call gets its own instance.
function component(environment) {
  const shim = new WASIShim({ environment, stdout: log, stderr: log });
  return instantiate((name) => modules[name], shim.getImportObject());
}

export default {
  async scheduled(_event, environment) {
    const { run } = await component(environment);
    await run.run();
  },
  async fetch(request, environment) {
    const { incomingHandler } = await component(environment);
    // The component needs no body, and the shim would read all of it before the component checks the token.
    return handleIncomingRequest(new Request(request, { body: null }), incomingHandler.handle);
  },
};
