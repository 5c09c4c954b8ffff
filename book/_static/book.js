// Search results quote the pages they found, which browsers forbid in a folder on disk.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// Formulas wider than the text become smaller, as far as they can still be read. What is wider even
// then scrolls in its box, so the box must be reachable by keyboard.
const SMALLEST = 0.75;
function markWideFormulas() {
  for (const box of document.querySelectorAll("mjx-container[display]")) {
    box.dataset.size ??= box.style.fontSize;
    box.style.fontSize = box.dataset.size;
    const fits = box.clientWidth / box.scrollWidth;
    if (fits < 1) {
      const size = parseFloat(getComputedStyle(box).fontSize);
      box.style.fontSize = `${size * Math.max(SMALLEST, 0.99 * fits)}px`;
    }
    if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  }
}
addEventListener("load", () => window.MathJax?.startup?.promise.then(markWideFormulas));
addEventListener("resize", markWideFormulas);

// Paper is white: a page that is dark prints as a light one, widgets too, and is dark again afterwards.
let screen;
function toPaper(printing) {
  const page = document.documentElement;
  if (printing && page.dataset.theme === "dark") {
    screen = page.dataset.theme;
    page.dataset.theme = "light";
  } else if (!printing && screen) {
    page.dataset.theme = screen;
    screen = undefined;
  }
}
const paper = matchMedia("print");
paper.addEventListener("change", () => toPaper(paper.matches));
addEventListener("beforeprint", () => toPaper(true));
addEventListener("afterprint", () => toPaper(false));

// A link to a term or a reference shows what is there: at the mouse, or at the keyboard's focus.
// Escape hides it, and it stays while the mouse is on it.
function addPreviews() {
  const box = Object.assign(document.createElement("div"), { id: "preview", hidden: true });
  box.setAttribute("role", "tooltip");
  document.body.append(box);
  let waiting;

  function show(link) {
    clearTimeout(waiting);
    hide();
    box.textContent = link.dataset.preview;
    box.hidden = false;
    link.setAttribute("aria-describedby", "preview");
    const at = link.getClientRects()[0], gap = 6;
    const left = Math.min(at.left, document.documentElement.clientWidth - box.offsetWidth - gap);
    const below = at.bottom + gap + box.offsetHeight < innerHeight;
    box.style.left = `${Math.max(gap, left) + scrollX}px`;
    box.style.top = `${(below ? at.bottom + gap : at.top - gap - box.offsetHeight) + scrollY}px`;
  }
  function hide() {
    box.hidden = true;
    document.querySelector("[aria-describedby=preview]")?.removeAttribute("aria-describedby");
  }
  function hideSoon() {
    waiting = setTimeout(hide, 200);
  }
  for (const link of document.querySelectorAll("[data-preview]")) {
    link.addEventListener("mouseenter", () => show(link));
    link.addEventListener("focus", () => show(link));
    link.addEventListener("mouseleave", hideSoon);
    link.addEventListener("blur", hide);
  }
  box.addEventListener("mouseenter", () => clearTimeout(waiting));
  box.addEventListener("mouseleave", hideSoon);
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
}
addEventListener("DOMContentLoaded", addPreviews);
