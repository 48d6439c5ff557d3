"""The limiter of a hundred articles: read the counter, decide in the client, write it back. Correct for one caller at a time, and wrong for two."""
import socket


class Redis:
    """One connection, and of its protocol what GET and SET need."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.file = self.socket.makefile("rb")

    def do(self, *words):
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        line = self.file.readline()
        if line[:1] == b"$":
            return None if line == b"$-1\r\n" else self.file.read(int(line[1:]) + 2)[:-2].decode()
        if line[:1] not in (b"+", b":"):
            raise OSError(f"redis-server: {line.decode(errors='replace').strip() or 'closed the connection'}")
        return line[1:-2].decode()

    def close(self):
        self.file.close()
        self.socket.close()


class RacyLimiter:
    """One caller's side of it; all callers share the counter `key`."""

    def __init__(self, port, key, limit, between=lambda: None):
        self.redis, self.key, self.limit = Redis(port), key, limit
        self.between = between  # what happens between reading and writing: other callers

    def allow(self):
        used = int(self.redis.do("GET", self.key) or 0)
        self.between()
        if used >= self.limit:
            return False
        self.redis.do("SET", self.key, used + 1)
        return True

    def close(self):
        self.redis.close()
