"""What must hold of the live page while a real job runs, computed in the browser, and images of it."""
import json
import os
import re
import signal
import subprocess

import browser

# For each element with text of its own: the contrast of the text with what lies behind it. Values below the bound of WCAG 2.1
# AA (4.5; 3 for large text) are returned, with the text.
CONTRAST = r"""
(() => {
  const channels = color => (color.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = node => {
    for (; node; node = node.parentElement) {
      const color = channels(getComputedStyle(node).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const low = [];
  let checked = 0, least = 99;
  const bound = (node, color, name, size, need) => {
    const got = ratio(channels(color), behind(node));
    checked++;
    least = Math.min(least, got / need);
    if (got < need) low.push(name + ': ' + got.toFixed(2) + ' < ' + need);
  };
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some(c => c.nodeType === 3 && c.textContent.trim());
    const style = getComputedStyle(node);
    if (own && node.getClientRects().length && !['SCRIPT', 'STYLE', 'OPTION'].includes(node.tagName)) {
      const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
      bound(node, node.tagName === 'text' ? style.fill : style.color, node.tagName + ' "' + node.textContent.trim().slice(0, 30) + '"', size, large ? 3 : 4.5);
    }
    if (node.matches('path.curve')) bound(node.closest('figure'), style.stroke, 'curve ' + node.className.baseVal, 0, 3);
    if (node.matches('.key, .bar > i, .progress > i')) bound(node.closest('section') || node.parentElement, style.backgroundColor, 'color ' + node.className, 0, 3);
    if (node.matches('button, select')) bound(node.parentElement, style.borderTopColor, 'edge of ' + node.tagName, 0, 3);
  }
  return {low, checked, least};
})()
"""

# The workers of which the bar shows a wait and the list does not name it, or the other way round.
WAITS_APART = r"""
(() => {
  const listed = [...document.querySelectorAll('#waits li')].filter(one => one.textContent.includes('waiting for')).map(one => one.querySelector('b').textContent);
  return [...document.querySelectorAll('#workers tr')].map(row => [row.querySelector('th').textContent, row.querySelectorAll('.bar')[1]?.ariaLabel ?? ''])
      .filter(([name, drawn]) => drawn.includes('waiting for') !== listed.includes(name)).map(([name]) => name);
})()
"""

# All that a keyboard should reach, in the order of the page.
REACHABLE = "[...document.querySelectorAll('a[href], button, select, [tabindex=\"0\"]')].filter(n => n.getClientRects().length).map(n => n.id || n.className)"
FOCUSED = "document.activeElement.id || document.activeElement.className"
# The log shows its last line.
LOG_AT_END = "(() => { const log = document.getElementById('log'); return log.scrollTop + log.clientHeight >= log.scrollHeight - 8; })()"


def watch_job(program, chromium, directory, start_job, check):
    flags = ["-n", "2", "-s", "2", "--kv-store", "dist_sync", "--num-epochs", "60", "--save-period", "2", "--metrics-addr", "127.0.0.1:0"]
    with start_job(program, flags) as job, browser.Browser(chromium) as page:
        address = job.wait_for(r"the live page is at (http://127.0.0.1:\d+/)")[1]
        page.size(1280, 900)
        page.prefer("light")
        page.open(address)
        check(page.wait_for("document.querySelectorAll('#workers tr').length === 2", 60), "no two workers on the page:\n" + job.output)
        page.image(directory / "start.png")
        check(page.wait_for("document.querySelectorAll('#svg-speed path.curve').length >= 3 && points.length > 6 && "
                            "document.querySelectorAll('#svg-loss path.curve').length && events.some(e => e[1] === 'checkpoint')", 90),
              "no curves:\n" + page.evaluate("document.body.innerText") + job.output)
        content(page, check)
        keyboard(page, check)
        looks(page, directory, check)
        trace(job, page, check)
        kill_worker(job, page, directory, check)
        check(not page.complaints(), f"the browser complains: {page.complaints()}")
        foreign = [one for one in page.addresses() if not one.startswith((address, "data:", "about:"))]
        check(not foreign, f"the page asked for {foreign}")
    ends_well(program, chromium, directory, start_job, check)


def content(page, check):
    text = page.evaluate("document.body.innerText")
    for wanted in ("lenet, dist_sync, 2 workers and 2 servers", "worker 0", "worker 1", "server 1", "running"):
        check(wanted in text, f"'{wanted}' is not on the page:\n{text}")
    check(page.evaluate("[...document.querySelectorAll('#workers .bar')].length") == 4, "no bars of time:\n" + text)
    apart = page.evaluate(WAITS_APART)
    check(not apart, f"the bars and the list of waits do not say the same about {apart}:\n{text}")
    check(page.evaluate("document.querySelectorAll('#staleness .bar').length") >= 1, "no staleness:\n" + text)
    check(page.evaluate("document.querySelector('#log').textContent.includes('Speed:')"), "no lines of the log:\n" + text)


