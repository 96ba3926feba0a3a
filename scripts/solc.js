// solc-js with the command line of native solc: `--version`, and `--standard-json` read from standard input.
// Imports that the JSON does not contain are looked up below --base-path, then below each --include-path.
//
// solc-js has one thread, so a request for many files is divided among threads, at most one per processor. Each thread
// gets all sources, so that it numbers and names everything as a single thread would, and must return the code of some
// files only.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { isMainThread, parentPort, Worker, workerData } = require("node:worker_threads");

const FEW_FILES = 4; // fewer than a second thread is worth
const MAX_THREADS = 8; // each takes up to a gigabyte

const args = isMainThread ? process.argv.slice(2) : workerData.args;
const valuesOf = (flag) => args.flatMap((arg, i) => (arg === flag ? [args[i + 1]] : []));

function findImport(name) {
  for (const root of [...valuesOf("--base-path"), ...valuesOf("--include-path"), "."]) {
    const file = path.resolve(root, name);
    if (fs.existsSync(file)) return { contents: fs.readFileSync(file, "utf8") };
  }
  return { error: `File not found: ${name}` };
}

const compile = (request) => require("solc").compile(request, { import: findImport });

/// Returns the files with requested outputs, {file: {contract: [outputs]}}; none if the request does not list files.
function filesAsked({ sources, settings }) {
  const asked = settings?.outputSelection ?? {};
  const known = Object.keys(asked).every((file) => typeof sources?.[file]?.content === "string");
  if (!known) return {};
  return Object.fromEntries(Object.entries(asked).filter(([, of]) => Object.values(of).some((outputs) => outputs.length > 0)));
}

/// Returns the rough cost of compiling each file: the length of the text that it imports, directly or indirectly.
function weights(files, sources) {
  const names = Object.keys(sources);
  const direct = new Map(names.map((name) => [name, importsOf(name, sources)]));
  return new Map(files.map((file) => [file, weightOf(file, direct, sources)]));
}

function importsOf(name, sources) {
  const paths = [...(sources[name].content ?? "").matchAll(/^import [^;]*?["']([^"']+)["'];/gm)].map((match) => match[1]);
  const known = paths.map((to) => (to.startsWith(".") ? path.posix.join(path.posix.dirname(name), to) : to));
  return known.filter((to) => to in sources);
}

function weightOf(file, direct, sources) {
  const reached = new Set([file]);
  for (const name of reached) for (const to of direct.get(name)) reached.add(to);
  return [...reached].reduce((sum, name) => sum + (sources[name].content ?? "").length, 0);
}

/// Compiles on several threads. A free thread takes a share of the remaining files: large shares first, then small.
function compileShared(request, asked) {
  const weight = weights(Object.keys(asked), request.sources);
  const left = Object.keys(asked).sort((a, b) => weight.get(b) - weight.get(a));
  const total = (files) => files.reduce((sum, file) => sum + weight.get(file), 0);
  const threads = Math.min(os.availableParallelism(), MAX_THREADS);

  function takeShare() {
    const share = [];
    const enough = total(left) / (2 * threads);
    // From both ends, so that no share consists of the heaviest files only.
    while (left.length > 0 && total(share) < enough) share.push(share.length % 2 === 0 ? left.shift() : left.pop());
    return Object.fromEntries(share.map((file) => [file, asked[file]]));
  }

  const answers = [];
  function work() {
    return new Promise((resolve, reject) => {
      const worker = new Worker(__filename, { workerData: { args, request }, resourceLimits: { stackSizeMb: 16 } });
      const next = () => (left.length > 0 ? worker.postMessage(takeShare()) : worker.terminate());
      worker.on("message", (answer) => {
        answers.push(JSON.parse(answer));
        next();
      });
      worker.on("error", reject);
      worker.on("exit", resolve);
      next();
    });
  }
  return Promise.all(Array.from({ length: threads }, work)).then(() => merged(answers));
}

/// Merges several answers into one: each has the code of its own files, and all have the same sources and errors.
function merged(answers) {
  const whole = { contracts: {}, sources: {} };
  const errors = new Map();
  for (const answer of answers) {
    Object.assign(whole.contracts, answer.contracts);
    for (const [file, source] of Object.entries(answer.sources ?? {})) {
      whole.sources[file] = { ...whole.sources[file], ...source };
    }
    for (const error of answer.errors ?? []) errors.set(JSON.stringify(error), error);
  }
  return errors.size === 0 ? whole : { ...whole, errors: [...errors.values()] };
}

async function answer(text) {
  const request = JSON.parse(text);
  const asked = filesAsked(request);
  if (Object.keys(asked).length < FEW_FILES || os.availableParallelism() < 2) return compile(text);
  return JSON.stringify(await compileShared(request, asked));
}

if (!isMainThread) {
  const { sources, settings, language } = workerData.request;
  parentPort.on("message", (outputSelection) => {
    parentPort.postMessage(compile(JSON.stringify({ language, sources, settings: { ...settings, outputSelection } })));
  });
} else if (args.includes("--version")) {
  const version = require("solc").version().replace(".Emscripten.clang", ".Linux.g++");
  console.log(`solc, the solidity compiler commandline interface\nVersion: ${version}`);
} else if (args.includes("--standard-json")) {
  answer(fs.readFileSync(0, "utf8")).then((found) => process.stdout.write(found));
} else {
  console.error("solc stand-in: expected --version or --standard-json");
  process.exitCode = 1;
}
