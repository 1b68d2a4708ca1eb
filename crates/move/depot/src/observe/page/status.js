// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Asks the depot each second and shows what it says. Text comes in as text only, never as markup.
// What is shown is made anew each time and then laid over what stands there (`put`): only what has
// changed is touched, so that text can be selected and read while its neighbours move.

const EVERY_MS = 1000;
/** Points of a chart: two minutes. */
const POINTS = 120;
const WIDTH = 240, HEIGHT = 64;
/** The statistics of a hop that have a title for this page: key, title and help text. */
const HOP_FACTS = {hop_facts};
/** The land on Earth, as a path in half degrees. */
const LAND = "{land}";
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const root = document.documentElement;

/** Rates and round trips of each hop, one point for each answer. */
const histories = new Map();
/** What each transfer had when this page first saw it. */
const firstSeen = new Map();
/** What is on the page for each hop. */
const cards = new Map();

function scaled(value, step, units) {
  let at = 0;
  while (value >= step * 0.9995 && at < units.length - 1) { value /= step; at += 1; }
  const digits = at === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[at]}`;
}
const rate = (bps) => scaled(bps, 1000, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"]);
const size = (bytes) => scaled(bytes, 1024, ["B", "KB", "MB", "GB", "TB", "PB"]);
const time = (us) => us === null || us === undefined ? "–" : us < 1000 ? `${Math.round(us)} µs`
  : us < 1e6 ? `${(us / 1e3).toFixed(us < 1e4 ? 2 : 1)} ms` : `${(us / 1e6).toFixed(2)} s`;
const count = (n) => n.toLocaleString("en");
/** A value, by the unit that its key ends in. */
const quantity = (key, value) => value === null ? "–"
  : ({ bps: rate, bytes: size, us: time }[key.split("_").pop()] ?? count)(value);
function age(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}
const words = (token) => token.replaceAll("_", " ");

/** An element with a class, and with children or text. */
function make(name, kind, ...children) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  element.append(...children);
  return element;
}
function draw(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
/** Whether one element can be made the other: of the same kind, and about the same thing. */
const alike = (old, fresh) => old?.nodeName === fresh.nodeName && old.dataset?.key === fresh.dataset?.key;

/** Makes an element or a text like another one that is not on the page. */
function adopt(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  put(old, ...fresh.childNodes);
}
/** Makes these what an element holds. Those with a `data-key` are the same only as one of the same key. */
function put(parent, ...children) {
  const keys = new Set(children.map((child) => child.dataset?.key));
  for (const old of [...parent.childNodes]) if (!keys.has(old.dataset?.key)) old.remove();
  children.forEach((fresh, at) => {
    const old = parent.childNodes[at];
    if (old === fresh) return;
    if (alike(old, fresh)) adopt(old, fresh); else parent.insertBefore(fresh, old ?? null);
  });
  while (parent.childNodes.length > children.length) parent.lastChild.remove();
}
const say = (element, text) => put(element, document.createTextNode(text));
/** Shows the rows of a table, or that there are none. */
function fill(table, rows, none) {
  put(byId(table).tBodies[0], ...rows);
  byId(table).hidden = rows.length === 0;
  byId(none).hidden = rows.length > 0;
}

function tile(name, value, beside, share) {
  const parts = [make("h3", "", name), make("div", "value", value), make("div", "beside", beside)];
  if (share !== undefined) {
    const meter = make("meter");
    Object.assign(meter, { min: 0, max: 1, high: 0.9, optimum: 0, value: Math.min(share, 1) });
    meter.setAttribute("aria-label", `${name}: share of the limit`);
    parts.push(meter);
  }
  return make("div", "tile", ...parts);
}

function showTiles(status) {
  const { connections, memory, totals } = status;
  const now = { down: 0, up: 0 };
  for (const hop of status.hops) {
    if (hop.side === "client") { now.down += hop.down_bps; now.up += hop.up_bps; }
  }
  const held = memory.sockets_held_bytes + memory.pipes_held_bytes;
  const share = (part, whole) => whole > 0 ? `${Math.round(part / whole * 100)} % spliced` : "nothing yet";
  put(byId("tiles"),
    tile("To clients", rate(now.down), `${size(totals.down_bytes)}, ${share(totals.down_spliced_bytes, totals.down_bytes)}`),
    tile("To origins", rate(now.up), `${size(totals.up_bytes)}, ${share(totals.up_spliced_bytes, totals.up_bytes)}`),
    tile("Client connections", count(connections.open), `of ${count(connections.limit)} at most`, connections.open / connections.limit),
    tile("Held by the kernel", size(held), `of ${size(memory.limit_bytes)} at most; ${size(memory.pipes_held_bytes)} in pipes, the rest in sockets`, held / memory.limit_bytes),
    tile("Idle to next hops", count(connections.idle_upstream), "waiting for work"),
    tile("Reserved", size(memory.reserved_bytes), memory.largest_client ? `${size(memory.largest_client.reserved_bytes)} for ${memory.largest_client.client}; a client's share is ${size(memory.client_share_bytes)}` : `for transfers; a client's share is ${size(memory.client_share_bytes)}`, memory.reserved_bytes / memory.limit_bytes),
    tile("Process", size(memory.resident_bytes), `${count(memory.open_files)} of ${count(memory.open_files_limit)} open files${status.accept_failures ? `, accepting failed ${count(status.accept_failures)} times` : ""}${status.panics ? `, ${count(status.panics)} panics` : ""}`),
    ...status.draining.map(({ process, seconds_left: left, live_transfers: live }) =>
      tile("Before the takeover", count(live), `transfers of process ${process}, for up to ${age(left)}`)),
    ...status.detours.filter(({ up }) => !up).map(({ depot }) =>
      tile("Depot of a detour", "down", depot)),
    tile("Sessions", count(status.sessions.open), `open, ${count(status.sessions.meetings_waiting)} wait for their other end`),
    ...(status.store ? [storeTile(status.store)] : []),
  );
}

function storeTile({ open, sessions, used_bytes: used, size_bytes: whole }) {
  return open ? tile("Stored sessions", count(sessions), `${size(used)} of ${size(whole)} used or reserved`, used / whole)
    : tile("Stored sessions", "closed", "another process has the store");
}

/** Over how many connections a transfer goes, where it is, or should have been, more than one. */
function streams({ streams: have, streams_asked: asked }) {
  if (asked > 1 && asked !== have) return `${have} of ${asked} streams`;
  return have > 1 ? `${have} streams` : null;
}

function tcpCell(tcp) {
  if (!tcp) return make("td", "n", "–");
  const several = streams(tcp);
  const cell = make("td", "n", time(tcp.rtt_us), make("small", "", tcp.congestion));
  const rest = [`shortest ${time(tcp.min_rtt_us)}`, `congestion window ${size(tcp.cwnd_bytes)}`];
  if (several) cell.append(make("small", "", several));
  if (tcp.pacing) rest.push(`paced by ${tcp.pacing}`);
  if (tcp.delivery_rate_bps) rest.push(`delivery rate ${rate(tcp.delivery_rate_bps)}`);
  cell.title = `${several ? "first connection: " : ""}${rest.join(", ")}`;
  return cell;
}

function transferRow(transfer) {
  const { number, down_bytes: down, up_bytes: up, expected_bytes: expected } = transfer;
  if (!firstSeen.has(number)) firstSeen.set(number, down + up);
  // Long ones break after slashes.
  const parts = `${transfer.method} ${transfer.url ?? transfer.target}`.split(/(?<=\/)/);
  const target = make("td", "target", ...parts.flatMap((part) => [part, make("wbr")]));
  const { ticket, asked_for: askedFor, process } = transfer;
  if (ticket) target.append(make("small", "", `ticket ${ticket.id}${ticket.issuer ? ` of ${ticket.issuer}` : ""}`));
  const client = make("td", "", transfer.client);
  if (askedFor) client.append(make("small", "", `for ${askedFor}`));
  if (process) client.append(make("small", "", `process ${process}, before the takeover`));
  const far = make("td", "far", expected === null ? size(down) : `${size(down)} of ${size(expected)}`);
  if (expected > 0) {
    const bar = make("progress");
    Object.assign(bar, { max: expected, value: down });
    bar.setAttribute("aria-label", "share of the answer's body");
    far.append(bar);
  }
  if (up > 0) far.append(make("small", "", `${size(up)} up`));
  const speed = make("td", "n", rate(transfer.down_bps));
  if (transfer.up_bps > 0) speed.append(make("small", "", `${rate(transfer.up_bps)} up`));
  const { limited_by: limit } = transfer;
  if (limit) speed.append(make("small", "", `${limit.side}: ${words(limit.cause)} ${Math.round(limit.share * 100)} %`));
  if (limit) speed.title = "what has limited it most so far: the side that the depot waits for, the cause, its share of the time";
  const status = transfer.status === null ? "no answer yet" : `status ${transfer.status}`;
  const again = [transfer.client_tcp, transfer.upstream_tcp]
    .reduce((sum, tcp) => sum + (tcp ? tcp.retransmitted_segments : 0), 0);
  const row = make("tr", "",
    client, target,
    make("td", "", transfer.upstream, make("small", "", status)),
    far, speed, make("td", "n", age(transfer.age_s)),
    tcpCell(transfer.client_tcp), tcpCell(transfer.upstream_tcp), make("td", "n", count(again)));
  Object.assign(row.dataset, { key: number, firstBytes: firstSeen.get(number), bytes: down + up });
  return row;
}

function showTransfers(status) {
  const transfers = [...status.transfers, ...status.draining.flatMap((draining) => draining.transfers)];
  const live = status.draining.reduce((sum, draining) => sum + draining.live_transfers, status.live_transfers);
  const numbers = new Set(transfers.map((transfer) => transfer.number));
  for (const number of firstSeen.keys()) if (!numbers.has(number)) firstSeen.delete(number);
  say(byId("live"), live ? count(live) : "");
  fill("transfers", transfers.map(transferRow), "no-transfers");
  byId("more-transfers").hidden = live <= transfers.length;
  say(byId("more-transfers"), `${transfers.length} of ${count(live)} are shown, the fastest among them.`);
}

/** Clients and tickets with more than one transfer, the fastest first. */
function showSums({ clients, ticket_transfers: tickets }) {
  const row = (kind) => ({ of, transfers, up_bytes: up, down_bytes: down, up_bps: upRate, down_bps: downRate }) => {
    const element = make("tr", "", make("td", "", `${kind} ${of}`), make("td", "n", count(transfers)),
      make("td", "n", size(up + down)), make("td", "n", rate(upRate + downRate)));
    element.dataset.key = `${kind} ${of}`;
    return element;
  };
  const several = (sums) => sums.filter((sum) => sum.transfers > 1).slice(0, 10);
  const rows = [...several(clients).map(row("client")), ...several(tickets).map(row("ticket"))];
  byId("sums").hidden = rows.length === 0;
  put(byId("sum-rows").tBodies[0], ...rows);
}

/** A line for each series, the newest point at the right edge; gaps where nothing was known. */
function chart({ svg, value, scale }, series, now, unit) {
  const most = Math.max(...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const ceiling = most > 0 ? most * 1.05 : 1;
  say(value, now);
  say(scale, most > 0 ? `, up to ${unit(most)}` : "");
  const parts = [
    draw("line", { class: "rule", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
  ];
  for (const { values, kind } of series) {
    let path = "", pen = false;
    values.forEach((value, at) => {
      if (value === null || value === undefined) { pen = false; return; }
      const x = WIDTH - (values.length - 1 - at) * (WIDTH / (POINTS - 1));
      const y = (HEIGHT - 1) - value / ceiling * (HEIGHT - 3);
      path += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = true;
    });
    if (path) parts.push(draw("path", { class: kind, d: path }));
  }
  put(svg, ...parts);
  svg.setAttribute("aria-label", `now ${now}${scale.textContent}`);
}

function makeCard(hop) {
  const figure = (name) => {
    const [value, scale] = [make("span"), make("span", "scale")];
    const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    const caption = make("figcaption", "", make("span", "", name, scale), value);
    return { value, scale, svg, figure: make("figure", "", caption, svg) };
  };
  const [speed, rtt, state, facts] = [figure("rate"), figure("round trip"), make("span"), make("dl")];
  const side = hop.side === "client" ? "clients" : "next hop";
  const title = make("h3", "", make("span", "", hop.hop), make("span", "", `${side} `, state));
  const element = make("div", "hop", title, make("div", "charts", speed.figure, rtt.figure), facts);
  element.dataset.key = `${hop.side} ${hop.hop}`;
  return { element, speed, rtt, state, facts };
}

function fact(name, value, title) {
  const element = make("div", "", make("dt", "", name), make("dd", "", value));
  if (title) element.title = title;
  return element;
}

/** What went wrong at this hop; not what went wrong at the other side of the depot. */
function failures(hop) {
  const fine = ["complete", "ended", "led_on", "answered"];
  const elsewhere = hop.side === "client" ? "upstream_" : "client_";
  return Object.entries(hop.requests)
    .filter(([name]) => !fine.includes(name) && !name.startsWith(elsewhere))
    .reduce((sum, [, n]) => sum + n, 0);
}

function showHop(hop, key) {
  if (!cards.has(key)) cards.set(key, makeCard(hop));
  const { element, speed, rtt, state, facts } = cards.get(key);
  const history = histories.get(key);
  const open = Object.entries(hop.connections);
  const transfers = open.reduce((sum, [, n]) => sum + n, 0);
  const joined = hop.streams > transfers ? [`${hop.streams} streams`] : [];
  const told = [...open.map(([name, n]) => `${n} × ${name}`), ...joined];
  say(state, told.length ? `· ${told.join(", ")}` : "");
  state.title = joined.length ? "what is said of sockets is said of each transfer's first connection" : "";
  const speeds = hop.up_bps > 0 ? `${rate(hop.down_bps)}, ${rate(hop.up_bps)} up` : rate(hop.down_bps);
  chart(speed, [
    { values: history.map((point) => point.down), kind: "down" },
    ...(history.some((point) => point.up > 0) ? [{ values: history.map((point) => point.up), kind: "up" }] : []),
  ], speeds, rate);
  chart(rtt, [{ values: history.map((point) => point.rtt), kind: "rtt" }], time(hop.rtt_us), time);
  const ended = Object.values(hop.requests).reduce((sum, n) => sum + n, 0);
  const failed = failures(hop);
  const requests = make("span", "", count(ended));
  if (failed > 0) requests.append(", ", make("span", "count-bad", `${count(failed)} failed`));
  // Requests without a body tell nothing of how fast the next hop could take one.
  const sends = open.length > 0 && (hop.side === "client" || hop.up_bytes > 0);
  const unmeasured = (key) => !sends && ["cwnd_bytes", "delivery_rate_bps"].includes(key);
  put(facts,
    fact("requests ended", requests, Object.entries(hop.requests).map(([name, n]) => `${words(name)}: ${n}`).join(", ")),
    fact("moved", size(hop.down_bytes + hop.up_bytes), `${size(hop.down_bytes)} to clients, ${size(hop.up_bytes)} to origins`),
    ...HOP_FACTS.map(({ key, title, help }) => fact(title, unmeasured(key) ? "–" : quantity(key, hop[key]), help)),
  );
  return element;
}

function showHops(hops) {
  const shown = [], idle = [];
  const order = { upstream: 0, client: 1 };
  const sorted = [...hops].sort((a, b) => order[a.side] - order[b.side] || (a.hop === "other") - (b.hop === "other") || a.hop.localeCompare(b.hop));
  for (const hop of sorted) {
    const key = `${hop.side} ${hop.hop}`;
    const history = histories.get(key) ?? [];
    history.push({ down: hop.down_bps, up: hop.up_bps, rtt: hop.rtt_us });
    if (history.length > POINTS) history.shift();
    histories.set(key, history);
    const used = Object.keys(hop.connections).length + Object.keys(hop.requests).length > 0;
    if (used) shown.push(showHop(hop, key)); else idle.push(hop.hop);
  }
  put(byId("hops"), ...shown);
  byId("idle-hops").hidden = idle.length === 0;
  say(byId("idle-hops"), `Not used since the start: ${idle.join(", ")}`);
}

/** Where a place is on the map. */
const onMap = ([latitude, longitude]) => [(longitude + 180) * 2, (90 - latitude) * 2];
/** A depot's host, for the map. */
const hostOf = (depot) => depot.replace(/^https:/, "").replace(/:\d+$/, "");

/** Statistics of a depot's connections to another depot. */
function hopWords({ to, rtt_us: rtt, loss, rate_bps: bps, warm }) {
  const parts = [];
  if (rtt !== null) parts.push(time(rtt));
  if (bps !== null) parts.push(rate(bps));
  if (loss > 0) parts.push(`${(loss * 100).toPrecision(2)} % retransmitted`);
  if (warm > 0) parts.push(`${count(warm)} warm`);
  return parts.length ? `${hostOf(to)}: ${parts.join(", ")}` : null;
}

/** Dots for depots with a location, and lines for connections between them. */
function drawMap(register) {
  const placed = register.filter(({ place }) => place);
  byId("map").toggleAttribute("hidden", placed.length === 0);
  const places = new Map(placed.map(({ depot, place }) => [depot, onMap(place)]));
  const titled = (shape, text) => {
    const title = draw("title", {});
    title.append(text);
    shape.append(title);
    return shape;
  };
  const lines = placed.flatMap(({ depot, hops }) => hops
    .filter((hop) => places.has(hop.to) && hopWords(hop))
    .map((hop) => {
      const [[x1, y1], [x2, y2]] = [places.get(depot), places.get(hop.to)];
      // Thicker from 1 Mb/s to 10 Gb/s.
      const width = hop.rate_bps > 0 ? Math.min(Math.max(Math.log10(hop.rate_bps) - 5, 1), 5) : 1;
      const line = draw("line", { x1, y1, x2, y2, class: "path", "stroke-width": width });
      return titled(line, `${hostOf(depot)} to ${hopWords(hop)}`);
    }));
  put(byId("map-hops"), ...lines);
  const dots = placed.map((of) => {
    const [x, y] = places.get(of.depot);
    const share = of.connections / Math.max(of.connections_limit, 1);
    const kind = of.own ? "dot own" : share >= 0.9 ? "dot full" : "dot";
    const group = draw("g", {});
    const dot = draw("circle", { cx: x, cy: y, r: 4 + Math.min(Math.sqrt(of.transfers), 8), class: kind });
    const isLeft = x > 620;
    const label = draw("text", { x: isLeft ? x - 8 : x + 8, y: y - 6, class: "label", "text-anchor": isLeft ? "end" : "start" });
    label.append(hostOf(of.depot));
    group.append(dot, label);
    return titled(group, `${of.depot}: ${count(of.transfers)} transfers, ${rate(of.rate_bps)}, ${Math.round(share * 100)} % of its connections`);
  });
  put(byId("map-depots"), ...dots);
}

function showDepots({ register, forecasts }) {
  byId("depots").hidden = register.length === 0;
  drawMap(register);
  fill("depot-rows", register.map((of) => {
    const hops = of.hops.map(hopWords).filter(Boolean);
    const row = make("tr", "",
      make("td", "", of.depot, ...(of.own ? [make("small", "", "this one")] : [])),
      make("td", "n", of.age_s < 1 ? "now" : `${age(of.age_s)} ago`),
      make("td", "n", `${count(of.connections)} of ${count(of.connections_limit)}`),
      make("td", "n", count(of.transfers)), make("td", "n", rate(of.rate_bps)),
      make("td", "n", rate(of.highest_rate_bps)), make("td", "", hops.length ? hops.join("; ") : "–"));
    row.dataset.key = of.depot;
    return row;
  }), "no-depots");
  byId("forecasts").hidden = forecasts.length === 0;
  fill("forecast-rows", forecasts.map(({ around, through, transfers, forecast_s: seconds }) => {
    const row = make("tr", "", make("td", "", around), make("td", "", through || "no depot"),
      make("td", "n", time(seconds * 1e6)), make("td", "n", count(transfers)));
    row.dataset.key = `${around} ${through}`;
    return row;
  }), "no-forecasts");
}

function showCounts(status) {
  const refusals = [...status.refusals].sort((a, b) => b.requests - a.requests);
  fill("refusals", refusals.map((refusal) => make("tr", "",
    make("td", "n", String(refusal.status)), make("td", "", words(refusal.error)),
    make("td", "n", count(refusal.requests)))), "no-refusals");
  const outcomes = Object.entries(status.totals.requests).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  fill("outcomes", outcomes.map(([name, n]) => make("tr", "",
    make("td", "", words(name)), make("td", "n", count(n)))), "no-outcomes");
}

function show(status) {
  document.title = `${status.id}: ${status.state} – longhaul depot`;
  say(byId("id"), status.id);
  byId("state").className = `state ${status.state}`;
  say(byId("state"), status.state);
  say(byId("since"), `for ${age(status.uptime_s)}`);
  say(byId("version"), status.version);
  say(byId("log"), status.access_log.to);
  const lost = status.access_log.dropped_lines;
  byId("trouble").hidden = lost === 0;
  say(byId("trouble"), `${count(lost)} lines of the access log (${status.access_log.to}) or of standard error could not be written: is its disk full, or does nobody read it?`);
  showTiles(status);
  showTransfers(status);
  showSums(status);
  showHops(status.hops);
  showDepots(status);
  showCounts(status);
}

function lose(why) {
  byId("state").className = "state lost";
  say(byId("state"), "no answer");
  byId("trouble").hidden = false;
  say(byId("trouble"), `The depot does not answer (${why}); what is shown is the last that it said.`);
}

async function poll() {
  try {
    const answer = await fetch("status.json", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const status = await answer.json();
    try {
      show(status);
      root.dataset.polls = Number(root.dataset.polls ?? 0) + 1;
    } catch (error) {
      root.dataset.errors = String(error);
      throw error;
    }
  } catch (error) {
    lose(error.message);
  }
  setTimeout(poll, EVERY_MS);
}
byId("land").setAttribute("d", LAND);
poll();
