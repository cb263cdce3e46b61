// Tables: what was found in a few sentences, and experts against another column.

function buildOverview() {
  if (isImage) return;
  byId("overview").hidden = false;
  const box = byId("found");
  const perRow = raw.usage.reduce((sum, count) => sum + count, 0) / raw.rows;
  box.append(
    el("p", {
      text: `${plural(K, "expert")} explain ${raw.rows.toLocaleString("en")} rows of ${plural(D, "variable")}. Each expert knows some things that go together; a row is explained by ${perRow.toFixed(1)} of them on average, and every variable of the row by exactly one.`,
    }),
    baseline(),
  );
  if (raw.types.length > 1) buildTypes();
  if (raw.odd.length) {
    box.append(el("p", { class: "odd" }, "Gain least over column by column: ", ...raw.odd.map((label, i) => rowLink(label, raw.oddRows[i]))));
  }
}

// Types of rows: experts that come together in many rows.
function buildTypes() {
  byId("types").hidden = false;
  const most = Math.max(...raw.types.map((kind) => kind.share));
  const rows = raw.types.slice(0, 8).map((kind) =>
    el(
      "li",
      {},
      el("span", { class: "number", text: percent(kind.share) }),
      meter(kind.share / most, null),
      el("span", { class: "tags" }, ...(kind.experts.length ? kind.experts.map((k, i) => typeExpert(k, kind.active[i])) : ["no expert in particular"])),
    ),
  );
  const others = raw.types.slice(8);
  const share = others.reduce((sum, kind) => sum + kind.share, 0);
  const rest = others.length ? el("p", { class: "note", text: `${plural(others.length, "other type")} in ${percent(share)} of rows.` }) : "";
  byId("types-box").append(el("ul", { class: "bars" }, ...rows), rest);
}

// An expert of a type, with its share of these rows unless it is active in nearly all of them.
function typeExpert(k, active) {
  const share = active >= 0.9 ? "" : el("span", { class: "note", text: `in ${percent(active)} of them` });
  return el("span", { class: "member" }, expertLink(k), share);
}

// Bits a row takes with the model and without, as two bars.
function baseline() {
  if (raw.bits === null || raw.baselineBits === null) return el("p", { class: "note" });
  const most = Math.max(raw.baselineBits, raw.bits);
  const row = (name, bits, color) =>
    el("li", {}, el("span", { class: "name", text: name }), meter(bits / most, color), el("span", { class: "number", text: `${bits.toFixed(1)} bits` }));
  const bars = raw.bits > 0 && raw.baselineBits > 0;
  return el(
    "div",
    { class: "baseline" },
    el("p", { text: raw.saving }),
    bars ? el("ul", { class: "bars" }, row("each column on its own", raw.baselineBits, "var(--soft)"), row("these experts", raw.bits, null)) : "",
  );
}

// ------------------------------------------------------- another column

function buildBy() {
  if (!raw.by) return;
  byId("by").hidden = false;
  const link = document.querySelector('nav a[href="#by"]');
  link.hidden = false;
  link.textContent = raw.by.name;
  byId("by-title").textContent = `Experts and ${raw.by.name}`;
  const classes = raw.by.kind === "classes";
  const used = Array.from({ length: D }, (_, d) => variableName(d)).includes(raw.by.name);
  const role = used ? "The experts were found with this column among the others." : "This column was not used to find the experts.";
  byId("by-note").textContent = classes
    ? `Of the rows in which an expert is active, the share of each ${raw.by.name}; the mark is its share of all rows. ${role}`
    : `${raw.by.name} in the rows in which an expert is active: box from quarter to three quarters, line at the middle, whiskers to the ends. ${role}`;
  const order = Array.from({ length: K }, (_, k) => k).sort((a, b) => raw.usage[b] - raw.usage[a] || a - b);
  const box = byId("by-box");
  if (classes) box.append(...order.map(classBars));
  else box.append(boxRow("all rows", raw.by.boxes[0], null), ...order.map((k) => boxRow(expertName(k), raw.by.boxes[k + 1], k)));
}

function classBars(k) {
  const { classes, counts } = raw.by;
  const sum = (list) => list.reduce((total, count) => total + count, 0);
  const [all, mine] = [sum(counts[0]), sum(counts[k + 1])];
  const list = el("ul", { class: "bars" });
  classes
    .map((name, i) => [name, mine ? counts[k + 1][i] / mine : 0, counts[0][i] / all])
    .sort((a, b) => b[1] - a[1])
    .slice(0, 5)
    .forEach(([name, share, usual]) => {
      if (!share) return;
      list.append(
        el(
          "li",
          { title: `${name}: ${percent(share)} of its rows, ${percent(usual)} of all` },
          el("span", { class: "name", text: name }),
          meter(share, css(slotColor(k)), usual),
          el("span", { class: "number" }, el("b", { text: percent(share) }), el("span", { class: "usual", text: ` of all ${percent(usual)}` })),
        ),
      );
    });
  return el("figure", { class: "by-card" }, el("figcaption", { text: expertName(k) }), list);
}

function boxRow(name, five, k) {
  const [low, , , , high] = raw.by.boxes[0];
  const at = (value) => 4 + (192 * (value - low)) / (high - low || 1);
  const words = five ? `${name}: from ${tidy(five[0])} to ${tidy(five[4])}, half between ${tidy(five[1])} and ${tidy(five[3])}, middle ${tidy(five[2])}` : `${name}: no rows`;
  const drawing = svg("svg", { viewBox: "0 0 200 22", role: "img", "aria-label": words, class: "box-plot", preserveAspectRatio: "none" });
  if (five) {
    const color = k === null ? "var(--soft)" : css(slotColor(k));
    drawing.append(
      svg("line", { x1: at(five[0]), x2: at(five[4]), y1: 11, y2: 11, class: "axis" }),
      svg("rect", { x: at(five[1]), width: Math.max(1, at(five[3]) - at(five[1])), y: 4, height: 14, rx: 2, fill: color }),
      svg("line", { x1: at(five[2]), x2: at(five[2]), y1: 2, y2: 20, class: "median" }),
    );
  }
  return el(
    "div",
    { class: "box-row", title: words },
    el("span", { class: "name", text: name }),
    drawing,
    el("span", { class: "number", text: five ? `${tidy(five[2])}` : "–" }),
  );
}
