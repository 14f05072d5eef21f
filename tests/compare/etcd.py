"""A candidate on etcd, by its own client: `etcdctl lock` holds a session of SESSION seconds, renews it, says when it has
the lock, and ends when the session has expired. The work is done in between."""

import os
import signal
import subprocess
import sys

from beat import Work

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
command = ["etcdctl", "--endpoints", os.environ["STORE"], "lock", "--ttl", os.environ["SESSION"]]
command.append(os.environ["ELECTION"])
while True:
    lock = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "ETCDCTL_API": "3"})
    work = None
    try:
        if lock.stdout.readline():
            print("leads", flush=True)
            work = Work()
        lock.wait()
        print("etcdctl ended", flush=True)
    finally:
        if work:
            work.stop()
        lock.terminate()  # It unlocks.
        lock.wait()
