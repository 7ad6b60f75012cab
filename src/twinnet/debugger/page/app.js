"use strict";
// The page is one more client: it asks the same commands as curl and draws their answers.

const $ = id => document.getElementById(id);
const state = { sites: [], by: "order", chosen: null, loaded: null, view: null, mark: null, asked: 0, history: [], at: 0 };

async function ask(text) {
  let response;
  try {
    response = await fetch("/", { method: "POST", body: text, headers: { Accept: "application/json" } });
  } catch {
    return { ok: false, text: "the debugger does not answer: it has ended, or the connection is gone", data: null };
  }
  const body = await response.text();
  try {
    return JSON.parse(body);
  } catch {
    return { ok: false, text: body.trim(), data: null };
  }
}

const quoted = text => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
const number = v => typeof v !== "number" ? String(v ?? "-") : Number.isInteger(v) && Math.abs(v) < 1e6 ? String(v) : String(Number(v.toPrecision(4)));
const real = v => typeof v === "number" ? v : v === "Infinity" ? Infinity : 0;

// -- the list -----------------------------------------------------------------------------------------------------

async function loadSites() {
  const answer = await ask("sites()");
  state.sites = answer.ok ? answer.data.sites : [];
  state.unit = answer.ok ? answer.data.unit : "";
  if (!answer.ok) say("sites()", answer);
  showSites();
}

const errorOf = site => site.nonfinite ? Infinity : real(site.max);

function showSites() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = site => words.every(w => `${site.site} ${site.module} ${site.op} ${site.status}`.toLowerCase().includes(w));
  const shown = state.sites.filter(fits);
  if (state.by === "error") shown.sort((a, b) => errorOf(b) - errorOf(a));
  const top = Math.max(...state.sites.map(s => Number.isFinite(errorOf(s)) ? errorOf(s) : 0), 0);
  $("sites").replaceChildren(...shown.map(site => row(site, top)));
  const unit = state.unit ? `, differences in ${state.unit}` : "";
  $("counted").textContent = `${shown.length} of ${state.sites.length} sites${unit}`;
  $("by-order").setAttribute("aria-pressed", state.by === "order");
  $("by-error").setAttribute("aria-pressed", state.by === "error");
}

function row(site, top) {
  const item = document.createElement("li"), button = document.createElement("button");
  button.type = "button";
  button.dataset.site = site.site;
  button.className = site.status === "fail" ? "fail" : "";
  button.title = `${site.module || site.site} ${site.op} ${site.status}${site.reason ? ": " + site.reason : ""}`;
  if (state.chosen === site.site) button.setAttribute("aria-current", "true");
  const name = part("span", "site", site.site), where = part("span", "where", placeOf(site)), size = part("span", "size", site.nonfinite ? "NaN/Inf" : number(site.max));
  const track = part("span", "track", ""), bar = part("div", "bar", "");
  const error = errorOf(site);
  // Six decades below the largest; what is equal has no bar at all.
  const share = error === 0 || top === 0 ? 0 : Number.isFinite(error) ? Math.max(0.02, 1 + Math.log10(error / top) / 6) : 1;
  bar.style.width = `${100 * share}%`;
  track.append(bar);
  button.append(name, size, where, track);
  button.addEventListener("click", () => choose(site.site));
  item.append(button);
  return item;
}

// What the tensor's name does not say yet.
const placeOf = site => site.site.startsWith(site.module) ? site.op : `${site.module} ${site.op}`;

function part(tag, name, text) {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  return element;
}

// -- the maps -----------------------------------------------------------------------------------------------------

