"""The live page in a real browser: headless Chromium, driven by chromedriver over plain HTTP.

Screenshots are kept beside the program: <build>/tools/screenshots/*.png.
"""
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import program
from live_server import Server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


class Browser:
    """One headless Chromium."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.log = open(os.path.join(self.folder.name, "driver.log"), "w+")
        # A group of its own: at the end all of Chromium's processes go, too.
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE,
                                       stderr=self.log, text=True, start_new_session=True)
        self.base = ""
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.base = f"http://127.0.0.1:{found[1]}"
                break
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-background-networking", "--disable-extensions", "--hide-scrollbars",
                     f"--user-data-dir={self.folder.name}/profile"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.base += f"/session/{session['sessionId']}"

    def close(self):
        try:
            self.call("DELETE", "")
        except (OSError, AssertionError):
            pass
        try:
            os.killpg(self.driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.driver.wait()
        self.driver.stdout.close()
        self.log.close()
        self.folder.cleanup()

    def call(self, method, path, body=None):
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=program.PATIENCE) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()[:500]}") from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height, phone=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=2 if phone else 1, mobile=phone)

    def colours(self, scheme):
        self.devtools("Emulation.setEmulatedMedia",
                      features=[{"name": "prefers-color-scheme", "value": scheme}])

    def wait(self, script, what):
        """Until the script returns something true."""
        deadline = time.monotonic() + program.PATIENCE
        while True:
            value = self.run(script)
            if value:
                return value
            assert time.monotonic() < deadline, f"{what}: {self.text('body')}"
            time.sleep(0.05)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def screenshot(self, name):
        folder = os.path.join(os.path.dirname(program.VERGE), "screenshots")
        os.makedirs(folder, exist_ok=True)
        image = base64.b64decode(self.devtools("Page.captureScreenshot", captureBeyondViewport=True)
                                 ["data"])
        with open(os.path.join(folder, name + ".png"), "wb") as file:
            file.write(image)
        return image

    def complaints(self):
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("WARNING", "SEVERE")]


class LivePage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.server = Server("--sample-every", "100ms", rate="5000")
        self.addCleanup(self.server.__exit__, None)
        self.browser.size(1200, 1000)
        self.browser.colours("light")
        self.browser.open(self.server.url)
        self.browser.complaints()  # of the test before
        self.browser.wait("return document.getElementById('link').classList.contains('live')",
                          "the page goes live")

    def calls(self):
        return int(self.browser.text("#sum-calls").replace(",", "").replace("\u2013", "0"))

    def wait_for_more_calls(self, than):
        deadline = time.monotonic() + program.PATIENCE
        while self.calls() <= than:
            self.assertLess(time.monotonic(), deadline, "the numbers stand still")
            time.sleep(0.05)

    def test_it_lives(self):
        browser = self.browser
        # The numbers and the charts move.
        self.wait_for_more_calls(0)
        self.wait_for_more_calls(self.calls())
        self.assertGreater(browser.run("return document.querySelectorAll('#workers [role=meter]').length"), 0)
        painted = """const c = document.getElementById(arguments[0]);
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            return d.some((v) => v !== 0);"""
        for chart in ("chart-late", "chart-rate", "chart-pending"):
            self.assertTrue(browser.run(painted, chart), f"{chart} is blank")
        self.assertIn("No time-out has fired early", browser.text("#check"))

        # A control takes effect: on the page, and in the server.
        browser.run("""
            for (const [id, value] of [["in-rate", "12345"], ["in-timeout", "75"], ["in-engine", "fiber"]]) {
                const input = document.getElementById(id);
                input.value = value;
                input.dispatchEvent(new Event("input", { bubbles: true }));
            }
            document.getElementById("apply").click();""")
        browser.wait("return document.getElementById('said').innerText.includes('12,345')",
                     "the control is confirmed")
        self.server.wait_for("verge_rate_wanted", lambda rate: rate == 12345)
        self.assertEqual(self.server.metric("verge_time_out_seconds"), 0.075)
        browser.wait("""return Number(document.getElementById('rate').innerText.replace(/,/g, '')) > 8000""",
                     "the rate follows")
        self.assertEqual(browser.run("return document.getElementById('in-engine').value"), "fiber")

        # What is out of range is told, and changes nothing.
        browser.run("""document.getElementById("in-rate").value = "0";
            document.getElementById("controls").noValidate = true;
            document.getElementById("apply").click();""")
        browser.wait("return document.getElementById('said').className === 'bad'", "a bad rate is told")
        self.assertEqual(self.server.metric("verge_rate_wanted"), 12345)
        refused = browser.complaints()
        self.assertEqual([c for c in refused if "/control" not in c], [])

        browser.run("document.getElementById('in-rate').value = '12345'")
        for scheme in ("light", "dark"):
            browser.colours(scheme)
            for name, width, height, phone in (("desktop", 1200, 1000, False), ("phone", 390, 844, True)):
                browser.size(width, height, phone)
                # Two frames later it is drawn.
                browser.wait("""window.frames_seen = window.frames_seen || 0;
                    requestAnimationFrame(() => requestAnimationFrame(() => ++window.frames_seen));
                    return window.frames_seen > 2;""", "frames are drawn")
                browser.run("window.frames_seen = 0")
                self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), width,
                                     f"{name} scrolls sideways")
                self.assertGreater(len(browser.screenshot(f"live-{name}-{scheme}")), 10000)
        ground = "return getComputedStyle(document.body).backgroundColor"
        dark = browser.run(ground)
        browser.colours("light")
        self.assertNotEqual(browser.run(ground), dark)

        # Every field has a label, and nothing on the page is blocked or wrong.
        self.assertEqual(browser.run("""return [...document.querySelectorAll('input, select')]
            .filter((field) => field.labels.length === 0).length"""), 0)
        self.assertEqual(browser.complaints(), [])

    def test_a_lost_connection_is_shown_and_made_again(self):
        browser, port = self.browser, self.server.port
        self.assertEqual(browser.complaints(), [])
        browser.run("window.stays = true")
        self.server.end(signal.SIGTERM)
        browser.wait("return document.getElementById('link').classList.contains('lost')",
                     "the loss is shown")
        browser.screenshot("live-lost")
        # Another server at the same place: the page loads itself anew, for its token.
        again = Server("--sample-every", "100ms", listen=f"127.0.0.1:{port}")
        self.addCleanup(again.__exit__, None)
        browser.wait("""return !window.stays && document.getElementById('link') !== null &&
            document.getElementById('link').classList.contains('live')""", "it is live again")


if __name__ == "__main__":
    missing = [name for name, path in (("chromium", CHROMIUM), ("chromedriver", DRIVER)) if not path]
    if missing:
        print(f"skipped: no {' and no '.join(missing)} here (Debian: chromium, chromium-driver)")
        sys.exit(77)
    program.main()
