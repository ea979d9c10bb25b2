// The page of a run: asks the API beneath it, and draws. Text from outside becomes text nodes, never markup.
"use strict";

const RUN_EVERY_MS = 2000;
const HISTORY_EVERY_MS = 5000;
const ANSWER_MS = 10000;
const COLOURS = 8;
const LINES_MAX = 16;
const ROWS_MAX = 20;

const byId = (id) => document.getElementById(id);

function element(name, classes, text) {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

// Numbers as people read them: 12 345, 0.1234, 1.2e-7.
function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 10000) return Math.round(value).toLocaleString("en-US");
  if (size >= 1) return value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
  return size < 1e-4 && size > 0 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

// The same with three digits, for several in one place.
function brief(value) {
  return Number.isFinite(value) && Math.abs(value) < 1000 ? String(Number(value.toPrecision(3))) : number(value);
}

function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit === 0 ? value : value.toPrecision(3)} ${units[unit]}`;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  seconds = Math.max(0, Math.round(seconds));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} days`;
}

const MOODS = {
  training: "good", ready: "good", done: "good", waiting: "warn", silent: "warn", stopped: "idle",
  unknown: "idle", absent: "warn", gone: "bad", failed: "bad", quarantined: "bad",
};

function badge(state) {
  return element("span", `badge ${MOODS[state] || "idle"}`, state);
}

// A table: columns are [title, "number" or "text" or "", cell], a cell is a text or an element.
function table(target, columns, rows) {
  const head = element("tr");
  for (const [title, kind] of columns) head.append(element("th", kind, title));
  const body = rows.map((row) => {
    const line = element("tr");
    for (const [, kind, cell] of columns) {
      const box = element("td", kind);
      const content = cell(row);
      box.append(content === null || content === undefined ? "" : content);
      line.append(box);
    }
    return line;
  });
  target.replaceChildren(...(rows.length ? [head, ...body] : []));
}

// Round places for an axis, about four.
function ticks(low, high) {
  const raw = (high - low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) || raw;
  const out = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9 && out.length < 12; at += step) {
    out.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  }
  return out;
}

// A chart of lines {name, xs, ys}; a hole in ys is a hole in the line.
function chart(title, lines, options) {
  const box = element("div", "chart");
  const head = element("div", "line");
  head.append(element("h3", "", title));
  box.append(head);
  const shown = lines.slice(0, LINES_MAX);
  const points = shown.flatMap((line) => line.xs.map((x, i) => [x, line.ys[i]])).filter(([, y]) => Number.isFinite(y));
  if (points.length < 2) {
    box.append(element("p", "quiet", "not enough points yet"));
    return box;
  }
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of points) {
    left = Math.min(left, x); right = Math.max(right, x);
    low = Math.min(low, y); high = Math.max(high, y);
  }
  if (options.fromZero) low = Math.min(low, 0);
  if (low === high) { low -= options.fromZero ? 0 : Math.abs(low) / 10 || 1; high += Math.abs(high) / 10 || 1; }
  const [width, height, edge, foot, top] = [options.wide ? 560 : 400, options.wide ? 200 : 170, 52, 22, 8];
  const across = (x) => edge + (right > left ? (x - left) / (right - left) : 0.5) * (width - edge - 8);
  const up = (y) => height - foot - (y - low) / (high - low) * (height - foot - top);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  svg.append(drawn("title", {}, title));
  for (const y of ticks(low, high)) {
    svg.append(drawn("line", { x1: edge, x2: width - 8, y1: up(y), y2: up(y), class: "grid" }));
    svg.append(drawn("text", { x: edge - 6, y: up(y) + 4, "text-anchor": "end" }, compact(y)));
  }
  for (const x of ticks(left, right).slice(0, 6)) {
    svg.append(drawn("text", { x: across(x), y: height - 6, "text-anchor": "middle" }, compact(x)));
  }
  shown.forEach((line, place) => {
    let run = [];
    const flush = () => {
      if (run.length > 1) svg.append(drawn("polyline", { points: run.join(" "), class: `s${place % COLOURS}` }));
      else if (run.length) {
        const [x, y] = run[0].split(",");
        svg.append(drawn("circle", { cx: x, cy: y, r: 2, class: `s${place % COLOURS}` }));
      }
      run = [];
    };
    line.xs.forEach((x, i) => {
      if (Number.isFinite(line.ys[i])) run.push(`${across(x).toFixed(1)},${up(line.ys[i]).toFixed(1)}`);
      else flush();
    });
    flush();
  });
  const last = (line) => line.ys.filter(Number.isFinite).at(-1);
  head.append(element("span", "quiet", shown.length === 1 ? number(last(shown[0])) : ""));
  box.append(svg);
  if (shown.length > 1) {
    const legend = element("div", "legend");
    shown.forEach((line, place) => {
      const entry = element("span");
      entry.append(element("i", `s${place % COLOURS}`), `${line.name} ${number(last(line))}`);
      legend.append(entry);
    });
    if (lines.length > LINES_MAX) legend.append(element("span", "", `and ${lines.length - LINES_MAX} more`));
    box.append(legend);
  }
  return box;
}

