"use strict";
// Maps, lines and chunk grids on canvases. Plain script: explorer.js starts it.

const Palettes = {
  viridis: "440154 472d7b 3b528b 2c728e 21918c 28ae80 5ec962 addc30 fde725",
  cividis: "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838",
  magma: "000004 180f3d 440f76 721f81 9e2f7f cd4071 f1605d fd9668 feca8d fcfdbf",
  diverging: "053061 2166ac 4393c3 92c5de d1e5f0 f7f7f7 fddbc7 f4a582 d6604d b2182b 67001f",
};

function paletteTable(name) {
  const stops = Palettes[name].split(" ").map(hex => [0, 2, 4].map(at => parseInt(hex.substr(at, 2), 16)));
  const table = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const place = i / 255 * (stops.length - 1), low = Math.min(stops.length - 2, Math.floor(place));
    for (let k = 0; k < 3; k++) table[3 * i + k] = Math.round(stops[low][k] + (stops[low + 1][k] - stops[low][k]) * (place - low));
  }
  return table;
}

function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

// Text with at most `digits` significant digits.
function show(value, digits = 5) {
  if (value === null || value === undefined || Number.isNaN(value)) return "missing";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(2).replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}
function withUnits(value, units) {
  if (typeof units === "function") return units(value);
  const text = typeof value === "string" ? value : show(value);
  return units && units !== "1" && text !== "missing" ? `${text} ${units}` : text;
}
function degrees(value, positive, negative, digits = 4) {
  const text = show(Math.abs(value), digits);
  return value === 0 ? "0°" : `${text}° ${value > 0 ? positive : negative}`;
}
function wrapLongitude(value) { return ((value + 180) % 360 + 360) % 360 - 180; }
function placeText(axis, position, value) {
  if (axis.labels) return axis.labels[position];
  if (value === undefined) return `${axis.name} ${axis.indices[0] + position * axis.indices[2]}`;
  if (axis.kind === "latitude") return degrees(value, "N", "S");
  if (axis.kind === "longitude") return degrees(wrapLongitude(value) || 0, "E", "W");
  return `${axis.name} ${withUnits(value, axis.units)}`;
}

// Decode base64, zlib, byte planes to Float32Array.
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), each => each.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const count = planes.length / 4, out = new Uint8Array(planes.length);
  for (let i = 0; i < count; i++) for (let k = 0; k < 4; k++) out[4 * i + k] = planes[k * count + i];
  return new Float32Array(out.buffer);
}

// Limits between two quantiles, of a sample.
function quantiles(values, low, high) {
  const step = Math.max(1, Math.floor(values.length / 40000)), known = [];
  for (let i = 0; i < values.length; i += step) if (Number.isFinite(values[i])) known.push(values[i]);
  if (!known.length) return null;
  known.sort((a, b) => a - b);
  const at = part => known[Math.min(known.length - 1, Math.max(0, Math.round(part * (known.length - 1))))];
  return [at(low), at(high)];
}

function niceTicks(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(each => each * power).find(each => each >= rough) || rough;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) ticks.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return ticks;
}
function degreeTicks(low, high, count) {
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 45, 60, 90].find(each => each >= (high - low) / count) || 90;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push(Number(at.toFixed(6)));
  return ticks;
}

// A canvas with sharp pixels of the screen; returns its context and size in CSS pixels.
function prepare(canvas, height) {
  const scale = Math.min(2, window.devicePixelRatio || 1), width = Math.max(40, canvas.clientWidth);
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11px " + colour("--mono");
  return { context, width, height, scale };
}

// Coastlines

let coastlines = null;
async function loadCoastlines() {
  if (!coastlines) {
    coastlines = load("coastlines.json").then(found => found.lines.map(deltas => {
      const points = new Float32Array(deltas.length);
      let x = 0, y = 0;
      for (let i = 0; i < deltas.length; i += 2) { x += deltas[i]; y += deltas[i + 1]; points[i] = x / 100; points[i + 1] = y / 100; }
      return points;
    }));
  }
  return coastlines;
}
function strokeCoastlines(context, lines, view, box, thin) {
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.width, box.height);
  context.clip();
  const sx = box.width / (view.x1 - view.x0), sy = box.height / (view.y1 - view.y0);
  context.beginPath();
  for (const shift of [-360, 0, 360]) {
    if (180 + shift < view.x0 || -180 + shift > view.x1) continue;
    for (const line of lines) {
      for (let i = 0; i < line.length; i += 2) {
        const x = box.x + (line[i] + shift - view.x0) * sx, y = box.y + (line[i + 1] - view.y0) * sy;
        if (i) context.lineTo(x, y); else context.moveTo(x, y);
      }
    }
  }
  context.lineJoin = "round";
  if (!thin) { context.strokeStyle = "rgba(0,0,0,.35)"; context.lineWidth = 2.2; context.stroke(); }
  context.strokeStyle = thin || "rgba(255,255,255,.85)";
  context.lineWidth = thin ? .8 : .9;
  context.stroke();
  context.restore();
}

