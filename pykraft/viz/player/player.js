// The player: draws a film (see film_data.py), and says what a reader wants to do to it. It knows no Kafka.
//
// `play(root, host)` fills an element. A host has `data()`, `act(words, ms)` and `onChange(call)`: a notebook's kernel, or
// a page with a few recorded outcomes. Everything on the stage is a function of one number, the virtual time `t`.

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = { produce: "circle", fetch: "square", quorum: "diamond", group: "triangle", transaction: "hexagon", background: "speck" };
const NAMES = { produce: "produce", fetch: "fetch", quorum: "election and ISR", group: "group", transaction: "transaction", background: "background" };
const POINTS = { square: [4, 0.785], diamond: [4, 0], triangle: [3, -1.571], hexagon: [6, 0] };
const EPOCHS = 6;
const RANKS = ["law", "you", "truncation", "election", "crash", "restart", "fault", "transaction", "voters", "quota", "segment", "rebalance", "client", "isr"];
const CELLS = { open: "○", committed: "", aborted: "✕", "commit marker": "C", "abort marker": "A", compacted: "·" };
const MARK_SIGNS = { stable: "△", group: "▽", disk: "◇", start: "▸" };
const FAULTS = [["heal", "healed"], ["omission", "lost"], ["power", "power"], ["partition", "cut"]];
const HELD_AT = 0.42;
const SLOWEST = -2, FASTEST = 1;
const CROSS_MS = 90;

const number = value => Math.round(value).toLocaleString("en");
const plural = (count, noun) => number(count) + " " + noun + (count === 1 ? "" : "s");

function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) key in made && key !== "list" && typeof value !== "string" ? made[key] = value : made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function svg(name, attributes = {}, text) {
  const made = document.createElementNS(SVG, name);
  set(made, attributes);
  if (text !== undefined) made.textContent = text;
  return made;
}

function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    const said = typeof value === "number" ? String(Math.round(value * 100) / 100) : value;
    if (node.getAttribute(key) !== said) node.setAttribute(key, said);
  }
}

function say(node, text) { if (node.textContent !== text) node.textContent = text; }

function shape(kind, size) {
  const form = SHAPES[kind] || "circle";
  if (!POINTS[form]) return svg("circle", { r: form === "speck" ? size * 0.5 : size });
  const [corners, turn] = POINTS[form], radius = size * 1.25;
  const points = [...Array(corners).keys()].map(i => {
    const angle = turn + i * 2 * Math.PI / corners;
    return (radius * Math.cos(angle)).toFixed(1) + "," + (radius * Math.sin(angle)).toFixed(1);
  });
  return svg("polygon", { points: points.join(" ") });
}

// --- a film, by time ---------------------------------------------------------------------------------------------------

class Film {
  constructor(data) {
    Object.assign(this, data);
    this.messages = data.messages.map(([id, from, to, kind, name, isResponse, summary, sent, path, end, fate]) =>
      ({ id, from, to, kind, name, isResponse, summary, sent, path, end: end === null ? Infinity : end, fate }));
    this.messages.sort((a, b) => a.sent - b.sent);
    this.tracks = { states: new Map(), logs: new Map(), segments: new Map() };
    for (const [name, tracks] of Object.entries(this.tracks))
      for (const row of data[name]) (tracks.get(row[0]) || tracks.set(row[0], []).get(row[0])).push(row);
    this.longest = Math.max(this.first + 12, ...data.logs.map(row => row[3]));
    this.label = new Map(data.hosts.map(([id, label]) => [id, label]));
    this.nodes = data.hosts.filter(h => h[2] === "node").map(h => h[0]);
    this.clients = data.hosts.filter(h => h[2] === "client").map(h => h[0]);
  }
  at(name, key, t) {
    const rows = this.tracks[name].get(key) || [];
    let low = 0, high = rows.length;
    while (low < high) { const middle = (low + high) >> 1; rows[middle][1] <= t ? low = middle + 1 : high = middle; }
    return rows[low - 1];
  }
  state(host, t) {
    const row = this.at("states", host, t);
    return row && { alive: row[2], said: row[3], leads: row[4], badges: row[5], details: row[6] };
  }
  log(host, t) {
    const row = this.at("logs", host, t);
    return row && { start: row[2], end: row[3], high: row[4], epochs: row[5], said: row[6], leads: row[7], inSync: row[8], torn: row[9], marks: row[10] };
  }
  files(lane, t) { return (this.at("segments", lane, t) || [])[2] || []; }
  flying(t, withBackground) {
    return this.messages.filter(m => m.sent <= t && t < m.end && (withBackground || m.kind !== "background"));
  }
  lost(t, withBackground) {
    return this.messages.filter(m => m.fate === "lost" && m.end <= t && t < m.end + CROSS_MS && (withBackground || m.kind !== "background"));
  }
  isCut(from, to, t) { return this.cuts.some(c => c[0] === from && c[1] === to && c[2] <= t && (c[3] === null || t < c[3])); }
  muted(client, t) { return this.mutes.find(m => m[0] === client && m[2] <= t && t < m[3]); }
  timersAt(t) { return this.timers.filter(r => r[2] <= t && (r[4] === null || t < r[4])); }
  tally(t) {
    let found = [0, 0, 0];
    for (const row of this.losses) { if (row[0] > t) break; found = row; }
    return { acknowledged: found[1], surviving: found[2], gone: found[1] - found[2] };
  }
  figure(t) {
    let found = null;
    for (const row of this.figures) { if (row[0] > t) break; found = row; }
    return found;
  }
  leader(t) {  // the node that leads; its log is where the records count
    const node = this.nodes.find(each => (this.state(each, t) || {}).leads);
    return node === undefined ? null : { node, log: this.log(node, t) };
  }
  ringsOf(host) {
    const kinds = new Set(this.timers.filter(row => row[0] === host).map(row => row[1]));
    return this.rings.filter(ring => ring[2].some(kind => kinds.has(kind)));
  }
  times(withBackground) {
    const found = new Set(this.marks.map(m => m[0]));
    for (const m of this.messages) if (withBackground || m.kind !== "background") { found.add(m.sent); if (m.end < Infinity) found.add(m.end); }
    return [...found].filter(t => t >= this.from && t <= this.to).sort((a, b) => a - b);
  }
}

function progress(message, t) {
  let done = 0;
  for (let i = 0; i < message.path.length && message.path[i][0] <= t; i++) {
    const [since, due] = message.path[i], next = i + 1 < message.path.length ? message.path[i + 1][0] : Infinity;
    const until = Math.min(t, next);
    if (due === null) done = Math.max(done, Math.min(HELD_AT, done + (until - since) / 120));
    else done += (1 - done) * (due <= since ? 1 : Math.min(1, (until - since) / (due - since)));
  }
  return Math.min(1, done);
}

function describe(message, film) {
  const name = host => film.label.get(host) || String(host);
  return message.name + (message.isResponse ? " response" : " request") + ", " + name(message.from) + " to " + name(message.to)
    + (message.summary ? ": " + message.summary : "");
}

// --- the stage: nodes, links, messages ---------------------------------------------------------------------------------

