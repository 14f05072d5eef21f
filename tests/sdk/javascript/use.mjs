// Exercises the store through Azure's SDK for JavaScript with its defaults, as a user's own tests
// would.

import assert from "node:assert/strict";
import { Readable } from "node:stream";

import { BlobServiceClient } from "@azure/storage-blob";

/** The call must fail with this code. */
async function refused(code, call) {
  try {
    await call();
  } catch (error) {
    // The response to a HEAD has no body, so it has no details.
    assert.equal(error.code ?? error.response?.headers.get("x-ms-error-code"), code, error);
    return error;
  }
  assert.fail(`it should have been refused with ${code}`);
}

/** Everything that a listing yields. */
async function all(listing) {
  const items = [];
  for await (const item of listing) items.push(item);
  return items;
}

const service = BlobServiceClient.fromConnectionString(process.argv[2]);
const container = service.getContainerClient("javascript");
await container.create({ metadata: { owner: "ada" } });
assert.deepEqual((await container.getProperties()).metadata, { owner: "ada" });
await refused("ContainerAlreadyExists", () => container.create());

// Upload and download: small, empty, in parts.
const digits = container.getBlockBlobClient("digits");
await digits.upload("0123456789", 10, {
  metadata: { owner: "ada" }, blobHTTPHeaders: { blobContentType: "text/plain" } });
assert.equal((await digits.downloadToBuffer()).toString(), "0123456789");
assert.equal((await digits.downloadToBuffer(2, 3)).toString(), "234");
const streamed = await digits.download(7);
assert.equal((await streamed.readableStreamBody.toArray()).join(""), "789");
await refused("InvalidRange", () => digits.download(10));
const empty = container.getBlockBlobClient("empty");
await empty.uploadData(Buffer.alloc(0));
assert.equal((await empty.getProperties()).contentLength, 0);
const large = Buffer.alloc(9_000_000, "abcdefg");
const parts = container.getBlockBlobClient("large");
await parts.uploadData(large);
assert.ok((await parts.downloadToBuffer()).equals(large));

// Properties and metadata.
await digits.setMetadata({ owner: "ben" });
const properties = await digits.getProperties();
assert.deepEqual(properties.metadata, { owner: "ben" });
assert.equal(properties.contentType, "text/plain");
assert.ok(await digits.exists());
assert.ok(!(await container.getBlobClient("none").exists()));

// Conditions.
const { etag } = properties;
await refused("BlobAlreadyExists", () =>
  digits.upload("", 0, { conditions: { ifNoneMatch: "*" } }));
await digits.upload("9876543210", 10, { conditions: { ifMatch: etag } });
await refused("ConditionNotMet", () => digits.upload("", 0, { conditions: { ifMatch: etag } }));

// Listing: flat, in pages, by prefix and delimiter.
for (const name of ["a/1", "a/2", "b & ü/<3>", "c"]) {
  await container.getBlockBlobClient(name).upload("x", 1, { metadata: { of: "list" } });
}
const flat = ["a/1", "a/2", "b & ü/<3>", "c", "digits", "empty", "large"];
assert.deepEqual((await all(container.listBlobsFlat())).map((blob) => blob.name), flat);
const pages = await all(container.listBlobsFlat().byPage({ maxPageSize: 3 }));
const names = pages.map((page) => page.segment.blobItems.map((blob) => blob.name));
assert.deepEqual(names, [flat.slice(0, 3), flat.slice(3, 6), flat.slice(6)]);
const levels = await all(container.listBlobsByHierarchy("/"));
assert.deepEqual(levels.slice(0, 3).map((item) => [item.kind, item.name]),
  [["prefix", "a/"], ["prefix", "b & ü/"], ["blob", "c"]]);
const [first] = await all(
  container.listBlobsFlat({ prefix: "a/", includeMetadata: true }));
assert.deepEqual(first.metadata, { of: "list" });
assert.equal(first.properties.leaseState, "available");
await service.getContainerClient("javascript-two").create();
const boxes = await all(service.listContainers({ prefix: "javascript" }));
assert.deepEqual(boxes.map((box) => box.name), ["javascript", "javascript-two"]);

// Leases: all five actions.
const lease = digits.getBlobLeaseClient();
await lease.acquireLease(15);
await refused("LeaseAlreadyPresent", () => digits.getBlobLeaseClient().acquireLease(15));
await refused("LeaseIdMissing", () => digits.upload("x", 1));
await lease.renewLease();
const other = "11111111-2222-4333-8444-555555555555";
await lease.changeLease(other);
assert.equal(lease.leaseId, other);
await digits.setMetadata({ of: "lease" }, { conditions: { leaseId: other } });
assert.equal((await digits.getProperties()).leaseState, "leased");
assert.equal((await lease.breakLease(0)).leaseTime, 0);
await refused("LeaseIsBrokenAndCannotBeRenewed", () => lease.renewLease());
await lease.releaseLease();

// The store names each unsupported operation. The SDK uploads a stream in blocks.
const stream = await refused("NotImplemented", () => digits.uploadStream(Readable.from(["x"])));
assert.match(stream.message, /does not support Put Block/);
const tier = await refused("NotImplemented", () => digits.setAccessTier("Cool"));
assert.match(tier.message, /does not support Set Blob Tier/);
const copy = await refused("NotImplemented", () => empty.beginCopyFromURL(digits.url));
assert.match(copy.message, /x-ms-copy-source/);

// Deletion of the blob and the container.
await digits.delete();
await refused("BlobNotFound", () => digits.download());
await container.delete();
await refused("ContainerNotFound", () => container.getProperties());
console.log("all is well");
