"""What wasmCloud does with a service: `service.py SERVICE.wasm ELECTION.wasm HANDLER.wasm` runs the
first one, whose imports are the exports of the two others.
"""

import sys

from host import Host

IMPORTS = [
    ("tenure:election/election", ["files", "check", "step"]),
    ("tenure:election/leader-handler", ["on-tick"]),
]


def link(service, component, interface, functions):
    """Each call goes to an instance of its own, as it does on wasmCloud."""
    with service.linker.root() as root, root.add_instance(component.exported(interface)) as instance:
        for function in functions:

            def call(store, *arguments, function=function):
                return component.call(interface, function, *arguments)

            instance.add_func(function, call)


if __name__ == "__main__":
    service, *components = map(Host, sys.argv[1:])
    for component, (interface, functions) in zip(components, IMPORTS, strict=True):
        link(service, component, interface, functions)
    service.call("wasi:cli/run", "run")
