// Every ten minutes Azurite sweeps the contents of blobs that were overwritten, and answers nobody meanwhile: after 3,000 of them
// it computed for 8 s. The service has no such pauses. What tests write fits into memory.
const azurite = `${process.cwd()}/node_modules/azurite/dist/src/blob`;
require(`${azurite}/utils/constants.js`).DEFAULT_GC_INTERVAL_MS = 2 ** 31 - 1;
