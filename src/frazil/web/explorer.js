"use strict";
// The explorer: lazily loaded parts, search, history, maps of arrays, chunk grids, the report's router.

const embedded = (() => {
  const found = document.getElementById("embedded");
  return found ? JSON.parse(found.textContent) : null;
})();
const cache = new Map();

function address(page, query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return page + (pairs.length ? "?" + pairs.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&") : "");
}
async function fetchText(place) {
  const answer = await fetch(place, { credentials: "same-origin" });
  const text = await answer.text();
  if (!answer.ok) {
    let message = text;
    try { message = JSON.parse(text).error || text; } catch { /* plain text */ }
    throw new Error(message.slice(0, 500));
  }
  return text;
}
// JSON of an address, from the report itself or from the server.
async function load(place) {
  if (embedded) {
    if (place in embedded) return embedded[place];
    throw new Error("not in this report: frazil serve shows it");
  }
  if (!cache.has(place)) {
    if (cache.size > 240) cache.delete(cache.keys().next().value);
    cache.set(place, fetchText(place).then(JSON.parse));
    cache.get(place).catch(() => cache.delete(place));
  }
  return cache.get(place);
}
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const role = (root, name) => root.querySelector(`[data-role="${name}"]`);
function say(element, text, kind) {
  element.textContent = `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
  element.className = kind;
}
function whenVisible(element, act) {
  const watcher = new IntersectionObserver(entries => {
    if (entries.some(each => each.isIntersecting)) { watcher.disconnect(); act(); }
  }, { rootMargin: "200px" });
  watcher.observe(element);
}
const later = (act, delay) => { let timer = 0; return (...given) => { clearTimeout(timer); timer = setTimeout(() => act(...given), delay); }; };

// Theme

function startTheme() {
  const button = document.getElementById("theme"), root = document.documentElement, names = ["auto", "light", "dark"];
  const read = () => { try { return localStorage.getItem("frazil-theme"); } catch { return null; } };
  const apply = name => {
    if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
  };
  const saved = read();
  apply(names.includes(saved) ? saved : root.dataset.theme || "auto");
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = names[(names.indexOf(root.dataset.theme || "auto") + 1) % 3];
    apply(next);
    try { localStorage.setItem("frazil-theme", next); document.cookie = `frazil-theme=${next}; SameSite=Strict; max-age=31536000`; } catch { /* private window */ }
    window.dispatchEvent(new Event("resize"));
    all("canvas").forEach(each => each.repaint && each.repaint());
  });
}

// Parts that load after the page

function startParts(root) {
  for (const part of all("[data-part]", root)) {
    whenVisible(part, async () => {
      try {
        part.innerHTML = await fetchText(part.dataset.part);
        part.removeAttribute("aria-busy");
        start(part);
      } catch (error) { say(part, error.message, "alert"); }
    });
  }
  for (const fold of all("details[data-branch]", root)) {
    fold.addEventListener("toggle", async () => {
      const list = fold.querySelector("ul");
      if (!fold.open || list.dataset.loaded || embedded) return;
      list.dataset.loaded = "1";
      try { list.innerHTML = await fetchText(fold.dataset.branch); startParts(list); } catch (error) { list.textContent = error.message; }
    });
  }
}

function startForms(root) {
  for (const select of all("select[data-submit]", root)) select.addEventListener("change", () => select.form.requestSubmit());
  for (const group of all(".tabs", root)) {
    const tabs = all("[role=tab]", group);
    const choose = tab => tabs.forEach(each => {
      each.setAttribute("aria-selected", String(each === tab));
      each.tabIndex = each === tab ? 0 : -1;
      document.getElementById(each.getAttribute("aria-controls")).hidden = each !== tab;
    });
    tabs.forEach((tab, i) => {
      tab.addEventListener("click", () => choose(tab));
      tab.addEventListener("keydown", event => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) { const next = tabs[(i + step + tabs.length) % tabs.length]; choose(next); next.focus(); }
      });
    });
  }
  for (const button of all("[data-copy]", root)) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("pre").textContent;
      try { await navigator.clipboard.writeText(text); } catch {
        const area = document.createElement("textarea");
        area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

// Search in the sidebar: paths and attributes, as one types

function startSearch() {
  const input = document.getElementById("search"), results = document.getElementById("results"), tree = document.getElementById("tree");
  if (!input || !results) return;
  const run = later(async () => {
    const text = input.value.trim();
    tree.hidden = !!text;
    results.hidden = !text;
    if (!text) return;
    let found;
    if (embedded) {
      const words = text.toLowerCase().split(/\s+/);
      const nodes = embedded.nodes.filter(each => words.every(word => each.text.includes(word)));
      found = { nodes, total: nodes.length };
    } else {
      try { found = await load(address("search.json", { ref: input.dataset.ref, q: text })); } catch (error) { results.textContent = error.message; return; }
    }
    results.replaceChildren(...found.nodes.slice(0, 60).map(each => {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = each.href;
      link.textContent = each.path.slice(1);
      item.append(link);
      return item;
    }));
    if (found.total > found.nodes.slice(0, 60).length || !found.total) {
      const item = document.createElement("li");
      item.className = "more";
      item.textContent = found.total ? `${found.total.toLocaleString()} found` : "nothing found";
      results.append(item);
    }
  }, 120);
  input.addEventListener("input", run);
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) { event.preventDefault(); input.focus(); }
  });
}

// Lists that load as one scrolls

function startHistory(root) {
  for (const more of all("[data-more]", root)) {
    whenVisible(more, async () => {
      try {
        const holder = document.createElement("div");
        holder.innerHTML = await fetchText(more.dataset.more);
        const list = more.parentElement.querySelector(".history, tbody");
        list.append(...holder.querySelectorAll("li, tbody > tr"));
        const next = holder.querySelector("[data-more]");
        if (next) { more.replaceWith(next); startHistory(next.parentElement); } else more.remove();
      } catch (error) { say(more, error.message, "alert"); }
    });
  }
}

// Arrays

function showStats(page, values, units) {
  const stats = role(page, "stats");
  if (!stats) return;
  let low = Infinity, high = -Infinity, sum = 0, count = 0;
  for (const value of values) if (Number.isFinite(value)) { count++; sum += value; if (value < low) low = value; if (value > high) high = value; }
  const missing = values.length ? 1 - count / values.length : 0;
  const facts = { min: count ? withUnits(low, units) : "–", max: count ? withUnits(high, units) : "–", mean: count ? withUnits(sum / count, units) : "–", missing: `${show(missing * 100, 3)} %` };
  for (const [name, text] of Object.entries(facts)) role(stats, name).textContent = text;
}

class Viewer {
  constructor(root) {
    this.root = root;
    this.page = root.closest(".page, main");
    Object.assign(this, { ref: root.dataset.ref, path: decodeURIComponent(root.dataset.path), dims: root.dataset.dims, at: {}, limitsOf: "robust" });
    this.frames = root.dataset.frames ? JSON.parse(root.dataset.frames) : null;
    this.readout = role(root, "readout");
    this.bar = root.querySelector("canvas.bar");
    this.plane = new Plane(root.querySelector("canvas.plane"), {
      onHover: found => this.hover(found), onChoose: found => this.choose(found), onView: later(() => this.refine(), 300),
    });
    this.plane.canvas.repaint = () => this.paint();
    for (const slider of all(".slider", root)) this.startSlider(slider);
    this.startControls();
    this.show().then(() => this.choose(this.plane.slice && this.middle()));
  }

  middle() {
    const { slice } = this.plane;
    if (slice.is_geographic) { const found = this.plane.at(10, 48); if (found) return found; }
    const centre = this.plane.centre();
    return this.plane.at(centre.x, centre.y);
  }

  query(more = {}) {
    const at = Object.entries(this.at).map(([name, index]) => `${name}:${index}`).join(",");
    return { ref: this.ref, path: this.path, at, dims: this.dims, ...more };
  }

  startSlider(slider) {
    const input = slider.querySelector("input"), button = slider.querySelector("button"), { axis } = slider.dataset;
    const frames = this.frames && this.frames[axis];
    if (frames) { input.max = frames.length - 1; input.value = Math.floor(frames.length / 2); }
    if (this.frames && !frames) slider.hidden = true;
    const index = () => frames ? frames[Number(input.value)] : Number(input.value);
    this.at[axis] = index();
    const run = later(() => this.show(), 40);
    input.addEventListener("input", () => { this.at[axis] = index(); slider.querySelector("output").textContent = `#${index()}`; run(); });
    let timer = 0;
    const stop = () => { clearTimeout(timer); timer = 0; button.textContent = "▶ Play"; };
    const step = async () => {
      if (!timer) return;
      const begun = performance.now();
      input.value = (Number(input.value) + 1) % (Number(input.max) + 1);
      this.at[axis] = index();
      await this.show();
      if (timer) timer = setTimeout(step, Math.max(20, 160 - (performance.now() - begun)));
    };
    button.addEventListener("click", () => {
      if (timer) { stop(); return; }
      button.textContent = "❚❚ Pause";
      timer = setTimeout(step, 10);
    });
    if (Number(input.max) < 1) slider.hidden = true;
  }

  startControls() {
    const { root, plane } = this, palette = role(root, "palette"), limits = role(root, "limits");
    palette.addEventListener("change", () => { plane.palette = palette.value; this.paint(); });
    limits.addEventListener("change", () => { this.limitsOf = limits.value; this.setLimits(true); this.paint(); });
    role(root, "in").addEventListener("click", () => plane.slice && plane.zoom(.6));
    role(root, "out").addEventListener("click", () => plane.slice && plane.zoom(1.6));
    role(root, "home").addEventListener("click", () => { if (plane.slice) { this.window = null; plane.home(); plane.changed(); this.show(); } });
    const axes = all("[data-role=axis]", root);
    axes.forEach(select => select.addEventListener("change", () => {
      const [rows, columns] = axes.map(each => each.value);
      if (rows === columns) return;
      location.search = new URLSearchParams({ ref: this.ref, path: this.path, dims: `${rows},${columns}` });
    }));
    for (const name of ["in", "out", "home"]) role(root, name).hidden = false;
  }

  async show() {
    const place = address("slice.json", this.query(this.window ? { window: this.window } : {})), turn = this.turn = (this.turn || 0) + 1;
    try {
      const found = await load(place);
      const slice = await prepareSlice(found, JSON.stringify([this.path, this.window]));
      if (turn !== this.turn) return;
      const view = this.plane.view, isWindow = !!this.window && this.plane.slice;
      if (slice.form !== "map") throw new Error(slice.note || "there are no numbers to draw");
      for (const slider of all(".slider", this.root)) {
        const at = slice.at[slider.dataset.axis];
        if (at) slider.querySelector("output").textContent = at.label || `#${at.index}`;
      }
      const known = this.plane.full;
      if (isWindow) slice.key = this.plane.slice.key;
      this.slice = slice;
      if (!this.plane.limits || this.limitsOf === "slice") this.setLimits(true);
      await this.plane.set(slice);
      if (isWindow && view) { this.plane.view = view; this.plane.full = known; this.plane.draw(); }
      this.paint();
      role(this.root, "note").textContent = slice.note ? `${slice.note[0].toUpperCase()}${slice.note.slice(1)}.` : "";
      this.describe();
    } catch (error) {
      const note = role(this.root, "note");
      say(note, error.message, "alert");
      this.root.querySelector(".canvases").hidden = !this.plane.slice;
      if (!this.plane.slice) for (const each of [role(this.page, "series"), role(this.page, "stats")]) if (each) each.closest(".card").hidden = true;
    }
  }

  // Read more detail of the part in view, if the slice has only some of its elements.
  refine() {
    const { plane } = this, { slice } = plane;
    if (embedded || !slice || !plane.isMoved) { if (this.window && !plane.isMoved) { this.window = null; this.show(); } return; }
    const isThin = slice.axes.some(axis => Math.abs(axis.indices[2]) > 1);
    if (!isThin && !this.window) return;
    const parts = slice.axes.map((axis, i) => {
      const [a, b] = i ? [plane.view.x0, plane.view.x1] : [plane.view.y0, plane.view.y1];
      const side = slice.sides[i], ends = [a, b].map(value => Plane.find(side, value, i === 1 && slice.is_geographic));
      if (ends.some(each => each < 0) || (i === 1 && slice.isGlobal && ends[0] > ends[1])) return null;
      const indices = ends.map(each => axis.indices[0] + each * axis.indices[2]).sort((x, y) => x - y), step = Math.abs(axis.indices[2]);
      return `${axis.name}:${Math.max(0, indices[0] - step)}:${indices[1] + step + 1}`;
    });
    if (parts.some(each => each === null)) { if (this.window) { this.window = null; this.show(); } return; }
    this.window = parts.join(",");
    this.show();
  }

  setLimits(isForced) {
    const { slice } = this;
    if (!slice || (!isForced && this.plane.limits)) return;
    const found = this.limitsOf === "full" ? quantiles(slice.values, 0, 1) : quantiles(slice.values, .02, .98);
    this.plane.limits = found && found[0] === found[1] ? quantiles(slice.values, 0, 1) : found;
  }

  paint() {
    this.plane.draw();
    drawBar(this.bar, this.plane.canvas.clientHeight || 200, this.plane.palette, this.plane.limits, this.slice && this.slice.units);
    const histogram = role(this.page, "histogram");
    if (histogram && this.slice) drawHistogram(histogram, this.slice.values, this.slice.units);
  }

  describe() {
    showStats(this.page, this.slice.values, this.slice.units);
    for (const code of all("[data-at]", this.page)) code.textContent = this.code(code.dataset);
  }

  // Text that selects what is shown, for xarray, Zarr or SQL.
  code({ at: kind, axes }) {
    const fixed = Object.entries(this.slice.at || {}), word = /^[A-Za-z_]\w*$/;
    if (kind === "zarr") return Array.from({ length: +axes }, (_, i) => (this.slice.at || {})[`axis ${i}`]?.index ?? ":").join(", ") || "()";
    const isTime = at => at.label && /^\d{4}-\d\d/.test(at.label);
    if (kind === "sql") {
      const parts = fixed.filter(([name]) => word.test(name)).map(([name, at]) => isTime(at) ? `${name} = TIMESTAMP '${at.label}'` : at.label && /^-?[\d.e+]+/.test(at.label) ? `${name} = ${at.label.split(" ")[0]}` : null).filter(Boolean);
      return parts.length ? `WHERE ${parts.join(" AND ")}` : "LIMIT 100";
    }
    return ["isel", "sel"].map(verb => {
      const given = fixed.filter(([, at]) => (verb === "sel") === Boolean(isTime(at))).map(([name, at]) => [name, verb === "sel" ? JSON.stringify(at.label) : at.index]);
      if (!given.length) return "";
      const isPlain = given.every(([name]) => word.test(name));
      return isPlain ? `.${verb}(${given.map(([name, value]) => `${name}=${value}`).join(", ")})` : `.${verb}({${given.map(([name, value]) => `${JSON.stringify(name)}: ${value}`).join(", ")}})`;
    }).join("");
  }

  hover(found) {
    this.readout.textContent = found ? `${found.text}: ${withUnits(found.value, this.slice.units)}` : this.chosen ? `${this.chosen.text}: ${withUnits(this.chosen.value, this.slice.units)}` : "";
  }

  async choose(found) {
    if (!found) return;
    this.chosen = found;
    this.plane.point = found;
    this.plane.draw();
    this.hover(found);
    const card = role(this.page, "series");
    if (!card) return;
    const axis = card.dataset.axis, title = role(card, "title"), canvas = card.querySelector("canvas"), note = role(card, "note");
    title.textContent = `At ${found.text}`;
    const turn = this.seriesTurn = (this.seriesTurn || 0) + 1;
    try {
      const series = await this.readSeries(axis, found);
      if (turn !== this.seriesTurn) return;
      const values = series.values.map(each => each === null ? NaN : each), { axis: along } = series;
      const labels = along.labels || (along.coordinates ? along.coordinates.map(each => withUnits(each, along.units)) : values.map((_, i) => `${along.name} ${along.indices[0] + i * along.indices[2]}`));
      const mark = Math.round((this.at[axis] - along.indices[0]) / along.indices[2]);
      canvas.hidden = false;
      showLine(canvas, { values, labels, units: series.units, mark });
      note.textContent = series.note ? `${series.note[0].toUpperCase()}${series.note.slice(1)}.` : "";
    } catch (error) { canvas.hidden = true; note.textContent = error.message; }
  }

  async readSeries(axis, found) {
    if (!embedded) {
      const at = Object.entries({ ...this.at, ...found.at }).filter(([name]) => name !== axis).map(([name, index]) => `${name}:${index}`).join(",");
      return load(address("series.json", { ref: this.ref, path: this.path, dim: axis, at }));
    }
    const values = [], labels = [], saved = { ...this.at };
    for (const index of this.frames[axis] || []) {
      const slice = await prepareSlice(await load(address("slice.json", { ...this.query(), at: Object.entries({ ...saved, [axis]: index }).map(([n, i]) => `${n}:${i}`).join(",") })), "");
      values.push(slice.values[found.row * slice.sides[1].count + found.column]);
      labels.push(slice.at[axis].label || `${axis} ${index}`);
    }
    const first = this.frames[axis][0], step = this.frames[axis].length > 1 ? this.frames[axis][1] - first : 1;
    return { values, axis: { name: axis, labels, indices: [first, 0, step] }, units: this.slice.units, note: `${values.length} steps are in this report; frazil serve shows all` };
  }
}

