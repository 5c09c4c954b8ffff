// Search results quote the pages they found, which browsers forbid in a folder on disk.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// Formulas wider than the text scroll in their box, so the box must be reachable by keyboard.
function markWideFormulas() {
  for (const box of document.querySelectorAll("mjx-container[display]"))
    if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
}
addEventListener("load", () => window.MathJax?.startup?.promise.then(markWideFormulas));
addEventListener("resize", markWideFormulas);
