// The front of tinyattn.show.MaskStudio: a mask that is composed, painted, measured and compared.
//   kit      what there is to choose from, with its masks, all computed by tinyattn (palette.py)
//   setting  what is shown (settings.py): n, terms, causal, base, added, erased, compare
//   more, asked   in Jupyter: sizes that Python can be asked for, and the one it is asked for
// Here masks are only joined, cut, measured and drawn. `cells` is a Uint8Array of n * n, row i
// (the query) times n plus column j (the key).

const D_HEAD = 64; // for the FLOPs of the scores: 2 * D_HEAD for each pair
const BLOCK_SIZES = [2, 4, 8, 16];
const MOST_ARCS = 700; // that are drawn besides those of the query in focus
const NARROW = 560; // pixels under which everything stands in one column
const FAR = 255; // a distance that no number of layers bridges

// ---------------------------------------------------------------------------- packed masks

// The masks that bitmaps.py writes: lengths of runs, seven bits a byte, in base 64; "d" of cells
// that differ from their upper left neighbour (or the one above), "r" of the cells themselves.
export function unpack(text, n) {
  demand(
    typeof text === "string" && /^[rd][A-Za-z0-9+/]*$/.test(text),
    "a mask is not packed as it should be",
  );
  const cells = new Uint8Array(n * n);
  let [at, value, length, shift] = [0, 0, 0, 0];
  for (const character of atob(text.slice(1))) {
    const byte = character.charCodeAt(0);
    length += (byte & 127) * 2 ** shift;
    shift += 7;
    if (byte > 127) continue;
    demand(at + length <= n * n, `a packed mask has more than the ${n * n} cells of n = ${n}`);
    if (value) cells.fill(1, at, at + length);
    [at, value, length, shift] = [at + length, 1 - value, 0, 0];
  }
  demand(at === n * n && shift === 0, `a packed mask has not the ${n * n} cells of n = ${n}`);
  if (text[0] === "d")
    for (let i = 1; i < n; i++)
      for (let j = 0; j < n; j++) cells[i * n + j] ^= cells[(i - 1) * n + Math.max(0, j - 1)];
  return cells;
}

export function pack(cells, n) {
  let [packed, at, value] = ["", 0, 0];
  while (at < n * n) {
    let end = at;
    while (end < n * n && cells[end] === value) end++;
    let length = end - at;
    for (; length > 127; length >>= 7) packed += String.fromCharCode((length & 127) | 128);
    packed += String.fromCharCode(length);
    [at, value] = [end, 1 - value];
  }
  return "r" + btoa(packed).replace(/=+$/, "");
}

// The upper left n by n cells of a mask of `size` tokens; what is outside of it is forbidden.
export function cropped(cells, size, n) {
  const out = new Uint8Array(n * n);
  const width = Math.min(size, n);
  for (let i = 0; i < width; i++) out.set(cells.subarray(i * size, i * size + width), i * n);
  return out;
}

// ---------------------------------------------------------------------------- the kit

// Masks of the kit's atoms and presets, unpacked when they are first asked for.
function library(kit) {
  const known = new Map();
  const remembered = (name, make) => known.get(name) ?? known.set(name, make()).get(name);

  function causal(n) {
    return remembered(`causal ${n}`, () => {
      const size = Number(Object.keys(kit.causal)[0]);
      return cropped(unpack(kit.causal[size], size), size, n);
    });
  }
  function atom(key, values, n) {
    return remembered(`${key} ${values} ${n}`, () => {
      const it = kit.atoms.find((atom) => atom.key === key);
      const size = it.drawn ? n : Math.max(...Object.keys(it.bitmaps).map(Number));
      demand(it.bitmaps[size], `there is no draw of ${it.name} for n = ${n}`);
      const place = values.reduce((sum, v, k) => sum * it.choices[k].length + it.choices[k].indexOf(v), 0);
      return cropped(unpack(it.bitmaps[size].split(" ")[place], size), size, n);
    });
  }
  function preset(key, n) {
    const it = kit.presets.find((preset) => preset.key === key);
    if (it.at[n].terms) return rule({ n, base: null, ...it.at[n] });
    return remembered(`preset ${key} ${n}`, () => unpack(it.bitmaps[n], n));
  }
  // The union of what is on, cut to the past if it is causal.
  function rule({ n, terms, base, causal: past }) {
    const cells = base ? preset(base, n).slice() : new Uint8Array(n * n);
    for (const [key, values] of Object.entries(terms)) {
      const more = atom(key, values, n);
      for (let at = 0; at < cells.length; at++) cells[at] |= more[at];
    }
    if (past) causal(n).forEach((earlier, at) => (cells[at] &= earlier));
    return cells;
  }
  return { rule, preset };
}

const KEYS = ["n", "terms", "causal", "base", "added", "erased", "compare"];

// What the studio shows, or an error that says what is wrong with it. Python demands the same:
// settings.py the types, studio.py that the kit has the masks.
function read(kit, state) {
  demand(state instanceof Object && !Array.isArray(state), "a setting must be an object");
  const stranger = Object.keys(state).find((key) => !KEYS.includes(key));
  demand(stranger === undefined, `a setting has ${KEYS.join(", ")}, got ${String(stranger).slice(0, 20)}`);
  const { n, terms = {}, causal = false, base = null, added = "", erased = "", compare = null } = state;
  demand(
    kit.sizes.includes(n),
    `n must be one of ${kit.sizes.join(", ")} here, got ${String(n).slice(0, 20)}`,
  );
  demand(terms instanceof Object && !Array.isArray(terms), "terms must be an object");
  for (const [key, values] of Object.entries(terms)) {
    const atom = kit.atoms.find((it) => it.key === key);
    demand(atom, `there is no atom “${key}” here`);
    demand(
      Array.isArray(values) &&
        values.length === atom.choices.length &&
        values.every((value, k) => atom.choices[k].includes(value)),
      `${atom.name} has no such setting here: ${String(values).slice(0, 40)}`,
    );
    demand(!atom.drawn || atom.bitmaps[n], `there is no draw of ${atom.name} for n = ${n}`);
  }
  demand(typeof causal === "boolean", "causal must be true or false");
  for (const key of [base, compare]) {
    if (key === null) continue;
    const preset = kit.presets.find((it) => it.key === key);
    demand(preset, `there is no preset “${String(key).slice(0, 40)}”`);
    demand(Object.hasOwn(preset.at, n), `${preset.label} has no meaning on n = ${n} tokens`);
  }
  for (const cells of [added, erased]) if (cells !== "") unpack(cells, n);
  return { n, terms, causal, base, added, erased, compare };
}

