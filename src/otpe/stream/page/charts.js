"use strict";
// Numbers as people read them.
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

// A canvas as sharp as the screen, its colours those of the page.
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
// Grid and numbers; gives back where a value lies.
function axes({ g, width, height, colour }, [x0, x1], [y0, y1], sayX, sayY, name, left = 40) {
  const box = { left, right: width - 12, top: 8, bottom: height - 36 };
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
