'use strict';
// Puts parts of the page that changed into their places. They come as text that is escaped already.
const lost = document.getElementById('lost');
const waiting = new Map();

function show(id, part) {
  const place = document.getElementById(id);
  if (!place) return;
  const folds = [...place.querySelectorAll('details')].map(fold => fold.open);
  const scrolls = [...place.querySelectorAll('.scroll')].map(box => [box.scrollLeft, box.scrollTop]);
  place.innerHTML = part;
  [...place.querySelectorAll('details')].forEach((fold, at) => { if (at in folds) fold.open = folds[at]; });
  [...place.querySelectorAll('.scroll')].forEach((box, at) => {
    if (at in scrolls) [box.scrollLeft, box.scrollTop] = scrolls[at];
  });
}

// What somebody points at stays until he leaves it: the value at that place would vanish under his pointer.
function isHeld(id) {
  const place = document.getElementById(id);
  return id === 'curves' && place && place.matches(':hover');
}

document.addEventListener('mouseout', () => {
  for (const [id, part] of waiting) {
    if (!isHeld(id)) { waiting.delete(id); show(id, part); }
  }
});

const source = new EventSource(document.body.dataset.events);
source.addEventListener('parts', event => {
  for (const [id, part] of Object.entries(JSON.parse(event.data))) {
    if (isHeld(id)) waiting.set(id, part); else show(id, part);
  }
});
source.onopen = () => { lost.hidden = true; };
source.onerror = () => { lost.hidden = false; };
