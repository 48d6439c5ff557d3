"""Real stores of a test's own: redis-server alone, over TLS, as a replica, watched by Sentinels, as a Cluster of six.

Everything listens on loopback, on free ports, in a folder of the test's, is ended by its process id, and by the kernel when the test dies."""
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import time

BUILD = os.environ.get("SLUICE_BUILD", os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build"))
MODULE = os.path.join(BUILD, "modules/sluice_redis.so")
DEADLINE_S = 20
_taken = set()


def until(condition, what, deadline_s=DEADLINE_S, step_s=0.005):
    """The first true value of condition(), looked for often; an AssertionError when the deadline passes. `what` may be a function."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what() if callable(what) else what}")
        time.sleep(step_s)


def free_port(below=30000):
    """One that is free now, and so is the one 10,000 above it, which a Cluster's node talks to others on."""
    for _ in range(1000):
        port = random.randrange(15000, below)
        with socket.socket() as a, socket.socket() as b:
            try:
                a.bind(("127.0.0.1", port))
                b.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
        if port not in _taken:
            _taken.add(port)
            return port
    raise AssertionError("no port is free")


def spawn(argv, log_path, env=None, **more):
    """Starts a program that ends with us, its output in a file."""
    with open(log_path, "ab") as log:
        return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *argv],
                                **{"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "env": env, **more})


def tail(path, lines=40):
    with contextlib.suppress(OSError):
        with open(path, errors="replace") as f:
            return "".join(f.readlines()[-lines:])
    return ""


class StoreError(Exception):
    """What the store answered with a minus."""


class Resp:
    """One connection to a store: call(b"GET", "k") -> bytes, int, list or None."""

    def __init__(self, address, timeout=DEADLINE_S):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        out = [b"*%d\r\n" % len(words)]
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            out.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(out))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the store closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise StoreError(rest.decode(errors="replace"))
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        raise ConnectionError(f"not understood: {line!r}")

    def call(self, *words):
        self.send(*words)
        return self.read()

    def close(self):
        self.file.close()
        self.socket.close()