// Plane: one slice on one canvas, with axes, zoom and hover.

class Plane {
  constructor(canvas, options = {}) {
    Object.assign(this, { canvas, options, view: null, slice: null, palette: "viridis", limits: null, isPlain: !!options.isPlain });
    if (!this.isPlain) this.listen();
    if (window.ResizeObserver) new ResizeObserver(() => this.draw()).observe(canvas);
  }

  async set(slice) {
    const isNew = !this.slice || this.slice.key !== slice.key;
    this.slice = slice;
    this.lines = slice.is_geographic ? await loadCoastlines() : null;
    if (isNew || !this.view) this.home();
    this.draw();
  }

  home() {
    const [rows, columns] = this.slice.sides;
    this.full = { x0: columns.edges[0], x1: columns.edges[columns.edges.length - 1], y0: rows.edges[0], y1: rows.edges[rows.edges.length - 1] };
    if (this.slice.isGlobal) { this.full.x0 = -180; this.full.x1 = 180; }
    this.view = { ...this.full };
    this.isMoved = false;
  }

  height(width) {
    const { x0, x1, y0, y1 } = this.full, [rows, columns] = this.slice.sides;
    let ratio = this.slice.is_geographic || this.slice.hasMetres ? Math.abs((y1 - y0) / (x1 - x0)) : rows.count / columns.count;
    if (!Number.isFinite(ratio)) ratio = .5;
    return Math.round(Math.max(.28, Math.min(.85, ratio)) * width);
  }

  draw() {
    if (!this.slice || !this.view || !this.canvas.clientWidth) return;
    const margin = this.isPlain ? { left: 0, bottom: 0, top: 0 } : { left: 46, bottom: 20, top: 6 };
    const wide = this.canvas.clientWidth - margin.left;
    const tall = this.isPlain ? Math.round(this.canvas.clientWidth / 2) : this.height(wide);
    const { context, width, height, scale } = prepare(this.canvas, tall + margin.bottom + margin.top);
    this.box = { x: margin.left, y: margin.top, width: width - margin.left, height: height - margin.bottom - margin.top };
    this.paint(context, scale);
    if (this.lines) strokeCoastlines(context, this.lines, this.view, this.box);
    if (!this.isPlain) { this.ticks(context); this.mark(context); }
  }

  // Position of the cell at a coordinate along an axis, or -1.
  static find(side, value, isLongitude) {
    const edges = side.edges, last = edges.length - 1;
    if (isLongitude) { const low = Math.min(edges[0], edges[last]); value = low + ((value - low) % 360 + 360) % 360; }
    const isUp = edges[last] > edges[0];
    if (isUp ? value < edges[0] || value > edges[last] : value > edges[0] || value < edges[last]) return -1;
    let low = 0, high = last;
    while (high - low > 1) { const middle = (low + high) >> 1; if (isUp ? edges[middle] <= value : edges[middle] >= value) low = middle; else high = middle; }
    return low;
  }

