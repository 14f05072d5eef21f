"""The work of a leader, for contenders in Python: a beat at the sink BEAT_AT every 20 ms, until it is stopped."""

import http.client
import json
import os
import threading


class Work:
    def __init__(self):
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def stop(self):
        self._over.set()
        self._thread.join()

    def _beat(self):
        sink = http.client.HTTPConnection(os.environ["BEAT_AT"], timeout=10)
        beat = 0
        while True:
            body = json.dumps({"beat": beat})
            try:
                sink.request("POST", "/", body, {"content-type": "application/json"})
                sink.getresponse().read()
            except (OSError, http.client.HTTPException):
                sink.close()  # A beat that fails is left out: the sink judges by what arrives.
            beat += 1
            if self._over.wait(0.02):
                return
