// SPDX-License-Identifier: GPL-2.0-or-later
// Draws the charts of a report from the JSON in the page. Text and tables are there without this.
//
// Each <div class="chart" data-chart=KIND data-group=N> is filled by charts[KIND]. All charts are
// drawn anew when the width, the colour scheme or a choice changes: there are few, and it is the
// simplest way for them to be right. Texts from records only ever become text nodes.
"use strict";
(() => {
  const root = document.documentElement;
  const errors = document.getElementById("errors");
  const fail = (error) => {
    errors.hidden = false;
    errors.textContent = `A chart could not be drawn: ${error && error.message || error}`;
    root.dataset.errors = Number(root.dataset.errors || 0) + 1;
  };
  window.addEventListener("error", (event) => fail(event.error || event.message));

  const page = JSON.parse(document.getElementById("data").textContent);
  const choices = page.groups.map(() => ({ repeat: "median", point: 0, sameAxis: true }));

  // ---- helpers ------------------------------------------------------------------------------

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const variantColour = (cell) => colour(`variant-${cell.colour}`);
  const faded = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
  const font = (px) => `${px}px ${getComputedStyle(document.body).fontFamily}`;

  // A number with three digits.
  const digits = (v) => v === 0 ? "0" : Number(v.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 6 });

  // The largest unit that leaves numbers above 1: [factor, "Mb/s"].
  const unitFor = (max, base) => {
    for (const [size, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (max >= size) return [1 / size, prefix + base];
    }
    return [1, base];
  };

  const element = (tag, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  };

  const axis = (label, more = {}) => ({
    label, size: 28, labelSize: 20, labelFont: font(12), font: font(12), labelGap: 2, gap: 5,
    stroke: colour("faint"), grid: { stroke: colour("rule"), width: 1 },
    ticks: { stroke: colour("rule"), width: 1, size: 4 }, ...more,
  });
  // Values of several orders of magnitude stand on a logarithmic axis, as in `swept_value.rs`.
  const areWide = (values) => values.length > 0 && values.every((v) => v > 0) && Math.max(...values) > 30 * Math.min(...values);
  const logSplits = (low, high) => {
    const decades = Math.log10(high / low), steps = decades > 4 ? [1] : decades > 2 ? [1, 3] : [1, 2, 5], splits = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      splits.push(...steps.map((step) => step * 10 ** power).filter((v) => v >= low && v <= high));
    }
    return splits;
  };
  // A scale for these values, and what its axis adds. Without a logarithm it begins at 0 and ends at `top`.
  const scaleFor = (values, top) => {
    if (!areWide(values)) return { least: 0, scale: { range: [0, top] }, axis: {} };
    const [least, most] = [Math.min(...values) / 1.4, Math.max(...values) * 1.4];
    const axis = { splits: () => logSplits(least, most), filter: (u, splits) => splits };
    return { least, scale: { distr: 3, range: [least, most] }, axis };
  };
  // As wide as the widest label needs, so that none lies under the title.
  const numberAxis = (label) => axis(label, {
    size: (u, values) => Math.max(52, 9 + Math.ceil(widest(values ?? []))), values: (u, splits) => splits.map(digits),
  });
  const widest = (labels) => {
    const ctx = context();
    ctx.font = font(12);
    return Math.max(0, ...labels.map((label) => ctx.measureText(label).width));
  };
  // A context to measure texts with.
  const context = () => context.ctx ||= document.createElement("canvas").getContext("2d");

  // Draws on a chart's canvas, clipped to the plot; `body` gets the context, a scale's position, the
  // canvas's pixels for one of CSS, and the plot's box.
  const onPlot = (body) => (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    body(ctx, (value, scale) => u.valToPos(value, scale, true), window.devicePixelRatio || 1, bbox);
    ctx.restore();
  };

  const dot = (ctx, x, y, r, stroke, hollow) => {
    ctx.beginPath();
    ctx.arc(x, y, r, 0, 2 * Math.PI);
    ctx.fillStyle = hollow ? colour("paper") : faded(stroke, 0.5);
    ctx.strokeStyle = stroke;
    ctx.lineWidth = r / 3;
    ctx.fill();
    ctx.stroke();
  };

  const line = (ctx, width, stroke, x0, y0, x1, y1) => {
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.lineTo(x1, y1);
    ctx.lineWidth = width;
    ctx.strokeStyle = stroke;
    ctx.stroke();
  };

  const legend = (entries) => {
    const items = entries.map(({ label, stroke, height, dashed }) => {
      const mark = element("i");
      mark.style.background = dashed ? `repeating-linear-gradient(90deg, ${stroke} 0 6px, transparent 6px 9px)` : stroke;
      mark.style.height = `${height}px`;
      return element("li", {}, mark, label, " ", element("b"));
    });
    return element("ul", { className: "legend" }, ...items);
  };

  let drawn = 0;
  const plot = (options, data, into) => {
    drawn += 1;
    return new uPlot({ legend: { show: false }, ...options }, data, into);
  };

  // ---- completion times, goodputs: a row for each cell -----------------------------------------

  // The text in at most two lines of the width; what is still too long is cut.
  const wrapped = (text, width, px) => {
    const ctx = context();
    ctx.font = font(px);
    const fits = (line) => ctx.measureText(line).width <= width;
    const words = text.split(" ");
    let first = words.shift();
    while (words.length && fits(`${first} ${words[0]}`)) first += ` ${words.shift()}`;
    const cut = (line) => {
      if (fits(line)) return line;
      while (line.length > 1 && !fits(`${line}…`)) line = line.slice(0, -1);
      return `${line}…`;
    };
    return [first, words.join(" ")].filter(Boolean).map(cut);
  };

  const times = (into, group) => rowsOf(into, group, {
    cells: group.cells.filter((cell) => !cell.endless),
    label: "seconds to the last byte", value: (r) => r.seconds, interval: (cell) => cell.seconds,
  });

  // Of flows without an end: their time is the run's.
  const goodputs = (into, group) => {
    const cells = group.cells.filter((cell) => cell.endless);
    const [factor, unit] = unitFor(Math.max(...cells.flatMap((cell) => cell.repeats.map((r) => r.goodput_bps))), "b/s");
    rowsOf(into, group, {
      cells, label: `goodput, ${unit}`, value: (r) => r.goodput_bps * factor,
      interval: ({ goodput_bps: of }) => of && { mean: of.mean * factor, half: of.half === null ? null : of.half * factor },
    });
  };

  const rowsOf = (into, group, { cells, label, value, interval }) => {
    const name = (cell) => group.points.length > 1 ? `${group.points[cell.point]}, ${cell.label}` : cell.label;
    const labelWidth = Math.min(into.clientWidth * 0.42, 320);
    const all = cells.flatMap((cell) => cell.repeats.map(value));
    const longest = Math.max(...all) || 1;
    const { least, scale, axis: scaled } = scaleFor(all, longest * 1.05);
    into.dataset.scale = scale.distr ? "logarithmic" : "linear";
    const body = (ctx, at, px) => cells.forEach((cell, row) => {
      const y = at(row, "y"), stroke = variantColour(cell);
      if (interval(cell)) {
        const { mean, half } = interval(cell);
        if (half !== null) {
          line(ctx, 7 * px, faded(stroke, 0.25), at(Math.max(least, mean - half), "x"), y, at(mean + half, "x"), y);
        }
        line(ctx, 2.5 * px, colour("ink"), at(mean, "x"), y - 9 * px, at(mean, "x"), y + 9 * px);
      }
      for (const repeat of cell.repeats) {
        dot(ctx, at(value(repeat), "x"), y, 4 * px, repeat.counts ? stroke : colour("bad"), repeat.cut || !repeat.counts);
      }
    });
    const names = ({ ctx, bbox, valToPos }) => {
      const px = window.devicePixelRatio || 1;
      ctx.save();
      Object.assign(ctx, { font: font(12 * px), fillStyle: colour("ink"), textAlign: "right", textBaseline: "middle" });
      cells.forEach((cell, row) => {
        const lines = wrapped(name(cell), labelWidth - 14, 12);
        lines.forEach((text, i) => {
          const y = valToPos(row, "y", true) + (i - (lines.length - 1) / 2) * 13 * px;
          ctx.fillText(text, bbox.left - 8 * px, y);
        });
      });
      ctx.restore();
    };
    plot({
      width: into.clientWidth, height: cells.length * 30 + 56,
      cursor: { show: false },
      scales: {
        x: { time: false, ...scale },
        y: { range: [-0.5, cells.length - 0.5], dir: -1 }, // the first cell on top
      },
      axes: [
        axis(label, { values: (u, splits) => splits.map(digits), ...scaled }),
        // The names are drawn below: the library would hang two lines from the row's middle.
        axis("", { label: undefined, size: labelWidth, ticks: { show: false }, splits: () => cells.map((_, row) => row), values: () => [] }),
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [names, onPlot(body)] },
    }, [[least, longest], [null, null]], into);
  };

  // ---- throughput and sequence growth: a chart for each cell ----------------------------------

  // Hops are drawn one upon the other, the first widest and faintest, so that lines that lie on one
  // another can all be seen.
  const strandStyle = (index, count, stroke) => {
    const last = count > 1 ? index / (count - 1) : 1;
    return { stroke: faded(stroke, 0.3 + 0.7 * last), width: 6 - 4.5 * last };
  };

  // Where a panel shows several flows or links, each has a colour and a dash of its own in all panels. Otherwise colours
  // are the variants', and the hops of a flow shades of it.
  const flowsOf = (strands) => [...new Set(strands.map((s) => s.of))];
  const styled = (strands, stroke, several) => {
    const all = flowsOf(strands);
    return strands.map((s, i) => {
      if (!several) return strandStyle(i, strands.length, stroke);
      const own = strands.filter((other) => other.of === s.of);
      return { ...strandStyle(own.indexOf(s), own.length, colour(`series-${s.colour}`)), dash: dashes[all.indexOf(s.of) % dashes.length] };
    });
  };

  // The run of a cell to show, by the reader's choice.
  const chosenRun = (group, cell, choice) => {
    if (choice.repeat === "median") return cell.representative;
    const found = cell.repeats.find((r) => group.runs[r.run].repeat === Number(choice.repeat));
    return found ? found.run : null;
  };

  // What is to be drawn for each cell at the chosen point.
  const shown = (group, choice) => group.cells
    .filter((cell) => cell.point === choice.point)
    .map((cell) => ({ cell, index: chosenRun(group, cell, choice) }))
    .filter(({ index }) => index !== null)
    .map(({ cell, index }) => {
      const run = group.runs[index];
      const repeat = cell.repeats.find((r) => r.run === index);
      const strands = run.strands.filter((s) => s.client === null || s.client === cell.client);
      return { cell, run, repeat, strands };
    });

  const rates = (strand, bin) => (strand.delivered ?? strand.bytes).map((bytes) => bytes * 8 / bin);
  const totals = (strand) => {
    let sum = 0;
    return [0, ...strand.bytes.map((bytes) => sum += bytes)];
  };

  const kinds = {
    throughput: {
      unit: "b/s", values: rates,
      times: (strand, bin) => strand.bytes.map((_, i) => (i + 0.5) * bin),
    },
    sequence: {
      unit: "B", values: totals,
      times: (strand, bin) => [0, ...strand.bytes.map((_, i) => (i + 1) * bin)],
    },
  };

  const overTime = (kind) => (into, group, choice) => {
    const all = shown(group, choice);
    if (!all.some(({ strands }) => strands.length)) {
      into.append(element("p", { className: "note", textContent: "Nothing was sampled in these runs." }));
      return;
    }
    // What links carry is on another scale than what a connection gets.
    const highest = (links) => all.filter(({ run }) => run.of_links === links)
      .flatMap(({ run, strands }) => strands.flatMap((s) => kind.values(s, run.bin_s)))
      .reduce((a, b) => Math.max(a, b), 0);
    const tops = new Map([false, true].map((links) => [links, highest(links)]));
    // The throughput of a single flow is seen against what its path could carry.
    const limitOf = (run) => kind.unit === "b/s" ? run.limit_bps : null;
    const limit = Math.max(...all.map(({ run }) => limitOf(run)));
    const [factor, unit] = unitFor(Math.max(...tops.values(), limit), kind.unit);
    const longest = Math.max(...all.map(({ run, strands }) => run.bin_s * Math.max(0, ...strands.map((s) => s.bytes.length))));
    const grid = element("div", { className: "multiples" });
    into.append(grid);
    const several = all.some(({ strands }) => flowsOf(strands).length > 1);
    for (const one of all) multiple(grid, group, one, kind, {
      several, factor, unit, longest, choice, limit: limitOf(one.run),
      top: Math.max(tops.get(one.run.of_links), limit) * factor * 1.08 || 1,
    });
  };

  const multiple = (grid, group, { cell, run, repeat, strands }, kind, { several, factor, unit, longest, choice, limit, top }) => {
    const stroke = variantColour(cell);
    const styles = styled(strands, stroke, several);
    const key = legend(strands.map((s, i) => ({ label: s.label, stroke: styles[i].stroke, height: Math.max(2, styles[i].width), dashed: styles[i].dash })));
    const median = run === group.runs[cell.representative] ? ", the run closest to the median" : "";
    const state = repeat.cut ? ", cut at the time limit" : repeat.counts ? "" : ", left out of medians";
    const [rateFactor, rateUnit] = unitFor(repeat.goodput_bps, "b/s");
    const caption = element("figcaption", {},
      element("span", { className: `variant variant-${cell.colour}`, textContent: cell.label }),
      element("small", { textContent: `repeat ${run.repeat}: ${digits(repeat.goodput_bps * rateFactor)} ${rateUnit} ${cell.endless ? "over" : "in"} ${digits(repeat.seconds)} s${median}${state}` }));
    const box = element("div");
    grid.append(element("figure", {}, caption, box, key));
    if (!strands.length) {
      box.append(element("p", { className: "note", textContent: "Nothing was sampled in this run." }));
      return;
    }
    const data = [kind.times(strands[0], run.bin_s), ...strands.map((s) => kind.values(s, run.bin_s).map((v) => v * factor))];
    const readings = key.querySelectorAll("b");
    const read = (u) => readings.forEach((reading, i) => {
      const at = u.cursor.idx;
      reading.textContent = at === null || at === undefined ? "" : `${digits(u.data[i + 1][at])} ${unit} at ${digits(u.data[0][at])} s`;
    });
    plot({
      width: box.clientWidth, height: 210,
      scales: {
        x: { time: false, range: (u, min, max) => [min, max] },
        y: { range: [0, top] },
      },
      axes: [axis("seconds since the start", { values: (u, splits) => splits.map(digits) }), numberAxis(unit)],
      cursor: { y: false, points: { size: 6 } },
      series: [{}, ...styles.map((style) => ({ ...style, points: { show: false } }))],
      hooks: {
        setCursor: [read],
        draw: [onPlot((ctx, at, px, bbox) => {
          if (!limit) return;
          const y = at(limit * factor, "y");
          ctx.setLineDash([4 * px, 4 * px]);
          line(ctx, px, colour("faint"), bbox.left, y, bbox.left + bbox.width, y);
          ctx.fillStyle = colour("faint");
          ctx.font = font(11 * px);
          ctx.textAlign = "right";
          ctx.fillText("link’s rate", bbox.left + bbox.width - 2 * px, y + 14 * px);
        })],
        init: [(u) => {
          const end = choice.sameAxis ? longest : data[0][data[0].length - 1];
          u.setScale("x", { min: 0, max: end });
          u.over.addEventListener("dblclick", () => u.setScale("x", { min: 0, max: end }));
        }],
      },
    }, data, box);
  };

  // ---- windows and rates: a chart for each variant, all methods upon one another -----------------------

  // The first method's lines are drawn through, the next ones' dashed.
  const dashes = [undefined, [6, 4], [2, 3], [10, 3]];
  const methodNames = { emu: "kernel (emu)", sim: "simulator (sim)", field: "field", model: "model" };
  const methodColour = (method) => colour(`method-${method}`) || colour("ink");

  // What is drawn: for each line its times in seconds of the run, and its values.
  const overlaid = {
    window: {
      label: "segments", known: (s) => s.cwnd, data: (s, run) => [s.cwnd.map((_, bin) => (bin + 1) * run.bin_s), s.cwnd],
      none: "No window was sampled in these runs, or they have too many connections to show theirs.",
    },
    methods: {
      label: "throughput, b/s", known: (s, run) => !run.of_links,
      data: (s, run) => [s.bytes.map((_, bin) => (bin + 0.5) * run.bin_s), rates(s, run.bin_s)],
      none: "Nothing was sampled in these runs, or they have too many connections to show theirs.",
    },
  };

  // By several methods time counts from each flow's own start: a program starts later than a simulated sender. Colours
  // are then the methods'.
  const upon = (kind) => (into, group, choice) => {
    const methods = [...new Set(group.cells.map((cell) => cell.method))];
    const several = methods.length > 1;
    const all = shown(group, choice);
    const severalFlows = all.some(({ strands }) => flowsOf(strands).length > 1);
    const lines = all.flatMap(({ cell, run, strands }) => {
      const known = strands.filter((s) => kind.known(s, run));
      const styles = styled(known, variantColour(cell), severalFlows);
      return known.map((s, i) => {
        const [times, values] = kind.data(s, run);
        const zero = several ? s.start_s : 0;
        const kept = times.map((t, n) => [t - zero, values[n]]).filter(([t]) => t >= 0);
        return {
          cell, label: several ? `${methodNames[cell.method] ?? cell.method}, repeat ${run.repeat}: ${s.label}` : s.label,
          style: several
            ? { ...strandStyle(i, known.length, methodColour(cell.method)), dash: dashes[methods.indexOf(cell.method) % dashes.length] }
            : styles[i],
          data: [kept.map(([t]) => t), kept.map(([, value]) => value)],
        };
      });
    });
    if (!lines.some(({ data }) => data[0].length)) {
      into.append(element("p", { className: "note", textContent: kind.none }));
      return;
    }
    const grid = element("div", { className: "multiples" });
    into.append(grid);
    const longest = Math.max(...lines.map(({ data }) => data[0].at(-1) ?? 0));
    const time = several ? "seconds since the flow’s start" : "seconds since the start";
    for (const variant of [...new Set(lines.map(({ cell }) => cell.variant))]) {
      uponOfVariant(grid, lines.filter(({ cell }) => cell.variant === variant), choice.sameAxis ? longest : null, kind, time);
    }
  };

  const uponOfVariant = (grid, lines, longest, kind, time) => {
    const { variant_label, colour: n } = lines[0].cell;
    const caption = element("figcaption", {}, element("span", { className: `variant variant-${n}`, textContent: variant_label }));
    const box = element("div");
    const key = legend(lines.map(({ label, style }) => ({ label, stroke: style.stroke, height: Math.max(2, style.width), dashed: style.dash })));
    grid.append(element("figure", {}, caption, box, key));
    const isRate = kind.label.endsWith("b/s");
    const most = lines.flatMap(({ data }) => data[1]).reduce((a, b) => Math.max(a, b ?? 0), 0);
    const [factor, unit] = isRate ? unitFor(most, "b/s") : [1, kind.label];
    const scaled = lines.map(({ data: [times, values] }) => [times, values.map((v) => v === null ? null : v * factor)]);
    // Where each line ends, for the tests.
    box.dataset.ends = lines.map(({ data }) => digits(data[0].at(-1) ?? 0)).join(" ");
    box.dataset.colours = lines.map(({ style }) => style.stroke.slice(0, 7)).join(" ");
    // Runs have bins of their own: joined, each line has gaps where only others have a time.
    const data = uPlot.join(scaled, lines.map(() => [0, 1]));
    const end = longest ?? data[0].at(-1);
    const readings = key.querySelectorAll("b");
    const read = (u) => readings.forEach((reading, i) => {
      const at = u.cursor.idx;
      const value = at === null || at === undefined ? null : u.data[i + 1][at];
      reading.textContent = value === null || value === undefined ? "" : `${digits(value)} at ${digits(u.data[0][at])} s`;
    });
    plot({
      width: box.clientWidth, height: 210,
      scales: { x: { time: false, range: (u, min, max) => [min, max] }, y: { range: (u, min, max) => [0, (max || 1) * 1.08] } },
      axes: [axis(time, { values: (u, splits) => splits.map(digits) }), numberAxis(isRate ? `throughput, ${unit}` : unit)],
      cursor: { y: false, points: { size: 6 } },
      series: [{}, ...lines.map(({ style }) => ({ ...style, points: { show: false }, spanGaps: true }))],
      hooks: {
        setCursor: [read],
        init: [(u) => {
          u.setScale("x", { min: 0, max: end });
          u.over.addEventListener("dblclick", () => u.setScale("x", { min: 0, max: end }));
        }],
      },
    }, data, box);
  };

  // ---- goodput or time over a sweep --------------------------------------------------------------------

  const sweep = (into, group) => {
    const grid = element("div", { className: group.panels.length > 1 ? "multiples" : "" });
    into.append(grid);
    for (const panel of group.panels) sweepPanel(grid, group, panel);
  };

  const measures = {
    goodput: { label: (unit) => `goodput, ${unit}`, base: "b/s", value: (repeat) => repeat.goodput_bps, interval: (cell) => cell.goodput_bps },
    seconds: { label: () => "seconds to the last byte", value: (repeat) => repeat.seconds, interval: (cell) => cell.seconds },
  };

  const sweepPanel = (grid, group, panel) => {
    const { label, base, value, interval } = measures[panel.measure];
    // A line for each variant, method and client.
    const lines = new Map();
    for (const cell of group.cells) {
      const at = panel.points.indexOf(cell.point);
      if (at < 0 || !interval(cell)) continue;
      const key = `${cell.variant}\n${cell.method}\n${cell.client}`;
      if (!lines.has(key)) lines.set(key, panel.points.map(() => null));
      lines.get(key)[at] = cell;
    }
    // Intervals of very few runs can be huge: what is more than a quarter above the runs is cut off.
    const largest = Math.max(...group.cells.flatMap((cell) => cell.repeats.map(value))) || 1;
    const ends = group.cells.map((cell) => interval(cell) ? interval(cell).mean + interval(cell).half : 0);
    const highest = Math.min(Math.max(largest, ...ends), largest * 1.25);
    const [factor, unit] = base ? unitFor(highest, base) : [1, ""];
    // The same scale for all panels.
    const shown = group.cells.flatMap((cell) => cell.repeats.filter((r) => r.counts).map((r) => value(r) * factor));
    const { least, scale, axis: scaled } = scaleFor(shown, highest * factor * 1.05);
    const rows = [...lines.values()];
    const first = (row) => row.find((cell) => cell !== null);
    const methods = [...new Set(group.cells.map((cell) => cell.method))];
    const dash = (row) => dashes[methods.indexOf(first(row).method) % dashes.length];
    const styles = rows.map((row) => ({ stroke: variantColour(first(row)), width: 2, dash: dash(row) }));
    const box = element("div");
    const title = panel.fixed ? [element("figcaption", { textContent: panel.fixed })] : [];
    const key = legend(rows.map((row, i) => ({ label: first(row).label, stroke: styles[i].stroke, height: 3, dashed: styles[i].dash })));
    grid.append(element("figure", {}, ...title, box, key));

    const columns = new Set();
    const body = (ctx, at, px) => rows.forEach((row, i) => row.forEach((cell, p) => {
      if (!cell) return;
      const x = at(panel.positions[p], "x");
      box.dataset.columns = columns.add(x).size;
      const { mean, half } = interval(cell);
      if (half !== null) {
        const y0 = at(Math.max(least, (mean - half) * factor), "y"), y1 = at((mean + half) * factor, "y");
        line(ctx, 2 * px, styles[i].stroke, x, y0, x, y1);
        for (const y of [y0, y1]) line(ctx, 2 * px, styles[i].stroke, x - 4 * px, y, x + 4 * px, y);
      }
      for (const r of cell.repeats) {
        if (r.counts) dot(ctx, x, at(value(r) * factor, "y"), 2.5 * px, styles[i].stroke, r.cut);
      }
    }));

    const [low, high] = [Math.min(...panel.positions), Math.max(...panel.positions)];
    const margin = (high - low || 1) * 0.06;
    const width = box.clientWidth;
    const plotted = (position) => (position - low) / (high - low || 1) * (width - 90);
    plot({
      width, height: 340,
      cursor: { show: false },
      scales: {
        x: { time: false, range: [low - margin, high + margin] },
        y: scale,
      },
      axes: [
        axis(panel.key, {
          splits: () => panel.positions,
          // A label that would touch the one before it is left out.
          values: () => {
            let end = -Infinity;
            return panel.labels.map((label, i) => {
              const middle = plotted(panel.positions[i]), half = label.length * 3.6 + 4;
              if (middle - half < end) return "";
              end = middle + half;
              return label;
            });
          },
        }),
        { ...numberAxis(label(unit)), ...scaled },
      ],
      series: [{}, ...styles.map((style) => ({ ...style, points: { show: false }, spanGaps: true }))],
      hooks: { draw: [onPlot(body)] },
    }, [panel.positions, ...rows.map((row) => row.map((cell) => cell && interval(cell).mean * factor))], box);
    box.dataset.measure = panel.measure;
    box.dataset.scale = scale.distr ? "logarithmic" : "linear";
  };

  // ---- controls and drawing ----------------------------------------------------------------------

  const charts = { times, goodputs, sweep, window: upon(overlaid.window), methods: upon(overlaid.methods), throughput: overTime(kinds.throughput), sequence: overTime(kinds.sequence) };

  const select = (text, options, value, chosen) => {
    const made = element("select", {}, ...options.map(([v, label]) => element("option", { value: v, textContent: label })));
    made.value = value;
    made.addEventListener("change", () => { chosen(made.value); draw(); });
    return element("label", {}, text, made);
  };

  const controls = (form, group, choice) => {
    const repeats = [...new Set(group.runs.map((run) => run.repeat))].sort((a, b) => a - b);
    const options = [["median", "closest to the median"], ...repeats.map((n) => [String(n), `repeat ${n}`])];
    form.append(select("Run", options, choice.repeat, (v) => { choice.repeat = v; }));
    if (group.points.length > 1) {
      choice.point = group.points.length - 1;
      const points = group.points.map((label, i) => [String(i), label]);
      form.append(select("at", points, String(choice.point), (v) => { choice.point = Number(v); }));
    }
    const same = element("input", { type: "checkbox", checked: choice.sameAxis });
    same.addEventListener("change", () => { choice.sameAxis = same.checked; draw(); });
    form.append(element("label", {}, same, "same time axis for all"));
  };

  const draw = () => {
    drawn = 0;
    for (const into of document.querySelectorAll(".chart")) {
      const index = Number(into.dataset.group);
      into.style.minHeight = `${into.offsetHeight}px`; // so that the page does not jump
      into.replaceChildren();
      try {
        charts[into.dataset.chart](into, page.groups[index], choices[index]);
      } catch (error) {
        fail(error);
      }
      into.style.minHeight = "";
    }
    root.dataset.charts = drawn;
    // For the tests: by how much the page is wider than the window, and how many tables outside details are wider than
    // the page.
    root.dataset.wide = Math.max(0, root.scrollWidth - root.clientWidth);
    root.dataset.scrolled = [...document.querySelectorAll(".scroll")].filter((box) => !box.closest("details") && box.scrollWidth > box.clientWidth).length;
  };

  for (const form of document.querySelectorAll("[data-controls]")) {
    const index = Number(form.dataset.controls);
    controls(form, page.groups[index], choices[index]);
  }
  draw();

  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth !== width) {
      width = document.body.clientWidth;
      draw();
    }
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // Paper is white: charts are drawn for it, and back afterwards.
  window.addEventListener("beforeprint", () => { root.dataset.printing = ""; draw(); });
  window.addEventListener("afterprint", () => { delete root.dataset.printing; draw(); });
})();
