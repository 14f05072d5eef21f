"""A runner in Python: `loop.py ELECTION.wasm TURNS` contends until it has run that many turns.

A turn reports its term and slot to REPORT_URL. What happens is printed as JSON, one event per
line. This is all that a host must do that embeds the component, but for one thing: turns that
take their time need renewals beside them, and an end when the leadership ends.
"""

import json
import sys
import time
import urllib.request
from os import environ

from host import Host
from wasmtime.component import Record, Variant

ELECTION = "tenure:election/election"


def tell(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def work(turn):
    report = {name: getattr(turn, name) for name in ("term", "slot", "attempt", "past-due")}
    headers = {"content-type": "application/json", "tenure-term": str(turn.term), "idempotency-key": turn.key}
    body = json.dumps(report).encode()
    request = urllib.request.Request(environ["REPORT_URL"], body, headers)
    try:
        urllib.request.urlopen(request, timeout=5).close()
        return "succeeded"
    except OSError:
        return "failed"


def main(file, turns):
    election = Host(file)
    judged = election.call(ELECTION, "check")
    if isinstance(judged, list):
        for wrong in judged:
            print(f"{wrong.setting}: {wrong.problem}; {wrong.advice}", file=sys.stderr)
        return 2

    state, event, left_to_run = None, None, turns
    while True:
        # On Linux this clock stands still while the machine is suspended; a host that may be
        # suspended takes CLOCK_BOOTTIME. It does not run ahead.
        taken_at = time.monotonic_ns()
        report = election.call(ELECTION, "step", state, taken_at, 0, event)
        state, event = report.state, None
        for problem in report.problems:
            tell("problem", detail=problem.detail)
        if report.role.tag == "left":
            tell("left")
            return 0
        if report.run:
            outcome = work(report.run)
            left_to_run -= 1
            tell("turn-ended", term=report.run.term, slot=report.run.slot, outcome=outcome)
            result = Record()
            result.outcome, result.reason = outcome, None
            event = Variant("turn-ended", result) if left_to_run else Variant("leave", result)
        else:
            due = taken_at + getattr(report, "again-in")
            time.sleep(max(0, due - time.monotonic_ns()) / 1e9)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
