// Sliders: how strongly each active expert speaks, where gains and offsets vary.

const GAIN = { place: 0, name: "gain", low: 0, high: 2 };
const OFFSET = { place: 1, name: "offset", low: (raw.low - raw.high) / 2, high: (raw.high - raw.low) / 2 };
const KNOBS = { gain: [GAIN, OFFSET], offset: [OFFSET] };

// The gains and offsets that fit a data point best, of the experts of its code.
function learntAmplitudes(n) {
  amplitudes.clear();
  if (!raw.amplitudes) return;
  raw.orders[n].forEach((k, seat) => amplitudes.set(k, raw.amplitudes[n][seat].slice()));
}

function amplitudesChanged() {
  if (!raw.amplitudes) return false;
  const learnt = raw.amplitudes[state.sample];
  return raw.orders[state.sample].some((k, seat) => learnt[seat].some((value, i) => value !== amplitudes.get(k)[i]));
}

function buildSliders() {
  const box = byId("sliders");
  box.hidden = !raw.amplitudes;
  if (!raw.amplitudes) return;
  box.replaceChildren(...state.listed.flatMap((k) => KNOBS[raw.amplitude].map((knob) => slider(k, knob))));
}

// Less than anybody could see is nothing.
function amplitudeText(value) {
  return Math.abs(value) < 1e-3 * Math.min(1, raw.high - raw.low) ? "0" : tidy(value);
}

function slider(k, knob) {
  if (!amplitudes.has(k)) amplitudes.set(k, [1, 0]);
  const value = amplitudes.get(k)[knob.place];
  const shown = el("output", { text: amplitudeText(value) });
  const input = el("input", {
    type: "range",
    min: Math.min(knob.low, value),
    max: Math.max(knob.high, value),
    step: "any",
    "aria-label": `${knob.name} of ${expertName(k)}`,
    "data-expert": k,
    "data-knob": knob.name,
    oninput: () => {
      amplitudes.get(k)[knob.place] = Number(input.value);
      shown.textContent = amplitudeText(Number(input.value));
      refresh();
    },
  });
  input.value = value;
  input.style.accentColor = css(colorOf(k));
  return el("label", { class: "slider" }, el("span", { text: `${expertName(k)}: ${knob.name}` }), input, shown);
}