async function choose(site, lead = null) {
  state.chosen = site;
  for (const button of document.querySelectorAll("#sites button")) {
    if (button.dataset.site === site) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  const turn = ++state.asked;
  const answer = await ask(`plane(${quoted(site)}${lead ? `, lead=[${lead}]` : ""})`);
  if (turn !== state.asked) return false;
  $("name").textContent = site;
  const facts = state.sites.find(s => s.site === site);
  $("facts").textContent = facts ? describe(facts) : "";
  for (const id of ["tools", "maps", "scales", "probe"]) $(id).hidden = !answer.ok;
  if (!answer.ok) {
    $("facts").textContent = answer.text;
    state.loaded = null;
    return false;
  }
  state.loaded = maps.unpack(answer.data);
  state.mark = null;
  fit();
  showLead();
  showScales();
  return true;
}

function describe(site) {
  const parts = [site.op, site.module && `in ${site.module}`, site.shape.length && site.shape.join("x")];
  parts.push(`max ${number(site.max)}${state.unit ? " " + state.unit : ""}, mean ${number(site.mean)}`);
  if (site.ratio !== null) parts.push(`born ${number(site.ratio)} x its floor`);
  parts.push(site.status + (site.reason ? ` (${site.reason})` : ""), site.source);
  return parts.filter(Boolean).join(" · ");
}

function showLead() {
  const { lead, shape, flat } = state.loaded;
  const names = lead.length === 1 ? ["channel"] : lead.map((_, i) => i === lead.length - 1 ? "channel" : i === 0 ? "sample" : `axis ${i}`);
  $("lead").replaceChildren(...(flat ? [] : lead.map((value, i) => {
    const label = document.createElement("label"), input = document.createElement("input");
    Object.assign(input, { type: "number", min: 0, max: shape[i] - 1, value });
    input.dataset.axis = i;
    input.addEventListener("change", () => {
      const wanted = [...document.querySelectorAll("#lead input")].map(e => Math.min(Math.max(0, e.valueAsNumber || 0), Number(e.max)));
      choose(state.chosen, wanted);
    });
    label.append(names[i], input, `of ${shape[i]}`);
    return label;
  })));
}

function showScales() {
  const { low, high, largest, colours, unit } = state.loaded;
  maps.scale($("scale-values"), colours.values);
  maps.scale($("scale-difference"), colours.difference);
  $("low").textContent = number(low);
  $("high").textContent = `${number(high)}${unit ? " " + unit : ""}`;
  $("least").textContent = `-${number(largest)}`;
  $("most").textContent = `+${number(largest)}`;
}

function redraw() {
  if (!state.loaded) return;
  for (const side of maps.SIDES) maps.draw($(`map-${side}`), state.loaded, side, state.view, state.mark);
  const v = state.view, l = state.loaded;
  $("window").textContent = `rows ${v.top}–${v.top + v.rows - 1} of ${l.height}, columns ${v.left}–${v.left + v.columns - 1} of ${l.width}`;
  document.body.dataset.drawn = `${state.chosen}@${v.top},${v.left},${v.rows},${v.columns}`;
}

function fit() {
  const { height, width } = state.loaded;
  setView({ top: 0, left: 0, rows: height, columns: width });
}

// Zoom by `factor` around an element; whole elements only, never outside.
function zoom(factor, y, x) {
  const { height, width } = state.loaded, v = state.view;
  const rows = Math.min(height, Math.max(Math.min(4, height), Math.round(v.rows / factor)));
  const columns = Math.min(width, Math.max(Math.min(4, width), Math.round(v.columns / factor)));
  const cy = y ?? v.top + v.rows / 2, cx = x ?? v.left + v.columns / 2;
  const top = Math.round(cy - (cy - v.top) * rows / v.rows), left = Math.round(cx - (cx - v.left) * columns / v.columns);
  setView({ top, left, rows, columns });
}

function setView({ top, left, rows, columns }) {
  const { height, width } = state.loaded;
  state.view = { rows, columns, top: Math.min(Math.max(0, top), height - rows), left: Math.min(Math.max(0, left), width - columns) };
  sharpen();
  redraw();
}

let sharpening = 0;

// A plane too large to be sent whole is fetched again, finer, for the part that is looked at.
function sharpen() {
  const l = state.loaded, v = state.view;
  const inside = v.top >= l.top && v.left >= l.left && v.top + v.rows <= l.bottom && v.left + v.columns <= l.right;
  const coarse = maps.reduced(l) && v.rows * 1.5 < l.bottom - l.top && v.columns * 1.5 < l.right - l.left;
  if (inside && !coarse) return;
  clearTimeout(sharpening);
  sharpening = setTimeout(async () => {
    const { top, left, rows, columns } = state.view, turn = state.asked;
    const lead = l.flat ? "" : `, lead=[${l.lead}]`;
    const answer = await ask(`plane(${quoted(state.chosen)}${lead}, top=${top}, left=${left}, rows=${rows}, columns=${columns})`);
    if (!answer.ok || turn !== state.asked) return;
    state.loaded = maps.unpack(answer.data);
    redraw();
  }, inside ? 120 : 0);
}

function element(event) {
  const box = event.target.getBoundingClientRect(), v = state.view;
  const y = v.top + Math.floor((event.clientY - box.top) / box.height * v.rows);
  const x = v.left + Math.floor((event.clientX - box.left) / box.width * v.columns);
  return { y: Math.min(Math.max(y, v.top), v.top + v.rows - 1), x: Math.min(Math.max(x, v.left), v.left + v.columns - 1) };
}

function probe(at) {
  state.mark = at;
  const found = maps.values(state.loaded, at.y, at.x);
  const place = state.loaded.flat ? [at.x] : [...state.loaded.lead, at.y, at.x];
  const around = maps.reduced(state.loaded) ? "  (the extreme of the block; zoom in for single elements)" : "";
  $("probe").textContent = found
    ? `[${place.join(", ")}]  network ${number(found.network)}  twin ${number(found.twin)}  difference ${number(found.difference)}${around}`
    : `[${place.join(", ")}]`;
  redraw();
}

async function explain(at) {
  const { lead, flat } = state.loaded;
  const channel = lead.length ? lead[lead.length - 1] : 0, sample = lead.length > 1 ? lead[0] : 0;
  const y = flat ? 0 : at.y;
  await run(`at(${quoted(state.chosen)}, ${y}, ${at.x}, channel=${channel}, sample=${sample})`);
}

function goToWorst() {
  const l = state.loaded;
  let best = -1, where = 0;
  l.values.difference.forEach((v, i) => {
    const size = Number.isNaN(v) ? Infinity : Math.abs(v);
    if (size > best) [best, where] = [size, i];
  });
  const y = l.top + Math.floor((Math.floor(where / l.columns) + 0.5) * (l.bottom - l.top) / l.rows);
  const x = l.left + Math.floor((where % l.columns + 0.5) * (l.right - l.left) / l.columns);
  const side = Math.max(8, Math.min(24, l.height, l.width));
  setView({ top: y - side / 2 | 0, left: x - side / 2 | 0, rows: Math.min(side, l.height), columns: Math.min(side, l.width) });
  probe({ y, x });
}

for (const side of maps.SIDES) {
  const canvas = $(`map-${side}`);
  let held = null;
  canvas.addEventListener("pointerdown", event => {
    if (!state.loaded) return;
    held = { x: event.clientX, y: event.clientY, view: state.view, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (!state.loaded) return;
    if (!held) return probe(element(event));
    const box = canvas.getBoundingClientRect(), v = held.view;
    const dy = Math.round((held.y - event.clientY) / box.height * v.rows), dx = Math.round((held.x - event.clientX) / box.width * v.columns);
    held.moved ||= Math.hypot(held.y - event.clientY, held.x - event.clientX) > 4;
    if (held.moved) setView({ ...v, top: v.top + dy, left: v.left + dx });
  });
  canvas.addEventListener("pointerup", event => {
    if (held && !held.moved && state.loaded) {
      const at = element(event);
      probe(at);
      explain(at);
    }
    held = null;
  });
  canvas.addEventListener("wheel", event => {
    if (!state.loaded) return;
    event.preventDefault();
    const at = element(event);
    zoom(event.deltaY < 0 ? 1.5 : 1 / 1.5, at.y, at.x);
  }, { passive: false });
}

// -- the console --------------------------------------------------------------------------------------------------

function say(asked, answer) {
  const log = $("log");
  const question = part("pre", "asked", `› ${asked}`);
  log.append(question);
  if (answer.text) log.append(part("pre", answer.ok ? "answer" : "wrong", answer.text));
  // The beginning of a long answer, the end of the log otherwise.
  log.scrollTop = question.offsetTop - log.offsetTop - 8;
}

async function run(text) {
  const answer = await ask(text);
  say(text, answer);
  return answer;
}

async function submit() {
  const line = $("line"), text = line.value.trim();
  if (!text) return;
  state.history.push(text);
  state.at = state.history.length;
  line.value = "";
  grow();
  await run(text);
  // Whatever was asked may have changed what is shown.
  await loadSites();
  if (!state.loaded) return;
  const { chosen, view, loaded: { site, lead, flat } } = state;
  // Another site may have been clicked meanwhile: that one is on its way already.
  if (chosen === site && await choose(chosen, flat ? null : lead)) setView(view);
}

function grow() {
  const line = $("line");
  line.rows = Math.min(12, line.value.split("\n").length);
}

$("line").addEventListener("input", grow);
$("line").addEventListener("keydown", event => {
  const line = $("line");
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    submit();
  } else if ((event.key === "ArrowUp" || event.key === "ArrowDown") && !line.value.includes("\n") && state.history.length) {
    event.preventDefault();
    state.at = Math.min(Math.max(0, state.at + (event.key === "ArrowUp" ? -1 : 1)), state.history.length);
    line.value = state.history[state.at] ?? "";
    grow();
  }
});
$("prompt").addEventListener("submit", event => event.preventDefault());

$("filter").addEventListener("input", showSites);
for (const by of ["order", "error"]) {
  $(`by-${by}`).addEventListener("click", () => {
    state.by = by;
    showSites();
  });
}
$("zoom-in").addEventListener("click", () => zoom(1.5));
$("zoom-out").addEventListener("click", () => zoom(1 / 1.5));
$("fit").addEventListener("click", fit);
$("worst").addEventListener("click", goToWorst);
window.addEventListener("resize", redraw);

(async () => {
  await loadSites();
  const answer = await ask("worst(1)");
  if (answer.ok && answer.data.sites.length) await choose(answer.data.sites[0].site);
  document.body.dataset.ready = "1";
})();
