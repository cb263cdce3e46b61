// The gallery of all experts and the list of data points: search, sort, pick.

const cards = [];
const options = [];

const SORTS = {
  number: ["Number", (a, b) => a - b],
  used: ["Most active", (a, b) => raw.usage[b] - raw.usage[a] || a - b],
  rare: ["Least active", (a, b) => raw.usage[a] - raw.usage[b] || a - b],
  active: ["Active first", (a, b) => Number(state.active.has(b)) - Number(state.active.has(a)) || a - b],
  owns: ["Explains most here", (a, b) => owned(b) - owned(a) || a - b],
};

function owned(k) {
  let count = 0;
  for (let d = 0; d < D; d++) if (state.owner[d] === k) count++;
  return count;
}

function buildGallery() {
  const sort = byId("expert-sort");
  for (const [value, [text]] of Object.entries(SORTS)) sort.append(el("option", { value, text }));
  byId("expert-search").placeholder = isImage ? "Number, place, or active" : "Name, variable, or active";
  byId("experts-note").append(
    isImage
      ? "Left: the expert's opinion of every pixel. Right: its level of expertise there. The bar says how often it is active."
      : `What each expert says of the variables that tell it apart: ${barsText()}`,
    el("span", { class: "on-screen", text: isImage ? " A click shows more, the plus adds it to the mix above." : " A click shows more." }),
  );
  stabilityLegend();
  if (!isImage) sort.value = "used";
  const box = byId("gallery");
  for (let k = 0; k < K; k++) {
    const card = expertCard(k);
    cards.push(card);
    box.append(card);
  }
  if (!isImage) arrangeGallery();
  sort.addEventListener("change", arrangeGallery);
  byId("expert-search").addEventListener("input", arrangeGallery);
  listeners.push(() => {
    for (let k = 0; k < K; k++) markCard(k);
    if (["active", "owns"].includes(sort.value) || isActiveQuery()) arrangeGallery();
  });
}

