// The console of a person on call: draws what the kernel says of an incident, and says what the reader types.
//
// All that happens, happens in the kernel: this knows no Kafka. Every few seconds it says that the page is open, for the
// incident's time passes only while somebody looks.

const HERE_MS = 4000;
const number = value => Math.round(value).toLocaleString("en");

function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) key in made && typeof value !== "string" ? made[key] = value : made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function say(node, text) { if (node.textContent !== text) node.textContent = text; }

function sparkline(points) {
  const most = Math.max(1, ...points), last = Math.max(1, points.length - 1);
  const at = points.map((value, i) => (100 * i / last).toFixed(1) + "," + (20 - 18 * value / most).toFixed(1)).join(" ");
  return `<svg viewBox="0 0 100 22" preserveAspectRatio="none" aria-hidden="true"><polyline points="${at}"/></svg>`;
}

class Counters {
  constructor(root) { this.root = root; this.tiles = []; }
  draw(counters) {
    while (this.tiles.length < counters.length) {
      const tile = { box: el("div", { class: "pk-counter" }), label: el("span"), value: el("b"), more: el("span", { class: "pk-more" }), line: el("div") };
      const row = el("div", {}, tile.value, tile.more);
      tile.more.style.display = "inline";
      tile.box.append(tile.label, row, tile.line);
      this.root.append(tile.box);
      this.tiles.push(tile);
    }
    counters.forEach((each, i) => {
      const tile = this.tiles[i];
      tile.box.classList.toggle("pk-harm", each.warns);
      say(tile.label, (each.warns ? "▲ " : "") + each.label);
      say(tile.value, number(each.value) + each.unit);
      say(tile.more, each.more);
      const drawn = sparkline(each.points);
      if (tile.drawn !== drawn) tile.line.innerHTML = tile.drawn = drawn;
    });
  }
}

// A row of a table has two gaps or more: it stays one line, and the terminal is scrolled sideways. Sentences are wrapped.
function isRow(line) { return (line.trim().match(/\t| {2,}/g) || []).length > 1; }

class Terminal {
  constructor(send) {
    this.send = send;
    this.lines = el("div", { class: "pk-lines", role: "log", "aria-label": "terminal output", tabindex: "0" });
    this.input = el("input", { type: "text", spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-label": "command" });
    const prompt = el("div", { class: "pk-prompt" }, el("label", {}, "oncall $"), this.input);
    this.root = el("div", { class: "pk-terminal" }, this.lines, prompt);
    this.count = -1; this.asked = 0;
    this.typed = []; this.place = 0;
    this.input.addEventListener("keydown", event => this.onKey(event));
  }
  onKey(event) {
    event.stopPropagation(); // JupyterLab has shortcuts of its own
    if (event.key === "Enter" && this.input.value.trim()) this.enter(this.input.value.trim());
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      this.place = Math.max(0, Math.min(this.typed.length, this.place + (event.key === "ArrowUp" ? -1 : 1)));
      this.input.value = this.typed[this.place] || "";
      event.preventDefault();
    }
  }
  enter(line) {
    this.typed.push(line); this.place = this.typed.length;
    this.input.value = "";
    this.send({ do: "enter", line });
  }
  draw(lines, begun, over) {
    this.input.disabled = !begun || over;
    this.input.placeholder = over ? "the incident is over" : begun ? "kafka-topics --describe …   (help lists all)" : "acknowledge the page first";
    if (lines.length === this.count) return;
    this.count = lines.length;
    this.lines.textContent = "";
    if (!lines.length) this.lines.append(el("div", { class: "pk-hint" }, "Type Kafka's commands here; --bootstrap-server may be left out. `help` lists what there is."));
    for (const [kind, text, at] of lines) {
      if (kind === "answer") { if (text) this.lines.append(this.answer(text)); continue; }
      this.lines.append(el("div", { class: "pk-" + kind }, at.padStart(5) + (kind === "typed" ? " $ " : " ▲ ") + text));
    }
    this.scroll();
  }
  answer(text) {
    const lines = text.replace(/^\n+/, "").split("\n").map(line => el("div", { class: isRow(line) ? "pk-row" : "" }, line));
    return el("div", { class: "pk-answer" }, ...lines);
  }
  // The end is shown. Of a new answer that is too long for that, its beginning is.
  scroll() {
    const typed = this.lines.querySelectorAll(".pk-typed"), last = typed[typed.length - 1], end = this.lines.scrollHeight;
    const above = last && typed.length > this.asked ? last.getBoundingClientRect().top - this.lines.firstChild.getBoundingClientRect().top : end;
    this.asked = typed.length;
    this.lines.scrollTop = Math.min(above, end);
  }
}

function render({ model, el: root }) {
  const send = said => model.send(said);
  const heading = el("h3"), words = el("p"), time = el("b");
  const take = el("button", { class: "pk-take" }, "Acknowledge");
  const clock = el("div", { class: "pk-time" }, time, el("span", {}, "since the page"));
  const pager = el("div", { class: "pk-pager", role: "alert" }, el("div", { class: "pk-words" }, heading, words), clock, take);
  const counters = el("div", { class: "pk-counters" }), tiles = new Counters(counters);
  const board = el("div", { class: "pk-board" });
  const terminal = new Terminal(send);
  const hands = el("div", { class: "pk-hands" }, el("span", {}, "By hand:"));
  const link = el("code"), copy = el("button", {}, "Copy link");
  const end = el("div", { class: "pk-end" }, el("span", {}, "This shift, to be replayed:"), link, copy);
  root.append(el("div", { class: "pk-call" }, pager, counters, board, terminal.root, hands, end));
  take.addEventListener("click", () => { send({ do: "begin" }); setTimeout(() => terminal.input.focus(), 300); });
  copy.addEventListener("click", () => navigator.clipboard?.writeText(link.textContent).then(() => say(copy, "Copied")));
  let verbs = "", drawn = "";

  function draw() {
    const data = model.get("data"), over = data.state !== "open";
    say(heading, over ? data.verdict : "Incident " + data.number + ": " + data.title);
    say(words, over ? "What happened, and what each repair costs: run the cell shift.debrief() below." : data.pager);
    say(time, data.clock);
    take.hidden = data.begun;
    clock.hidden = !data.begun;
    pager.classList.toggle("pk-solved", data.state === "solved");
    tiles.draw(data.counters);
    if (drawn !== data.board) board.innerHTML = drawn = data.board;
    terminal.draw(data.lines, data.begun, over);
    if (verbs !== data.verbs.join()) {
      verbs = data.verbs.join();
      for (const usage of data.verbs) {
        const button = el("button", {}, usage);
        button.addEventListener("click", () => {
          terminal.input.value = usage.replace(/[A-Z]+(=[A-Z]+)?$/, ""); // without the word that the reader is to say
          terminal.input.focus();
        });
        hands.append(button);
      }
    }
    hands.hidden = over || !data.begun;
    end.hidden = !data.link;
    say(link, data.link);
  }

  model.on("change:data", draw);
  draw();
  const beat = setInterval(() => { if (root.isConnected && !document.hidden) send({ do: "here" }); }, HERE_MS);
  return () => { clearInterval(beat); model.off("change:data", draw); };
}

export default { render };
