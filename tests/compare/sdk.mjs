// A lease loop on Azure's SDK for JavaScript, with its default time-outs and retries.
//
// The calls are those of Microsoft's guide "Create and manage blob leases with JavaScript". It has them one by one and
// no loop, so the loop is that of Microsoft's leader election sample, with a shorter rhythm: a lease of 15 s, renewed
// 5 s after the last renewal, another attempt after 1 s. The work goes on beside the renewals, until one of them fails.

import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

import { BlobServiceClient } from "@azure/storage-blob";

const [host, port] = process.env.BEAT_AT.split(":");
const agent = new http.Agent({ keepAlive: true });

/** Beats at the sink every 20 ms, until it is stopped. */
function work() {
  let beat = 0;
  const post = () => {
    const body = JSON.stringify({ beat: beat++ });
    const headers = { "content-type": "application/json", "content-length": body.length };
    const request = http.request({ host, port, agent, method: "POST", headers }, (answer) => answer.resume());
    // A beat that fails is left out: the sink judges by what arrives.
    request.on("error", () => {});
    request.end(body);
  };
  post();
  const timer = setInterval(post, 20);
  return () => clearInterval(timer);
}

const [container, name] = process.env.ELECTION.split("/");
const service = BlobServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING);
const blob = service.getContainerClient(container).getBlobClient(name);
let leadership;
process.on("SIGTERM", async () => {
  leadership?.stop();
  await leadership?.lease.releaseLease();
  process.exit();
});
for (;;) {
  const lease = blob.getBlobLeaseClient();
  try {
    await lease.acquireLease(15);
  } catch (error) {
    console.log("does not lead:", error.code ?? error.name);
    await sleep(1000);
    continue;
  }
  console.log("leads");
  leadership = { lease, stop: work() };
  try {
    for (;;) {
      await sleep(5000);
      await lease.renewLease();
    }
  } catch (error) {
    leadership.stop();
    leadership = undefined;
    console.log("lost:", error.code ?? error.name);
  }
}
