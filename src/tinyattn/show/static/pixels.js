// The front of tinyattn.show.PixelStudio: a picture, a pixel of it, and what that pixel knows.
//   picture   { height, width, grey }: light as bytes, row after row, in base 64
//   models    [{ name, rules }]: the rule of every layer, first layer first
//   model, pixel [row, col], n_layers   what is shown
// A pixel stands at position row * width + col. A rule is of one of three kinds:
//   block   { size, memory, causal }    its block along the raster, and `memory` pixels before
//   stride  { size, causal }            every size-th pixel: a column, if size is the width
//   tile    { block, flange, causal }   its tile and a border; sizes are [rows, columns]

const NARROW = 560; // pixels under which everything stands in one column
const LEAP = 5; // pixels that an arrow key moves with shift

// ---------------------------------------------------------------------------- the rules

// What the pixel at a position reads in one layer: runs [start, stop, step] of positions.
export function keys(rule, at, { height, width }) {
  const { kind, size, causal } = rule;
  const end = causal ? at + 1 : height * width;
  if (kind === "stride") return [[at % size, end, size]];
  if (kind === "tile") return tileKeys(rule, Math.floor(at / width), at % width, height, width);
  const start = at - (at % size);
  return [[Math.max(0, start - rule.memory), Math.min(start + size, end), 1]];
}

function tileKeys({ block, flange, causal }, row, col, height, width) {
  const [top, left] = [row - (row % block[0]), col - (col % block[1])];
  const right = Math.min(left + block[1], width);
  const [first, last] = [Math.max(0, left - flange[1]), Math.min(right + flange[1], width)];
  const bottom = Math.min(top + block[0] + (causal ? 0 : flange[0]), height);
  const runs = [];
  for (let r = Math.max(0, top - flange[0]); r < bottom; r++) {
    let stop = last;
    if (causal && r >= top) stop = r < row ? right : r === row ? col + 1 : left;
    runs.push([r * width + first, r * width + stop, 1]);
  }
  return runs;
}

// Through how many layers a pixel first sees each one, 0 for not at all. The last layer is the one
// that it reads in; what is read there has read in the layer before.
export function firstSeen(rules, at, size) {
  const n = size.height * size.width;
  const seen = new Uint8Array(n);
  let frontier = [at];
  rules.toReversed().forEach((rule, before) => {
    const reads = new Uint8Array(n);
    for (const place of frontier) {
      reads[place] = 1; // the residual connection
      for (const [start, stop, step] of keys(rule, place, size))
        if (step === 1) reads.fill(1, start, stop);
        else for (let j = start; j < stop; j += step) reads[j] = 1;
    }
    frontier = [];
    reads.forEach((read, j) => {
      if (!read) return;
      frontier.push(j);
      seen[j] ||= before + 1;
    });
  });
  return seen;
}

// ---------------------------------------------------------------------------- words

const count = (number) => number.toLocaleString("en");
const plural = (number, one) => `${count(number)} ${one}${number === 1 ? "" : "s"}`;

// Sorted places with runs joined: 0 to 3, 7.
function runs(places) {
  const groups = [];
  for (const place of places) {
    const last = groups.at(-1);
    if (last && place === last.at(-1) + 1) last.push(place);
    else groups.push([place]);
  }
  return groups.map((run) => (run.length > 2 ? `${run[0]} to ${run.at(-1)}` : run.join(", "))).join(", ");
}

export function describe({ model, pixel, n_layers }, seen, { width }) {
  const [rows, columns] = [new Set(), new Set()];
  let known = 0;
  seen.forEach((layers, at) => {
    if (!layers || layers > n_layers) return;
    known++;
    rows.add(Math.floor(at / width));
    columns.add(at % width);
  });
  const said = (set, one) => `${plural(set.size, one)} (${runs([...set].sort((a, b) => a - b))})`;
  return (
    `Pixel at row ${pixel[0]}, column ${pixel[1]}. Through ${plural(n_layers, "layer")} of ${model} attention ` +
    `it knows ${count(known)} of ${count(seen.length)} pixels, in ${said(rows, "row")} and ${said(columns, "column")}.`
  );
}

// ---------------------------------------------------------------------------- the state

function demand(condition, message) {
  if (!condition) throw new Error(message);
}

// What there is to choose from, or an error that says what is wrong with it.
function readKit(model) {
  const [picture, models] = [model.get("picture"), model.get("models")];
  demand(picture instanceof Object && typeof picture.grey === "string", "its picture is missing");
  const { height, width } = picture;
  const light = Uint8Array.from(atob(picture.grey), (character) => character.charCodeAt(0));
  demand(height > 0 && width > 0 && light.length === height * width, "its picture has another size");
  demand(Array.isArray(models) && models.length > 0, "it has no model");
  const depth = models[0]?.rules?.length;
  for (const it of models) {
    demand(Array.isArray(it?.rules) && it.rules.length === depth && depth > 0, "its models differ in layers");
    for (const rule of it.rules)
      demand(["block", "stride", "tile"].includes(rule?.kind), `there is no rule “${String(rule?.kind).slice(0, 40)}”`);
  }
  return { height, width, light, models, depth };
}

