const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
for (const figure of document.querySelectorAll(".chart")) {
  const { title, x, y, series } = JSON.parse(figure.querySelector("script").textContent);
  // uPlot has one list of x for all series: each point is an entry in which its own series alone has a value.
  const shown = ([, px, py]) => (!x.log || px > 0) && (!y.log || py > 0);
  const points = series.flatMap((s, place) => s.points.map(point => [place, ...point])).filter(shown).sort((a, b) => a[1] - b[1]);
  if (!points.length) continue;
  const data = [points.map(p => p[1]), ...series.map((_, place) => points.map(p => p[0] === place ? p[2] : null))];
  const number = value => value == null ? "–" : Number(value.toPrecision(4)).toLocaleString("en");
  const axis = of => ({ label: of.label, labelSize: 22, size: 56, values: (_, ticks) => ticks.map(t => t == null ? "" : number(t)) });
  // The nearest entry of a series' own.
  const nearest = (plot, place, index) => {
    const own = plot.data[place];
    if (place === 0 || own[index] != null) return index;
    for (let step = 1; step < own.length; step++) {
      if (own[index - step] != null) return index - step;
      if (own[index + step] != null) return index + step;
    }
    return index;
  };
  const size = () => ({ width: figure.clientWidth, height: Math.min(340, Math.max(260, figure.clientWidth * .6)) });
  const options = {
    ...size(), title,
    scales: { x: { time: false, distr: x.log ? 3 : 1 }, y: { distr: y.log ? 3 : 1 } },
    axes: [{ ...axis(x), size: 36 }, axis(y)],
    cursor: { drag: { x: true, y: true, uni: 20 }, dataIdx: nearest },
    series: [{ label: x.label, value: (_, v) => number(v) }, ...series.map((s, place) => {
      const stroke = COLOURS[place % COLOURS.length];
      const own = { label: s.name, stroke, value: (_, v) => number(v), spanGaps: true };
      return s.mark === "line" ? { ...own, width: 1.5, points: { show: s.points.length < 60, size: 5 } }
        : { ...own, paths: () => null, points: { show: true, size: s.mark === "marks" ? 11 : 5, fill: s.mark === "marks" ? "transparent" : stroke + "80", stroke } };
    })],
  };
  figure.querySelector("svg").remove();
  const plot = new uPlot(options, data, figure);
  figure.title = "drag to zoom, double-click to zoom out, click a name to hide it";
  addEventListener("resize", () => plot.setSize(size()));
}
