(() => {
  "use strict";
  const text = (row, i) => row.cells[i].textContent.trim();

  const compare = (i, numeric) => (a, b) => {
    if (!numeric) return text(a, i).localeCompare(text(b, i), undefined, { numeric: true });
    return Number(a.cells[i].dataset.v) - Number(b.cells[i].dataset.v);
  };

  const empty = (row, i, numeric) => (numeric ? row.cells[i].dataset.v : text(row, i)) === "";

  document.querySelectorAll("[data-table]").forEach((card) => {
    const body = card.querySelector("tbody");
    const heads = [...card.querySelectorAll("th")];
    const rows = [...body.rows];
    const count = card.querySelector(".count");

    heads.forEach((head, i) => {
      const numeric = head.classList.contains("n");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        // Default order: numbers descending, text ascending.
        const now = head.getAttribute("aria-sort");
        const first = numeric ? "descending" : "ascending";
        const other = numeric ? "ascending" : "descending";
        const next = now === first ? other : first;
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", next);
        const full = rows.filter((row) => !empty(row, i, numeric)).sort(compare(i, numeric));
        if (next === "descending") full.reverse();
        body.append(...full, ...rows.filter((row) => empty(row, i, numeric)));
      });
    });

    const label = card.querySelector(".search");
    if (!label) return;
    label.hidden = false;
    const field = label.querySelector("input");
    const words = rows.map((row) => row.textContent.toLowerCase());
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => {
        const fits = wanted.every((word) => words[i].includes(word));
        row.hidden = !fits;
        if (fits) shown += 1;
      });
      count.textContent =
        shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
    });
  });
})();