// What is shown, or an error that says why it cannot be.
function readState(model, kit) {
  const state = Object.fromEntries(["model", "pixel", "n_layers"].map((key) => [key, model.get(key)]));
  const { pixel, n_layers } = state;
  const inside = (place, size) => Number.isInteger(place) && place >= 0 && place < size;
  demand(
    Array.isArray(pixel) && pixel.length === 2 && inside(pixel[0], kit.height) && inside(pixel[1], kit.width),
    `there is no pixel ${String(pixel).slice(0, 40)} here`,
  );
  demand(kit.models.some((it) => it.name === state.model), `there is no model “${String(state.model).slice(0, 40)}”`);
  demand(Number.isInteger(n_layers) && n_layers >= 1 && n_layers <= kit.depth, `there are 1 to ${kit.depth} layers here`);
  return state;
}

// ---------------------------------------------------------------------------- drawing

const TINTS = ["first", "second", "third"];

function colours(box) {
  const style = getComputedStyle(box);
  const named = (name) => style.getPropertyValue(name).trim() || "#888888";
  const parts = (name) => named(name).match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
  return {
    layers: [parts("--studio-paper"), ...TINTS.map((name) => parts(`--pixels-${name}`))],
    line: named("--studio-text"),
    paper: named("--studio-line"),
  };
}

// The light of a pixel under the colour of the layer that first sees it; washed out if none does.
function shade(light, layers, look) {
  const share = layers ? 0.55 : 0.8;
  return look.layers[layers].map((part) => Math.round(light * (1 - share) + part * share));
}

function drawPicture(canvas, look, { height, width, light }, { pixel, n_layers }, seen) {
  const scale = globalThis.devicePixelRatio || 1;
  const across = Math.round((canvas.clientWidth || 320) * scale);
  const down = Math.round((across * height) / width);
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  const pen = canvas.getContext("2d");
  const [x, y] = [(col) => Math.round((col * across) / width), (row) => Math.round((row * down) / height)];
  const shown = (row, col) => {
    const layers = seen[row * width + col];
    return layers > n_layers ? 0 : layers;
  };
  for (let row = 0; row < height; row++)
    for (let col = 0; col < width; col++) {
      pen.fillStyle = `rgb(${shade(light[row * width + col], shown(row, col), look).join(" ")})`;
      pen.fillRect(x(col), y(row), x(col + 1) - x(col), y(row + 1) - y(row));
    }
  // A line around what each layer adds: shapes, not only colours.
  const thick = Math.max(1, Math.round(scale));
  pen.fillStyle = look.line;
  for (let row = 0; row < height; row++)
    for (let col = 0; col < width; col++) {
      const own = shown(row, col);
      if (col && own !== shown(row, col - 1)) pen.fillRect(x(col), y(row), thick, y(row + 1) - y(row) + thick);
      if (row && own !== shown(row - 1, col)) pen.fillRect(x(col), y(row), x(col + 1) - x(col) + thick, thick);
    }
  const [row, col] = pixel;
  for (const [colour, out] of [[look.paper, 3], [look.line, 1.5]]) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5 * scale;
    const edge = out * scale;
    pen.strokeRect(x(col) - edge, y(row) - edge, x(col + 1) - x(col) + 2 * edge, y(row + 1) - y(row) + 2 * edge);
  }
}

// ---------------------------------------------------------------------------- elements

function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

function range(label, least, most, onInput) {
  const row = element("label", "tinyattn-slider");
  const value = element("span", "tinyattn-value");
  value.style.minInlineSize = `${String(most).length}ch`; // so that the slider stays where it is
  const input = element("input");
  Object.assign(input, { type: "range", min: least, max: most, step: 1 });
  input.setAttribute("aria-label", label);
  input.addEventListener("input", () => onInput(Number(input.value)));
  row.append(element("span", "", `${label} =`), value, input);
  return {
    row,
    show(number) {
      input.value = number;
      value.textContent = number;
    },
  };
}

function button(text, onClick) {
  const made = element("button", "tinyattn-studio-button", text);
  made.type = "button";
  made.addEventListener("click", onClick);
  return made;
}

// How many pixels each model knows through each number of layers.
function counts(models, depth) {
  const table = element("table", "tinyattn-studio-numbers");
  const head = element("tr");
  head.append(element("td"));
  for (let layers = 1; layers <= depth; layers++) {
    const name = element("th", "tinyattn-pixels-layer", plural(layers, "layer"));
    name.scope = "col";
    name.dataset.layer = layers;
    head.append(name);
  }
  const [top, body] = [element("thead"), element("tbody")];
  top.append(head);
  const rows = models.map(({ name }) => {
    const row = element("tr");
    const title = element("th", "", name);
    title.scope = "row";
    const cells = Array.from({ length: depth }, () => element("td"));
    row.append(title, ...cells);
    body.append(row);
    return { row, cells };
  });
  table.append(element("caption", "tinyattn-said", "Pixels known through so many layers"), top, body);
  return {
    table,
    show(k, seen, shown) {
      rows[k].row.dataset.on = shown;
      rows[k].cells.forEach((cell, before) => {
        cell.textContent = count(seen.filter((layers) => layers && layers <= before + 1).length);
      });
    },
  };
}

