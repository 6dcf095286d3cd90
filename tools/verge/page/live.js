"use strict";
// The live page of `verge serve`: draws what /events tells, sends what the form says to /control.

(() => {
  const byId = (id) => document.getElementById(id);
  const token = document.querySelector('meta[name="token"]').content;
  const mostSamples = 240;       // a minute, at four a second
  const quietFor = 3000;         // ms without a sample: the connection is lost
  const retryAfter = 1000;       // ms
  let samples = [];
  let boot = null;               // of the server that this page is from
  let source = null;
  let lastHeard = 0;

  // ---- numbers -------------------------------------------------------------------------------

  const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  // Three digits, and no zeros at the end.
  const brief = (value) => String(Number(value.toPrecision(3)));
  const short = (value) => {
    const size = Math.abs(value);
    if (size >= 1e9) return brief(value / 1e9) + " G";
    if (size >= 1e6) return brief(value / 1e6) + " M";
    if (size >= 1e4) return brief(value / 1e3) + " k";
    return brief(value);
  };
  // Microseconds, as [number, unit].
  const time = (us) =>
    us === 0 ? ["–", ""]
    : us >= 1e6 ? [(us / 1e6).toPrecision(3), "s"]
    : us >= 1e3 ? [(us / 1e3).toPrecision(3), "ms"]
    : [us >= 100 ? us.toFixed(0) : us.toPrecision(2), "µs"];
  const timeText = (us) =>
    us >= 1e6 ? brief(us / 1e6) + " s" : us >= 1e3 ? brief(us / 1e3) + " ms" : brief(us) + " µs";

  const show = (id, text, unit) => {
    const at = byId(id);
    at.textContent = text;
    if (unit) {
      const small = document.createElement("small");
      small.textContent = " " + unit;
      at.append(small);
    }
  };

  // ---- charts --------------------------------------------------------------------------------

  const roundStep = (most, count) => {
    const raw = Math.max(most, 1e-9) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((f) => f * power).find((step) => step >= raw * 0.999);
  };

  // The upright axis: where the grid lines are, and the share of the height that a value has.
  const linear = (values) => {
    const most = Math.max(0, ...values);
    const step = roundStep(most || 1, 4);
    const end = step * Math.max(1, Math.ceil((most / step) * 0.999));
    const lines = [];
    for (let value = 0; value <= end * 1.001; value += step) lines.push(value);
    return { lines, share: (value) => value / end, skips: () => false };
  };
  // From 1 to 10 and so on: the median and the worst are both to be seen.
  const logarithmic = (values) => {
    const positive = values.filter((value) => value > 0);
    const low = Math.max(0, Math.floor(Math.log10(Math.min(10, ...positive))));
    const high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(1, ...positive))));
    const lines = [];
    for (let power = low; power <= high; ++power) lines.push(10 ** power);
    const share = (value) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low);
    return { lines, share, skips: (value) => value <= 0 };  // no time-out fired: no lateness
  };

  // Lines over the last minute; a series is [name of the figure, number of the colour].
  const draw = (id, series, scale, label) => {
    const canvas = byId(id);
    const pixels = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (width === 0) return;
    if (canvas.width !== Math.round(width * pixels) || canvas.height !== Math.round(height * pixels)) {
      canvas.width = Math.round(width * pixels);
      canvas.height = Math.round(height * pixels);
    }
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const g = canvas.getContext("2d");
    g.setTransform(pixels, 0, 0, pixels, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = "12px system-ui, sans-serif";

    const now = samples.length ? samples[samples.length - 1].seconds : 0;
    const seen = samples.length ? now - samples[0].seconds : 0;
    const span = Math.min(60, Math.max(10, seen));  // grows until it is a minute
    const shown = samples.filter((sample) => sample.seconds >= now - span - 1);
    const axis = scale(shown.flatMap((sample) => series.map(([name]) => sample[name] || 0)));
    const left = 58, right = 6, top = 8, bottom = 20;
    const y = (value) => height - bottom - (height - bottom - top) * axis.share(value);
    const x = (seconds) => width - right - ((width - right - left) * (now - seconds)) / span;

    g.fillStyle = colour("--faint");
    g.textBaseline = "middle";
    g.textAlign = "right";
    g.lineWidth = 1;
    g.strokeStyle = colour("--line");
    for (const value of axis.lines) {
      g.beginPath();
      g.moveTo(left, y(value));
      g.lineTo(width - right, y(value));
      g.stroke();
      g.fillText(label(value), left - 6, y(value));
    }
    g.textBaseline = "alphabetic";
    for (let ago = 0, step = roundStep(span, 4); ago <= span; ago += step) {
      g.textAlign = ago === 0 ? "right" : x(now - ago) < left + 16 ? "left" : "center";
      g.fillText(ago === 0 ? "now" : `−${ago} s`, x(now - ago), height - 4);
    }

    g.save();
    g.beginPath();
    g.rect(left, 0, width - right - left, height);
    g.clip();
    g.lineWidth = 1.8;
    g.lineJoin = "round";
    for (const [name, number] of series) {
      g.strokeStyle = colour(`--series-${number}`);
      g.beginPath();
      for (const sample of shown) {
        const value = sample[name] || 0;
        if (!axis.skips(value)) g.lineTo(x(sample.seconds), y(value));
      }
      g.stroke();
    }
    g.restore();
  };

  const showWorkers = (busy) => {
    const list = byId("workers");
    if (list.children.length !== busy.length || !list.querySelector(".bar")) {
      list.classList.toggle("few", busy.length <= 6);
      list.replaceChildren(...busy.map((_, i) => {
        const item = document.createElement("li");
        const name = document.createElement("span");
        const bar = document.createElement("div");
        const text = document.createElement("span");
        name.textContent = i + 1;
        bar.className = "bar";
        bar.setAttribute("role", "meter");
        bar.setAttribute("aria-valuemax", "100");
        bar.setAttribute("aria-label", `worker ${i + 1}, busy in percent`);
        bar.append(document.createElement("div"));
        item.append(name, bar, text);
        return item;
      }));
    }
    busy.forEach((share, i) => {
      const [, bar, text] = list.children[i].children;
      const percent = Math.round(Math.min(1, share) * 100);
      bar.setAttribute("aria-valuenow", percent);
      bar.firstChild.style.width = `${percent}%`;
      text.textContent = `${percent} %`;
    });
  };

  const drawAll = () => {
    draw("chart-late", [["late_p50_us", 0], ["late_p99_us", 1]], logarithmic, timeText);
    draw("chart-rate", [["calls_per_second", 2]], linear, short);
    draw("chart-pending", [["pending", 3]], linear, short);
  };

  // ---- one sample ----------------------------------------------------------------------------

  let asked = false;  // to be drawn
  const redraw = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; drawAll(); });
  };

  const showNow = () => {
    if (samples.length === 0) return;
    const now = samples[samples.length - 1];
    show("rate", grouped.format(now.calls_per_second));
    show("pending", grouped.format(now.pending));
    show("p50", ...time(now.late_p50_us));
    show("p99", ...time(now.late_p99_us));
    show("cpu", now.processors.toFixed(2));
    show("memory", (now.resident_bytes / 2 ** 20).toFixed(0), "MiB");
    for (const name of ["calls", "answered", "timed_out", "retried", "given_up", "on_their_way",
                        "fired", "cancelled"]) {
      show("sum-" + name, grouped.format(now[name]));
    }
    const check = byId("check");
    check.textContent = now.early === 0 ? "No time-out has fired early."
                                        : `${grouped.format(now.early)} time-outs have fired early!`;
    check.className = now.early === 0 ? "good" : "bad";
    showWorkers(now.worker_busy);
    showSettings(now.settings);
    redraw();
  };

  // ---- controls ------------------------------------------------------------------------------

  const inputs = { rate: byId("in-rate"), timeout: byId("in-timeout"), engine: byId("in-engine") };
  const setTo = (settings) => ({
    rate: String(Math.round(settings.rate * 100) / 100),
    timeout: String(Math.round(settings.timeout_ms * 1000) / 1000),
    engine: settings.engine,
  });
  // What the server has, unless somebody is changing it here.
  const showSettings = (settings) => {
    const has = setTo(settings);
    for (const [name, input] of Object.entries(inputs)) {
      if (!input.classList.contains("changed")) input.value = has[name];
    }
  };
  for (const input of Object.values(inputs)) {
    input.addEventListener("input", () => input.classList.add("changed"));
  }
  const say = (text, bad) => {
    byId("said").textContent = text;
    byId("said").className = bad ? "bad" : "good";
  };
  byId("controls").addEventListener("submit", async (event) => {
    event.preventDefault();
    byId("apply").disabled = true;
    try {
      const response = await fetch("/control", {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Verge-Token": token },
        body: JSON.stringify({
          rate: Number(inputs.rate.value),
          timeout: inputs.timeout.value + "ms",
          engine: inputs.engine.value,
        }),
      });
      if (!response.ok) throw new Error((await response.text()).trim().replace(/^\d+: /, ""));
      const settings = await response.json();
      for (const input of Object.values(inputs)) input.classList.remove("changed");
      showSettings(settings);
      say(`Now ${grouped.format(settings.rate)} calls a second, ${settings.timeout_ms} ms, ` +
          `engine ${settings.engine}.`, false);
    } catch (error) {
      say(`Not changed: ${error.message}`, true);
    }
    byId("apply").disabled = false;
  });

  // ---- the connection ------------------------------------------------------------------------

  const link = (state, text) => {
    const at = byId("link");
    if (at.classList.contains(state) && byId("link-text").textContent === text) return;
    at.className = "link " + state;
    byId("link-text").textContent = text;
    document.body.classList.toggle("stale", state === "lost");
  };
  const heard = () => {
    lastHeard = performance.now();
    link("live", "live");
  };
  const connect = () => {
    if (source) source.close();
    source = new EventSource("/events");
    source.addEventListener("history", (event) => {
      const told = JSON.parse(event.data);
      // A server that was started again has another token: get its page.
      if (boot !== null && boot !== told.boot) return location.reload();
      boot = told.boot;
      samples = told.samples;
      heard();
      showNow();
    });
    source.addEventListener("sample", (event) => {
      samples.push(JSON.parse(event.data));
      while (samples.length > mostSamples) samples.shift();
      heard();
      showNow();
    });
    source.addEventListener("error", () => {
      link("lost", "connection lost, trying again");
      // The browser tries again by itself, but not after an answer that was no stream.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, retryAfter);
    });
  };
  // A connection may also be lost without a word.
  setInterval(() => {
    if (lastHeard !== 0 && performance.now() - lastHeard > quietFor) {
      link("lost", "nothing heard, trying again");
      lastHeard = performance.now();
      connect();
    }
  }, 1000);

  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("pagehide", () => source.close());
  // A page that comes back from the browser's cache has no connection.
  window.addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
  connect();
})();