def keyboard(page, check):
    """Tab reaches everything in order, what has the focus shows it, and the arrow keys read the curves."""
    page.evaluate("document.activeElement.blur(); document.body.focus()")
    wanted, reached = page.evaluate(REACHABLE), []
    for _ in wanted:
        page.press("Tab")
        reached.append(page.evaluate(FOCUSED))
        outline = page.evaluate("(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2; })()")
        check(outline, f"'{reached[-1]}' does not show that it has the focus")
    check(reached == wanted, f"Tab reaches {reached}, not {wanted}")
    page.evaluate("document.getElementById('svg-loss').focus()")
    page.press("End")
    page.press("ArrowLeft")
    readout = page.evaluate("document.getElementById('readout-loss').textContent")
    check(re.match(r"step [\d,]+, .*: loss [\d.]+", readout), f"the curve reads '{readout}'")
    page.press("Escape")
    check(page.evaluate("document.getElementById('readout-loss').textContent") == "", "Escape does not end the reading")
    page.evaluate("document.getElementById('by-step').focus()")
    page.press("Enter")
    check(page.evaluate("document.getElementById('by-step').getAttribute('aria-pressed')") == "true", "Enter does not press a button")
    page.evaluate("document.getElementById('by-time').click(); document.activeElement.blur()")


def looks(page, directory, check):
    """Images in both themes and on a phone, with the contrasts of each."""
    for name, scheme, width, height, mobile in (("middle", "light", 1280, 900, False), ("middle-dark", "dark", 1280, 900, False),
                                                ("phone", "light", 390, 844, True), ("phone-dark", "dark", 390, 844, True)):
        page.prefer(scheme)
        page.size(width, height, mobile)
        page.evaluate("new Promise(done => setTimeout(done, 300))")
        contrast = page.evaluate(CONTRAST)
        check(contrast["checked"] > 60 and not contrast["low"], f"{name}: contrast too low: {contrast}")
        print(f"page, {name}: {contrast['checked']} contrasts, the least is {contrast['least']:.2f} of what WCAG AA asks for", flush=True)
        wide = page.evaluate("document.documentElement.scrollWidth")
        check(wide <= width, f"{name}: the page is {wide} wide, the screen {width}")
        last = page.evaluate("lines.at(-1)[1]")
        check(page.wait_for(f"lines.at(-1)[1] !== {json.dumps(last)}", 60), f"{name}: the log goes on with no line")
        check(page.wait_for(LOG_AT_END, 5), f"{name}: the log does not show its last line after a change of the width")
        page.image(directory / f"{name}.png")
    page.prefer("light")
    page.size(1280, 900)


def trace(job, page, check):
    """The button has all processes write a trace."""
    page.evaluate("document.getElementById('trace').click()")
    check(page.wait_for("/^the steps \\d+ to \\d+ are traced$/.test(document.getElementById('trace').textContent)", 10), "the button does not say which steps are traced")
    job.wait_for(r"trace 1 covers the steps \d+ to \d+")


def kill_worker(job, page, directory, check):
    found = subprocess.run(["pgrep", "-f", "--", "--role worker --rank 1 --run-dir"], capture_output=True, text=True, check=False)
    victims = [int(pid) for pid in found.stdout.split() if os.path.exists(f"/proc/{pid}/cwd") and os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(job.directory.name)]
    check(len(victims) == 1, f"worker 1 is not one process: {victims}")
    os.kill(victims[0], signal.SIGSTOP)
    check(page.wait_for("document.getElementById('status').textContent.includes('no message from worker 1')", 30), "the silent worker is not shown")
    page.evaluate("window.scrollTo(0, 0)")
    page.image(directory / "silent.png")
    os.kill(victims[0], signal.SIGKILL)
    check(page.wait_for("document.getElementById('status').textContent === 'failed'", 60), "the end is not shown: " + page.evaluate("document.getElementById('status').textContent"))
    text = page.evaluate("document.getElementById('events').innerText")
    check("worker 1" in text and "loss" in text, f"the events do not tell of the loss:\n{text}")
    states = page.evaluate("[...document.querySelectorAll('#workers tr')].map(row => row.lastChild.textContent)")
    check(states == ["ended", "lost"], f"the rows of the workers say {states}")
    page.image(directory / "killed.png")


def ends_well(program, chromium, directory, start_job, check):
    """A short job of one process, to its end; the page stays as it is when the server is gone."""
    with start_job(program, ["--num-epochs", "3", "--num-batches", "500", "--metrics-addr", "127.0.0.1:0"]) as job, browser.Browser(chromium) as page:
        page.size(1280, 900)
        page.prefer("dark")
        page.open(job.wait_for(r"the live page is at (http://127.0.0.1:\d+/)")[1])
        check(page.wait_for("document.getElementById('status').textContent === 'ended'", 90), "the end is not shown:\n" + job.output)
        check(page.evaluate("document.getElementById('epoch').textContent") == "3 of 3", "not all epochs are shown")
        page.image(directory / "end.png")
