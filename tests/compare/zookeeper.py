"""A candidate on ZooKeeper, by the election recipe of kazoo with a session of SESSION seconds.

The recipe calls `lead` and leaves it to it to stop. It does so as kazoo's documents advise: as soon as the connection is
suspended, which the client sees by itself after two thirds of the session.
"""

import os
import signal
import threading

from beat import Work
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

stopped = threading.Event()
suspect = threading.Event()


def listen(state):
    if state != KazooState.CONNECTED:
        suspect.set()


def lead():
    print("leads", flush=True)
    work = Work()
    suspect.wait()
    work.stop()
    print("leads no longer", flush=True)


def contend():
    while not stopped.is_set():
        suspect.clear()
        client.Election(os.environ["ELECTION"], os.environ["NAME"]).run(lead)


signal.signal(signal.SIGTERM, lambda *_: (stopped.set(), suspect.set()))
client = KazooClient(os.environ["STORE"], timeout=float(os.environ["SESSION"]))
client.add_listener(listen)
client.start()
contender = threading.Thread(target=contend, daemon=True)
contender.start()
stopped.wait()
contender.join(2)  # Its recipe gives the lock back; who only waits for it is not waited for.
client.stop()
