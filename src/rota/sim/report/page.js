"use strict";
const pictures = JSON.parse(document.getElementById("pictures").textContent);
const options = {
  responsive: true,
  displaylogo: false,
  // The page keeps to itself: no button sends it anywhere.
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtonsToRemove: ["select2d", "lasso2d"],
};

for (const [name, picture] of Object.entries(pictures.fixed)) {
  Plotly.newPlot(name, picture.data, picture.layout, options);
}

// All bars of a job share one text; it is stored once and spread out here.
function spread(picture) {
  for (const trace of picture.data) {
    trace.hovertext = trace.job.map((number) => picture.texts[number]);
  }
}

const buttons = document.querySelectorAll("#gantt-tabs button");
function show(number) {
  const picture = pictures.gantt[number];
  spread(picture);
  buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === number)));
  // The part that was zoomed into stays, so that policies can be compared in it.
  const shown = document.getElementById("gantt");
  if (shown.layout) {
    picture.layout.xaxis.range = [...shown.layout.xaxis.range];
    picture.layout.yaxis.range = [...shown.layout.yaxis.range];
  }
  Plotly.react(shown, picture.data, picture.layout, options);
}
buttons.forEach((button, number) => button.addEventListener("click", () => show(number)));
show(0);
