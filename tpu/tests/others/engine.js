// Runs Perfetto's trace processor, as its web page brings it (a web worker around WebAssembly), under Node.
//
// Usage: node engine.js engine_bundle.js < requests > replies. Both are streams of `TraceProcessorRpcStream`; what they
// say is the caller's affair. The worker's surroundings that the bundle asks for are stood in for: messages, and the
// synchronous loading of the .wasm file beside it.
"use strict";
const fs = require("fs");
const path = require("path");

const bundle = path.resolve(process.argv[2]);

globalThis.self = globalThis;
globalThis.location = { href: bundle };
globalThis.WorkerGlobalScope = Object;
globalThis.importScripts = () => {
  throw new Error("the bundle is whole: nothing is to be imported");
};
globalThis.XMLHttpRequest = class {
  open(_method, url) {
    this.file = path.join(path.dirname(bundle), path.basename(url));
  }
  send() {
    const bytes = fs.readFileSync(this.file);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    this.status = 200;
  }
};
// What the engine tells of itself is no reply.
console.log = console.error;

const port = {
  postMessage: (reply) => fs.writeSync(1, reply),
};
// Node looks like Node to the loader; a worker has neither of these.
const requests = new Uint8Array(fs.readFileSync(0));
const { exit } = process;
globalThis.process = undefined;
(0, eval)(fs.readFileSync(bundle, "utf8"));
globalThis.onmessage({ data: port });
setTimeout(() => {
  port.onmessage({ data: requests });
  exit(0);
}, 0);