// Small maps without axes
async function startThumb(canvas) {
  try {
    const found = await load(canvas.dataset.thumb);
    const slice = await prepareSlice(found, "");
    if (slice.form === "line") { canvas.dataset.height = Math.round(canvas.clientWidth / 2); drawLine(canvas, { values: found.values.map(each => each === null ? NaN : each), labels: [] }); return; }
    if (slice.form !== "map") return;
    const plane = new Plane(canvas, { isPlain: true });
    plane.limits = quantiles(slice.values, .02, .98);
    canvas.repaint = () => plane.draw();
    await plane.set(slice);
  } catch (error) {
    canvas.classList.add("empty");
    const list = canvas.closest(".variables"), known = list && list.previousElementSibling;
    if (!list || known.classList.contains("alert")) return;
    const alert = document.createElement("p");
    say(alert, error.message, "alert");
    list.before(alert);
  }
}

async function startExtent(canvas) {
  const boxes = JSON.parse(canvas.dataset.extent), lines = await loadCoastlines();
  const draw = () => {
    const { context, width, height } = prepare(canvas, Math.round(canvas.clientWidth / 2)), view = { x0: -180, x1: 180, y0: 90, y1: -90 };
    context.fillStyle = colour("--bg");
    context.fillRect(0, 0, width, height);
    for (const [west, south, east, north] of boxes) {
      for (const shift of [-360, 0, 360]) {
        const x = (west + shift + 180) / 360 * width, y = (90 - north) / 180 * height, wide = Math.max(2, (east - west) / 360 * width), tall = Math.max(2, (north - south) / 180 * height);
        context.globalAlpha = .22; context.fillStyle = colour("--accent"); context.fillRect(x, y, wide, tall);
        context.globalAlpha = 1; context.strokeStyle = colour("--accent"); context.strokeRect(x + .5, y + .5, wide - 1, tall - 1);
      }
    }
    strokeCoastlines(context, lines, view, { x: 0, y: 0, width, height }, colour("--soft"));
  };
  canvas.repaint = draw;
  new ResizeObserver(draw).observe(canvas);
}

