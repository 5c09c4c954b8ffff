// What readers do for themselves: a quiz, or a list of things to tick off. What they did stays in
// their browser, under one key, and goes nowhere else.
//   kind "quiz": name, question, choices [{ text, why, right }]
//   kind "list": title, groups [{ name, items [{ name, title, link }] }], overview (buttons to keep it)
// Stored: { "quiz:NAME": { right: bool, tries: int }, "done:NAME": true, ... }

const KEY = "tinyattn-progress";

function make(tag, className, text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

function isProgress(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

// Nothing is kept where the browser refuses (private windows do): the page works all the same.
function load() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return isProgress(stored) ? stored : {};
  } catch {
    return {};
  }
}

function store(progress) {
  try {
    localStorage.setItem(KEY, JSON.stringify(progress));
    return true;
  } catch {
    return false;
  }
}

function keep(name, value) {
  const progress = load();
  if (value === undefined) delete progress[name];
  else progress[name] = value;
  return store(progress);
}

let nFields = 0; // radio buttons of one quiz share a name that no other quiz has

function renderQuiz(model, box) {
  const [name, question, choices] = ["name", "question", "choices"].map((key) => model.get(key));
  const field = make("fieldset", "tinyattn-quiz");
  field.append(make("legend", "", question));
  const said = make("p", "tinyattn-verdict");
  said.setAttribute("role", "status");
  const group = `tinyattn-quiz-${(nFields += 1)}-${Math.random().toString(36).slice(2)}`;
  const inputs = choices.map(({ text }) => {
    const row = make("label", "tinyattn-choice");
    const input = make("input");
    Object.assign(input, { type: "radio", name: group });
    row.append(input, make("span", "", text));
    field.append(row);
    return input;
  });
  const button = make("button", "", "Check");
  button.type = "button";
  button.addEventListener("click", () => {
    const chosen = inputs.findIndex((input) => input.checked);
    if (chosen < 0) {
      said.textContent = "Choose an answer first.";
      return;
    }
    const { right, why } = choices[chosen];
    const before = load()[`quiz:${name}`] ?? { right: false, tries: 0 };
    const tries = before.right ? before.tries : before.tries + 1;
    keep(`quiz:${name}`, { right: before.right || right, tries });
    said.textContent = `${right ? "Right." : "Not that one."} ${why}`;
    said.dataset.right = right;
  });
  for (const input of inputs)
    input.addEventListener("change", () => {
      said.textContent = "";
      delete said.dataset.right;
    });
  const before = load()[`quiz:${name}`];
  if (before?.right) said.textContent = "You answered this one before.";
  field.append(button, said);
  box.append(field);
}

function renderList(model, box) {
  const [title, groups, overview] = ["title", "groups", "overview"].map((key) => model.get(key));
  const field = make("div", "tinyattn-list");
  field.setAttribute("role", "group");
  field.setAttribute("aria-label", title);
  const said = make("p", "tinyattn-verdict");
  said.setAttribute("role", "status");
  const draw = () => {
    const progress = load();
    field.replaceChildren(...groups.map((group) => drawGroup(group, progress)));
  };
  const nDone = (items, progress) => items.filter((it) => progress[`done:${it.name}`]).length;

  function drawGroup({ name, items }, progress) {
    const part = make("fieldset");
    const legend = make("legend");
    const count = () => {
      const now = load();
      const right = Object.entries(now).filter(
        ([key, value]) => key.startsWith(`quiz:${items[0]?.name.split("/")[0]}/`) && value?.right,
      ).length;
      legend.textContent = `${name}: ${nDone(items, now)} of ${items.length} exercises`;
      if (right) legend.textContent += `, ${right} ${right === 1 ? "question" : "questions"} right`;
    };
    part.append(legend);
    for (const item of items) {
      const row = make("label", "tinyattn-choice");
      const input = make("input");
      input.type = "checkbox";
      input.checked = Boolean(progress[`done:${item.name}`]);
      input.addEventListener("change", () => {
        const kept = keep(`done:${item.name}`, input.checked || undefined);
        said.textContent = kept ? "" : "This browser keeps nothing for this page.";
        count();
      });
      row.append(input, titleOf(item));
      part.append(row);
    }
    count();
    return part;
  }

  draw();
  box.append(field);
  if (overview) box.append(buttons(draw, said));
  box.append(said);
}

// Links lead from page to page of the book; in Jupyter there are no such pages.
function titleOf({ title, link }) {
  const inBook = link && document.querySelector(".bd-article");
  const said = make(inBook ? "a" : "span", "", title);
  if (inBook) said.href = link;
  return said;
}

function buttons(draw, said) {
  const row = make("div", "tinyattn-buttons");
  const button = (text, act) => {
    const made = make("button", "", text);
    made.type = "button";
    made.addEventListener("click", act);
    row.append(made);
  };
  button("Save to a file", () => {
    const link = make("a");
    link.href = URL.createObjectURL(
      new Blob([JSON.stringify(load(), null, 2)], { type: "application/json" }),
    );
    link.download = "tinyattn-progress.json";
    link.click();
    URL.revokeObjectURL(link.href);
    said.textContent = "Saved as tinyattn-progress.json.";
  });
  const file = make("input", "tinyattn-said");
  Object.assign(file, { type: "file", accept: "application/json,.json", tabIndex: -1 });
  file.setAttribute("aria-label", "File with progress");
  file.addEventListener("change", async () => {
    try {
      const read = JSON.parse(await file.files[0].text());
      if (!isProgress(read)) throw new Error("it holds no progress");
      const names = Object.keys(read).filter((name) => /^(quiz|done):/.test(name));
      if (names.length === 0) throw new Error("it holds no progress");
      store({ ...load(), ...Object.fromEntries(names.map((name) => [name, read[name]])) });
      said.textContent = `Read ${names.length} ${names.length === 1 ? "entry" : "entries"}.`;
    } catch (error) {
      said.textContent = `That file was not used (${error.message}). Nothing has changed.`;
    }
    file.value = "";
    draw();
  });
  button("Load from a file", () => file.click());
  row.append(file);
  let asked = false;
  button("Forget everything", () => {
    if (!asked) {
      asked = true;
      said.textContent = "Press once more to forget everything that this browser keeps.";
      return;
    }
    asked = false;
    store({});
    said.textContent = "Forgotten.";
    draw();
  });
  return row;
}

function render({ model, el }) {
  const box = make("div", "tinyattn-study");
  box.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab would take the arrow keys
  if (model.get("kind") === "quiz") renderQuiz(model, box);
  else renderList(model, box);
  el.replaceChildren(box);
}

export default { render };
