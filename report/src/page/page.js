// Units as factors, so that times, sizes and rates sort by what they mean.
const UNITS = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12, B: 1, KB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1048576, GiB: 1073741824 };
const meaning = text => {
  const match = text.match(/^[±+]?(-?[\d.,]+)\s*(\S*)/);
  return match ? Number(match[1].replaceAll(",", "")) * (UNITS[match[2]] ?? 1) : NaN;
};
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const input = table.previousElementSibling;
  if (input?.type === "search") input.oninput = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
  };
  heads.forEach((head, place) => {
    head.setAttribute("aria-sort", "none");
    head.onclick = () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const key = row => row.cells[place]?.textContent ?? "";
      const order = (a, b) => meaning(key(a)) - meaning(key(b)) || key(a).localeCompare(key(b), "en", { numeric: true });
      body.append(...[...body.rows].sort((a, b) => sign * (Number.isNaN(order(a, b)) ? key(a).localeCompare(key(b)) : order(a, b))));
    };
  });
}
