"""multihead serve: what it answers, to friends, strangers, the slow and the many."""

import concurrent.futures
import http.client
import json
import random
import re
import signal
import socket
import subprocess
import time

import cli_support
from cli_support import CommandTest, main

TEXT = "the cat sat"


class Serve(CommandTest):
    def start(self, *flags):
        """A server of the small model on a free port."""
        process = subprocess.Popen([cli_support.MULTIHEAD, "serve", "--model", self.small_model(), "--port", "0", *flags],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)

        def stop():
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
        self.addCleanup(stop)
        line = process.stdout.readline().decode()
        self.port = int(re.fullmatch(r"model: http://127\.0\.0\.1:(\d+)/ \(Ctrl-C ends it\)\n", line).group(1))
        self.process = process
        return process

    def ask(self, method, path, body=None, headers=None):
        """Status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def send(self, raw):
        """Sends bytes as they are; gives what comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as stranger:
            stranger.sendall(raw)
            stranger.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while more := stranger.recv(65536):
                    answer += more
            except ConnectionResetError:
                pass
            return answer

    def assert_alive(self):
        self.assertEqual(self.ask("GET", "/")[0], 200)
        self.assertIsNone(self.process.poll())

    def test_gives_what_inspect_writes(self):
        self.start()
        status, page = self.ask("POST", "/page", TEXT)
        self.assertEqual(status, 200)
        _, numbers = self.ask("POST", "/inspect", TEXT)
        self.output_of("inspect", "--model", "model", TEXT, "--json", "i.json", "--html", "i.html")
        self.assertEqual(json.loads(numbers), json.loads((self.folder / "i.json").read_text()))
        self.assertEqual(page, (self.folder / "i.html").read_text())
        status, live = self.ask("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn("<title>model</title>", live)
        self.assertNotIn("{{", live)

    def test_says_what_is_wrong(self):
        self.start("--bytes", "100")
        for body, status, text in [
                ("", 400, "the text must hold a token of its own, got only what the tokenizer drops"),
                (b"the \xff", 400, "Tokenizer::encode: text must be UTF-8, got byte=0xFF, position=4"),
                ("a" * 101, 413, "a request may have 100 bytes (--bytes)")]:
            self.assertEqual(self.ask("POST", "/inspect", body), (status, text + "\n"))
        for method, path in [("GET", "/page"), ("GET", "/../../etc/passwd"), ("GET", "//etc/passwd"), ("POST", "/"),
                             ("GET", "/config.json"), ("GET", "/%2e%2e/model/config.json"), ("DELETE", "/page")]:
            self.assertEqual(self.ask(method, path)[0] // 100, 4, (method, path))
        self.assert_alive()

    def test_cuts_long_texts(self):
        self.start("--tokens", "4")
        status, numbers = self.ask("POST", "/inspect", TEXT)
        self.assertEqual((status, json.loads(numbers)["num_tokens"], json.loads(numbers)["num_tokens_uncut"]), (200, 4, 5))
        self.assertIn("The text has 5 tokens; the model reads 4", self.ask("POST", "/page", TEXT)[1])

    def test_pages_of_other_sites_get_nothing(self):
        self.start()
        host = f"127.0.0.1:{self.port}"
        for headers, status in [({}, 200), ({"Host": f"localhost:{self.port}"}, 200), ({"Host": "attacker.example"}, 403),
                                ({"Host": "127.0.0.1.attacker.example"}, 403),
                                ({"Host": host, "Origin": f"http://{host}"}, 200),
                                ({"Host": host, "Origin": "http://attacker.example"}, 403),
                                ({"Host": host, "Origin": "null"}, 403)]:
            self.assertEqual(self.ask("POST", "/inspect", TEXT, headers)[0], status, headers)

    def test_survives_garbage(self):
        self.start()
        noise = random.Random(7)
        for raw in [b"", b"\r\n\r\n", b"GET", b"GET / HTTP/1.1\r\n", b"POST /page HTTP/1.1\r\nContent-Length: 5\r\n\r\nab",
                    b"POST /page HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                    b"POST /page HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\nx",
                    b"POST /page HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFF\r\nx",
                    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10_000 + b"\r\n",
                    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
                    *[noise.randbytes(noise.randrange(2000)) for _ in range(30)]]:
            self.send(raw)
        self.assert_alive()

    def test_fifty_at_once(self):
        self.start()
        texts = [" ".join(["the", "cat"] * (1 + n % 9)) for n in range(50)]
        alone = {text: self.ask("POST", "/inspect", text) for text in set(texts)}
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda text: self.ask("POST", "/inspect", text), texts))
        for text, answer in zip(texts, answers):
            self.assertEqual(answer[0], 200)
            self.assertEqual(answer, alone[text])
        self.assert_alive()

    def test_slow_clients_hold_up_nobody(self):
        self.start()
        slow = []
        for n in range(50):
            client = socket.create_connection(("127.0.0.1", self.port))
            self.addCleanup(client.close)
            client.sendall(b"POST /page HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"[:1 + n])
            slow.append(client)
        self.assertEqual(self.ask("POST", "/inspect", TEXT)[0], 200)
        # A byte now and then does not keep a request open for ever.
        begin = time.monotonic()
        last = slow[-1]
        last.settimeout(0.5)
        while time.monotonic() - begin < 60:
            try:
                last.sendall(b"x")
                if last.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            self.fail("a request that takes longer than 60 s is still open")
        self.assert_alive()

    def test_ends_by_a_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start()
            self.ask("POST", "/inspect", TEXT)
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=30), -number)

    def test_refuses_what_does_not_fit(self):
        self.start()
        self.assert_refused(1, f"cannot listen at 127.0.0.1 port {self.port}: Address already in use",
                            "serve", "--model", "model", "--port", str(self.port))
        self.assert_refused(1, "cannot listen at not.an.address.invalid port 1: no such address",
                            "serve", "--model", "model", "--port", "1", "--host", "not.an.address.invalid")
        self.assert_refused(2, 'serve: --port must be a whole number in [0, 65535], got "65536" (multihead serve --help)',
                            "serve", "--port", "65536")
        self.assert_refused(1, 'the model must read a token of the text, got room for 2 tokens, 2 added by the tokenizer '
                            '("model")', "serve", "--model", "model", "--tokens", "2")

    def test_says_who_may_use_it(self):
        process = self.start_anywhere()
        self.assertEqual(process.stderr.readline().decode(),
                         "multihead: serve: anyone who reaches this address may use it, without a password\n")

    def start_anywhere(self):
        process = subprocess.Popen([cli_support.MULTIHEAD, "serve", "--model", self.small_model(), "--port", "0",
                                    "--host", "0.0.0.0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close(), process.stderr.close()))
        return process


if __name__ == "__main__":
    main()
