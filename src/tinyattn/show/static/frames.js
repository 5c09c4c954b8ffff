// A picture (or text) with one or two sliders: the front of tinyattn.show.explore.
//   names [string], labels [[string]], index [int]: the sliders and where they stand
//   frames [frame]: on a page without a kernel, every frame, the last slider fastest
//   frame {..., index}: in Jupyter, the one that Python computed last
// A frame is { src, alt, width, height }, { text } or { error }. On a page the first frame's src
// is left to the still that stands in `el`, so that its bytes are stored once.

const SCREEN = 360; // pixels of the page that a phone has room for

function element(tag, className, text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

function demand(condition, message) {
  if (!condition) throw new Error(message);
}

function isPlace(index, labels) {
  return (
    Array.isArray(index) &&
    index.length === labels.length &&
    labels.every((values, k) => Number.isInteger(index[k]) && index[k] >= 0 && index[k] < values.length)
  );
}

// The state, or an error that the page's host shows beside the still.
function read(model, el) {
  const [names, labels, frames] = ["names", "labels", "frames"].map((key) => model.get(key));
  demand(Array.isArray(names) && names.length > 0, "it has no parameter");
  demand(
    Array.isArray(labels) &&
      labels.length === names.length &&
      labels.every((values) => Array.isArray(values) && values.length > 0),
    "a parameter has no values",
  );
  demand(isPlace(model.get("index"), labels), "its sliders stand outside their values");
  if (frames === undefined) return { names, labels };
  const count = labels.reduce((product, values) => product * values.length, 1);
  demand(
    Array.isArray(frames) && frames.length === count && frames.every((frame) => frame instanceof Object),
    `it needs ${count} frames`,
  );
  const still = el.querySelector("img")?.getAttribute("src");
  return { names, labels, frames: [{ ...(still && { src: still }), ...frames[0] }, ...frames.slice(1)] };
}

function slider(name, labels, onInput) {
  const row = element("label", "tinyattn-slider");
  const value = element("span", "tinyattn-value");
  const longest = Math.max(...labels.map((label) => String(label).length));
  value.style.minInlineSize = `min(${longest}ch, 100%)`; // so that the slider stays where it is
  const input = element("input");
  Object.assign(input, { type: "range", min: 0, max: labels.length - 1, step: 1 });
  input.setAttribute("aria-label", name);
  input.addEventListener("input", onInput);
  row.append(element("span", "", `${name} =`), value, input);
  return {
    row,
    place: () => Number(input.value),
    show(place) {
      input.value = place;
      input.setAttribute("aria-valuetext", labels[place]);
      value.textContent = labels[place];
    },
  };
}

function render({ model, el }) {
  const { names, labels, frames } = read(model, el);
  const box = element("div", "tinyattn-frames");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", `Figure that changes with ${names.join(" and ")}`);
  box.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab moves on with the arrows
  const sliders = names.map((name, k) =>
    slider(name, labels[k], () => {
      model.set("index", sliders.map((it) => it.place()));
      model.save_changes();
    }),
  );
  const picture = element("div", "tinyattn-picture");
  const larger = element("button", "tinyattn-larger", "Larger picture"); // widgets.css: on a phone
  larger.type = "button";
  larger.setAttribute("aria-pressed", "false");
  larger.addEventListener("click", () => {
    const pressed = larger.getAttribute("aria-pressed") !== "true";
    larger.setAttribute("aria-pressed", String(pressed));
    if (pressed) picture.tabIndex = 0; // what scrolls has to be reached by keys
    else picture.removeAttribute("tabindex");
  });
  const said = element("p", "tinyattn-said"); // tells screen readers what a slider changed
  said.setAttribute("aria-live", "polite");
  box.append(...sliders.map((it) => it.row), larger, picture, said);
  el.replaceChildren(box);

  function drawPicture(frame) {
    larger.hidden = !(frame.width > SCREEN);
    if (frame.src !== undefined) {
      const image = picture.querySelector("img") ?? element("img");
      for (const key of ["width", "height", "alt", "src"]) image.setAttribute(key, frame[key] ?? "");
      if (!image.parentNode) picture.replaceChildren(image);
    } else if (frame.text !== undefined) {
      picture.replaceChildren(element("pre", "", frame.text));
    } else {
      const problem = frame.error ?? "There is no picture for this setting.";
      picture.replaceChildren(element("p", "tinyattn-widget-error", problem));
    }
  }

  function draw() {
    const index = model.get("index");
    if (!isPlace(index, labels)) return;
    sliders.forEach((it, k) => it.show(index[k]));
    const at = index.reduce((sum, place, k) => sum * labels[k].length + place, 0);
    const frame = frames ? frames[at] : model.get("frame");
    const waiting = !frames && String(frame.index) !== String(index); // for Python's answer
    box.setAttribute("aria-busy", String(waiting));
    if (waiting) return;
    drawPicture(frame);
    const setting = names.map((name, k) => `${name} = ${labels[k][index[k]]}`).join(", ");
    said.textContent = `${setting}. ${frame.alt ?? frame.text ?? frame.error ?? ""}`;
  }

  const events = ["change:index", "change:frame"];
  for (const event of events) model.on(event, draw);
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

export default { render };
