"use strict";
// The data, the filters and what is drawn. Texts come from the dump: each goes through `esc` before it is markup.
const D = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const esc = s => String(s).replace(/[&<>"']/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}[c]));
const NONE = 4294967295;
function column(text, type) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new type(bytes.buffer);
}
const tracks = D.streams.map(s => {
  const t = {engine: s.engine, number: s.number, label: s.label, n: s.n};
  const step = column(s.start, Int32Array), length = column(s.length, Uint32Array);
  t.start = new Float64Array(s.n); t.end = new Float64Array(s.n);
  let at = s.first;
  for (let i = 0; i < s.n; i++) { at += step[i]; t.start[i] = at; t.end[i] = at + length[i]; }
  const types = {name: Uint16Array, cmd: Uint32Array, cycles: Uint32Array, rate: Float32Array, launch: Uint32Array, bytes: Uint32Array,
    layer: Uint16Array, count: Uint32Array, busy: Uint32Array, dep: Uint32Array};
  for (const key in types) t[key] = s[key] ? column(s[key], types[key]) : null;
  t.lmem = s.lmem ? {index: column(s.lmem.index, Uint32Array), addr: column(s.lmem.addr, Uint32Array),
    size: column(s.lmem.size, Uint32Array), write: column(s.lmem.write, Uint8Array)} : null;
  t.maxlen = 0; for (let i = 0; i < s.n; i++) t.maxlen = Math.max(t.maxlen, t.end[i] - t.start[i]);
  return t;
});
const blocks = !!D.reduced;
const kernelOf = l => l == NONE ? -1 : D.launch_kernel[l];
// Lanes of kernels and layers: from the first to the last command of each on a core.
function lane(number, key, none, label, name) {
  const spans = new Map();
  for (const t of tracks) if (t.number == number && t.engine != "CDMA" && t[key]) for (let i = 0; i < t.n; i++) {
    const k = t[key][i]; if (k === none) continue;
    const s = spans.get(k); if (s) { s[0] = Math.min(s[0], t.start[i]); s[1] = Math.max(s[1], t.end[i]); } else spans.set(k, [t.start[i], t.end[i]]);
  }
  const list = [...spans].sort((a, b) => a[1][0] - b[1][0]);
  return {label: `core ${number} ${label}`, number, names: list.map(s => name(s[0])), keys: list.map(s => s[0]), n: list.length, lane: key,
    start: Float64Array.from(list, s => s[1][0]), end: Float64Array.from(list, s => s[1][1]), maxlen: list.reduce((m, s) => Math.max(m, s[1][1] - s[1][0]), 0)};
}
const colours = {TIU: "#3f7de0", GDMA: "#e08a3f", SDMA: "#3fae74", CDMA: "#b05fd0"};
// A name has the same colour in every page: it is made of the name alone. The last steps part names that end in another digit.
const hue = name => {
  let h = 2166136261; for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 16777619);
  h = Math.imul(h ^ h >>> 16, 2246822507); h = Math.imul(h ^ h >>> 13, 3266489909);
  return ((h ^ h >>> 16) >>> 0) % 360;
};
const colour = name => `hsl(${hue(name)} 60% 55%)`;
const nameColour = D.names.map((n, i) => D.sync[i] ? "#9aa0ad" : colour(n));
let win = [0, D.total_ns], shown = [], lanes = [], pass = D.names.map(() => true), kernelPass = [], least = 0, lmemCore = null, chosen = null;
const engines = [...new Set(tracks.map(t => t.engine))], numbers = [...new Set(tracks.filter(t => t.engine != "CDMA").map(t => t.number))];
const allLanes = numbers.flatMap(c => [lane(c, "launch", NONE, "kernels", l => D.kernels[kernelOf(l)]), lane(c, "layer", 0, "layers", l => D.layers[l])]).filter(l => l.n);
$("title").textContent = D.title; $("about").textContent = D.about; $("damage").textContent = D.damage; $("reduced").textContent = [D.window, D.reduced].filter(Boolean).join(" ");
$("boxes").innerHTML = engines.map(e => `<label><input type="checkbox" data-engine="${e}" checked> <span class="key" style="background:${colours[e]}"></span>${e}</label>`).join(" ")
  + " · cores " + numbers.map(c => `<label><input type="checkbox" data-core="${c}" checked> ${c}</label>`).join(" ");
