// The stage: one data point, its active experts, and what changes when one is switched.

const state = {
  sample: 0,
  x: null,
  listed: [], // experts with a chip: the pursuit's own, then those added by hand
  active: new Set(),
  slots: new Map(),
  highlight: null,
  owner: null,
  values: null,
};
const pictures = {};
let playing = null;
const listeners = []; // told after every change of the active experts

// On a table an expert has the same colour everywhere, on images colours follow the row.
function colorOf(k) {
  if (!isImage) return slotColor(k);
  return slotColor(state.slots.has(k) ? state.slots.get(k) : k);
}

function giveSlot(k) {
  if (state.slots.has(k)) return;
  const taken = new Set(state.slots.values());
  let slot = 0;
  while (taken.has(slot)) slot++;
  state.slots.set(k, slot);
}

function chooseSample(n) {
  stopPlaying();
  state.sample = n;
  state.x = sampleOf(n);
  state.slots = new Map();
  state.listed = raw.orders[n].slice();
  state.listed.forEach(giveSlot);
  state.active = new Set(state.listed);
  state.highlight = null;
  learntAmplitudes(n);
  byId("sample-title").textContent = sampleName(n);
  if (pictures.data) {
    paintData(pictures.data, state.x);
    const gaps = gapText(state.x);
    pictures.data.setAttribute("aria-label", `Data point ${sampleName(n)}${gaps && `, ${gaps}`}`);
    byId("gaps").hidden = !gaps;
  }
  buildSteps();
  buildChips(true);
  refresh();
  markSample(n);
}

function toggleExpert(k) {
  if (!state.listed.includes(k)) {
    state.listed.push(k);
    giveSlot(k);
    state.active.add(k);
    buildChips();
  } else if (state.active.has(k)) {
    state.active.delete(k);
    if (!raw.orders[state.sample].includes(k)) {
      state.listed = state.listed.filter((other) => other !== k);
      state.slots.delete(k);
      buildChips();
    }
  } else {
    state.active.add(k);
  }
  refresh();
}

function showStep(count) {
  const order = raw.orders[state.sample];
  state.listed = order.slice();
  state.active = new Set(order.slice(0, count));
  buildChips();
  refresh();
}

// Recompute owners and redraw everything that depends on who is active.
function refresh() {
  state.owner = ownersOf(state.active);
  state.values = composed(state.owner);
  if (isImage) drawPictures();
  else drawVariables();
  updateChips();
  updateReadout();
  for (const listener of listeners) listener();
}

function drawPictures() {
  const { owner, values, x } = state;
  paintPartition(pictures.partition, owner, values, colorOf, state.highlight);
  paintValues(pictures.composed, values);
  paintSurprise(pictures.surprise, owner, x);
  const parts = ownedCounts();
  const words = [...parts].map(([k, count]) => `${expertName(k)} owns ${percent(count / D)}`).join(", ");
  pictures.partition.setAttribute("aria-label", `Partition: ${words || "no expert is active"}`);
  const text = state.active.size === 0 ? "empty" : fitText(owner, x);
  pictures.composed.setAttribute("aria-label", `Reconstruction: ${text}`);
}

function ownedCounts() {
  const counts = new Map();
  for (const k of state.listed) counts.set(k, 0);
  for (let d = 0; d < D; d++) {
    const k = state.owner[d];
    if (k >= 0) counts.set(k, (counts.get(k) || 0) + 1);
  }
  for (const [k] of counts) if (!state.active.has(k)) counts.delete(k);
  return counts;
}

function buildPictures() {
  const box = byId("pictures");
  if (!isImage) {
    box.remove();
    return;
  }
  const captions = { data: "Data", partition: "Who explains what", composed: "Reconstruction", surprise: "Surprise" };
  for (const [name, caption] of Object.entries(captions)) {
    pictures[name] = newCanvas(caption, "large");
    box.append(el("figure", {}, pictures[name], el("figcaption", { text: caption })));
  }
  const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
  box.after(el("p", { id: "gaps", class: "note", hidden: true }, swatch, "not observed"));
  const point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const [height, width] = raw.image;
    const column = Math.floor(((event.clientX - box.left) / box.width) * width);
    const row = Math.floor(((event.clientY - box.top) / box.height) * height);
    const d = Math.min(height - 1, Math.max(0, row)) * width + Math.min(width - 1, Math.max(0, column));
    const k = state.owner[d];
    updateReadout(
      k < 0
        ? "Nobody is active here."
        : `${variableName(d)}: expert ${k}, ${expertName(k)}, expects ${tidy(state.values[d])}, ${dataText(d)}.`,
    );
    highlightExpert(k < 0 ? null : k);
  };
  for (const canvas of Object.values(pictures)) {
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerleave", () => {
      highlightExpert(null);
      updateReadout();
    });
  }
}

function dataText(d) {
  return Number.isNaN(state.x[d]) ? "it was not observed" : `the data says ${tidy(state.x[d])}`;
}

function gapText(x) {
  const count = gapCount(x);
  return count ? `${count} of ${D} ${unitName()} not observed` : "";
}

function highlightExpert(k) {
  if (state.highlight === k) return;
  state.highlight = k;
  if (isImage) paintPartition(pictures.partition, state.owner, state.values, colorOf, k);
  for (const chip of byId("chips").children) chip.classList.toggle("lit", Number(chip.dataset.expert) === k);
}

