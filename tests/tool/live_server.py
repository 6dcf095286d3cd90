"""A `verge serve` that tests talk to, and the little HTTP that they need for it."""
import json
import re
import signal
import socket
import subprocess
import time

import program


class Server:
    """Runs `verge serve` on a free port; a context manager that ends it and looks how it ended."""

    def __init__(self, *arguments, listen="127.0.0.1:0", rate="2000"):
        self.process = subprocess.Popen(
            [program.VERGE, "serve", "--listen", listen, "--json", "--rate", rate,
             "--workers", "1", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = self.process.stdout.readline()
        if not first:
            raise RuntimeError(f"verge serve did not start: {self.process.communicate()[1]}")
        self.port = json.loads(first)["port"]
        self.url = json.loads(first)["url"]
        self.summary = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.end(signal.SIGTERM, check=kind is None)
        self.process.stdout.close()
        self.process.stderr.close()

    def end(self, number, check=True):
        """Sends a signal, waits for the end, keeps the summary."""
        self.process.send_signal(number)
        try:
            out, err = self.process.communicate(timeout=program.PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if check:
            assert self.process.returncode == 0, (self.process.returncode, err)
            self.summary = json.loads(out.strip().splitlines()[-1])

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=program.PATIENCE)

    def ask(self, raw):
        """Sends bytes on a new connection, returns all that comes until the server closes."""
        with self.connect() as s:
            s.sendall(raw)
            return read_all(s)

    def request(self, target, method="GET", body=b"", headers=()):
        """One request on a connection of its own; returns a Response."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: close"]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        lines += [f"{name}: {value}" for name, value in dict(headers).items()]
        with self.connect() as s:
            s.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            return Reader(s).response(method == "HEAD")

    def token(self):
        return re.search(r'name="token" content="(\w+)"', self.request("/").text())[1]

    def metric(self, name):
        values = parse_metrics(self.request("/metrics").text())
        return values[name][()]

    def wait_for(self, what, is_so):
        """Asks /metrics until is_so(value of the metric)."""
        deadline = time.monotonic() + program.PATIENCE
        while True:
            value = self.metric(what)
            if is_so(value):
                return value
            assert time.monotonic() < deadline, f"{what} stays {value}"
            time.sleep(0.02)


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def text(self):
        return self.body.decode()


class Reader:
    """Reads responses from a socket, one after the other."""

    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def more(self):
        piece = self.sock.recv(65536)
        self.buffer += piece
        return bool(piece)

    def until(self, mark):
        while mark not in self.buffer:
            if not self.more():
                raise EOFError(f"the connection ended after {self.buffer!r}")
        text, self.buffer = self.buffer.split(mark, 1)
        return text

    def response(self, head=False):
        lines = self.until(b"\r\n\r\n").decode().split("\r\n")
        status = int(re.fullmatch(r"HTTP/1\.[01] (\d{3}) .*", lines[0])[1])
        headers = {}
        for line in lines[1:]:
            name, value = re.fullmatch(r"([!-9;-~]+): ?(.*)", line).groups()
            assert name.lower() not in headers, f"{name} stands twice"
            headers[name.lower()] = value
        size = 0 if head or status < 200 else int(headers.get("content-length", 0))
        while len(self.buffer) < size:
            assert self.more(), "the body is cut short"
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return Response(status, headers, body)


def read_all(sock):
    data = b""
    while True:
        try:
            piece = sock.recv(65536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


def parse_metrics(text):
    """Prometheus' text format, strictly; returns {name: {labels as sorted pairs: value}}."""
    name_re = r"[a-zA-Z_][a-zA-Z0-9_]*"
    label_re = rf'({name_re})="((?:[^"\\\n]|\\[\\"n])*)"'
    values, lines = {}, text.split("\n")
    assert lines.pop() == "", "the last line does not end"
    at = 0
    while at < len(lines):
        name = re.fullmatch(rf"# HELP ({name_re}) \S.*", lines[at])[1]
        kind = re.fullmatch(rf"# TYPE {name} (counter|gauge)", lines[at + 1])[1]
        assert (kind == "counter") == name.endswith("_total"), name
        assert name not in values, f"{name} stands twice"
        values[name], at = {}, at + 2
        while at < len(lines) and not lines[at].startswith("#"):
            found = re.fullmatch(rf"{name}(?:\{{({label_re}(?:,{label_re})*)\}})? "
                                 r"(\+Inf|-Inf|NaN|-?[0-9.]+(?:e[+-]?[0-9]+)?)", lines[at])
            assert found, lines[at]
            labels = tuple(sorted(re.findall(label_re, found[1] or "")))
            assert labels not in values[name], lines[at]
            values[name][labels] = float(found[found.lastindex])
            at += 1
        assert values[name], f"{name} has no value"
    return values
