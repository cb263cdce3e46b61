// Tables: a map of rows and experts. Rows with the same experts lie together; a click picks a row.

const ROW_HEIGHT = 16;
const NAME_WIDTH = 120;
const PAPER_WIDTH = 660; // in CSS pixels, what fits on upright paper with its margins
const mapState = { rows: [], canvas: null, cell: 0 };

function buildMap() {
  if (isImage) return;
  byId("map").hidden = false;
  document.querySelector('nav a[href="#map"]').hidden = false;
  const sampled = nSamples < raw.rows ? ` ${nSamples} of ${raw.rows.toLocaleString("en")} rows are shown.` : "";
  byId("map-note").textContent = `A coloured cell: the expert is active in that row. Rows are ordered by type, and those with the same experts lie together.${sampled} Click a row, or move with the arrow keys, to see it explained.`;
  const box = byId("map-box");
  const canvas = el("canvas", { role: "img", "aria-label": mapWords() });
  const head = el("div", { class: "map-head", "aria-hidden": "true" });
  mapState.canvas = canvas;
  mapState.experts = raw.together ? raw.together.order : Array.from({ length: K }, (_, k) => k);
  box.append(head, canvas);
  const layout = (width = box.clientWidth) => {
    const room = Math.max(160, width - NAME_WIDTH - 34);
    mapState.cell = Math.max(8, Math.min(150, Math.floor(room / K)));
    const flat = mapState.cell >= 90;
    const tags = mapState.experts.map((k, i) => {
      const tag = el("button", { type: "button", tabindex: "-1", title: expertName(k), text: expertName(k), onclick: () => openDetail(k) });
      tag.style.left = `${NAME_WIDTH + i * mapState.cell + (flat ? 3 : mapState.cell / 2 - 6)}px`;
      if (flat) tag.style.width = `${mapState.cell - 8}px`;
      return tag;
    });
    head.replaceChildren(...(mapState.cell >= 12 ? tags : []));
    head.hidden = mapState.cell < 12;
    head.classList.toggle("flat", flat);
    paintMap();
  };
  const rowAt = (event) => mapState.rows[Math.floor((event.clientY - canvas.getBoundingClientRect().top) / ROW_HEIGHT)];
  canvas.addEventListener("click", (event) => {
    const n = rowAt(event);
    if (n !== undefined) goToSample(n);
  });
  canvas.addEventListener("pointermove", (event) => {
    const n = rowAt(event);
    canvas.title = n === undefined ? "" : `${sampleName(n)}: ${raw.orders[n].map(expertName).join("; ")}`;
  });
  box.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !mapState.rows.length) return;
    event.preventDefault();
    event.stopPropagation();
    const place = mapState.rows.indexOf(state.sample);
    const next = mapState.rows[Math.min(mapState.rows.length - 1, Math.max(0, place + by))];
    chooseSample(next);
  });
  byId("map-search").addEventListener("input", filterMap);
  byId("map-search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && mapState.rows.length) goToSample(mapState.rows[0]);
  });
  listeners.push(paintMap);
  themed.push(paintMap);
  addEventListener("resize", () => layout());
  addEventListener("beforeprint", () => layout(Math.min(PAPER_WIDTH, box.clientWidth)));
  addEventListener("afterprint", () => layout());
  filterMap();
  layout();
}

function mapWords() {
  const codes = new Map();
  for (const order of raw.orders) {
    const names = [...order].sort((a, b) => a - b).map(expertName).join(" with ");
    codes.set(names, (codes.get(names) || 0) + 1);
  }
  const most = [...codes].sort((a, b) => b[1] - a[1]).slice(0, 5);
  return `Map of ${plural(nSamples, "row")} and ${plural(K, "expert")}; most frequent: ${most.map(([names, count]) => `${names} (${plural(count, "row")})`).join("; ")}`;
}

function filterMap() {
  const query = byId("map-search").value.trim().toLowerCase();
  mapState.rows = raw.mapOrder.filter((n) => !query || sampleName(n).toLowerCase().includes(query));
  paintMap();
}

function paintMap() {
  const { canvas, rows, cell, experts } = mapState;
  if (!canvas || !cell) return;
  const scale = Math.min(2, Math.max(1, window.devicePixelRatio || 1));
  const [width, height] = [NAME_WIDTH + K * cell, Math.max(1, rows.length) * ROW_HEIGHT];
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = '11px system-ui, "Segoe UI", Roboto, sans-serif';
  pen.textBaseline = "middle";
  const colors = experts.map((k) => css(slotColor(k)));
  const place = new Map(experts.map((k, i) => [k, i]));
  const line = ink.dark ? "rgb(42 47 63)" : "rgb(232 234 241)";
  rows.forEach((n, i) => {
    const top = i * ROW_HEIGHT;
    if (n === state.sample) {
      pen.fillStyle = ink.dark ? "rgb(34 42 71)" : "rgb(233 237 252)";
      pen.fillRect(0, top, width, ROW_HEIGHT);
    }
    pen.fillStyle = css(ink.ink);
    pen.fillText(shortened(pen, sampleName(n), NAME_WIDTH - 10), 4, top + ROW_HEIGHT / 2);
    pen.fillStyle = line;
    pen.fillRect(NAME_WIDTH, top + ROW_HEIGHT - 1, K * cell, 1);
    for (const k of raw.orders[n]) {
      pen.fillStyle = colors[place.get(k)];
      pen.fillRect(NAME_WIDTH + place.get(k) * cell + 1, top + 1, cell - 2, ROW_HEIGHT - 2);
    }
  });
  if (!rows.length) {
    pen.fillStyle = css(ink.ink);
    pen.fillText("no such row", 4, ROW_HEIGHT / 2);
  }
}

function shortened(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > room) length--;
  return `${text.slice(0, length)}…`;
}