function demand(condition, message) {
  if (!condition) throw new Error(message);
}

function checkedKit(kit) {
  const lists = kit instanceof Object && [kit.sizes, kit.atoms, kit.presets];
  demand(lists && lists.every(Array.isArray) && kit.causal, "its kit is missing");
  return kit;
}

// The setting with one cell allowed or forbidden, whatever the rules say about it.
function withCells(setting, ruled, places, value) {
  const { n } = setting;
  const [added, erased] = overrides(setting);
  for (const at of places) {
    added[at] = value && !ruled[at] ? 1 : 0;
    erased[at] = !value && ruled[at] ? 1 : 0;
  }
  return { ...setting, added: packedOrNone(added, n), erased: packedOrNone(erased, n) };
}

function overrides({ n, added, erased }) {
  return [added, erased].map((cells) => (cells ? unpack(cells, n) : new Uint8Array(n * n)));
}

function packedOrNone(cells, n) {
  return cells.includes(1) ? pack(cells, n) : "";
}

// The same with n tokens. The cells of a preset that means nothing there stay, as if painted by hand.
function resized(setting, n, kit, shown) {
  const fits = (key) => key === null || Object.hasOwn(kit.presets.find((it) => it.key === key).at, n);
  const compare = fits(setting.compare) ? setting.compare : null;
  if (!fits(setting.base)) {
    const added = packedOrNone(cropped(shown, setting.n, n), n);
    return { n, terms: {}, causal: false, base: null, added, erased: "", compare };
  }
  const [added, erased] = overrides(setting).map((cells) =>
    packedOrNone(cropped(cells, setting.n, n), n),
  );
  return { ...setting, n, added, erased, compare };
}

// A preset that means nothing for this n brings the nearest one for which it does.
function fromPreset(setting, preset, kit, shown) {
  if (!preset.at[setting.n]) {
    const far = (n) => Math.abs(n - setting.n);
    const [nearest] = Object.keys(preset.at).map(Number).sort((a, b) => far(a) - far(b));
    setting = resized(setting, nearest, kit, shown);
  }
  const { terms, causal } = preset.at[setting.n];
  const made = terms ? { terms, causal, base: null } : { terms: {}, causal: false, base: preset.key };
  return { ...setting, ...made, added: "", erased: "" };
}

// ---------------------------------------------------------------------------- Python for it

export function expression(kit, setting, cells) {
  const { n, terms, causal, base } = setting;
  if (setting.added || setting.erased) return painted(cells, n);
  const parts = base ? [kit.presets.find((it) => it.key === base).at[n].call] : [];
  for (const { key, call, parameters } of kit.atoms) {
    if (!Object.hasOwn(terms, key)) continue;
    const named = { n, ...Object.fromEntries(parameters.map((name, k) => [name, terms[key][k]])) };
    parts.push(call.replace(/\{(\w+)\}/g, (_, name) => named[name]));
  }
  const union = parts.join(" | ") || "Global(0)";
  if (!causal) return union;
  if (union === "Full()") return "Causal()";
  return union.includes(" | ") ? `(${union}) & Causal()` : `${union} & Causal()`;
}

function painted(cells, n) {
  const rows = Array.from({ length: n }, (_, i) => cells.slice(i * n, (i + 1) * n).join(""));
  return `Painted(torch.tensor([[int(c) for c in row] for row in '${rows.join(" ")}'.split()]).bool())`;
}

// ---------------------------------------------------------------------------- measuring

// Counts, and `distance`: the layers after which output i can depend on input j, for every pair.
export function measure(cells, n) {
  const words = Math.ceil(n / 32);
  const reads = new Uint32Array(n * words); // one bit for each key
  const perRow = new Uint16Array(n);
  const parent = Array.from({ length: n }, (_, k) => k);
  const root = (k) => (parent[k] === k ? k : (parent[k] = root(parent[k])));
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++)
      if (cells[i * n + j]) {
        perRow[i]++;
        reads[i * words + (j >> 5)] |= 1 << (j & 31);
        parent[root(i)] = root(j);
      }
  const distance = new Uint8Array(n * n).fill(FAR);
  const seen = new Uint32Array(words);
  const next = new Uint32Array(words);
  for (let i = 0; i < n; i++) {
    seen.fill(0);
    seen[i >> 5] |= 1 << (i & 31);
    distance[i * n + i] = 0;
    let frontier = [i];
    for (let layers = 1; frontier.length; layers++) {
      next.fill(0);
      for (const k of frontier) for (let w = 0; w < words; w++) next[w] |= reads[k * words + w];
      frontier = [];
      for (let w = 0; w < words; w++) {
        let fresh = next[w] & ~seen[w];
        seen[w] |= fresh;
        while (fresh) {
          const bit = 31 - Math.clz32(fresh);
          fresh ^= 1 << bit;
          frontier.push(w * 32 + bit);
          distance[i * n + w * 32 + bit] = layers;
        }
      }
    }
  }
  let [longest, unreachable] = [0, 0];
  for (const layers of distance)
    if (layers === FAR) unreachable++;
    else if (layers > longest) longest = layers;
  const edges = perRow.reduce((sum, count) => sum + count, 0);
  return {
    edges,
    least: Math.min(...perRow),
    most: Math.max(...perRow),
    longest,
    unreachable,
    components: parent.filter((_, k) => root(k) === k).length,
    distance,
  };
}