function updateReadout(text) {
  const box = byId("readout");
  if (text) {
    box.textContent = text;
    return;
  }
  if (state.active.size === 0) {
    box.textContent = "No expert is active: nothing is explained. Switch one on.";
    return;
  }
  const parts = [`${plural(state.active.size, "expert")} active`, worthText(), fitText(state.owner, state.x)];
  box.textContent = [...parts, gapText(state.x)].filter(Boolean).join(" · ");
}

// How well the active experts do: beside columns on their own for tables, in itself for images.
function worthText() {
  if (!canScore) return "";
  if (isImage) return `log-likelihood ${signed((likelihood(state.owner, state.x) / Math.LN2).toFixed(1))} bits`;
  const cost = codeBits(state.active);
  const bits = savedBits(state.owner, state.x) - cost;
  const told = `${Math.abs(bits).toFixed(1)} bits ${bits >= 0 ? "fewer" : "more"} than column by column`;
  return cost === null ? told : `${told} (naming the experts costs ${cost.toFixed(1)})`;
}

// What one more expert brings, in bits: on tables from columns on their own.
function gainText(path, step) {
  const before = step ? path[step - 1] : isImage || !canScore ? 0 : usualLikelihood(state.x);
  const gain = (path[step] - before) / Math.LN2;
  const text = `${gain >= 0 && (step || !isImage) ? "+" : ""}${signed(gain.toFixed(1))}`;
  return step ? text : `${text} bits`;
}

function buildSteps() {
  const box = byId("steps");
  box.replaceChildren();
  const path = raw.likelihoods[state.sample];
  const low = isImage || !canScore ? Math.min(...path) : Math.min(usualLikelihood(state.x), ...path);
  const high = Math.max(...path);
  raw.orders[state.sample].forEach((k, step) => {
    const share = high > low ? 0.15 + 0.85 * ((path[step] - low) / (high - low)) : 1;
    const column = el("span", { class: "column" });
    column.style.height = `${100 * share}%`;
    column.style.background = css(colorOf(k));
    const gain = gainText(path, step);
    box.append(
      el(
        "button",
        {
          type: "button",
          class: "step",
          title: `Step ${step + 1}: ${expertName(k)}, ${gain}`,
          "aria-label": `Step ${step + 1}: ${expertName(k)} is activated, ${gain}`,
          onclick: () => {
            stopPlaying();
            showStep(step + 1);
          },
        },
        el("span", { class: "tower" }, column),
        el("span", { class: "gain", text: gain }),
      ),
    );
  });
}

// One chip per listed expert; those that are there already stay, unless all are to be made anew.
function buildChips(anew) {
  const box = byId("chips");
  const there = new Map(anew ? [] : [...box.children].map((chip) => [Number(chip.dataset.expert), chip]));
  const focused = document.activeElement && document.activeElement.dataset.expert;
  box.replaceChildren(...state.listed.map((k) => there.get(k) || newChip(k)));
  const again = focused && [...box.children].find((chip) => chip.dataset.expert === focused);
  if (again && again !== document.activeElement) again.focus();
  buildSliders();
}

function newChip(k) {
  const chip = el("button", {
    type: "button",
    class: "chip",
    "data-expert": k,
    onclick: () => toggleExpert(k),
    onpointerenter: () => highlightExpert(k),
    onpointerleave: () => highlightExpert(null),
    onfocus: () => highlightExpert(k),
    onblur: () => highlightExpert(null),
  });
  chip.style.setProperty("--chip", css(colorOf(k)));
  if (isImage) {
    const canvas = newCanvas(`Template of expert ${k}`, "thumb");
    paintTemplate(canvas, k);
    chip.append(canvas);
  }
  chip.append(
    el("span", { class: "chip-text" }, el("b", { text: expertName(k) }), el("span", { class: "share" })),
    el("span", { class: "switch", "aria-hidden": "true" }),
  );
  return chip;
}

function updateChips() {
  const counts = ownedCounts();
  for (const chip of byId("chips").children) {
    const k = Number(chip.dataset.expert);
    const on = state.active.has(k);
    chip.setAttribute("aria-pressed", String(on));
    chip.querySelector(".share").textContent = on ? ownsText(counts.get(k) || 0) : "off";
  }
  const order = raw.orders[state.sample];
  const steps = [...byId("steps").children];
  const prefix = order.findIndex((k) => !state.active.has(k));
  const reached = prefix < 0 ? order.length : prefix;
  const exact = state.active.size === reached;
  steps.forEach((step, i) => {
    step.classList.toggle("reached", state.active.has(order[i]));
    step.setAttribute("aria-current", exact && i === reached - 1 ? "step" : "false");
  });
  const changed = !(exact && reached === order.length) || amplitudesChanged();
  byId("reset").disabled = !changed;
  byId("mix-note").textContent = changed ? "your own mix" : "as the model chose them";
}

function ownsText(count) {
  return isImage ? `owns ${percent(count / D)}` : `explains ${count} of ${D}`;
}

function play() {
  if (playing !== null) {
    stopPlaying();
    return;
  }
  let step = 0;
  const total = raw.orders[state.sample].length;
  const advance = () => {
    step += 1;
    showStep(step);
    if (step >= total) stopPlaying();
  };
  byId("play").textContent = "■ Stop";
  showStep(0);
  playing = setInterval(advance, 700);
}

function stopPlaying() {
  if (playing !== null) clearInterval(playing);
  playing = null;
  byId("play").textContent = "▶ Play";
}