// ---------------------------------------------------------------------------- the widget

const MOVES = {
  ArrowUp: ([row, col], leap) => [row - leap, col],
  ArrowDown: ([row, col], leap) => [row + leap, col],
  ArrowLeft: ([row, col], leap) => [row, col - leap],
  ArrowRight: ([row, col], leap) => [row, col + leap],
  Home: ([row]) => [row, 0],
  End: ([row]) => [row, Infinity],
  PageUp: ([, col]) => [0, col],
  PageDown: ([, col]) => [Infinity, col],
};

function render({ model, el }) {
  const kit = readKit(model);
  const { height, width, models, depth } = kit;
  let state = readState(model, kit);
  let known = { at: null, seen: [] }; // for each model, through how many layers each pixel is seen
  let draws = 0;

  const box = element("div", "tinyattn-studio tinyattn-pixels");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "What a pixel knows");
  box.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab moves on with the arrows

  function change(key, value) {
    model.set(key, value);
    model.save_changes();
  }
  function choose(row, col) {
    const place = [Math.max(0, Math.min(row, height - 1)), Math.max(0, Math.min(col, width - 1))];
    if (String(place) !== String(state.pixel)) change("pixel", place);
  }

  const canvas = element("canvas", "tinyattn-pixels-picture");
  canvas.tabIndex = 0;
  canvas.style.aspectRatio = `${width} / ${height}`;
  canvas.setAttribute("role", "application");
  canvas.setAttribute(
    "aria-label",
    `Picture of ${height} rows and ${width} columns. Arrow keys choose a pixel, with shift ${LEAP} further.`,
  );
  const pens = models.map(({ name }) => button(name, () => change("model", name)));
  const tools = element("div", "tinyattn-studio-tools");
  tools.setAttribute("role", "group");
  tools.setAttribute("aria-label", "Attention");
  tools.append(...pens);
  const layers = range("layers", 1, depth, (m) => change("n_layers", m));
  const row = range("row", 0, height - 1, (place) => choose(place, state.pixel[1]));
  const column = range("column", 0, width - 1, (place) => choose(state.pixel[0], place));
  const said = element("p", "tinyattn-pixels-text");
  said.setAttribute("aria-live", "polite");
  const table = counts(models, depth);

  const pointed = (event) => {
    const frame = canvas.getBoundingClientRect();
    const place = (share, size) => Math.floor(share * size);
    choose(
      place((event.clientY - frame.top) / frame.height, height),
      place((event.clientX - frame.left) / frame.width, width),
    );
  };
  canvas.addEventListener("click", pointed); // a tap, too; a finger that scrolls makes no click
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons & 1 && event.pointerType !== "touch") pointed(event);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !MOVES[event.key]) return;
    event.preventDefault();
    choose(...MOVES[event.key](state.pixel, event.shiftKey ? LEAP : 1));
  });

  function draw() {
    const started = performance.now();
    try {
      state = readState(model, kit);
    } catch {
      return; // Python refuses such a state as well; the last good one stays
    }
    const at = state.pixel[0] * width + state.pixel[1];
    if (known.at !== at) known = { at, seen: models.map(({ rules }) => firstSeen(rules, at, kit)) };
    const shown = models.findIndex(({ name }) => name === state.model);
    pens.forEach((pen, k) => pen.setAttribute("aria-pressed", k === shown));
    layers.show(state.n_layers);
    row.show(state.pixel[0]);
    column.show(state.pixel[1]);
    known.seen.forEach((seen, k) => table.show(k, seen, k === shown));
    drawPicture(canvas, colours(box), kit, state, known.seen[shown]);
    const words = describe(state, known.seen[shown], kit);
    if (said.textContent !== words) said.textContent = words;
    box.dataset.draws = ++draws;
    box.dataset.milliseconds = (performance.now() - started).toFixed(2);
  }

  const [left, right, views] = ["left", "right", "views"].map((name) => element("div", `tinyattn-studio-${name}`));
  left.append(canvas);
  right.append(tools, layers.row, row.row, column.row, said, table.table);
  views.append(left, right);
  box.append(views);
  el.replaceChildren(box);
  const fold = () => (box.dataset.narrow = box.clientWidth < NARROW);
  fold();
  draw();

  // The theme, the width and printing change how it looks.
  let seen = box.clientWidth;
  const resizes = new ResizeObserver(() => {
    if (box.clientWidth === seen) return;
    seen = box.clientWidth;
    fold();
    draw();
  });
  resizes.observe(box);
  const themes = new MutationObserver(draw);
  themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  if (document.body) themes.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
  const media = ["(prefers-color-scheme: dark)", "print"].map((query) => matchMedia(query));
  for (const it of media) it.addEventListener("change", draw);
  const events = ["change:pixel", "change:model", "change:n_layers"];
  for (const event of events) model.on(event, draw);
  return () => {
    for (const event of events) model.off(event, draw);
    for (const it of media) it.removeEventListener("change", draw);
    themes.disconnect();
    resizes.disconnect();
  };
}

export default { render };
