"use strict";
// Draws the error surface: strips of trapezoids, in each of which the loss is one number.
(async () => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const canvas = $("surface"), overlay = $("overlay"), reading = $("reading"), controls = $("controls");
  const SVG = "http://www.w3.org/2000/svg";
  // viridis, from low to high (Smith and van der Walt), every sixteenth colour
  const STOPS = ["440154", "48186a", "472d7b", "424086", "3b528b", "33638d", "2c728e", "26828e", "21918c",
    "1fa088", "28ae80", "3fbc73", "5ec962", "84d44b", "addc30", "d8e219", "fde725"]
    .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

  const node = (tag, attributes, text) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const shown = (value) => {
    const text = Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-4)
      ? value.toExponential(3) : String(Number(value.toPrecision(7)));
    return text.replace(/-/g, "\u2212");
  };
  const colour = (share) => {
    const at = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1), low = Math.min(Math.floor(at), STOPS.length - 2);
    return [0, 1, 2].map((k) => Math.round(STOPS[low][k] + (at - low) * (STOPS[low + 1][k] - STOPS[low][k])));
  };

  // One surface of the data as arrays: see lpmert/reporting/packing.py.
  const unpack = async (packed) => {
    const bytes = Uint8Array.from(atob(packed.data), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const numbers = new Int32Array(await new Response(stream).arrayBuffer());
    const n = packed.strips, count = packed.pieces;
    const tops = numbers.subarray(0, n), counts = numbers.subarray(n, 2 * n), starts = new Int32Array(n + 1);
    const column = (k) => numbers.subarray(2 * n + k * count, 2 * n + (k + 1) * count);
    const lower = column(0).slice(), upper = column(1).slice(), level = column(2).slice();
    for (let s = 0; s < n; s++) {
      starts[s + 1] = starts[s] + counts[s];
      for (let p = starts[s] + 1; p < starts[s + 1]; p++) {
        lower[p] += lower[p - 1];
        level[p] += level[p - 1];
      }
    }
    for (let p = 0; p < count; p++) upper[p] += lower[p];
    const sorted = packed.losses;
    return { packed, tops, starts, lower, upper, level, low: sorted[0], high: sorted[sorted.length - 1] };
  };

  // The first place whose end lies beyond a value.
  const beyond = (ends, value, from, to) => {
    while (from < to) {
      const middle = (from + to) >> 1;
      if (ends[middle] > value) to = middle; else from = middle + 1;
    }
    return from;
  };

  const lossAt = (of, x, y) => {  // 0 to 1, from the lower left corner
    const units = of.packed.units, s = Math.min(beyond(of.tops, y * units, 0, of.tops.length), of.tops.length - 1);
    const bottom = s ? of.tops[s - 1] : 0, share = (y * units - bottom) / (of.tops[s] - bottom);
    let p = of.starts[s];
    const last = of.starts[s + 1] - 1;
    while (p < last && of.lower[p] + share * (of.upper[p] - of.lower[p]) <= x * units) p++;
    return of.packed.losses[of.level[p]];
  };

  // Losses are shown by the square root of what they exceed the least by, up to the one that all but 2 % stay below.
  const shading = (of) => {
    const heights = new Float64Array(of.packed.losses.length);
    for (let s = 0; s < of.tops.length; s++) {
      const height = of.tops[s] - (s ? of.tops[s - 1] : 0);
      let left = 0;
      for (let p = of.starts[s]; p < of.starts[s + 1]; p++) {
        const end = (of.lower[p] + of.upper[p]) / 2;
        heights[of.level[p]] += height * (end - left);
        left = end;
      }
    }
    let top = heights.length - 1, rest = 0.02 * heights.reduce((a, b) => a + b, 0);
    while (top > 0 && (rest -= heights[top]) > 0) top--;
    const low = of.low, high = of.packed.losses[top];
    return { low, high, share: (loss) => (high > low ? Math.sqrt(Math.max(0, loss - low) / (high - low)) : 0) };
  };

  const paint = (of, shade) => {
    const ratio = Math.min(window.devicePixelRatio || 1, 2), box = canvas.getBoundingClientRect();
    const width = canvas.width = Math.max(1, Math.round(box.width * ratio));
    const height = canvas.height = Math.max(1, Math.round(box.height * ratio));
    const context = canvas.getContext("2d"), image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer), units = of.packed.units;
    const palette = of.packed.losses.map((loss) => {
      const [red, green, blue] = colour(shade.share(loss));
      return (255 << 24) | (blue << 16) | (green << 8) | red;
    });
    let s = 0;
    for (let line = height - 1; line >= 0; line--) {
      const y = ((height - line - 0.5) / height) * units;
      while (s < of.tops.length - 1 && of.tops[s] <= y) s++;
      const bottom = s ? of.tops[s - 1] : 0, share = (y - bottom) / (of.tops[s] - bottom);
      let at = line * width, column = 0;
      for (let p = of.starts[s]; p < of.starts[s + 1]; p++) {
        const end = p === of.starts[s + 1] - 1 ? units : of.lower[p] + share * (of.upper[p] - of.lower[p]);
        for (; column < width && ((column + 0.5) / width) * units < end; column++) pixels[at++] = palette[of.level[p]];
      }
    }
    context.putImageData(image, 0, 0);
  };

  const ticks = (low, high, most) => {
    const power = 10 ** Math.floor(Math.log10((high - low) / most));
    for (const size of [1, 2, 2.5, 5, 10, 20]) {
      const step = size * power, first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
      if (last - first + 1 <= most) return Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
    }
    return [];
  };

  let pair, packed, of, shade, point = null, drawn = 0;
  const place = () => {  // of the drawing in its box, and weights to places
    const box = $("plot").getBoundingClientRect(), inner = canvas.getBoundingClientRect();
    const left = inner.left - box.left, top = inner.top - box.top, { width, height } = inner;
    const [midX, midY] = pair.middle, [halfX, halfY] = packed.halves;
    return {
      left, top, width, height,
      x: (value) => left + width * (0.5 + (value - midX) / (2 * halfX)),
      y: (value) => top + height * (0.5 - (value - midY) / (2 * halfY)),
      ends: [midX - halfX, midX + halfX, midY - halfY, midY + halfY],
    };
  };

  const frame = () => {
    const at = place(), [x0, x1, y0, y1] = at.ends;
    const box = $("plot").getBoundingClientRect();
    overlay.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);  // on paper it is scaled with the drawing
    overlay.replaceChildren();
    const bottom = at.top + at.height, add = (...made) => overlay.append(...made);
    add(node("rect", { x: at.left, y: at.top, width: at.width, height: at.height, fill: "none", class: "axis" }));
    for (const value of ticks(x0, x1, at.width < 400 ? 4 : 6)) {
      add(node("line", { x1: at.x(value), x2: at.x(value), y1: bottom, y2: bottom + 5, class: "axis" }));
      add(node("text", { x: at.x(value), y: bottom + 18, class: "tick middle" }, shown(value)));
    }
    for (const value of ticks(y0, y1, 6)) {
      add(node("line", { x1: at.left - 5, x2: at.left, y1: at.y(value), y2: at.y(value), class: "axis" }));
      add(node("text", { x: at.left - 8, y: at.y(value) + 4, class: "tick end" }, shown(value)));
    }
    const up = at.top + at.height / 2;
    add(node("text", { x: at.left + at.width / 2, y: bottom + 36, class: "middle" }, pair.names[0]));
    add(node("text", { x: 13, y: up, transform: `rotate(-90 13 ${up})`, class: "middle" }, pair.names[1]));
    pair.marks.forEach((mark, k) => {
      if (!mark || mark[0] < x0 || mark[0] > x1 || mark[1] < y0 || mark[1] > y1) return;
      add(node("text", { x: at.x(mark[0]), y: at.y(mark[1]) + 5, class: "sign" }, String(k + 1)));
    });
    const [midX, midY] = pair.middle;
    for (const style of ["halo", "mark"]) add(node("circle", { cx: at.x(midX), cy: at.y(midY), r: 8, class: style }));
    if (point) {
      const x = at.left + point[0] * at.width, y = bottom - point[1] * at.height;
      add(node("line", { x1: x, x2: x, y1: at.top, y2: bottom, class: "cross" }));
      add(node("line", { x1: at.left, x2: at.left + at.width, y1: y, y2: y, class: "cross" }));
    }
  };

  const legend = () => {
    const svg = node("svg", { role: "img", "aria-label": `colours: loss from ${shown(shade.low)} to ${shown(shade.high)}` });
    const gradient = node("linearGradient", { id: "ramp" });
    STOPS.forEach((stop, k) => gradient.append(
      node("stop", { offset: k / (STOPS.length - 1), "stop-color": `rgb(${stop.join(",")})` })));
    svg.append(node("defs", {}), node("rect", { x: 0, y: 0, width: "100%", height: 12, fill: "url(#ramp)" }));
    svg.firstChild.append(gradient);
    const width = canvas.getBoundingClientRect().width;
    let last = -1;
    for (const value of [shade.low, ...ticks(shade.low, shade.high, 6), shade.high]) {
      const share = shade.share(value);
      const top = value === shade.high;
      if (top || (share - last > 60 / width && share < 1 - 130 / width)) {
        const more = top && of.high > shade.high ? " or more" : "";
        const anchor = share < 0.05 ? "start" : share > 0.95 ? "end" : "middle";
        svg.append(node("text", { x: `${100 * share}%`, y: 28, "text-anchor": anchor }, shown(value) + more));
        last = share;
      }
    }
    $("scale").replaceChildren(svg);
  };

  const words = () => {
    const exact = packed.exact >= 0.9995 ? "Every cell is drawn as it is."
      : (packed.exact < 0.005 ? "Cells are too small to be seen one by one: "
        : `${(100 * packed.exact).toFixed(0)} % of the height is drawn cell by cell; elsewhere cells are too small, and `) +
        "each strip shows the losses on the line through its middle, which are exact.";
    $("caption").textContent = `Loss over the weights of ${pair.names[0]} and ${pair.names[1]}, from ${shown(of.low)} to ` +
      `${shown(of.high)}. ${exact}` + (packed.rounded ? ` Losses are rounded to ${shown(packed.rounded)}.` : "");
    canvas.setAttribute("aria-label", $("caption").textContent);
    const [halfX, halfY] = packed.halves, [midX, midY] = pair.middle;
    const items = [["\u25cb", `${data.title}: loss ${shown(data.loss)}`]];
    data.marks.forEach((name, k) => {
      const mark = pair.marks[k];
      const inside = mark && Math.abs(mark[0] - midX) <= halfX && Math.abs(mark[1] - midY) <= halfY;
      items.push([String(k + 1), mark ? name + (inside ? "" : " (outside of this window)") : `${name} (not in this plane)`]);
    });
    $("key").replaceChildren(...items.map(([sign, name]) => {
      const item = document.createElement("li"), bold = document.createElement("b");
      bold.textContent = sign;
      item.append(bold, name);
      return item;
    }));
  };

  const read = () => {
    if (!point) { reading.textContent = ""; return; }
    const [x0, x1, y0, y1] = place().ends, [x, y] = point;
    const weights = [x0 + x * (x1 - x0), y0 + y * (y1 - y0)];
    reading.textContent = `loss ${shown(lossAt(of, x, y))} at ${pair.names[0]} = ${shown(weights[0])}, ` +
      `${pair.names[1]} = ${shown(weights[1])}`;
  };

  const draw = async () => {
    const turn = ++drawn;
    pair = data.pairs[Number($("pair").value)];
    packed = pair.windows[Number(controls.elements.window.value)];
    const unpacked = await unpack(packed);
    if (turn !== drawn) return;  // another choice was made meanwhile
    of = unpacked;
    shade = shading(of);
    paint(of, shade);
    frame();
    legend();
    words();
    read();
    document.documentElement.dataset.drawn = String(turn);
  };

  const move = (x, y) => {
    point = [Math.min(Math.max(x, 0), 1), Math.min(Math.max(y, 0), 1)];
    frame();
    read();
  };
  controls.addEventListener("change", draw);
  controls.addEventListener("submit", (event) => event.preventDefault());
  for (const kind of ["pointermove", "pointerdown"]) canvas.addEventListener(kind, (event) => {
    if (!of) return;
    const box = canvas.getBoundingClientRect();
    move((event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height);
  });
  const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  canvas.addEventListener("keydown", (event) => {
    const step = KEYS[event.key];
    if (!step || !of) return;
    event.preventDefault();
    const size = event.shiftKey ? 0.05 : 0.005, [x, y] = point || [0.5, 0.5];
    move(x + size * step[0], y + size * step[1]);
  });
  let waiting = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => { if (of) { paint(of, shade); frame(); } });
  }).observe($("plot"));
  await draw();
})();
