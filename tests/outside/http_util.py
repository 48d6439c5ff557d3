"""Raw sockets and certificates for the tests of the HTTP doors."""
import contextlib
import os
import re
import socket
import subprocess
import time

DEADLINE_S = 20


def open_socket(address):
    """A connected socket to "host:port" or "unix:/path"."""
    if address.startswith("unix:"):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(DEADLINE_S)
        s.connect(address[5:])
        return s
    host, port = address.rsplit(":", 1)
    s = socket.create_connection((host.strip("[]"), int(port)), DEADLINE_S)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def read_all(s):
    """Everything until the other side closes; a reset counts as the end."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while True:
            more = s.recv(65536)
            if not more:
                break
            got += more
    return got


def raw(address, data):
    """What comes back for these bytes until the server closes."""
    with contextlib.closing(open_socket(address)) as s:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            s.sendall(data)
        return read_all(s)


class Reader:
    """Answers off one connection, one after the other."""

    def __init__(self, s):
        self.s, self.buffer = s, b""

    def _fill(self):
        more = self.s.recv(65536)
        assert more, f"closed after {self.buffer!r}"
        self.buffer += more

    def interim(self):
        """The status of a 1xx answer."""
        while b"\r\n\r\n" not in self.buffer:
            self._fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        return int(head.split()[1])

    def answer(self):
        """(status, head text in lower case, body)."""
        while b"\r\n\r\n" not in self.buffer:
            self._fill()
        head, rest = self.buffer.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"content-length: (\d+)", head.lower()).group(1))
        while len(rest) < length:
            self._fill()
            rest = self.buffer.split(b"\r\n\r\n", 1)[1]
        self.buffer = rest[length:]
        return int(head.split()[1]), head.lower().decode("latin-1"), rest[:length]


def post(body, extra=""):
    """The bytes of POST /check."""
    body = body if isinstance(body, bytes) else body.encode()
    return (f"POST /check HTTP/1.1\r\nHost: x\r\n{extra}Content-Length: {len(body)}\r\n\r\n").encode() + body


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def make_certificate(folder, name, issuer=None, ca=False):
    """A key and a certificate for localhost, signed by itself or by `issuer`; returns (certificate path, key path)."""
    key, cert, request = (str(folder / f"{name}.{end}") for end in ("key", "pem", "csr"))
    run = dict(check=True, capture_output=True, timeout=60)
    extensions = folder / f"{name}.ext"
    extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n" + ("basicConstraints=critical,CA:TRUE\n" if ca else ""))
    subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                    "-out", request, "-subj", f"/CN={name}"], **run)
    signer = ["-CA", issuer[0], "-CAkey", issuer[1], "-CAcreateserial"] if issuer else ["-signkey", key]
    subprocess.run(["openssl", "x509", "-req", "-in", request, "-days", "2", "-out", cert, "-extfile", str(extensions), *signer], **run)
    return cert, key


def wait_for(process_output, pattern, deadline_s=DEADLINE_S):
    """The match of a pattern in a file that another process writes."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        with open(process_output, errors="replace") as f:
            found = re.search(pattern, f.read())
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"no {pattern!r} in {process_output}")
