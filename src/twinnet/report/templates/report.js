"use strict";
(() => {
  const table = document.getElementById("pairs");
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      // The clipboard is not open to every page that lies on a disk; a selection is.
      const selection = getSelection();
      selection.selectAllChildren(document.getElementById(button.dataset.copy));
      const copied = navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject();
      copied.then(() => (button.textContent = "copied"), () => (button.textContent = "selected"));
    });
  }
  if (!table) return;

  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const details = JSON.parse(document.getElementById("details").textContent);
  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const chips = Array.from(document.querySelectorAll("button[data-status]"));

  // ---- more about one pair
  const close = (row) => {
    if (row.more) row.more.remove();
    row.more = null;
    row.setAttribute("aria-expanded", "false");
  };
  const open = (row) => {
    const list = document.createElement("dl");
    list.className = "facts";
    for (const [label, text] of details[Number(row.dataset.i)]) {
      const name = list.appendChild(document.createElement("dt"));
      name.textContent = label;
      list.appendChild(document.createElement("dd")).textContent = text;
    }
    row.more = document.createElement("tr");
    row.more.className = "more";
    const cell = row.more.appendChild(document.createElement("td"));
    cell.colSpan = row.cells.length;
    cell.appendChild(list);
    row.after(row.more);
    row.setAttribute("aria-expanded", "true");
  };
  const toggle = (row) => (row.more ? close(row) : open(row));
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-i]");
    if (row && getSelection().isCollapsed) toggle(row);
  });
  body.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr[data-i]");
    if (row && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      toggle(row);
    }
  });

  // ---- filter
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const on = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.status);
    let count = 0;
    for (const row of rows) {
      const keep = (!on.length || on.includes(row.dataset.status)) && words.every((word) => row.dataset.find.includes(word));
      row.hidden = !keep;
      if (row.more) row.more.hidden = !keep;
      count += keep;
    }
    shown.textContent = count === rows.length ? `${rows.length} pairs` : `${count} of ${rows.length} pairs`;
  };
  filter.addEventListener("input", apply);
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
      apply();
    });
  }

  // ---- sort
  const heads = Array.from(table.tHead.rows[0].cells);
  const key = (row, column, numeric) => {
    const text = row.cells[column].dataset.v ?? row.cells[column].textContent;
    return numeric ? (text === "" ? NaN : Number(text)) : text.toLowerCase();
  };
  const sort = (column) => {
    const head = heads[column];
    const numeric = head.classList.contains("n");
    const was = head.getAttribute("aria-sort");
    const down = was ? was === "ascending" : numeric && column > 0;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = rows.map((row) => [key(row, column, numeric), row]);
    keyed.sort(([a, first], [b, second]) => {
      const unknown = Number(a !== a) - Number(b !== b); // NaN is not equal to itself: unknown figures go last
      const order = a < b ? -1 : a > b ? 1 : 0;
      return unknown || (down ? -order : order) || first.dataset.i - second.dataset.i;
    });
    const all = document.createDocumentFragment();
    keyed.forEach(([, row], i) => {
      rows[i] = row;
      all.append(row);
      if (row.more) all.append(row.more);
    });
    body.append(all);
  };
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => sort(column)));

  // ---- jump to a pair
  const byIndex = new Map(rows.map((row) => [row.dataset.i, row]));
  const jump = (index) => {
    const row = byIndex.get(String(index));
    if (!row) return;
    if (row.hidden) {
      filter.value = "";
      for (const chip of chips) chip.setAttribute("aria-pressed", "false");
      apply();
    }
    for (const other of body.querySelectorAll("tr.target")) other.classList.remove("target");
    row.classList.add("target");
    if (!row.more) open(row);
    row.scrollIntoView({ block: "center" });
    row.focus({ preventScroll: true });
  };
  for (const link of document.querySelectorAll("a[data-jump]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      jump(link.dataset.jump);
    });
  }

  // ---- chart
  const chart = document.getElementById("chart");
  const tip = chart && chart.querySelector(".tip");
  for (const svg of chart ? chart.querySelectorAll("svg") : []) {
    const cursor = svg.querySelector(".cursor");
    const { left, right, number, width } = svg.dataset;
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * width;
      return Math.min(number - 1, Math.max(0, Math.floor(((x - left) / (right - left)) * number)));
    };
    const hide = () => (tip.style.visibility = cursor.style.visibility = "hidden");
    svg.addEventListener("pointermove", (event) => {
      const index = at(event);
      const row = byIndex.get(String(index));
      const x = Number(left) + ((index + 0.5) / number) * (right - left);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      const [, place, op, , status, ratio, , size] = Array.from(row.cells, (cell) => cell.textContent.trim());
      tip.textContent = `${place} ${op}: ${status}, creates ${ratio || "?"} x its floor; differs by ${size}`;
      const share = x / width;
      tip.style.left = share < 0.5 ? `calc(${share * 100}% + 10px)` : "";
      tip.style.right = share < 0.5 ? "" : `calc(${(1 - share) * 100}% + 10px)`;
      tip.style.visibility = cursor.style.visibility = "visible";
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("click", (event) => jump(at(event)));
  }
  const target = /^#pair-(\d+)$/.exec(location.hash);
  if (target) jump(target[1]);
  apply();
})();
