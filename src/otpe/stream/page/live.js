// Numbers as text.
const whole = (x) => Math.round(x).toLocaleString("en");
const share = (x) => (x === null || x === undefined ? "–" : x.toFixed(3));
const short = (x) => (x >= 1e6 ? `${+(x / 1e6).toPrecision(3)}M` : x >= 1e4 ? `${+(x / 1e3).toPrecision(3)}k` : whole(x));
const speed = (x) => (x >= 100 ? whole(x) : x.toPrecision(2));
const took = (s) => (s >= 1 ? `${s.toPrecision(3)} s` : s >= 1e-3 ? `${(s * 1e3).toPrecision(3)} ms` : `${Math.round(s * 1e6)} µs`);
const bytes = (x) => {
  if (x === null) return "not known";
  const [size, unit] = x >= 1e9 ? [1e9, "GB"] : x >= 1e6 ? [1e6, "MB"] : x >= 1e3 ? [1e3, "kB"] : [1, "bytes"];
  return `${+(x / size).toPrecision(3)} ${unit}`;
};
const ago = (s) => (s >= 5400 ? `${(s / 3600).toFixed(1)} h` : s >= 90 ? `${Math.round(s / 60)} min` : `${+s.toPrecision(2)} s`);

// A canvas in the resolution of the screen, with the colours of the page.
function paper(canvas) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const g = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return { g, width, height, colour: (name) => style.getPropertyValue(`--${name}`).trim() };
}
function steps(low, high, most) {
  const rough = (high - low) / most || 1, power = 10 ** Math.floor(Math.log10(rough));
  const by = [1, 2, 5, 10].find((k) => k * power >= rough) * power, found = [];
  for (let at = Math.ceil(low / by) * by; at <= high + by * 1e-6; at += by) found.push(+at.toPrecision(12));
  return found;
}
// Draws grid and numbers. Returns the area, and functions from a value to its pixel.
function axes({ g, width, height, colour }, [x0, x1], [y0, y1], sayX, sayY, name, left = 40, top = 8) {
  const box = { left, right: width - 12, top, bottom: height - 36 };
  const x = (v) => box.left + (x1 > x0 ? (v - x0) / (x1 - x0) : 1) * (box.right - box.left);
  const y = (v) => box.bottom - ((v - y0) / (y1 - y0 || 1)) * (box.bottom - box.top);
  g.lineWidth = 1;
  g.strokeStyle = colour("line");
  g.fillStyle = colour("soft");
  g.textAlign = "right";
  g.textBaseline = "middle";
  for (const v of sayY ? steps(y0, y1, 5) : []) {
    g.beginPath(); g.moveTo(box.left, Math.round(y(v)) + 0.5); g.lineTo(box.right, Math.round(y(v)) + 0.5); g.stroke();
    g.fillText(sayY(v), box.left - 7, y(v));
  }
  g.textBaseline = "top";
  for (const v of steps(x0, x1, Math.max(2, width / 110))) {
    const text = sayX(v), half = g.measureText(text).width / 2;
    g.textAlign = "center";
    g.fillText(text, Math.max(half, Math.min(width - half, x(v))), box.bottom + 5);
  }
  g.textBaseline = "alphabetic";
  g.fillText(name, (box.left + box.right) / 2, height - 3);
  return { ...box, x, y };
}
function line({ g, colour }, at, xs, ys, name, wide = 2) {
  g.strokeStyle = colour(name);
  g.lineWidth = wide;
  g.lineJoin = "round";
  g.beginPath();
  xs.forEach((v, i) => g.lineTo(at.x(v), at.y(ys[i])));
  g.stroke();
  if (xs.length === 1) { g.fillStyle = colour(name); g.fillRect(at.x(xs[0]) - 2, at.y(ys[0]) - 2, 4, 4); }
}

