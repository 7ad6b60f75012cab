// Small comforts; every page works without them.
"use strict";

document.addEventListener("click", event => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  const done = () => { const said = button.textContent; button.textContent = "copied"; setTimeout(() => { button.textContent = said; }, 1200); };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => {});
});

// Forms of filters do not send what is empty, so that addresses stay short, and choosing is enough.
for (const form of document.querySelectorAll("form.tools")) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
  });
  // With the keys one passes over other choices on the way: there, the button sends.
  for (const field of form.querySelectorAll("select")) {
    let keys = false;
    field.addEventListener("keydown", () => { keys = true; });
    field.addEventListener("pointerdown", () => { keys = false; });
    field.addEventListener("change", () => { if (!keys) form.requestSubmit(); });
  }
}

// Parts that take a moment: heat maps come after the page.
for (const place of document.querySelectorAll("[data-fill]")) {
  fetch(place.dataset.fill, { credentials: "same-origin" }).then(answer => answer.ok ? answer.text() : "").then(text => {
    const found = new DOMParser().parseFromString(text, "text/html").getElementById("filled");
    if (found) place.replaceChildren(...found.childNodes);
  });
}

// A head of a table is a button that sorts by it, as in the reports.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.querySelectorAll("thead th"));
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = row => { const cell = row.cells[column], raw = cell.dataset.v; return raw === undefined ? cell.textContent.trim().toLowerCase() : raw === "" ? -Infinity : Number(raw); };
      const rows = Array.from(table.tBodies[0].rows).map(row => [value(row), row]);
      rows.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (down ? -1 : 1));
      table.tBodies[0].append(...rows.map(pair => pair[1]));
    });
  });
}

// "/" goes to the search, as everywhere.
document.addEventListener("keydown", event => {
  if (event.key !== "/" || /INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) return;
  const search = document.querySelector("input[type=search]");
  if (search) { event.preventDefault(); search.focus(); }
});
