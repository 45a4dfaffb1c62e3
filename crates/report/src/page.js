// Draws the page's charts in the colours of the page, and again when those change.
(() => {
  "use strict";
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const narrow = window.matchMedia("(max-width: 40rem)");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const painted = (trace) => {
    const own = colour(trace.meta.joint ? "joint" : `arm-${trace.meta.arm % 6}`);
    const copy = structuredClone(trace);
    copy.line = { ...copy.line, color: own };
    copy.marker = { ...copy.marker, color: own };
    if (copy.error_x) copy.error_x.color = own;
    if (trace.meta.band) copy.fillcolor = `${own}2e`;
    return copy;
  };

  // Metrics are few or many: each needs the same room.
  const height = (chart) =>
    chart.id.startsWith("verdicts-") ? 130 + 34 * new Set(chart.data.flatMap((t) => t.y)).size : undefined;

  // The margin, as a band across the chart or along it.
  const shade = (ends) => ({
    type: "rect", fillcolor: colour("band"), line: { width: 0 }, layer: "below", ...ends,
  });
  const bands = ({ band, level } = {}) => [
    ...(band ? [shade({ xref: "x", yref: "paper", x0: band[0], x1: band[1], y0: 0, y1: 1 })] : []),
    ...(level ? [shade({ xref: "paper", yref: "y", x0: 0, x1: 1, y0: level[0], y1: level[1] })] : []),
  ];

  // A title that keeps off the numbers beside it.
  const spaced = (axis) =>
    axis && axis.title ? { ...axis, title: { standoff: 14, ...axis.title } } : axis;

  const dressed = (chart) => {
    const { meta, xaxis, yaxis, ...rest } = structuredClone(chart.layout);
    const axis = {
      gridcolor: colour("line"), zerolinecolor: colour("soft"), linecolor: colour("line"),
      automargin: true, fixedrange: narrow.matches,
    };
    return {
      autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") },
      margin: { l: 56, r: 12, t: 30, b: 48 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("ink") } },
      // On a phone a finger scrolls the page and does not zoom the chart.
      dragmode: narrow.matches ? false : "zoom",
      shapes: bands(meta),
      ...rest, xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...spaced(yaxis) },
    };
  };

  const draw = () => {
    for (const chart of charts) {
      const place = document.getElementById(chart.id);
      if (height(chart)) place.style.height = `${height(chart)}px`;
      Plotly.react(place, chart.data.map(painted), dressed(chart), {
        responsive: true, displayModeBar: false, displaylogo: false,
        showEditInChartStudio: false, plotlyServerURL: "",
      });
    }
  };

  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
  draw();
})();
