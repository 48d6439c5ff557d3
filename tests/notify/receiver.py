"""A webhook's receiver: records what comes, checks its signature as docs/notifications.md says, and answers as a test wants."""
import hashlib
import hmac
import http.server
import json
import socket
import ssl
import threading

SECRET = "a secret that is long enough"


def verified(secret, header, body):
    """The time it was signed at, or None: as a receiver would do it."""
    parts = dict(part.split("=", 1) for part in header.split(","))
    wanted = hmac.new(secret.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    return int(parts["t"]) if hmac.compare_digest(wanted, parts["v1"]) else None


class Delivery:
    def __init__(self, headers, body, secret):
        self.headers = {k.lower(): v for k, v in headers.items()}
        self.body = json.loads(body)
        self.raw = body
        self.signed_at = verified(secret, self.headers["sluice-signature"], body)


class Receiver:
    """answers: for each delivery in turn a status, or (status, headers), or "close", or "hang" until release(); the last one stands for all that
    follow."""

    def __init__(self, *answers, certificate=None, secret=SECRET):
        self.answers, self.secret = list(answers) or [204], secret
        self.deliveries, self.changed = [], threading.Condition()
        self.released = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                receiver.serve(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # clients that do not like the certificate, or are gone

        self.server = Server(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
            scheme = "https"
        self.port = self.server.server_address[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}/hook?for=ops"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def serve(self, handler):
        body = handler.rfile.read(int(handler.headers["content-length"]))
        with self.changed:
            self.deliveries.append(Delivery(handler.headers, body, self.secret))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            self.changed.notify_all()
        if answer == "hang":
            self.released.wait(60)
            answer = 204
        if answer == "close":
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def wait(self, n, of=None, deadline_s=20):
        """The first n deliveries (of this event)."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.of(of)) >= n, deadline_s), [d.body for d in self.deliveries]
            return self.of(of)[:n]

    def of(self, event):
        return [d for d in self.deliveries if event in (None, d.body["event"])]

    def release(self):
        self.released.set()

    def close(self):
        self.release()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
