"""Drives a headless Chromium through its debugging pipe (the DevTools protocol), with nothing but Python's library."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    """The program's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One browser with one page. Use it as a context manager."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(prefix="dtrain-chromium-")
        to_browser, self.writer = os.pipe()
        self.reader, from_browser = os.pipe()

        def take_pipes():  # Chromium reads commands from descriptor 3 and writes answers to 4
            one, two = os.dup(to_browser), os.dup(from_browser)
            os.dup2(one, 3, inheritable=True)
            os.dup2(two, 4, inheritable=True)

        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--mute-audio",
                   "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(command, close_fds=False, preexec_fn=take_pipes, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.last_id, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.writer)
        os.close(self.reader)
        shutil.rmtree(self.profile.name, ignore_errors=True)
        self.profile._finalizer.detach()

    def _message(self, until):
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.reader], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            some = os.read(self.reader, 1 << 20)
            if not some:
                raise ConnectionError("the browser has ended")
            self.rest += some
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, timeout=60, **parameters):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + timeout
        while True:
            answer = self._message(until)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def evaluate(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression, seconds):
        """Waits until the expression is true. Returns its value, or None when the time is up."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            value = self.evaluate(expression)
            if value:
                return value
            self.evaluate("new Promise(done => setTimeout(done, 100))")
        return None

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'", 30)

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def prefer(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key, code=None, shift=False):
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(key)
        common = {"key": key, "code": code or key, "windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def image(self, path, whole_page=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole_page)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def complaints(self):
        """What the browser has said about the page: errors of scripts, and what its policy has blocked."""
        texts = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                texts.append(str(event["params"]["exceptionDetails"].get("exception", {}).get("description")))
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                texts.append(event["params"]["entry"]["text"] + " " + event["params"]["entry"].get("url", ""))
        return texts

    def addresses(self):
        """All addresses that the page has asked for."""
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
