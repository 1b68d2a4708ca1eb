// SPDX-License-Identifier: GPL-2.0-or-later
// Plays a run: the path with its packets on top, and below it windows, queues, and what was delivered and lost, up to the moment that
// is shown. All texts of the run are drawn or set as text, never as HTML.

const COLOURS = ["#2a6fb0", "#c8591a", "#2f8f4e", "#8a4fa3", "#b03a5b", "#6b6b1f", "#1f8a8a", "#7a5230"];
const MARGIN = { left: 74, right: 12, top: 22, bottom: 20 };
const SPEEDS = [0.1, 0.25, 1, 2, 5, 10];
const PATH_HEIGHT = 84;
const PANEL_HEIGHT = 132;
// Dots for packets in flight at the highest rate that the run has.
const MOST_DOTS = 40;

/** The last value at or before a time; 0 before the first. */
export function valueAt(curve, time) {
  let [low, high] = [0, curve.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve[middle][0] <= time) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? 0 : curve[low - 1][1];
}

/** A number with a unit of thousand, million or thousand million. */
export function short(value) {
  for (const [size, sign] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= size) return `${+(value / size).toPrecision(3)} ${sign}`;
  }
  return `${+value.toPrecision(3)} `;
}

function highest(curves) {
  let most = 0;
  for (const curve of curves) for (const [, value] of curve) most = Math.max(most, value);
  return most || 1;
}

function canvas(parent, height, label) {
  const element = document.createElement("canvas");
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", label);
  element.style.cssText = `display:block;width:100%;height:${height}px`;
  parent.append(element);
  return element;
}

/** A canvas's context in CSS pixels, cleared, with its width and height. */
function begin(element) {
  const [width, height] = [element.clientWidth, element.clientHeight];
  const scale = window.devicePixelRatio || 1;
  if (element.width !== Math.round(width * scale)) element.width = Math.round(width * scale);
  if (element.height !== Math.round(height * scale)) element.height = Math.round(height * scale);
  const context = element.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  const ink = getComputedStyle(element).color;
  return { context, width, height, ink };
}

/** Curves up to a moment, and faintly after it. */
function drawPanel(element, panel, time, duration) {
  const { context, width, height, ink } = begin(element);
  const [right, bottom] = [width - MARGIN.right, height - MARGIN.bottom];
  const x = (at) => MARGIN.left + ((right - MARGIN.left) * at) / duration;
  const y = (value) => bottom - ((bottom - MARGIN.top) * value) / panel.most;
  context.fillStyle = ink;
  context.textAlign = "left";
  context.fillText(panel.title, MARGIN.left, 14);
  context.textAlign = "right";
  for (const part of [0, 0.5, 1]) {
    const at = y(panel.most * part);
    context.fillText(short(panel.most * part).trim(), MARGIN.left - 6, at + 4);
    context.globalAlpha = 0.15;
    context.fillRect(MARGIN.left, at, right - MARGIN.left, 1);
    context.globalAlpha = 1;
  }
  context.textAlign = "center";
  for (let part = 0; part <= 4; part++) {
    context.fillText(`${short((duration * part) / 4)}s`, Math.min(x((duration * part) / 4), right - 10), height - 5);
  }
  for (const { curve, colour, marks } of panel.curves) {
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 1.5;
    if (marks) {
      for (const [at] of curve) {
        context.globalAlpha = at <= time ? 0.9 : 0.15;
        context.fillRect(x(at) - 1, MARGIN.top, 2, 8);
      }
      context.globalAlpha = 1;
      continue;
    }
    for (const [from, to, alpha] of [[time, duration, 0.2], [0, time, 1]]) {
      context.globalAlpha = alpha;
      context.beginPath();
      // Each part begins and ends with the last sample before it; nothing is drawn before the first.
      const begins = curve.length && curve[0][0] > from ? curve[0][0] : from;
      if (!curve.length || begins > to) continue;
      context.moveTo(x(begins), y(valueAt(curve, begins)));
      for (const [at, value] of curve) {
        if (at > from && at <= to) context.lineTo(x(at), y(value));
      }
      context.lineTo(x(to), y(valueAt(curve, to)));
      context.stroke();
    }
    context.globalAlpha = 1;
  }
  context.fillStyle = ink;
  context.fillRect(x(time), MARGIN.top, 1, bottom - MARGIN.top);
}

