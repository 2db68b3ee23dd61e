// The page's questions. Choices lead to answers that answers.js holds under their commands; nothing is computed here.
(() => {
  "use strict";
  const { grids, lights, answers } = window.lightloom;
  const WORDS = { plan: ["Model", "Cluster"], collective: ["Collective", "Fabric"] };
  const UNITS = /^([\d.]+)(Gbps|Tbps|ns|us|ms|KB|MB)$/;
  const SPELLED = { Gbps: "Gb/s", Tbps: "Tb/s", us: "µs", KB: "kB" };

  // An element with its attributes and children; texts are never read as HTML.
  function make(name, attributes = {}, ...children) {
    const element = name === "svg" || make.inSvg.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(key, value);
      else if (value !== false) element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }
  make.inSvg = new Set(["rect", "text", "title", "g"]);

  function spelled(level) {
    const found = UNITS.exec(level);
    return found ? `${found[1]} ${SPELLED[found[2]] ?? found[2]}` : level;
  }

  function select(name, values, chosen, change) {
    const options = values.map((value) => make("option", { value, selected: value === chosen }, value));
    return make("label", {}, name, make("select", { change: (event) => change(event.target.value) }, ...options));
  }

  function ask(root) {
    const kind = root.dataset.command;
    const offered = grids.filter((grid) => grid.begin.startsWith(`lightloom ${kind} `));
    const chosen = new Map();  // The level of each choice by the choice's name.
    if (!offered.length) return;
    let grid = offered[0];
    const form = make("form", { submit: (event) => event.preventDefault() });
    const above = make("div"), best = make("p", { class: "best", role: "status" }), below = make("div");
    const picture = make("div", { class: "picture" });
    root.append(form, make("div", { class: "answer" }, above, best, below), picture);

    function turn(subject, place) {
      grid = offered.find((each) => each.subject === subject && each.place === place) ?? offered.find((each) => each.subject === subject);
      choose();
      answer();
    }

    function choose() {
      const focused = document.activeElement?.closest?.("label")?.firstChild.textContent;
      const [subject, place] = WORDS[kind];
      const places = offered.filter((each) => each.subject === grid.subject).map((each) => each.place);
      form.replaceChildren(
        select(subject, [...new Set(offered.map((each) => each.subject))], grid.subject, (value) => turn(value, grid.place)),
        select(place, places, grid.place, (value) => turn(grid.subject, value)),
        ...grid.choices.map(fieldset),
      );
      for (const label of form.querySelectorAll(":scope > label")) {
        if (label.firstChild.textContent === focused) label.querySelector("select").focus();
      }
    }

    function fieldset({ name, levels }) {
      if (!levels.includes(chosen.get(name))) chosen.set(name, levels[0]);
      const radios = levels.map((value) => make(
        "label", {},
        make("input", {
          type: "radio", name: `${kind} ${name}`, value, checked: value === chosen.get(name),
          change: () => { chosen.set(name, value); answer(); },
        }),
        spelled(value),
      ));
      return make("fieldset", {}, make("legend", {}, name), make("div", { class: "levels" }, ...radios));
    }

    function answer() {
      const command = [grid.begin, ...grid.choices.map(({ name, option }) => option + chosen.get(name))].join(" ");
      const found = answers[command];
      above.replaceChildren(...found.warnings.map((line) => make("p", {}, `warning: ${line}`)), make("p", { class: "question" }, found.question));
      best.textContent = found.best[0];  // Stays in the page, so that a screen reader says what changes.
      below.replaceChildren(...words(command, found));
      picture.replaceChildren();
      if (found.lights) draw(picture, found);
    }

    choose();
    answer();
  }

  function words(command, found) {
    const seconds = Object.entries(found.seconds).map(([name, value]) => make("span", {}, `${name} `, make("b", {}, `${value < 1e-3 ? value.toExponential() : value} s`)));
    const facts = [
      ["What if", found.what_if.map((each) => make("span", {}, each))],
      ["Limit", [found.limit]],
      ["Rests on", found.rests ? [found.rests] : []],
      ["Exactly", seconds],
    ].filter(([, values]) => values.length);
    return [
      ...found.best.slice(1).map((line) => make("p", {}, line)),
      make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Ranking: ${found.question}` }, table(found)),
      make("p", { class: "legend" }, found.legend),
      make("dl", {}, ...facts.flatMap(([name, values]) => [make("dt", {}, name), make("dd", {}, ...values)])),
      make("p", { class: "legend" }, "The same in a terminal:"),
      make("pre", {}, make("code", {}, command)),
    ];
  }

  function table({ columns, rows }) {
    const numeric = columns.map((_, index) => index > 0 && rows.every((row) => /^[\s\d–≈<>−-]/.test(row[index])));
    // Lines break between words, and inside of long names, but not inside of "ZeRO-3".
    const whole = (text) => (text.includes(" ") ? text.split(" ").flatMap((word) => [make("span", {}, word), " "]).slice(0, -1) : [text]);
    const cells = (row, name, more = {}) => row.map((text, index) => make(name, { class: numeric[index] ? false : columns[index] ? "words" : "mark", ...more }, ...whole(text)));
    return make(
      "table", { class: "rows" },
      make("thead", {}, make("tr", {}, ...cells(columns, "th", { scope: "col" }))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row, "td")))),
    );
  }

  // Links across, wavelengths upwards, one picture for each way around: which rank's light is where in one step.
  function draw(root, found) {
    let light = lights[found.lights[0]], step = 0;
    const names = found.rows.map(([name]) => name);
    const rings = make("div", { class: "rings" });
    const range = make("input", { type: "range", min: 0, value: 0, "aria-label": "Step", input: () => go(Number(range.value)) });
    const words = make("output", {});
    const button = (text, by, name) => make("button", { type: "button", "aria-label": name, click: () => go(step + by) }, text);
    const back = button("‹", -1, "Previous step"), next = button("›", 1, "Next step");
    root.append(
      make(
        "form", { submit: (event) => event.preventDefault() },
        select("Wavelengths of", names, names[0], (name) => { light = lights[found.lights[names.indexOf(name)]]; go(0); }),
        make("fieldset", {}, make("legend", {}, "Step"), make("div", { class: "stepper" }, back, range, next, words)),
      ),
      rings,
      make("p", { class: "legend" }, "A cell is one wavelength on the link between two neighbours, in the colour and with the number of the rank whose light it carries; empty cells are dark."),
    );

    function go(to) {
      step = Math.max(0, Math.min(light.steps - 1, to));
      range.max = light.steps - 1;
      range.value = step;
      range.disabled = light.steps === 1;
      range.setAttribute("aria-valuetext", `step ${step + 1} of ${light.steps}`);
      back.disabled = step === 0;
      next.disabled = step === light.steps - 1;
      words.textContent = `${step + 1} of ${light.steps}`;
      rings.replaceChildren(...["Clockwise", "Counter-clockwise"].map((way, index) => ring(light, step, way, index)));
    }
    go(0);
  }

  function ring(light, step, way, index) {
    const { ranks, channels, rows } = light, width = 44, height = 24, left = 28;
    const colour = (rank) => `hsl(${(360 * rank) / ranks} 70% ${rank % 2 ? 62 : 74}%)`;
    const svg = make("svg", { viewBox: `0 0 ${left + width * ranks} ${height * channels + 32}`, role: "img" });
    const cell = (link, channel, kind, fill, ...inside) => make(
      "g", {},
      make("rect", { class: kind, x: left + width * link + 1, y: height * (channels - 1 - channel) + 1, width: width - 2, height: height - 2, rx: 2, ...fill }, ...inside),
    );
    for (let channel = 0; channel < channels; channel++) {
      svg.append(make("text", { class: "axis", x: left / 2, y: height * (channels - 0.5 - channel) + 4 }, String(channel)));
      for (let link = 0; link < ranks; link++) svg.append(cell(link, channel, "dark", {}));
    }
    for (let link = 0; link < ranks; link++) {
      const ends = `${link}–${(link + 1) % ranks}`;
      svg.append(make("text", { class: "axis", x: left + width * (link + 0.5), y: height * channels + 14 }, ends));
    }
    svg.append(make("text", { class: "axis", x: left + (width * ranks) / 2, y: height * channels + 28 }, "link between ranks; wavelengths upwards"));
    const sentences = [];
    for (const [at, source, destination, round, first, count, hops] of rows) {
      if (at !== step || round !== index) continue;
      const through = count > 1 ? `wavelengths ${first} to ${first + count - 1}` : `wavelength ${first}`;
      const sentence = `rank ${source} to rank ${destination}, ${hops} ${hops > 1 ? "links" : "link"}, ${through}`;
      sentences.push(sentence);
      const begin = index === 0 ? source : source - hops;
      for (let hop = 0; hop < hops; hop++) {
        const link = (begin + hop + ranks) % ranks;
        for (let channel = first; channel < first + count; channel++) {
          const lit = cell(link, channel, "lit", { fill: colour(source) }, make("title", {}, sentence));
          lit.append(make("text", { class: "inside", x: left + width * (link + 0.5), y: height * (channels - 0.5 - channel) }, String(source)));
          svg.append(lit);
        }
      }
    }
    const dark = "no light this way round in this step";
    svg.setAttribute("aria-label", `${way}, step ${step + 1}: ${sentences.join("; ") || dark}`);
    const caption = `${way}: ${sentences.length ? `${sentences.length} lightpaths` : dark}`;
    return make("figure", {}, make("figcaption", {}, caption), svg);
  }

  document.querySelectorAll(".ask").forEach(ask);

  // A worker keeps what the page has loaded, so that it can be opened again without a network; files need none.
  if (location.protocol.startsWith("http") && "serviceWorker" in navigator) {
    addEventListener("load", async () => {
      await navigator.serviceWorker.register("worker.js");
      const { active } = await navigator.serviceWorker.ready;
      const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
      active.postMessage([location.href.split("#")[0], ...loaded].filter((address) => address.startsWith(location.origin)));
    });
  }
})();