(() => {
  const EVERY = 250, AGAIN = 1000, PATIENCE = 5000, QUIET = 2, LEFT = 40; // milliseconds, seconds without a step, and pixels left of a curve
  const $ = (id) => document.getElementById(id);
  let now = null, rows = [], pointer = null, over = false;

  const put = (id, text, small) => {
    const node = $(id), note = document.createElement("small");
    note.textContent = small || "";
    node.replaceChildren(text, ...(small ? [note] : []));
  };

  function curve() {
    const sheet = paper($("curve")), { sliding, score } = now, [xs, accuracy, recent] = now.curve;
    const range = [xs.length > 1 ? xs[0] : 0, xs.at(-1) || 1], past = now.changes.filter(([step]) => step < score.steps);
    const names = rowsOf(sheet, past.filter(([step]) => step >= range[0]), range);
    const at = axes(sheet, range, [0, 1], short, (v) => v.toFixed(1), "time steps", LEFT, 8 + 15 * names.rows);
    chance(sheet, at);
    marks(sheet, at, names.placed);
    const first = sliding.from === null ? xs.length : xs.findIndex((v) => v >= sliding.from);
    if (first >= 0 && first < xs.length) {
      line(sheet, at, xs.slice(first), accuracy.slice(first), "whole");
      line(sheet, at, xs.slice(first), recent.slice(first), "recent", 2.4);
    }
    let about = "Every step is predicted first, then learned from.";
    if (sliding.from === null) {
      about = sliding.needed === null ? "No label has come yet." : `The curves begin with ${whole(sliding.needed)} labels: ${whole(score.labelled)} are there.`;
    }
    if (pointer !== null && xs.length) {
      let best = 0;
      xs.forEach((v, i) => { if (Math.abs(at.x(v) - pointer) < Math.abs(at.x(xs[best]) - pointer)) best = i; });
      sheet.g.fillStyle = sheet.colour("soft");
      sheet.g.fillRect(at.x(xs[best]), at.top, 1, at.bottom - at.top);
      about = `Step ${whole(xs[best])}: window ${share(recent[best])}, whole ${share(accuracy[best])}.`;
    }
    $("curve-about").textContent = about;
    const named = (each) => each.map(([step, name]) => `${name} at step ${whole(step)}`).join("; ");
    const next = now.changes.filter(([step]) => step >= score.steps), parts = [];
    if (past.length) parts.push(`Changes: ${named(past)}.`);
    if (next.length) parts.push(`To come: ${named(next)}.`);
    $("changes").textContent = parts.join(" ");
    $("curve").setAttribute("aria-label", `Accuracy over time steps: now ${share(score.recent)} in the window, ${share(score.accuracy)} in all`);
  }
  function chance({ g, colour }, at) {
    const y = Math.round(at.y(now.chance)) + 0.5;
    g.strokeStyle = colour("soft");
    g.lineWidth = 1.5;
    g.setLineDash([5, 4]);
    g.beginPath(); g.moveTo(at.left, y); g.lineTo(at.right, y); g.stroke();
    g.setLineDash([]);
  }
  // The name of a change stands above its line, in the first of three rows with room for it. The text below has all.
  function rowsOf({ g, width }, changes, [x0, x1]) {
    const ends = [];
    const placed = changes.map(([step, name]) => {
      const text = `${name} @ ${short(step)}`, wide = g.measureText(text).width;
      const middle = LEFT + ((step - x0) / (x1 - x0 || 1)) * (width - 12 - LEFT);
      const left = Math.max(LEFT, Math.min(width - wide - 2, middle - wide / 2));
      const row = [0, 1, 2].find((k) => ends[k] === undefined || ends[k] + 8 <= left);
      if (row !== undefined) ends[row] = left + wide;
      return { step, text, left, row };
    });
    return { placed, rows: ends.length };
  }
  function marks({ g, colour }, at, placed) {
    g.fillStyle = colour("ink");
    g.textAlign = "left";
    g.textBaseline = "middle";
    for (const { step, text, left, row } of placed) {
      g.fillRect(Math.round(at.x(step)) - 1, at.top - 3, 2, at.bottom - at.top + 3);
      if (row !== undefined) g.fillText(text, left, at.top - 11 - 15 * row);
    }
  }

  // The newest step at the right edge; time counts backwards from there. Whole pixels, so that bars have no seams.
  function raster(id, count, paint) {
    const { length, dt } = now.raster, sheet = paper($(id)), { g, colour } = sheet;
    const say = (v) => (v === 0 ? "now" : `−${dt ? `${-v} s` : whole(-v)}`);
    const at = axes(sheet, [-length * (dt || 1), 0], [0, 1], say, null, dt ? "seconds" : "time steps", margin());
    const x = (i) => Math.round(at.right - (rows.length - i) * (at.right - at.left) / length);
    const y = (row) => at.top + row * (at.bottom - at.top) / count;
    const mark = (i, from, to, share = 1, least = 1) =>
      g.fillRect(x(i), y(from), Math.max(1, (x(i + 1) - x(i)) * share), Math.max(least, y(to) - y(from)));
    g.fillStyle = colour("shade");
    g.fillRect(at.left, at.top, at.right - at.left, at.bottom - at.top);
    g.fillStyle = colour("line");
    rows.forEach((row, i) => { if (row.reset) g.fillRect(x(i), at.top, 1, at.bottom - at.top); });
    paint(mark, g, colour);
    $(id).setAttribute("aria-label", `${id === "inputs" ? "Input" : "Output"} spikes of the last ${rows.length} time steps`);
    g.fillStyle = colour("soft");
    g.textAlign = "right";
    g.textBaseline = "middle";
    return { g, y, left: at.left - 7, high: y(1) - y(0) };
  }
  const cut = (name) => (name.length > 14 ? `${name.slice(0, 13)}…` : name);
  const margin = () => Math.max(40, Math.min(110, 14 + 7 * Math.max(...now.classes.map((name) => cut(name).length))));
  function inputs() {
    const { units, every } = now.raster;
    const { g, y, left } = raster("inputs", Math.ceil(units / every), (mark, g, colour) => {
      g.fillStyle = colour("ink");
      rows.forEach((row, i) => { for (const unit of row.inputs) mark(i, unit + 0.1, unit + 0.9, 0.8, 1.3); });
    });
    for (const unit of steps(0, units - 1, 5)) g.fillText(whole(unit), left, y(unit / every + 0.5));
    const thin = every > 1 ? `Of ${whole(units)} units, one in ${every} is shown.` : `${whole(units)} units.`;
    $("inputs-about").textContent = `A dot for every unit and time step with a spike. ${thin}`;
  }
  function outputs() {
    const { g, y, left, high } = raster("outputs", now.classes.length, (mark, g, colour) => {
      g.fillStyle = colour("band");
      rows.forEach((row, i) => { if (row.label >= 0) mark(i, row.label, row.label + 1); });
      g.fillStyle = colour("ink");
      rows.forEach((row, i) => { for (const k of row.outputs) mark(i, k + 0.12, k + 0.62, 0.6); });
      rows.forEach((row, i) => {
        g.fillStyle = colour(row.label < 0 ? "soft" : row.label === row.predicted ? "good" : "bad");
        if (row.predicted >= 0) mark(i, row.predicted + 0.76, row.predicted + 0.94, 1, 2);
      });
    });
    const every = Math.ceil(13 / high);
    now.classes.forEach((name, k) => { if (k % every === 0) g.fillText(cut(name), left, y(k + 0.5)); });
  }
  function course() {
    const sheet = paper($("course")), points = now.memory.course, top = Math.max(1, ...points.map((p) => p[1])) * 1.15;
    const [size, unit] = top >= 2e9 ? [1e9, "GB"] : [1e6, "MB"];
    const at = axes(sheet, [0, Math.max(1, now.seconds)], [0, top / size], ago, (v) => `${v}`, "since the start", 44);
    line(sheet, at, points.map((p) => p[0]), points.map((p) => p[1] / size), "whole");
    const what = now.memory.peak ? "Most memory so far" : "Memory";
    $("course-name").textContent = $("memory-name").textContent = what;
    $("course-about").textContent = `${unit} of the whole process.`;
    $("course").setAttribute("aria-label", `${what} over time: now ${bytes(now.memory.resident)}`);
  }

  function rates() {
    $("rates").replaceChildren(...now.rates.map(([name, size, rate]) => {
      const item = document.createElement("li"), head = document.createElement("span"), bar = document.createElement("div");
      const who = document.createElement("em"), value = document.createElement("b"), fill = document.createElement("i");
      who.textContent = `${name}, ${whole(size)}`;
      value.textContent = share(rate);
      fill.style.width = `${Math.min(1, rate) * 100}%`; // the same scale always, so that bars do not jump
      head.append(who, value);
      bar.append(fill);
      item.append(head, bar);
      return item;
    }));
    $("rates-about").textContent = `Spikes per unit and time step, mean of the last ${whole(now.raster.length)}. Bars go from 0 to 1.`;
  }
  function confusions() {
    const { labels, rows: pairs } = now.confusions, name = (k) => (k < 0 ? "silent" : now.classes[k]);
    $("confusions").replaceChildren(...pairs.map(([label, predicted, count]) => {
      const row = document.createElement("tr");
      for (const text of [name(label), name(predicted), whole(count), `${((100 * count) / labels).toFixed(1)} %`]) {
        row.append(Object.assign(document.createElement("td"), { textContent: text }));
      }
      return row;
    }));
    $("confusions").parentNode.hidden = !pairs.length;
    const none = labels ? "No wrong prediction" : "No label";
    $("confusions-about").textContent = pairs.length ? `The most frequent of the last labels, n = ${whole(labels)}.` : `${none} yet, n = ${whole(labels)}.`;
  }
  function numbers() {
    const { score, latency, memory, skipped, classes } = now, last = rows.at(-1);
    $("title").textContent = now.title;
    document.title = score.recent === null ? now.title : `${share(score.recent)} · ${now.title}`;
    const { sequences } = now, of = (n) => (n === null ? "" : `, n = ${whole(n)}`);
    $("window").textContent = score.window ? `last ${whole(score.window)} labels${of(now.sliding.labels)}` : "sliding window";
    $("span").textContent = now.sliding.span ? `last ${whole(now.sliding.span)} labels` : "sliding window";
    $("all").textContent = `whole stream${of(score.labelled)}`;
    $("endings").textContent = `last ones, n = ${whole(sequences.window)}`;
    put("sequences", share(sequences.recent), sequences.all ? `all: ${share(sequences.accuracy)}, n = ${whole(sequences.all)}` : "none has ended");
    put("recent", share(score.recent));
    put("accuracy", share(score.accuracy));
    put("steps", whole(score.steps), `${whole(score.labelled)} with a label`);
    put("speed", speed(now.speed), `for ${ago(now.seconds)}`);
    if (latency) put("latency", took(latency.p50), `99 %: ${took(latency.p99)}\nworst: ${took(latency.worst)}`);
    put("memory", bytes(memory.resident), now.learner === null ? "" : `learner: ${bytes(now.learner)}`);
    const kinds = Object.entries(skipped);
    put("skipped", whole(kinds.reduce((sum, [, n]) => sum + n, 0)), kinds.map(([kind, n]) => `${kind}: ${whole(n)}`).join(" · ") || "nothing");
    if (!last) return;
    const known = last.label >= 0, verdict = last.label === last.predicted ? "right" : "wrong";
    put("decision", last.predicted < 0 ? "silent" : classes[last.predicted], known ? `${verdict}, label: ${classes[last.label]}` : "no label");
    $("decision").className = known ? verdict : "";
  }
  function draw() {
    if (now) [curve, inputs, outputs, course].forEach((each) => each());
  }

  // Screen readers announce a change only, not every answer.
  function say(state, text, why) {
    const node = $("state");
    if (node.textContent !== text) node.textContent = text;
    node.className = `state ${state}`;
    if ($("why").textContent !== why) $("why").textContent = why;
    document.body.classList.toggle("lost", state === "lost");
  }
  function take(answer) {
    const { raster } = answer, resets = new Set(raster.resets);
    rows = raster.inputs.map((inputs, i) => ({
      inputs, outputs: raster.outputs[i], label: raster.labels[i], predicted: raster.predicted[i], reset: resets.has(i),
    }));
    now = answer;
    over = now.state === "over";
    const waits = now.state === "waiting" || now.idle > QUIET;
    if (over) say("over", "over", now.why);
    else if (waits) say("waiting", "waiting", now.state === "waiting" ? "No step has come yet." : "No step has come for a while.");
    else say("running", "live", `A network of ${now.rates.map((each) => each[1]).join("-")}.`);
    numbers();
    rates();
    confusions();
    draw();
  }

  // The next request is sent a little after every answer, and none while the page is hidden.
  let timer = 0, asking = false;
  async function get() {
    try {
      const answer = await fetch("now", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
      return answer.ok ? await answer.json() : null;
    } catch { return null; }
  }
  async function ask() {
    clearTimeout(timer);
    if (document.hidden || asking) return;
    asking = true;
    const found = await get();
    asking = false;
    timer = setTimeout(ask, found && found.state !== "over" ? EVERY : AGAIN);
    if (found) take(found);
    else if (!over) say("lost", "connection lost", now ? "These are the last numbers that came. Trying again." : "Nobody answers. Trying again.");
  }
  document.addEventListener("visibilitychange", ask);
  addEventListener("themechange", draw);
  addEventListener("resize", draw);
  const follow = (event) => { pointer = event.clientX - $("curve").getBoundingClientRect().left; if (now) curve(); };
  $("curve").addEventListener("pointermove", follow);
  $("curve").addEventListener("pointerdown", follow);
  $("curve").addEventListener("pointerleave", () => { pointer = null; if (now) curve(); });
  ask();
})();