async function startLine(root) {
  const canvas = root.querySelector("canvas"), note = role(root, "note");
  try {
    const found = await load(root.dataset.line), [axis] = found.axes;
    const values = found.values.map(each => each === null ? NaN : each);
    const labels = axis.labels || (axis.coordinates ? axis.coordinates.map(each => withUnits(each, axis.units)) : values.map((_, i) => `${axis.name.startsWith("axis ") ? "index" : axis.name} ${axis.indices[0] + i * axis.indices[2]}`));
    // The coordinate of times itself: dates instead of hours since a day.
    const units = axis.labels && found.path.split("/").pop() === axis.name && found.units ? value => labels[values.indexOf(value)] || "–" : found.units;
    showLine(canvas, { values, labels, units });
    canvas.repaint = canvas.redraw;
    note.textContent = found.note ? `${found.note[0].toUpperCase()}${found.note.slice(1)}.` : "";
    const histogram = role(root.closest(".page, main"), "histogram");
    if (histogram) { drawHistogram(histogram, values, units); histogram.repaint = () => drawHistogram(histogram, values, units); }
    showStats(root.closest(".page, main"), values, units);
  } catch (error) { canvas.hidden = true; say(note, error.message, "alert"); }
}

// Two slices and their difference
class Trio {
  constructor(root) {
    this.root = root;
    this.planes = all("canvas.plane", root).map((canvas, i) => {
      const plane = new Plane(canvas, { onHover: found => this.hover(found), onView: each => this.follow(each) });
      canvas.repaint = () => this.paint();
      if (i === 2) plane.palette = "diverging";
      return plane;
    });
    if (root.dataset.old) this.show(root.dataset.old, root.dataset.new);
  }
  async show(old, later_) {
    const note = role(this.root, "note");
    try {
      const [a, b] = await Promise.all((await Promise.all([old, later_].map(load))).map(each => prepareSlice(each, "")));
      if (a.form !== "map" || b.form !== "map") throw new Error(a.note || b.note || "there are no numbers to draw");
      this.slices = [a, b];
      const isSame = a.values.length === b.values.length && a.sides[1].count === b.sides[1].count;
      const values = isSame ? b.values.map((value, i) => value - a.values[i]) : new Float32Array(b.values.length).fill(NaN);
      const limits = quantiles(Float32Array.of(...[a, b].flatMap(each => quantiles(each.values, .02, .98) || [])), 0, 1);
      const spread = quantiles(values.map(Math.abs), 0, .995), most = spread ? spread[1] || (quantiles(values.map(Math.abs), 0, 1) || [0, 1])[1] || 1 : 1;
      this.planes[0].limits = this.planes[1].limits = limits;
      this.planes[2].limits = [-most, most];
      await this.planes[0].set(a);
      await this.planes[1].set(b);
      await this.planes[2].set({ ...b, values });
      this.slices.push({ ...b, values });
      this.paint();
      const changed = isSame ? values.reduce((count, value, i) => count + (value !== 0 && !(Number.isNaN(a.values[i]) && Number.isNaN(b.values[i])) ? 1 : 0), 0) : 0;
      note.className = "note";
      note.textContent = isSame ? `${changed.toLocaleString()} of ${values.length.toLocaleString()} values differ${spread ? `, by at most ${withUnits((quantiles(values.map(Math.abs), 0, 1) || [0, 0])[1], b.units)}` : ""}.` : "The two have different shapes: no difference is shown.";
    } catch (error) { say(note, error.message, "alert"); }
  }
  paint() {
    const bars = all("canvas.bar", this.root);
    this.planes.forEach((plane, i) => {
      plane.draw();
      if (bars[i]) drawBar(bars[i], plane.canvas.clientHeight || 160, plane.palette, plane.limits, plane.slice && plane.slice.units);
    });
  }
  follow(source) { for (const plane of this.planes) if (plane !== source && plane.slice) { plane.view = { ...source.view }; plane.isMoved = source.isMoved; plane.draw(); } }
  hover(found) {
    const readout = role(this.root, "readout");
    if (!found || !this.slices) { readout.textContent = ""; return; }
    const [a, b] = this.slices, i = found.row * b.sides[1].count + found.column;
    readout.textContent = `${found.text}: ${withUnits(a.values[i], a.units)} → ${withUnits(b.values[i], b.units)}, difference ${withUnits(this.slices[2].values[i], b.units)}`;
  }
}

