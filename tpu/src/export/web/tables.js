// Details under the pointer, moving about, and the tables.
function details(t, i) {
  if (t.lane) return `<b>${esc(t.names[i])}</b> <span class="dim">${esc(t.label)}</span><br>start: ${ns(t.start[i])}<br>from first to last command: ${ns(t.end[i] - t.start[i])}`;
  const l = t.launch[i], k = kernelOf(l), many = t.count && t.count[i] > 1;
  const rows = many ? [["commands", t.count[i] + ", this function takes most of the time"], ["with a command", (t.busy[i] / Math.max(1, t.end[i] - t.start[i]) * 100).toFixed(1) + " %"], ["first cmd id", t.cmd[i]]] : [["global_idx", i], ["cmd id", t.cmd[i]]];
  rows.push(["start", ns(t.start[i])], ["duration", ns(t.end[i] - t.start[i])], ["cycles", t.cycles[i]]);
  if (t.bytes) rows.push(["bytes", t.bytes[i].toLocaleString()], ["GB/s", t.rate[i].toFixed(4)]); else if (t.rate[i] >= 0) rows.push(["uArch rate", t.rate[i].toFixed(1) + " %"]);
  if (D.directions[t.name[i]]) rows.push(["direction", D.directions[t.name[i]]]);
  if (k >= 0) rows.push(["kernel", D.kernels[k] + " (launch " + l + ")"]);
  if (t.layer && t.layer[i]) rows.push(["layer", D.layers[t.layer[i]]]);
  if (t.dep && t.dep[i]) { const s = source(t, i); rows.push(["waits for", s ? `${D.names[s[0].name[s[1]]]} (${s[0].engine} cmd ${t.dep[i]}), ended ${ns(Math.max(0, t.start[i] - s[0].end[s[1]]))} before` : `cmd ${t.dep[i]} of the other engine`]); }
  return `<b>${esc(D.names[t.name[i]])}</b> <span class="dim">${esc(D.kinds[t.name[i]])}, ${esc(t.label)}</span><br>` + rows.map(r => `${r[0]}: ${esc(r[1])}`).join("<br>");
}
// The track and the place under the pointer.
function under(e) {
  const box = $("time").getBoundingClientRect(), x = e.clientX - box.left, t = rows()[Math.floor((e.clientY - box.top - TOP) / ROW)];
  if (!t || x < LEFT) return null;
  const at = win[0] + (x - LEFT) / (box.width - LEFT) * (win[1] - win[0]), slack = (win[1] - win[0]) / (box.width - LEFT);
  let best = -1;
  for (let i = Math.max(0, lower(t.start, at - t.maxlen - slack)); i < t.n && t.start[i] <= at + slack; i++) if (t.end[i] >= at - slack && (t.lane || passes(t, i))) best = i;
  return best < 0 ? null : [t, best];
}
function hover(e) {
  let text = "";
  if (e.target.id == "time") { const found = under(e); if (found) text = details(...found); }
  else if (e.target.id == "lmem") {
    const box = e.target.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
    const b = boxes.findLast(b => x >= b[0] && x <= b[0] + b[2] && y >= b[1] - 1 && y <= b[1] + b[3] + 1);
    if (b) text = details(b[4], b[5]) + `<br>${b[8] ? "writes" : "reads"} lane bytes 0x${b[6].toString(16)}, ${b[7].toLocaleString()} B`;
  }
  const tip = $("tip"); tip.style.display = text ? "block" : "none"; tip.innerHTML = text;
  tip.style.left = Math.max(4, Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px"; tip.style.top = Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
}
let drag = null;
for (const id of ["time", "band", "lmem"]) {
  const c = $(id);
  c.addEventListener("wheel", e => {
    e.preventDefault();
    const r = c.getBoundingClientRect(), f = Math.min(1, Math.max(0, (e.clientX - r.left - LEFT) / (r.width - LEFT)));
    zoom(e.deltaY > 0 ? 1.3 : 1 / 1.3, win[0] + f * (win[1] - win[0]));
  }, {passive: false});
  c.addEventListener("pointerdown", e => drag = [e.clientX, ...win]);
  c.addEventListener("pointermove", e => { if (!drag) hover(e); });
  c.addEventListener("pointerleave", () => $("tip").style.display = "none");
}
addEventListener("pointermove", e => {
  if (!drag || Math.abs(e.clientX - drag[0]) < 3) return;
  const by = (drag[0] - e.clientX) / ($("time").clientWidth - LEFT) * (drag[2] - drag[1]);
  show(drag[1] + by, drag[2] + by);
});
addEventListener("pointerup", e => {
  if (drag && Math.abs(e.clientX - drag[0]) < 3 && e.target.id == "time") {
    const found = under(e); chosen = found && !found[0].lane ? found : null;
    if (found && found[0].lane) near(found[0].start[found[1]], found[0].end[found[1]]); else draw();
    hover(e);
  }
  drag = null;
});
addEventListener("pointercancel", () => drag = null);
addEventListener("resize", draw);
// Shows a stretch with a little of what lies around it.
const near = (from, to) => show(from - (to - from) * .2 - 10, to + (to - from) * .2 + 10);
$("reset").onclick = () => show(0, D.total_ns); $("closer").onclick = () => zoom(.5); $("wider").onclick = () => zoom(2);
$("clear").onclick = () => { $("name").value = ""; $("least").value = 0; document.querySelectorAll("#boxes input").forEach(b => b.checked = true); filter(); };
for (const id of ["name", "least"]) $(id).oninput = filter;
$("boxes").onchange = filter;
const only = name => { $("name").value = name; filter(); $("time").scrollIntoView({block: "nearest"}); };
$("legend").onclick = e => { const s = e.target.closest("[data-name]"); if (s) only(D.names[s.dataset.name]); };
// Markup of this page's own; every other cell is text and is escaped. A number may be shown as another text.
class Markup { constructor(html, value) { this.html = html; this.value = value; } }
class Shown { constructor(value, text) { this.value = value; this.text = text; } }
const value = c => c instanceof Markup || c instanceof Shown ? c.value : c;
const isText = c => typeof c == "string";
const cell = c => c instanceof Markup ? `<td>${c.html}</td>` : `<td${isText(c) ? ' class="text"' : ""}>${esc(c instanceof Shown ? c.text : c ?? "–")}</td>`;
const sorted = {};
// In the timeline the direction of a transfer is no part of its name, nor of its colour.
const plain = name => name.replace(/ [A-Z0-9]+->[A-Z0-9]+$/, "");
// A table with rows of cells; `goes[i]` is what a click on the i-th row does.
function table(id, head, rows, goes) {
  const by = sorted[id], order = rows.map((_, i) => i);
  if (by) order.sort((a, b) => { const x = value(rows[a][by.at]), y = value(rows[b][by.at]); return (x == null) - (y == null) || (x < y ? -1 : x > y ? 1 : a - b) * by.way; });
  $(id).innerHTML = !rows.length ? '<span class="dim">none</span>' :
    `<table><tr>${head.map((h, i) => `<th class="sorts${isText(rows[0][i]) ? " text" : ""}" data-at="${i}">${esc(h)}${by && by.at == i ? by.way > 0 ? " ▲" : " ▼" : ""}</th>`).join("")}</tr>` +
    order.map(i => `<tr${goes && goes[i] ? ` class="goes" data-row="${i}"` : ""}>${rows[i].map(cell).join("")}</tr>`).join("") + "</table>";
  $(id).onclick = e => {
    const th = e.target.closest("th"), tr = e.target.closest("tr[data-row]");
    if (th) { const at = Number(th.dataset.at); sorted[id] = {at, way: by && by.at == at ? -by.way : isText(rows[0][at]) ? 1 : -1}; table(id, head, rows, goes); }
    else if (tr) goes[tr.dataset.row]();
  };
}
const fixed = (x, digits) => x == null ? null : new Shown(x, x.toFixed(digits));
const pct = x => x == null ? null : new Shown(x, (x * 100).toFixed(2) + " %"), gb = t => fixed(t.gbps, 2);
const bar = (x, c) => new Markup(`<span class="bar" style="width:${Math.max(0, Math.min(1, x)) * 90}px;background:${c}"></span> ${(x * 100).toFixed(2)} %`, x);
const whole = x => x == null ? null : new Shown(x, Math.round(x).toLocaleString());
const O = D.overview, card = (label, text) => `<div><span class="dim">${esc(label)}</span><b>${esc(text)}</b></div>`, share = x => x == null ? "not known" : (x * 100).toFixed(1) + " %";
$("cards").innerHTML = card("total", ns(O.total_ns)) + card("computing", share(O.compute_share)) + card("moving", share(O.move_share)) + card("both at once", share(O.overlap_share))
  + card("neither", share(O.idle_share)) + card("share of peak", share(O.peak_share)) + card("share of DDR limit", share(O.ddr_share)) + card("bounded by", D.limit);
// Mean over the cores that have the engine.
const busy = e => { const all = tracks.filter(t => t.engine == e).map(t => t.number), of = D.summary.cores.filter(c => all.includes(c.core)).map(c => c[e.toLowerCase()]).filter(Boolean); return of.length ? of.reduce((sum, c) => sum + c.utilisation, 0) / of.length : null; };
table("engines", ["engine", "busy, mean of its cores"], engines.filter(e => busy(e) != null).map(e => [e, bar(busy(e), colours[e])]));
table("costliest", ["costliest operators", "share of all work", "total µs"], D.by_operator.slice(0, 5).map(g => [g.name, bar(g.share, colour(plain(g.name))), fixed(g.total_ns / 1e3, 3)]), D.by_operator.slice(0, 5).map(g => () => only(plain(g.name))));
$("findings").innerHTML = O.findings.map(f => `<li>${esc(f)}</li>`).join("");
table("ladder", ["case", "at least", "faster by", "MAC utilisation"], O.ladder.map(s => [s.what, new Shown(s.total_ns, ns(s.total_ns)), new Shown(s.speedup, s.speedup.toFixed(2) + " ×"), pct(s.mac_utilisation)]));
table("cores", ["core", "TIU busy", "GDMA busy", "SDMA busy", "both at once", "neither", "uArch rate", "TIU µs", "GDMA µs", "DDR read GB/s", "DDR write GB/s", "L2 read GB/s", "L2 write GB/s"],
  D.summary.cores.map(c => ["core " + c.core, bar(c.tiu.utilisation, colours.TIU), bar(c.gdma.utilisation, colours.GDMA), bar(c.sdma.utilisation, colours.SDMA), pct(c.overlap_share), pct(c.idle_share),
    c.uarch_ops ? pct(c.alg_ops / c.uarch_ops) : null, fixed(c.tiu.busy_ns / 1e3, 3), fixed(c.gdma.busy_ns / 1e3, 3), gb(c.gdma.ddr_read), gb(c.gdma.ddr_write), gb(c.gdma.l2_read), gb(c.gdma.l2_write)]));
const groupHead = ["name", "kind", "engine", "count", "total µs", "share", "median µs", "bytes", "operations", "Gop/s", "of the peak"];
// The TIU moves nothing.
const group = g => [g.name, g.kind, g.engine ? g.engine.toUpperCase() : "", whole(g.count), fixed(g.total_ns / 1e3, 3), bar(g.share, colour(plain(g.name))), fixed(g.median_ns / 1e3, 3), g.engine && g.engine.toUpperCase() == "TIU" ? null : whole(g.bytes),
  whole(g.alg_ops), g.alg_ops == null || !g.total_ns ? null : fixed(g.alg_ops / g.total_ns, 2), pct(g.peak_share)];
const layerAt = new Map(); for (const l of allLanes) if (l.lane == "layer") l.keys.forEach((k, i) => { const s = layerAt.get(k); layerAt.set(k, s ? [Math.min(s[0], l.start[i]), Math.max(s[1], l.end[i])] : [l.start[i], l.end[i]]); });
// Operators and kernels of what passes the filters, counted here.
function counted(kernels) {
  const groups = new Map();
  const add = (key, make, t, i, execution) => {
    let g = groups.get(key); if (!g) groups.set(key, g = {...make(), times: new Map(), bytes: 0, alg_ops: null, n: 0});
    const s = g.times.get(execution); if (s) { s[0] = Math.min(s[0], t.start[i]); s[1] = Math.max(s[1], t.end[i]); } else g.times.set(execution, [t.start[i], t.end[i]]);
    g.bytes += t.bytes ? t.bytes[i] : 0;
  };
  for (const t of shown) for (let i = 0; i < t.n; i++) {
    if (!passes(t, i)) continue;
    const n = t.name[i], k = kernelOf(t.launch[i]), direction = D.directions[n] ? " " + D.directions[n] : "";
    if (kernels) { if (k >= 0) add(k, () => ({name: D.kernels[k], kind: "kernel"}), t, i, t.launch[i] + " " + t.number); }
    else if (!D.sync[n]) add(t.engine + n, () => ({name: D.names[n] + direction, kind: D.kinds[n], engine: t.engine}), t, i, t.label + i);
  }
  const list = [...groups.values()]; let all = 0;
  for (const g of list) { const d = [...g.times.values()].map(s => s[1] - s[0]).sort((a, b) => a - b); g.count = d.length; g.total_ns = d.reduce((a, b) => a + b, 0); g.median_ns = (d[(d.length - 1) >> 1] + d[d.length >> 1]) / 2; all += g.total_ns; }
  for (const g of list) g.share = all ? g.total_ns / all : 0;
  return list.sort((a, b) => b.total_ns - a.total_ns).slice(0, 200);
}
function tables(filtered) {
  const recount = filtered && !blocks, ops = recount ? counted(false) : D.by_operator, kernels = recount ? counted(true) : D.by_kernel;
  const note = recount ? "of what passes the filters; click: only this" : filtered ? "of all commands: blocks cannot be filtered; click: only this" : "click: only this";
  document.querySelectorAll(".tablenote").forEach(n => n.textContent = note);
  table("ops", groupHead, ops.map(group), ops.map(g => () => only(plain(g.name))));
  table("kernels", groupHead, kernels.map(group), kernels.map(g => () => only(g.name)));
}
$("layersection").hidden = !D.by_layer.length;
table("layers", groupHead, D.by_layer.map(group), D.by_layer.map(g => { const at = layerAt.get(g.order); return at && (() => { near(...at); $("time").scrollIntoView({block: "nearest"}); }); }));
table("gaps", ["waits for", "core", "start µs", "length µs", "cause works in it", "next command"],
  D.gaps.longest.map(g => [g.cause, "core " + g.core, fixed(g.start_ns / 1e3, 3), fixed(g.length_ns / 1e3, 3), pct(g.covered_ns / g.length_ns), g.before || "end"]),
  D.gaps.longest.map(g => () => { near(g.start_ns, g.start_ns + g.length_ns); $("time").scrollIntoView({block: "nearest"}); }));
table("report", ["stream", "records", "expected", "matched", "guessed", "unmatched", "without commands", "preamble", "outside", "doubles", "impossible", "moved", "commands", "without record"],
  D.report.streams.filter(s => s.records || s.commands).map(s => [s.label, s.records, s.expected, s.matched, s.guessed, s.unmatched, s.without_commands, s.preamble, s.outside, s.duplicates, s.implausible, s.moved, s.commands, s.commands_without_record]));
$("report").insertAdjacentHTML("beforeend", D.report.findings.map(f => `<div class="${f.severity == "loss" ? "loss" : "dim"}">${esc(f.place)}: ${esc(f.text)}</div>`).join(""));
filter();
document.body.dataset.ready = "yes";