export function liveBlocks(cells, n, size) {
  const live = new Set();
  const across = Math.ceil(n / size);
  cells.forEach((allowed, at) => {
    if (allowed) live.add(Math.floor(Math.floor(at / n) / size) * across + Math.floor((at % n) / size));
  });
  return [live.size, across * across];
}

function difference(cells, beside) {
  const counts = { added: 0, removed: 0, both: 0 };
  cells.forEach((allowed, at) => {
    if (allowed && beside[at]) counts.both++;
    else if (allowed) counts.removed++;
    else if (beside[at]) counts.added++;
  });
  return counts;
}

// Softmax of each row of the scores over the keys that the mask leaves.
function softmax(scores, cells, n) {
  const weights = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    const keys = [...Array(n).keys()].filter((j) => cells[i * n + j]);
    const most = Math.max(...keys.map((j) => scores[i][j]));
    const total = keys.reduce((sum, j) => sum + Math.exp(scores[i][j] - most), 0);
    for (const j of keys) weights[i * n + j] = Math.exp(scores[i][j] - most) / total;
  }
  return weights;
}

// ---------------------------------------------------------------------------- words

// Three digits as Python's :.3g writes them: toPrecision rounds halves up, Python to the even digit.
export function short(x) {
  const rounded = Number(x.toPrecision(3));
  const unit = 10 ** (2 - Math.floor(Math.log10(x)));
  const isHalf = Number.isInteger(x * 2 ** 20) && x * unit - Math.floor(x * unit) === 0.5;
  return String(isHalf ? (2 * Math.round((x * unit) / 2)) / unit : rounded);
}

const count = (number) => number.toLocaleString("en");
const plural = (number, one) => `${count(number)} ${one}${number === 1 ? "" : "s"}`;

// Sorted positions with runs joined: 0 to 3, 7.
export function runs(places) {
  const groups = [];
  for (const place of places) {
    const last = groups.at(-1);
    if (last && place === last.at(-1) + 1) last.push(place);
    else groups.push([place]);
  }
  const said = groups.map((run) => (run.length > 2 ? `${run[0]} to ${run.at(-1)}` : run.join(", ")));
  return said.join(", ");
}

function keysOf(cells, n, i) {
  return [...Array(n).keys()].filter((j) => cells[i * n + j]);
}

function sayPath({ longest, unreachable, components }) {
  if (!unreachable) return plural(longest, "layer");
  if (components > 1) return `disconnected, ${components} components`;
  return `${plural(longest, "layer")}, ${plural(unreachable, "pair")} never`;
}

function sayReads(places) {
  return places.length ? `reads ${runs(places)}` : "reads nothing";
}

// How far query i sees through 1, 2, 3, ... layers.
function sayLayers({ distance }, n, i) {
  const row = distance.subarray(i * n, (i + 1) * n);
  const deepest = Math.max(...row.filter((layers) => layers !== FAR));
  const said = deepest === 0 ? ["only itself"] : [];
  for (let layers = 1; layers <= Math.min(deepest, 4); layers++)
    said.push(`${row.filter((it) => it <= layers).length} in ${plural(layers, "layer")}`);
  const all = row.filter((layers) => layers !== FAR).length;
  if (deepest > 4) said.push(`${all} in ${deepest} layers`);
  if (all < n) said.push(`${n - all} never`);
  return `Tokens that reach it: ${said.join(", ")}.`;
}

function describe(code, n, found) {
  const name = code.startsWith("Painted") ? "A painted mask" : code;
  return (
    `${name} for ${n} queries and ${n} keys: ${found.edges} of ${n * n} pairs allowed, ` +
    `density ${short((100 * found.edges) / (n * n))} %. Keys per query: ${found.least} to ${found.most}, ` +
    `mean ${short(found.edges / n)}. Longest path: ${sayPath(found)}.`
  );
}

// ---------------------------------------------------------------------------- drawing

const COLOURS = ["ink", "paper", "line", "focus", "added", "removed", "text", "faint"];

function colours(box) {
  const style = getComputedStyle(box);
  return Object.fromEntries(
    COLOURS.map((name) => [name, style.getPropertyValue(`--studio-${name}`).trim() || "#888"]),
  );
}

// Fits the canvas's pixels to its place on the screen.
function fitted(canvas, ratio) {
  const scale = globalThis.devicePixelRatio || 1;
  const width = Math.round((canvas.clientWidth || 320) * scale);
  const height = Math.round(width * ratio);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, width, height);
  return { pen, width, height, scale };
}

// Where a square of n by n cells lies on a canvas; labels of tokens stand left and above.
function grid(width, n, labelled) {
  const margin = labelled ? Math.round(width * 0.24) : 0;
  const at = (k) => margin + Math.round((k * (width - margin)) / n);
  return { margin, at };
}

