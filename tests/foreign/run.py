"""One turn of a composed component, as `wasmtime run` would do it: `run.py APP.wasm`."""

import sys

from host import Host

if __name__ == "__main__":
    try:
        Host(sys.argv[1]).call("wasi:cli/run", "run")
    except Exception as error:
        sys.exit(str(error))