function expertCard(k) {
  const share = raw.usage[k] / raw.rows;
  const face = el("button", {
    type: "button",
    class: "face",
    "aria-label": `${expertName(k)}, expert ${k}, active in ${percent(share)} of rows: show more`,
    onclick: () => openDetail(k),
  });
  if (isImage) {
    const template = newCanvas(`Template of expert ${k}`);
    const trust = newCanvas(`Expertise of expert ${k}`);
    whenVisible(template, () => {
      paintTemplate(template, k);
      paintExpertise(trust, k);
    });
    face.append(template, trust);
  } else {
    const dot = el("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = `var(--expert-${k})`;
    face.append(el("span", { class: "card-name" }, dot, el("b", { text: expertName(k) })));
    whenVisible(face, () => face.append(opinionList(k, 6)));
  }
  return el(
    "article",
    { class: "card", "data-expert": k },
    face,
    isImage ? el("span", { class: "card-place", text: expertName(k) }) : cardCompany(k),
    stabilityMark(k),
    el(
      "div",
      { class: "card-foot" },
      el("b", { text: `${k}` }),
      meter(raw.usage[k] / Math.max(...raw.usage, 1), isImage ? null : `var(--expert-${k})`),
      el("span", { class: "number", text: isImage ? percent(share) : `in ${percent(share)} of rows` }),
      el("button", {
        type: "button",
        class: "add",
        "aria-label": `Expert ${k}, ${expertName(k)}, in the mix`,
        "aria-pressed": "false",
        onclick: () => toggleExpert(k),
      }),
    ),
  );
}

// What bars and marks of opinions are, for the kinds of variables that there are.
function barsText() {
  const levels = raw.levelCounts.some((count) => count > 0);
  const numbers = raw.levelCounts.some((count) => count === 0);
  if (levels && numbers) return "the bar is how sure it is, or the mean it says of a number; the mark is how often that is so in all rows, or their mean.";
  if (numbers) return "the bar is the mean it says, the mark the mean of all rows.";
  return "the bar is how sure it is, the mark how often that is so in all rows.";
}

// How often the expert is found again in other samples: a mark, with all words for a pointer.
function stabilityMark(k) {
  if (!raw.stability) return "";
  const mark = raw.stability.marks[k];
  return el("span", { class: `stability ${mark.replace(" ", "-")}`, title: raw.stability.words[k], text: isImage ? mark : raw.stability.words[k] });
}

function stabilityLegend() {
  if (!raw.stability) return;
  const items = Object.entries(raw.stability.legend).map(([mark, words]) =>
    el("li", {}, el("span", { class: `stability ${mark.replace(" ", "-")}`, text: `${mark}:` }), ` ${words}`),
  );
  byId("experts-note").after(el("ul", { class: "note legend", "aria-label": "Marks of stability" }, ...items));
}

function colorDots() {
  if (isImage) return;
  for (let k = 0; k < K; k++) document.body.style.setProperty(`--expert-${k}`, css(slotColor(k)));
}

// Typical rows and company of an expert of a table.
function cardCompany(k) {
  const card = raw.cards[k];
  const box = el("dl", { class: "company" });
  const add = (title, items) => items.length && box.append(el("div", {}, el("dt", { text: title }), el("dd", {}, ...items)));
  add("Typical", card.typical.map((label, i) => rowLink(label, card.typicalRows[i])));
  add("Often with", card.together.map((j) => expertLink(j)));
  add("Rarely with", card.apart.map((j) => expertLink(j)));
  return box;
}

// A row of the data by its label: a button if it can be picked on this page.
function rowLink(label, row) {
  const n = raw.sampleRows.indexOf(row);
  if (n < 0) return el("span", { class: "tag", text: label });
  return el("button", { type: "button", class: "tag", text: label, onclick: () => goToSample(n) });
}

function goToSample(n) {
  chooseSample(n);
  byId("explore").scrollIntoView();
  byId("sample-title").focus({ preventScroll: true });
}

function expertLink(k) {
  return el("button", { type: "button", class: "tag", text: expertName(k), onclick: () => openDetail(k) });
}

function markCard(k) {
  const on = state.active.has(k);
  const card = cards[k];
  if (card.classList.contains("on") !== on) {
    card.classList.toggle("on", on);
    card.querySelector(".add").setAttribute("aria-pressed", String(on));
  }
  if (on) card.style.setProperty("--chip", css(colorOf(k)));
}

function isActiveQuery() {
  return byId("expert-search").value.trim().toLowerCase() === "active";
}

function matches(k, query) {
  if (!query) return true;
  if (query === "active") return state.active.has(k);
  const number = query.match(/^(?:expert\s*)?(\d+)$/);
  if (number) return String(k) === number[1];
  if (expertName(k).toLowerCase().includes(query)) return true;
  return !isImage && strongest(k, 8).some((d) => variableName(d).toLowerCase().includes(query));
}

function arrangeGallery() {
  const query = byId("expert-search").value.trim().toLowerCase();
  const order = Array.from({ length: K }, (_, k) => k).sort(SORTS[byId("expert-sort").value][1]);
  const box = byId("gallery");
  let shown = 0;
  for (const k of order) {
    const visible = matches(k, query);
    cards[k].hidden = !visible;
    shown += Number(visible);
    box.append(cards[k]);
  }
  box.classList.toggle("empty", shown === 0);
  byId("experts-title").textContent = query ? `Experts (${shown} of ${K})` : "Experts";
}

// ------------------------------------------------------------- data points

function buildSamples() {
  const box = byId("samples");
  box.classList.toggle("list", !isImage);
  for (let n = 0; n < nSamples; n++) {
    const option = el("div", {
      role: "option",
      class: "sample",
      id: `sample-${n}`,
      tabindex: "-1",
      "aria-selected": "false",
      "aria-label": `${sampleName(n)}, ${plural(raw.orders[n].length, "active expert")}`,
      title: sampleName(n),
      onclick: () => chooseSample(n),
    });
    if (isImage) {
      const canvas = newCanvas(sampleName(n));
      canvas.setAttribute("aria-hidden", "true");
      whenVisible(canvas, () => paintData(canvas, sampleOf(n)));
      option.append(canvas);
    } else {
      const count = el("span", { class: "number", text: plural(raw.orders[n].length, "expert") });
      option.append(el("span", { class: "name", text: sampleName(n) }), count);
    }
    options.push(option);
    box.append(option);
  }
  const sampled = `${nSamples} of ${raw.rows.toLocaleString("en")} rows are on this page, drawn evenly${isImage ? "" : " beside those it names"}; all are counted`;
  const shown = nSamples < raw.rows ? sampled : plural(raw.rows, "row");
  byId("samples-note").textContent = `${shown}. Arrow keys move through them.`;
  box.addEventListener("keydown", (event) => {
    const columns = isImage ? Math.max(1, Math.round(box.clientWidth / (options[0].offsetWidth + 6))) : 1;
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    if (!(event.key in moves)) return;
    event.preventDefault();
    event.stopPropagation();
    moveSample(moves[event.key], true);
  });
  byId("sample-search").addEventListener("input", filterSamples);
  byId("sample-search").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const first = options.findIndex((option) => !option.hidden);
    if (first >= 0) chooseSample(first);
  });
}

function filterSamples() {
  const query = byId("sample-search").value.trim().toLowerCase();
  const expert = query.match(/^expert\s*(\d+)$/);
  const row = query.match(/^(?:row\s*)?(\d+)$/);
  options.forEach((option, n) => {
    let visible = query === "" || sampleName(n).toLowerCase().includes(query);
    if (expert) visible = raw.orders[n].includes(Number(expert[1]));
    else if (row && !raw.sampleLabels) visible = String(raw.sampleRows[n]) === row[1];
    else if (row) visible = visible || String(raw.sampleRows[n]) === row[1];
    option.hidden = !visible;
  });
}

function moveSample(by, focus) {
  const visible = options.map((_, n) => n).filter((n) => !options[n].hidden);
  if (!visible.length) return;
  const place = visible.indexOf(state.sample);
  const next = visible[Math.min(visible.length - 1, Math.max(0, place < 0 ? 0 : place + by))];
  chooseSample(next);
  if (focus) options[next].focus();
}

function markSample(n) {
  const box = byId("samples");
  const before = box.querySelector("[aria-selected=true]");
  if (before) {
    before.setAttribute("aria-selected", "false");
    before.setAttribute("tabindex", "-1");
  }
  const option = options[n];
  option.setAttribute("aria-selected", "true");
  option.setAttribute("tabindex", "0");
  // Scroll the list alone, never the page.
  if (option.offsetTop < box.scrollTop) box.scrollTop = option.offsetTop - 8;
  const end = option.offsetTop + option.offsetHeight;
  if (end > box.scrollTop + box.clientHeight) box.scrollTop = end - box.clientHeight + 8;
  box.scrollLeft = Math.max(0, option.offsetLeft - box.clientWidth / 2);
}
