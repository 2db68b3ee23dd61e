// Sorting and filtering of the ranking. The table is whole without this script.
"use strict";
{
  const MORE = 20;
  const table = document.querySelector("table.ranking");
  const bodies = [...table.tBodies];
  const headers = [...table.querySelectorAll("th[data-key]")];
  const numeric = (row, key) => (row.dataset[key] === "" ? Infinity : Number(row.dataset[key]));
  let shown = MORE;

  const bar = document.createElement("div");
  bar.className = "tools";
  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = "Filter plans: words of a row";
  filter.setAttribute("aria-label", "Filter plans");
  const order = document.createElement("select");
  order.setAttribute("aria-label", "Sort by");
  for (const header of headers) order.add(new Option(`sorted by ${header.dataset.words}`, header.dataset.key));
  const count = document.createElement("span");
  count.setAttribute("role", "status");
  bar.append(filter, order, count);
  table.before(bar);
  const more = document.createElement("button");
  more.type = "button";
  more.className = "more";
  table.after(more);

  function show() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let matching = 0, all = 0;
    for (const body of bodies) {
      for (const row of body.rows) {
        if (row.classList.contains("group")) continue;
        const text = row.textContent.toLowerCase();
        const matches = words.every((word) => text.includes(word));
        const first = body !== bodies[0] || matching < shown || row.classList.contains("picked");
        row.hidden = !matches || !first;
        if (body === bodies[0]) {
          all += 1;
          matching += matches ? 1 : 0;
        }
      }
    }
    count.textContent = words.length ? `${matching} of ${all} plans` : "";
    more.hidden = matching <= shown;
    more.textContent = `Show all ${matching} plans`;
  }

  function sort(key, down) {
    const sign = down ? -1 : 1;
    for (const body of bodies) {
      const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
      rows.sort((a, b) => {
        const [first, second] = [numeric(a, key), numeric(b, key)];
        if (first === second) return 0;
        if (first === Infinity || second === Infinity) return first === Infinity ? 1 : -1;
        return sign * (first - second);
      });
      body.append(...rows);
    }
    for (const header of headers) {
      if (header.dataset.key === key) header.setAttribute("aria-sort", down ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    }
    order.value = key;
    show();
  }

  for (const header of headers) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sort(header.dataset.key, header.getAttribute("aria-sort") === "ascending"));
  }
  filter.addEventListener("input", show);
  order.addEventListener("change", () => sort(order.value, false));
  more.addEventListener("click", () => { shown = Infinity; show(); });
  headers[0].setAttribute("aria-sort", "ascending");
  show();
}