function startCompare(form) {
  const trio = new Trio(form.parentElement.querySelector("[data-trio]")), viewer = () => form.closest(".page, main").viewer;
  form.addEventListener("submit", event => {
    event.preventDefault();
    const shown = viewer(), axis = form.dataset.axis, data = new FormData(form);
    if (!shown) return;
    const at = { ...shown.at };
    if (axis && data.get("index") !== "") at[axis] = Number(data.get("index"));
    const spell = place => Object.entries(place).map(([name, index]) => `${name}:${index}`).join(",");
    const old = address("slice.json", { ...shown.query(), ref: data.get("ref"), at: spell(at) }), now = address("slice.json", shown.query());
    form.parentElement.querySelector("[data-trio]").hidden = false;
    const captions = all("figcaption", form.parentElement);
    captions[0].textContent = `${data.get("ref")}${axis ? `, ${axis} ${at[axis]}` : ""}`;
    captions[1].textContent = `${shown.ref}${axis ? `, ${axis} ${shown.at[axis]}` : ""}`;
    trio.show(old, now);
  });
}

// Chunk grid: one square for each chunk, wrapped; or bins of large grids

class Cells {
  constructor(root) {
    this.root = root;
    this.canvas = root.querySelector("canvas");
    this.by = role(root, "by");
    this.readout = role(root, "readout");
    this.by.addEventListener("change", () => this.draw());
    this.canvas.addEventListener("pointermove", event => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.readout.textContent = ""; });
    this.canvas.repaint = () => this.draw();
    load(root.dataset.cells).then(found => {
      this.found = found;
      new ResizeObserver(() => this.draw()).observe(this.canvas);
    }).catch(error => say(this.readout, error.message, "alert"));
  }
  layout() {
    const { rows, columns, kind } = this.found, width = this.canvas.clientWidth, count = kind.length;
    this.isWrapped = !this.found.is_binned && (columns < 8 || rows < 3 || columns > width / 5);
    let across = this.isWrapped ? Math.min(count, Math.max(Math.floor(width / 22), Math.min(Math.floor(width / 9), Math.ceil(Math.sqrt(count * 2.6))))) : columns;
    this.size = Math.max(2, Math.min(24, width / across));
    this.across = across;
    this.down = Math.ceil(count / across);
    this.gap = this.size > 7 ? 2 : this.size > 4 ? 1 : 0;
  }
  draw() {
    if (!this.found || !this.canvas.clientWidth) return;
    this.layout();
    const { found, size, across, gap } = this, { context } = prepare(this.canvas, Math.ceil(this.down * size));
    const kinds = ["absent", "native", "virtual", "inline"].map(name => colour(`--${name}`)), by = this.by.value, table = paletteTable("cividis");
    const most = Math.max(1, ...found.size), ratio = i => found.chunk_bytes && found.size[i] ? found.chunk_bytes * found.count[i] / found.size[i] : null;
    const ratios = by === "ratio" ? found.kind.map((_, i) => ratio(i)).filter(Boolean) : [], widest = Math.max(1, ...ratios);
    found.kind.forEach((kind, i) => {
      const x = (i % across) * size, y = Math.floor(i / across) * size;
      context.globalAlpha = 1;
      context.fillStyle = kinds[kind];
      let part = null;
      if (kind && by === "age") part = found.origin[i] < 0 ? 0 : 1 - found.origin[i] / Math.max(1, found.commits.length);
      if (kind && by === "size") part = found.size[i] / most;
      if (kind && by === "ratio") part = (ratio(i) || 0) / widest;
      if (part !== null) { const at = 3 * Math.round(part * 255); context.fillStyle = `rgb(${table[at]},${table[at + 1]},${table[at + 2]})`; }
      else if (kind) context.globalAlpha = found.is_binned ? .35 + .65 * found.count[i] / found.room[i] : .45 + .55 * found.size[i] / most;
      context.fillRect(x, y, size - gap, size - gap);
      if (found.changed && found.changed[i]) { context.globalAlpha = 1; context.strokeStyle = colour("--bad"); context.lineWidth = Math.min(2, size / 4); context.strokeRect(x + 1, y + 1, Math.max(1, size - gap - 2), Math.max(1, size - gap - 2)); }
    });
    context.globalAlpha = 1;
  }
  async hover(event) {
    if (!this.found) return;
    const rect = this.canvas.getBoundingClientRect(), { found } = this;
    const column = Math.floor((event.clientX - rect.left) / this.size), i = Math.floor((event.clientY - rect.top) / this.size) * this.across + column;
    if (column >= this.across || i < 0 || i >= found.kind.length || i === this.last) return;
    this.last = i;
    const name = ["absent", "native", "virtual", "inline"][found.kind[i]], bytes = `${found.size[i].toLocaleString()} bytes`;
    const origin = found.origin[i] >= 0 ? `, written by “${found.commits[found.origin[i]].message.split("\n")[0].slice(0, 80)}”` : "";
    const ratio = found.chunk_bytes && found.size[i] ? `, ${show(found.chunk_bytes * found.count[i] / found.size[i], 3)} × compressed` : "";
    if (found.is_binned) { this.readout.textContent = `${found.count[i]} of ${Number(found.room[i]).toLocaleString()} chunks, ${name}, ${bytes}${ratio}${origin}`; return; }
    const at = [];
    let rest = i;
    for (const extent of [...found.grid].reverse()) { at.unshift(rest % extent); rest = Math.floor(rest / extent); }
    const text = `chunk ${at.join(", ")}: ${name}${found.kind[i] ? `, ${bytes}${ratio}${origin}` : ""}`;
    this.readout.textContent = text;
    if (embedded || !found.kind[i]) return;
    try {
      const details = await load(address("chunk.json", { ref: this.root.dataset.ref, path: decodeURIComponent(this.root.dataset.path), at: at.join(",") }));
      if (this.last === i && details.source) this.readout.textContent = `${text}; ${details.source}${details.offset ? ` at byte ${details.offset.toLocaleString()}` : ""}`;
    } catch { /* the summary stays */ }
  }
}

