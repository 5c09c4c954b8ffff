// A picture (or text) and one or two sliders: the front of tinyattn.show.explore.
//   names [string], labels [[string]], index [int]: the sliders and where they stand
//   frames [frame]: on a page without a kernel, every frame, last slider fastest
//   frame {..., index}: in Jupyter, the one that Python computed last
// A frame is { src, alt, width, height }, { text } or { error }. On a page the first frame's src
// may be left to the still that is already in `el`, so that its bytes are there once.

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function check(condition, message) {
  if (!condition) throw new Error(message);
}

function read(model) {
  const names = model.get("names"), labels = model.get("labels"), frames = model.get("frames");
  check(Array.isArray(names) && names.length > 0, "it has no parameter");
  check(
    Array.isArray(labels) && labels.length === names.length && labels.every((l) => Array.isArray(l) && l.length > 0),
    "a parameter has no values",
  );
  const count = labels.reduce((product, values) => product * values.length, 1);
  if (frames !== undefined)
    check(Array.isArray(frames) && frames.length === count, `it needs ${count} frames`);
  return { names, labels, frames };
}

function clamp(index, labels) {
  const given = Array.isArray(index) ? index : [];
  return labels.map((values, k) => {
    const place = Number.isFinite(given[k]) ? Math.round(given[k]) : 0;
    return Math.min(values.length - 1, Math.max(0, place));
  });
}

function render({ model, el }) {
  const { names, labels, frames } = read(model);
  const still = el.querySelector("img");
  if (frames && still && frames[0].src === undefined && frames[0].text === undefined)
    frames[0] = { ...frames[0], src: still.getAttribute("src") };

  const box = element("div", "tinyattn-frames");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", `Figure with a slider for ${names.join(" and ")}`);
  const sliders = names.map((name, k) => {
    const label = element("label", "tinyattn-slider");
    const input = element("input");
    Object.assign(input, { type: "range", min: 0, max: labels[k].length - 1, step: 1 });
    input.setAttribute("aria-label", name);
    const value = element("output");
    label.append(element("span", "", `${name} =`), value, input);
    box.append(label);
    input.addEventListener("input", () => {
      model.set("index", sliders.map((slider) => Number(slider.input.value)));
      model.save_changes();
    });
    return { input, value };
  });
  const picture = element("div", "tinyattn-picture");
  const said = element("p", "tinyattn-said");
  said.setAttribute("aria-live", "polite");
  box.append(picture, said);
  el.replaceChildren(box);

  let place = [];
  function drawSliders() {
    place = clamp(model.get("index"), labels);
    sliders.forEach(({ input, value }, k) => {
      input.value = place[k];
      value.textContent = labels[k][place[k]];
      input.setAttribute("aria-valuetext", labels[k][place[k]]);
    });
  }
  function drawPicture() {
    const at = place.reduce((sum, k, axis) => sum * labels[axis].length + k, 0);
    const frame = (frames ? frames[at] : model.get("frame")) ?? {};
    box.setAttribute("aria-busy", String(!frames && String(frame.index) !== String(place)));
    if (frame.src !== undefined) {
      const image = picture.querySelector("img") ?? element("img");
      for (const key of ["src", "alt", "width", "height"])
        if (image.getAttribute(key) !== String(frame[key])) image.setAttribute(key, frame[key]);
      if (!image.parentNode) picture.replaceChildren(image);
    } else if (frame.text !== undefined) {
      picture.replaceChildren(element("pre", "", frame.text));
    } else {
      const message = element("p", "tinyattn-error", frame.error ?? "There is no picture for this setting.");
      message.setAttribute("role", "alert");
      picture.replaceChildren(message);
    }
    return frame;
  }
  function draw() {
    drawSliders();
    const frame = drawPicture();
    const setting = names.map((name, k) => `${name} = ${labels[k][place[k]]}`).join(", ");
    if (box.getAttribute("aria-busy") === "false") said.textContent = `${setting}. ${frame.alt ?? frame.text ?? ""}`;
  }
  draw();
  const events = ["change:index", "change:frame"];
  for (const event of events) model.on(event, draw);
  return () => events.forEach((event) => model.off(event, draw));
}

export default { render };