class Redis:
    """A redis-server. `port` (0 with TLS), `tls_port`, `socket_path`; `url` is what a daemon is given."""

    def __init__(self, folder, name, *options, module=False, tls=None, argv=None, env=None, port=None):
        self.folder = os.path.join(str(folder), name)
        os.makedirs(self.folder)
        self.name, self.options, self.module, self.tls, self.env, self.argv = name, options, module, tls, env, argv
        self.socket_path = os.path.join(self.folder, "s")
        self.log_path = os.path.join(self.folder, "log")
        self.port = port or free_port()
        self.password = None
        self.process = self.connection = None
        self.start()

    def command_line(self):
        argv = ["redis-server", "--bind", "127.0.0.1", "--unixsocket", self.socket_path, "--dir", self.folder, "--save", "", "--appendonly", "no",
                "--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", "--enable-module-command", "yes"]
        if self.tls:
            ca, (cert, key) = self.tls
            argv += ["--port", "0", "--tls-port", str(self.port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca,
                     "--tls-auth-clients", "no"]
        else:
            argv += ["--port", str(self.port)]
        if self.module:
            argv += ["--loadmodule", MODULE]
        return argv + list(self.options)

    def start(self):
        """Again, too: on the same port, with nothing in memory."""
        assert self.process is None or self.process.poll() is not None
        with contextlib.suppress(OSError):
            os.unlink(self.socket_path)
        self.process = spawn(self.argv or self.command_line(), self.log_path, self.env)
        until(self._answers, lambda: f"redis-server answers: {tail(self.log_path)}")
        return self

    def _answers(self):
        assert self.process.poll() is None, f"redis-server ended: {tail(self.log_path)}"
        try:
            self.connection = Resp(self.socket_path)
            self.connection.call("PING")
        except StoreError as error:
            return "LOADING" not in str(error)
        except (OSError, ConnectionError):
            return False
        return True

    @property
    def url(self):
        return f"{'rediss' if self.tls else 'redis'}://127.0.0.1:{self.port}" + (f"?ca={self.tls[0]}" if self.tls else "")

    @property
    def unix_url(self):
        return f"redis+unix://{self.socket_path}"

    def do(self, *words):
        """Once more on a new connection, when a promotion has closed ours."""
        try:
            return self.connection.call(*words)
        except StoreError:
            raise
        except (OSError, ConnectionError):
            self.connection = self.connect()
            return self.connection.call(*words)

    def connect(self):
        return Resp(self.socket_path)

    def info(self, section="all"):
        text = self.do("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def calls(self):
        """Decisions asked for so far, by script or module: one call may be for many buckets. The daemon's beat is a script too: see `beats`."""
        found = re.findall(r"cmdstat_(?:evalsha|eval|sluice\.decide):calls=(\d+)", self.do("INFO", "commandstats").decode())
        return sum(int(n) for n in found)

    def keys(self):
        return self.do("KEYS", "*")

    def freeze(self):
        """SIGSTOP: connections stay, nothing answers. Returns when it stands still."""
        self.process.send_signal(signal.SIGSTOP)
        until(lambda: re.search(r"^State:\s+T", open(f"/proc/{self.process.pid}/status").read(), re.M), "redis-server stands still")

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.connection:
            self.connection.close()
            self.connection = None
        if self.process and self.process.poll() is None:
            self.process.kill()
        self.process.wait()


# ---- Sentinel


class Sentinels:
    """A master, `replicas` of it, and three Sentinels that watch it under the name `m`."""

    def __init__(self, folder, replicas=1, module=False, down_after_ms=600):
        self.folder = str(folder)
        self.master = Redis(folder, "master", module=module)
        self.replicas = [Redis(folder, f"replica{i}", "--replicaof", "127.0.0.1", str(self.master.port), module=module) for i in range(replicas)]
        self.sentinels = [self._sentinel(i, down_after_ms) for i in range(3)]
        until(self.is_well, "three Sentinels know each other, the master and its replicas")

    def _sentinel(self, i, down_after_ms):
        folder = os.path.join(self.folder, f"sentinel{i}")
        port = free_port()
        conf = os.path.join(self.folder, f"sentinel{i}.conf")
        with open(conf, "w") as f:
            f.write(f"port {port}\nbind 127.0.0.1\nunixsocket {folder}/s\ndir {folder}\nlogfile \"\"\n"
                    f"sentinel monitor m 127.0.0.1 {self.master.port} 2\nsentinel down-after-milliseconds m {down_after_ms}\n"
                    f"sentinel failover-timeout m 4000\n")
        return Redis(self.folder, f"sentinel{i}", argv=["redis-server", conf, "--sentinel"], port=port)

    def is_well(self):
        for sentinel in self.sentinels:
            about = dict(zip(*[iter(sentinel.do("SENTINEL", "MASTER", "m"))] * 2))
            if (about[b"num-other-sentinels"], about[b"num-slaves"], about[b"flags"]) != (b"2", str(len(self.replicas)).encode(), b"master"):
                return False
        return all(r.info("replication").get("master_link_status") == "up" for r in self.replicas)

    @property
    def url(self):
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{s.port}" for s in self.sentinels) + "/m"

    def master_port(self):
        return int(self.sentinels[0].do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")[1])

    def servers(self):
        return [*self.sentinels, self.master, *self.replicas]

    def kill(self):
        for server in self.servers():
            server.kill()


# ---- Cluster


class Cluster:
    """Three masters, a replica each."""

    def __init__(self, folder, module=False, node_timeout_ms=1000):
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms), "--cluster-require-full-coverage", "no"]
        self.nodes = [Redis(folder, f"node{i}", *options, module=module) for i in range(6)]
        addresses = [f"127.0.0.1:{n.port}" for n in self.nodes]
        subprocess.run(["redis-cli", "--cluster", "create", *addresses, "--cluster-replicas", "1", "--cluster-yes"], check=True, timeout=60,
                       stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        until(self.is_well, "the Cluster is well", 40)

    def is_well(self):
        for node in self.nodes:
            about, replication = node.do("CLUSTER", "INFO").decode(), node.info("replication")
            linked = replication.get("connected_slaves", "0") != "0" or replication.get("master_link_status") == "up"
            if "cluster_state:ok" not in about or "cluster_slots_ok:16384" not in about or not linked:
                return False
        return True

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{n.port}" for n in self.nodes[:3])

    def masters(self):
        return [n for n in self.nodes if n.process.poll() is None and n.info("replication")["role"] == "master"]

    def replica_of(self, master):
        for node in self.nodes:
            if node.process.poll() is None and node.info("replication").get("master_port") == str(master.port):
                return node
        return None

    def servers(self):
        return self.nodes

    def kill(self):
        for node in self.nodes:
            node.kill()


# ---- a server that is none


class Impostor:
    """Listens like a store and answers every line it gets with `answer` (bytes, or a function of what came in); None: says nothing."""

    def __init__(self, answer):
        import threading

        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.accepted = 0
        self.open = []
        threading.Thread(target=self._accept, daemon=True).start()
        self._thread = threading.Thread

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.accepted += 1
                self.open.append(connection)
                self._thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError), connection:
            while True:
                got = connection.recv(65536)
                if not got:
                    return
                answer = self.answer(got) if callable(self.answer) else self.answer
                if answer is not None:
                    connection.sendall(answer)

    def kill(self):
        self.listener.close()
        for connection in self.open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
