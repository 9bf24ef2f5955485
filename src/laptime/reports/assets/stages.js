"use strict";
// Ranges by lane, to move in by mouse and keys: one step with threads, streams and launches as arrows, and the calls
// of all steps with time as width. Times are nanoseconds.
(() => {
const ROW = 17, LABEL = 19, LEVELS = 7;
const unpack = async (text) => {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
};
const shown = (ns) => {
  const [factor, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "us"] : [1, "ns"];
  const value = ns / factor;
  return `${value.toFixed(unit === "ns" || value >= 100 ? (value >= 100 && unit !== "ns" ? 1 : 0) : value >= 10 ? 2 : 3)} ${unit}`;
};
const percent = (part) => `${(100 * part).toFixed(part < 0.0995 ? 1 : 0)} %`;

// A stage draws `data`: duration, names, categories, lanes, arrows. `describe` says what a range is.
const play = (stage, describe) => {
  const canvas = stage.querySelector(".lanes"), mini = stage.querySelector(".mini");
  const scroll = stage.querySelector(".scroll"), tip = document.getElementById("tip");
  const picture = canvas.getContext("2d"), small = mini.getContext("2d");
  const view = { from: 0, span: 1, picked: null, hovered: null, matches: null };
  let data, lower, lanes, python, least;
  const arrows = new Map();
  let width = 0, colours = [], inks = {}, strip = null, due = false;

  const key = (lane, row) => `${lane} ${row}`;
  const load = (next) => {
    data = next;
    least = Math.min(500, data.dur / 1e4);
    lower = data.names.map((name) => name.toLowerCase());
    lanes = data.lanes.map((lane, index) => ({ ...lane, index, levels: [], level: [], all: false, hidden: 0, top: 0 }));
    python = ["python", "module"].map((name) => data.categories.indexOf(name));
    for (const lane of lanes) fold(lane, false);
    arrows.clear();
    for (const [from, launch, to, work] of data.arrows) {
      for (const [end, other] of [[key(from, launch), [to, work]], [key(to, work), [from, launch]]]) {
        if (!arrows.has(end)) arrows.set(end, []);
        arrows.get(end).push(other);
      }
    }
    if (view.picked) pick(null);
    Object.assign(view, { from: 0, span: data.first || data.dur, picked: null, hovered: null });
    const used = new Set(lanes.flatMap((lane) => lane.category));
    stage.querySelector(".legend").replaceChildren(...[...used].sort((a, b) => a - b).map((at) => {
      const item = document.createElement("li"), swatch = document.createElement("i");
      swatch.className = `swatch p-${data.categories[at]}`;
      item.append(swatch, data.words[at]);
      return item;
    }));
    search();
    again();
  };

  // Python functions and deep levels of a thread are folded away until asked for: operators and launches are looked for.
  const nest = (lane) => {
    const level = new Array(lane.start.length).fill(-1), ends = [];
    const rows = lane.start.map((_, row) => row).filter((row) => !python.includes(lane.category[row]));
    rows.sort((a, b) => lane.start[a] - lane.start[b] || lane.dur[b] - lane.dur[a]);
    for (const row of rows) {
      while (ends.length && ends[ends.length - 1] <= lane.start[row]) ends.pop();
      level[row] = ends.length < LEVELS ? ends.length : -1;
      ends.push(lane.start[row] + lane.dur[row]);
    }
    return level;
  };
  const label = (lane) => (lane.name ? LABEL : 0);
  const fold = (lane, all) => {
    lane.all = all;
    lane.level = lane.kind !== "host" || all ? lane.depth : nest(lane);
    lane.levels = [];
    lane.level.forEach((depth, row) => { if (depth >= 0) (lane.levels[depth] ||= []).push(row); });
    for (let depth = 0; depth < lane.levels.length; depth++) (lane.levels[depth] ||= []).sort((a, b) => lane.start[a] - lane.start[b]);
    if (!all) lane.hidden = lane.level.filter((depth) => depth < 0).length;
  };

  const style = (element, name) => getComputedStyle(element).getPropertyValue(name).trim();
  const dark = (colour) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return 0.3 * r + 0.59 * g + 0.11 * b < 150;
  };
  const paint = () => {
    const probe = document.createElement("i");
    stage.append(probe);
    colours = data.categories.map((name) => {
      probe.className = `p-${name.replace(/[^a-z-]/g, "")}`;
      const fill = style(probe, "--p") || style(stage, "--rest");
      return { fill, ink: dark(fill) ? "#ffffff" : "#14171a" };
    });
    probe.remove();
    for (const name of ["card", "ink", "quiet", "line", "grid", "track", "blue", "invalid"]) inks[name] = style(stage, `--${name}`);
    strip = null;
  };

  const layout = () => {
    let y = 4;
    for (const lane of lanes) { lane.top = y; y += label(lane) + lane.levels.length * ROW + 8; }
    const scale = devicePixelRatio || 1;
    width = scroll.clientWidth;
    canvas.style.height = `${y}px`;
    canvas.width = width * scale; canvas.height = y * scale;
    mini.width = width * scale; mini.height = 52 * scale;
    picture.setTransform(scale, 0, 0, scale, 0, 0);
    small.setTransform(scale, 0, 0, scale, 0, 0);
    strip = null;
  };

  const x = (time) => ((time - view.from) / view.span) * width;
  const firstAfter = (lane, level, time) => {
    let low = 0, high = level.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.start[level[middle]] + lane.dur[level[middle]] < time) low = middle + 1; else high = middle;
    }
    return low;
  };

  const range = (lane, row, left, length, y) => {
    const colour = colours[lane.category[row]] || colours[0];
    picture.globalAlpha = view.matches && !view.matches.has(lane.text[row]) ? 0.13 : [1, 0.86, 0.74][lane.text[row] % 3];
    picture.fillStyle = colour.fill;
    picture.fillRect(left, y, Math.max(length - (length > 3 ? 1 : 0), 1), ROW - 2);
    if (length < 34) return;
    picture.globalAlpha = view.matches && !view.matches.has(lane.text[row]) ? 0.3 : 1;
    picture.fillStyle = colour.ink;
    const begin = Math.max(left, 0) + 4, room = Math.floor((Math.min(left + length, width) - begin - 4) / 6.1);
    const text = data.names[lane.text[row]];
    if (room > 3) picture.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, begin, y + 11);
  };
  const drawLane = (lane) => {
    picture.globalAlpha = 1;
    picture.fillStyle = inks.quiet;
    picture.font = "600 11px system-ui, sans-serif";
    picture.fillText(lane.name, 6, lane.top + 13);
    const taken = picture.measureText(lane.name).width;
    picture.font = "11px system-ui, sans-serif";
    if (lane.hidden) picture.fillText(lane.all ? "▾ fold" : `▸ ${lane.hidden.toLocaleString("en")} more: Python functions, deep levels`, taken + 16, lane.top + 13);
    const end = view.from + view.span;
    lane.levels.forEach((level, depth) => {
      const y = lane.top + label(lane) + depth * ROW;
      let taken = -1;
      for (let at = firstAfter(lane, level, view.from); at < level.length; at++) {
        const row = level[at];
        if (lane.start[row] > end) break;
        const left = x(lane.start[row]), right = x(lane.start[row] + lane.dur[row]);
        if (right - left < 1 && Math.floor(left) <= taken && !view.matches) continue;
        range(lane, row, left, right - left, y);
        taken = Math.floor(Math.max(right, left));
      }
    });
  };
  const yOf = (lane, row) => lane.top + label(lane) + Math.max(lane.level[row], 0) * ROW;
  const outline = (lane, row, colour) => {
    const left = x(lane.start[row]);
    picture.strokeStyle = colour; picture.lineWidth = 2;
    picture.strokeRect(left - 1, yOf(lane, row) - 1, Math.max(x(lane.start[row] + lane.dur[row]) - left, 2) + 1, ROW);
  };
  const linked = ({ lane, row }) => {
    const links = arrows.get(key(lane.index, row));
    if (links || lane.kind !== "host") return (links || []).map((other) => [[lane.index, row], other]);
    const end = lane.start[row] + lane.dur[row];
    return data.arrows.filter(([from, launch]) => from === lane.index && lane.start[launch] >= lane.start[row] && lane.start[launch] < end)
      .map(([from, launch, to, work]) => [[from, launch], [to, work]]);
  };
  const drawPicked = () => {
    picture.globalAlpha = 1;
    if (view.hovered) outline(view.hovered.lane, view.hovered.row, inks.quiet);
    if (!view.picked) return;
    if (view.picked.lane.level[view.picked.row] >= 0) outline(view.picked.lane, view.picked.row, inks.ink);
    picture.lineWidth = 1.25; picture.strokeStyle = inks.invalid; picture.fillStyle = inks.invalid;
    for (let [[a, launch], [b, work]] of view.picked.links.slice(0, 200)) {
      if (lanes[a].kind === "device") [a, launch, b, work] = [b, work, a, launch];
      const x0 = x(lanes[a].start[launch]), y0 = yOf(lanes[a], launch) + ROW - 2;
      const x1 = x(lanes[b].start[work]), y1 = yOf(lanes[b], work);
      picture.beginPath(); picture.moveTo(x0, y0);
      picture.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
      picture.stroke();
      picture.beginPath(); picture.moveTo(x1, y1); picture.lineTo(x1 - 3, y1 - 6); picture.lineTo(x1 + 3, y1 - 6); picture.fill();
    }
  };

  const ticks = () => {
    const rough = view.span / Math.max(2, width / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((each) => each >= rough);
    const times = [];
    for (let n = Math.ceil(view.from / step); n * step <= view.from + view.span; n++) times.push(n * step);
    return times;
  };
  const drawStrip = () => {
    strip = document.createElement("canvas");
    strip.width = width; strip.height = 28;
    const brush = strip.getContext("2d"), each = Math.max(1, Math.floor(14 / lanes.length));
    const some = lanes.map((lane) => lane.levels.slice(0, each)), high = Math.min(7, 28 / some.flat().length);
    some.flatMap((levels, index) => levels.map((level) => [lanes[index], level])).forEach(([lane, level], at) => {
      for (const row of level) {
        brush.fillStyle = (colours[lane.category[row]] || colours[0]).fill;
        brush.fillRect((lane.start[row] / data.dur) * width, at * high, Math.max((lane.dur[row] / data.dur) * width, 0.4), high * 0.8);
      }
    });
  };
  const drawMini = () => {
    if (!strip) drawStrip();
    small.clearRect(0, 0, width, 52);
    small.globalAlpha = 0.75; small.drawImage(strip, 0, 0); small.globalAlpha = 1;
    const left = (view.from / data.dur) * width, length = Math.max((view.span / data.dur) * width, 3);
    small.fillStyle = inks.card; small.globalAlpha = 0.65;
    small.fillRect(0, 0, left, 28); small.fillRect(left + length, 0, width, 28);
    small.globalAlpha = 1; small.strokeStyle = inks.ink; small.lineWidth = 1.5;
    small.strokeRect(left + 0.75, 0.75, length - 1.5, 26.5);
    small.fillStyle = inks.quiet; small.strokeStyle = inks.line; small.lineWidth = 1; small.font = "11px system-ui, sans-serif";
    for (const time of ticks()) {
      small.beginPath(); small.moveTo(x(time), 47); small.lineTo(x(time), 52); small.stroke();
      const text = time ? shown(time).replace(/\.0+ /, " ").replace(/(\.\d*?)0+ /, "$1 ") : "0";
      small.textAlign = x(time) < 20 ? "left" : x(time) > width - 24 ? "right" : "center";
      small.fillText(text, x(time), 43);
    }
  };
  const draw = () => {
    due = false;
    if (width < 1) return; // not laid out: hidden, or printed
    picture.globalAlpha = 1;
    picture.clearRect(0, 0, width, canvas.height);
    picture.strokeStyle = inks.grid; picture.lineWidth = 1;
    for (const time of ticks()) { picture.beginPath(); picture.moveTo(x(time), 0); picture.lineTo(x(time), canvas.height); picture.stroke(); }
    for (const lane of lanes) drawLane(lane);
    drawPicked();
    drawMini();
  };
  const redraw = () => { if (!due) { due = true; requestAnimationFrame(draw); } };

  const look = (from, span) => {
    view.span = Math.min(Math.max(span, least), data.dur);
    view.from = Math.min(Math.max(from, 0), data.dur - view.span);
    redraw();
  };
  const zoom = (factor, at = width / 2) => {
    const time = view.from + (at / width) * view.span, span = Math.min(Math.max(view.span * factor, least), data.dur);
    look(time - (at / width) * span, span);
  };
  const find = (px, py) => {
    const lane = lanes.find((each) => py >= each.top && py < each.top + label(each) + each.levels.length * ROW);
    if (!lane) return null;
    const depth = Math.floor((py - lane.top - label(lane)) / ROW);
    if (depth < 0) return { lane, row: -1 };
    const level = lane.levels[depth], slack = (2 / width) * view.span, time = view.from + (px / width) * view.span;
    let best = null, least = slack;
    for (let at = firstAfter(lane, level, time - slack); at < level.length && lane.start[level[at]] <= time + slack; at++) {
      const row = level[at], away = Math.max(lane.start[row] - time, time - lane.start[row] - lane.dur[row], 0);
      if (away === 0) return { lane, row };
      if (away < least) { least = away; best = row; }
    }
    return best === null ? null : { lane, row: best };
  };

  const pick = (target) => {
    const note = stage.querySelector(".picked");
    view.picked = target && target.row >= 0 ? { ...target, links: linked(target) } : null;
    note.replaceChildren();
    if (view.picked) {
      const name = document.createElement("code");
      name.textContent = data.names[target.lane.text[target.row]];
      const device = target.lane.kind === "device", number = view.picked.links.length;
      const launches = number ? ` · ${device ? "launched from the host" : `launches ${number} on the device`}` : "";
      note.append(name, document.createElement("br"), describe(target) + launches);
      if (number) {
        const [lane, row] = view.picked.links[0][1];
        const go = Object.assign(document.createElement("button"), { type: "button", textContent: device ? "go to the launch" : "go to the first" });
        go.addEventListener("click", () => show({ lane: lanes[lane], row }));
        note.append(go);
      }
    } else note.textContent = "Nothing picked.";
    redraw();
  };
  const show = (target) => {
    const start = target.lane.start[target.row], dur = target.lane.dur[target.row];
    if (target.lane.level[target.row] < 0) { fold(target.lane, true); layout(); }
    if (start < view.from || start + dur > view.from + view.span || dur < view.span / 400) {
      const span = Math.min(Math.max(dur * 12, Math.min(view.span, data.dur / 20)), data.dur);
      look(start + dur / 2 - span / 2, span);
    }
    const y = yOf(target.lane, target.row);
    if (y < scroll.scrollTop + 20 || y > scroll.scrollTop + scroll.clientHeight - 40) scroll.scrollTop = y - scroll.clientHeight / 2;
    pick(target);
  };
  const beside = (by) => {
    const start = view.picked || { lane: lanes.find((lane) => lane.levels.length), row: -1 };
    if (start.row < 0) start.row = start.lane.levels[0][0];
    const level = start.lane.levels[Math.max(start.lane.level[start.row], 0)], row = level[level.indexOf(start.row) + (view.picked ? by : 0)];
    if (row !== undefined) show({ lane: start.lane, row });
  };
  const inward = (by) => {
    if (!view.picked) { beside(0); return; }
    const { lane, row } = view.picked, level = lane.levels[lane.level[row] + by] || [], end = (at) => lane.start[at] + lane.dur[at];
    const [outer, inner] = by < 0 ? [(at) => at, () => row] : [() => row, (at) => at];
    const found = level.find((at) => lane.start[outer(at)] <= lane.start[inner(at)] && end(outer(at)) >= end(inner(at)));
    if (found !== undefined) show({ lane, row: found });
  };
  const fit = () => { if (view.picked) { const { lane, row } = view.picked; look(lane.start[row] - lane.dur[row] * 0.05, lane.dur[row] * 1.1); } };

  const hide = () => { tip.hidden = true; if (view.hovered) { view.hovered = null; redraw(); } };
  const hover = (event) => {
    const target = find(event.offsetX, event.offsetY);
    if (!target || target.row < 0) { hide(); canvas.style.cursor = target && target.lane.hidden ? "pointer" : ""; return; }
    const name = data.names[target.lane.text[target.row]];
    tip.textContent = `${name.length > 110 ? `${name.slice(0, 109)}…` : name}\n${describe(target)}`;
    tip.hidden = false;
    tip.style.left = `${Math.max(8, Math.min(event.pageX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${event.pageY + 16}px`;
    if (!view.hovered || view.hovered.row !== target.row || view.hovered.lane !== target.lane) { view.hovered = target; redraw(); }
  };
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { at: event.clientX, from: view.from, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) { hover(event); return; }
    if (Math.abs(event.clientX - drag.at) > 3) { drag.moved = true; hide(); }
    if (drag.moved) look(drag.from - ((event.clientX - drag.at) / width) * view.span, view.span);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) {
      const target = find(event.offsetX, event.offsetY);
      if (target && target.row < 0 && target.lane.hidden) { fold(target.lane, !target.lane.all); layout(); redraw(); } else pick(target);
    }
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", hide);
  canvas.addEventListener("dblclick", (event) => (view.picked ? fit() : zoom(0.25, event.offsetX)));
  canvas.addEventListener("wheel", (event) => {
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (sideways) look(view.from + (((event.deltaX || event.deltaY) * lines) / width) * view.span, view.span);
    else zoom(Math.exp(event.deltaY * lines * 0.0022), event.offsetX);
  }, { passive: false });
  const go = (event) => look((event.offsetX / width) * data.dur - view.span / 2, view.span);
  mini.addEventListener("pointerdown", (event) => { mini.setPointerCapture(event.pointerId); go(event); });
  mini.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });

  const keys = {
    "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: () => look(0, data.dur), Home: () => look(0, data.dur),
    ArrowLeft: () => look(view.from - view.span / 8, view.span), ArrowRight: () => look(view.from + view.span / 8, view.span),
    n: () => beside(1), p: () => beside(-1), Escape: () => { pick(null); hide(); },
    ArrowUp: () => inward(-1), ArrowDown: () => inward(1), f: fit,
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    hide();
    keys[event.key]();
  });
  for (const button of stage.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => ({ in: keys["+"], out: keys["-"], all: keys[0] })[button.dataset.do]());
  }

  const box = stage.querySelector("input"), hitCount = stage.querySelector(".hits");
  let hits = [], hit = -1;
  const search = () => {
    const query = box.value.trim().toLowerCase();
    view.matches = query ? new Set(lower.flatMap((name, index) => (name.includes(query) ? [index] : []))) : null;
    hits = view.matches ? lanes.flatMap((lane) => lane.start.flatMap((_, row) => (view.matches.has(lane.text[row]) ? [{ lane, row }] : []))) : [];
    hits.sort((a, b) => a.lane.start[a.row] - b.lane.start[b.row]);
    hit = -1;
    hitCount.textContent = query ? `${hits.length.toLocaleString("en")} found${share()}${hits.length ? ", Enter goes to the next" : ""}` : "";
    redraw();
  };
  const share = () => { // of one tree: the time of all that was found, and what lies inside counts once
    if (lanes.length !== 1 || !hits.length) return "";
    let sum = 0, end = 0;
    for (const { lane, row } of hits) {
      if (lane.start[row] + lane.dur[row] <= end) continue;
      sum += lane.dur[row];
      end = lane.start[row] + lane.dur[row];
    }
    return `, ${percent(sum / data.dur)} of ${data.whole}`;
  };
  box.addEventListener("input", search);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !hits.length) return;
    hit = (hit + (event.shiftKey ? -1 : 1) + hits.length) % hits.length;
    show(hits[hit]);
    hitCount.textContent = `${hit + 1} of ${hits.length}`;
  });

  stage.previousElementSibling.hidden = true;
  stage.hidden = false;
  const again = () => { paint(); layout(); redraw(); };
  new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  return { load, watch: () => new ResizeObserver(again).observe(scroll) };
};

