// Starts the widgets of a page that has no kernel. Each is
//   <div data-tinyattn-widget="NAME" data-state='JSON'>a still picture and its description</div>
// and NAME is a module beside this file, called as anywidget calls it: render({ model, el }).
// The still stays in place until a module takes over, and stays for good if one fails.

class Model {
  constructor(state) {
    this.state = { ...state };
    this.listeners = new Map();
  }
  get(key) {
    return this.state[key];
  }
  set(key, value) {
    if (JSON.stringify(value) === JSON.stringify(this.state[key])) return;
    this.state[key] = value;
    for (const event of [`change:${key}`, "change"])
      for (const listener of [...(this.listeners.get(event) ?? [])]) listener();
  }
  on(event, listener) {
    if (!this.listeners.has(event)) this.listeners.set(event, new Set());
    this.listeners.get(event).add(listener);
  }
  off(event, listener) {
    this.listeners.get(event)?.delete(listener);
  }
  save_changes() {}
  send() {}
}

function start(el, widgets) {
  const name = el.dataset.tinyattnWidget;
  const widget = Object.hasOwn(widgets, name) ? widgets[name] : undefined;
  if (typeof widget?.render !== "function") throw new Error(`there is no widget called “${name}”`);
  let state;
  try {
    state = JSON.parse(el.dataset.state ?? "");
  } catch {
    throw new Error("its data is not valid JSON");
  }
  if (state === null || typeof state !== "object" || Array.isArray(state))
    throw new Error("its data is not a JSON object");
  widget.render({ model: new Model(state), el });
}

function mount(root, widgets) {
  for (const el of root.querySelectorAll("[data-tinyattn-widget]")) {
    try {
      start(el, widgets);
    } catch (error) {
      const message = document.createElement("p");
      message.className = "tinyattn-error";
      message.setAttribute("role", "alert");
      message.textContent = `This interactive figure could not start: ${error.message}.`;
      el.prepend(message);
    }
  }
}

export default { mount };