function drawMatrix(canvas, look, { n, cells, beside, painted, weights, tokens, cursor }) {
  const { pen, width, scale } = fitted(canvas, 1);
  const { margin, at } = grid(width, n, tokens);
  const size = (width - margin) / n;
  const gap = size > 5 * scale ? Math.round(scale) : 0;
  pen.fillStyle = look.line;
  pen.fillRect(margin, margin, width - margin, width - margin);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      const place = i * n + j;
      const [x, y] = [at(j), at(i)];
      const [w, h] = [at(j + 1) - x - gap, at(i + 1) - y - gap];
      const [was, is] = beside ? [cells[place], beside[place]] : [cells[place], cells[place]];
      pen.fillStyle = look.paper;
      pen.fillRect(x, y, w, h);
      if (weights) drawWeight(pen, look, cells[place], weights[place], x, y, w, h, scale);
      else if (was && is) fill(pen, look.ink, x, y, w, h);
      else if (is) drawSign(pen, look.added, look.paper, true, x, y, w, h);
      else if (was) drawSign(pen, look.removed, look.paper, false, x, y, w, h);
      if (painted?.[place]) drawDot(pen, is ? look.paper : look.ink, x, y, w, h);
    }
  if (tokens) drawLabels(pen, look, tokens, margin, at, size, scale);
  const [i, j] = cursor;
  const line = 2 * scale;
  pen.strokeStyle = look.focus;
  pen.lineWidth = line;
  pen.strokeRect(margin + line / 2, at(i) + line / 2 - gap, width - margin - line, at(i + 1) - at(i) - line + gap);
  pen.strokeRect(at(j) - line / 2, at(i) - line / 2, at(j + 1) - at(j) + line - gap, at(i + 1) - at(i) + line - gap);
}

function fill(pen, colour, x, y, w, h) {
  pen.fillStyle = colour;
  pen.fillRect(x, y, w, h);
}

// Added cells are full with a light plus, removed ones hollow with a bar: shapes, not only colours.
function drawSign(pen, colour, paper, plus, x, y, w, h) {
  const [cx, cy, long, thick] = [x + w / 2, y + h / 2, Math.max(2, w * 0.5), Math.max(1, w / 7)];
  fill(pen, colour, x, y, w, h);
  if (!plus) {
    const edge = Math.max(1, w / 7);
    fill(pen, paper, x + edge, y + edge, w - 2 * edge, h - 2 * edge);
  }
  const sign = plus ? paper : colour;
  fill(pen, sign, cx - long / 2, cy - thick / 2, long, thick);
  if (plus) fill(pen, sign, cx - thick / 2, cy - long / 2, thick, long);
}

function drawDot(pen, colour, x, y, w, h) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(x + w / 2, y + h / 2, Math.max(1, w / 6), 0, 2 * Math.PI);
  pen.fill();
}