  paint(context, scale) {
    const { values, sides: [rows, columns] } = this.slice, { box, view } = this;
    const wide = Math.max(1, Math.round(box.width * scale)), tall = Math.max(1, Math.round(box.height * scale));
    const image = context.createImageData(wide, tall), data = image.data, table = paletteTable(this.palette);
    const isLongitude = this.slice.is_geographic, across = new Int32Array(wide);
    for (let x = 0; x < wide; x++) across[x] = Plane.find(columns, view.x0 + (x + .5) / wide * (view.x1 - view.x0), isLongitude);
    const [low, high] = this.limits || [0, 1], factor = 255 / ((high - low) || 1);
    for (let y = 0; y < tall; y++) {
      const row = Plane.find(rows, view.y0 + (y + .5) / tall * (view.y1 - view.y0));
      if (row < 0) continue;
      for (let x = 0; x < wide; x++) {
        if (across[x] < 0) continue;
        const value = values[row * columns.count + across[x]];
        if (!(value === value) || value === Infinity || value === -Infinity) continue;
        const at = 3 * Math.max(0, Math.min(255, Math.round((value - low) * factor))), to = 4 * (y * wide + x);
        data[to] = table[at]; data[to + 1] = table[at + 1]; data[to + 2] = table[at + 2]; data[to + 3] = 255;
      }
    }
    context.fillStyle = colour("--line");
    context.fillRect(box.x, box.y, box.width, box.height);
    const buffer = document.createElement("canvas");
    buffer.width = wide; buffer.height = tall;
    buffer.getContext("2d").putImageData(image, 0, 0);
    context.drawImage(buffer, box.x, box.y, box.width, box.height);
  }

  ticks(context) {
    const { box, view } = this, [rows, columns] = this.slice.axes;
    context.fillStyle = colour("--soft");
    context.strokeStyle = colour("--strong");
    context.lineWidth = 1;
    context.textAlign = "center";
    context.textBaseline = "top";
    let end = -Infinity;
    for (const [at, text] of this.labels(columns, view.x0, view.x1, Math.max(2, box.width / 90)).sort((a, b) => (a[0] - b[0]) * (view.x1 - view.x0))) {
      const x = box.x + (at - view.x0) / (view.x1 - view.x0) * box.width, half = context.measureText(text).width / 2;
      const middle = Math.max(box.x - 10 + half, Math.min(box.x + box.width - half, x));
      context.beginPath(); context.moveTo(x, box.y + box.height); context.lineTo(x, box.y + box.height + 4); context.stroke();
      if (middle - half < end + 5) continue;
      end = middle + half;
      context.fillText(text, middle, box.y + box.height + 6);
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [at, text] of this.labels(rows, view.y0, view.y1, Math.max(2, box.height / 46))) {
      const y = box.y + (at - view.y0) / (view.y1 - view.y0) * box.height;
      context.beginPath(); context.moveTo(box.x - 4, y); context.lineTo(box.x, y); context.stroke();
      context.fillText(text, box.x - 6, Math.max(box.y + 5, Math.min(box.y + box.height - 5, y)));
    }
  }

  labels(axis, from, to, count) {
    const low = Math.min(from, to), high = Math.max(from, to);
    if (axis.kind === "latitude" && axis.coordinates) return degreeTicks(low, high, count).map(at => [at, degrees(at, "N", "S").replace("° ", "°")]);
    if (axis.kind === "longitude" && axis.coordinates) return degreeTicks(low, high, count).map(at => [at, degrees(wrapLongitude(at) || 0, "E", "W").replace("° ", "°")]);
    const side = this.slice.sides[axis === this.slice.axes[0] ? 0 : 1];
    if (axis.labels) {
      const ticks = [], step = Math.max(1, Math.ceil(axis.labels.length / Math.max(1, count * .7)));
      for (let i = 0; i < axis.labels.length; i += step) if (side.centres[i] >= low && side.centres[i] <= high) ticks.push([side.centres[i], axis.labels[i].slice(0, 10)]);
      return ticks;
    }
    const ticks = niceTicks(low, high, count);
    return (axis.coordinates ? ticks : ticks.filter(Number.isInteger)).map(at => [at, show(at, 4)]);
  }

  mark(context) {
    if (!this.point) return;
    const { box, view, point } = this, turn = this.slice.isGlobal ? Math.round((this.centre().x - point.x) / 360) * 360 : 0;
    const x = box.x + (point.x + turn - view.x0) / (view.x1 - view.x0) * box.width, y = box.y + (point.y - view.y0) / (view.y1 - view.y0) * box.height;
    if (x < box.x || x > box.x + box.width || y < box.y || y > box.y + box.height) return;
    for (const [style, width] of [["rgba(0,0,0,.6)", 4], ["#fff", 2]]) {
      context.strokeStyle = style; context.lineWidth = width;
      context.beginPath(); context.arc(x, y, 6, 0, 7); context.stroke();
    }
  }

  centre() { return { x: (this.view.x0 + this.view.x1) / 2, y: (this.view.y0 + this.view.y1) / 2 }; }

