// The plan that a reader picks: its timeline, what takes the time, its memory; and wavelengths step by step.
"use strict";
{
  const data = JSON.parse(document.getElementById("explored").textContent);
  const INK = "#7c8798";  // reads on white and on black
  const byId = (id) => document.getElementById(id);

  function scaled(value, units) {
    const [factor, unit] = units.find(([least]) => value >= least) ?? units[units.length - 1];
    return `${Number((value / factor).toPrecision(4))} ${unit}`;
  }
  const time = (seconds) => scaled(seconds, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
  const size = (bytes) => scaled(bytes, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);

  function figure(options) {
    const drawn = Bokeh.Plotting.figure({
      sizing_mode: "stretch_width", toolbar_location: "above", background_fill_alpha: 0, border_fill_alpha: 0,
      outline_line_alpha: 0, ...options,
    });
    drawn.toolbar.logo = null;
    for (const axis of [drawn.xaxis, drawn.yaxis]) {
      axis.axis_line_color = axis.major_tick_line_color = axis.minor_tick_line_color = INK;
      axis.major_label_text_color = axis.axis_label_text_color = INK;
      axis.axis_label_text_font_style = "normal";
    }
    drawn.grid.grid_line_color = INK;
    drawn.grid.grid_line_alpha = 0.2;
    return drawn;
  }

  function table(place, columns, rows) {
    const numbers = columns.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === "object"));
    place.replaceChildren();
    const head = place.createTHead().insertRow();
    columns.forEach((name, column) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      if (numbers[column]) cell.className = "number";
      head.append(cell);
    });
    const body = place.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((value, column) => {
        const cell = line.insertCell();
        cell.textContent = numbers[column] ? value.text : value;
        if (numbers[column]) cell.className = "number";
      });
    }
  }
  const number = (text) => ({ text: String(text) });

  let timeline = null;
  function drawTimeline(plan) {
    const part = plan.step / data.resolution;
    const column = { lane: [], left: [], right: [], colour: [], name: [], kind: [], from: [], took: [] };
    for (const [lane, kind, start, duration, name, count] of plan.stretches) {
      column.lane.push(plan.lanes[lane]);
      column.left.push(start * part * 1e3);
      column.right.push((start + duration) * part * 1e3);
      column.colour.push(data.kinds[kind][1]);
      column.name.push(data.names[name] + (count > 1 ? ` and ${count - 1} more` : ""));
      column.kind.push(data.kinds[kind][0]);
      column.from.push(time(start * part));
      column.took.push(time(duration * part));
    }
    const factors = [...plan.lanes].reverse(), height = 110 + 24 * plan.lanes.length, end = plan.step * 1e3;
    const label = `milliseconds; the step takes ${time(plan.step)}`;
    if (timeline === null) timeline = newTimeline();
    const { drawn, source } = timeline;
    drawn.y_range.factors = factors;
    source.data = column;
    drawn.height = height;
    drawn.xaxis.axis_label = label;
    drawn.x_range.setv({ bounds: [0, end], start: 0, end, reset_start: 0, reset_end: end });
  }

  function newTimeline() {
    const drawn = figure({
      name: "timeline", y_range: new Bokeh.FactorRange({ factors: [] }), x_range: new Bokeh.Range1d({ start: 0, end: 1 }),
      tools: "reset",
    });
    const zoom = new Bokeh.BoxZoomTool({ dimensions: "width" });
    drawn.add_tools(zoom, new Bokeh.PanTool({ dimensions: "width" }));
    drawn.toolbar.active_drag = zoom;
    drawn.ygrid.grid_line_color = null;
    const source = new Bokeh.ColumnDataSource({ data: { lane: [], left: [], right: [], colour: [] } });
    drawn.hbar({
      y: { field: "lane" }, left: { field: "left" }, right: { field: "right" }, height: 0.8,
      fill_color: { field: "colour" }, line_color: "white", line_width: 0.3, source,
    });
    drawn.add_tools(
      new Bokeh.WheelZoomTool({ dimensions: "width", modifiers: { ctrl: true } }),
      new Bokeh.HoverTool({ tooltips: [["", "@name"], ["what", "@kind"], ["begins", "@from"], ["takes", "@took"]] }),
    );
    Bokeh.Plotting.show(drawn, byId("explored-timeline"));
    return { drawn, source };
  }

  function drawMemory(plan) {
    const total = plan.memory.reduce((sum, [, bytes]) => sum + bytes, 0);
    const whole = Math.max(total, plan.capacity ?? 0) || 1;
    const of = plan.capacity === null ? "" : ` of ${size(plan.capacity)}${total > plan.capacity ? ", more than there is" : ""}`;
    byId("explored-memory-total").textContent = `${size(total)}${of} on the fullest rank.`;
    const bar = byId("explored-memory-bar");
    bar.replaceChildren();
    plan.memory.forEach(([name, bytes], index) => {
      const piece = document.createElement("i");
      piece.style.width = `${(100 * bytes) / whole}%`;
      piece.style.background = `var(--memory-${index % 6})`;
      piece.title = `${name} ${size(bytes)}`;
      bar.append(piece);
    });
    const legend = byId("explored-memory-legend");
    legend.replaceChildren();
    plan.memory.forEach(([name, bytes], index) => {
      const entry = document.createElement("span"), patch = document.createElement("i");
      patch.style.background = `var(--memory-${index % 6})`;
      entry.append(patch, `${name} ${size(bytes)}`);
      legend.append(entry);
    });
  }

  function pick(place) {
    const plan = data.plans[place];
    for (const row of document.querySelectorAll("table.ranking tr.picked")) row.classList.remove("picked");
    document.querySelector(`table.ranking tr[data-place="${place}"]`).classList.add("picked");
    byId("explored-title").textContent = `Plan ${place}: ${plan.label}`;
    const lanes = plan.lanes.length < plan.resources ? `The busiest ${plan.lanes.length} of ${plan.resources} resources. ` : "";
    const joined = plan.joined ? `Neighbours of one kind shorter than ${time(plan.joined)} are drawn as one. ` : "";
    byId("explored-caption").textContent = `${lanes}${joined}Drag to zoom, Ctrl and wheel too; the circular arrow resets.`;
    drawTimeline(plan);
    const busy = plan.tasks.map(([name, kind, times, seconds, longest]) =>
      [name, data.kinds[kind][0], number(times), number(time(seconds)), number(time(longest))]);
    table(byId("explored-tasks"), ["operator or exchange", "what", "times", "together", "longest"], busy);
    byId("explored-exchanges-part").hidden = plan.exchanges.length === 0;
    table(byId("explored-exchanges"), ["collective", "ranks", "stride", "largest", "algorithm"], plan.exchanges);
    drawMemory(plan);
  }

  function drawLight(light) {
    const slider = byId("light-step"), words = byId("light-words");
    const rings = ["clockwise", "counter-clockwise"].map((way, index) => {
      const source = new Bokeh.ColumnDataSource({ data: columnOf(0, index) });
      const drawn = figure({
        name: `light-${index}`, height: 60 + Math.min(320, Math.max(120, 14 * light.channels)), title: way, tools: "box_zoom,reset",
        x_range: [-0.5, light.ranks - 0.5], y_range: [-0.5, light.channels - 0.5],
      });
      drawn.title.text_color = INK;
      drawn.xaxis.axis_label = "link";
      drawn.yaxis.axis_label = "wavelength";
      drawn.quad({
        left: { field: "left" }, right: { field: "right" }, bottom: { field: "bottom" }, top: { field: "top" },
        fill_color: { field: "colour" }, line_color: "white", line_width: 0.3, source,
      });
      drawn.add_tools(new Bokeh.HoverTool({ tooltips: [["light of", "@source"], ["to", "@destination"], ["links", "@links"]] }));
      Bokeh.Plotting.show(drawn, byId(`light-${index}`));
      return source;
    });

    function columnOf(at, ring) {
      const column = { left: [], right: [], bottom: [], top: [], colour: [], source: [], destination: [], links: [] };
      for (const [step, source, destination, way, channel, count, links] of light.rows) {
        if (step !== at || way !== ring) continue;
        // Clockwise link i joins ranks i and i + 1; counter-clockwise link i joins i + 1 and i.
        const first = way === 0 ? source : source - links;
        for (const turn of [-light.ranks, 0, light.ranks]) {
          const left = Math.max(first + turn, 0), right = Math.min(first + links + turn, light.ranks);
          if (left >= right) continue;
          column.left.push(left - 0.5);
          column.right.push(right - 0.5);
          column.bottom.push(channel - 0.5);
          column.top.push(channel + count - 0.5);
          column.colour.push(light.colours[source]);
          column.source.push(`rank ${source}`);
          column.destination.push(`rank ${destination}`);
          column.links.push(links);
        }
      }
      return column;
    }

    function show() {
      const at = Number(slider.value);
      const some = light.shown.length < light.steps ? `; ${light.shown.length} of them are in this page` : "";
      words.textContent = `step ${light.shown[at] + 1} of ${light.steps}${some}`;
      rings.forEach((source, ring) => { source.data = columnOf(at, ring); });
    }
    slider.max = light.shown.length - 1;
    slider.addEventListener("input", show);
    byId("light-title").textContent = light.title;
    show();
  }

  Bokeh.set_log_level("error");
  document.documentElement.classList.add("explores");
  for (const row of document.querySelectorAll("table.ranking tr[data-place]")) {
    const place = row.dataset.place;
    if (!(place in data.plans)) continue;
    row.classList.add("pickable");
    const button = document.createElement("button");
    button.type = "button";
    button.title = `Show the timeline, operators and memory of plan ${place}`;
    button.append(...row.cells[0].childNodes);
    row.cells[0].append(button);
    row.addEventListener("click", (event) => { if (event.target.closest("details") === null) pick(place); });
  }
  byId("explore").hidden = false;
  pick(Object.keys(data.plans)[0]);
  if (data.light) {
    byId("light").hidden = false;
    drawLight(data.light);
  }
}
