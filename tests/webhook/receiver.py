"""Receives webhooks as anybody would, with the libraries of Standard Webhooks and of CloudEvents.

    receiver.py SECRET_FILE

Listens on a port that the kernel picks, and prints it. Then each call is a line of JSON: what the event says,
whether the signature is right, and the headers. A call whose signature is wrong is answered 401; of a turn, the
first call to a URL with `?busy` is answered 503, and asked to come again after a second.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook, WebhookVerificationError


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    last = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        secret = Path(sys.argv[1]).read_text().strip()
        try:
            turn, status = Webhook(secret).verify(body, headers), 204
        except WebhookVerificationError as error:
            turn, status = str(error), 401
        event = from_http_event(HTTPMessage(headers, body))
        again = event.get_id() == Receiver.last
        Receiver.last = event.get_id()
        if status == 204 and self.path.endswith("?busy") and not again:
            status = 503
        told = {
            "status": status,
            "turn": turn,
            "event": {
                "id": event.get_id(),
                "source": event.get_source(),
                "type": event.get_type(),
                "specversion": event.get_specversion(),
                "time": event.get_time().isoformat(),
                "data": event.get_data(),
            },
            "headers": headers,
        }
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        self.send_response(status)
        self.send_header("content-length", "0")
        self.send_header("retry-after", "1")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