  // What lies under a place on the canvas: cell, coordinates and value.
  under(event) {
    const rect = this.canvas.getBoundingClientRect(), { box, view } = this;
    if (!box) return null;
    const px = (event.clientX - rect.left - box.x) / box.width, py = (event.clientY - rect.top - box.y) / box.height;
    if (px < 0 || px > 1 || py < 0 || py > 1) return null;
    return this.at(view.x0 + px * (view.x1 - view.x0), view.y0 + py * (view.y1 - view.y0));
  }
  at(x, y) {
    const [rows, columns] = this.slice.sides;
    const row = Plane.find(rows, y), column = Plane.find(columns, x, this.slice.is_geographic);
    if (row < 0 || column < 0) return null;
    const [down, across] = this.slice.axes;
    return {
      x, y, row, column, value: this.slice.values[row * columns.count + column],
      text: `${placeText(down, row, down.coordinates ? rows.centres[row] : undefined)}, ${placeText(across, column, across.coordinates ? columns.centres[column] : undefined)}`,
      at: { [down.name]: down.indices[0] + row * down.indices[2], [across.name]: across.indices[0] + column * across.indices[2] },
    };
  }

  zoom(factor, centre = this.centre()) {
    const { view, full } = this, isWide = Math.abs((view.x1 - view.x0) * factor) > Math.abs(full.x1 - full.x0) * 1.0001;
    if (isWide) { this.view = { ...full }; this.isMoved = false; this.changed(); return; }
    for (const [a, b, at] of [["x0", "x1", centre.x], ["y0", "y1", centre.y]]) { view[a] = at + (view[a] - at) * factor; view[b] = at + (view[b] - at) * factor; }
    this.clamp();
  }
  pan(dx, dy) {
    const { view } = this, wide = view.x1 - view.x0, tall = view.y1 - view.y0;
    view.x0 += dx * wide; view.x1 += dx * wide; view.y0 += dy * tall; view.y1 += dy * tall;
    this.clamp();
  }
  clamp() {
    const { view, full } = this;
    for (const [a, b] of this.slice.isGlobal ? [["y0", "y1"]] : [["x0", "x1"], ["y0", "y1"]]) {
      const isUp = full[b] > full[a], low = Math.min(full[a], full[b]), high = Math.max(full[a], full[b]), span = Math.min(high - low, Math.abs(view[b] - view[a]));
      let start = Math.min(view[a], view[b]);
      start = Math.max(low, Math.min(high - span, start));
      [view[a], view[b]] = isUp ? [start, start + span] : [start + span, start];
    }
    this.isMoved = true;
    this.changed();
  }
  changed() { this.draw(); if (this.options.onView) this.options.onView(this); }

  listen() {
    const { canvas } = this;
    canvas.tabIndex = 0;
    let drag = null;
    canvas.addEventListener("pointermove", event => {
      if (!this.slice) return;
      if (drag) {
        const dx = (event.clientX - drag.x) / this.box.width, dy = (event.clientY - drag.y) / this.box.height;
        drag.moved = drag.moved || Math.hypot(event.clientX - drag.startX, event.clientY - drag.startY) > 4;
        if (drag.moved && event.pointerType === "mouse") { this.pan(-dx, -dy); drag.x = event.clientX; drag.y = event.clientY; }
        return;
      }
      if (this.options.onHover) this.options.onHover(this.under(event));
    });
    canvas.addEventListener("pointerleave", () => { if (this.options.onHover) this.options.onHover(null); });
    canvas.addEventListener("pointerdown", event => { drag = { x: event.clientX, y: event.clientY, startX: event.clientX, startY: event.clientY, moved: false }; });
    window.addEventListener("pointerup", event => {
      if (drag && !drag.moved && event.target === canvas && this.slice) this.choose(this.under(event));
      drag = null;
    });
    canvas.addEventListener("wheel", event => {
      if (!this.slice || !(event.ctrlKey || event.shiftKey || this.isMoved || document.activeElement === canvas)) return;
      const found = this.under(event);
      if (!found) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : .8, found);
    }, { passive: false });
    canvas.addEventListener("dblclick", event => { const found = this.slice && this.under(event); if (found) this.zoom(.5, found); });
    canvas.addEventListener("keydown", event => {
      if (!this.slice) return;
      const act = { "+": () => this.zoom(.7), "=": () => this.zoom(.7), "-": () => this.zoom(1.4), "0": () => { this.home(); this.changed(); },
        ArrowLeft: () => this.pan(-.1, 0), ArrowRight: () => this.pan(.1, 0), ArrowUp: () => this.pan(0, -.1), ArrowDown: () => this.pan(0, .1),
        Enter: () => { const at = this.centre(); this.choose(this.at(at.x, at.y)); } }[event.key];
      if (act) { event.preventDefault(); act(); }
    });
  }
  choose(found) {
    if (!found || !this.options.onChoose) return;
    this.point = found;
    this.draw();
    this.options.onChoose(found);
  }
}

