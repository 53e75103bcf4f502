// The fixed parts of a report: its style, and the script that draws curves and the timeline from the page's data.
#pragma once

namespace lockstep::train {

inline constexpr const char* kReportStyle = R"css(
:root { color-scheme: light dark; --back: #f6f7f9; --card: #fff; --text: #1d2430; --soft: #5d6776; --line: #dfe3e9;
  --grid: #e8ebf0; --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171c; --card: #1d2128; --text: #e4e8ee; --soft: #9aa5b4; --line: #343b46; --grid: #2b313a;
    --accent: #56b4e9; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 1.6rem; margin: 0 0 16px; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0 0 12px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px; margin: 0 0 16px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 12px; margin: 0 0 16px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px; min-width: 0; }
.tile b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.tile span { display: block; overflow-wrap: anywhere; }
.tile span, .soft { color: var(--soft); font-size: .86rem; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 0 16px; align-items: start; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 8px; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 90px; }
@media (max-width: 560px) {
  main { padding: 16px 10px 32px; }
  section { padding: 14px 12px; }
  table { font-size: .8rem; }
  th, td { padding: 4px 5px; }
  .tiles { grid-template-columns: repeat(auto-fit, minmax(124px, 1fr)); gap: 8px; }
  .tile { padding: 8px 10px; }
  .tile b { font-size: 1.02rem; }
  .values :is(th, td):nth-child(2n + 4), .devices :is(th, td):nth-child(5) { display: none; }
}
.pairs td { white-space: normal; overflow-wrap: anywhere; }
tr:last-child td { border-bottom: 0; }
.controls { display: flex; flex-wrap: wrap; gap: 6px 8px; margin: 0 0 12px; align-items: center; }
.controls label, .controls button { display: inline-flex; align-items: center; gap: 6px; padding: 3px 10px;
  border: 1px solid var(--line); border-radius: 999px; background: none; color: inherit; font: inherit; font-size: .88rem;
  cursor: pointer; overflow-wrap: anywhere; }
.controls input { margin: 0; accent-color: var(--accent); }
.swatch { width: 18px; height: 0; border-top: 3px solid; flex: none; }
.swatch.dashed { border-top-style: dashed; }
.swatch.block { height: 12px; border: 0; width: 12px; border-radius: 3px; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; }
.panel { min-width: 0; }
.readout { min-height: 1.4em; color: var(--soft); font-size: .82rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
svg { display: block; max-width: 100%; }
#timeline svg { max-width: none; }
svg text { fill: var(--soft); font-size: 11px; }
noscript svg text { fill: #333; font-size: 12px; }
.behind { fill: var(--card); }
.grid { stroke: var(--grid); }
.axis { stroke: var(--soft); }
ul { margin: 0; padding-left: 20px; overflow-wrap: anywhere; }
)css";

inline constexpr const char* kReportScript = R"js(
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const colors = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"];
const kinds = [["kernel", "#0072b2"], ["copy", "#e69f00"], ["collective", "#cc79a7"], ["fill", "#8a94a3"]];
const dark = matchMedia("(prefers-color-scheme: dark)");
const color = index => index % 6 === 0 && dark.matches ? "#3d9be0" : colors[index % 6];
const hidden = new Set();
let logX = false, logY = false;

function svg(name, attributes, parent, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}
function html(name, className, parent, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}
const short = value => {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(+value.toPrecision(5));
};

function ticksOf(low, high, log, count) {
  const ticks = [];
  if (log) {
    const decades = high - low, stride = Math.max(1, Math.ceil(decades / count));
    for (let power = Math.floor(low); power <= high; ++power)
      for (const factor of decades < 2.5 ? [1, 2, 5] : [1]) {
        const at = power + Math.log10(factor);
        if (at >= low && at <= high && (factor > 1 || power % stride === 0)) ticks.push(factor * 10 ** power);
      }
    if (ticks.length >= 2) return ticks;
    return ticksOf(10 ** low, 10 ** high, false, count);
  }
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find(factor => factor * power >= rough * 0.999) * power;
  for (let k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; ++k) ticks.push(+(k * step).toPrecision(12));
  return ticks;
}

function axisOf(values, log, from, to, room) {
  const scale = log ? Math.log10 : value => value;
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    const at = scale(value);
    if (Number.isFinite(at)) low = Math.min(low, at), high = Math.max(high, at);
  }
  if (low > high) low = 0, high = 1;
  if (high - low <= 1e-12 * Math.max(Math.abs(low), Math.abs(high), 1e-290))
    [low, high] = log ? [low - .5, high + .5] : [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
  const margin = room * (high - low);
  low -= margin, high += margin;
  return { low, high, log, shows: value => Number.isFinite(scale(value)),
    pixel: value => from + (scale(value) - low) / (high - low) * (to - from) };
}

function drawPanel(box, lines) {
  box.textContent = "";
  const width = Math.max(260, box.clientWidth), height = Math.round(Math.min(320, Math.max(220, width * .5)));
  const chosen = lines.filter(line => !hidden.has(line.name));
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" }, box);
  const legend = html("div", "readout", box);
  const all = key => chosen.flatMap(line => line[key].filter(value => value !== null));
  const y = axisOf(all("y"), logY, height - 26, 10, .04);
  const yTicks = ticksOf(y.low, y.high, logY, 5);
  const left = 14 + 6.6 * Math.max(2, ...yTicks.map(tick => short(tick).length));
  const x = axisOf(all("x"), logX, left, width - 16, 0);
  for (const tick of yTicks) {
    svg("path", { d: `M${left} ${y.pixel(tick)}H${width - 16}`, class: "grid" }, picture);
    svg("text", { x: left - 6, y: y.pixel(tick) + 4, "text-anchor": "end" }, picture, short(tick));
  }
  for (const tick of ticksOf(x.low, x.high, logX, Math.max(2, Math.floor(width / 95)))) {
    const at = x.pixel(tick);
    svg("path", { d: `M${at} ${height - 26}v4`, class: "axis" }, picture);
    svg("text", { x: Math.min(at, width - 16), y: height - 9, "text-anchor": at > width - 36 ? "end" : "middle" }, picture,
        short(tick));
  }
  svg("path", { d: `M${left} ${height - 26}H${width - 16}`, class: "axis" }, picture);
  for (const line of chosen) {
    let path = "", open = false, count = 0;
    line.x.forEach((at, i) => {
      const shown = at !== null && line.y[i] !== null && x.shows(at) && y.shows(line.y[i]);
      if (shown) path += `${open ? "L" : "M"}${x.pixel(at).toFixed(1)} ${y.pixel(line.y[i]).toFixed(1)}`, ++count;
      open = shown;
    });
    svg("path", { d: path, fill: "none", stroke: color(line.color), "stroke-width": 1.8, "stroke-linejoin": "round",
      "stroke-dasharray": line.dashed ? "6 4" : "none" }, picture);
    if (count <= 40)
      line.x.forEach((at, i) => {
        if (at !== null && line.y[i] !== null && x.shows(at) && y.shows(line.y[i]))
          svg("circle", { cx: x.pixel(at), cy: y.pixel(line.y[i]), r: 2.4, fill: color(line.color) }, picture);
      });
  }
  const rule = svg("path", { class: "axis", visibility: "hidden", "stroke-dasharray": "2 3" }, picture);
  const names = chosen.length ? `${chosen.map(line => line.name).join(", ")}, by step` : "no series chosen";
  legend.textContent = names;
  picture.onpointerleave = () => { rule.setAttribute("visibility", "hidden"); legend.textContent = names; };
  picture.onpointermove = event => {
    const at = event.clientX - picture.getBoundingClientRect().left;
    const parts = [];
    let step = null;
    for (const line of chosen) {
      let best = -1, distance = Infinity;
      line.x.forEach((value, i) => {
        if (value === null || line.y[i] === null || !x.shows(value)) return;
        const apart = Math.abs(x.pixel(value) - at);
        if (apart < distance) distance = apart, best = i;
      });
      if (best < 0) continue;
      if (step === null) step = line.x[best];
      parts.push(`${line.name} ${short(line.y[best])}`);
    }
    if (step === null) return;
    rule.setAttribute("d", `M${x.pixel(step)} 10V${height - 26}`);
    rule.setAttribute("visibility", "visible");
    legend.textContent = `step ${step}: ${parts.join(", ")}`;
  };
}

const curves = document.getElementById("curves");
function drawCurves() {
  const panels = new Map();
  for (const line of data.series) {
    if (!panels.has(line.panel)) panels.set(line.panel, []);
    panels.get(line.panel).push(line);
  }
  curves.querySelectorAll(".panel").forEach((box, i) => drawPanel(box, [...panels.values()][i]));
}
function chip(parent, text, checked, change, swatch) {
  const label = html("label", "", parent);
  const input = html("input", "", label);
  input.type = "checkbox";
  input.checked = checked;
  input.onchange = () => change(input.checked);
  if (swatch) label.appendChild(swatch);
  label.append(text);
}
if (curves && data.series.length) {
  const controls = html("div", "controls", curves);
  for (const line of data.series) {
    const swatch = html("i", line.dashed ? "swatch dashed" : "swatch");
    swatch.style.borderColor = color(line.color);
    chip(controls, line.name, true, on => { on ? hidden.delete(line.name) : hidden.add(line.name); drawCurves(); }, swatch);
  }
  const axes = html("div", "controls", curves);
  chip(axes, "log y", false, on => { logY = on; drawCurves(); });
  chip(axes, "log x", false, on => { logX = on; drawCurves(); });
  const panels = html("div", "panels", curves);
  for (const panel of new Set(data.series.map(line => line.panel))) html("div", "panel", panels);
  drawCurves();
}

const timeline = document.getElementById("timeline");
let zoom = 1;
function drawTimeline() {
  const box = timeline.querySelector(".scroll"), trace = data.trace;
  const before = box.scrollWidth > box.clientWidth ? (box.scrollLeft + box.clientWidth / 2) / box.scrollWidth : .5;
  box.textContent = "";
  const left = 118, row = 20, width = Math.max(320, box.clientWidth) * zoom, height = trace.lanes.length * row + 26;
  const begin = trace.begin, length = trace.end - trace.begin || 1;
  const pixel = us => left + (us - begin) / length * (width - left - 12);
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, box);
  for (const tick of ticksOf(0, length / 1e3, false, Math.max(3, Math.floor(width / 130)))) {
    const at = pixel(begin + tick * 1e3);
    svg("path", { d: `M${at} 0V${height - 22}`, class: "grid" }, picture);
    svg("text", { x: Math.min(at, width - 26), y: height - 7, "text-anchor": tick > 0 ? "middle" : "start" }, picture,
        `${short(tick)} ms`);
  }
  for (const [lane, start, duration, name, kind] of trace.events) {
    const bar = svg("rect", { x: pixel(begin + start).toFixed(2), y: lane * row + 3, height: row - 6,
      width: Math.max(.6, pixel(begin + start + duration) - pixel(begin + start)).toFixed(2), fill: kinds[kind][1] }, picture);
    svg("title", {}, bar, `${trace.names[name]}: ${short(duration)} \u00b5s, from ${short(start / 1e3)} ms`);
  }
  const labels = svg("g", {}, picture);  // they stay where the box is
  svg("rect", { width: left - 6, height, class: "behind" }, labels);
  trace.lanes.forEach((name, i) => svg("text", { x: 0, y: i * row + 14 }, labels, name));
  box.onscroll = () => labels.setAttribute("transform", `translate(${box.scrollLeft} 0)`);
  box.scrollLeft = before * box.scrollWidth - box.clientWidth / 2;
}
if (timeline && data.trace) {
  const controls = html("div", "controls", null);
  for (const [text, factor] of [["\u2212", .5], ["+", 2]]) {
    const button = html("button", "", controls, text);
    button.setAttribute("aria-label", factor > 1 ? "larger" : "smaller");
    button.onclick = () => { zoom = Math.min(64, Math.max(1, zoom * factor)); drawTimeline(); };
  }
  const used = new Set(data.trace.events.map(event => event[4]));
  kinds.forEach(([name, fill], kind) => {
    if (!used.has(kind)) return;
    const label = html("span", "soft", controls);
    label.style.cssText = "display: inline-flex; align-items: center; gap: 5px";
    html("i", "swatch block", label).style.background = fill;
    label.append(name);
  });
  timeline.insertBefore(controls, timeline.querySelector(".scroll"));
  drawTimeline();
}
let known = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === known) return;
  known = innerWidth;
  if (curves) drawCurves();
  if (timeline && data.trace) drawTimeline();
});
dark.onchange = () => { if (curves) drawCurves(); };
)js";

}  // namespace lockstep::train