class Stage {
  constructor(player, film, width, height, isMain) {
    Object.assign(this, { player, film, width, height, isMain });
    this.root = svg("svg", { class: "pk-stage", viewBox: `0 0 ${width} ${height}`, width, height, role: "group" });
    this.root.setAttribute("aria-label", isMain ? "The cluster" : "The cluster before");
    this.links = svg("g"); this.dots = svg("g"); this.hosts = svg("g"); this.tip = svg("g", { class: "pk-tip" });
    this.root.append(this.links, this.hosts, this.dots, this.tip);
    this.shown = new Map(); this.parts = new Map(); this.lines = new Map();
    this.radius = height < 220 ? 19 : 27;
    this.isSmall = height < 220;
    this.place();
    this.drawLinks(); this.drawHosts();
  }
  place() {
    const { film, width, height, radius } = this, low = film.hosts.some(h => h[2] === "node" && film.tracks.states.get(h[0]).some(r => r[5].length > 1)) ? 13 : 0;
    const clients = film.clients, left = clients.length ? 62 : 0, ry3 = (height - low - 2 * radius - 50) / 1.5;
    this.at = new Map();
    const cx = (left + width) / 2 + (clients.length ? 16 : 0), isOdd = film.nodes.length === 3;
    const cy = isOdd ? radius + 18 + ry3 : height / 2 - 7;
    const rx = (width - left) / 2 - radius - 34, ry = isOdd ? ry3 : height / 2 - radius - 25;
    film.nodes.forEach((node, i) => {
      const angle = -Math.PI / 2 + i * 2 * Math.PI / film.nodes.length;
      this.at.set(node, [cx + rx * Math.cos(angle), cy + ry * Math.sin(angle)]);
    });
    this.room = height / (clients.length + 1);
    clients.forEach((client, i) => this.at.set(client, [50, this.room * (i + 1) - (this.room > 44 ? 10 : this.isSmall ? -5 : 4)]));
  }
  drawLinks() {
    const { film } = this;
    const pair = (one, other, isClient) => {
      const [x1, y1] = this.at.get(one), [x2, y2] = this.at.get(other), ends = { x1, y1, x2, y2 };
      const line = svg("line", { ...ends, class: "pk-link" + (isClient ? " pk-faint" : "") });
      const cross = svg("text", { x: (x1 + x2) / 2, y: (y1 + y2) / 2 + 6, class: "pk-cross", "text-anchor": "middle" }, "✕");
      this.links.append(line, cross);
      if (!isClient && this.isMain) {
        const hit = svg("line", { ...ends, class: "pk-hit", tabindex: "0", role: "button" });
        this.player.makesSelectable(hit, { type: "link", one, other }, () => `link between ${film.label.get(one)} and ${film.label.get(other)}`);
        this.links.append(hit);
      }
      this.lines.set(one + "|" + other, { line, cross, one, other });
    };
    film.clients.forEach(client => film.nodes.forEach(node => pair(client, node, true)));
    film.nodes.forEach((one, i) => film.nodes.slice(i + 1).forEach(other => pair(one, other, false)));
  }
  drawHosts() {
    const { film, radius, height } = this;
    for (const [id, label, kind] of film.hosts) {
      const [x, y] = this.at.get(id), group = svg("g", { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
      if (kind === "client") { this.drawClient(id, label, group); continue; }
      const parts = {
        halo: svg("circle", { r: radius + 15, class: "pk-halo" }),
        body: svg("circle", { r: radius, class: "pk-body" }),
        name: svg("text", { y: 0, "text-anchor": "middle", class: "pk-name" }, height < 220 || label.length > 7 ? String(id) : label),
        role: svg("text", { y: 13, "text-anchor": "middle", class: "pk-role" }),
        badges: [26, 39].map(y => svg("text", { y: radius + y, "text-anchor": "middle", class: "pk-badge" })),
        group,
      };
      group.setAttribute("class", "pk-node");
      group.append(parts.halo, parts.body, parts.name, parts.role, ...parts.badges);
      if (this.isMain) {
        set(group, { tabindex: "0", role: "button" });
        this.player.makesSelectable(group, { type: "node", node: id }, () => this.inWords(id));
      }
      this.parts.set(id, parts);
      this.hosts.append(group);
      parts.rings = this.drawRings(id, group.getAttribute("transform"), grow => ["circle", { r: radius + grow }]);
    }
  }
  drawClient(id, label, group) {
    const isTight = this.room < 34, high = isTight ? 14 : 26, box = grow => ({ x: -40 - grow, y: -high / 2 - grow, width: 80 + 2 * grow, height: high + 2 * grow, rx: high / 2 + grow });
    const said = svg("text", { y: high / 2 + 14, "text-anchor": "middle", class: "pk-role" });
    group.setAttribute("class", "pk-client");
    group.append(svg("rect", { ...box(0), class: "pk-pill" }), svg("text", { y: 4, "text-anchor": "middle" }, label), ...(this.room > 40 ? [said] : []));
    const parts = { group, said, isClient: true };
    this.parts.set(id, parts);
    this.hosts.append(group);
    parts.rings = this.drawRings(id, group.getAttribute("transform"), grow => ["rect", box(isTight ? grow / 2 - 1 : grow - 1)]);
    if (!this.isMain || !this.film.tracks.states.has(id)) return;
    set(group, { tabindex: "0", role: "button" });
    this.player.makesSelectable(group, { type: "client", node: id }, () => this.inWords(id));
  }
  drawRings(host, transform, form) {
    return this.film.ringsOf(host).map(([name, colour, kinds], i) => {
      const [tag, size] = form(5 * (i + 1)), group = svg("g", { transform, class: "pk-timer" });
      const ring = svg(tag, { ...size, pathLength: 100, class: `pk-ring pk-ring-${colour}${tag === "circle" ? " pk-round" : ""}` }), hit = svg(tag, { ...size, class: "pk-hit pk-thin" });
      group.append(ring, hit);
      const made = { group, ring, hit, kinds, name, colour };
      if (this.isMain) {
        set(hit, { tabindex: "0", role: "button" });
        this.player.makesSelectable(hit, { type: "timer", node: host, name, kinds }, () => `${name} of ${this.film.label.get(host)}`);
      }
      this.hosts.append(group);
      return made;
    });
  }
  inWords(node) {
    const state = this.film.state(node, this.player.t), label = this.film.label.get(node);
    return !state ? label : [label, state.said.replace(/^[^\w]+ /, ""), ...state.badges.map(b => b.replace("★ ", "")), ...state.details.slice(0, 1)].join(" · ");
  }
  draw(t) {
    const { film } = this, chosen = this.isMain ? this.player.selected : null, running = film.timersAt(t);
    const isChosen = (type, node) => chosen && chosen.type === type && chosen.node === node;
    for (const [host, parts] of this.parts) {
      const state = film.state(host, t);
      for (const ring of parts.rings) this.drawRing(ring, running.find(r => r[0] === host && ring.kinds.includes(r[1])), t, isChosen("timer", host) && chosen.name === ring.name);
      if (parts.isClient) {
        const isKnown = film.tracks.states.has(host);
        set(parts.group, { class: "pk-client" + (isKnown && !state ? " pk-absent" : "") + (state && !state.alive ? " pk-dead" : "") + (isChosen("client", host) ? " pk-chosen" : "") });
        const mute = film.muted(host, t);
        if (film.mutes.length && !isKnown) {
          parts.group.classList.toggle("pk-muted", Boolean(mute));
          say(parts.said, mute ? `‖ muted, ${number(mute[3] - t)} ms` : "");
          set(parts.group, { role: "img", "aria-label": `${film.label.get(host)}${mute ? `, muted by node ${mute[1]} for ${number(mute[3] - t)} ms` : ""}` });
        }
        if (state) say(parts.said, [state.alive ? state.said : "✕ gone", ...state.badges].join(" · "));
        if (this.isMain && state) set(parts.group, { "aria-label": this.inWords(host) });
        continue;
      }
      if (!state) continue;
      set(parts.group, { class: "pk-node" + (state.alive ? "" : " pk-dead") + (state.leads ? " pk-leads" : "") + (isChosen("node", host) ? " pk-chosen" : "") });
      say(parts.role, this.isSmall ? state.said[0] : state.said);
      parts.badges.forEach((badge, i) => say(badge, this.isSmall && i ? "" : state.badges[i] || ""));
      if (this.isMain) set(parts.group, { "aria-label": this.inWords(host) });
    }
    for (const { line, cross, one, other } of this.lines.values()) {
      const isCut = film.isCut(one, other, t) || film.isCut(other, one, t);
      const isChosen = chosen && chosen.type === "link" && chosen.one === one && chosen.other === other;
      set(line, { visibility: film.tracks.states.has(one) && !film.state(one, t) ? "hidden" : "visible" });
      const mute = film.muted(one, t);
      line.classList.toggle("pk-muted", Boolean(mute) && mute[1] === other); line.classList.toggle("pk-cut", isCut); line.classList.toggle("pk-chosen", Boolean(isChosen));
      set(cross, { visibility: isCut ? "visible" : "hidden" });
    }
    this.drawDots(t);
  }
  drawRing({ group, ring, hit, name, colour }, timer, t, isChosen) {
    const left = timer ? Math.max(0, Math.min(1, (timer[3] - t) / Math.max(1, timer[3] - timer[2]))) : 0;
    set(group, { visibility: timer ? "visible" : "hidden", class: "pk-timer" + (isChosen ? " pk-chosen" : "") });
    set(ring, { "stroke-dasharray": `${(left * 100).toFixed(1)} 101` });
    ring.classList.toggle("pk-short", left < 0.25);
    if (timer && this.isMain) set(hit, { "aria-label": `${name} of ${this.film.label.get(timer[0])}, ${number(Math.max(0, timer[3] - t))} ms left` });
  }
  edge(host) { return this.parts.get(host).isClient ? 44 : this.radius + 9; }
  drawDots(t) {
    const { film, player } = this, seen = new Set();
    const flying = film.flying(t, player.withBackground), lost = film.lost(t, player.withBackground);
    for (const message of [...flying, ...lost]) {
      const isLost = message.end <= t;
      const key = message.id + (isLost ? "x" : "");
      seen.add(key);
      if (!this.shown.has(key)) this.shown.set(key, this.makeDot(message, isLost));
      const from = this.at.get(message.from), to = this.at.get(message.to);
      if (!from || !to) continue;
      const dx = to[0] - from[0], dy = to[1] - from[1], long = Math.hypot(dx, dy) || 1, near = this.edge(message.from), far = this.edge(message.to);
      const way = near + (long - near - far) * progress(message, isLost ? message.end : t), side = 6;
      const x = from[0] + dx / long * way - dy / long * side, y = from[1] + dy / long * way + dx / long * side;
      this.shown.get(key).setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      message.x = x; message.y = y;
    }
    for (const [key, dot] of this.shown) if (!seen.has(key)) { dot.remove(); this.shown.delete(key); }
    const chosen = this.isMain && player.selected && player.selected.type === "message" ? player.selected.message : null;
    for (const [key, dot] of this.shown) dot.classList.toggle("pk-chosen", Boolean(chosen) && key === String(chosen.id));
    this.drawTip(player.hovered && player.hovered.stage === this ? player.hovered.message : chosen, t);
  }
  makeDot(message, isLost) {
    if (isLost) { const cross = svg("text", { class: "pk-gone", "text-anchor": "middle", dy: 5 }, "✕"); this.dots.append(cross); return cross; }
    const dot = svg("g", { class: `pk-dot pk-${message.kind}${message.isResponse ? " pk-response" : ""}${message.id < 0 ? " pk-ghost" : ""}` });
    const drawn = shape(message.kind, this.height < 220 ? 5 : 6);
    dot.append(svg("circle", { r: 12, class: "pk-hit" }), drawn);
    if (this.isMain && message.id > 0) {
      set(dot, { role: "button", tabindex: "-1", "aria-label": describe(message, this.film) });
      this.player.makesSelectable(dot, { type: "message", message }, () => describe(message, this.film));
    }
    dot.addEventListener("pointerenter", () => { this.player.hovered = { stage: this, message }; this.player.redraw(); });
    dot.addEventListener("pointerleave", () => { this.player.hovered = null; this.player.redraw(); });
    this.dots.append(dot);
    return dot;
  }
  drawTip(message, t) {
    const visible = message && message.sent <= t && t < message.end && message.x !== undefined;
    set(this.tip, { visibility: visible ? "visible" : "hidden" });
    if (!visible) return;
    const lines = [message.name + (message.isResponse ? " response" : ""), ...(message.summary ? [message.summary] : [])];
    const key = message.id + lines.join("|");
    if (this.tipKey !== key) {
      this.tipKey = key;
      this.tipWidth = Math.max(...lines.map(line => line.length)) * 6.4 + 16;
      this.tip.replaceChildren(svg("rect", { width: this.tipWidth, height: 10 + 15 * lines.length, rx: 5 }),
        ...lines.map((line, i) => svg("text", { x: 8, y: 17 + 15 * i, class: i ? "" : "pk-strong" }, line)));
    }
    const x = Math.max(2, Math.min(this.width - this.tipWidth - 2, message.x - this.tipWidth / 2));
    const y = message.y > this.height / 2 ? message.y - 22 - 15 * lines.length : message.y + 13;
    set(this.tip, { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
  }
}

// --- the lanes: one log for each replica -------------------------------------------------------------------------------

class Lanes {
  constructor(player, film, width, height, longest, isMain) {
    Object.assign(this, { player, film, width, height, longest });
    this.root = svg("svg", { class: "pk-lanes", viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
    this.isSmall = width < 460; this.left = this.isSmall ? 112 : 152; this.right = 56;
    this.row = (height - 14) / film.lanes.length;
    this.bar = Math.max(11, Math.min(30, this.row * 0.36));
    this.rows = film.lanes.map(([host, label], i) => this.makeRow(host, label, 8 + i * this.row));
    this.drawnKey = "";
  }
  x(offset) { return this.left + (this.width - this.left - this.right) * Math.max(0, offset - this.film.first) / (this.longest - this.film.first); }
  makeRow(host, label, top) {
    const y = top + this.row * 0.4, middle = y + this.bar / 2;
    const parts = {
      host, y, top,
      label: svg("text", { x: 0, y: middle - 1, class: "pk-strong" }, label),
      role: svg("text", { x: 0, y: middle + 13, class: "pk-small" }),
      ground: svg("rect", { x: this.left, y, width: this.width - this.left - this.right, height: this.bar, class: "pk-ground", rx: 2 }),
      cells: svg("g"), scar: svg("g"), marks: svg("g"), files: svg("g"),
      high: svg("path", { class: "pk-high" }),
      end: svg("text", { y: middle + 4, class: "pk-end" }),
      note: svg("text", { y: y + this.bar + 12, class: "pk-small" }),
    };
    this.root.append(parts.ground, parts.cells, parts.files, parts.scar, parts.marks, parts.high, parts.label, parts.role, parts.end, parts.note);
    return parts;
  }
  draw(t) {
    const { film } = this, scars = film.scars.filter(s => s[3] <= t), cells = film.cells.filter(c => c[4] <= t && (c[5] === null || t < c[5]));
    const logs = this.rows.map(row => film.log(row.host, t)), segments = this.rows.map(row => film.files(row.host, t));
    const gone = film.gone.filter(g => g[3] <= t);
    const key = JSON.stringify([logs, segments, gone.length, scars.length, cells.map(c => [c[0], c[1], c[3]])]);
    if (key === this.drawnKey) return;
    this.drawnKey = key;
    this.rows.forEach((row, i) => {
      if (!logs[i]) return;
      this.drawRow(row, logs[i], cells.filter(c => c[0] === row.host), scars.filter(s => s[0] === row.host));
      row.files.replaceChildren(...this.drawSegments(row, logs[i], segments[i], gone.filter(g => g[0] === row.host)));
    });
    this.root.setAttribute("aria-label", this.inWords(t));
  }
  drawRow(row, log, kinds, scars) {
    const bar = this.bar, torn = log.torn, isAlive = !log.said.startsWith("✕");
    say(row.role, this.isSmall ? log.said.replace("thinks it leads", "led") : log.said);
    set(row.ground, { class: "pk-ground" + (log.inSync ? "" : " pk-out") });
    const cells = [], first = Math.max(log.start, this.film.first);
    log.epochs.forEach(([epoch, start], n) => {
      const stop = n + 1 < log.epochs.length ? log.epochs[n + 1][1] : log.end, from = Math.max(start, first);
      for (const [a, b, isCommitted] of [[from, Math.min(stop, log.high), true], [Math.max(from, log.high), stop, false]]) {
        if (b <= a) continue;
        cells.push(svg("rect", { x: this.x(a), y: row.y, width: Math.max(0.6, this.x(b) - this.x(a)), height: bar,
          class: `pk-cell pk-epoch-${epoch % EPOCHS}${isCommitted ? "" : " pk-open"}${isAlive ? "" : " pk-dim"}` }));
        if (torn !== null && b > torn) cells.push(svg("rect", { x: this.x(Math.max(a, torn)), y: row.y, width: Math.max(0.6, this.x(b) - this.x(Math.max(a, torn))), height: bar, class: "pk-torn", fill: `url(#${this.player.hatch})` }));
      }
      if (this.x(stop) - this.x(from) > 52 && bar > 12 && !this.film.cells.length && !this.film.tracks.segments.size) cells.push(svg("text", { x: this.x(from) + 5, y: row.y + bar / 2 + 4, class: `pk-epoch pk-on-${epoch % EPOCHS}` }, "epoch " + epoch));
    });
    for (const [, a, b, kind] of kinds) if (b > first && CELLS[kind]) cells.push(...this.drawCell(row, Math.max(a, first), b, kind));
    row.cells.replaceChildren(...cells);
    const hx = this.x(log.high), below = row.y + bar;
    set(row.high, { d: `M${hx.toFixed(1)} ${(row.y - 3).toFixed(1)}V${(below + 3).toFixed(1)}m-4.5 6l4.5 -7l4.5 7z` });
    row.marks.replaceChildren(...log.marks.flatMap(([kind, offset]) => [
      svg("line", { x1: this.x(offset), x2: this.x(offset), y1: row.y - 4, y2: below + 4, class: "pk-place pk-place-" + kind }),
      svg("text", { x: this.x(offset), y: row.y - 5, "text-anchor": "middle", class: "pk-small pk-strong" }, MARK_SIGNS[kind])]));
    set(row.end, { x: this.x(log.end) + 5 }); say(row.end, number(log.end));
    const note = torn === null ? "" : this.isSmall ? `${number(log.end - torn)} not in the leader's log` : `${plural(log.end - torn, "record")} not in the leader's log`;
    set(row.note, { x: Math.max(this.left, Math.min(this.width - 190, this.x(torn === null ? 0 : torn))), class: "pk-small pk-alarm" }); say(row.note, note);
    row.scar.replaceChildren(...this.drawScars(row, scars));
  }
  drawCell(row, a, b, kind) {  // what a reader of committed records does not get, and markers
    const x = this.x(a), wide = Math.max(2, this.x(b) - x), isMarker = kind.endsWith("marker");
    const made = [svg("rect", { x, y: row.y, width: wide, height: this.bar, class: `pk-kind pk-kind-${isMarker ? "marker" : kind}` }, undefined)];
    made[0].append(svg("title", {}, `${kind}, offset ${a}${b - a > 1 ? " to " + (b - 1) : ""}`));
    if (wide > 7) made.push(svg("text", { x: x + wide / 2, y: row.y + this.bar / 2 + 4, "text-anchor": "middle", class: "pk-sign" + (isMarker ? " pk-on-marker" : "") }, CELLS[kind]));
    return made;
  }
  drawSegments(row, log, segments, gone) {  // the files of a log, and outlines of those that were deleted
    const first = this.film.first, made = [];
    const frame = (a, b, kind, title) => {
      const x = this.x(Math.max(a, first)), wide = Math.max(2, this.x(b) - x - 2), rect = svg("rect", { x: x + 1, y: row.y - 2, width: wide, height: this.bar + 4, rx: 2, class: "pk-segment pk-segment-" + kind });
      rect.append(svg("title", {}, title)); made.push(rect);
      return [x + 1 + wide / 2, wide];
    };
    for (const [, a, b, , what] of gone) if (b > first && what === "deleted") frame(a, b, what, `offsets ${a} to ${b - 1}: deleted`);
    segments.forEach(([base, bytes, state], i) => {
      const [middle, wide] = frame(base, i + 1 < segments.length ? segments[i + 1][0] : log.end, state, `${state} segment from offset ${base}: ${number(bytes)} bytes`);
      if (wide > 9 && state === "clean") made.push(svg("text", { x: middle, y: row.y - 5, "text-anchor": "middle", class: "pk-small" }, "✓"));
      if (wide > 30 && state !== "active" && this.row >= 64) made.push(svg("text", { x: middle, y: row.y + this.bar + 14, "text-anchor": "middle", class: "pk-small" }, number(bytes)));
    });
    return made;
  }
  drawScars(row, scars) {
    const isTight = this.row < 64, high = Math.max(5, this.bar * 0.4), y = isTight ? row.y + this.bar + 2 : row.y - high - 3;
    const made = scars.flatMap(([, first, end, , acknowledged, why]) => {
      const x = this.x(first), text = this.isSmall ? `${number(acknowledged || end - first)} ${acknowledged ? "acknowledged, gone" : "gone"}`
        : acknowledged ? `${plural(acknowledged, "acknowledged record")} ${acknowledged === 1 ? "was" : "were"} here` : `${plural(end - first, "record")} ${why}`;
      const strip = svg("rect", { x, y, width: Math.max(3, this.x(end) - x), height: high, class: "pk-scar" + (acknowledged ? "" : " pk-mild") });
      return isTight ? [strip] : [strip, svg("text", { x: Math.max(0, Math.min(this.width - 6.8 * text.length, x)), y: y - 4, class: "pk-small" + (acknowledged ? " pk-alarm" : "") }, text)];
    });
    const gone = scars.reduce((sum, s) => sum + s[4], 0);  // where rows are near each other there is room for words at the right end only
    return isTight && gone ? [...made, svg("text", { x: this.width, y: y + high + 2, "text-anchor": "end", class: "pk-small pk-alarm pk-scar-sum" }, number(gone) + " gone")] : made;
  }
  inWords(t) {
    return this.film.lanes.map(([host, label]) => {
      const log = this.film.log(host, t);
      return log ? [`${label} ${log.said.replace(/^[^\w]+ /, "")}`, `log end ${log.end}`, `high watermark ${log.high}`, ...log.marks.map(([kind, offset]) => `${kind} ${offset}`), ...this.film.files(host, t).map(([base, , state]) => `${state} segment from ${base}`)].join(", ") : label;
    }).join("; ");
  }
}

// --- the player --------------------------------------------------------------------------------------------------------

let count = 0;

class Player {
  constructor(root, host) {
    Object.assign(this, { root, host, selected: null, hovered: null, withBackground: false, playing: false, frames: 0 });
    this.hatch = "pk-hatch-" + ++count;
    this.reduced = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    root.classList.add("pk-player");
    set(root, { tabindex: "0", role: "application", "aria-label": "Player of a history of a cluster", "data-lm-suppress-shortcuts": "true", "data-jp-suppress-context-menu": "true" });
    this.build();
    root.addEventListener("keydown", event => this.onKey(event));
    root.addEventListener("contextmenu", event => event.preventDefault());
    host.onChange(() => this.load());
    this.load();
    this.watch = new ResizeObserver(() => this.layout());
    this.watch.observe(root);
    this.tick = this.tick.bind(this);
    if (!this.reduced) this.start();
    requestAnimationFrame(this.tick);
  }
  build() {
    const button = (label, key, call, more = {}) => {
      const made = el("button", { type: "button", title: `${label} (${key})`, ...more }, label);
      made.addEventListener("click", () => { call(); });
      return made;
    };
    this.title = el("h3"); this.tally = el("p", { class: "pk-tally" });
    this.stages = el("div", { class: "pk-stages" });
    this.axis = svg("svg", { class: "pk-axis", height: 62, role: "img", "aria-label": "What happened, on an axis of milliseconds" });
    this.seek = el("input", { type: "range", class: "pk-seek", "aria-label": "virtual time", step: "any" });
    this.seek.addEventListener("input", () => { this.stop(); this.go(Number(this.seek.value)); });
    this.playButton = button("▶ play", "space", () => this.toggle(), { class: "pk-play" });
    this.speed = el("input", { type: "range", min: SLOWEST, max: FASTEST, step: "0.05", "aria-label": "speed" });
    this.speed.addEventListener("input", () => this.saySpeed());
    this.speedText = el("output", { class: "pk-speed" });
    this.clock = el("output", { class: "pk-clock" });
    this.background = el("input", { type: "checkbox" });
    this.background.addEventListener("change", () => { this.withBackground = this.background.checked; this.drawLegend(); this.redraw(); });
    this.nextMoment = button("next ➊", ".", () => this.toMoment());
    this.undo = button("↶ undo", "z", () => this.act("undo"));
    this.more = button("+2 s", "g", () => this.act("more"));
    this.linkButton = button("link", "i", () => { this.linkBox.hidden = !this.linkBox.hidden; if (!this.linkBox.hidden) this.linkText.select(); });
    this.controls = el("div", { class: "pk-controls" },
      button("◀", "←", () => this.step(-1), { "aria-label": "step back" }), this.playButton, button("▶|", "→", () => this.step(1), { "aria-label": "step" }), this.nextMoment,
      this.clock, el("label", { class: "pk-row" }, "speed ", this.speed, this.speedText),
      el("label", { class: "pk-row" }, this.background, " background traffic"), el("span", { class: "pk-gap" }), this.undo, this.more, this.linkButton);
    this.chosen = el("p", { class: "pk-what" }); this.acts = el("div", { class: "pk-acts" });
    this.said = el("p", { class: "pk-said", role: "status", "aria-live": "polite" });
    this.outcomes = el("div", { class: "pk-outcomes" });
    this.detail = el("div", { class: "pk-detail", hidden: true });
    this.linkText = el("input", { type: "text", spellcheck: false, "aria-label": "this history as one line of text" });
    this.linkBox = el("div", { class: "pk-linkbox", hidden: true }, el("label", {}, "This history as one line of text ", this.linkText),
      button("replay", "Enter", () => this.act("replay " + this.linkText.value.trim())));
    this.linkText.addEventListener("keydown", event => { event.stopPropagation(); if (event.key === "Enter") this.act("replay " + this.linkText.value.trim()); if (event.key === "Escape") this.linkBox.hidden = true; });
    this.legend = el("div", { class: "pk-legend" });
    this.words = el("p", { class: "pk-hidden", "aria-live": "polite" });
    this.root.replaceChildren(
      el("div", { class: "pk-head" }, this.title, this.tally), this.stages, this.detail, this.legend,
      el("div", { class: "pk-time" }, this.axis, this.seek), this.controls,
      el("div", { class: "pk-acting" }, this.chosen, this.acts), this.said, this.outcomes, this.linkBox, this.words);
    this.speed.value = -0.7;
  }
  load() {
    const data = this.host.data(), isFirst = !this.film;
    this.data = data;
    this.film = new Film(data.film);
    this.before = data.before ? new Film(data.before) : null;
    this.selected = null; this.hovered = null; this.detail.hidden = true;
    say(this.title, data.title);
    this.linkText.value = data.link;
    if (isFirst) { this.t = data.open; this.speed.value = Math.log10(data.speed); this.saySpeed(); }
    else if (data.fork !== null && data.fork !== undefined) { this.t = Math.max(this.film.from, data.fork - 1); if (!this.reduced) this.start(); }
    else this.t = Math.min(this.t, this.film.to);
    this.seek.min = this.film.from; this.seek.max = this.film.to;
    this.undo.disabled = !this.before; this.nextMoment.hidden = !(data.moments || []).length;
    this.answer = data.said || "";
    this.drawLegend(); this.drawOutcomes(); this.layout(true);
  }
  drawLegend() {
    const kinds = [...new Set(this.film.messages.map(m => m.kind))].filter(kind => kind !== "background" || this.withBackground);
    const parts = kinds.sort().map(kind => {
      const mark = svg("svg", { width: 16, height: 14, viewBox: "-8 -7 16 14", "aria-hidden": "true" }), dot = svg("g", { class: `pk-dot pk-${kind}` });
      dot.append(shape(kind, 5)); mark.append(dot);
      return el("span", {}, mark, NAMES[kind] || kind);
    });
    this.legend.replaceChildren(...parts, el("span", {}, "filled: request, hollow: response"), ...this.film.rings.map(([name, colour]) => el("span", { class: "pk-key-" + colour }, "◠ " + name)),
      el("span", {}, "▲ high watermark"), ...(this.film.mutes.length ? [el("span", {}, "‖ muted: the broker does not read")] : []), ...this.film.legend.map(([kind, words]) => el("span", {}, `${MARK_SIGNS[kind]} ${words}`)),
      ...(this.film.tracks.segments.size ? [el("span", {}, "▭ segment, its bytes below · ┄ active · ✓ compacted · ⋯ deleted")] : this.film.cells.length ? [el("span", {}, "○ open · ✕ aborted · C, A marker")] : []));
  }
  drawOutcomes() {
    const outcomes = this.data.outcomes || [];
    this.outcomes.hidden = !outcomes.length;
    this.outcomes.replaceChildren(...(outcomes.length ? [el("span", {}, "What if")] : []), ...outcomes.map(outcome => {
      const made = el("button", { type: "button", "aria-pressed": String(outcome.link === this.data.link) }, outcome.label);
      made.addEventListener("click", () => this.host.show(outcome));
      return made;
    }));
  }
  layout(isNew) {
    const style = getComputedStyle(this.root);
    const width = Math.floor(this.root.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
    if (width < 40 || (!isNew && width === this.width)) return;
    this.width = width;
    const isNarrow = width < 760, films = this.before ? [this.film, this.before] : [this.film];
    this.root.classList.toggle("pk-narrow", isNarrow);
    const height = isNarrow ? (this.before ? 190 : 240) : Math.floor(300 / films.length) - (this.before ? 9 : 0);
    const left = isNarrow ? width : Math.floor(width * 0.45), right = isNarrow ? width : width - left - 16;
    const longest = Math.max(...films.map(f => f.longest));
    this.views = films.map((film, i) => {
      const stage = new Stage(this, film, left, height, i === 0), lanes = new Lanes(this, film, right, isNarrow ? Math.min(height, 180) : height, longest);
      return { stage, lanes, film };
    });
    const defs = svg("svg", { width: 0, height: 0, class: "pk-defs", "aria-hidden": "true" });
    const pattern = svg("pattern", { id: this.hatch, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
    pattern.append(svg("rect", { width: 2.2, height: 6, class: "pk-stroke" })); defs.append(pattern);
    this.heads = films.map(() => el("h4"));
    this.stages.replaceChildren(defs, ...this.views.map(({ stage, lanes, film }, i) => el("div", { class: "pk-branch" },
      ...(this.before ? [this.heads[i]] : []), stage.root, lanes.root)));
    this.drawAxis();
    this.redraw();
  }
  x(t) { return 8 + (this.width - 16) * (t - this.film.from) / (this.film.to - this.film.from); }
  drawAxis() {
    const { axis, film, before, data } = this, parts = [], width = this.width;
    set(axis, { viewBox: `0 0 ${width} 62`, width });
    const films = before ? [film, before] : [film], rowHeight = before ? 13 : 22;
    const most = Math.max(1, ...films.flatMap(f => f.losses.map(l => l[1] - l[2])));
    const spacing = [50, 100, 250, 500, 1000, 2000, 5000].find(s => (width - 16) * s / (film.to - film.from) > 64) || 10000;
    for (let ms = Math.ceil(film.from / spacing) * spacing; ms <= film.to; ms += spacing)
      parts.push(svg("line", { x1: this.x(ms), x2: this.x(ms), y1: 40, y2: 45, class: "pk-tick" }), ...(this.x(ms) < width - 26 ? [svg("text", { x: this.x(ms), y: 58, "text-anchor": "middle", class: "pk-small" }, number(ms))] : []));
    parts.push(svg("line", { x1: 8, x2: width - 8, y1: 42, y2: 42, class: "pk-tick" }));
    let gone = "";
    for (const [ms, acknowledged, surviving] of film.losses) {
      if (!gone && acknowledged === surviving) continue;
      const y = 42 - 26 * (acknowledged - surviving) / most, x = this.x(Math.max(film.from, Math.min(film.to, ms)));
      gone += gone ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} 42V${y.toFixed(1)}`;
    }
    if (gone && !film.figures.length) parts.push(svg("path", { d: gone + `H${this.x(film.to)}V42z`, class: "pk-lossarea" }));
    films.forEach((each, i) => {
      const y = before ? 8 + i * rowHeight : 12, marks = this.marksOf(each);
      marks.forEach(([ms, kind, text], n) => {
        const x = this.x(ms), mark = svg("g", { class: "pk-mark pk-mark-" + kind });
        mark.append(svg("line", { x1: x, x2: x, y1: y, y2: 42 }), svg("circle", { cx: x, cy: y, r: 4 }), svg("title", {}, `${number(ms)} ms: ${text}`));
        const word = kind === "fault" ? (FAULTS.find(([part]) => text.includes(part)) || ["", kind])[1] : kind === "isr" ? "ISR" : kind === "client" ? text.split(" ").pop().replace(/^while$/, "paused") : kind === "transaction" ? text.split(" ")[3] : kind === "segment" ? text.split(" ")[2] : kind, room = word.length * 6.6 + 12;
        const next = n + 1 < marks.length ? this.x(marks[n + 1][0]) - 5 : width;
        if (x + room < next) mark.append(svg("text", { x: x + 7, y: y + 4, class: "pk-small" }, word));
        parts.push(mark);
      });
    });
    if (before && data.fork != null) parts.push(svg("line", { x1: this.x(data.fork), x2: this.x(data.fork), y1: 0, y2: 46, class: "pk-fork" }));
    if (before && data.difference) {
      const x = this.x(data.difference[0]), isLate = x > width - 130;
      parts.push(svg("text", { x: isLate ? x - 4 : x + 4, y: 38, class: "pk-small pk-strong", "text-anchor": isLate ? "end" : "start" }, "first difference"), svg("line", { x1: x, x2: x, y1: 0, y2: 46, class: "pk-difference" }));
    }
    (data.moments || []).forEach(([ms], i) => parts.push(svg("text", { x: this.x(ms), y: 47, "text-anchor": "middle", class: "pk-moment" }, String.fromCharCode(0x278a + i))));
    this.head = svg("line", { y1: 0, y2: 48, class: "pk-playhead" });
    axis.replaceChildren(...parts, this.head);
  }
  marksOf(film) {  // of those at one moment the one that says most
    const found = [];
    for (const mark of film.marks) {
      if (mark[0] < film.from || mark[0] > film.to) continue;
      const last = found[found.length - 1];
      if (!last || mark[0] - last[0] > 1) found.push(mark);
      else if (RANKS.indexOf(mark[1]) < RANKS.indexOf(last[1])) found[found.length - 1] = mark;
    }
    return found;
  }
  // --- time ---
  tick(now) {
    if (!this.root.isConnected && this.frames > 60) return this.watch.disconnect();
    if (this.playing && this.last !== undefined) {
      this.t += Math.min(100, now - this.last) * this.rate;
      if (this.t >= this.film.to) { this.t = this.film.to; this.stop(); }
      this.redraw();
    }
    this.last = now; this.frames += 1;
    requestAnimationFrame(this.tick);
  }
  get rate() { return 10 ** Number(this.speed.value); }
  saySpeed() {
    const rate = this.rate;
    say(this.speedText, rate >= 0.95 ? Math.round(rate * 10) / 10 + " ×" : "1/" + Math.round(1 / rate) + " ×");
  }
  start() { this.playing = true; this.answer = ""; this.last = undefined; if (this.t >= this.film.to) this.t = this.data.open; say(this.playButton, "❚❚ pause"); set(this.playButton, { "aria-pressed": "true" }); }
  stop() { this.playing = false; say(this.playButton, "▶ play"); set(this.playButton, { "aria-pressed": "false" }); this.redraw(); say(this.words, this.inWords()); }
  toggle() { this.playing ? this.stop() : this.start(); }
  go(t) { this.t = Math.max(this.film.from, Math.min(this.film.to, t)); this.redraw(); }
  step(direction) {
    this.stop();
    const times = this.film.times(this.withBackground);
    const next = direction > 0 ? times.find(t => t > this.t + 1e-6) : times.reverse().find(t => t < this.t - 1e-6);
    if (next !== undefined) this.go(next);
    say(this.words, this.inWords());
  }
  toMoment() {  // the next one, and after the last the first one
    const moments = this.data.moments, at = moments.findIndex(([ms]) => ms > this.t + 1e-3), n = Math.max(0, at);
    this.stop(); this.answer = `${number(moments[n][0])} ms: ${moments[n][1]}.`; this.go(moments[n][0]);
    say(this.nextMoment, "next " + String.fromCharCode(0x278a + (n + 1) % moments.length));
    say(this.words, this.inWords());
  }
  redraw() {
    if (!this.views) return;
    const t = this.t, tally = this.film.tally(t);
    for (const { stage, lanes } of this.views) { stage.draw(t); lanes.draw(t); }
    set(this.head, { x1: this.x(t), x2: this.x(t) });
    this.seek.value = t;
    this.seek.setAttribute("aria-valuetext", number(t) + " ms");
    say(this.clock, t.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 }) + " ms");
    const figure = this.film.figure(t), key = JSON.stringify(figure || tally);
    if (this.tallyKey !== key && figure) {
      this.tallyKey = key;
      this.tally.replaceChildren(el("span", { class: "pk-digits" }, figure[1]), figure[2] ? " · " : "", el("b", {}, figure[2]));
      this.tally.classList.toggle("pk-alarm", Boolean(figure[2]));
    } else if (this.tallyKey !== key) {
      this.tallyKey = key;
      const digits = value => el("span", { class: "pk-digits" }, number(value));
      this.tally.replaceChildren("acknowledged ", digits(tally.acknowledged), " · surviving ", digits(tally.surviving), " · ",
        tally.gone ? el("b", {}, `${number(tally.gone)} acknowledged record${tally.gone === 1 ? " is" : "s are"} gone`) : el("span", { class: "pk-whole" }, "no acknowledged record is lost"));
      this.tally.classList.toggle("pk-alarm", tally.gone > 0);
    }
    if (this.before) {
      const old = this.before.tally(t);
      say(this.heads[0], this.data.branch || "your branch");
      const was = this.before.figure(t);
      say(this.heads[1], was ? `before: ${was[1]}${was[2] ? " · " + was[2] : ""}` : `before: acknowledged ${number(old.acknowledged)} · surviving ${number(old.surviving)} · ${number(old.gone)} gone`);
    }
    const mark = this.film.marks.filter(m => m[0] <= t).pop();
    const law = this.film.failure && t >= this.film.to ? "A law is broken: " + this.film.failure : "";
    say(this.said, this.answer || law || (mark ? `${number(mark[0])} ms: ${mark[2]}.` : this.data.about));
    if (this.selected && this.selected.type === "message" && !(this.selected.message.sent <= t && t < this.selected.message.end)) this.select(null);
    this.drawChosen();
  }
  inWords() {
    const flying = this.film.flying(this.t, this.withBackground), tally = this.film.tally(this.t);
    return `At ${number(this.t)} ms: ${this.views[0].lanes.inWords(this.t)}. ${plural(flying.length, "message")} on the way. `
      + (this.film.figures.length ? this.tally.textContent + "." : `${number(tally.acknowledged)} acknowledged, ${number(tally.surviving)} surviving, ${number(tally.gone)} gone.`);
  }
  // --- choosing and acting ---
  makesSelectable(node, what, words) {
    const choose = () => { if (what.type === "message") this.stop(); this.answer = ""; this.select(what); };
    node.addEventListener("click", event => { event.stopPropagation(); choose(); });
    node.addEventListener("focus", () => { if (what.type !== "message") { this.answer = ""; this.select(what); } });
    node.addEventListener("contextmenu", event => { event.preventDefault(); choose(); const first = this.choices().find(c => !c.later); if (first) first.call(); });
    if (!node.hasAttribute("aria-label")) node.setAttribute("aria-label", words());
  }
  select(what) { this.selected = what; this.chosenKey = undefined; if (!what || what.type !== "node") this.detail.hidden = true; this.redraw(); }
  next(type) {
    const { film, t } = this;
    const items = type === "message" ? film.flying(t, this.withBackground).filter(m => m.id > 0).map(message => ({ type, message }))
      : type === "timer" ? film.timersAt(t).flatMap(([node, kind]) => film.rings.filter(r => r[2].includes(kind)).map(([name, , kinds]) => ({ type, node, name, kinds })))
      : [...film.nodes.map(node => ({ type, node })), ...film.clients.filter(c => film.state(c, t)).map(node => ({ type: "client", node }))];
    if (!items.length) return;
    if (type === "message") this.stop();
    const id = what => what && items.some(item => item.type === what.type) && (type === "message" ? what.message.id : what.node + "|" + (what.name || ""));
    const at = items.findIndex(item => id(item) === id(this.selected));
    this.answer = "";
    this.select(items[(at + 1) % items.length]);
    say(this.words, this.chosen.textContent);
  }
  choices() {
    const what = this.selected, t = this.t, film = this.film;
    const choice = (label, key, words) => ({ label, key, call: () => this.act(words) });
    if (!what) return [];
    if (what.type === "message") {
      const { message } = what, id = message.id;
      return [choice("drop", "d", `drop ${id}`), choice("delay 200 ms", "l", `delay ${id} 200`), ...(message.isResponse ? [] : [choice("duplicate", "u", `duplicate ${id} 200`)])];
    }
    if (what.type === "link") {
      const isCut = film.isCut(what.one, what.other, t) || film.isCut(what.other, what.one, t);
      return [isCut ? choice("heal", "h", `heal ${what.one} ${what.other}`) : choice("cut", "c", `cut ${what.one} ${what.other}`)];
    }
    if (what.type === "timer") {
      const timer = film.timersAt(t).find(r => r[0] === what.node && what.kinds.includes(r[1]));
      return timer ? [choice("fire now", "f", `fire ${what.node} ${timer[1]}`)] : [];
    }
    const state = film.state(what.node, t), others = film.nodes.filter(n => n !== what.node), isNode = what.type === "node";
    const keyOf = kind => (film.rings.find(ring => ring[2].includes(kind)) || [])[3] || "f";
    const cut = others.filter(o => film.isCut(what.node, o, t) || film.isCut(o, what.node, t));
    const timers = state && (state.alive || !isNode) ? film.timersAt(t).filter(r => r[0] === what.node) : [];
    return [
      ...(!isNode ? [] : [state && state.alive ? choice("kill", "k", `kill ${what.node}`) : choice("restart", "r", `restart ${what.node}`)]),
      ...(cut.length < others.length ? [choice("cut off", "c", `cut ${what.node}`)] : []), ...(cut.length ? [choice("heal", "h", `heal ${what.node}`)] : []),
      ...timers.map(r => choice(`${r[1]} timer: fire now`, keyOf(r[1]), `fire ${what.node} ${r[1]}`)),
      ...(!isNode ? [] : [{ label: "details", key: "q", later: true, call: () => { this.detail.hidden = !this.detail.hidden; this.redraw(); } }]),
    ];
  }
  timerInWords({ name, node, kinds }) {
    const timer = this.film.timersAt(this.t).find(r => r[0] === node && kinds.includes(r[1])), of = `${name} of ${this.film.label.get(node)}`;
    return timer ? `${of}: runs out in ${number(Math.max(0, timer[3] - this.t))} ms, if nothing is heard` : `${of} does not run now`;
  }
  drawChosen() {
    const what = this.selected, choices = this.choices(), key = JSON.stringify([choices.map(c => c.label), what && (what.type + (what.name || "")), what && (what.node || what.one + "|" + what.other || 0), what && what.message && what.message.id]);
    const text = !what ? "Select a message, a node, a link or a ring: then you can act on it." : what.type === "message" ? describe(what.message, this.film)
      : what.type === "link" ? `link between ${this.film.label.get(what.one)} and ${this.film.label.get(what.other)}` : what.type === "timer" ? this.timerInWords(what) : this.views[0].stage.inWords(what.node);
    say(this.chosen, text);
    if (what && what.type === "node" && !this.detail.hidden) {
      const state = this.film.state(what.node, this.t);
      const [x, y] = this.views[0].stage.at.get(what.node), isLeft = x < this.views[0].stage.width / 2;
      Object.assign(this.detail.style, { left: Math.max(0, Math.min(this.width - 290, isLeft ? x + 48 : x - 330)) + "px", top: Math.max(28, y - 20) + "px" });
      say(this.detail, [`node ${what.node}`, ...(state ? state.details : [])].join("\n"));
    }
    if (this.chosenKey === key) return;
    this.chosenKey = key;
    this.acts.replaceChildren(...choices.map(choice => {
      const made = el("button", { type: "button" }, choice.label + " ", el("kbd", {}, choice.key));
      made.addEventListener("click", () => { choice.call(); this.root.focus({ preventScroll: true }); });
      return made;
    }));
  }
  act(words) {
    this.answer = "";
    if (words !== "more") this.stop();
    say(this.said, "…");
    this.host.act(words, this.t, answer => { this.answer = answer; this.redraw(); });
  }
  onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target === this.linkText) return;
    const isButton = event.target.tagName === "BUTTON" || event.target.type === "checkbox";
    const keys = {
      " ": isButton ? null : () => this.toggle(), ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), Home: () => this.go(this.film.from), End: () => this.go(this.film.to),
      m: () => this.next("message"), n: () => this.next("node"), o: () => this.next("timer"), ".": () => this.nextMoment.hidden || this.toMoment(), b: () => this.background.click(), z: () => this.undo.disabled || this.act("undo"), g: () => this.act("more"),
      i: () => this.linkButton.click(), Escape: () => this.select(null),
      "+": () => { this.speed.value = Number(this.speed.value) + 0.15; this.saySpeed(); }, "-": () => { this.speed.value = Number(this.speed.value) - 0.15; this.saySpeed(); },
      Enter: isButton ? null : () => { const first = this.choices()[0]; if (first && this.acts.firstChild) this.acts.firstChild.focus(); },
    };
    const chosen = this.choices().find(choice => choice.key === event.key);
    const call = event.target === this.speed && event.key.startsWith("Arrow") ? null : chosen ? chosen.call : keys[event.key];
    if (!call) return;
    event.preventDefault(); event.stopPropagation();
    call();
  }
}

export function play(root, host) { return root.player = new Player(root, host); }

// --- a notebook --------------------------------------------------------------------------------------------------------

function render({ model, el: root }) {
  const inner = document.createElement("div");
  root.append(inner);
  let answer = () => {};
  model.on("msg:custom", message => { if (message.said) answer(message.said); });
  play(inner, {
    data: () => model.get("data"),
    act: (words, ms, done) => { answer = done; model.send({ act: words, ms }); },
    show: () => {},
    onChange: call => model.on("change:data", call),
  });
}

export default { render };

// --- a page of its own -------------------------------------------------------------------------------------------------

export function page(root, recorded) {
  let data = recorded.main, change = () => {};
  const outcomes = recorded.outcomes;
  const show = outcome => {
    data = outcome === recorded.main || outcome.link === data.link ? recorded.main : { ...recorded.main, ...outcome, before: recorded.main.film };
    if (outcome !== recorded.main || location.hash) history.replaceState(null, "", "#" + data.link);
    change();
  };
  const replay = (link, done) => {
    const [name, version] = link.split("/"), known = [recorded.main, ...outcomes].find(each => each.link === link);
    if (known) { if (known !== data) show(known); return; }
    if (name !== "pykraft") done(`${link || "An empty line"} is no history: it begins with pykraft/.`);
    else if (version !== recorded.version) done(`This history is of pykraft ${version}, and this page is of ${recorded.version}: the same steps may be others there.`);
    else done(`To replay this history you need Python: pykraft simulate --replay ${link}`);
  };
  const host = {
    data: () => ({ ...data, outcomes }),
    show,
    onChange: call => { change = call; },
    act: (words, ms, done) => {
      if (words === "undo") return show(recorded.main);
      if (words.startsWith("replay ")) return replay(words.slice(7), done);
      const found = data === recorded.main && outcomes.find(each => each.act === words && each.since <= ms && ms < each.until);
      if (found) return show(found);
      done(`“${words}” needs Python: open notebook 00 in JupyterLab. Recorded on this page are: ${outcomes.map(each => each.label).join("; ")}.`);
    },
  };
  const asked = decodeURIComponent(location.hash.slice(1));
  const player = play(root, host);
  document.addEventListener("keydown", event => { if (event.target === document.body) player.onKey(event); });
  if (asked) replay(asked, answer => { player.answer = answer; player.redraw(); });
  return player;
}
