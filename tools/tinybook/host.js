// Starts every <div data-tinyattn-widget="name" data-state="json"> of the page. The model has the
// part of anywidget's interface that needs no kernel. The div's content is there when a widget
// starts, to use or to replace. A widget that fails says so above that content, and leaves the
// others alone.
class Model {
  constructor(state) {
    this.state = state;
    this.listeners = {};
  }
  get(key) {
    return this.state[key];
  }
  set(key, value) {
    if (this.state[key] === value) return;
    this.state[key] = value;
    for (const event of [`change:${key}`, "change"])
      for (const listener of [...(this.listeners[event] ?? [])]) listener();
  }
  on(event, listener) {
    (this.listeners[event] ??= new Set()).add(listener);
  }
  off(event, listener) {
    this.listeners[event]?.delete(listener);
  }
  save_changes() {}
}

for (const el of document.querySelectorAll("[data-tinyattn-widget]")) {
  const name = el.dataset.tinyattnWidget;
  const fallback = [...el.childNodes];
  try {
    if (!Object.hasOwn(widgets, name)) throw new Error("there is no such widget");
    const model = new Model(JSON.parse(el.dataset.state));
    widgets[name]().render({ model, el });
  } catch (error) {
    console.error(`tinyattn widget ${name}:`, error);
    const message = document.createElement("p");
    message.className = "tinyattn-widget-error";
    message.setAttribute("role", "alert");
    message.textContent = `The widget “${name}” could not start (${error.message}). What it would show first:`;
    el.replaceChildren(message, ...fallback);
  }
}
