"""A component on the wasmtime of PyPI: WASI 0.2, this process's environment and output."""

import os
import sys

from wasmtime import Engine, Store, WasiConfig
from wasmtime.component import Component, Linker


class Host:
    def __init__(self, file):
        self.engine = Engine()
        self.component = Component.from_file(self.engine, file)
        self.linker = Linker(self.engine)
        self.linker.add_wasip2()
        self.linker.add_wasi_http()

    def exported(self, interface):
        """The name of an exported interface, with the version that it has."""
        names = list(self.component.type.exports(self.engine))
        found = [name for name in names if name.partition("@")[0] == interface]
        if not found:
            sys.exit(f"the component exports no {interface}, but {', '.join(names)}")
        return found[0]

    def call(self, interface, function, *arguments):
        """Calls an exported function, on an instance that nothing else has used."""
        store = Store(self.engine)
        wasi = WasiConfig()
        wasi.env = list(os.environ.items())
        wasi.inherit_stdout()
        wasi.inherit_stderr()
        store.set_wasi(wasi)
        store.set_wasi_http()
        instance = self.linker.instantiate(store, self.component)
        interface = instance.get_export_index(store, self.exported(interface))
        function = instance.get_export_index(store, function, interface)
        return instance.get_func(store, function)(store, *arguments)