function compact(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  if (size > 0 && size < 1e-3) return value.toExponential(0);
  return String(Number(value.toPrecision(4)));
}

function showRun(run) {
  const { job } = run;
  const state = byId("state");
  state.textContent = run.state;
  state.className = `badge ${MOODS[run.state] || "idle"}`;
  document.title = `${run.state} ${number(run.global_step)} · Trainyard`;
  byId("job").textContent = [job.model, job.strategy, job.model_dir].filter(Boolean).join(" · ");
  const most = job.max_steps;
  byId("bar").hidden = !most;
  byId("bar").setAttribute("aria-valuemax", most || 0);
  byId("bar").setAttribute("aria-valuenow", run.global_step);
  byId("done").style.width = most ? `${Math.min(100, 100 * run.global_step / most)}%` : "0";
  const waits = run.waiting_for.length ? `waits for ${run.waiting_for.join(", ")}` : "";
  const left = run.state === "training" && run.seconds_left !== null ? `about ${duration(run.seconds_left)} left` : "";
  const steps = `step ${number(run.global_step)}${most ? ` of ${number(most)}` : ""}`;
  byId("progress").textContent = [steps, left, waits].filter(Boolean).join(" · ");
  byId("release").textContent = `release ${job.release}, led by ${job.leads}, cluster_epoch ${run.epoch}`;
  const newest = run.checkpoints.at(-1);
  const tiles = [
    ["steps/s", number(run.steps_per_second)],
    ["examples/s", number(run.examples_per_second)],
    ["loss", number(run.loss)],
    ["staleness, steps", number(run.staleness_steps)],
    ["checkpoint age", newest ? duration(run.unix_secs - newest.unix_secs) : "–"],
    ["running for", duration(run.unix_secs - job.started_unix_secs)],
  ];
  if (run.published) {
    const { cuts, latest, base } = run.published;
    tiles.push(["published: age", duration(run.unix_secs - latest.unix_secs)], ["published: step", number(latest.step)]);
    tiles.push(["published: cuts", number(cuts)], ["published: bytes of the latest", bytes(latest.bytes)]);
    if (base) tiles.push(["published: age of the base", duration(run.unix_secs - base.unix_secs)]);
  }
  if (run.checkpoint_failures) tiles.push(["checkpoints failed", number(run.checkpoint_failures)]);
  byId("tiles").replaceChildren(...tiles.map(([name, value]) => {
    const tile = element("div", "tile");
    tile.append(element("b", "", value), element("span", "", name));
    return tile;
  }));
  const split = (task) => [task.input_ms, task.exchange_ms, task.compute_ms].every((ms) => ms === null || ms === undefined)
    ? "" : [task.input_ms, task.exchange_ms, task.compute_ms].map(brief).join(" / ");
  const notes = (task) => [
    task.reason, task.silent_seconds > 2 ? `silent for ${duration(task.silent_seconds)}` : "",
    task.value_bytes !== undefined ? `${bytes(task.value_bytes)}, ${number(task.updates)} updates` : "",
  ].filter(Boolean).join("; ");
  const of = (key) => (task) => task[key] === undefined || task[key] === null ? "" : number(task[key]);
  table(byId("tasks"), [
    ["task", "", (task) => task.task],
    ["state", "", (task) => badge(task.state)],
    ["steps/s", "number", of("steps_per_second")],
    ["steps", "number", of("steps")],
    ["loss", "number", of("loss")],
    ["staleness", "number", of("staleness_steps")],
    ["ms a step: input / servers / compute", "number", split],
    ["address", "text", (task) => task.address || ""],
    ["", "text", notes],
  ], run.tasks);
  const checkpoints = run.checkpoints.slice(-ROWS_MAX).reverse();
  byId("no-checkpoints").hidden = checkpoints.length > 0;
  table(byId("checkpoints"), [
    ["step", "number", (saved) => number(saved.step)],
    ["age", "number", (saved) => duration(run.unix_secs - saved.unix_secs)],
    ["bytes", "number", (saved) => bytes(saved.bytes)],
    ["seconds to write", "number", (saved) => number(saved.seconds)],
  ], checkpoints);
}

