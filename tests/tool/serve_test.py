"""`verge serve` over real sockets."""
import json
import resource
import select
import signal
import socket
import threading
import time
import unittest

import program
from live_server import Reader, Server, parse_metrics, read_all

SLOW_CLIENTS = 1000


def status_of(data):
    return int(data.split(b" ", 2)[1])


class Routes(unittest.TestCase):
    """One server for all that does not need one of its own."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--sample-every", "50ms")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None)

    def test_every_route_answers(self):
        for target, kind in (("/", "text/html"), ("/metrics", "text/plain"), ("/healthz", "text/plain")):
            with self.subTest(target):
                got = self.server.request(target)
                head = self.server.request(target, "HEAD")
                self.assertEqual((got.status, head.status), (200, 200))
                self.assertTrue(got.headers["content-type"].startswith(kind))
                self.assertEqual(got.headers["x-content-type-options"], "nosniff")
                self.assertEqual(got.headers["cache-control"], "no-store")
                self.assertEqual(head.body, b"")
        self.assertIn("default-src 'none'", self.server.request("/").headers["content-security-policy"])

    def test_errors_have_their_codes(self):
        ask = self.server.request
        self.assertEqual(ask("/nowhere").status, 404)
        for target, allow in (("/", "GET, HEAD"), ("/metrics", "GET, HEAD"), ("/healthz", "GET, HEAD"),
                              ("/events", "GET, HEAD")):
            refused = ask(target, "POST", b"x")
            self.assertEqual((refused.status, refused.headers["allow"]), (405, allow))
        refused = ask("/control")
        self.assertEqual((refused.status, refused.headers["allow"]), (405, "POST"))
        for raw, status in ((b"nonsense\r\n\r\n", 400),
                            (b"GET / HTTP/1.1\r\n\r\n", 400),
                            (b"GET / HTTP/4.2\r\n\r\n", 505),
                            (b"GET /" + b"x" * 20000, 431),
                            (b"GET / HTTP/1.1\r\nX: " + b"x" * 20000, 431),
                            (b"POST /control HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n", 413),
                            (b"POST /control HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n" +
                             b"x" * 200000, 413),
                            (b"GET / HTTP/1.0\r\nHost: evil.example\r\n\r\n", 403)):
            with self.subTest(raw[:60]):
                with self.server.connect() as s:
                    s.sendall(raw)
                    if status == 400:
                        s.shutdown(socket.SHUT_WR)
                    self.assertEqual(status_of(read_all(s)), status)

    def test_a_client_that_is_refused_can_still_send_and_read(self):
        with self.server.connect() as s:
            s.sendall(b"POST /control HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n")
            select.select([s], [], [], program.PATIENCE)
            for _ in range(5):  # a connection that was simply closed would be reset by this
                s.sendall(b"x" * 10000)
            self.assertEqual(status_of(read_all(s)), 413)

    def test_keeps_the_connection(self):
        with self.server.connect() as s:
            reader = Reader(s)
            for _ in range(20):
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertEqual(reader.response().body, b"ok\n")
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertEqual(reader.response().headers["connection"], "close")
            self.assertEqual(s.recv(1), b"")

    def test_http_1_0_closes(self):
        answer = self.server.ask(b"GET /healthz HTTP/1.0\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.0 200 OK\r\n"))
        self.assertTrue(answer.endswith(b"\r\n\r\nok\n"))

    def test_a_half_closed_client_is_answered(self):
        with self.server.connect() as s:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            s.shutdown(socket.SHUT_WR)
            self.assertEqual(status_of(read_all(s)), 200)

    def test_pipelined_requests(self):
        count = 300
        raw = b"".join(b"GET /%s HTTP/1.1\r\nHost: h\r\n\r\n" % (b"healthz" if n % 2 else b"x%d" % n)
                       for n in range(count))
        with self.server.connect() as s:
            sender = threading.Thread(target=s.sendall, args=(raw,))
            sender.start()
            reader = Reader(s)
            self.assertEqual([reader.response().status for _ in range(count)], [404, 200] * (count // 2))
            sender.join()

    def test_split_at_every_byte(self):
        body = b"rate=2000"
        raw = (b"POST /control HTTP/1.1\r\nHost: localhost\r\nX-Verge-Token: %s\r\n"
               b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s"
               % (self.server.token().encode(), len(body), body))
        with self.server.connect() as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader = Reader(s)
            for at in range(1, len(raw)):
                s.sendall(raw[:at])
                s.sendall(raw[at:])
                self.assertEqual(reader.response().status, 200, f"split at {at}")
            for byte in raw:
                s.sendall(bytes([byte]))
            self.assertEqual(reader.response().status, 200)

    def test_events_come_as_samples(self):
        with self.server.connect() as s:
            s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            reader = Reader(s)
            head = reader.until(b"\r\n\r\n")
            self.assertIn(b"text/event-stream", head)
            events = []
            while len(events) < 6:
                name, data = reader.until(b"\n\n").decode().split("\n")
                events.append((name, json.loads(data.removeprefix("data: "))))
            self.assertEqual(events[0][0], "event: history")
            self.assertIn("boot", events[0][1])
            samples = [data for name, data in events[1:] if name == "event: sample"]
            self.assertEqual(len(samples), 5)
            for before, after in zip(samples, samples[1:]):
                self.assertGreater(after["seconds"], before["seconds"])
                self.assertGreaterEqual(after["calls"], before["calls"])
            self.assertEqual(len(samples[0]["worker_busy"]), 1)
            self.assertEqual(samples[0]["early"], 0)
        # The server notices that the client has gone.
        self.server.wait_for("verge_http_event_clients", lambda n: n == 0)

    def test_metrics_are_strictly_valid_and_move(self):
        first = parse_metrics(self.server.request("/metrics").text())
        self.assertEqual(first["verge_early_total"][()], 0)
        self.assertIn((("engine", "thread"),), first["verge_engine_info"])
        self.server.wait_for("verge_calls_total", lambda calls: calls > first["verge_calls_total"][()])

    def test_a_control_takes_effect(self):
        token = self.server.token()
        done = self.server.request("/control", "POST", b'{"rate": 3000, "timeout": "90ms", "engine": "loop"}',
                                   {"Content-Type": "application/json", "X-Verge-Token": token,
                                    "Origin": f"http://127.0.0.1:{self.server.port}"})
        self.assertEqual(done.status, 200, done.text())
        self.assertEqual(json.loads(done.body)["timeout_ms"], 90)
        values = parse_metrics(self.server.request("/metrics").text())
        self.assertEqual(values["verge_rate_wanted"][()], 3000)
        self.assertEqual(values["verge_time_out_seconds"][()], 0.09)
        self.assertIn((("engine", "loop"),), values["verge_engine_info"])
        calls = values["verge_calls_total"][()]
        self.server.wait_for("verge_calls_total", lambda now: now > calls + 100)
        self.server.request("/control", "POST", b"engine=thread&rate=2000",
                            {"Content-Type": "application/x-www-form-urlencoded", "X-Verge-Token": token})

    def test_strangers_are_refused(self):
        token = self.server.token()
        before = self.server.metric("verge_rate_wanted")
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for headers in ({}, {"X-Verge-Token": "0" * 32}, {"X-Verge-Token": token[:-1]},
                        {"X-Verge-Token": token, "Origin": "http://evil.example"},
                        {"X-Verge-Token": token, "Origin": "null"},
                        {"X-Verge-Token": token, "Sec-Fetch-Site": "cross-site"}):
            with self.subTest(headers):
                self.assertEqual(self.server.request("/control", "POST", b"rate=5", {**form, **headers}).status,
                                 403)
        # DNS rebinding: the attacker's page has the attacker's host.
        answer = self.server.ask(b"GET / HTTP/1.1\r\nHost: evil.example:%d\r\nConnection: close\r\n\r\n"
                                 % self.server.port)
        self.assertEqual(status_of(answer), 403)
        self.assertNotIn(token.encode(), answer)
        self.assertEqual(self.server.metric("verge_rate_wanted"), before)


class Starting(unittest.TestCase):
    def refuse(self, *arguments):
        done = program.run("serve", *arguments)
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("verge: "))
        return done.stderr

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            place = f"127.0.0.1:{taken.getsockname()[1]}"
            self.assertIn(f"cannot listen on {place}", self.refuse("--listen", place))

    def test_bad_options(self):
        for listen in ("nonsense", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x", ":80",
                       "example.com:80", "::1:80", "[::1]", "[127.0.0.1]:80", ""):
            with self.subTest(listen):
                self.refuse("--listen", listen)
        self.refuse("--rate", "0")
        self.refuse("--timeout", "soon")
        self.refuse("--timeout", "2h")
        self.refuse("--engine", "turbo")
        self.refuse("--workers", "9999")
        self.refuse("--listen", "203.0.113.7:80")  # an address of nobody

    def test_ipv6(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as missing:
            self.skipTest(f"no IPv6 here: {missing}")
        with Server(listen="[::1]:0") as server:
            self.assertTrue(server.url.startswith("http://[::1]:"))
            with socket.create_connection(("::1", server.port), timeout=program.PATIENCE) as s:
                s.sendall(b"GET / HTTP/1.1\r\nHost: [::1]:%d\r\nConnection: close\r\n\r\n" % server.port)
                self.assertEqual(status_of(read_all(s)), 200)

    def test_a_warning_if_others_can_reach_it(self):
        server = Server(listen="0.0.0.0:0")
        self.assertEqual(server.request("/healthz").status, 200)
        server.process.send_signal(signal.SIGTERM)
        _, err = server.process.communicate(timeout=program.PATIENCE)
        self.assertIn("warning", err)
        self.assertEqual(server.process.returncode, 0)


class Ending(unittest.TestCase):
    def test_a_signal_in_the_middle(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), Server("--sample-every", "20ms", "--grace", "200ms") as server:
                idle = server.connect()
                half = server.connect()
                half.sendall(b"GET /healthz HTTP/1.1\r\nHo")
                stream = server.connect()
                stream.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                reader = Reader(stream)
                for _ in range(3):
                    reader.until(b"\n\n")
                begin = time.monotonic()
                server.end(number)
                # Half a request holds it up for the time of grace, and no more.
                self.assertLess(time.monotonic() - begin, program.PATIENCE / 2)
                self.assertGreater(server.summary["calls"], 0)
                self.assertEqual(server.summary["early"], 0)
                for s in (idle, half, stream):
                    read_all(s)  # all have ended
                    s.close()

    def test_what_is_in_flight_is_finished(self):
        with Server("--grace", "20s") as server, server.connect() as s:
            request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            s.sendall(request + request[:20])
            # When it has answered the first, it has read half of the second: now the signal.
            self.assertEqual(Reader(s).response().status, 200)
            server.process.send_signal(signal.SIGTERM)
            # It has stopped accepting: a new connection is refused, or reset in the queue.
            deadline = time.monotonic() + program.PATIENCE
            while True:
                try:
                    with server.connect() as probe:
                        probe.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                        if not read_all(probe):
                            break
                except OSError:
                    break
                self.assertLess(time.monotonic(), deadline)
            s.sendall(request[20:])
            answer = read_all(s)
            self.assertEqual(status_of(answer), 200)
            self.assertIn(b"Connection: close", answer)
            s.close()
            server.process.wait(program.PATIENCE)
            self.assertEqual(server.process.returncode, 0)

    def test_people_get_words(self):
        code, output = program.run_on_terminal("serve", "--listen", "127.0.0.1:0", "--rate", "1000",
                                               interrupt_after="Ctrl-C ends it.")
        self.assertEqual(code, 0, output)
        self.assertIn("http://127.0.0.1:", output)
        self.assertIn("0 early", output)


class SlowClients(unittest.TestCase):
    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = SLOW_CLIENTS + 200
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def test_a_thousand_do_not_hold_up_a_normal_one(self):
        with Server("--request-limit", "2s") as server:
            slow = []
            for n in range(SLOW_CLIENTS):
                s = server.connect()
                if n % 10:  # some say nothing at all
                    s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
                slow.append(s)
                if n % 100 == 99:
                    self.assertEqual(server.request("/healthz").status, 200)
            watch = select.poll()
            for s in slow:
                watch.register(s, select.POLLIN)
            # They trickle on, until all are dropped; a normal client is served all the while.
            by_number = {s.fileno(): s for s in slow}
            told = {}
            deadline = time.monotonic() + program.PATIENCE
            while len(told) < len(slow):
                self.assertLess(time.monotonic(), deadline, f"{len(slow) - len(told)} still there")
                self.assertEqual(server.request("/healthz").status, 200)
                for number, _ in watch.poll(20):
                    told[number] = read_all(by_number[number])
                    watch.unregister(number)
                for number in list(by_number)[::50]:
                    if number not in told:
                        try:
                            by_number[number].send(b"x")
                        except OSError:
                            pass  # it has just been dropped
            answers = [data for data in told.values() if data]
            self.assertTrue(all(status_of(data) == 408 for data in answers))
            self.assertGreater(len(answers), SLOW_CLIENTS // 2)
            self.assertGreaterEqual(server.metric("verge_http_timed_out_total"), SLOW_CLIENTS)
            for s in slow:
                s.close()
            server.wait_for("verge_http_connections_open", lambda n: n == 1)

    def test_an_idle_connection_is_closed(self):
        with Server("--idle-limit", "200ms") as server:
            # It stands still until the request is sent: this program may be slow to send it.
            server.process.send_signal(signal.SIGSTOP)
            with server.connect() as s:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                server.process.send_signal(signal.SIGCONT)
                self.assertEqual(status_of(read_all(s)), 200)

    def test_one_that_does_not_read_is_dropped(self):
        with Server("--write-limit", "300ms", "--sample-every", "2ms") as server:
            lazy = []
            for target in (b"/events", b"/"):
                s = socket.socket()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                s.connect(("127.0.0.1", server.port))
                s.settimeout(program.PATIENCE)
                # Many pages, or one stream: more than all buffers on the way hold.
                try:
                    s.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % target * 300)
                except OSError:
                    pass  # dropped already
                lazy.append(s)
            with server.connect() as good:
                good.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                reader = Reader(good)
                deadline = time.monotonic() + program.PATIENCE
                while server.metric("verge_http_timed_out_total") < 2:
                    reader.until(b"\n\n")  # a client that reads gets its events
                    reader.buffer = b""
                    self.assertLess(time.monotonic(), deadline)
            for s in lazy:
                s.close()

    def test_the_one_that_waits_longest_makes_room(self):
        with Server("--most-connections", "3") as server:
            waiting = [server.connect() for _ in range(3)]
            server_side = server.request("/healthz")  # a fourth: one of the three goes
            self.assertEqual(server_side.status, 200)
            self.assertEqual(waiting[0].recv(1), b"")
            self.assertGreaterEqual(server.metric("verge_http_evicted_total"), 1)
            for s in waiting:
                s.close()

    def test_503_when_all_are_busy(self):
        with Server("--most-connections", "1") as server, server.connect() as s:
            s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            Reader(s).until(b"\n\n")
            with server.connect() as other:
                self.assertEqual(status_of(read_all(other)), 503)
        with Server("--most-event-clients", "1") as server, server.connect() as s:
            s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            Reader(s).until(b"\n\n")
            self.assertEqual(server.request("/events").status, 503)

    def test_no_descriptors_left_is_survived(self):
        with Server() as server:
            _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
            clients = [server.connect() for _ in range(20)]
            # It has taken them: now it may have no more than it has.
            server.wait_for("verge_http_connections_open", lambda n: n >= 20)
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (4, hard))
            more = server.connect()
            more.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            # The oldest that waits is given up, then the next...
            self.assertEqual(read_all(clients[0]), b"")
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
            self.assertEqual(status_of(read_all(more)), 200)
            self.assertGreaterEqual(server.metric("verge_http_accept_errors_total"), 1)
            for s in (*clients, more):
                s.close()


if __name__ == "__main__":
    program.main()