/** The busiest link: its queue as a bar, packets as dots that take its delay from end to end. */
function drawPath(element, link, time, rate, queue) {
  const { context, width, ink } = begin(element);
  const [left, right, middle] = [MARGIN.left + 46, width - 46, 46];
  context.fillStyle = context.strokeStyle = ink;
  context.textAlign = "center";
  context.fillText(link.ends[0], MARGIN.left - 20, middle + 30);
  context.fillText(link.ends[1], width - 30, middle + 30);
  for (const at of [MARGIN.left - 20, width - 30]) context.fillRect(at - 10, middle - 10, 20, 20);
  context.fillRect(left, middle, right - left, 1);
  const waiting = valueAt(link.queue, time);
  context.strokeRect(left - 34, middle - 20, 14, 40);
  context.fillStyle = COLOURS[1];
  const filled = (40 * waiting) / queue;
  context.fillRect(left - 34, middle + 20 - filled, 14, filled);
  context.fillStyle = ink;
  context.fillText(`${short(waiting)}B waiting`, left - 20, 14);
  // What is between the ends now was sent up to a delay ago; dots keep their places on the way.
  const delay = Math.max(link.delay, 1e-3);
  const step = delay / MOST_DOTS;
  context.fillStyle = COLOURS[0];
  for (let sent = Math.ceil((time - delay) / step) * step; sent <= time; sent += step) {
    const share = valueAt(link.throughput, sent) / rate;
    const number = Math.round(sent / step);
    // The share of dots is the rate as a share of the highest.
    if (sent >= 0 && Math.floor((number + 1) * share) > Math.floor(number * share)) {
      context.beginPath();
      context.arc(left + ((right - left) * (time - sent)) / delay, middle, 3, 0, 7);
      context.fill();
    }
  }
  context.fillStyle = ink;
  context.fillText(`${short(valueAt(link.throughput, time))}bit/s, ${short(link.delay * 1e3)}ms`, (left + right) / 2, middle + 26);
}

function panels(run) {
  const coloured = (list, key) => list.map((it, n) => ({ curve: it[key], colour: COLOURS[n % COLOURS.length] }));
  const lost = (list, key) => list.map((it) => ({ curve: it[key], colour: "#d02020", marks: true }));
  const all = [
    ["congestion window, segments", coloured(run.hops, "window"), []],
    ["queue, bytes; marks: packets dropped or lost", coloured(run.links, "queue"), lost(run.links, "lost")],
    ["delivered, bytes; marks: packets sent again", coloured(run.hops, "delivered"), lost(run.hops, "resent")],
  ];
  return all.map(([title, lines, marks]) => ({
    title,
    most: highest(lines.map(({ curve }) => curve)),
    curves: [...lines, ...marks],
  }));
}

function legend(parent, title, names) {
  const line = document.createElement("div");
  line.append(`${title}: `);
  names.forEach((name, n) => {
    const entry = document.createElement("span");
    entry.textContent = name;
    entry.style.cssText = `margin-right:1em;border-bottom:3px solid ${COLOURS[n % COLOURS.length]}`;
    line.append(entry);
  });
  parent.append(line);
}

function render({ model, el }) {
  const run = model.get("run");
  const duration = Math.max(run.duration, 1e-6);
  el.style.fontFamily = "system-ui, sans-serif";
  const title = document.createElement("strong");
  title.textContent = run.title;
  el.append(title);
  const shown = panels(run);
  const busiest = run.links[0];
  const path = busiest && canvas(el, PATH_HEIGHT, `packets and queue from ${busiest.name}`);
  const [rate, queue] = busiest ? [highest([busiest.throughput]), highest([busiest.queue])] : [1, 1];
  const drawn = shown.map((panel) => canvas(el, PANEL_HEIGHT, panel.title));
  legend(el, "TCP connections", run.hops.map((hop) => hop.name));
  legend(el, "links", run.links.map((link) => link.name));
  if (run.left_out) el.append(`${run.left_out} more connections are not drawn`);

  const controls = document.createElement("div");
  controls.style.cssText = "display:flex;gap:.6em;align-items:center;margin-top:.4em";
  const button = document.createElement("button");
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: 0, max: duration, step: duration / 1000 });
  slider.setAttribute("aria-label", "moment");
  slider.style.flex = "1";
  const speed = document.createElement("select");
  speed.setAttribute("aria-label", "speed");
  for (const factor of SPEEDS) speed.append(new Option(`${factor} x`, factor, factor === 1, factor === 1));
  const clock = document.createElement("output");
  controls.append(button, slider, speed, clock);
  el.append(controls);

  let [time, playing, last, frame] = [Math.min(model.get("time"), duration), false, 0, 0];
  const draw = () => {
    if (path) drawPath(path, busiest, time, rate, queue);
    shown.forEach((panel, n) => drawPanel(drawn[n], panel, time, duration));
    slider.value = time;
    clock.textContent = `${time.toFixed(2)} s of ${duration.toFixed(2)} s`;
    button.textContent = playing ? "Pause" : "Play";
  };
  const tell = () => {
    model.set("time", time);
    model.save_changes();
  };
  const stop = () => {
    playing = false;
    cancelAnimationFrame(frame);
    tell();
    draw();
  };
  const tick = (now) => {
    // A frame may be dated before the click that asked for it.
    time = Math.min(duration, time + (Math.max(0, now - last) / 1e3) * Number(speed.value));
    last = now;
    if (time >= duration) return stop();
    draw();
    frame = requestAnimationFrame(tick);
  };
  button.onclick = () => {
    if (playing) return stop();
    [playing, last] = [true, performance.now()];
    if (time >= duration) time = 0;
    draw();
    frame = requestAnimationFrame(tick);
  };
  slider.oninput = () => {
    time = Number(slider.value);
    tell();
    draw();
  };
  const moved = () => {
    if (!playing) {
      time = Math.min(Math.max(model.get("time"), 0), duration);
      draw();
    }
  };
  model.on("change:time", moved);
  const resized = new ResizeObserver(draw);
  resized.observe(el);
  draw();
  return () => {
    cancelAnimationFrame(frame);
    resized.disconnect();
    model.off("change:time", moved);
  };
}

export default { render };