// Prepare a slice from JSON: numbers, edges of cells, global or not.
async function prepareSlice(found, key) {
  const slice = { ...found, key };
  if (found.form !== "map") return slice;
  slice.values = typeof found.values === "string" ? await unpack(found.values) : found.values;
  slice.sides = found.axes.map(axis => {
    const [first, last, step] = axis.indices, count = Math.round((last - first) / step) + 1;
    const centres = axis.coordinates && isMonotonic(axis.coordinates) ? axis.coordinates : Array.from({ length: count }, (_, i) => first + i * step);
    const edges = new Float64Array(count + 1);
    for (let i = 1; i < count; i++) edges[i] = (centres[i - 1] + centres[i]) / 2;
    const width = count > 1 ? centres[1] - centres[0] : Math.abs(step) || 1, end = count > 1 ? centres[count - 1] - centres[count - 2] : width;
    edges[0] = centres[0] - width / 2;
    edges[count] = centres[count - 1] + end / 2;
    if (axis.kind === "latitude" && axis.coordinates) for (const i of [0, count]) edges[i] = Math.max(-90, Math.min(90, edges[i]));
    return { count, centres, edges };
  });
  if (slice.is_geographic && found.axes.some((axis, i) => slice.sides[i].centres !== axis.coordinates)) slice.is_geographic = false;
  const columns = slice.sides[1], span = columns.edges[columns.count] - columns.edges[0];
  slice.isGlobal = slice.is_geographic && columns.count > 2 && span >= 359.5 && span < 362;
  slice.hasMetres = found.axes.every(axis => ["north", "east"].includes(axis.kind) && axis.coordinates);
  return slice;
}
function isMonotonic(numbers) {
  if (numbers.length < 2) return true;
  const isUp = numbers[1] > numbers[0];
  for (let i = 1; i < numbers.length; i++) if (numbers[i] === numbers[i - 1] || (numbers[i] > numbers[i - 1]) !== isUp) return false;
  return true;
}

function drawBar(canvas, height, palette, limits, units) {
  const { context, width } = prepare(canvas, height), table = paletteTable(palette), top = 8, tall = height - 28;
  for (let y = 0; y < tall; y++) {
    const at = 3 * Math.round((1 - y / (tall - 1)) * 255);
    context.fillStyle = `rgb(${table[at]},${table[at + 1]},${table[at + 2]})`;
    context.fillRect(0, top + y, 16, 1.5);
  }
  context.fillStyle = colour("--soft");
  context.textBaseline = "middle";
  if (!limits) return;
  const [low, high] = limits;
  for (const at of [low, low + (high - low) / 2, high]) {
    const y = top + (1 - (at - low) / ((high - low) || 1)) * tall;
    context.fillText(show(at, 4), 20, Math.max(top + 4, Math.min(top + tall - 3, y)), width - 20);
    if (high === low) break;
  }
  if (units && units !== "1") context.fillText(units.slice(0, Math.floor(width / 7)), 0, height - 8);
}

