// solc-js behind the command line of native solc: `--version`, and `--standard-json` read from standard input.
// Imports that the JSON does not carry are looked up below --base-path, then below each --include-path.

const fs = require("node:fs");
const path = require("node:path");
const solc = require("solc");

const args = process.argv.slice(2);
const valuesOf = (flag) => args.flatMap((arg, i) => (arg === flag ? [args[i + 1]] : []));

function findImport(name) {
  for (const root of [...valuesOf("--base-path"), ...valuesOf("--include-path"), "."]) {
    const file = path.resolve(root, name);
    if (fs.existsSync(file)) return { contents: fs.readFileSync(file, "utf8") };
  }
  return { error: `File not found: ${name}` };
}

if (args.includes("--version")) {
  const version = solc.version().replace(".Emscripten.clang", ".Linux.g++");
  console.log(`solc, the solidity compiler commandline interface\nVersion: ${version}`);
} else if (args.includes("--standard-json")) {
  fs.writeSync(1, solc.compile(fs.readFileSync(0, "utf8"), { import: findImport }));
} else {
  console.error("solc stand-in: expected --version or --standard-json");
  process.exitCode = 1;
}
