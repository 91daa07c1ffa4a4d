// The form for a question, filled with the models, strategies and run options that this server reports.

import { $, base, element } from "./dom.js";

const EXAMPLES = ["86 + 77 - 162 / 27 = ?", "997 + (3108 / 28 * 870 - 780) + 250 * 760 = ?", "(48 * 17 - 96 / 4) * 3 + 512 = ?"];
const NONE = "nothing";
let strategies = [], runOptions = [];

// Whether the server has an upstream to send questions to, and if a page may not start runs there, why.
export async function fillForm() {
  const response = await fetch(`${base}/api/options`), data = await response.json();
  if (!response.ok) throw data.error;
  ({ strategies, options: runOptions } = data);
  $("model").replaceChildren(...data.models.map(name => element("option", "", name)));
  $("kind").replaceChildren(...data.kinds.map(name => element("option", "", name)));
  $("kind").value = data.kind;
  $("strategy").replaceChildren(...strategies.map(strategyOption));
  $("other-strategy").replaceChildren(element("option", "", NONE), ...strategies.map(strategyOption));
  const [name, ...given] = data.strategy.split(":");
  $("strategy").value = name;
  $("strategy-options").value = given.join(":");
  showDefaults();
  $("main-options").replaceChildren(...runOptions.filter(({ name }) => name === "paths").map(field));
  $("more-options").replaceChildren(...runOptions.filter(({ name }) => name !== "paths").map(field));
  $("model-notes").replaceChildren(...data.notes.map(note => element("li", "", `${note[0].toUpperCase()}${note.slice(1)}.`)));
  if (data.models.includes("built-in")) addExamples();
  return { canAsk: !data.view_only && !data.refusal, refusal: data.refusal };
}

function strategyOption(strategy) {
  const option = element("option", "", strategy.name);
  option.title = strategy.help;
  return option;
}

// The placeholder shows the strategy's own options with their defaults.
export function showDefaults() {
  for (const id of ["strategy", "other-strategy"]) {
    const strategy = strategies.find(({ name }) => name === $(id).value), input = $(`${id}-options`);
    const defaults = Object.entries(strategy?.options ?? {}).map(([name, value]) => `${name}=${value}`);
    input.placeholder = defaults[0] ?? "none";
    input.title = defaults.join(", ");
  }
  $("other-options").hidden = $("other-strategy").value === NONE;
}

function field(option) {
  const name = option.name.replaceAll("_", " ");
  const label = element("label", "", `${name[0].toUpperCase()}${name.slice(1)} `);
  const input = element("input");
  input.name = option.name;
  label.title = option.help;
  input.type = "number";
  input.step = option.fractional ? "any" : "1";
  if (option.minimum !== null) input.min = option.minimum;
  if (option.maximum !== null) input.max = option.maximum;
  input.value = option.default ?? "";
  label.append(input);
  return label;
}

function addExamples() {
  $("examples").hidden = false;
  for (const text of EXAMPLES) {
    const button = element("button", "example", text);
    button.type = "button";
    button.addEventListener("click", () => { $("question").value = text; $("question").focus(); });
    $("examples").append(button);
  }
}

const spec = id => [$(id).value, $(`${id}-options`).value.trim()].filter(Boolean).join(":");

// The bodies of the requests: one run, or two that differ in their strategy alone.
export function requestBodies(question) {
  const voteOptions = { kind: $("kind").value };
  for (const option of runOptions) {
    const input = $("ask").elements[option.name];
    if (input.value !== "") voteOptions[option.name] = Number(input.value);
  }
  const specs = $("other-strategy").value === NONE ? [spec("strategy")] : [spec("strategy"), spec("other-strategy")];
  return specs.map(strategy => ({ model: $("model").value, messages: [{ role: "user", content: question }], sureenough: { ...voteOptions, strategy } }));
}