// Line of numbers with axes; points of `labels` along the bottom.
function drawLine(canvas, { values, labels, units, mark, hover }) {
  const height = canvas.dataset.height ? Number(canvas.dataset.height) : 170, { context, width } = prepare(canvas, height);
  const known = values.filter(Number.isFinite);
  context.fillStyle = colour("--soft");
  if (!known.length) { context.fillText("all values are missing", 8, height / 2); return null; }
  let low = Math.min(...known), high = Math.max(...known);
  if (low === high) { low -= .5; high += .5; }
  const box = { x: 52, y: 8, width: width - 60, height: height - 34 };
  const px = i => box.x + (values.length > 1 ? i / (values.length - 1) : .5) * box.width, py = value => box.y + (1 - (value - low) / (high - low)) * box.height;
  context.textAlign = "right"; context.textBaseline = "middle"; context.lineWidth = 1;
  for (const at of niceTicks(low, high, 4)) {
    context.strokeStyle = colour("--line");
    context.beginPath(); context.moveTo(box.x, py(at)); context.lineTo(box.x + box.width, py(at)); context.stroke();
    if (typeof units !== "function") context.fillText(show(at, 4), box.x - 6, py(at));
  }
  context.textBaseline = "top";
  const ends = width > 460 ? [0, Math.floor((labels.length - 1) / 2), labels.length - 1] : [0, labels.length - 1];
  ends.forEach((i, number) => {
    context.textAlign = number === 0 ? "left" : number === ends.length - 1 ? "right" : "center";
    context.fillText(labels[i] || "", px(i), box.y + box.height + 8);
  });
  context.strokeStyle = colour("--accent"); context.lineWidth = 1.6; context.lineJoin = "round";
  context.beginPath();
  let isOpen = false;
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) { isOpen = false; return; }
    if (isOpen) context.lineTo(px(i), py(value)); else context.moveTo(px(i), py(value));
    isOpen = true;
  });
  context.stroke();
  if (known.length <= 60) { context.fillStyle = colour("--accent"); values.forEach((value, i) => { if (Number.isFinite(value)) { context.beginPath(); context.arc(px(i), py(value), 2, 0, 7); context.fill(); } }); }
  for (const [i, style] of [[mark, "--soft"], [hover, "--ink"]]) {
    if (i === undefined || i === null || i < 0) continue;
    context.strokeStyle = colour(style); context.lineWidth = 1;
    context.beginPath(); context.moveTo(px(i), box.y); context.lineTo(px(i), box.y + box.height); context.stroke();
  }
  if (hover !== undefined && hover !== null) {
    const text = `${labels[hover]}: ${withUnits(Number.isFinite(values[hover]) ? values[hover] : NaN, units)}`, wide = context.measureText(text).width + 12;
    const x = Math.max(box.x, Math.min(box.x + box.width - wide, px(hover) - wide / 2));
    context.fillStyle = colour("--ink"); context.fillRect(x, 0, wide, 18);
    context.fillStyle = colour("--bg"); context.textAlign = "left"; context.textBaseline = "middle"; context.fillText(text, x + 6, 9);
  }
  return { from: box.x, width: box.width, count: values.length };
}
function showLine(canvas, options) {
  let area = drawLine(canvas, options);
  const redraw = hover => { area = drawLine(canvas, { ...options, hover }); };
  canvas.onpointermove = event => {
    if (!area) return;
    const part = (event.clientX - canvas.getBoundingClientRect().left - area.from) / area.width;
    redraw(part < 0 || part > 1 ? null : Math.round(part * (area.count - 1)));
  };
  canvas.onpointerleave = () => redraw(null);
  if (!canvas.dataset.observed) { canvas.dataset.observed = "1"; new ResizeObserver(() => canvas.redraw && canvas.redraw()).observe(canvas); }
  canvas.redraw = () => redraw(null);
}

function drawHistogram(canvas, values, units) {
  const limits = quantiles(values, 0.001, .999), height = 130, { context, width } = prepare(canvas, height);
  context.fillStyle = colour("--soft");
  if (!limits) { context.fillText("all values are missing", 8, 60); return; }
  let [low, high] = limits;
  if (low === high) { low -= .5; high += .5; }
  const bins = new Array(48).fill(0);
  for (const value of values) if (value >= low && value <= high) bins[Math.min(47, Math.floor((value - low) / (high - low) * 48))]++;
  const most = Math.max(...bins), tall = height - 26;
  context.fillStyle = colour("--accent");
  bins.forEach((count, i) => context.fillRect(i * width / 48, tall - count / most * (tall - 4), width / 48 - 1, count / most * (tall - 4)));
  context.strokeStyle = colour("--strong");
  context.beginPath(); context.moveTo(0, tall + .5); context.lineTo(width, tall + .5); context.stroke();
  context.fillStyle = colour("--soft"); context.textBaseline = "top";
  context.fillText(withUnits(low, units), 0, tall + 8);
  context.textAlign = "right";
  context.fillText(withUnits(high, units), width, tall + 8);
}