// Treemap: squarified

function startTreemap(root) {
  const items = JSON.parse(root.dataset.items), by = document.getElementById("treemap-by");
  const draw = () => {
    const chosen = by ? by.value : "array", list = items[chosen].filter(each => each.bytes > 0).sort((a, b) => b.bytes - a.bytes);
    const width = root.clientWidth, height = root.clientHeight, total = list.reduce((sum, each) => sum + each.bytes, 0);
    root.replaceChildren();
    if (!total) { root.textContent = "nothing is stored"; return; }
    let area = { x: 0, y: 0, width, height }, rest = list.map(each => ({ ...each, area: each.bytes / total * width * height })), number = 0;
    const worst = (row, side) => { const sum = row.reduce((a, b) => a + b.area, 0); return Math.max(...row.map(each => Math.max(side * side * each.area / sum ** 2, sum ** 2 / (side * side * each.area)))); };
    while (rest.length) {
      const side = Math.min(area.width, area.height);
      let row = [rest[0]], next = 1;
      while (next < rest.length && worst([...row, rest[next]], side) <= worst(row, side)) row.push(rest[next++]);
      rest = rest.slice(next);
      const sum = row.reduce((a, b) => a + b.area, 0), thick = sum / side;
      let along = 0;
      for (const each of row) {
        const long = each.area / thick, isTall = area.width >= area.height;
        const cell = document.createElement("a");
        if (each.href) cell.href = each.href;
        cell.title = `${each.name}: ${each.size}`;
        cell.setAttribute("aria-label", cell.title);
        Object.assign(cell.style, { left: `${area.x + (isTall ? 0 : along)}px`, top: `${area.y + (isTall ? along : 0)}px`, width: `${isTall ? thick : long}px`, height: `${isTall ? long : thick}px` });
        const hue = [212, 158, 28, 280, 350, 190][number++ % 6];
        cell.style.background = `hsl(${hue} 45% ${27 + number % 3 * 3}%)`;
        if ((isTall ? thick : long) > 56 && (isTall ? long : thick) > 34) { const name = document.createElement("b"); name.textContent = each.name; cell.append(name, document.createElement("br"), each.size); }
        root.append(cell);
        along += long;
      }
      if (area.width >= area.height) area = { ...area, x: area.x + thick, width: area.width - thick };
      else area = { ...area, y: area.y + thick, height: area.height - thick };
    }
  };
  if (by) by.addEventListener("change", draw);
  new ResizeObserver(draw).observe(root);
}

