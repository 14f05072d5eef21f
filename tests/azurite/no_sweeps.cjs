// Every ten minutes Azurite sweeps the contents of blobs that were overwritten, and answers nobody meanwhile: after 3,000 of them
// it computed for 8 s. The service has no such pauses. What tests write fits into memory.
const constants = require(`${process.cwd()}/node_modules/azurite/dist/src/blob/utils/constants.js`);
if (typeof constants.DEFAULT_GC_INTERVAL_MS !== "number") throw new Error("Azurite calls its interval otherwise");
constants.DEFAULT_GC_INTERVAL_MS = 2 ** 31 - 1;