const own = (tree, weight) => {
  const rest = [...tree[weight]];
  if (tree.whole) tree.parent.forEach((above, at) => { if (above >= 0) rest[above] -= tree[weight][at]; });
  return rest;
};

// Nodes side by side below what called them, as wide as they took by this weight.
const laid = (tree, own, steps) => {
  const total = own.map((ns) => ns / steps);
  if (!tree.whole) for (let at = total.length - 1; at >= 0; at--) if (tree.parent[at] >= 0) total[tree.parent[at]] += total[at];
  const lane = { kind: "calls", name: "", start: [], dur: [], text: [], depth: [], category: [], node: [], root: [] };
  const end = [], depth = [], root = [];
  let last = 0;
  tree.parent.forEach((above, at) => {
    const start = above < 0 ? last : end[above];
    if (above < 0) last += total[at]; else end[above] += total[at];
    end[at] = start;
    depth[at] = above < 0 ? 0 : depth[above] + 1;
    root[at] = above < 0 ? total[at] : root[above];
    if (!total[at]) return;
    for (const [field, value] of Object.entries({ start, dur: total[at], text: tree.name_index[at], depth: depth[at], category: tree.category[at], node: at, root: root[at] })) lane[field].push(value);
  });
  return { lane, dur: last };
};

const acts = {
  timeline(stage, data) {
    for (const lane of data.lanes) {
      let now = 0;
      Object.assign(lane, { start: lane.start_ns.map((step) => (now += step)), dur: lane.dur_ns, text: lane.name_index });
    }
    const at = ({ lane, row }) => `${shown(lane.dur[row])} at ${shown(lane.start[row])} · ${data.words[lane.category[row]] || ""} · ${lane.name}`;
    const { load, watch } = play(stage, at);
    load(data);
    watch();
  },
  calls(stage, data) {
    let now;
    const at = ({ lane, row }) => { // threads run side by side: on the host a share is one of its thread
      const node = lane.node[row], own = now.own[node] / data.steps, calls = now.tree.calls[node];
      const share = now.threads ? `${percent(lane.dur[row] / lane.root[row])} of its thread` : `${percent(lane.dur[row] / now.dur)} of all`;
      return `${shown(lane.dur[row])} a step, ${share} · itself ${shown(own)}${calls ? ` · ${calls.toLocaleString("en")} calls` : ""} · ${data.words[lane.category[row]] || ""}`;
    };
    const { load, watch } = play(stage, at);
    const buttons = data.views.map(([title, tree, weight]) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: title });
      button.addEventListener("click", () => {
        now = { tree: data.trees[tree], own: own(data.trees[tree], weight), threads: !tree && weight === "host_ns" };
        const { lane, dur } = laid(now.tree, data.trees[tree][weight], data.steps);
        now.dur = dur;
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
        load({ ...data, dur, first: now.threads && lane.dur[0], whole: now.threads ? "the time of all threads" : "all", lanes: [lane], arrows: [] });
      });
      return button;
    });
    stage.querySelector(".switch").append(...buttons);
    buttons[0].click();
    watch();
  },
};

if (!("DecompressionStream" in window)) return;
for (const stage of document.querySelectorAll(".stage")) {
  unpack(stage.nextElementSibling.textContent).then((data) => acts[stage.dataset.kind](stage, data));
}
})();
