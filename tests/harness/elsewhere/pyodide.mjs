// Runs a module of the project under Pyodide: node pyodide.mjs PYODIDE ROOT MODULE ARGUMENT...
// PYODIDE is the folder of npm's package, ROOT the project's. The hash seed comes from PYTHONHASHSEED.
import { pathToFileURL } from "node:url";

const [pyodide, root, module, ...given] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`).href);
const python = await loadPyodide({ env: { PYTHONHASHSEED: process.env.PYTHONHASHSEED ?? "0", HOME: "/home/pyodide" } });
python.mountNodeFS("/project", root);
python.globals.set("given", python.toPy([module, ...given]));
try {
  python.runPython(`
import runpy, sys
sys.dont_write_bytecode = True
sys.path[:0] = ["/project", "/project/tests/harness/elsewhere/stand_ins"]
sys.argv = given
runpy.run_module(given[0], run_name="__main__")
`);
} catch (error) {
  console.error(error.message.slice(-4000)); // the error itself names the whole of Pyodide's source
  process.exit(1);
}