const off = k => new Set([...document.querySelectorAll(`input[data-${k}]`)].filter(b => !b.checked).map(b => b.dataset[k]));
function filter() {
  const oe = off("engine"), oc = off("core"), wanted = $("name").value.toLowerCase();
  shown = tracks.filter(t => t.n && !oe.has(t.engine) && (t.engine == "CDMA" || !oc.has(String(t.number))));
  lanes = allLanes.filter(l => !oc.has(String(l.number)));
  pass = D.names.map((n, i) => !wanted || n.toLowerCase().includes(wanted) || D.kinds[i].toLowerCase().includes(wanted));
  kernelPass = D.kernels.map(k => wanted && k.toLowerCase().includes(wanted));
  least = Number($("least").value) || 0;
  draw(); tables(oe.size || oc.size || wanted || least);
}
const passes = (t, i) => (pass[t.name[i]] || kernelPass[kernelOf(t.launch[i])]) && t.end[i] - t.start[i] >= least;
const lower = (a, x) => { let l = 0, h = a.length; while (l < h) { const m = (l + h) >> 1; a[m] < x ? l = m + 1 : h = m; } return l; };
const ns = x => x >= 1e9 ? (x / 1e9).toFixed(3) + " s" : x >= 1e6 ? (x / 1e6).toFixed(3) + " ms" : x >= 1e3 ? (x / 1e3).toFixed(3) + " µs" : Math.round(x) + " ns";
function show(from, to) {
  const len = Math.min(D.total_ns, Math.max(20, to - from)), start = Math.max(0, Math.min(D.total_ns - len, from));
  win = [start, start + len]; draw();
}
const zoom = (k, at = (win[0] + win[1]) / 2) => { const len = (win[1] - win[0]) * k, f = (at - win[0]) / (win[1] - win[0]); show(at - f * len, at + (1 - f) * len); };
function context(id, height) {
  const c = $(id), r = devicePixelRatio || 1, w = c.clientWidth;
  c.style.height = height + "px"; c.width = w * r; c.height = height * r;
  const g = c.getContext("2d"); g.setTransform(r, 0, 0, r, 0, 0); g.clearRect(0, 0, w, height);
  return [g, w];
}
const LEFT = 92, ROW = 20, TOP = 18, fg = () => getComputedStyle(document.body).color;
function axis(g, w, height) {
  const span = win[1] - win[0], raw = span / Math.max(2, (w - LEFT) / 110), p = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(k => k * p).find(s => s >= raw);
  g.fillStyle = fg(); g.font = "11px system-ui"; g.globalAlpha = .6;
  for (let t = Math.ceil(win[0] / step) * step; t <= win[1]; t += step) {
    const x = LEFT + (t - win[0]) / span * (w - LEFT);
    if (x < w - 40) g.fillText(ns(t), x + 3, 11);
    g.globalAlpha = .15; g.fillRect(x, 0, 1, height); g.globalAlpha = .6;
  }
  g.globalAlpha = 1;
}
// Draws the boxes of a track or lane in their row.
function row(g, w, t, y, name, paint, keep) {
  const scale = (w - LEFT) / (win[1] - win[0]);
  g.fillStyle = fg(); g.font = "12px system-ui"; g.fillText(t.label, 4, y + 14);
  let i = Math.max(0, lower(t.start, win[0] - t.maxlen)), edge = LEFT - 1;
  while (i < t.n && t.start[i] < win[1]) {
    const x0 = Math.max(LEFT, LEFT + (t.start[i] - win[0]) * scale), x1 = LEFT + (t.end[i] - win[0]) * scale;
    if (x1 >= LEFT && keep(i) && x1 > edge) {
      const width = Math.max(1, x1 - x0);
      g.fillStyle = paint(i); g.fillRect(x0, y + 2, width, ROW - 4);
      if (width > 46) { g.fillStyle = "#fff"; g.font = "11px system-ui"; g.save(); g.beginPath(); g.rect(x0, y, width, ROW); g.clip(); g.fillText(name(i), x0 + 4, y + 14); g.restore(); }
      edge = Math.max(edge, x0 + width - .5);
    }
    // Where many fall on one pixel the next one that can be seen is looked up.
    if (scale * 4 < 1 && x1 <= edge) i = Math.max(i + 1, lower(t.start, win[0] + (edge - LEFT + .5) / scale - t.maxlen)); else i++;
  }
}
const rows = () => [...lanes, ...shown];
function draw() {
  const all = rows(), height = TOP + all.length * ROW + 4, [g, w] = context("time", height);
  axis(g, w, height);
  all.forEach((t, k) => t.lane ? row(g, w, t, TOP + k * ROW, i => t.names[i], i => colour(t.names[i]), () => true)
    : row(g, w, t, TOP + k * ROW, i => D.names[t.name[i]], i => nameColour[t.name[i]], i => passes(t, i)));
  arrows(g, w, all);
  $("window").textContent = `${ns(win[0])} to ${ns(win[1])} (${ns(win[1] - win[0])})`;
  legend(); bandwidth(); local();
}
// The command that `i` waits for: the last one before it of the core's other engine that has the id it names.
function source(t, i) {
  const id = t.dep && t.dep[i]; if (!id) return null;
  const other = tracks.find(o => o.number == t.number && o.engine == (t.engine == "TIU" ? "GDMA" : "TIU"));
  if (!other) return null;
  const same = j => other.cmd[j] == id && other.launch[j] == t.launch[i] && other.end[j] <= t.start[i] + 50;
  for (let j = lower(other.start, t.start[i] + 50) - 1, k = 0; j >= 0 && k < 20000; j--, k++) if (same(j)) return [other, j];
  return null;
}
function arrows(g, w, all) {
  const scale = (w - LEFT) / (win[1] - win[0]), x = ns => LEFT + (ns - win[0]) * scale, list = [];
  for (const t of shown) if (t.dep) {
    const from = lower(t.start, win[0]), to = lower(t.start, win[1]);
    if (to - from <= (w - LEFT) / 24) for (let i = from; i < to; i++) if (t.dep[i] && passes(t, i)) list.push([t, i]);
  }
  if (chosen && !list.some(c => c[0] == chosen[0] && c[1] == chosen[1])) list.push(chosen);
  for (const [t, i] of list) {
    const s = source(t, i), a = s && all.indexOf(s[0]), b = all.indexOf(t); if (!s || a < 0 || b < 0) continue;
    const bold = chosen && chosen[0] == t && chosen[1] == i;
    const x0 = x(s[0].end[s[1]]), x1 = x(t.start[i]), y0 = TOP + a * ROW + ROW / 2, y1 = TOP + b * ROW + ROW / 2;
    if (Math.max(x0, x1) < LEFT || Math.min(x0, x1) > w) continue;
    g.save(); g.beginPath(); g.rect(LEFT, 0, w - LEFT, TOP + all.length * ROW); g.clip();
    g.strokeStyle = g.fillStyle = fg(); g.globalAlpha = bold ? 1 : .35; g.lineWidth = bold ? 2 : 1;
    g.beginPath(); g.moveTo(x0, y0); g.bezierCurveTo(x0 + 12, y0, x1 - 12, y1, x1, y1); g.stroke();
    g.beginPath(); g.moveTo(x1, y1); g.lineTo(x1 - 5, y1 - 3); g.lineTo(x1 - 5, y1 + 3); g.fill(); g.restore();
  }
}
function legend() {
  const time = new Map();
  for (const t of shown) for (let i = Math.max(0, lower(t.start, win[0] - t.maxlen)), k = 0; i < t.n && t.start[i] < win[1] && k < 200000; i++, k++)
    if (t.end[i] > win[0] && passes(t, i)) time.set(t.name[i], (time.get(t.name[i]) || 0) + t.end[i] - t.start[i]);
  const seen = new Set(), top = [...time].sort((a, b) => b[1] - a[1]).filter(([n]) => !seen.has(D.names[n]) && seen.add(D.names[n])).slice(0, 14);
  $("legend").innerHTML = top.map(([n]) => `<span data-name="${n}" title="click: only these"><span class="key" style="background:${nameColour[n]}"></span>${esc(D.names[n])}</span>`).join("");
}
function bandwidth() {
  const [g, w] = context("band", 150), bins = Math.max(10, Math.floor((w - LEFT) / 3)), span = win[1] - win[0], H = 130;
  axis(g, w, 150);
  const kinds = engines.filter(e => e != "TIU"), sums = {}; let top = 1e-9;
  for (const e of kinds) {
    const s = sums[e] = new Float64Array(bins);
    for (const t of shown) if (t.engine == e && t.bytes) {
      for (let i = Math.max(0, lower(t.start, win[0] - t.maxlen)); i < t.n && t.start[i] < win[1]; i++) {
        if (!passes(t, i) || !t.bytes[i]) continue;
        const a = Math.max(0, (t.start[i] - win[0]) / span * bins), b = Math.min(bins, Math.max(a + 1e-9, (t.end[i] - win[0]) / span * bins));
        const rate = t.bytes[i] / Math.max(1, t.end[i] - t.start[i]);
        for (let k = Math.floor(a); k < b && k < bins; k++) s[k] += rate * (Math.min(b, k + 1) - Math.max(a, k));
      }
    }
    for (const v of s) top = Math.max(top, v);
  }
  const cores = new Set(shown.map(t => t.number)).size, limits = D.limits.filter(l => l[1] > 0).map(([name, gbps]) => [name, gbps * cores]);
  for (const [, limit] of limits) top = Math.max(top, limit);
  g.setLineDash([5, 4]); g.strokeStyle = fg(); g.fillStyle = fg(); g.font = "11px system-ui"; g.globalAlpha = .6;
  for (const [name, limit] of limits) {
    const y = 146 - limit / top * (H - 6);
    g.beginPath(); g.moveTo(LEFT, y); g.lineTo(w, y); g.stroke(); g.fillText(`${name} limit ${limit.toFixed(1)}`, w - 118, y + 12);
  }
  g.setLineDash([]); g.globalAlpha = 1;
  g.fillStyle = fg(); g.font = "11px system-ui"; g.fillText(top.toFixed(1) + " GB/s", 4, 24); g.fillText("0", 4, 145);
  for (const e of kinds) {
    g.strokeStyle = colours[e]; g.beginPath();
    sums[e].forEach((v, k) => { const x = LEFT + k / bins * (w - LEFT), y = 146 - v / top * (H - 6); k ? g.lineTo(x, y) : g.moveTo(x, y); });
    g.stroke();
  }
  $("bandkey").innerHTML = kinds.map(e => `<span><span class="key" style="background:${colours[e]}"></span>${e}</span>`).join("");
}
let boxes = [];
function local() {
  const with_ = [...new Set(tracks.filter(t => t.lmem).map(t => t.number))];
  $("lmemsection").hidden = !with_.length; if (!with_.length) return;
  if (lmemCore === null) { lmemCore = with_[0];
    $("lmemcores").innerHTML = with_.map(c => `<label><input type="radio" name="lc" value="${c}" ${c == lmemCore ? "checked" : ""}> core ${c}</label>`).join(" ");
    $("lmemcores").onchange = e => { lmemCore = Number(e.target.value); local(); }; }
  const [g, w] = context("lmem", 240), scale = (w - LEFT) / (win[1] - win[0]), H = 216; axis(g, w, 240); boxes = [];
  g.fillStyle = fg(); g.font = "11px system-ui"; g.fillText("0x" + D.lane_bytes.toString(16), 4, 26); g.fillText("0x0 (lane)", 4, 234);
  for (const t of tracks) if (t.lmem && t.number == lmemCore && shown.includes(t)) {
    const m = t.lmem;
    for (let k = 0; k < m.index.length; k++) {
      const i = m.index[k]; if (t.end[i] < win[0] || t.start[i] > win[1] || !passes(t, i)) continue;
      const x = Math.max(LEFT, LEFT + (t.start[i] - win[0]) * scale), x1 = LEFT + (t.end[i] - win[0]) * scale;
      const hgt = Math.max(1.5, m.size[k] / D.lane_bytes * H), y = TOP + H - (m.addr[k] + m.size[k]) / D.lane_bytes * H;
      g.fillStyle = m.write[k] ? "#d9534fcc" : "#3f7de0aa"; g.fillRect(x, y, Math.max(1, x1 - x), hgt);
      if (boxes.length < 20000) boxes.push([x, y, Math.max(2, x1 - x), hgt, t, i, m.addr[k], m.size[k], m.write[k]]);
    }
  }
  g.fillStyle = "#d9534f"; g.fillRect(4, 60, 9, 9); g.fillStyle = "#3f7de0"; g.fillRect(4, 78, 9, 9);
  g.fillStyle = fg(); g.fillText("written", 18, 69); g.fillText("read", 18, 87);
}