function showHistory(history) {
  const { run, tasks } = history;
  const xs = run.global_step;
  const line = (name, key) => ({ name, xs, ys: run[key] });
  const each = (key) => Object.entries(tasks).map(([name, of]) => ({ name, xs: of.global_step, ys: of[key] }));
  byId("charts").replaceChildren(
    chart("Loss, by step", [line("loss", "loss")], { wide: true }),
    chart("Steps per second of each task", each("steps_per_second"), { wide: true, fromZero: true }),
    chart("Staleness of each task, steps", each("staleness_steps"), { wide: true, fromZero: true }),
    chart("Milliseconds of a step", [
      line("waits for input", "input_ms"), line("waits for servers", "exchange_ms"), line("computes", "compute_ms"),
    ], { wide: true, fromZero: true }),
  );
}

function showEvaluations(found) {
  const results = found.eval || [];
  byId("no-evaluations").hidden = results.length > 0;
  if (found.error) byId("no-evaluations").textContent = found.error;
  const names = [...new Set(results.flatMap((result) => Object.keys(result.metrics)))].sort();
  const lines = (name) => [["evaluation", results], ["training data", found.eval_train || []]]
    .filter(([, of]) => of.some((result) => Number.isFinite(result.metrics[name])))
    .map(([title, of]) => ({
      name: title, xs: of.map((result) => result.global_step), ys: of.map((result) => result.metrics[name]),
    }));
  const several = results.length > 1;
  byId("metric-charts").replaceChildren(...(several ? names.map((name) => chart(name, lines(name), {})) : []));
  table(byId("evaluations"), [
    ["step", "number", (result) => number(result.global_step)],
    ...names.map((name) => [name, "number", (result) => number(result.metrics[name])]),
  ], results.slice(-ROWS_MAX).reverse());
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

let failedSince = null;
let over = false;

function told(problem) {
  const alarm = byId("alarm");
  if (problem && failedSince === null) failedSince = new Date();
  if (!problem) failedSince = null;
  alarm.hidden = !problem;
  if (problem) {
    const why = over ? "the job had ended at its last answer" : String(problem.message || problem);
    alarm.textContent = `The chief has not answered since ${failedSince.toLocaleTimeString()} (${why}). This page shows the last answer.`;
  }
}

async function repeat(everyMs, work) {
  for (;;) {
    // A page that nobody looks at asks for nothing.
    if (!document.hidden) {
      try { await work(); } catch (problem) { told(problem); }
    }
    await new Promise((wake) => setTimeout(wake, everyMs));
  }
}

repeat(RUN_EVERY_MS, async () => {
  const run = await ask("api/v1/run");
  over = run.state === "done" || run.state === "failed";
  showRun(run);
  told(null);
});
repeat(HISTORY_EVERY_MS, async () => {
  showHistory(await ask("api/v1/history"));
  showEvaluations(await ask("api/v1/evaluations"));
});