// A colour between two of the form #0b3c5d, and black or white, whichever reads better on it.
function shaded(from, to, share) {
  const parts = [from, to].map((it) => it.match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16)));
  const mixed = parts[0].map((part, k) => Math.round(part + share * (parts[1][k] - part)));
  const linear = mixed.map((part) => (part / 255 <= 0.04 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return [`rgb(${mixed.join(" ")})`, light > 0.179 ? "#000" : "#fff"];
}

function drawWeight(pen, look, allowed, weight, x, y, w, h, scale) {
  if (!allowed) return;
  const [colour, text] = shaded(look.paper, look.ink, 0.08 + 0.92 * weight);
  fill(pen, colour, x, y, w, h);
  if (w < 26 * scale) return;
  pen.fillStyle = text;
  pen.font = `${11 * scale}px system-ui, sans-serif`;
  [pen.textAlign, pen.textBaseline] = ["center", "middle"];
  pen.fillText(weight.toFixed(2), x + w / 2, y + h / 2);
}

function drawLabels(pen, look, tokens, margin, at, size, scale) {
  pen.fillStyle = look.text;
  pen.font = `${Math.min(12 * scale, size * 0.8)}px system-ui, sans-serif`;
  [pen.textAlign, pen.textBaseline] = ["right", "middle"];
  tokens.forEach((token, k) => {
    const middle = (at(k) + at(k + 1)) / 2;
    const room = margin - 6 * scale;
    pen.fillText(token, room, middle, room);
    pen.save();
    pen.translate(middle, room);
    pen.rotate(Math.PI / 2);
    pen.fillText(token, 0, 0, room);
    pen.restore();
  });
}

// Tokens in a line. An arc above joins a query to an earlier key, one below to a later key.
function drawArcs(canvas, look, { n, cells, distance, edges, query }) {
  const { pen, width, height, scale } = fitted(canvas, 0.42);
  const step = width / n;
  const middle = height / 2;
  const box = Math.max(3 * scale, Math.min(step * 0.8, 16 * scale));
  const tall = middle - box / 2 - 2 * scale;
  const x = (k) => (k + 0.5) * step;
  const path = new Path2D();
  const own = new Path2D();
  const arc = (path, i, j) => {
    const [from, to] = [Math.min(x(i), x(j)), Math.max(x(i), x(j))];
    const side = j < i ? -1 : 1;
    const start = middle + (side * box) / 2;
    path.moveTo(from, start);
    path.ellipse((from + to) / 2, start, (to - from) / 2, Math.max(scale, (tall * (to - from)) / width), 0, Math.PI, 0, side > 0);
  };
  for (let i = 0; i < n; i++) {
    if (i !== query && edges > MOST_ARCS) continue;
    for (let j = 0; j < n; j++)
      if (i !== j && cells[i * n + j]) arc(i === query ? own : path, i, j);
  }
  pen.lineWidth = scale;
  pen.strokeStyle = look.faint;
  pen.stroke(path);
  pen.lineWidth = 2 * scale;
  pen.strokeStyle = look.focus;
  pen.stroke(own);
  [pen.textAlign, pen.textBaseline] = ["center", "middle"];
  pen.font = `${Math.min(11 * scale, box * 0.8)}px system-ui, sans-serif`;
  for (let j = 0; j < n; j++) {
    const layers = distance[query * n + j];
    const shade = layers === FAR ? 0 : 1 / Math.max(1, layers);
    const [colour, text] = shaded(look.paper, j === query ? look.focus : look.ink, shade);
    fill(pen, colour, x(j) - box / 2, middle - box / 2, box, box);
    if (box < 10 * scale || j === query) continue;
    pen.fillStyle = text;
    pen.fillText(layers === FAR ? "∞" : layers, x(j), middle);
  }
}

// ---------------------------------------------------------------------------- elements

function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

function button(text, onClick) {
  const made = element("button", "tinyattn-studio-button", text);
  made.type = "button";
  made.addEventListener("click", () => {
    if (made.getAttribute("aria-disabled") !== "true") onClick();
  });
  return made;
}

function range(label, name, onInput) {
  const row = element("label", "tinyattn-slider");
  const value = element("span", "tinyattn-value");
  const input = element("input");
  Object.assign(input, { type: "range", min: 0, step: 1 });
  input.setAttribute("aria-label", label);
  input.addEventListener("input", () => onInput(Number(input.value)));
  row.append(element("span", "", `${name} =`), value, input);
  return {
    row,
    input,
    show(choices, chosen) {
      input.max = choices.length - 1;
      input.value = choices.indexOf(chosen);
      input.setAttribute("aria-valuetext", chosen);
      value.textContent = chosen;
      value.style.minInlineSize = "3ch";
    },
  };
}

function checkbox(text, onInput) {
  const row = element("label", "tinyattn-studio-check");
  const input = element("input");
  input.type = "checkbox";
  input.addEventListener("input", () => onInput(input.checked));
  row.append(input, element("span", "", text));
  return { row, input };
}

function menu(text, onInput) {
  const row = element("label", "tinyattn-studio-menu");
  const select = element("select");
  select.addEventListener("input", () => onInput(select.value));
  row.append(element("span", "", text), select);
  return { row, select };
}

function fillMenu(select, options) {
  const same = String(options) === select.dataset.options;
  if (same) return; // an open menu stays as it is
  select.dataset.options = options;
  select.replaceChildren(
    ...options.map(([value, text]) => Object.assign(element("option", "", text), { value })),
  );
}

function download(blob, name) {
  const link = element("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Every change of what is shown, to go back to; slides and strokes count once.
function chronicle() {
  const [past, future] = [[], []];
  let open = null;
  return {
    past,
    future,
    add(setting, gesture) {
      if (gesture === null || gesture !== open) past.push(setting);
      open = gesture;
      future.length = 0;
    },
    close() {
      open = null;
    },
    step(from, to, setting) {
      open = null;
      to.push(setting);
      return from.pop();
    },
  };
}

// ---------------------------------------------------------------------------- the studio

function render({ model, el }) {
  let kit = checkedKit(model.get("kit"));
  let books = library(kit);
  let setting = read(kit, model.get("setting"));
  const first = setting;
  const history = chronicle();
  const fine = globalThis.matchMedia?.("(pointer: fine)").matches ?? true;
  let tool = fine ? "paint" : "look";
  let blockSize = 4;
  let cursor = [Math.floor(setting.n / 2), Math.floor(setting.n / 2)];
  let stroke = null; // { value, last } while the pointer paints
  let wanted = null; // the n that Python was asked for
  let shown = {}; // what the last setting came to
  let draws = 0;

  const box = element("div", "tinyattn-studio");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Mask Studio");
  box.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab's, as D D: delete the cell

  // Changing what is shown. Every way to do so ends in one draw.

  function settle(next) {
    const { n } = next;
    const ruled = books.rule(next);
    const [added, erased] = overrides(next);
    const cells = ruled.map((allowed, at) => (allowed | added[at]) & (1 - erased[at]));
    const beside = next.compare && books.preset(next.compare, n);
    const scores = kit.scores;
    const code = expression(kit, next, cells);
    setting = next;
    shown = {
      ruled, cells, beside, code,
      painted: added.map((it, at) => it | erased[at]),
      found: measure(cells, n),
      foundBeside: beside && measure(beside, n),
      difference: beside && difference(cells, beside),
      weights: scores && softmax(scores, cells, n),
    };
    cursor = cursor.map((place) => Math.min(place, n - 1));
  }

  function change(next, gesture = null) {
    const started = performance.now();
    try {
      next = read(kit, next);
      if (JSON.stringify(next) !== JSON.stringify(setting)) {
        const before = setting;
        settle(next);
        history.add(before, gesture);
      }
      complain("");
    } catch (error) {
      complain(error.message);
    }
    publish();
    draw(started);
  }

  function travel(from, to) {
    const started = performance.now();
    settle(history.step(from, to, setting));
    complain("");
    publish();
    draw(started);
  }

  function publish() {
    if (JSON.stringify(model.get("setting")) === JSON.stringify(setting)) return;
    model.set("setting", setting);
    model.save_changes();
  }

  function complain(message) {
    box.querySelector(".tinyattn-widget-error")?.remove();
    if (!message) return;
    const said = element("p", "tinyattn-widget-error", `${message}. The last good state stays.`);
    said.setAttribute("role", "alert");
    box.prepend(said);
  }

  function setTerm(key, values, gesture) {
    const { [key]: _, ...others } = setting.terms;
    change({ ...setting, terms: values ? { ...others, [key]: values } : others }, gesture);
  }

  function setSize(n) {
    if (kit.sizes.includes(n)) {
      change(resized(setting, n, kit, shown.cells), "n");
      return;
    }
    wanted = n; // in Jupyter, Python has the masks
    box.setAttribute("aria-busy", "true");
    model.set("asked", n);
    model.save_changes();
    draw(performance.now());
  }

  // The bar above: where to start, how many tokens, the past only, and what to compare with.

  const presets = menu("Start from", (key) => {
    const preset = kit.presets.find((it) => it.key === key);
    if (preset) change(fromPreset(setting, preset, kit, shown.cells));
    else draw(performance.now());
  });
  const sizes = range("n, tokens", "n", (at) => setSize(allSizes()[at]));
  const past = checkbox("causal", (on) => change({ ...setting, causal: on }));
  const others = menu("Compare with", (key) => change({ ...setting, compare: key || null }));
  const bar = element("div", "tinyattn-studio-bar");
  bar.append(presets.row, sizes.row, others.row, past.row);

  const allSizes = () => [...new Set([...kit.sizes, ...(model.get("more") ?? [])])];
  const presetShown = () =>
    setting.added || setting.erased
      ? undefined
      : kit.presets.find(({ key, at }) => {
          const made = at[setting.n];
          if (!made) return false;
          if (!made.terms) return setting.base === key && !setting.causal && isEmpty(setting.terms);
          return !setting.base && setting.causal === made.causal && sameTerms(setting.terms, made.terms);
        });
  const isEmpty = (terms) => Object.keys(terms).length === 0;
  const sameTerms = (one, other) => {
    const keys = Object.keys(one);
    return keys.length === Object.keys(other).length && keys.every((key) => String(one[key]) === String(other[key]) && key in other);
  };

  // The matrix, what stands beside it, and the tools that change it.

  const matrix = element("canvas", "tinyattn-studio-matrix");
  matrix.tabIndex = 0;
  matrix.setAttribute("role", "application");
  const second = element("canvas", "tinyattn-studio-second");
  second.setAttribute("role", "img");
  const besideText = element("p", "tinyattn-studio-note");
  const tools = element("div", "tinyattn-studio-tools");
  tools.setAttribute("role", "group");
  tools.setAttribute("aria-label", "Tools");
  const pens = ["look", "paint", "erase"].map((name) => [
    name,
    button(name[0].toUpperCase() + name.slice(1), () => {
      tool = name;
      draw(performance.now());
    }),
  ]);
  const undo = button("Undo", () => travel(history.past, history.future));
  const redo = button("Redo", () => travel(history.future, history.past));
  const reset = button("Reset", () => change(kit.sizes.includes(first.n) ? first : setting));
  tools.append(...pens.map(([, it]) => it), element("span", "tinyattn-studio-gap"), undo, redo, reset);
  const left = element("div", "tinyattn-studio-left");
  left.append(matrix, tools);
  const right = element("div", "tinyattn-studio-right");
  const beside = element("div", "tinyattn-studio-beside");
  beside.append(second, besideText);

  function cellAt(event) {
    const frame = matrix.getBoundingClientRect();
    const { margin } = grid(frame.width, setting.n, kit.tokens);
    const inside = (value) =>
      Math.max(0, Math.min(setting.n - 1, Math.floor(((value - margin) / (frame.width - margin)) * setting.n)));
    return [inside(event.clientY - frame.top), inside(event.clientX - frame.left)];
  }

  function paintAlong(from, to) {
    const steps = Math.max(Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1]), 1);
    const places = [];
    for (let step = 0; step <= steps; step++) {
      const [i, j] = [0, 1].map((axis) => Math.round(from[axis] + ((to[axis] - from[axis]) * step) / steps));
      places.push(i * setting.n + j);
    }
    change(withCells(setting, shown.ruled, places, stroke.value), "stroke");
  }

  matrix.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || stroke) return;
    cursor = cellAt(event);
    if (tool === "look") return draw(performance.now());
    try {
      matrix.setPointerCapture(event.pointerId);
    } catch {} // the pointer is gone already
    stroke = { value: tool === "paint", last: cursor };
    history.close();
    paintAlong(cursor, cursor);
  });
  matrix.addEventListener("pointermove", (event) => {
    const cell = cellAt(event);
    if (String(cell) === String(stroke ? stroke.last : cursor)) return;
    cursor = cell;
    if (!stroke) return draw(performance.now());
    const from = stroke.last;
    stroke.last = cell;
    paintAlong(from, cell);
  });
  const lift = () => {
    stroke = null;
    history.close();
  };
  for (const event of ["pointerup", "pointercancel", "lostpointercapture"]) matrix.addEventListener(event, lift);

  const MOVES = {
    ArrowUp: ([i, j]) => [i - 1, j],
    ArrowDown: ([i, j]) => [i + 1, j],
    ArrowLeft: ([i, j]) => [i, j - 1],
    ArrowRight: ([i, j]) => [i, j + 1],
    Home: ([i]) => [i, 0],
    End: ([i]) => [i, setting.n - 1],
    PageUp: ([, j]) => [0, j],
    PageDown: ([, j]) => [setting.n - 1, j],
  };
  matrix.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [i, j] = cursor;
    const at = i * setting.n + j;
    if (event.key === " " || event.key === "Enter") {
      change(withCells(setting, shown.ruled, [at], !shown.cells[at]));
    } else if (MOVES[event.key]) {
      const value = shown.cells[at];
      cursor = MOVES[event.key](cursor).map((place) => Math.max(0, Math.min(setting.n - 1, place)));
      if (event.shiftKey) change(withCells(setting, shown.ruled, [cursor[0] * setting.n + cursor[1]], value));
      else draw(performance.now());
    } else return;
    event.preventDefault();
    sayCell();
  });
  box.addEventListener("keydown", (event) => {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || (key !== "z" && key !== "y")) return;
    event.preventDefault();
    const forward = key === "y" || event.shiftKey;
    if (forward ? history.future.length : history.past.length)
      forward ? travel(history.future, history.past) : travel(history.past, history.future);
  });

  // What the query in focus reads, the graph, and the numbers.

  const reading = element("p", "tinyattn-studio-reading");
  const arcs = element("canvas", "tinyattn-studio-arcs");
  arcs.setAttribute("role", "img");
  const table = element("table", "tinyattn-studio-numbers");
  const heads = element("tr");
  const body = element("tbody");
  const top = element("thead");
  top.append(heads);
  table.append(element("caption", "tinyattn-said", "What this mask costs and reaches"), top, body);
  const numbers = Object.fromEntries(
    [
      ["pairs", "allowed pairs"],
      ["density", "density"],
      ["keys", "keys per query: least, mean, most"],
      ["flops", "score FLOPs"],
      ["path", "longest path"],
      ["blocks", "live blocks"],
    ].map(([key, text]) => {
      const row = element("tr");
      const name = element("th", "", text);
      name.scope = "row";
      const cells = [element("td"), element("td")];
      cells[0].dataset.number = key;
      cells[1].dataset.beside = key;
      row.append(name, ...cells);
      body.append(row);
      return [key, { name, cells }];
    }),
  );
  const blocks = element("select");
  blocks.setAttribute("aria-label", "block size");
  fillMenu(blocks, BLOCK_SIZES.map((size) => [size, `${size} × ${size}`]));
  blocks.value = blockSize;
  blocks.addEventListener("input", () => {
    blockSize = Number(blocks.value);
    draw(performance.now());
  });
  numbers.blocks.name.append(" of ", blocks);
  const graph = element("div", "tinyattn-studio-graph");
  graph.append(reading, arcs);
  right.append(graph, table);

  function showNumbers() {
    const { n } = setting;
    const write = (which, cells, found) => {
      const said = {
        pairs: `${count(found.edges)} of ${count(n * n)}`,
        density: `${short((100 * found.edges) / (n * n))} %`,
        keys: `${found.least}, ${short(found.edges / n)}, ${found.most}`,
        flops: count(2 * D_HEAD * found.edges),
        path: sayPath(found),
        blocks: liveBlocks(cells, n, blockSize).map(count).join(" of "),
      };
      for (const key of Object.keys(numbers)) numbers[key].cells[which].textContent = said[key];
    };
    numbers.flops.name.textContent = `score FLOPs at d_head = ${D_HEAD}, dense ${count(2 * D_HEAD * n * n)}`;
    write(0, shown.cells, shown.found);
    if (shown.beside) write(1, shown.beside, shown.foundBeside);
    for (const { cells } of Object.values(numbers)) cells[1].hidden = !shown.beside;
    top.hidden = !shown.beside;
    if (shown.beside) {
      const other = kit.presets.find((it) => it.key === setting.compare).label;
      const mine = presetShown()?.label ?? "this mask";
      heads.replaceChildren(element("td"), ...[mine, other].map((text) => Object.assign(element("th", "", text), { scope: "col" })));
    }
  }

  // The atoms, with their sliders.

  const atoms = element("div", "tinyattn-studio-atoms");
  atoms.setAttribute("role", "group");
  atoms.setAttribute("aria-label", "Atoms");
  let rows = [];

  function buildAtoms() {
    rows = kit.atoms.map((atom) => {
      const row = element("div", "tinyattn-studio-atom");
      const on = checkbox(atom.name, (checked) => setTerm(atom.key, checked ? valuesOf(atom) : null));
      on.row.append(element("small", "", atom.does));
      const sliders = atom.parameters.map((name, k) =>
        range(`${atom.name}, ${name}`, name, (at) => {
          const values = [...valuesOf(atom)];
          values[k] = atom.choices[k][at];
          setTerm(atom.key, values, `${atom.key} ${name}`);
        }),
      );
      for (const { input } of sliders) input.addEventListener("change", history.close);
      row.append(on.row, ...sliders.map((it) => it.row));
      return { atom, row, on, sliders, last: atom.start };
    });
    atoms.replaceChildren(...rows.map((it) => it.row));
  }
  const valuesOf = (atom) => setting.terms[atom.key] ?? rows.find((it) => it.atom === atom).last;

  // The line of Python, and ways to take the mask away.

  const code = element("textarea", "tinyattn-studio-code");
  Object.assign(code, { readOnly: true, rows: 2, spellcheck: false });
  code.setAttribute("aria-label", "This pattern in Python");
  const copied = element("span", "tinyattn-studio-copied");
  copied.setAttribute("role", "status");
  const copy = button("Copy", async () => {
    code.select();
    try {
      await navigator.clipboard.writeText(code.value);
      copied.textContent = "Copied.";
    } catch {
      copied.textContent = "Selected: press Ctrl+C.";
    }
  });
  const savePicture = button("Save PNG", () =>
    matrix.toBlob((blob) => blob && download(blob, `mask-${setting.n}.png`), "image/png"),
  );
  const saveSetting = button("Save JSON", () => {
    const { edges } = shown.found;
    const text = JSON.stringify({ setting, expression: shown.code, edges }, null, 1);
    download(new Blob([text], { type: "application/json" }), `mask-${setting.n}.json`);
  });
  const file = element("input");
  Object.assign(file, { type: "file", accept: ".json,application/json", hidden: true });
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    file.value = "";
    if (!chosen) return;
    try {
      change({ ...JSON.parse(await chosen.text())?.setting, compare: setting.compare });
    } catch (error) {
      complain(`${chosen.name} holds no setting (${error.message})`);
    }
  });
  const open = button("Open JSON", () => file.click());
  const take = element("div", "tinyattn-studio-take");
  take.append(copy, savePicture, saveSetting, open, file, copied);
  const line = element("div", "tinyattn-studio-line");
  line.append(code, take);

  // The same in words.

  const list = element("details", "tinyattn-studio-rows");
  const listed = element("ol");
  listed.start = 0;
  list.append(element("summary", "", "Row by row"), listed);
  list.addEventListener("toggle", listRows);
  const said = element("p", "tinyattn-said");
  said.setAttribute("aria-live", "polite");
  const cellSaid = element("p", "tinyattn-said");
  cellSaid.setAttribute("aria-live", "polite");

  function listRows() {
    if (!list.open) return;
    const { n } = setting;
    const lines = Array.from({ length: n }, (_, i) => `${kit.tokens ? `${kit.tokens[i]} ` : ""}${sayReads(keysOf(shown.cells, n, i))}`);
    while (listed.children.length > n) listed.lastChild.remove();
    lines.forEach((text, i) => {
      if (!listed.children[i]) listed.append(element("li"));
      if (listed.children[i].textContent !== text) listed.children[i].textContent = text;
    });
  }

  const nameOf = (place) => (kit.tokens ? `${place} (${kit.tokens[place]})` : place);

  function sayCell() {
    const [i, j] = cursor;
    const at = i * setting.n + j;
    const how = shown.painted[at] ? ", changed by hand" : "";
    cellSaid.textContent = `query ${nameOf(i)}, key ${nameOf(j)}: ${shown.cells[at] ? "may read" : "may not read"}${how}`;
  }

  function sayBeside() {
    if (shown.beside) {
      const { added, removed, both } = shown.difference;
      const { label } = kit.presets.find((it) => it.key === setting.compare);
      return `${label} adds ${plural(added, "pair")} (plus) and lacks ${count(removed)} (bar); ${count(both)} are in both.`;
    }
    if (!shown.weights) return "";
    const i = cursor[0];
    const row = [...shown.weights.subarray(i * setting.n, (i + 1) * setting.n)];
    const keys = keysOf(shown.cells, setting.n, i).map((j) => `${nameOf(j)} ${row[j].toFixed(2)}`);
    return keys.length ? `Weights of query ${nameOf(i)}: ${keys.join(", ")}.` : `Query ${nameOf(i)} reads nothing and outputs zeros.`;
  }

  // One pass over everything that is seen.

  function draw(started) {
    const { n } = setting;
    const [i] = cursor;
    const look = colours(box);
    const chosen = presetShown();
    fillMenu(presets.select, [
      ...(chosen ? [] : [["", "your own"]]),
      ...kit.presets.filter(({ at }) => Object.keys(at).length).map(({ key, label }) => [key, label]),
    ]);
    presets.select.value = chosen?.key ?? "";
    fillMenu(others.select, [["", "nothing"], ...kit.presets.filter(({ at }) => at[n]).map(({ key, label }) => [key, label])]);
    others.select.value = setting.compare ?? "";
    sizes.show(allSizes(), wanted ?? n);
    if (allSizes().length < 2) sizes.row.remove();
    else if (!sizes.row.parentNode) presets.row.after(sizes.row);
    past.input.checked = setting.causal;
    for (const it of rows) {
      const values = setting.terms[it.atom.key];
      if (values) it.last = values;
      it.on.input.checked = Boolean(values);
      it.row.dataset.on = Boolean(values);
      it.sliders.forEach((slider, k) => slider.show(it.atom.choices[k], it.last[k]));
    }
    for (const [name, it] of pens) it.setAttribute("aria-pressed", tool === name);
    undo.setAttribute("aria-disabled", history.past.length === 0);
    redo.setAttribute("aria-disabled", history.future.length === 0);
    matrix.style.touchAction = tool === "look" ? "auto" : "none";
    matrix.setAttribute(
      "aria-label",
      `Mask of ${n} queries (rows) and ${n} keys (columns). Arrow keys move, space changes a cell, shift with an arrow copies it along.`,
    );
    beside.hidden = !shown.beside && !shown.weights;
    box.dataset.beside = !beside.hidden;

    const common = { n, cells: shown.cells, tokens: kit.tokens, cursor };
    drawMatrix(matrix, look, { ...common, painted: shown.painted });
    if (!beside.hidden) {
      drawMatrix(second, look, { ...common, beside: shown.beside, weights: shown.beside ? null : shown.weights });
      besideText.textContent = sayBeside();
      second.setAttribute("aria-label", besideText.textContent);
    }
    reading.textContent = `Query ${nameOf(i)} ${sayReads(keysOf(shown.cells, n, i))}. ${sayLayers(shown.found, n, i)}`;
    arcs.setAttribute("aria-label", `Arcs from query ${i} to what it reads. ${reading.textContent}`);
    drawArcs(arcs, look, { n, cells: shown.cells, ...shown.found, query: i });
    showNumbers();
    if (code.value !== shown.code) {
      code.value = shown.code;
      copied.textContent = "";
    }
    const words = describe(shown.code, n, shown.found) + (shown.beside ? ` ${sayBeside()}` : "");
    if (said.textContent !== words) said.textContent = words;
    listRows();
    box.dataset.draws = ++draws;
    box.dataset.milliseconds = (performance.now() - started).toFixed(2);
  }

  // Python's side of the state.

  function onKit() {
    if (model.get("kit") === kit) return;
    try {
      kit = checkedKit(model.get("kit"));
      books = library(kit);
      buildAtoms();
    } catch (error) {
      complain(error.message);
    }
    if (wanted === null || !kit.sizes.includes(wanted)) return;
    const n = wanted;
    wanted = null;
    box.removeAttribute("aria-busy");
    setSize(n);
  }
  function onSetting() {
    if (JSON.stringify(model.get("setting")) === JSON.stringify(setting)) return;
    onKit();
    change(model.get("setting"));
  }

  buildAtoms();
  settle(setting);
  sizes.input.addEventListener("change", history.close);
  const views = element("div", "tinyattn-studio-views");
  views.append(left, beside, right);
  box.append(bar, views, atoms, line, list, said, cellSaid);
  el.replaceChildren(box);
  const fold = () => (box.dataset.narrow = box.clientWidth < NARROW);
  fold();
  draw(performance.now());

  // The theme, the width and printing change how it looks.
  const redraw = () => draw(performance.now());
  let seen = box.clientWidth;
  const resizes = new ResizeObserver(() => {
    if (box.clientWidth === seen) return;
    seen = box.clientWidth;
    fold();
    redraw();
  });
  resizes.observe(box);
  const themes = new MutationObserver(redraw);
  themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  if (document.body) themes.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
  const media = ["(prefers-color-scheme: dark)", "print"].map((query) => matchMedia(query));
  for (const it of media) it.addEventListener("change", redraw);
  model.on("change:kit", onKit);
  model.on("change:setting", onSetting);
  return () => {
    model.off("change:kit", onKit);
    model.off("change:setting", onSetting);
    for (const it of media) it.removeEventListener("change", redraw);
    themes.disconnect();
    resizes.disconnect();
  };
}

export default { render };
