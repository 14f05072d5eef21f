"""A leader handler in Python: each turn, it reports its term and slot to an HTTP endpoint.

Without REPORT_URL it only prints a line. The endpoint should refuse a term smaller than one
that it has seen. That makes late requests of a former leader harmless.
"""

import json
import os
from datetime import datetime, timedelta, timezone
from urllib.parse import quote

from componentize_py_types import Err
from post import post
from wit_world import exports

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class LeaderHandler(exports.LeaderHandler):
    def on_tick(self, turn):
        # A slot is in nanoseconds since 1970, by the storage service's clock.
        slot = EPOCH + timedelta(microseconds=turn.slot // 1000)
        slot = slot.isoformat().replace("+00:00", "Z")
        print(f"slot {slot}, term {turn.term}")
        url = os.environ.get("REPORT_URL")
        if not url:
            return
        report = {
            "election": turn.election,
            "term": turn.term,
            "slot": slot,
            "attempt": turn.attempt,
            "past_due": turn.past_due,
        }
        headers = {
            "content-type": "application/json",
            # `tenure run` sets the election and its term on every request. Other hosts do not.
            "tenure-election": quote(turn.election, safe="/$"),
            "tenure-term": str(turn.term),
            "idempotency-key": turn.key,  # the same for all attempts at this turn
        }
        # An Err with a text fails the turn; any other exception ends the leadership at once.
        try:
            status = post(url, headers, json.dumps(report).encode())
        except OSError as error:
            raise Err(f"{url}: {error}")
        if not 200 <= status < 300:
            raise Err(f"{url} answered {status}")