// Start what an element holds

function start(root) {
  startParts(root);
  startForms(root);
  startHistory(root);
  for (const each of all("[data-thumb]", root)) whenVisible(each, () => startThumb(each));
  for (const each of all("[data-extent]", root)) whenVisible(each, () => startExtent(each));
  for (const each of all("[data-viewer]", root)) whenVisible(each, () => { each.closest(".page, main").viewer = new Viewer(each); });
  for (const each of all("[data-line]", root)) whenVisible(each, () => startLine(each));
  for (const each of all("[data-cells]", root)) whenVisible(each, () => new Cells(each));
  for (const each of all("[data-treemap]", root)) whenVisible(each, () => startTreemap(each));
  for (const each of all("[data-trio][data-old]", root)) whenVisible(each, () => new Trio(each));
  for (const each of all("form[data-compare]", root)) startCompare(each);
}

// The report: one section for each page, chosen by the part of the address after #

function startReport() {
  const sections = all("section.page");
  document.body.classList.add("scripted");
  const route = () => {
    const wanted = decodeURIComponent(location.hash.slice(1)), shown = sections.find(each => decodeURIComponent(each.id) === wanted) || (wanted === "content" ? null : sections[0]);
    if (!shown) return;
    sections.forEach(each => each.classList.toggle("shown", each === shown));
    all(".menu a").forEach(each => { if (decodeURIComponent(each.hash.slice(1)) === decodeURIComponent(shown.dataset.menu)) each.setAttribute("aria-current", "page"); else each.removeAttribute("aria-current"); });
    window.scrollTo(0, 0);
    if (!shown.dataset.started) { shown.dataset.started = "1"; start(shown); }
    document.title = shown.dataset.title;
  };
  window.addEventListener("hashchange", route);
  startParts(document.querySelector(".side"));
  route();
}

startTheme();
startSearch();
if (embedded) startReport(); else start(document);
