"""Turns of a component by its entry `wasi:cli/run`: `run.py APP.wasm` takes one, as `wasmtime run`
does; `run.py APP.wasm waits` takes one for each line that it reads, so that many can begin at once.
"""

import sys

from host import Host


def turn(app):
    try:
        app.call("wasi:cli/run", "run")
        return 0
    except Exception as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    app = Host(sys.argv[1])
    if sys.argv[2:] == ["waits"]:
        print("ready", flush=True)
        sys.exit(max(turn(app) for _ in sys.stdin))
    sys.exit(turn(app))
