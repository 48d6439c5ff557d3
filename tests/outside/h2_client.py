"""A small HTTP/2 client on a socket."""
import h2.config
import h2.connection
import h2.events


class Client:
    """One h2 connection on a socket."""

    def __init__(self, s):
        self.s = s
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.c.initiate_connection()
        self.flush()
        self.answers, self.resets, self.goaway, self.closed = {}, {}, None, False
        self.bodies, self.pongs = {}, 0

    def flush(self):
        self.s.sendall(self.c.data_to_send())

    def request(self, method, path, body=None, headers=(), end=True):
        stream = self.c.get_next_available_stream_id()
        self.c.send_headers(stream, [(":method", method), (":path", path), (":scheme", "http"), (":authority", "x"), *headers],
                            end_stream=body is None and end)
        if body is not None:
            self.c.send_data(stream, body, end_stream=end)
        self.flush()
        return stream

    def read(self):
        data = self.s.recv(65536)
        if not data:
            self.closed = True
            return
        for event in self.c.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self.answers[event.stream_id] = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
                self.c.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.answers[event.stream_id]["ended"] = True
            elif isinstance(event, h2.events.StreamReset):
                self.resets[event.stream_id] = event.error_code
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.goaway = event.error_code
            elif isinstance(event, h2.events.PingAckReceived):
                self.pongs += 1
        self.flush()

    def answer(self, stream):
        while not self.answers.get(stream, {}).get("ended"):
            assert not self.closed and stream not in self.resets, (self.closed, self.resets, self.goaway)
            self.read()
        return int(self.answers[stream][":status"]), self.answers[stream], self.bodies.get(stream, b"")
